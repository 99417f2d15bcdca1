//! Permutation element by element in the order of the result: the yardstick.

use super::{Axes, work};
use crate::args::{Args, Cpu};
use crate::kernels::halves;
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

/// See the module.
#[derive(Debug)]
pub struct ReferenceKernel;

impl Variant<Cpu> for ReferenceKernel {
    type Problem = Transpose;
    type Config = ReferenceConfig;

    identity!("cpu.transpose.reference", Reference);

    fn declines(&self, _: &Transpose, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Transpose, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Transpose, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        work(problem, 1, 1)
    }

    fn launch(&self, problem: &Transpose, _: ReferenceConfig, args: Args<'_>) -> Result<(), LaunchError> {
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

fn run<T: Element>(problem: &Transpose, args: Args<'_>) -> Result<(), LaunchError> {
    let typed = args.typed::<T>([problem.len(), 0, problem.len()])?;
    let axes = Axes::new(problem);
    let (mut index, mut from) = ([0; trimtab_core::MAX_RANK], 0);
    for out in typed.out.iter_mut() {
        *out = typed.lhs[from];
        let mut axis = axes.rank - 1;
        loop {
            index[axis] += 1;
            from += axes.from[axis];
            if index[axis] < axes.dims[axis] || axis == 0 {
                break;
            }
            index[axis] = 0;
            from -= axes.from[axis] * axes.dims[axis];
            axis -= 1;
        }
    }
    Ok(())
}
