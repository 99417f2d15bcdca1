//! FFTW found on this machine at run time: loading, planning one at a time, executing plans on other arrays than those they were made
//! for. What it is used for is the kernels' affair.

use crate::blas::{symbol, text_at};
use libloading::Library;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// Names of the library of single precision, and of those for double precision, and of what makes planning safe for all threads.
#[cfg(target_os = "macos")]
const NAMES: [[&str; 2]; 2] =
    [["libfftw3f.3.dylib", "libfftw3f_threads.3.dylib"], ["libfftw3.3.dylib", "libfftw3_threads.3.dylib"]];
/// Names of the library of single precision, and of those for double precision, and of what makes planning safe for all threads.
#[cfg(windows)]
const NAMES: [[&str; 2]; 2] = [["libfftw3f-3.dll", "libfftw3f-3.dll"], ["libfftw3-3.dll", "libfftw3-3.dll"]];
/// Names of the library of single precision, and of those for double precision, and of what makes planning safe for all threads.
#[cfg(not(any(target_os = "macos", windows)))]
const NAMES: [[&str; 2]; 2] =
    [["libfftw3f.so.3", "libfftw3f_threads.so.3"], ["libfftw3.so.3", "libfftw3_threads.so.3"]];

const FORWARD: c_int = -1;
const BACKWARD: c_int = 1;
/// The operand of a plan may be written over.
const DESTROY_INPUT: c_uint = 1;
/// Operands are aligned as their parts are.
const UNALIGNED: c_uint = 1 << 1;
const PRESERVE_INPUT: c_uint = 1 << 4;
const ESTIMATE: c_uint = 1 << 6;

/// FFTW plans for one caller at a time, whatever their precision; ours wait here.
static PLANNING: Mutex<()> = Mutex::new(());

type Handle = *mut c_void;
type PlanComplex = unsafe extern "C" fn(c_int, *const c_int, Handle, Handle, c_int, c_uint) -> Handle;
type PlanReal = unsafe extern "C" fn(c_int, *const c_int, Handle, Handle, c_uint) -> Handle;
type Execute = unsafe extern "C" fn(Handle, Handle, Handle);
type Destroy = unsafe extern "C" fn(Handle);
type Alignment = unsafe extern "C" fn(Handle) -> c_int;

/// The functions of one precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    complex: PlanComplex,
    real: PlanReal,
    back: PlanReal,
    execute: [Execute; 3],
    destroy: Destroy,
    alignment: Alignment,
}

impl Functions {
    /// Whether an operand is aligned as FFTW needs it for vector instructions.
    pub(crate) fn is_aligned<T>(&self, at: *const T) -> bool {
        // SAFETY: FFTW declares `int fftw_alignment_of(double *)`, which looks at the address only.
        unsafe { (self.alignment)(at.cast_mut().cast()) == 0 }
    }
}

/// A library of each precision that can be called. They are never unloaded: plans live as long as they like.
#[derive(Clone, Debug)]
pub(crate) struct Fftw {
    /// What the library says about itself.
    pub(crate) version: String,
    pub(crate) single: Functions,
    pub(crate) double: Functions,
}

/// Which transform a plan is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Forward,
    Inverse,
    Real,
    InverseReal,
}

impl Fftw {
    /// FFTW, where both of its libraries are installed and nobody else in the process may be planning unseen by us.
    pub(crate) fn find() -> Option<Fftw> {
        let ((version, single), (_, double)) = (load(NAMES[0], "fftwf_")?, load(NAMES[1], "fftw_")?);
        Some(Fftw { version, single, double })
    }
}

fn load([name, threads]: [&str; 2], prefix: &str) -> Option<(String, Functions)> {
    // SAFETY: it has the name of FFTW; its initialisers are trusted as those of any library the program links.
    let library = unsafe { Library::new(name) }.ok()?;
    // SAFETY: as above.
    let threads = unsafe { Library::new(threads) }.ok();
    let safe =
        threads.as_ref().and_then(|library| symbol(library, &format!("{prefix}make_planner_thread_safe")));
    match safe {
        // SAFETY: FFTW declares `void fftw_make_planner_thread_safe(void)`: from then on planners of all threads wait for each other.
        Some(make_safe) => unsafe { make_safe() },
        // The program may plan whenever it likes, now or once it loads the library too, and two planners at a time break each other.
        None => return None,
    }
    let get = |name: &str| symbol(&library, &format!("{prefix}{name}"));
    // SAFETY: these are the functions FFTW declares under the names, in every 3.x.
    let functions = unsafe {
        let execute = |name: &str| Some(std::mem::transmute::<unsafe extern "C" fn(), Execute>(get(name)?));
        Functions {
            complex: std::mem::transmute::<unsafe extern "C" fn(), PlanComplex>(get("plan_dft")?),
            real: std::mem::transmute::<unsafe extern "C" fn(), PlanReal>(get("plan_dft_r2c")?),
            back: std::mem::transmute::<unsafe extern "C" fn(), PlanReal>(get("plan_dft_c2r")?),
            execute: [execute("execute_dft")?, execute("execute_dft_r2c")?, execute("execute_dft_c2r")?],
            destroy: std::mem::transmute::<unsafe extern "C" fn(), Destroy>(get("destroy_plan")?),
            alignment: std::mem::transmute::<unsafe extern "C" fn(), Alignment>(get("alignment_of")?),
        }
    };
    // SAFETY: `const char fftw_version[]`, a text that ends in zero; only its address is taken as a function's here.
    let version = unsafe { text_at(get("version")? as *const std::ffi::c_char) };
    std::mem::forget((library, threads));
    Some((version, functions))
}

/// As aligned as anybody asks for.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Aligned([u64; 8]);

/// A plan for transforms of some sizes.
#[derive(Debug)]
pub(crate) struct Plan {
    handle: Handle,
    kind: Kind,
    functions: Functions,
}

// SAFETY: FFTW documents that plans may be executed by several threads at a time; nothing else is done with one until it is dropped.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    /// For operands that are aligned, or anywhere in memory, which is slower. `bytes` are those of both operands, of which a measured
    /// plan makes some to try itself on.
    pub(crate) fn new(
        functions: Functions,
        kind: Kind,
        sizes: &[c_int],
        bytes: [usize; 2],
        measured: bool,
        aligned: bool,
    ) -> Option<Plan> {
        let effort = if measured { 0 } else { ESTIMATE };
        let kept = if kind == Kind::InverseReal { DESTROY_INPUT } else { PRESERVE_INPUT };
        let anywhere = if aligned { 0 } else { UNALIGNED };
        let (rank, flags) = (sizes.len() as c_int, effort | kept | anywhere);
        let mut places =
            bytes.map(|bytes| vec![Aligned([0; 8]); bytes.div_ceil(size_of::<Aligned>()).max(1)]);
        let [from, to] = places.each_mut().map(|place| place.as_mut_ptr().cast::<c_void>());
        let planning = PLANNING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both operands have the bytes that sizes ask for, who calls promises, and only live during this call: the plan is
        // executed on others.
        let handle = unsafe {
            match kind {
                Kind::Forward => (functions.complex)(rank, sizes.as_ptr(), from, to, FORWARD, flags),
                Kind::Inverse => (functions.complex)(rank, sizes.as_ptr(), from, to, BACKWARD, flags),
                Kind::Real => (functions.real)(rank, sizes.as_ptr(), from, to, flags),
                Kind::InverseReal => (functions.back)(rank, sizes.as_ptr(), from, to, flags),
            }
        };
        drop(planning);
        (!handle.is_null()).then_some(Plan { handle, kind, functions })
    }

    /// A transform, not scaled.
    ///
    /// # Safety
    /// Both must have the numbers of the plan's sizes and precision, be aligned if the plan is for such, and not overlap; the second is nobody else's, and of
    /// [`Kind::InverseReal`] the first too, which is written over.
    pub(crate) unsafe fn execute<T>(&self, from: *const T, to: *mut T) {
        let execute = match self.kind {
            Kind::Forward | Kind::Inverse => self.functions.execute[0],
            Kind::Real => self.functions.execute[1],
            Kind::InverseReal => self.functions.execute[2],
        };
        // SAFETY: the caller's promise.
        unsafe { execute(self.handle, from.cast_mut().cast(), to.cast()) }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let _planning = PLANNING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: made by this library, and nobody executes it any more.
        unsafe { (self.functions.destroy)(self.handle) }
    }
}
