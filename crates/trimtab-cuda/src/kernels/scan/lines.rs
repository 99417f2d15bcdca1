//! A thread a line: no barriers, good where there are many lines side by side.

use super::{declines, lines, macros, source, work};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads of a block.
    pub struct LinesConfig { width }
}

/// See the module.
#[derive(Debug)]
pub struct LinesKernel;

impl LinesConfig {
    fn blocks(self, problem: &Scan) -> u64 {
        lines(problem).div_ceil(self.width.max(1).into())
    }
}

impl Variant<Cuda> for LinesKernel {
    type Problem = Scan;
    type Config = LinesConfig;

    identity!("cuda.scan.lines", Parallel);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<LinesConfig> {
        let all = [128, 64, 256].map(|width| LinesConfig { width });
        let legal =
            |config: &LinesConfig| fits(device, config.width, 0) && config.blocks(problem) <= MAX_GRID[0];
        all.into_iter().filter(legal).collect()
    }

    fn work(&self, problem: &Scan, config: LinesConfig, _: &DeviceFacts) -> Work {
        Work { invocations: config.blocks(problem) * u64::from(config.width), ..work(problem, 1) }
    }

    fn launch(&self, problem: &Scan, config: LinesConfig, program: &mut Program) -> Result<(), LaunchError> {
        let width = config.width;
        if !(1..=1024).contains(&width) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let sizes = [lines(problem), problem.len, problem.inner].map(|size| StepArgument::U32(size as u32));
        let given = [StepArgument::Input(0), StepArgument::Out].into_iter().chain(sizes).collect();
        let (grid, macros) = ([config.blocks(problem), 1, 1], macros(problem, &[("WIDTH", width)]));
        program.push(source(include_str!("lines.cu")), "scan_lines", macros, grid, [width, 1, 1], given)
    }
}
