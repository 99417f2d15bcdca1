//! Elementwise by plain loops and the standard library's functions: the yardstick, never the fastest.

use super::layout::Layout;
use super::ops::{self, Operand};
use super::{bytes_walked, lens};
use crate::args::{Args, Cpu};
use crate::kernels::halves;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Elementwise, Flops, LaunchError, Variant, Work};

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

/// Plain loops; `f32` is computed in `f64` and rounded once.
#[derive(Debug)]
pub struct ReferenceKernel;

impl Variant<Cpu> for ReferenceKernel {
    type Problem = Elementwise;
    type Config = ReferenceConfig;

    identity!("cpu.elementwise.reference", Reference);

    fn declines(&self, _: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Elementwise, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        let flops = ops::flops(problem.op, problem.dtype != DType::I32);
        Work {
            flops: Flops(problem.out_len().saturating_mul(flops)),
            bytes: bytes_walked(problem),
            scratch: Bytes(0),
            launches: 0,
            threads: 1,
            lanes: 1,
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Elementwise, _: ReferenceConfig, args: Args<'_>) -> Result<(), LaunchError> {
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

fn run<T: Operand>(problem: &Elementwise, args: Args<'_>) -> Result<(), LaunchError> {
    let typed = args.typed::<T>(lens(problem))?;
    let layout = Layout::new(problem);
    layout.elements(0..typed.out.len(), |at, lhs, rhs| {
        // A unary operation has no right operand; what stands in for it is ignored.
        let b = typed.rhs.get(rhs).copied().unwrap_or_default();
        let value = T::scalar(problem.op, typed.lhs[lhs], b).map_err(|what| ops::undefined(what, at))?;
        typed.out[at] = value;
        Ok(())
    })
}
