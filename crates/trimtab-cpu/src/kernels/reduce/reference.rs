//! Reduction element by element with compensated sums in `f64`: the yardstick of accuracy.

use super::fold::{Fold, Foldable, Visit};
use super::{bytes_walked, lens};
use crate::args::{Args, Cpu};
use crate::kernels::halves;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

/// See the module.
#[derive(Debug)]
pub struct ReferenceKernel;

impl Variant<Cpu> for ReferenceKernel {
    type Problem = Reduce;
    type Config = ReferenceConfig;

    identity!("cpu.reduce.reference", Reference);

    fn declines(&self, _: &Reduce, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Reduce, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Reduce, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        // A compensated addition is eight operations.
        let flops = problem.input_len().saturating_mul(8);
        Work {
            flops: Flops(flops),
            bytes: bytes_walked(problem),
            scratch: Bytes(0),
            launches: 0,
            threads: 1,
            lanes: 1,
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Reduce, _: ReferenceConfig, args: Args<'_>) -> Result<(), LaunchError> {
        match problem.dtype {
            DType::F32 => run::<f32>(problem, args),
            DType::F64 => run::<f64>(problem, args),
            DType::I32 => run::<i32>(problem, args),
            DType::F16 => {
                let mut wide = *problem;
                wide.dtype = DType::F32;
                halves::widened(args, |args| run::<f32>(&wide, args))
            }
        }
    }
}

fn run<T: Foldable>(problem: &Reduce, args: Args<'_>) -> Result<(), LaunchError> {
    let typed = args.typed::<T>(lens(problem)?)?;
    let visitor = Reference { problem, input: typed.lhs, out: typed.out };
    T::visit(problem.op, visitor)
        .unwrap_or_else(|| Err(LaunchError::Kernel("the mean of integers is undefined".to_string())))
}

struct Reference<'a, T> {
    problem: &'a Reduce,
    input: &'a [T],
    out: &'a mut [T],
}

impl<T: Foldable> Visit<T> for Reference<'_, T> {
    type Out = Result<(), LaunchError>;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        let (len, inner) = (self.problem.len as usize, self.problem.inner as usize);
        for (index, out) in self.out.iter_mut().enumerate() {
            let first = index / inner * len * inner + index % inner;
            let mut state = F::EMPTY;
            for step in 0..len {
                state = F::absorb(state, F::step(F::EMPTY_RUN, self.input[first + step * inner]));
            }
            *out = F::finish(state, len)?;
        }
        Ok(())
    }
}
