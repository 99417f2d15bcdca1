//! cuBLASLt, where it is found: products by NVIDIA's own library, by the algorithm we choose among those it suggests.

use crate::api::Handle;
use crate::context::Context;
use crate::cublas::{CublasError, LibraryProduct, check, number};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_core::Matmul;

/// Names under which it is found, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"]
};

/// Memory its algorithms may use beside the operands: what NVIDIA advises for the largest devices.
pub(crate) const WORKSPACE_BYTES: u64 = 32 << 20;
/// Suggestions that are asked for.
const MOST_SUGGESTIONS: usize = 8;
/// Products whose suggestions are remembered; with more it starts over.
const MAX_KNOWN: usize = 256;

/// Numbers of the library's header.
mod attribute {
    pub(super) const TURN_A: c_int = 3;
    pub(super) const TURN_B: c_int = 4;
    pub(super) const BATCH: c_int = 5;
    pub(super) const APART: c_int = 6;
    pub(super) const WORKSPACE: c_int = 1;
    use std::ffi::c_int;
}

/// What the library suggests, as its header declares it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Suggestion {
    algorithm: [u64; 8],
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

type Maker = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroyed = unsafe extern "C" fn(Handle) -> c_int;
type Set = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int;

struct Functions {
    create: Maker,
    destroy: Destroyed,
    property: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    product: unsafe extern "C" fn(*mut Handle, c_int, c_int) -> c_int,
    product_set: Set,
    product_destroy: Destroyed,
    layout: unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> c_int,
    layout_set: Set,
    layout_destroy: Destroyed,
    wish: Maker,
    wish_set: Set,
    wish_destroy: Destroyed,
    suggest: unsafe extern "C" fn(
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        Handle,
        c_int,
        *mut Suggestion,
        *mut c_int,
    ) -> c_int,
    multiply: unsafe extern "C" fn(
        Handle,
        Handle,
        *const c_void,
        u64,
        Handle,
        u64,
        Handle,
        *const c_void,
        u64,
        Handle,
        u64,
        Handle,
        *const [u64; 8],
        u64,
        usize,
        Handle,
    ) -> c_int,
}

/// The library. Never unloaded.
pub struct CublasLt {
    functions: Functions,
    _library: std::mem::ManuallyDrop<Library>,
    version: [u32; 3],
}

impl std::fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CublasLt({})", self.version())
    }
}

impl CublasLt {
    /// The one of this machine.
    pub fn find() -> Result<CublasLt, CublasError> {
        let mut reason = String::from("no place to look");
        for name in NAMES.iter().map(PathBuf::from) {
            match CublasLt::load(&name) {
                Err(CublasError::NotFound(error)) => reason = error,
                found => return found,
            }
        }
        Err(CublasError::NotFound(reason))
    }

    /// The one in that file.
    pub fn load(file: &Path) -> Result<CublasLt, CublasError> {
        // SAFETY: runs the initialisers of what is cuBLASLt by its name or by the caller's word.
        let library =
            unsafe { Library::new(file) }.map_err(|error| CublasError::NotFound(error.to_string()))?;
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the type of the field is that of the function of this name in the library's header.
                *unsafe { library.get($symbol) }.map_err(|_| CublasError::Symbol($symbol))?
            };
        }
        let functions = Functions {
            create: function!("cublasLtCreate"),
            destroy: function!("cublasLtDestroy"),
            property: function!("cublasLtGetProperty"),
            product: function!("cublasLtMatmulDescCreate"),
            product_set: function!("cublasLtMatmulDescSetAttribute"),
            product_destroy: function!("cublasLtMatmulDescDestroy"),
            layout: function!("cublasLtMatrixLayoutCreate"),
            layout_set: function!("cublasLtMatrixLayoutSetAttribute"),
            layout_destroy: function!("cublasLtMatrixLayoutDestroy"),
            wish: function!("cublasLtMatmulPreferenceCreate"),
            wish_set: function!("cublasLtMatmulPreferenceSetAttribute"),
            wish_destroy: function!("cublasLtMatmulPreferenceDestroy"),
            suggest: function!("cublasLtMatmulAlgoGetHeuristic"),
            multiply: function!("cublasLtMatmul"),
        };
        let mut version = [0; 3];
        for (part, number) in version.iter_mut().zip(0..) {
            let mut value: c_int = 0;
            // SAFETY: asks for a number.
            check("cublasLtGetProperty", unsafe { (functions.property)(number, &mut value) })?;
            *part = value.max(0) as u32;
        }
        Ok(CublasLt { functions, _library: std::mem::ManuallyDrop::new(library), version })
    }

    /// Its version: `12.9.1`.
    pub fn version(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }
}

/// A thing of the library's, destroyed with this.
struct Owned {
    library: Arc<CublasLt>,
    handle: Handle,
    destroy: Destroyed,
}

impl Owned {
    fn new(
        library: &Arc<CublasLt>,
        call: &'static str,
        destroy: Destroyed,
        make: impl FnOnce(&Functions, *mut Handle) -> c_int,
    ) -> Result<Owned, CublasError> {
        let mut handle = 0;
        check(call, make(&library.functions, &mut handle))?;
        Ok(Owned { library: Arc::clone(library), handle, destroy })
    }

    fn set<T>(&self, call: &'static str, set: Set, attribute: c_int, value: T) -> Result<(), CublasError> {
        let value: *const T = &value;
        // SAFETY: a thing that was just made, and a value of the type the attribute has, which is copied.
        check(call, unsafe { set(self.handle, attribute, value.cast(), size_of::<T>()) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by this library, which lives as long as this, and destroyed once.
        unsafe { (self.destroy)(self.handle) };
        // The function is the library's: it must not go first.
        let _ = &self.library;
    }
}

/// A product described, and what the library suggests for it.
struct Described {
    product: Owned,
    /// Of what the library calls A, B and C: right, left, result.
    layouts: [Owned; 3],
    suggestions: Vec<Suggestion>,
}

/// The library on one device.
pub(crate) struct CublasLtHandle {
    library: Arc<CublasLt>,
    context: Arc<Context>,
    handle: Owned,
    known: HashMap<(Matmul, bool), Described>,
}

fn lost(_: crate::CudaError) -> CublasError {
    CublasError::Call { call: "cuCtxSetCurrent", code: -1 }
}

impl CublasLtHandle {
    pub(crate) fn new(
        library: &Arc<CublasLt>,
        context: &Arc<Context>,
    ) -> Result<CublasLtHandle, CublasError> {
        context.enter().map_err(lost)?;
        // SAFETY: the context is this thread's.
        let made = |f: &Functions, to| unsafe { (f.create)(to) };
        let handle = Owned::new(library, "cublasLtCreate", library.functions.destroy, made)?;
        let (library, context) = (Arc::clone(library), Arc::clone(context));
        Ok(CublasLtHandle { library, context, handle, known: HashMap::new() })
    }

    /// Describes a product and asks for suggestions.
    fn describe(&self, product: &LibraryProduct) -> Result<Described, CublasError> {
        const REFUSED: CublasError = CublasError::Call { call: "cublasLtMatmulDescCreate", code: 7 };
        let (of, within) = product.types().ok_or(REFUSED)?;
        let sizes = product.sizes().ok_or(REFUSED)?;
        let [m, n, k, left, right, row] = sizes.map(i64::from);
        let (library, functions, problem) = (&self.library, &self.library.functions, &product.problem);
        let scale = if within == number::IN_F64 { number::F64 } else { number::F32 };
        // SAFETY: numbers of the library's header.
        let made = |f: &Functions, to| unsafe { (f.product)(to, within, scale) };
        let described = Owned::new(library, "cublasLtMatmulDescCreate", functions.product_destroy, made)?;
        let turned = |transposed: bool| if transposed { number::TRANSPOSED } else { number::PLAIN };
        // The library counts down columns: our rows are its columns, so that it makes rhsᵀ · lhsᵀ of what it sees.
        const SET: &str = "cublasLtMatmulDescSetAttribute";
        let (set, [a, b]) = (functions.product_set, [problem.rhs.transposed, problem.lhs.transposed]);
        described.set(SET, set, attribute::TURN_A, turned(a))?;
        described.set(SET, set, attribute::TURN_B, turned(b))?;
        let layout = |[rows, columns]: [i64; 2], leading: i64, apart: u64| {
            // SAFETY: numbers.
            let made =
                |f: &Functions, to| unsafe { (f.layout)(to, of, rows as u64, columns as u64, leading) };
            let made = Owned::new(library, "cublasLtMatrixLayoutCreate", functions.layout_destroy, made)?;
            const SET: &str = "cublasLtMatrixLayoutSetAttribute";
            made.set(SET, functions.layout_set, attribute::BATCH, problem.batch as i32)?;
            made.set(SET, functions.layout_set, attribute::APART, apart as i64)?;
            Ok::<Owned, CublasError>(made)
        };
        let shape = |turned: bool, shape: [i64; 2]| if turned { [shape[1], shape[0]] } else { shape };
        let apart = |shared: bool, elements: u64| if shared { 0 } else { elements };
        let layouts = [
            layout(shape(a, [n, k]), right, apart(problem.rhs.shared, problem.k * problem.n))?,
            layout(shape(b, [k, m]), left, apart(problem.lhs.shared, problem.m * problem.k))?,
            layout([n, m], row, problem.m * problem.n)?,
        ];
        // SAFETY: gives a handle.
        let made = |f: &Functions, to| unsafe { (f.wish)(to) };
        let wish = Owned::new(library, "cublasLtMatmulPreferenceCreate", functions.wish_destroy, made)?;
        const WISH: &str = "cublasLtMatmulPreferenceSetAttribute";
        wish.set(WISH, functions.wish_set, attribute::WORKSPACE, WORKSPACE_BYTES)?;
        let (mut found, mut count) = ([Suggestion::default(); MOST_SUGGESTIONS], 0);
        let [a, b, c] = layouts.each_ref().map(|layout| layout.handle);
        // SAFETY: everything was just made, and there is room for as many suggestions as asked for.
        let answer = unsafe {
            (functions.suggest)(
                self.handle.handle,
                described.handle,
                a,
                b,
                c,
                c,
                wish.handle,
                MOST_SUGGESTIONS as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        check("cublasLtMatmulAlgoGetHeuristic", answer)?;
        let found = found.iter().take(count.max(0) as usize);
        let fits = |one: &&Suggestion| one.status == 0 && one.workspace as u64 <= WORKSPACE_BYTES;
        Ok(Described { product: described, layouts, suggestions: found.filter(fits).copied().collect() })
    }

    /// Puts a product into the queue, with so much memory for the library to work in.
    ///
    /// # Safety
    /// Operands and result are allocated on this device, as long as the problem says, until it is over; and so is the workspace.
    pub(crate) unsafe fn multiply(
        &mut self,
        product: &LibraryProduct,
        [lhs, rhs, out, workspace]: [u64; 4],
    ) -> Result<(), CublasError> {
        self.context.enter().map_err(lost)?;
        let key = (product.problem, product.rough);
        if !self.known.contains_key(&key) {
            let described = self.describe(product)?;
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(key, described);
        }
        let nth = product.suggestion.unwrap_or(0);
        let described = self.known.get(&key);
        let chosen =
            described.and_then(|described| Some((described, described.suggestions.get(nth as usize)?)));
        let (described, chosen) = chosen.ok_or(CublasError::NoSuggestion { nth })?;
        let (single, double) = ([1f32, 0.0], [1f64, 0.0]);
        let scalars: [*const c_void; 2] = match product.types() {
            Some((_, number::IN_F64)) => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            _ => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        let [a, b, c] = described.layouts.each_ref().map(|layout| layout.handle);
        let stream = self.context.stream();
        // SAFETY: the caller's promise; scalars live until the call returns, which reads them; the suggestion was made for this product.
        check("cublasLtMatmul", unsafe {
            (self.library.functions.multiply)(
                self.handle.handle,
                described.product.handle,
                scalars[0],
                rhs,
                a,
                lhs,
                b,
                scalars[1],
                out,
                c,
                out,
                c,
                &chosen.algorithm,
                workspace,
                chosen.workspace,
                stream,
            )
        })
    }
}
