//! Three operations one after the other: all scores by a product, their softmax, and a product with the values. Scores are written out
//! and read back; each product is as fast as products are.

use super::{Heads, Multiply, Weigh, declines, factor, given, threads, with_slabs, work};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::conv::Float;
use crate::kernels::matmul::gemm::{Gemm, LibraryConfig};
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::Level;
use trimtab_core::{Attention, Decline, DeviceFacts, LaunchError, Matmul, Operand, Variant, Work};

trimtab_core::config! {
    /// Threads.
    pub struct ApartConfig { threads }
}

/// See the module.
#[derive(Debug)]
pub struct ApartKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

/// All scores.
fn room(problem: &Attention) -> u64 {
    problem.batch.saturating_mul(problem.queries).saturating_mul(problem.keys)
}

fn is_large(problem: &Attention) -> bool {
    room(problem) > MOST_ROOM as u64
}

impl Variant<Cpu> for ApartKernel {
    type Problem = Attention;
    type Config = ApartConfig;

    identity!("cpu.attention.apart", Library);

    fn declines(&self, problem: &Attention, _: &DeviceFacts) -> Option<Decline> {
        let large = || Decline::from(format!("needs room for {} scores, has {MOST_ROOM}", room(problem)));
        declines(problem).or_else(|| is_large(problem).then(large))
    }

    fn configs(&self, problem: &Attention, device: &DeviceFacts) -> Vec<ApartConfig> {
        threads(problem, device).into_iter().map(|threads| ApartConfig { threads }).collect()
    }

    fn work(&self, problem: &Attention, config: ApartConfig, device: &DeviceFacts) -> Work {
        let mut work = work(problem, 2, room(problem), config.threads, self.lanes);
        // Scores are written, read and written, and read.
        work.bytes.0 = work.bytes.0.saturating_add(work.scratch.0.saturating_mul(4));
        work.launches *= 3;
        // Each product packs a part of what it multiplies.
        work.scratch.0 = work.scratch.0.saturating_mul(2);
        with_slabs(work, device)
    }

    fn launch(&self, problem: &Attention, config: ApartConfig, args: Args<'_>) -> Launched {
        if config.threads == 0 || is_large(problem) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => three(problem, self.level, config.threads, given::<T>(problem, args)?))
    }
}

fn three<T: Float>(p: &Attention, level: Level, threads: u32, given: Heads<'_, T>) -> Launched {
    let Heads { queries, keys, values, out, pool } = given;
    if out.is_empty() {
        return Ok(());
    }
    let config = LibraryConfig { threads, split: 0 };
    let turned = Operand { transposed: true, ..Operand::PLAIN };
    let fits = |error: trimtab_core::ProblemError| LaunchError::Kernel(error.to_string());
    let scored = Matmul::batched(p.dtype, p.batch, p.queries, p.keys, p.depth, Operand::PLAIN, turned);
    let weighted =
        Matmul::batched(p.dtype, p.batch, p.queries, p.width, p.keys, Operand::PLAIN, Operand::PLAIN);
    let (scored, weighted) = (scored.map_err(fits)?, weighted.map_err(fits)?);
    let (count, by) = (p.keys as usize, factor(p));
    let mut outcome = Ok(());
    with_room(room(p) as usize, |scores: &mut [T]| {
        let inputs = [T::erase(queries), T::erase(keys)];
        outcome = Gemm.launch(&scored, config, Args { inputs: &inputs, out: T::erase_mut(scores), pool });
        // Several rows at a time, so that threads do not meet on one cache line.
        let some = (4096 / count.max(1)).max(1) * count;
        pool.for_chunks(threads, scores, some, |start, rows| {
            for (nth, row) in rows.chunks_exact_mut(count).enumerate() {
                let query = (start / count + nth) as u64 % p.queries;
                let (seen, hidden) = row.split_at_mut(p.seen(query) as usize);
                hidden.fill(T::default());
                level.vectorize(Multiply(seen, by));
                let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
                level.vectorize(Weigh { scores: seen, most: &mut most, sum: &mut sum });
                level.vectorize(Multiply(seen, 1.0 / sum));
            }
        });
        let inputs = [T::erase(scores), T::erase(values)];
        let last = Gemm.launch(&weighted, config, Args { inputs: &inputs, out: T::erase_mut(out), pool });
        outcome = std::mem::replace(&mut outcome, Ok(())).and(last);
    });
    outcome
}
