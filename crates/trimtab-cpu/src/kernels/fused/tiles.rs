//! Recipes without a product in one pass: threads take pieces of the result as they get free.

use super::ends::Ends;
use super::machine::{How, Recipe};
use super::{bytes_walked, flops};
use crate::args::{Args, Cpu, Inputs, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::ops::Operand;
use crate::kernels::elementwise::{last_cache, thread_counts};
use crate::kernels::reduce::fold::Foldable;
use crate::kernels::{lanes_of, shared_work};
use crate::simd::Levels;
use trimtab_core::{Decline, DeviceFacts, Fused, LaunchError, Variant, Work};

trimtab_core::config! {
    /// `lanes` of `f32` in a vector (half as many of `f64`), threads, elements a thread takes at once, and whether stores
    /// pass the caches.
    pub struct TilesConfig { lanes, threads, tile, stream }
}

/// Arithmetic from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE_FLOPS: u64 = 256 << 10;
/// Elements from which it can whatever the arithmetic.
const SHAREABLE_ELEMENTS: u64 = 32 << 10;
/// Elements a thread takes at once.
const TILES: [u32; 2] = [64 << 10, 8 << 10];
/// Where caches are unknown, results from here on are offered streamed stores.
const STREAM_BYTES_MIN: u64 = 4 << 20;

/// See the module.
#[derive(Debug)]
pub struct TilesKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

impl Variant<Cpu> for TilesKernel {
    type Problem = Fused;
    type Config = TilesConfig;

    identity!("cpu.fused.tiles", Tiled);

    fn declines(&self, problem: &Fused, _: &DeviceFacts) -> Option<Decline> {
        problem.product().map(|_| Decline::because("begins with a product"))
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<TilesConfig> {
        let shareable = problem.len() >= SHAREABLE_ELEMENTS || flops(problem).0 >= SHAREABLE_FLOPS;
        let out_bytes = problem.out_len().saturating_mul(problem.dtype.size());
        let cache = last_cache(device).map_or(STREAM_BYTES_MIN, |cache| cache.0);
        let streamable = problem.end().is_none() && out_bytes > cache / 2 && problem.inner() >= 1024;
        let stream_first = streamable && bytes_walked(problem).0 > cache;
        let mut configs = Vec::new();
        for (rank, lanes) in self.levels.lanes(device.vector_bytes).take(2).enumerate() {
            for threads in thread_counts(device, shareable, 3) {
                let streams = streamable && self.levels.streams(lanes);
                for stream in if stream_first && streams { [1, 0] } else { [0, 1] } {
                    // A tile is what a thread takes: for one thread all are alike.
                    for (nth, tile) in TILES.into_iter().enumerate() {
                        // The narrower vectors with one of each: they win by clock frequency or not at all.
                        let tried = rank == 0 || (nth == 0 && stream == u32::from(stream_first && streams));
                        let split = threads > 1 && problem.len() > u64::from(tile);
                        if tried && (stream == 0 || streams) && (nth == 0 || split) {
                            configs.push(TilesConfig { lanes, threads, tile, stream });
                        }
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Fused, config: TilesConfig, _: &DeviceFacts) -> Work {
        let lanes = lanes_of(problem.dtype, config.lanes);
        shared_work(flops(problem), bytes_walked(problem), config.threads, lanes)
    }

    #[inline]
    fn launch(&self, problem: &Fused, config: TilesConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl TilesKernel {
    fn run<T: Operand + Foldable>(&self, problem: &Fused, config: TilesConfig, args: Args<'_>) -> Launched {
        let level = match self.levels.get(config.lanes) {
            Some(level) if problem.product().is_none() && config.tile > 0 => level,
            _ => return Err(LaunchError::Point(format!("{config:?}"))),
        };
        let Inputs { inputs, out, pool } = args.recipe::<T>(problem)?;
        let recipe = Recipe::new(problem, inputs);
        if let Some((op, over)) = problem.end() {
            let (rows, columns) = (problem.outer() as usize, problem.inner() as usize);
            let (threads, tile) = (config.threads, config.tile as usize);
            let ends = Ends { recipe: &recipe, level, rows, columns, over, threads, tile, out, pool };
            return ends.run(problem, op);
        }
        let how = How { level, stream: config.stream != 0 };
        let len = out.len();
        let out = Disjoint::new(out);
        let tile = if config.threads > 1 { config.tile as usize } else { len.max(1) };
        pool.run(config.threads, len.div_ceil(tile), &|task| {
            let start = task * tile;
            let tile = tile.min(len - start);
            // SAFETY: lengths were checked, and every task has its own part of the result.
            unsafe { recipe.compute(how, start, tile, out.part(start..start + tile).as_mut_ptr()) };
        });
        Ok(())
    }
}
