//! A thread a result, neighbours down neighbouring columns.

use super::{declines, work, write};
use crate::program::{Cuda, Program, fits};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Threads of a block.
    pub struct ColumnsConfig { width }
}

/// Fewer columns than this are not neighbours worth the name.
const LEAST_COLUMNS: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct ColumnsKernel;

impl Variant<Cuda> for ColumnsKernel {
    type Problem = Reduce;
    type Config = ColumnsConfig;

    identity!("cuda.reduce.columns", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let few = problem.inner < LEAST_COLUMNS;
        declines(problem, device).or_else(|| few.then_some(Decline::because("takes eight columns and more")))
    }

    fn configs(&self, _: &Reduce, device: &DeviceFacts) -> Vec<ColumnsConfig> {
        let all = [128, 64, 256].map(|width| ColumnsConfig { width });
        all.into_iter().filter(|config| fits(device, config.width, 0)).collect()
    }

    fn work(&self, problem: &Reduce, _: ColumnsConfig, _: &DeviceFacts) -> Work {
        work(problem, problem.out_len(), 0)
    }

    fn launch(
        &self,
        problem: &Reduce,
        config: ColumnsConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let width = config.width;
        if !(32..=1024).contains(&width) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source =
            concat!(include_str!("../number.cu"), include_str!("fold.cu"), include_str!("columns.cu"));
        write(problem, (source, "reduce_columns"), width, problem.out_len().div_ceil(width.into()), program)
    }
}
