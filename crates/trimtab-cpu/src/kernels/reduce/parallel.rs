//! Reduction of contiguous rows on several threads: long rows in parts, short rows in groups.

use super::fold::{Fold, Foldable, Visit, has_vector_form, reduce_row};
use super::{bytes_walked, declines_apart, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::lanes_of;
use crate::pool::Pool;
use crate::simd::Level;
use std::sync::atomic::{AtomicUsize, Ordering};
use trimtab_core::{Decline, DeviceFacts, Flops, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements a thread takes at once.
    pub struct ParallelConfig { threads, chunk }
}

/// Elements from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE_ELEMENTS: u64 = 64 << 10;
/// Elements a thread takes at once.
const CHUNKS: [u32; 3] = [256 << 10, 64 << 10, 16 << 10];
/// Most parts of one row; they wait on the stack to be merged in order, so that the result does not depend on the threads.
const PARTS_MAX: usize = 256;
/// Accumulators of the vector loop.
const UNROLL: u32 = 4;
/// Terms one lane of one accumulator adds up before they go to the total.
const TERMS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct ParallelKernel {
    /// The widest vectors of this processor.
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for ParallelKernel {
    type Problem = Reduce;
    type Config = ParallelConfig;

    identity!("cpu.reduce.parallel", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let alone = || Decline::because("parts are for several threads, the device has 1");
        let elements = problem.input_len();
        let few = || Decline::from(format!("{elements} elements are done before a second thread is awake"));
        declines_apart(problem)
            .or_else(|| (device.threads < 2).then(alone))
            .or_else(|| (elements < SHAREABLE_ELEMENTS).then(few))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<ParallelConfig> {
        let mut configs = Vec::new();
        for threads in thread_counts(device, true, 5).into_iter().filter(|&threads| threads > 1) {
            let even = |chunk: &u32| problem.input_len() >= u64::from(*chunk) * u64::from(threads);
            let chunks = CHUNKS.into_iter().filter(|chunk| even(chunk) || *chunk == CHUNKS[2]);
            configs.extend(chunks.map(|chunk| ParallelConfig { threads, chunk }));
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: ParallelConfig, _: &DeviceFacts) -> Work {
        let long = problem.len > u64::from(config.chunk);
        Work {
            flops: Flops(problem.input_len()),
            bytes: bytes_walked(problem),
            // Long rows are shared one after the other.
            launches: if long { u32::try_from(problem.outer).unwrap_or(u32::MAX) } else { 1 },
            threads: config.threads,
            lanes: if has_vector_form(problem) { lanes_of(problem.dtype, self.lanes) } else { 1 },
            ..Work::default()
        }
    }

    #[inline]
    fn launch(&self, problem: &Reduce, config: ParallelConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl ParallelKernel {
    fn run<T: Foldable>(&self, problem: &Reduce, config: ParallelConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 || config.chunk == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let typed = args.typed::<T>(lens(problem)?)?;
        let block = TERMS * (UNROLL * lanes_of(problem.dtype, self.lanes)) as usize;
        let (len, input, out, pool) = (problem.len as usize, typed.lhs, typed.out, typed.pool);
        let shared = Shared { level: self.level, block, config, len, input, out, pool };
        T::visit(problem.op, shared).unwrap_or_else(|| Err(LaunchError::Point(format!("{config:?}"))))
    }
}

struct Shared<'a, T> {
    level: Level,
    block: usize,
    config: ParallelConfig,
    len: usize,
    input: &'a [T],
    out: &'a mut [T],
    pool: &'a Pool,
}

impl<T: Foldable> Visit<T> for Shared<'_, T> {
    type Out = Launched;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        let Shared { level, block, config, len, input, out, pool } = self;
        let chunk = config.chunk as usize;
        if len > chunk {
            for (index, out) in out.iter_mut().enumerate() {
                let row = &input[index * len..(index + 1) * len];
                let chunk = chunk.max(len.div_ceil(PARTS_MAX));
                let mut parts = [F::EMPTY; PARTS_MAX];
                pool.for_chunks(config.threads, &mut parts[..len.div_ceil(chunk)], 1, |part, state| {
                    let range = part * chunk..len.min((part + 1) * chunk);
                    if let Some(state) = state.first_mut() {
                        *state = reduce_row::<T, F>(level, UNROLL, block, &row[range]);
                    }
                });
                let state = parts[..len.div_ceil(chunk)].iter().fold(F::EMPTY, |a, &b| F::merge(a, b));
                *out = F::finish(state, len)?;
            }
            return Ok(());
        }
        let rows = (chunk / len.max(1)).max(1);
        let (count, results) = (out.len(), Disjoint::new(out));
        let failed = AtomicUsize::new(usize::MAX);
        pool.run(config.threads, count.div_ceil(rows), &|task| {
            let first = task * rows;
            // SAFETY: every task has its own rows.
            let results = unsafe { results.part(first..first.saturating_add(rows)) };
            for (index, out) in (first..).zip(results) {
                let row = &input[index * len..(index + 1) * len];
                match F::finish(reduce_row::<T, F>(level, UNROLL, block, row), len) {
                    Ok(value) => *out = value,
                    Err(_) => {
                        failed.fetch_min(index, Ordering::Relaxed);
                        return;
                    }
                }
            }
        });
        // The error is made again where it can be returned.
        let index = failed.into_inner();
        if index == usize::MAX {
            return Ok(());
        }
        let row = &input[index * len..(index + 1) * len];
        F::finish(reduce_row::<T, F>(level, UNROLL, block, row), len).map(drop)
    }
}
