//! cuBLAS, where it is found: products by NVIDIA's own library, as a rival of ours.

use crate::api::Handle;
use crate::context::Context;
use libloading::Library;
use std::ffi::{c_int, c_longlong, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_core::{DType, Matmul};

/// Names under which cuBLAS is found, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["cublas64_13.dll", "cublas64_12.dll", "cublas64_11.dll"]
} else {
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"]
};

/// Numbers of the library's header.
pub(crate) mod number {
    pub(crate) const PLAIN: i32 = 0;
    pub(crate) const TRANSPOSED: i32 = 1;
    pub(crate) const F32: i32 = 0;
    pub(crate) const F64: i32 = 1;
    pub(crate) const F16: i32 = 2;
    pub(crate) const BF16: i32 = 14;
    pub(crate) const IN_F32: i32 = 68;
    pub(crate) const IN_F64: i32 = 70;
    pub(crate) const IN_TF32: i32 = 77;
    pub(crate) const ANY_ALGORITHM: i32 = -1;
    /// As the call says, and no sums of halves in halves.
    pub(crate) const EXACT_SUMS: i32 = 16;
}

/// Why a product was not made, or there is no library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CublasError {
    /// The library is nowhere.
    #[error("no cuBLAS: {0}")]
    NotFound(String),
    /// The library lacks a function.
    #[error("cuBLAS has no function {0}")]
    Symbol(&'static str),
    /// A function failed.
    #[error("{call} failed with code {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its code.
        code: i32,
    },
    /// It has fewer algorithms for a product.
    #[error("cuBLASLt has no suggestion number {nth} for this product")]
    NoSuggestion {
        /// Which was asked for, from zero.
        nth: u32,
    },
}

type Gemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_longlong,
    c_int,
    c_int,
    c_int,
) -> c_int;

struct Functions {
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    set_stream: unsafe extern "C" fn(Handle, Handle) -> c_int,
    set_math: unsafe extern "C" fn(Handle, c_int) -> c_int,
    property: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    gemm: Gemm,
}

/// The library. Never unloaded.
pub struct Cublas {
    functions: Functions,
    _library: std::mem::ManuallyDrop<Library>,
    version: [u32; 3],
}

impl std::fmt::Debug for Cublas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cublas({})", self.version())
    }
}

pub(crate) fn check(call: &'static str, code: c_int) -> Result<(), CublasError> {
    if code == 0 { Ok(()) } else { Err(CublasError::Call { call, code }) }
}

impl Cublas {
    /// The one of this machine.
    pub fn find() -> Result<Cublas, CublasError> {
        let mut reason = String::from("no place to look");
        for name in NAMES.iter().map(PathBuf::from) {
            match Cublas::load(&name) {
                Err(CublasError::NotFound(error)) => reason = error,
                found => return found,
            }
        }
        Err(CublasError::NotFound(reason))
    }

    /// The one in that file.
    pub fn load(file: &Path) -> Result<Cublas, CublasError> {
        // SAFETY: runs the initialisers of what is cuBLAS by its name or by the caller's word.
        let library =
            unsafe { Library::new(file) }.map_err(|error| CublasError::NotFound(error.to_string()))?;
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the type of the field is that of the function of this name in cuBLAS's header.
                *unsafe { library.get($symbol) }.map_err(|_| CublasError::Symbol($symbol))?
            };
        }
        let functions = Functions {
            create: function!("cublasCreate_v2"),
            destroy: function!("cublasDestroy_v2"),
            set_stream: function!("cublasSetStream_v2"),
            set_math: function!("cublasSetMathMode"),
            property: function!("cublasGetProperty"),
            gemm: function!("cublasGemmStridedBatchedEx"),
        };
        let mut version = [0; 3];
        for (part, number) in version.iter_mut().zip(0..) {
            let mut value: c_int = 0;
            // SAFETY: asks for a number.
            check("cublasGetProperty", unsafe { (functions.property)(number, &mut value) })?;
            *part = value.max(0) as u32;
        }
        Ok(Cublas { functions, _library: std::mem::ManuallyDrop::new(library), version })
    }

    /// Its version: `12.9.3`.
    pub fn version(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }
}

/// A product the library makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LibraryProduct {
    /// What is computed.
    pub problem: Matmul,
    /// Whether factors of f32 may be cut to 11 bits, for tensor cores.
    pub rough: bool,
    /// Which of cuBLASLt's suggestions makes it, the best it knows of first; without one cuBLAS does.
    pub suggestion: Option<u32>,
}

impl LibraryProduct {
    /// The library's numbers for the type of elements, and for the type sums are made in.
    pub(crate) fn types(&self) -> Option<(i32, i32)> {
        match self.problem.dtype {
            DType::F32 if self.rough => Some((number::F32, number::IN_TF32)),
            DType::F32 => Some((number::F32, number::IN_F32)),
            DType::F64 => Some((number::F64, number::IN_F64)),
            DType::F16 => Some((number::F16, number::IN_F32)),
            DType::Bf16 => Some((number::BF16, number::IN_F32)),
            _ => None,
        }
    }

    /// m, n, k and elements of a row of each operand and of the result, as the library counts them.
    pub(crate) fn sizes(&self) -> Option<[c_int; 6]> {
        let Matmul { m, n, k, lhs, rhs, .. } = self.problem;
        let rows = [if lhs.transposed { m } else { k }, if rhs.transposed { k } else { n }, n];
        let sizes = [m, n, k, rows[0], rows[1], rows[2]].map(|size| c_int::try_from(size).ok());
        let all = c_int::try_from(self.problem.batch).is_ok() && sizes.iter().all(Option::is_some);
        all.then(|| sizes.map(Option::unwrap_or_default))
    }
}

/// The library on one device.
pub(crate) struct CublasHandle {
    library: Arc<Cublas>,
    context: Arc<Context>,
    handle: Handle,
}

impl CublasHandle {
    pub(crate) fn new(library: &Arc<Cublas>, context: &Arc<Context>) -> Result<CublasHandle, CublasError> {
        let lost = |_| CublasError::Call { call: "cuCtxSetCurrent", code: -1 };
        context.enter().map_err(lost)?;
        let mut made = CublasHandle { library: Arc::clone(library), context: Arc::clone(context), handle: 0 };
        let functions = &made.library.functions;
        let mut handle = 0;
        // SAFETY: the context is this thread's; destroyed once, with this.
        check("cublasCreate", unsafe { (functions.create)(&mut handle) })?;
        made.handle = handle;
        let functions = &made.library.functions;
        // SAFETY: a handle that was just made, and a stream that lives as long as the context.
        check("cublasSetStream", unsafe { (functions.set_stream)(handle, context.stream()) })?;
        // SAFETY: the same.
        check("cublasSetMathMode", unsafe { (functions.set_math)(handle, number::EXACT_SUMS) })?;
        Ok(made)
    }

    /// Puts a product into the queue.
    ///
    /// # Safety
    /// Operands and result are allocated on this device, as long as the problem says, until it is over.
    pub(crate) unsafe fn multiply(
        &self,
        product: &LibraryProduct,
        [lhs, rhs, out]: [u64; 3],
    ) -> Result<(), CublasError> {
        const CALL: &str = "cublasGemmStridedBatchedEx";
        let refused = CublasError::Call { call: CALL, code: 7 };
        let (Some((of, within)), Some([m, n, k, left, right, row])) = (product.types(), product.sizes())
        else {
            return Err(refused);
        };
        let lost = |_| CublasError::Call { call: "cuCtxSetCurrent", code: -1 };
        self.context.enter().map_err(lost)?;
        let problem = &product.problem;
        let turned = |transposed: bool| if transposed { number::TRANSPOSED } else { number::PLAIN };
        let apart = |shared: bool, elements: u64| if shared { 0 } else { elements as c_longlong };
        let (single, double) = ([1f32, 0.0], [1f64, 0.0]);
        let scalars: [*const c_void; 2] = match within {
            number::IN_F64 => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            _ => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        // The library counts down columns: our rows are its columns, so that it makes rhsᵀ · lhsᵀ of what it sees.
        // SAFETY: the caller's promise; scalars live until the call returns, which reads them.
        check(CALL, unsafe {
            (self.library.functions.gemm)(
                self.handle,
                turned(problem.rhs.transposed),
                turned(problem.lhs.transposed),
                n,
                m,
                k,
                scalars[0],
                rhs as *const c_void,
                of,
                right,
                apart(problem.rhs.shared, problem.k * problem.n),
                lhs as *const c_void,
                of,
                left,
                apart(problem.lhs.shared, problem.m * problem.k),
                scalars[1],
                out as *mut c_void,
                of,
                row,
                (problem.m * problem.n) as c_longlong,
                problem.batch as c_int,
                within,
                number::ANY_ALGORITHM,
            )
        })
    }
}

impl Drop for CublasHandle {
    fn drop(&mut self) {
        if self.handle != 0 && self.context.enter().is_ok() {
            // SAFETY: made by this library, and destroyed once, in its context.
            unsafe { (self.library.functions.destroy)(self.handle) };
        }
    }
}
