//! The kernels in CUDA C, a folder an operation, a file a variant, each source beside its Rust file. None includes a header, so that NVRTC
//! alone compiles them.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod elementwise;
pub mod fused;
pub mod matmul;
pub mod reduce;
pub mod rows;
pub mod transpose;

use crate::program::Cuda;
use trimtab_core::{AnyKernel, DType, Decline};

/// CudaKernels of CUDA devices.
pub type CudaKernels = Vec<Box<dyn AnyKernel<Cuda>>>;

/// Macros a source is compiled with, by name.
type CompilerMacros = Vec<(&'static str, String)>;

/// What every source of floating-point kernels begins with.
const NUMBER: &str = include_str!("number.cu");

/// Elements an operand may have: indices within one are of 32 bits.
const MOST_ELEMENTS: u64 = i32::MAX as u64;

/// Every kernel in order of preference.
pub fn all() -> CudaKernels {
    let all = [
        matmul::kernels(),
        elementwise::kernels(),
        reduce::kernels(),
        rows::kernels(),
        transpose::kernels(),
        fused::kernels(),
    ];
    all.into_iter().flatten().collect()
}

/// The macros that say which elements a source is for, see `number.cu`. No short names like `T`: they would be macros in NVRTC's own header, too.
fn of_number(dtype: DType) -> CompilerMacros {
    let number = match dtype {
        DType::F64 => 0,
        DType::F16 => 2,
        DType::Bf16 => 3,
        _ => 1,
    };
    vec![("NUMBER", number.to_string())]
}

/// Types all floating-point kernels take. They compute with halves in f32.
fn not_float(dtype: DType) -> Option<Decline> {
    let known = matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::Bf16);
    (!known).then(|| Decline::from(format!("takes f32, f64, f16 and bf16, not {dtype}")))
}

/// Bytes of the type an element is computed with.
fn computed_bytes(dtype: DType) -> u64 {
    dtype.size().max(4)
}

/// Nothing to compute, or more than indices can say.
fn impossible(elements: impl IntoIterator<Item = u64>) -> Option<Decline> {
    for elements in elements {
        if elements == 0 {
            return Some(Decline::because("there is nothing to compute"));
        }
        if elements > MOST_ELEMENTS {
            return Some(Decline::from(format!(
                "takes operands of up to {MOST_ELEMENTS} elements, not {elements}"
            )));
        }
    }
    None
}
