//! CBLAS libraries found on this machine at run time: loading, telling them apart, holding them to one thread while we are inside.
//! What they are used for is the kernels' affair.

mod one_thread;
mod threads;

use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use threads::{Held, Number, Threads};

/// Names libraries go by, in order of preference.
#[cfg(target_os = "macos")]
const WELL_KNOWN: &[&str] = &[
    "/System/Library/Frameworks/Accelerate.framework/Accelerate",
    "libopenblas.dylib",
    "libmkl_rt.2.dylib",
    "libblis.dylib",
];
/// Names libraries go by, in order of preference.
#[cfg(windows)]
const WELL_KNOWN: &[&str] = &["mkl_rt.2.dll", "openblas.dll", "libopenblas.dll"];
/// Names libraries go by, in order of preference.
#[cfg(not(any(target_os = "macos", windows)))]
const WELL_KNOWN: &[&str] = &[
    "libmkl_rt.so.3",
    "libmkl_rt.so.2",
    "libmkl_rt.so",
    "libopenblas.so.0",
    "libopenblas.so",
    "libblis.so.4",
    "libblis.so",
    "libcblas.so.3",
    "libblas.so.3",
];

/// What the symbols of a build may be wrapped in: SciPy's OpenBLAS has a prefix, builds for 64-bit sizes have a suffix.
const PREFIXES: [&str; 2] = ["", "scipy_"];
const SUFFIXES: [&str; 2] = ["", "64_"];

/// `cblas_?gemm` for elements `T` and sizes `I`.
pub(crate) type GemmFn<T, I> =
    unsafe extern "C" fn(c_int, c_int, c_int, I, I, I, T, *const T, I, *const T, I, T, *mut T, I);

/// The products of a library, by the integers it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gemms {
    /// Sizes of 32 bits.
    Narrow(GemmFn<f32, i32>, GemmFn<f64, i32>),
    /// Sizes of 64 bits.
    Wide(GemmFn<f32, i64>, GemmFn<f64, i64>),
}

/// A library that can be called. It is never unloaded: some have threads of their own.
#[derive(Clone, Debug)]
pub(crate) struct Blas {
    /// `openblas`, `mkl`, `blis`, `accelerate` or `cblas`; a second one of a kind is `openblas.2`.
    pub(crate) name: String,
    /// What the library says about itself, or else size and time of its file.
    pub(crate) version: String,
    /// Its products.
    pub(crate) gemms: Gemms,
    kind: &'static str,
    address: usize,
    threads: Threads,
}

/// The libraries at the given paths, then those with well-known names, each once; and why given ones could not be used.
pub(crate) fn find(paths: &[PathBuf]) -> (Vec<Blas>, Vec<String>) {
    let (mut found, mut problems) = (Vec::<Blas>::new(), Vec::new());
    for path in paths {
        match Blas::load(path) {
            Ok(blas) => keep_once(&mut found, blas),
            Err(problem) => problems.push(problem),
        }
    }
    for name in WELL_KNOWN {
        // Not being installed is no problem.
        if let Ok(blas) = Blas::load(Path::new(name)) {
            keep_once(&mut found, blas);
        }
    }
    (found, problems)
}

/// The same library is often reached by several names.
fn keep_once(found: &mut Vec<Blas>, mut blas: Blas) {
    let same = |other: &Blas| {
        other.address == blas.address || (other.kind == blas.kind && other.version == blas.version)
    };
    if found.iter().any(same) {
        return;
    }
    let before = found.iter().filter(|other| other.kind == blas.kind).count();
    if before > 0 {
        blas.name = format!("{}.{}", blas.kind, before + 1);
    }
    found.push(blas);
}

impl Blas {
    /// A launch begins: the library uses one thread until this is dropped, if that is said for all threads at once.
    #[inline]
    pub(crate) fn for_launch(&self) -> Held {
        self.threads.for_launch()
    }

    /// A call begins on this thread: the same where each thread says so for itself.
    #[inline]
    pub(crate) fn for_call(&self) -> Held {
        self.threads.for_call()
    }

    fn load(path: &Path) -> Result<Blas, String> {
        let is_new = !is_loaded(path);
        // SAFETY: the caller named the file as a BLAS, or it has the name of one; its initialisers are trusted as those of
        // any library the program links.
        let library = unsafe { Library::new(path) }
            .map_err(|error| format!("{} cannot be loaded as a BLAS: {error}", path.display()))?;
        let symbols = Symbols::of(&library)
            .ok_or_else(|| format!("{} has no cblas_sgemm and cblas_dgemm", path.display()))?;
        let blas = symbols.identify(path, is_new);
        // Never unloaded: see `Blas`.
        std::mem::forget(library);
        Ok(blas)
    }
}

/// A library's symbols, once the wrapping of their names is known.
struct Symbols<'a> {
    library: &'a Library,
    prefix: &'static str,
    suffix: &'static str,
    sgemm: unsafe extern "C" fn(),
    dgemm: unsafe extern "C" fn(),
}

type AnyFn = unsafe extern "C" fn();

/// Whether somebody in this process uses a library already.
#[cfg(unix)]
pub(crate) fn is_loaded(path: &Path) -> bool {
    use libloading::os::unix;
    // SAFETY: nothing is loaded, so that no initialiser runs.
    unsafe { unix::Library::open(Some(path), unix::RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

#[cfg(windows)]
pub(crate) fn is_loaded(path: &Path) -> bool {
    libloading::os::windows::Library::open_already_loaded(path).is_ok()
}

/// A function of a library, of whatever type.
pub(crate) fn symbol(library: &Library, name: &str) -> Option<AnyFn> {
    // SAFETY: the symbol is only taken as a function of unknown type here; who calls it converts it first.
    unsafe { library.get::<AnyFn>(name).ok().map(|symbol| *symbol) }
}

impl<'a> Symbols<'a> {
    fn of(library: &'a Library) -> Option<Symbols<'a>> {
        let wrappings = PREFIXES.into_iter().flat_map(|prefix| SUFFIXES.map(|suffix| (prefix, suffix)));
        wrappings.into_iter().find_map(|(prefix, suffix)| {
            let sgemm = symbol(library, &format!("{prefix}cblas_sgemm{suffix}"))?;
            let dgemm = symbol(library, &format!("{prefix}cblas_dgemm{suffix}"))?;
            Some(Symbols { library, prefix, suffix, sgemm, dgemm })
        })
    }

    /// A function of the library's own, with the wrapping its products have or without.
    fn get(&self, name: &str) -> Option<AnyFn> {
        symbol(self.library, &format!("{}{name}{}", self.prefix, self.suffix))
            .or_else(|| symbol(self.library, name))
    }

    fn identify(&self, path: &Path, is_new: bool) -> Blas {
        let mut wide = self.suffix == "64_";
        let (kind, version, threads) = if let Some((version, threads)) = self.openblas() {
            wide |= version.contains("USE64BITINT");
            ("openblas", version, threads)
        } else if let Some((version, wide_sizes, threads)) = self.mkl(is_new) {
            wide |= wide_sizes;
            ("mkl", version, threads)
        } else if let Some((version, wide_sizes, threads)) = self.blis() {
            wide |= wide_sizes;
            ("blis", version, threads)
        } else {
            let accelerate = path.to_string_lossy().contains("Accelerate");
            let kind = if accelerate { "accelerate" } else { "cblas" };
            wide |= self.takes_wide_sizes();
            (kind, file_version(self.sgemm as *const (), path), Threads::Unknown)
        };
        // SAFETY: `cblas_sgemm` and `cblas_dgemm` have these signatures in every CBLAS; `wide` says which integers.
        let gemms = unsafe {
            if wide {
                Gemms::Wide(
                    std::mem::transmute::<AnyFn, GemmFn<f32, i64>>(self.sgemm),
                    std::mem::transmute::<AnyFn, GemmFn<f64, i64>>(self.dgemm),
                )
            } else {
                Gemms::Narrow(
                    std::mem::transmute::<AnyFn, GemmFn<f32, i32>>(self.sgemm),
                    std::mem::transmute::<AnyFn, GemmFn<f64, i32>>(self.dgemm),
                )
            }
        };
        Blas { name: kind.to_string(), version, gemms, kind, address: self.address(), threads }
    }

    /// Whether sizes are of 64 bits, where nobody says: a number whose lower half is three, and which is negative as a whole.
    #[cfg(target_pointer_width = "64")]
    fn takes_wide_sizes(&self) -> bool {
        const THREE_OR_NONE: i64 = 0xffff_ffff_0000_0003_u64.cast_signed();
        let Some(isamax) = self.get("cblas_isamax") else { return false };
        // SAFETY: every CBLAS declares `CBLAS_INDEX cblas_isamax(int, const float *, int)`; of fewer than one elements none is read,
        // and there are three.
        let found = unsafe {
            let isamax =
                std::mem::transmute::<AnyFn, unsafe extern "C" fn(i64, *const f32, i64) -> usize>(isamax);
            isamax(THREE_OR_NONE, [1.0f32, 2.0, 3.0].as_ptr(), 1)
        };
        found as u32 != 2
    }

    #[cfg(not(target_pointer_width = "64"))]
    fn takes_wide_sizes(&self) -> bool {
        false
    }

    fn address(&self) -> usize {
        self.sgemm as *const () as usize
    }

    /// The version, and the threads it uses.
    fn openblas(&self) -> Option<(String, Threads)> {
        let config = self.get("openblas_get_config")?;
        // SAFETY: OpenBLAS declares `char *openblas_get_config(void)`, a text that lives as long as the library.
        let text = unsafe { text_of(config) };
        // The number of threads it was built or started with is not part of what it is.
        let words: Vec<&str> =
            text.split_whitespace().filter(|word| !word.starts_with("MAX_THREADS")).collect();
        Some((words.join(" "), self.openblas_threads().unwrap_or(Threads::Unknown)))
    }

    fn openblas_threads(&self) -> Option<Threads> {
        // SAFETY: OpenBLAS declares `int openblas_get_parallel(void)`.
        let parallel = self.get("openblas_get_parallel").map_or(1, |parallel| unsafe {
            std::mem::transmute::<AnyFn, unsafe extern "C" fn() -> c_int>(parallel)()
        });
        // Built for OpenMP (2) it asks that for the calling thread's number in every product; the library it was linked with is found
        // through its own handle.
        let omp = (symbol(self.library, "omp_get_max_threads"), symbol(self.library, "omp_set_num_threads"));
        match (parallel, omp) {
            (0, _) => Some(Threads::Unknown),
            // SAFETY: OpenMP declares `int omp_get_max_threads(void)` and `void omp_set_num_threads(int)`.
            (2, (Some(get), Some(set))) => Some(Threads::Caller(unsafe { Number::int(get, set) })),
            _ => {
                let (get, set) =
                    (self.get("openblas_get_num_threads")?, self.get("openblas_set_num_threads")?);
                // SAFETY: OpenBLAS declares `int openblas_get_num_threads(void)` and `void openblas_set_num_threads(int)`.
                Some(Threads::of_process(self.address(), unsafe { Number::int(get, set) }))
            }
        }
    }

    /// The version, whether sizes are 64-bit, and the threads it uses.
    fn mkl(&self, is_new: bool) -> Option<(String, bool, Threads)> {
        let version = self.get("MKL_Get_Version_String")?;
        let layer = |name: &str| {
            self.get(name).map(|set| {
                // SAFETY: MKL declares `int MKL_Set_Interface_Layer(int)` and `int MKL_Set_Threading_Layer(int)`.
                unsafe { std::mem::transmute::<AnyFn, unsafe extern "C" fn(c_int) -> c_int>(set) }
            })
        };
        let wide = layer("MKL_Set_Interface_Layer").is_some_and(|set| {
            // SAFETY: as declared; 0 asks for 32-bit sizes. A layer chosen earlier in the process stays, and is returned.
            unsafe { set(0) & 1 == 1 }
        });
        // Layers are chosen once in a process. Where nobody else uses MKL so far we choose the sequential one: the default loads an OpenMP
        // runtime, and ends the process if there is none. A program that begins to use MKL after us finds it sequential, with 32-bit
        // sizes; one that loaded it before us keeps its threads.
        if let Some(set) = layer("MKL_Set_Threading_Layer").filter(|_| is_new) {
            // SAFETY: as declared; 1 is sequential.
            unsafe { set(1) };
        }
        let threads = self.get("MKL_Set_Num_Threads_Local").map_or(Threads::Unknown, |set| {
            // SAFETY: MKL declares `int MKL_Set_Num_Threads_Local(int)`.
            unsafe { Threads::of_mkl(set) }
        });
        let mut buffer = [0u8; 256];
        // SAFETY: MKL declares `void MKL_Get_Version_String(char *, int)` and writes at most the length it is given.
        unsafe {
            let version = std::mem::transmute::<AnyFn, unsafe extern "C" fn(*mut c_char, c_int)>(version);
            version(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1);
        }
        let text = String::from_utf8_lossy(buffer.split(|&byte| byte == 0).next().unwrap_or_default());
        Some((text.trim().to_string(), wide, threads))
    }

    /// The version, whether sizes are 64-bit (a build may have such under the plain names), and the threads it uses.
    fn blis(&self) -> Option<(String, bool, Threads)> {
        let version = self.get("bli_info_get_version_str")?;
        let wide = self.get("bli_info_get_blas_int_type_size").is_some_and(|bits| {
            // SAFETY: BLIS declares `gint_t bli_info_get_blas_int_type_size(void)`; the lower half says 32 or 64, whatever the
            // size of its integers.
            unsafe { std::mem::transmute::<AnyFn, unsafe extern "C" fn() -> i32>(bits)() == 64 }
        });
        let number = self.get("bli_thread_get_num_threads").zip(self.get("bli_thread_set_num_threads"));
        let threads = number.map_or(Threads::Unknown, |(get, set)| {
            // SAFETY: BLIS declares `dim_t bli_thread_get_num_threads(void)` and `void bli_thread_set_num_threads(dim_t)`.
            let number = unsafe { Number::size(get, set) };
            // The number became each thread's own in 1.0, with this function. Numbers of threads by loop, which a program may have set
            // instead, are not given back.
            match self.get("bli_thread_reset") {
                Some(_) => Threads::Caller(number),
                None => Threads::of_process(self.address(), number),
            }
        });
        // SAFETY: BLIS declares `const char *bli_info_get_version_str(void)`, a text that lives as long as the library.
        Some((unsafe { text_of(version) }, wide, threads))
    }
}

/// # Safety
/// The function must take nothing and give null or a text ending in zero.
unsafe fn text_of(function: AnyFn) -> String {
    // SAFETY: as promised by the caller.
    unsafe { text_at(std::mem::transmute::<AnyFn, unsafe extern "C" fn() -> *const c_char>(function)()) }
}

/// # Safety
/// It must be null or a text ending in zero.
pub(crate) unsafe fn text_at(at: *const c_char) -> String {
    match at.is_null() {
        true => "unknown".to_string(),
        // SAFETY: as promised by the caller.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().trim().to_string(),
    }
}

/// Size and time of the file a function is from: enough to notice that it was replaced.
fn file_version(function: *const (), path: &Path) -> String {
    let path = file_of(function).unwrap_or_else(|| path.to_path_buf());
    let Ok(facts) = std::fs::metadata(&path) else {
        return path.display().to_string();
    };
    let modified = facts.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} bytes of {} s", facts.len(), modified.unwrap_or_default().as_secs())
}

#[cfg(unix)]
fn file_of(function: *const ()) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut facts = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address and writes to the struct it is given, which is valid when zeroed.
    let facts = unsafe {
        if libc::dladdr(function.cast(), facts.as_mut_ptr()) == 0 {
            return None;
        }
        facts.assume_init()
    };
    if facts.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name of a loaded file ends in zero, and the file stays loaded.
    let name = unsafe { CStr::from_ptr(facts.dli_fname) };
    std::fs::canonicalize(std::ffi::OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(not(unix))]
fn file_of(_: *const ()) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_that_is_no_library_is_a_problem_with_its_path() {
        let (_, problems) = find(&[PathBuf::from("/nonexistent/libfast.so")]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("/nonexistent/libfast.so"), "{problems:?}");
    }

    #[test]
    fn a_library_reached_by_two_names_is_kept_once_and_kinds_are_numbered() {
        let (found, _) = find(&[]);
        let mut kept = found.clone();
        for blas in found.clone() {
            keep_once(&mut kept, blas);
        }
        assert_eq!(kept.len(), found.len());
        for (nth, blas) in found.iter().enumerate() {
            assert!(found[..nth].iter().all(|other| other.name != blas.name), "{found:?}");
        }
    }
}
