//! A thread makes elements of one type of those of another.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{declines, push, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Cast, DType, Decline, DeviceFacts, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct CastKernel;

/// A type's number in the source.
fn number(dtype: DType) -> Option<u32> {
    match dtype {
        DType::Bool => Some(10),
        other => crate::kernels::number_of(other),
    }
}

impl Variant<Cuda> for CastKernel {
    type Problem = Cast;
    type Config = WalkConfig;

    identity!("cuda.cast.elements", Parallel);

    fn declines(&self, problem: &Cast, device: &DeviceFacts) -> Option<Decline> {
        let other = [problem.dtype, problem.to].into_iter().find(|dtype| number(*dtype).is_none());
        let complex = |dtype: DType| Decline::from(format!("casts between real types, not {dtype}"));
        declines(&(*problem).into(), device).or_else(|| other.map(complex))
    }

    fn configs(&self, _: &Cast, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Cast, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 4, config)
    }

    fn launch(&self, problem: &Cast, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let (Some(from), Some(to)) = (number(problem.dtype), number(problem.to)) else {
            return Err(LaunchError::Kernel(format!("no cast of {} to {}", problem.dtype, problem.to)));
        };
        let macros = vec![("FROM", from.to_string()), ("TO", to.to_string())];
        let given = vec![StepArgument::Input(0), StepArgument::Out, StepArgument::U32(problem.len as u32)];
        push(program, config, problem.len, (include_str!("elements.cu"), "cast_elements"), macros, given)
    }
}
