//! Permutation by square tiles that fit the first cache: lines are read and written whole.

use super::tiles::{copy_tile, for_tiles};
use super::{Axes, SHAREABLE_ELEMENTS, moved, work};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::units::Unit;
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Side of a tile in elements, and threads.
    pub struct TiledConfig { tile, threads }
}

/// Sides of tiles. Small first: where rows are a power of two apart (1024×1024 f32) a tile of 32 evicts itself and takes
/// twice as long as one of 16.
const TILES: [u32; 5] = [16, 8, 32, 64, 128];

/// See the module.
#[derive(Debug)]
pub struct TiledKernel;

impl Variant<Cpu> for TiledKernel {
    type Problem = Transpose;
    type Config = TiledConfig;

    identity!("cpu.transpose.tiled", Tiled);

    fn takes(&self, _: DType) -> bool {
        true
    }

    fn declines(&self, problem: &Transpose, _: &DeviceFacts) -> Option<Decline> {
        Axes::keeps_rows(problem).then(|| {
            let last = problem.dims().last().copied().unwrap_or(0);
            Decline::from(format!("the last axis stays last: rows of {last} elements are copied whole"))
        })
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<TiledConfig> {
        // A tile wider than both axes moves the same elements in the same order as the next smaller one.
        let (wide, high) = sides(problem);
        let mut tiles: Vec<u32> =
            TILES.into_iter().filter(|&tile| tile == 8 || u64::from(tile / 2) < wide.max(high)).collect();
        // Read and written tile in the first cache.
        let cache = device.cache(1).map_or(u64::MAX, |cache| cache.0);
        tiles.retain(|&tile| tile <= 32 || 2 * u64::from(tile).pow(2) * problem.dtype.size() <= 4 * cache);
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.len() >= SHAREABLE_ELEMENTS, 4) {
            configs.extend(tiles.iter().map(|&tile| TiledConfig { tile, threads }));
        }
        configs
    }

    fn work(&self, problem: &Transpose, config: TiledConfig, _: &DeviceFacts) -> Work {
        work(problem, config.threads, 1)
    }

    #[inline]
    fn launch(&self, problem: &Transpose, config: TiledConfig, args: Args<'_>) -> Launched {
        if Axes::keeps_rows(problem) || config.tile == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

/// The operand's last axis and the result's last axis.
pub(super) fn sides(problem: &Transpose) -> (u64, u64) {
    let wide = problem.dims().last().copied().unwrap_or(1);
    let high = problem.permutation().last().and_then(|&axis| problem.dims().get(axis as usize)).copied();
    (wide, high.unwrap_or(1))
}

fn run<U: Unit>(problem: &Transpose, config: TiledConfig, args: Args<'_>) -> Launched {
    let typed = moved::<U>(problem, args)?;
    for_tiles(&Axes::new(problem), typed, config.tile as usize, config.threads, |tile| {
        // SAFETY: the tile lies within the slices, which live until `for_tiles` returns, and is ours alone.
        unsafe { copy_tile(tile) };
    });
    Ok(())
}
