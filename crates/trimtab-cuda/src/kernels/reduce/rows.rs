//! A block a result.

use super::{declines, work, write};
use crate::program::{Cuda, MAX_GRID, Program, fits};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Threads of a block.
    pub struct RowsConfig { width }
}

/// See the module.
#[derive(Debug)]
pub struct RowsKernel;

impl Variant<Cuda> for RowsKernel {
    type Problem = Reduce;
    type Config = RowsConfig;

    identity!("cuda.reduce.rows", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let many = problem.out_len() > MAX_GRID[0];
        declines(problem, device).or_else(|| many.then_some(Decline::because("more results than blocks")))
    }

    fn configs(&self, _: &Reduce, device: &DeviceFacts) -> Vec<RowsConfig> {
        let all = [256, 128, 64, 512, 1024].map(|width| RowsConfig { width });
        all.into_iter().filter(|config| fits(device, config.width, 256)).collect()
    }

    fn work(&self, problem: &Reduce, config: RowsConfig, _: &DeviceFacts) -> Work {
        work(problem, problem.out_len() * u64::from(config.width), problem.out_len())
    }

    fn launch(&self, problem: &Reduce, config: RowsConfig, program: &mut Program) -> Result<(), LaunchError> {
        let width = config.width;
        if !(32..=1024).contains(&width) || !width.is_multiple_of(32) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source = concat!(include_str!("../number.cu"), include_str!("fold.cu"), include_str!("rows.cu"));
        write(problem, (source, "reduce_rows"), width, problem.out_len(), program)
    }
}
