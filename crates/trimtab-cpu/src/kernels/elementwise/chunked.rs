//! Elementwise in chunks that threads take as they get free: for machines whose cores are not equally fast or busy, and for
//! functions without a vector form.

use super::layout::Layout;
use super::ops::{self, Operand};
use super::span::{How, Operands, span};
use super::vector::{has_vector_form, shareable};
use super::{lens, thread_counts, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::simd::Levels;
use std::sync::atomic::{AtomicUsize, Ordering};
use trimtab_core::{Decline, DeviceFacts, Elementwise, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, elements a thread takes at once, and `lanes` of `f32` in a vector (1: the standard library's functions).
    pub struct ChunkedConfig { threads, chunk, lanes }
}

/// Elements a thread takes at once: enough to hide the hand-over (0.1 µs), few enough to even out.
const CHUNKS: [u32; 3] = [16 << 10, 64 << 10, 256 << 10];

/// See the module.
#[derive(Debug)]
pub struct ChunkedKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

impl Variant<Cpu> for ChunkedKernel {
    type Problem = Elementwise;
    type Config = ChunkedConfig;

    identity!("cpu.elementwise.chunked", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if device.threads < 2 {
            return Some(Decline::because("chunks are for several threads, the device has 1"));
        }
        let len = problem.out_len();
        (!shareable(problem))
            .then(|| Decline::from(format!("{len} elements are done before a second thread is awake")))
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<ChunkedConfig> {
        let lanes: Vec<u32> = match has_vector_form(problem) {
            true => self.levels.lanes(device.vector_bytes).take(2).collect(),
            false => vec![1],
        };
        let mut configs = Vec::new();
        for lanes in lanes {
            for threads in thread_counts(device, true, 4).into_iter().filter(|&threads| threads > 1) {
                // Chunks of which there are fewer than threads would leave threads idle.
                let even = |chunk: &u32| problem.out_len() >= u64::from(*chunk) * u64::from(threads);
                let chunks = CHUNKS.into_iter().filter(even);
                configs.extend(chunks.map(|chunk| ChunkedConfig { threads, chunk, lanes }));
                if problem.out_len() < u64::from(CHUNKS[0]) * u64::from(threads) {
                    configs.push(ChunkedConfig { threads, chunk: 2 << 10, lanes });
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Elementwise, config: ChunkedConfig, _: &DeviceFacts) -> Work {
        work(problem, config.threads, config.lanes)
    }

    #[inline]
    fn launch(&self, problem: &Elementwise, config: ChunkedConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl ChunkedKernel {
    fn run<T: Operand>(&self, problem: &Elementwise, config: ChunkedConfig, args: Args<'_>) -> Launched {
        let level = self.levels.get(config.lanes);
        if config.chunk == 0 || (config.lanes != 1 && (level.is_none() || !has_vector_form(problem))) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let typed = args.typed::<T>(lens(problem))?;
        let (layout, len, chunk) = (Layout::new(problem), typed.out.len(), config.chunk as usize);
        if let Some(level) = level {
            let how = How { level, unrolled: true, stream: false };
            let out = Disjoint::new(typed.out);
            let operands =
                Operands { layout: &layout, lhs: typed.lhs, rhs: typed.rhs, out: out.as_mut_ptr() };
            typed.pool.run(config.threads, len.div_ceil(chunk), &|task| {
                let start = task * chunk;
                // SAFETY: lengths were checked, and every task has its own chunk of the result.
                unsafe { span(problem.op, how, &operands, start..len.min(start + chunk)) };
            });
            return Ok(());
        }
        let (lhs, rhs) = (typed.lhs, typed.rhs);
        let value = |left: usize, right: usize| {
            T::scalar(problem.op, lhs[left], rhs.get(right).copied().unwrap_or_default())
        };
        // The first undefined element of each chunk; the smallest is what a plain loop would have met.
        let undefined = AtomicUsize::new(usize::MAX);
        typed.pool.for_chunks(config.threads, typed.out, chunk, |start, part| {
            let outcome = layout.elements(start..start + part.len(), |at, left, right| {
                part[at - start] = value(left, right).map_err(|_| at)?;
                Ok(())
            });
            if let Err(at) = outcome {
                undefined.fetch_min(at, Ordering::Relaxed);
            }
        });
        let first = undefined.into_inner();
        if first == usize::MAX {
            return Ok(());
        }
        layout.elements(first..first + 1, |at, left, right| {
            value(left, right).map(drop).map_err(|what| ops::undefined(what, at))
        })
    }
}
