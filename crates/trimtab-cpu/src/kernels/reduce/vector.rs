//! Reduction of contiguous rows with vectors on the caller's thread.

use super::fold::{Fold, Foldable, Visit, has_vector_form, reduce_row};
use super::{bytes_walked, declines_apart, lens};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::{lanes_of, shared_work};
use crate::simd::{Level, Levels};
use trimtab_core::{Decline, DeviceFacts, Flops, LaunchError, Reduce, ReduceOp, Variant, Work};

trimtab_core::config! {
    /// `lanes` of `f32` in a vector, accumulators, and elements between moves of the accumulators to the total.
    pub struct VectorConfig { lanes, unroll, block }
}

/// Terms one lane of one accumulator may add up before they go to the total: what keeps sums pairwise-accurate.
const TERMS: [u32; 2] = [16, 64];

/// See the module.
#[derive(Debug)]
pub struct VectorKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

impl Variant<Cpu> for VectorKernel {
    type Problem = Reduce;
    type Config = VectorConfig;

    identity!("cpu.reduce.vector", Vectorized);

    fn declines(&self, problem: &Reduce, _: &DeviceFacts) -> Option<Decline> {
        let exact = || Decline::because("exact integer products are checked step by step, not in vectors");
        declines_apart(problem).or_else(|| (!has_vector_form(problem)).then(exact))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<VectorConfig> {
        let sums = matches!(problem.op, ReduceOp::Sum | ReduceOp::Mean);
        // Only floating-point sums have blocks; integer sums leave the unrolling to the compiler.
        let terms = if sums && problem.dtype.is_float() { &TERMS[..] } else { &TERMS[..1] };
        let unrolls: &[u32] = if sums && !problem.dtype.is_float() { &[4] } else { &[4, 8, 1] };
        let mut configs = Vec::new();
        for lanes in self.levels.lanes(device.vector_bytes).take(2) {
            for &unroll in unrolls {
                // A row shorter than one round of all accumulators never uses them.
                let lanes_each = lanes_of(problem.dtype, lanes);
                let used = unroll == 1 || problem.len >= u64::from(lanes_each * unroll);
                let wanted = used || unrolls.len() == 1;
                for terms in terms.iter().filter(|_| wanted) {
                    let block = terms * unroll * lanes_each;
                    configs.push(VectorConfig { lanes, unroll, block });
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: VectorConfig, _: &DeviceFacts) -> Work {
        let lanes = lanes_of(problem.dtype, config.lanes);
        shared_work(Flops(problem.input_len()), bytes_walked(problem), 1, lanes)
    }

    #[inline]
    fn launch(&self, problem: &Reduce, config: VectorConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl VectorKernel {
    fn run<T: Foldable>(&self, problem: &Reduce, config: VectorConfig, args: Args<'_>) -> Launched {
        let Some(level) = self.levels.get(config.lanes).filter(|_| problem.inner == 1) else {
            return Err(LaunchError::Point(format!("{config:?}")));
        };
        let typed = args.typed::<T>(lens(problem)?)?;
        let rows = Rows { level, config, len: problem.len as usize, input: typed.lhs, out: typed.out };
        T::visit(problem.op, rows).unwrap_or_else(|| Err(LaunchError::Point(format!("{config:?}"))))
    }
}

struct Rows<'a, T> {
    level: Level,
    config: VectorConfig,
    len: usize,
    input: &'a [T],
    out: &'a mut [T],
}

impl<T: Foldable> Visit<T> for Rows<'_, T> {
    type Out = Launched;
    #[inline]
    fn visit<F: Fold<T>>(self) -> Self::Out {
        let VectorConfig { unroll, block, .. } = self.config;
        for (index, out) in self.out.iter_mut().enumerate() {
            let row = &self.input[index * self.len..(index + 1) * self.len];
            *out = F::finish(reduce_row::<T, F>(self.level, unroll, block as usize, row), self.len)?;
        }
        Ok(())
    }
}
