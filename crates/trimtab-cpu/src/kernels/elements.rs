//! Which code computes with which element type. Most kernels are written for f32, f64 and i32. References compute 16-bit floats as
//! f32 and round once; what there is for other types, operations have in kernels of their own.

use crate::args::{Args, Launched};
use trimtab_core::{Bytes, DType, LaunchError, Problem};
use trimtab_operands::{Data, Slice, SliceMut, bf16, f16};

/// An expression with a type as the problem's element type.
macro_rules! by_type {
    ($problem:expr, $type:ident => $run:expr) => {
        by_type!($problem, $type => $run, Err($crate::kernels::elements::not_here($problem.dtype)))
    };
    ($problem:expr, $type:ident => $run:expr, $others:expr) => {
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
            _ => $others,
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
            _ => Err($crate::kernels::elements::not_here($problem.dtype)),
        }
    };
}

/// A reference: one setting, every problem, one thread. What it takes beside the operands, and how it runs.
macro_rules! yardstick {
    ($name:literal, $problem:ty, $scratch:expr, $launch:expr) => {
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
                let scratch = $scratch(problem);
                trimtab_core::Work { flops, bytes, scratch, threads: 1, lanes: 1, ..Default::default() }
            }

            fn launch(&self, problem: &$problem, _: ReferenceConfig, args: Args<'_>) -> Launched {
                $launch(problem, args)
            }
        }
    };
}

/// For references that take nothing beside the operands.
pub(super) fn no_scratch<P>(_: &P) -> Bytes {
    Bytes(0)
}

/// A reference that runs f32, f64 and i32 as they are, halves as f32, and others as it says.
macro_rules! reference {
    ($name:literal, $problem:ty) => {
        reference!($name, $problem, |problem: &$problem, _| Err($crate::kernels::elements::not_here(problem.dtype)));
    };
    ($name:literal, $problem:ty, $others:expr) => {
        yardstick!(
            $name,
            $problem,
            |problem: &$problem| $crate::kernels::elements::reference_scratch(&(*problem).into()),
            |problem: &$problem, args: Args<'_>| {
                by_type!(problem, T => run::<T>(problem, args), match problem.dtype {
                    trimtab_core::DType::F16 | trimtab_core::DType::Bf16 => {
                        let mut wide = *problem;
                        wide.dtype = trimtab_core::DType::F32;
                        $crate::kernels::elements::widened(args, |args| run::<f32>(&wide, args))
                    }
                    _ => $others(problem, args),
                })
            }
        );
    };
}

/// What a reference takes beside the operands: halves are widened to f32, all of them, and what is sorted is sorted line by line.
pub(super) fn reference_scratch(problem: &Problem) -> Bytes {
    let halves = matches!(problem.dtype(), Some(DType::F16 | DType::Bf16));
    let all =
        problem.input_lens().as_slice().iter().fold(problem.out_len(), |all, len| all.saturating_add(*len));
    let widened = if halves { all.saturating_mul(4) } else { 0 };
    let line = match problem {
        // A line, and the room in which the standard library merges it.
        Problem::Sort(p) => p.len.saturating_mul(2 * p.dtype.size().max(4)),
        // Weights of one query.
        Problem::Attention(p) => p.keys.saturating_mul(8),
        _ => 0,
    };
    Bytes(widened.saturating_add(line))
}

/// What a kernel answers when it is launched on elements of a type it does not have all the same; it declines them when asked.
#[cold]
pub(super) fn not_here(dtype: DType) -> LaunchError {
    LaunchError::Kernel(format!("this kernel does not compute with {dtype}"))
}

/// Runs a computation on f32 copies of 16-bit operands and rounds its result.
pub(super) fn widened(args: Args<'_>, run: impl FnOnce(Args<'_>) -> Launched) -> Launched {
    let wide = args.inputs.iter().map(|&input| wide(input)).collect::<Result<Vec<Data>, _>>()?;
    let inputs: Vec<Slice<'_>> = wide.iter().map(Data::slice).collect();
    let mut result = vec![0.0f32; args.out.len()];
    run(Args { inputs: &inputs, out: SliceMut::F32(&mut result), pool: args.pool })?;
    match args.out {
        SliceMut::F16(out) => out.iter_mut().zip(result).for_each(|(out, value)| *out = f16::from_f32(value)),
        SliceMut::Bf16(out) => {
            out.iter_mut().zip(result).for_each(|(out, value)| *out = bf16::from_f32(value));
        }
        out => return Err(not_here(out.dtype())),
    }
    Ok(())
}

fn wide(slice: Slice<'_>) -> Result<Data, LaunchError> {
    match slice {
        Slice::None => Ok(Data::None),
        Slice::F16(slice) => Ok(Data::F32(slice.iter().map(|value| value.to_f32()).collect())),
        Slice::Bf16(slice) => Ok(Data::F32(slice.iter().map(|value| value.to_f32()).collect())),
        other => Err(not_here(other.dtype().unwrap_or(DType::F32))),
    }
}
