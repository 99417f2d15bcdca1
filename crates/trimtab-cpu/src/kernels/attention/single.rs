//! One query at a time: dot products with its keys, their weights, and the weighted sum of values. Nothing is packed, so that few
//! queries of many keys, as a text grows word by word, take what reading keys and values takes.

use super::{Heads, Multiply, Weigh, declines, factor, given, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::conv::Float;
use crate::kernels::matmul::float::vector_bits;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::Level;
use trimtab_core::{Attention, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, each with queries of its own.
    pub struct SingleConfig { threads }
}

/// See the module.
#[derive(Debug)]
pub struct SingleKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for SingleKernel {
    type Problem = Attention;
    type Config = SingleConfig;

    identity!("cpu.attention.single", Vectorized);

    fn declines(&self, problem: &Attention, _: &DeviceFacts) -> Option<Decline> {
        let long = || Decline::from(format!("needs room for {} scores, has {MOST_ROOM}", problem.keys));
        declines(problem).or_else(|| (problem.keys > MOST_ROOM as u64).then(long))
    }

    fn configs(&self, problem: &Attention, device: &DeviceFacts) -> Vec<SingleConfig> {
        threads(problem, device).into_iter().map(|threads| SingleConfig { threads }).collect()
    }

    fn work(&self, problem: &Attention, config: SingleConfig, _: &DeviceFacts) -> Work {
        work(problem, problem.queries, problem.keys * u64::from(config.threads), config.threads, self.lanes)
    }

    fn launch(&self, problem: &Attention, config: SingleConfig, args: Args<'_>) -> Launched {
        if config.threads == 0 || problem.keys > MOST_ROOM as u64 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            one_by_one(problem, self.level, config.threads, given::<T>(problem, args)?);
            Ok(())
        })
    }
}

fn one_by_one<T: Float>(p: &Attention, level: Level, threads: u32, given: Heads<'_, T>) {
    let [queries, keys, depth, width] = [p.queries, p.keys, p.depth, p.width].map(|size| size as usize);
    let Heads { queries: all_queries, keys: all_keys, values, out, pool } = given;
    let Some(lines) = T::lines(vector_bits()[0]).filter(|_| !out.is_empty()) else { return };
    pool.for_chunks(threads, out, width, |start, out| {
        let nth = start / width;
        let (head, query) = (nth / queries, nth % queries);
        let seen = p.seen(query as u64) as usize;
        let query = &all_queries[nth * depth..][..depth];
        with_room(seen, |scores: &mut [T]| {
            scores.fill(T::default());
            lines.dots(&all_keys[head * keys * depth..][..seen * depth], query, scores);
            level.vectorize(Multiply(&mut *scores, factor(p)));
            let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
            level.vectorize(Weigh { scores: &mut *scores, most: &mut most, sum: &mut sum });
            lines.weighted(&values[head * keys * width..][..seen * width], scores, out);
            level.vectorize(Multiply(out, 1.0 / sum));
        });
    });
}
