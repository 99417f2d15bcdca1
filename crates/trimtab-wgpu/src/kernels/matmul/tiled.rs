//! One result an invocation; a workgroup shares a square tile of each operand, so that memory is read once a tile.

use super::layout::{Layout, Shape, Vectors, head, sum_bytes, too_narrow, worthwhile};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{
    AdapterClass, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Matmul, Variant, Work,
};

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
        let mut first = true;
        configs.retain(|config| {
            let TiledConfig { tile, depth } = *config;
            let twin = !std::mem::take(&mut first) && *config == default;
            let legal =
                layout.fits(adapter, [tile, tile, 1], workgroup_bytes(problem.dtype, *config), [tile, tile]);
            // Sides twice as long as the product only idle, and so do layers behind the inner axis.
            let idle = u64::from(tile / 2) >= problem.m.max(problem.n) && tile > 8
                || depth > 1 && u64::from(tile * depth / 2) >= problem.k;
            legal && !twin && (*config == default || !idle)
        });
        worthwhile(problem, configs)
    }

    fn work(&self, problem: &Matmul, config: TiledConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let TiledConfig { tile, depth } = config;
        let (all, largest, launches) = layout.groups([tile, tile]);
        let rounds = problem.k.div_ceil(u64::from(tile * depth).max(1));
        let walked = problem.m * problem.k * problem.n.div_ceil(u64::from(tile))
            + problem.k * problem.n * problem.m.div_ceil(u64::from(tile))
            + problem.m * problem.n;
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(walked.saturating_mul(problem.batch).saturating_mul(problem.dtype.size())),
            launches,
            threads: 1,
            lanes: 1,
            barriers: 2 * rounds * all,
            invocations: largest * u64::from(tile * tile),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Matmul, config: TiledConfig, writer: Writer<'_>) -> Launched {
        let TiledConfig { tile, depth } = config;
        if !(1..=64).contains(&tile) || !(1..=64).contains(&depth) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let shape = Shape {
            text: head(problem.dtype, Vectors::NONE) + include_str!("tiled.wgsl"),
            constants: vec![("TILE", tile.into()), ("DEPTH", depth.into())],
            subgroups: false,
            workgroup: [tile, tile, 1],
            workgroup_bytes: workgroup_bytes(problem.dtype, config),
            tile: [tile, tile],
        };
        layout.write(shape, writer)
    }
}
