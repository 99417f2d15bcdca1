//! One result a thread, straight from memory.

use super::{declines, has_grid, product_source, work, write};
use crate::program::{Cuda, Program, fits};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Threads of a block along a row and along a column of the product.
    pub struct NaiveConfig { wx, wy }
}

/// Blocks, in the order they are tried.
const BLOCKS: [[u32; 2]; 5] = [[32, 8], [16, 16], [32, 4], [32, 32], [128, 1]];

/// See the module.
#[derive(Debug)]
pub struct NaiveKernel;

impl Variant<Cuda> for NaiveKernel {
    type Problem = Matmul;
    type Config = NaiveConfig;

    identity!("cuda.matmul.naive", Parallel);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        let reason = "the product has more rows than a grid";
        declines(problem, device)
            .or_else(|| (!has_grid(problem, [8, 32])).then_some(Decline::because(reason)))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<NaiveConfig> {
        let legal = |[wx, wy]: &[u32; 2]| fits(device, wx * wy, 0) && has_grid(problem, [*wy, *wx]);
        BLOCKS.into_iter().filter(legal).map(|[wx, wy]| NaiveConfig { wx, wy }).collect()
    }

    fn work(&self, problem: &Matmul, config: NaiveConfig, _: &DeviceFacts) -> Work {
        let Matmul { m, n, k, .. } = *problem;
        // Every inner product walks a row and a column anew.
        work(problem, 2 * m * k * n + m * n, [config.wy, config.wx], config.wx * config.wy, 0)
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: NaiveConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let NaiveConfig { wx, wy } = config;
        if !(1..=1024).contains(&(wx.saturating_mul(wy))) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source = (product_source!("naive.cu"), "matmul_naive");
        write(problem, source, &[("WX", wx), ("WY", wy)], [wy, wx], [wx, wy, 1], program)
    }
}
