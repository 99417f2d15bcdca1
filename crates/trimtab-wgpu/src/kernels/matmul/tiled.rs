//! One result an invocation; a workgroup shares a square tile of each operand, so that memory is read once a tile.

use super::layout::{Layout, Shape, Vectors, shader, sum_bytes, too_narrow, worthwhile};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{AdapterClass, DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Side of a tile, and tiles along the inner axis between two barriers.
    pub struct TiledConfig { tile, depth }
}

/// Below this most of a tile stands for nothing.
const LEAST_SIDE: u64 = 4;

/// See the module.
#[derive(Debug)]
pub struct TiledKernel;

fn workgroup_bytes(dtype: DType, config: TiledConfig) -> u32 {
    2 * config.tile * config.tile * config.depth * sum_bytes(dtype)
}

impl Variant<Gpu> for TiledKernel {
    type Problem = Matmul;
    type Config = TiledConfig;

    identity!("gpu.matmul.tiled", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        Layout::on(problem, device).err().or_else(|| too_narrow(problem, LEAST_SIDE))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<TiledConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        // Fewest barriers for software (0.32 Gflop/s of processor time where 8 deep 4 has 0.24); for the others what leaves
        // room for several workgroups at a time.
        let default = match adapter.class {
            AdapterClass::Software if problem.m.min(problem.n) > 16 => TiledConfig { tile: 32, depth: 1 },
            _ => TiledConfig { tile: 16, depth: 1 },
        };
        let mut configs = vec![default];
        for tile in [8, 16, 32] {
            configs.extend([1, 4].map(|depth| TiledConfig { tile, depth }));
        }
        let legal = |config: TiledConfig| {
            let (tile, bytes) = (config.tile, workgroup_bytes(problem.dtype, config));
            layout.fits(adapter, [tile, tile, 1], bytes, [tile, tile])
        };
        // Sides twice as long as the product only idle, and so do layers behind the inner axis.
        let idle = |TiledConfig { tile, depth }: TiledConfig| {
            u64::from(tile / 2) >= problem.m.max(problem.n) && tile > 8
                || depth > 1 && u64::from(tile * depth / 2) >= problem.k
        };
        worthwhile(problem, configs, legal, idle)
    }

    fn work(&self, problem: &Matmul, config: TiledConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let TiledConfig { tile, depth } = config;
        let rounds = problem.k.div_ceil(u64::from(tile * depth).max(1));
        let walked = problem.m * problem.k * problem.n.div_ceil(u64::from(tile))
            + problem.k * problem.n * problem.m.div_ceil(u64::from(tile))
            + problem.m * problem.n;
        layout.work([tile, tile], walked, [tile, tile, 1], 1, 2 * rounds)
    }

    fn launch(&self, problem: &Matmul, config: TiledConfig, writer: Writer<'_>) -> Launched {
        let TiledConfig { tile, depth } = config;
        if !(1..=64).contains(&tile) || !(1..=64).contains(&depth) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let shape = Shape {
            text: shader(problem.dtype, Vectors::NONE, include_str!("tiled.wgsl")),
            constants: vec![("TILE", tile.into()), ("DEPTH", depth.into())],
            subgroups: false,
            workgroup: [tile, tile, 1],
            workgroup_bytes: workgroup_bytes(problem.dtype, config),
            tile: [tile, tile],
        };
        layout.write(shape, writer)
    }
}
