//! Kernels in C, C++ and Rust: a library that was compiled for the point, called in this process. The process is a child that may end.

use crate::job::{GivenArgument, GivenData, Job};
use crate::shim::SYMBOL;
use crate::worker::{Refusal, Target};
use libloading::{Library, Symbol};
use std::ffi::c_void;
use std::path::PathBuf;
use trimtab_study::{Failed, Fault};
use trimtab_tune::Stopwatch;

/// Where an argument starts: a cache line.
const ALIGNMENT: usize = 64;
/// Bytes before and after an argument that nobody may write to.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xc7;
/// Libraries that stay loaded: the point that is measured and the best so far.
const MAX_LOADED: usize = 4;

type Call = unsafe extern "C" fn(*const *mut c_void, *const u64);

/// Memory of an argument with guards around it.
struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    fn new(len: usize) -> Guarded {
        let bytes = vec![GUARD_BYTE; len + 2 * GUARD + ALIGNMENT];
        let base = bytes.as_ptr() as usize;
        let start = (base + GUARD).next_multiple_of(ALIGNMENT) - base;
        Guarded { bytes, start, len }
    }

    fn is_intact(&self) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        before.iter().chain(&rest[self.len..]).all(|byte| *byte == GUARD_BYTE)
    }
}

/// This process.
#[derive(Default)]
pub(crate) struct Host {
    libraries: Vec<(PathBuf, Library)>,
    arguments: Vec<Guarded>,
}

impl Target for Host {
    fn load(&mut self, job: &Job) -> Result<(), Refusal> {
        let Some(path) = &job.library else {
            return Err(Failed::new(Fault::Start, "there is no library of this point").into());
        };
        if let Some(at) = self.libraries.iter().position(|(known, _)| known == path) {
            let found = self.libraries.remove(at);
            self.libraries.insert(0, found);
            return Ok(());
        }
        // SAFETY: the library was compiled of the user's kernel for this call; its initialisers are the user's code, which may do
        // anything: this process is a child that nobody else relies on.
        let library = unsafe { Library::new(path) }
            .map_err(|error| Failed::new(Fault::Start, format!("the library cannot be loaded: {error}")))?;
        self.libraries.insert(0, (path.clone(), library));
        self.libraries.truncate(MAX_LOADED);
        Ok(())
    }

    fn write(&mut self, at: usize, given: &GivenArgument, bytes: &[u8]) -> Result<(), Refusal> {
        let len = given.bytes();
        if self.arguments.get(at).is_none_or(|known| known.len != len) {
            self.arguments.truncate(at);
            self.arguments.push(Guarded::new(len));
        }
        let argument = &mut self.arguments[at];
        argument.bytes[argument.start..argument.start + len].copy_from_slice(bytes);
        Ok(())
    }

    fn launch(&mut self, _: &Job) -> Result<f64, Refusal> {
        let Some((_, library)) = self.libraries.first() else {
            return Err(Failed::new(Fault::Start, "no library is loaded").into());
        };
        // SAFETY: our own lines around the kernel define this function with exactly this type (`shim.rs`).
        let call: Symbol<'_, Call> = unsafe { library.get(SYMBOL.as_bytes()) }
            .map_err(|error| Failed::new(Fault::Start, error.to_string()))?;
        let lens: Vec<u64> = self.arguments.iter().map(|argument| argument.len as u64).collect();
        let pointers: Vec<*mut c_void> = self
            .arguments
            .iter_mut()
            .map(|argument| argument.bytes[argument.start..].as_mut_ptr().cast::<c_void>())
            .collect();
        let watch = Stopwatch::start();
        // SAFETY: each pointer is to memory of its length that lives until the end of this function and nobody else uses meanwhile. What
        // the kernel does with it is the user's code: this process is a child that nobody else relies on.
        unsafe { call(pointers.as_ptr(), lens.as_ptr()) };
        Ok(watch.elapsed().0.max(1) as f64 / 1e9)
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Refusal> {
        if let Some(argument) = self.arguments.get(at) {
            bytes.copy_from_slice(&argument.bytes[argument.start..argument.start + argument.len]);
        }
        Ok(())
    }

    fn intact(&self, job: &Job) -> Result<(), Failed> {
        let broken =
            job.arguments.iter().zip(&self.arguments).find(|(given, guarded)| {
                matches!(given.data, GivenData::Array { .. }) && !guarded.is_intact()
            });
        match broken {
            Some((given, _)) => {
                let message =
                    format!("it writes beside `{}`, before its first or after its last element", given.name);
                Err(Failed::new(Fault::Wrong, message))
            }
            None => Ok(()),
        }
    }
}
