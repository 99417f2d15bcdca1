//! Whole lines in shared memory, several to a block: every number is read and written once for each axis.

use super::{
    Along, RADICES, Step, Transforms, all_lines, declines, has_grid, macros, number_bytes, real, source,
    work, write,
};
use crate::kernels::walked::sizes;
use crate::program::{Cuda, Program, fits};
use trimtab_core::{Decline, DeviceFacts, Fft, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, the largest radix of a pass, and lines of a block.
    pub struct LocalConfig { width, radix, lines }
}

/// In the order they are tried.
const CONFIGS: [[u32; 3]; 6] = [[128, 8, 1], [128, 4, 1], [64, 8, 4], [256, 4, 4], [256, 8, 1], [64, 2, 1]];

/// See the module.
#[derive(Debug)]
pub struct LocalKernel;

impl LocalConfig {
    fn blocks(self, axis: Along) -> u64 {
        (axis.numbers / axis.len.max(1)).div_ceil(self.lines.max(1).into())
    }

    fn is_legal(self, problem: &Fft, device: &DeviceFacts) -> bool {
        let fits = |axis: Along| {
            let bytes = 2 * axis.len * u64::from(self.lines) * number_bytes(problem);
            u32::try_from(bytes).is_ok_and(|bytes| fits(device, self.width, bytes))
        };
        all_lines(problem).into_iter().all(fits) && has_grid(&self, problem)
    }
}

impl Transforms for LocalConfig {
    fn width(&self) -> u32 {
        self.width
    }

    fn lines(&self, problem: &Fft, axis: Along, scale: f64) -> Vec<Step> {
        let settings = [
            ("WIDTH", self.width.into()),
            ("RADIX", self.radix.into()),
            ("LEN", axis.len),
            ("LINES", self.lines.into()),
        ];
        let lines = axis.numbers / axis.len.max(1);
        let given = sizes([lines, axis.inner]).chain([real(problem, scale)]).collect();
        let (source, macros) = (source(include_str!("local.cu")), macros(problem, &settings));
        vec![Step { source, entry: "fft_local", macros, blocks: self.blocks(axis), width: self.width, given }]
    }

    fn launches(&self, _: Along) -> u32 {
        1
    }

    fn barriers(&self, axis: Along) -> u64 {
        let doublings = axis.len.max(2).ilog2();
        self.blocks(axis) * u64::from(doublings.div_ceil(self.radix.max(2).ilog2()) + 1)
    }
}

impl Variant<Cuda> for LocalKernel {
    type Problem = Fft;
    type Config = LocalConfig;

    identity!("cuda.fft.local", Parallel);

    fn declines(&self, problem: &Fft, device: &DeviceFacts) -> Option<Decline> {
        let long = || Decline::because("twice a line does not fit shared memory");
        declines(problem, device).or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<LocalConfig> {
        if declines(problem, device).is_some() {
            return Vec::new();
        }
        let all = CONFIGS.map(|[width, radix, lines]| LocalConfig { width, radix, lines });
        all.into_iter().filter(|config| config.is_legal(problem, device)).collect()
    }

    fn work(&self, problem: &Fft, config: LocalConfig, _: &DeviceFacts) -> Work {
        work(&config, problem)
    }

    fn launch(&self, problem: &Fft, config: LocalConfig, program: &mut Program) -> Result<(), LaunchError> {
        let sound = (1..=1024).contains(&config.width) && (1..=64).contains(&config.lines);
        if !sound || !RADICES.contains(&config.radix) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        write(&config, problem, program)
    }
}
