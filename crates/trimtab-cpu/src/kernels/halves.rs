//! Which code computes with which element type. The processor has no instructions for 16-bit floats: references compute them as
//! f32 and round once, the other kernels leave them to those.

use crate::args::{Args, Launched};
use trimtab_core::LaunchError;
use trimtab_operands::{Data, Slice, SliceMut, f16};

/// An expression with a type as the problem's element type.
macro_rules! by_type {
    ($problem:expr, $type:ident => $run:expr) => {
        by_type!($problem, $type => $run, Err($crate::kernels::halves::not_here()))
    };
    ($problem:expr, $type:ident => $run:expr, $of_halves:expr) => {
        match $problem.dtype {
            trimtab_core::DType::F32 => {
                type $type = f32;
                $run
            }
            trimtab_core::DType::F64 => {
                type $type = f64;
                $run
            }
            trimtab_core::DType::I32 => {
                type $type = i32;
                $run
            }
            trimtab_core::DType::F16 => $of_halves,
        }
    };
}

/// The same for operations of floats that leave f16 to their reference.
macro_rules! by_float {
    ($problem:expr, $type:ident => $run:expr) => {
        match $problem.dtype {
            trimtab_core::DType::F32 => {
                type $type = f32;
                $run
            }
            trimtab_core::DType::F64 => {
                type $type = f64;
                $run
            }
            _ => Err($crate::kernels::halves::not_here()),
        }
    };
}

/// The yardstick of an operation: a kernel that takes every problem, has no settings and computes by the module's `run` with one
/// thread; `counted` is what that does.
macro_rules! reference {
    ($name:literal, $problem:ty) => {
        trimtab_core::config! {
            /// The reference has no settings.
            pub struct ReferenceConfig {}
        }

        /// See the module.
        #[derive(Debug)]
        pub struct ReferenceKernel;

        impl trimtab_core::Variant<$crate::Cpu> for ReferenceKernel {
            type Problem = $problem;
            type Config = ReferenceConfig;

            identity!($name, Reference);

            fn declines(&self, _: &$problem, _: &trimtab_core::DeviceFacts) -> Option<trimtab_core::Decline> {
                None
            }

            fn configs(&self, _: &$problem, _: &trimtab_core::DeviceFacts) -> Vec<ReferenceConfig> {
                vec![ReferenceConfig {}]
            }

            fn work(
                &self,
                problem: &$problem,
                _: ReferenceConfig,
                _: &trimtab_core::DeviceFacts,
            ) -> trimtab_core::Work {
                let (flops, bytes) = counted(problem);
                trimtab_core::Work { flops, bytes, threads: 1, lanes: 1, ..Default::default() }
            }

            fn launch(
                &self,
                problem: &$problem,
                _: ReferenceConfig,
                args: Args<'_>,
            ) -> Launched {
                by_type!(problem, T => run::<T>(problem, args), {
                    let mut wide = *problem;
                    wide.dtype = trimtab_core::DType::F32;
                    $crate::kernels::halves::widened(args, |args| run::<f32>(&wide, args))
                })
            }
        }
    };
}

/// What a kernel without 16-bit floats answers when it is launched on some all the same; it declines them when asked.
pub(super) fn not_here() -> LaunchError {
    LaunchError::Kernel("this kernel does not compute with f16".to_string())
}

/// Runs a computation on f32 copies of f16 operands and rounds its result.
pub(super) fn widened(args: Args<'_>, run: impl FnOnce(Args<'_>) -> Launched) -> Launched {
    let wide = args.inputs.iter().map(|&input| wide(input)).collect::<Result<Vec<Data>, _>>()?;
    let inputs: Vec<Slice<'_>> = wide.iter().map(Data::slice).collect();
    let SliceMut::F16(out) = args.out else { return Err(not_here()) };
    let mut result = vec![0.0f32; out.len()];
    run(Args { inputs: &inputs, out: SliceMut::F32(&mut result), pool: args.pool })?;
    out.iter_mut().zip(result).for_each(|(out, value)| *out = f16::from_f32(value));
    Ok(())
}

fn wide(slice: Slice<'_>) -> Result<Data, LaunchError> {
    match slice {
        Slice::None => Ok(Data::None),
        Slice::F16(slice) => Ok(Data::F32(slice.iter().map(|value| value.to_f32()).collect())),
        _ => Err(not_here()),
    }
}
