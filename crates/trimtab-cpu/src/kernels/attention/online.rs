//! Blocks of queries against blocks of keys: scores and weights of a block never leave the caches, and what was summed before is
//! corrected when a larger score turns up.

use super::{Heads, Multiply, Weigh, declines, factor, given, threads, with_slabs, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::conv::{Float, Strided};
use crate::kernels::room::with_room;
use crate::simd::Level;
use trimtab_core::{Attention, Decline, DeviceFacts, LaunchError, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// Queries and keys of a block, and threads.
    pub struct OnlineConfig { queries, keys, threads }
}

/// Most queries of a block.
const MOST_QUERIES: usize = 128;
/// Queries of a block.
const QUERIES: [u32; 2] = [32, 128];
/// Keys of a block: with 32 queries of f32 the scores take 8, 32 and 128 KiB.
const KEYS: [u32; 3] = [64, 256, 1024];

/// Rows and columns of what is packed are a multiple of this at most.
const PACKED: u64 = 64;

/// See the module.
#[derive(Debug)]
pub struct OnlineKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for OnlineKernel {
    type Problem = Attention;
    type Config = OnlineConfig;

    identity!("cpu.attention.online", Tiled);

    fn declines(&self, problem: &Attention, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Attention, device: &DeviceFacts) -> Vec<OnlineConfig> {
        // Of blocks that hold all there is, the smallest.
        let few = |sizes: &[u32], len: u64| -> Vec<u32> {
            let whole = sizes.iter().position(|&size| u64::from(size) >= len).unwrap_or(sizes.len() - 1);
            sizes[..=whole].to_vec()
        };
        let mut configs = Vec::new();
        for threads in threads(problem, device) {
            for queries in few(&QUERIES, problem.queries) {
                let keys = few(&KEYS, problem.keys).into_iter().rev();
                configs.extend(keys.map(|keys| OnlineConfig { queries, keys, threads }));
            }
        }
        configs
    }

    fn work(&self, problem: &Attention, config: OnlineConfig, device: &DeviceFacts) -> Work {
        let times = problem.queries.div_ceil(u64::from(config.queries.max(1)));
        let scores = u64::from(config.queries) * u64::from(config.keys);
        // The crate `gemm` may pack a block of keys or of values, in whole tiles.
        let keys = problem.keys.min(config.keys.into()).next_multiple_of(PACKED);
        let packed = keys.saturating_mul(problem.depth.max(problem.width).next_multiple_of(PACKED));
        let room = scores.saturating_add(packed).saturating_mul(config.threads.into());
        with_slabs(work(problem, times, room, config.threads, self.lanes), device)
    }

    fn launch(&self, problem: &Attention, config: OnlineConfig, args: Args<'_>) -> Launched {
        let legal = (1..=MOST_QUERIES as u32).contains(&config.queries) && KEYS.contains(&config.keys);
        if !legal {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            blocks(problem, self.level, config, given::<T>(problem, args)?);
            Ok(())
        })
    }
}

fn blocks<T: Float>(p: &Attention, level: Level, config: OnlineConfig, given: Heads<'_, T>) {
    let [queries, keys, depth, width] = [p.queries, p.keys, p.depth, p.width].map(|size| size as usize);
    if given.out.is_empty() {
        return;
    }
    let (each, block) = (config.queries as usize, config.keys as usize);
    let tasks = queries.div_ceil(each);
    let (whole, by) = (Disjoint::new(given.out), <T as Element>::from_f64(factor(p)));
    given.pool.run(config.threads, p.batch as usize * tasks, &|task| {
        let (head, first) = (task / tasks, task % tasks * each);
        let rows = each.min(queries - first);
        let (start, keys_start) = (head * queries + first, head * keys);
        // SAFETY: every task has its own queries.
        let out = unsafe { whole.part(start * width..(start + rows) * width) };
        let (mut most, mut sums) = ([f64::NEG_INFINITY; MOST_QUERIES], [0.0f64; MOST_QUERIES]);
        // The last query of a block sees most.
        let seen = p.seen((first + rows - 1) as u64) as usize;
        // Of a whole block also for the last: room that grows is there twice meanwhile.
        with_room(each * block, |scores: &mut [T]| {
            for from in (0..seen).step_by(block) {
                let count = block.min(seen - from);
                let product = Strided {
                    sizes: [rows, count, depth],
                    lhs: (given.queries[start * depth..].as_ptr(), depth, 1),
                    rhs: (given.keys[(keys_start + from) * depth..].as_ptr(), 1, depth),
                    out: (scores.as_mut_ptr(), block, 1),
                };
                // SAFETY: so many queries and keys of that depth are there; the scores are this task's own.
                unsafe { product.multiply_by(by, false) };
                for (row, scores) in scores.chunks_exact_mut(block).enumerate().take(rows) {
                    let visible = (p.seen((first + row) as u64) as usize).saturating_sub(from).min(count);
                    let (scores, hidden) = scores[..count].split_at_mut(visible);
                    hidden.fill(T::default());
                    if visible > 0 {
                        let before =
                            level.vectorize(Weigh { scores, most: &mut most[row], sum: &mut sums[row] });
                        if from > 0 && before != 1.0 {
                            level.vectorize(Multiply(&mut out[row * width..(row + 1) * width], before));
                        }
                    }
                }
                let product = Strided {
                    sizes: [rows, width, count],
                    lhs: (scores.as_ptr(), block, 1),
                    rhs: (given.values[(keys_start + from) * width..].as_ptr(), width, 1),
                    out: (out.as_mut_ptr(), width, 1),
                };
                // SAFETY: so many weights and values are there; the results are this task's own, written before they are added to.
                unsafe { product.multiply_by(T::ONE, from > 0) };
            }
        });
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            level.vectorize(Multiply(out, 1.0 / sums[row]));
        }
    });
}
