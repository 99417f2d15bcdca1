//! A block of results a thread, straight from memory: some channels at neighbouring places.

use super::{declines, given, macros, source, work};
use crate::program::{Cuda, MAX_GRID, Program, fits};
use trimtab_core::{Conv, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, and channels and neighbouring places of the result that one computes.
    pub struct DirectConfig { width, channels, places }
}

/// In the order they are tried.
const CONFIGS: [[u32; 3]; 6] = [[128, 4, 2], [128, 4, 4], [128, 1, 4], [128, 1, 1], [256, 2, 2], [64, 8, 2]];

/// See the module.
#[derive(Debug)]
pub struct DirectKernel;

impl DirectConfig {
    /// Blocks of results along a row, and over the channels of a group.
    fn shares(self, problem: &Conv) -> [u64; 2] {
        let along = |length: usize, side: u32| (length as u64).div_ceil(side.max(1).into());
        [along(problem.window.out()[2], self.places), along(problem.group_outputs(), self.channels)]
    }

    fn items(self, problem: &Conv) -> u64 {
        let [depth, height, _] = problem.window.out();
        let planes = (problem.batch() * problem.groups() * depth * height) as u64;
        self.shares(problem).iter().fold(planes, |all, shares| all.saturating_mul(*shares))
    }

    fn blocks(self, problem: &Conv) -> u64 {
        self.items(problem).div_ceil(self.width.max(1).into())
    }
}

impl Variant<Cuda> for DirectKernel {
    type Problem = Conv;
    type Config = DirectConfig;

    identity!("cuda.conv.direct", Parallel);

    fn declines(&self, problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<DirectConfig> {
        let mut kept: Vec<DirectConfig> = Vec::new();
        for [width, mut channels, mut places] in CONFIGS {
            // Sides longer than what there is only idle.
            while channels > 1 && channels as usize / 2 >= problem.group_outputs() {
                channels /= 2;
            }
            while places > 1 && places as usize / 2 >= problem.window.out()[2] {
                places /= 2;
            }
            let config = DirectConfig { width, channels, places };
            let legal = fits(device, width, 0) && config.blocks(problem) <= MAX_GRID[0];
            if legal && !kept.contains(&config) {
                kept.push(config);
            }
        }
        kept
    }

    fn work(&self, problem: &Conv, config: DirectConfig, _: &DeviceFacts) -> Work {
        let items = config.items(problem);
        let each = u64::from(config.channels) + u64::from(config.places);
        let reads = items.saturating_mul(problem.depth()).saturating_mul(each);
        work(problem, reads, items)
    }

    fn launch(&self, problem: &Conv, config: DirectConfig, program: &mut Program) -> Result<(), LaunchError> {
        let DirectConfig { width, channels, places } = config;
        let sound = [channels, places].iter().all(|side| (1..=8).contains(side));
        if !sound || !(1..=1024).contains(&width) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let macros = macros(problem, &[("WIDTH", width), ("CHANNELS", channels), ("PLACES", places)]);
        let [along, over] = config.shares(problem);
        let given = given(problem, &[config.items(problem), along, over]);
        let grid = [config.blocks(problem), 1, 1];
        program.push(source(include_str!("direct.cu")), "conv_direct", macros, grid, [width, 1, 1], given)
    }
}
