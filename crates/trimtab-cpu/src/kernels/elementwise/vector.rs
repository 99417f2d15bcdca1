//! Elementwise with vectors, each thread one even share of the result.

use super::layout::Layout;
use super::ops::{self, Operand};
use super::span::{How, Operands, span};
use super::{bytes_walked, last_cache, lens, thread_counts, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::simd::Levels;
use trimtab_core::{
    BinaryOp, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// `lanes` of `f32` in a vector (half as many of `f64`), vectors in flight, threads, and whether stores pass the caches.
    pub struct VectorConfig { lanes, unroll, threads, stream }
}

/// Work from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE_ELEMENTS: u64 = 32 << 10;
/// The same for functions of 30 operations and more an element.
const SHAREABLE_COSTLY_ELEMENTS: u64 = 8 << 10;
/// Where caches are unknown, results from here on are offered streamed stores.
const STREAM_BYTES_MIN: u64 = 4 << 20;
/// Shares begin at multiples of this many elements, so that no two threads write one cache line.
const SHARE_STEP: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct VectorKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

/// Whether the operation has a vector form.
pub(super) fn has_vector_form(problem: &Elementwise) -> bool {
    match (problem.op, problem.dtype) {
        (ElementwiseOp::Binary(BinaryOp::Div | BinaryOp::Pow), DType::I32) => false,
        (ElementwiseOp::Binary(BinaryOp::Pow), DType::F64) => false,
        (ElementwiseOp::Unary(op), DType::I32) => {
            use trimtab_core::UnaryOp::{Abs, Neg, Relu};
            matches!(op, Neg | Abs | Relu)
        }
        _ => true,
    }
}

/// Whether more than one thread can pay.
pub(super) fn shareable(problem: &Elementwise) -> bool {
    let costly = ops::is_costly(problem.op);
    problem.out_len() >= if costly { SHAREABLE_COSTLY_ELEMENTS } else { SHAREABLE_ELEMENTS }
}

impl Variant<Cpu> for VectorKernel {
    type Problem = Elementwise;
    type Config = VectorConfig;

    identity!("cpu.elementwise.vector", Vectorized);

    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        (!has_vector_form(problem))
            .then(|| Decline::from(format!("{} of {} has no vector form", problem.op.name(), problem.dtype)))
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<VectorConfig> {
        let out_bytes = problem.out_len().saturating_mul(problem.dtype.size());
        let cache = last_cache(device).map_or(STREAM_BYTES_MIN, |cache| cache.0);
        let streamable = out_bytes > cache / 2 && problem.dims().last().is_some_and(|&row| row >= 1024);
        // Once nothing of the result is left in the caches, fetching lines only to overwrite them is a wasted third.
        let stream_first = streamable && bytes_walked(problem).0 > cache;
        let unroll = ops::unroll(problem.op);
        let mut configs = Vec::new();
        let threads = thread_counts(device, shareable(problem), 3);
        for (rank, lanes) in self.levels.lanes(device.vector_bytes).take(2).enumerate() {
            for &threads in &threads {
                let streams = streamable && self.levels.streams(lanes);
                for stream in if stream_first && streams { [1, 0] } else { [0, 1] } {
                    for unroll in [unroll, 1] {
                        // The narrower vectors with one of each: they win by clock frequency or not at all.
                        let tried =
                            rank == 0 || (unroll != 1 && stream == u32::from(stream_first && streams));
                        if tried && (stream == 0 || streams) {
                            configs.push(VectorConfig { lanes, unroll, threads, stream });
                        }
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Elementwise, config: VectorConfig, _: &DeviceFacts) -> Work {
        work(problem, config.threads, config.lanes)
    }

    #[inline]
    fn launch(&self, problem: &Elementwise, config: VectorConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl VectorKernel {
    fn run<T: Operand>(&self, problem: &Elementwise, config: VectorConfig, args: Args<'_>) -> Launched {
        let level = match self.levels.get(config.lanes) {
            Some(level) if has_vector_form(problem) => level,
            _ => return Err(LaunchError::Point(format!("{config:?}"))),
        };
        let how = How { level, unrolled: config.unroll > 1, stream: config.stream != 0 };
        let typed = args.typed::<T>(lens(problem))?;
        let (layout, len) = (Layout::new(problem), typed.out.len());
        let out = Disjoint::new(typed.out);
        let operands = Operands { layout: &layout, lhs: typed.lhs, rhs: typed.rhs, out: out.as_mut_ptr() };
        if config.threads <= 1 {
            // SAFETY: lengths were checked, and this is the only span.
            unsafe { span(problem.op, how, &operands, 0..len) };
            return Ok(());
        }
        let tasks = config.threads as usize;
        let share = len.div_ceil(tasks).next_multiple_of(SHARE_STEP);
        typed.pool.run(config.threads, tasks, &|task| {
            let start = (task * share).min(len);
            // SAFETY: lengths were checked, and every task has its own share of the result.
            unsafe { span(problem.op, how, &operands, start..len.min(start + share)) };
        });
        Ok(())
    }
}
