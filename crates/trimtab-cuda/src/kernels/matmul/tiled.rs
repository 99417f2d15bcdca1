//! One result a thread; a block shares a square tile of each operand, so that memory is read once a tile.

use super::{declines, has_grid, product_source, work, write};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, Program, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Side of a tile, and elements its rows are longer in shared memory.
    pub struct TiledConfig { tile, pad }
}

/// Below this most of a tile stands for nothing.
const LEAST_SIDE: u64 = 4;

/// See the module.
#[derive(Debug)]
pub struct TiledKernel;

fn shared_bytes(dtype: DType, config: TiledConfig) -> u32 {
    2 * config.tile * (config.tile + config.pad) * computed_bytes(dtype) as u32
}

impl Variant<Cuda> for TiledKernel {
    type Problem = Matmul;
    type Config = TiledConfig;

    identity!("cuda.matmul.tiled", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        let narrow = problem.m.min(problem.n) < LEAST_SIDE || !has_grid(problem, [8, 8]);
        declines(problem, device)
            .or_else(|| narrow.then_some(Decline::because("the product is too narrow or too tall for tiles")))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<TiledConfig> {
        let all = [16, 32, 8].into_iter().flat_map(|tile| [1, 0].map(|pad| TiledConfig { tile, pad }));
        let legal = |config: &TiledConfig| {
            let threads = config.tile * config.tile;
            fits(device, threads, shared_bytes(problem.dtype, *config)) && has_grid(problem, [config.tile; 2])
        };
        all.filter(legal).collect()
    }

    fn work(&self, problem: &Matmul, config: TiledConfig, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, side) = (*problem, u64::from(config.tile.max(1)));
        let walked = m * k * n.div_ceil(side) + k * n * m.div_ceil(side) + m * n;
        work(problem, walked, [config.tile.max(1); 2], config.tile * config.tile, k.div_ceil(side))
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: TiledConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let TiledConfig { tile, pad } = config;
        if !(1..=32).contains(&tile) || pad > 8 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source = (product_source!("tiled.cu"), "matmul_tiled");
        write(problem, source, &[("TILE", tile), ("PAD", pad)], [tile; 2], [tile, tile, 1], program)
    }
}
