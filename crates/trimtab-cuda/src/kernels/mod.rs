//! The kernels in CUDA C, a folder an operation, a file a variant, each source beside its Rust file. None includes a header, so that NVRTC
//! alone compiles them.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod arg;
pub mod attention;
pub mod cast;
pub mod concat;
pub mod conv;
pub mod elementwise;
pub mod fft;
pub mod fused;
pub mod gather;
pub mod mask;
pub mod matmul;
pub mod pool;
pub mod put;
pub mod reduce;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod sort;
pub mod transpose;
mod walked;

use crate::program::Cuda;
use trimtab_core::{AnyKernel, DType, Decline};

/// CudaKernels of CUDA devices.
pub type CudaKernels = Vec<Box<dyn AnyKernel<Cuda>>>;

/// Macros a source is compiled with, by name.
type CompilerMacros = Vec<(&'static str, String)>;

/// What every source of floating-point kernels begins with.
const NUMBER: &str = include_str!("number.cu");

/// The same for whole numbers, too.
const NUMBERS: &str =
    concat!("#if NUMBER < 4\n", include_str!("number.cu"), "#else\n", include_str!("whole.cu"), "#endif\n");

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
        conv::kernels(),
        pool::kernels(),
        attention::kernels(),
        scan::kernels(),
        sort::kernels(),
        arg::kernels(),
        cast::kernels(),
        fft::kernels(),
        gather::kernels(),
        scatter::kernels(),
        mask::kernels(),
        concat::kernels(),
        put::kernels(),
    ];
    all.into_iter().flatten().collect()
}

/// The macros that say which elements a source is for, see `number.cu`. No short names like `T`: they would be macros in NVRTC's own header, too.
fn of_number(dtype: DType) -> CompilerMacros {
    vec![("NUMBER", number_of(dtype).filter(|number| *number < 4).unwrap_or(1).to_string())]
}

/// The same with whole numbers, see `whole.cu`; truth values are bytes.
fn of_any_number(dtype: DType) -> CompilerMacros {
    let number = if dtype == DType::Bool { Some(6) } else { number_of(dtype) };
    vec![("NUMBER", number.unwrap_or(1).to_string())]
}

/// A type's number in the sources.
fn number_of(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F64 => Some(0),
        DType::F32 => Some(1),
        DType::F16 => Some(2),
        DType::Bf16 => Some(3),
        DType::I32 => Some(4),
        DType::I64 => Some(5),
        DType::U8 => Some(6),
        DType::I8 => Some(7),
        DType::I16 => Some(8),
        DType::U32 => Some(9),
        DType::Bool | DType::Complex64 | DType::Complex128 => None,
    }
}

/// Why a kernel of all real numbers does not take a type.
fn not_real(dtype: DType) -> Option<Decline> {
    let is = dtype == DType::Bool || number_of(dtype).is_some();
    (!is).then(|| Decline::from(format!("takes real numbers, not {dtype}")))
}

/// Why a kernel of floating-point numbers and i32 does not take a type.
fn not_float_or_i32(dtype: DType) -> Option<Decline> {
    let is = dtype.is_float() || dtype == DType::I32;
    (!is).then(|| Decline::from(format!("takes f32, f64, f16, bf16 and i32, not {dtype}")))
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
