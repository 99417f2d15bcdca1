//! A product of weights and windows by blocks, whose matrix is never written.

use super::{declines, given, macros, source, work};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, MAX_GRID, Program, fits};
use trimtab_core::{Conv, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Channels and places of a block, products between barriers, channels and places of a thread.
    pub struct ImplicitConfig { bm, bn, bk, tm, tn }
}

/// Elements rows are longer in shared memory, see the blocked product.
const PAD: u32 = 4;
/// In the order they are tried.
const CONFIGS: [[u32; 5]; 5] =
    [[64, 64, 8, 4, 4], [32, 64, 16, 4, 4], [64, 128, 8, 4, 8], [32, 32, 16, 2, 2], [16, 64, 16, 2, 4]];

/// See the module.
#[derive(Debug)]
pub struct ImplicitKernel;

/// Places of the result, those of all images together.
fn places(problem: &Conv) -> u64 {
    let out: usize = problem.window.out().iter().product();
    (out as u64).saturating_mul(problem.batch() as u64)
}

impl ImplicitConfig {
    fn threads(self) -> u32 {
        (self.bm / self.tm.max(1)) * (self.bn / self.tn.max(1))
    }

    fn grid(self, problem: &Conv) -> [u64; 3] {
        let rows = (problem.group_outputs() as u64).div_ceil(self.bm.max(1).into());
        [places(problem).div_ceil(self.bn.max(1).into()), rows, problem.groups() as u64]
    }
}

impl Variant<Cuda> for ImplicitKernel {
    type Problem = Conv;
    type Config = ImplicitConfig;

    identity!("cuda.conv.implicit", Tiled);

    fn declines(&self, problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<ImplicitConfig> {
        let all = CONFIGS.map(|[bm, bn, bk, tm, tn]| ImplicitConfig { bm, bn, bk, tm, tn });
        let bytes = computed_bytes(problem.dtype) as u32;
        let legal = |config: &ImplicitConfig| {
            let shared = config.bk * (config.bm + config.bn + 2 * PAD) * bytes;
            let grid = config.grid(problem).iter().zip(MAX_GRID).all(|(size, most)| *size <= most);
            fits(device, config.threads(), shared) && grid
        };
        all.into_iter().filter(legal).collect()
    }

    fn work(&self, problem: &Conv, config: ImplicitConfig, _: &DeviceFacts) -> Work {
        let blocks = config.grid(problem).iter().fold(1u64, |all, size| all.saturating_mul(*size));
        let each = u64::from(config.bm + config.bn).saturating_mul(problem.depth());
        let mut work =
            work(problem, blocks.saturating_mul(each), blocks.saturating_mul(config.threads().into()));
        work.barriers = blocks.saturating_mul(2 * problem.depth().div_ceil(config.bk.max(1).into()));
        work
    }

    fn launch(
        &self,
        problem: &Conv,
        config: ImplicitConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let ImplicitConfig { bm, bn, bk, tm, tn } = config;
        let whole = tm > 0 && tn > 0 && bk > 0 && bm % tm == 0 && bn % tn == 0;
        if !whole || !(1..=1024).contains(&config.threads()) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let settings = [("BM", bm), ("BN", bn), ("BK", bk), ("TM", tm), ("TN", tn), ("PAD", PAD)];
        let (macros, given) = (macros(problem, &settings), given(problem, &[places(problem)]));
        let (grid, block) = (config.grid(problem), [config.threads(), 1, 1]);
        program.push(source(include_str!("implicit.cu")), "conv_implicit", macros, grid, block, given)
    }
}
