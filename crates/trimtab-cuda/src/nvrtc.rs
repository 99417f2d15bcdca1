//! NVRTC: CUDA C to PTX or machine code, in this process. Any version from 11.2 on; what is missing is an error.

use crate::program::LaunchStep;
use libloading::Library;
use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};

/// Names under which NVRTC is found, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
};

/// From which version on it can leave out declarations of textures and of CUDA's runtime.
const LEAST_WITH_MINIMAL: (u32, u32) = (12, 4);

/// What the library hands out for a program.
type Program = usize;

/// Why nothing was compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The library is nowhere.
    #[error("no NVRTC: {0}")]
    NotFound(String),
    /// The library lacks a function.
    #[error("NVRTC has no function {0}")]
    Symbol(&'static str),
    /// A function of the library failed.
    #[error("{call} failed with code {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its code.
        code: i32,
    },
    /// The source or an option holds a zero byte.
    #[error("a zero byte in the source or an option")]
    Zero,
    /// The compiler's log.
    #[error("{0}")]
    Compile(String),
    /// Neither this architecture nor an older one is known.
    #[error("NVRTC {}.{} compiles for no architecture up to sm_{capability}", .version.0, .version.1)]
    Architecture {
        /// The compute capability.
        capability: u32,
        /// The version of NVRTC.
        version: (u32, u32),
    },
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ( $($type:ty),* $(,)? );)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Functions, NvrtcError> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the type is that of the function of this name in NVRTC's header.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($type),*) -> c_int>($symbol) };
                        *found.map_err(|_| NvrtcError::Symbol($symbol))?
                    },)*
                })
            }
        }
    };
}

functions! {
    version = "nvrtcVersion"(*mut c_int, *mut c_int);
    count_architectures = "nvrtcGetNumSupportedArchs"(*mut c_int);
    architectures = "nvrtcGetSupportedArchs"(*mut c_int);
    create = "nvrtcCreateProgram"(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    compile = "nvrtcCompileProgram"(Program, c_int, *const *const c_char);
    log_size = "nvrtcGetProgramLogSize"(Program, *mut usize);
    log = "nvrtcGetProgramLog"(Program, *mut c_char);
    ptx_size = "nvrtcGetPTXSize"(Program, *mut usize);
    ptx = "nvrtcGetPTX"(Program, *mut c_char);
    cubin_size = "nvrtcGetCUBINSize"(Program, *mut usize);
    cubin = "nvrtcGetCUBIN"(Program, *mut c_char);
    destroy = "nvrtcDestroyProgram"(*mut Program);
}

/// What a driver loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// Text the driver compiles further.
    Ptx(String),
    /// Machine code of one architecture.
    Cubin(Vec<u8>),
}

impl Compiled {
    /// As the driver takes it: text ends with a zero.
    pub fn image(&self) -> Vec<u8> {
        match self {
            Compiled::Ptx(text) => text.bytes().chain([0]).collect(),
            Compiled::Cubin(code) => code.clone(),
        }
    }
}

/// All that comes of compiling for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What the machine code was made from.
    pub ptx: String,
    /// Machine code.
    pub cubin: Vec<u8>,
    /// What the assembler says of registers, memory and spills.
    pub told: String,
}

/// The compiler.
pub struct Nvrtc {
    functions: Functions,
    _library: std::mem::ManuallyDrop<Library>,
    version: (u32, u32),
    architectures: Vec<u32>,
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nvrtc({}.{})", self.version.0, self.version.1)
    }
}

impl Nvrtc {
    /// The one of this machine.
    pub fn find() -> Result<Nvrtc, NvrtcError> {
        Nvrtc::first_of(NAMES.iter().map(PathBuf::from))
    }

    /// The first of some files that can be loaded.
    pub fn first_of(files: impl IntoIterator<Item = PathBuf>) -> Result<Nvrtc, NvrtcError> {
        let mut reason = String::from("no place to look");
        for file in files {
            match Nvrtc::load(&file) {
                Err(NvrtcError::NotFound(error)) => reason = error,
                found => return found,
            }
        }
        Err(NvrtcError::NotFound(reason))
    }

    /// The one in that file.
    pub fn load(file: &Path) -> Result<Nvrtc, NvrtcError> {
        // SAFETY: runs the initialisers of what is NVRTC by its name or by the caller's word.
        let library =
            unsafe { Library::new(file) }.map_err(|error| NvrtcError::NotFound(error.to_string()))?;
        let functions = Functions::find(&library)?;
        let (mut major, mut minor, mut count): (c_int, c_int, c_int) = (0, 0, 0);
        // SAFETY: asks for two numbers.
        check("nvrtcVersion", unsafe { (functions.version)(&mut major, &mut minor) })?;
        // SAFETY: asks for a number.
        check("nvrtcGetNumSupportedArchs", unsafe { (functions.count_architectures)(&mut count) })?;
        let mut architectures: Vec<c_int> = vec![0; count.max(0) as usize];
        // SAFETY: writes as many numbers as the library just said.
        check("nvrtcGetSupportedArchs", unsafe { (functions.architectures)(architectures.as_mut_ptr()) })?;
        Ok(Nvrtc {
            functions,
            _library: std::mem::ManuallyDrop::new(library),
            version: (major.max(0) as u32, minor.max(0) as u32),
            architectures: architectures.into_iter().map(|known| known.max(0) as u32).collect(),
        })
    }

    /// Its version: (12, 9).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The architectures it compiles for.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// The options of a kernel of ours, which needs no declarations of textures and of CUDA's runtime: without, a small one takes a
    /// fifth to two fifths less time.
    pub fn options_of(&self, step: &LaunchStep) -> Vec<String> {
        let fewer = (self.version >= LEAST_WITH_MINIMAL).then(|| "--minimal".to_string());
        step.options().into_iter().chain(fewer).collect()
    }

    /// Compiles for a device: machine code where its architecture is known, because drivers refuse PTX of a newer CUDA than theirs; else PTX
    /// of the newest architecture the device has.
    pub fn compile_for(
        &self,
        capability: u32,
        source: &str,
        options: &[String],
    ) -> Result<Compiled, NvrtcError> {
        self.compile_both(capability, source, options).map(|(compiled, _)| compiled)
    }

    /// The same, and beside machine code the PTX it was made of, for a driver that refuses the former.
    pub fn compile_both(
        &self,
        capability: u32,
        source: &str,
        options: &[String],
    ) -> Result<(Compiled, Option<String>), NvrtcError> {
        if self.architectures.contains(&capability) {
            let options = with_architecture(options, format!("sm_{capability}"));
            let made = self.made(source, &options)?;
            return Ok((Compiled::Cubin(made.cubin()?), Some(made.ptx()?)));
        }
        let older = self.architectures.iter().copied().filter(|known| *known <= capability).max();
        let newest = older.ok_or(NvrtcError::Architecture { capability, version: self.version })?;
        Ok((Compiled::Ptx(self.ptx(newest, source, options)?), None))
    }

    /// Compiles to PTX of an architecture.
    pub fn ptx(&self, capability: u32, source: &str, options: &[String]) -> Result<String, NvrtcError> {
        let options = with_architecture(options, format!("compute_{capability}"));
        self.made(source, &options)?.ptx()
    }

    /// Compiles for an architecture that is known, and keeps everything that is said on the way.
    pub fn listing(&self, capability: u32, source: &str, options: &[String]) -> Result<Listing, NvrtcError> {
        let mut options = with_architecture(options, format!("sm_{capability}"));
        options.push("--ptxas-options=-v".to_string());
        let made = self.made(source, &options)?;
        Ok(Listing { ptx: made.ptx()?, cubin: made.cubin()?, told: made.log()? })
    }

    /// A compiled program.
    fn made(&self, source: &str, options: &[String]) -> Result<Made<'_>, NvrtcError> {
        let zero = |_| NvrtcError::Zero;
        let source = CString::new(source).map_err(zero)?;
        let options = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(zero)?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut made = Made { functions: &self.functions, program: 0 };
        let (none, name) = (std::ptr::null(), c"kernel.cu");
        // SAFETY: texts end with a zero and live until the call returns, which copies them; there are no headers.
        let answer = unsafe {
            (self.functions.create)(&mut made.program, source.as_ptr(), name.as_ptr(), 0, none, none)
        };
        check("nvrtcCreateProgram", answer)?;
        // SAFETY: a program that was just made, and as many texts as said.
        let answer =
            unsafe { (self.functions.compile)(made.program, pointers.len() as c_int, pointers.as_ptr()) };
        if answer != 0 { Err(NvrtcError::Compile(made.log()?)) } else { Ok(made) }
    }
}

fn with_architecture(options: &[String], name: String) -> Vec<String> {
    [format!("--gpu-architecture={name}")].into_iter().chain(options.iter().cloned()).collect()
}

/// Up to the first zero.
fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn check(call: &'static str, code: c_int) -> Result<(), NvrtcError> {
    if code == 0 { Ok(()) } else { Err(NvrtcError::Call { call, code }) }
}

/// A program, destroyed with this.
struct Made<'a> {
    functions: &'a Functions,
    program: Program,
}

type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

impl Made<'_> {
    fn ptx(&self) -> Result<String, NvrtcError> {
        let text = self.text("nvrtcGetPTX", self.functions.ptx_size, self.functions.ptx)?;
        Ok(String::from_utf8_lossy(trimmed(&text)).into_owned())
    }

    fn cubin(&self) -> Result<Vec<u8>, NvrtcError> {
        self.text("nvrtcGetCUBIN", self.functions.cubin_size, self.functions.cubin)
    }

    fn log(&self) -> Result<String, NvrtcError> {
        let log = self.text("nvrtcGetProgramLog", self.functions.log_size, self.functions.log)?;
        Ok(String::from_utf8_lossy(trimmed(&log)).trim().to_string())
    }

    fn text(&self, call: &'static str, size: Size, get: Get) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0usize;
        // SAFETY: asks for a number.
        check(call, unsafe { size(self.program, &mut bytes) })?;
        let mut text = vec![0u8; bytes];
        // SAFETY: writes as many bytes as the library just said.
        check(call, unsafe { get(self.program, text.as_mut_ptr().cast()) })?;
        Ok(text)
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if self.program != 0 {
            // SAFETY: made by this library, and destroyed once.
            unsafe { (self.functions.destroy)(&mut self.program) };
        }
    }
}
