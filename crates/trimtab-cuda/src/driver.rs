//! The driver's library: found, asked for its version and its devices.

use crate::api::Functions;
use crate::error::{CudaError, Unavailable, code};
use crate::occupancy::Multiprocessor;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::sync::Arc;

/// The oldest driver we call: CUDA 12.0. That of 535, the oldest looked at, has every function.
pub const LEAST_VERSION: u32 = 12_000;

/// Where drivers lie.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Numbers of the driver's attributes of devices.
mod attribute {
    pub(super) const THREADS_A_BLOCK: u32 = 1;
    pub(super) const SHARED_A_BLOCK: u32 = 8;
    pub(super) const REGISTERS_A_BLOCK: u32 = 12;
    pub(super) const CLOCK_KHZ: u32 = 13;
    pub(super) const MULTIPROCESSORS: u32 = 16;
    pub(super) const INTEGRATED: u32 = 18;
    pub(super) const L2_BYTES: u32 = 38;
    pub(super) const THREADS_A_MULTIPROCESSOR: u32 = 39;
    pub(super) const MAJOR: u32 = 75;
    pub(super) const MINOR: u32 = 76;
    pub(super) const MANAGED_MEMORY: u32 = 83;
    pub(super) const CONCURRENT_MANAGED: u32 = 89;
    pub(super) const SHARED_A_MULTIPROCESSOR: u32 = 81;
    pub(super) const REGISTERS_A_MULTIPROCESSOR: u32 = 82;
    pub(super) const SHARED_A_BLOCK_OPT_IN: u32 = 97;
    pub(super) const BLOCKS_A_MULTIPROCESSOR: u32 = 106;
    pub(super) const SHARED_RESERVED: u32 = 111;
}

/// A CUDA driver that works. Never unloaded: drivers do not survive it.
pub struct Driver {
    pub(crate) functions: Functions,
    _library: std::mem::ManuallyDrop<Library>,
    version: u32,
    devices: u32,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver(CUDA {}, {} devices)", self.version, self.devices)
    }
}

/// What a device tells about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its identity, also among several of one name.
    pub uuid: [u8; 16],
    /// Its memory in bytes.
    pub memory: u64,
    /// The compute capability: 86 for 8.6.
    pub capability: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// What one of them holds.
    pub multiprocessor: Multiprocessor,
    /// Threads of a block at most.
    pub block_threads: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: u64,
    /// The clock the driver names.
    pub clock_khz: u32,
    /// Whether it shares the processor's memory.
    pub integrated: bool,
    /// Whether memory of both pays: it is the same memory, and the processor may use it at any time. A device with memory of its own moves
    /// pages to and fro instead, which takes longer than copying once.
    pub unified: bool,
}

impl Driver {
    /// The driver of this machine.
    pub fn find() -> Result<Arc<Driver>, Unavailable> {
        let mut reason = String::new();
        for name in NAMES {
            match open(name.as_ref()) {
                Ok(library) => return Driver::start(library, &|_| true),
                Err(error) => reason = error,
            }
        }
        Err(Unavailable::NoDriver(reason))
    }

    /// The driver in that file.
    pub fn load(library: &Path) -> Result<Arc<Driver>, Unavailable> {
        Driver::load_hiding(library, &|_| true)
    }

    /// The same as if it had only the functions for which `has` says so: what happens with another driver.
    pub fn load_hiding(library: &Path, has: &dyn Fn(&str) -> bool) -> Result<Arc<Driver>, Unavailable> {
        Driver::start(open(library).map_err(Unavailable::NoDriver)?, has)
    }

    fn start(library: Library, has: &dyn Fn(&str) -> bool) -> Result<Arc<Driver>, Unavailable> {
        let functions = Functions::find(&library, has).map_err(Unavailable::Symbol)?;
        let library = std::mem::ManuallyDrop::new(library);
        let mut driver = Driver { functions, _library: library, version: 0, devices: 0 };
        let mut version: c_int = 0;
        // SAFETY: asks for a number, before anything else is allowed to be called.
        let answer = unsafe { (driver.functions.version)(&mut version) };
        driver.check("cuDriverGetVersion", answer).map_err(Unavailable::Refused)?;
        driver.version = version.max(0) as u32;
        if driver.version < LEAST_VERSION {
            return Err(Unavailable::TooOld { found: driver.version, needed: LEAST_VERSION });
        }
        let no_device = |error: CudaError| match error.code {
            code::NO_DEVICE => Unavailable::NoDevice,
            _ => Unavailable::Refused(error),
        };
        // SAFETY: the flags must be zero; may be called again.
        let answer = unsafe { (driver.functions.init)(0) };
        driver.check("cuInit", answer).map_err(no_device)?;
        let mut count: c_int = 0;
        // SAFETY: asks for a number.
        let answer = unsafe { (driver.functions.device_count)(&mut count) };
        driver.check("cuDeviceGetCount", answer).map_err(no_device)?;
        driver.devices = count.max(0) as u32;
        if driver.devices == 0 { Err(Unavailable::NoDevice) } else { Ok(Arc::new(driver)) }
    }

    /// The newest CUDA it knows: 12020 for 12.2.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How many devices it has.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// What a device tells about itself.
    pub fn info(&self, ordinal: u32) -> Result<DeviceInfo, CudaError> {
        let mut device: c_int = 0;
        // SAFETY: an ordinal that is not there is an error.
        let answer = unsafe { (self.functions.device)(&mut device, ordinal as c_int) };
        self.check("cuDeviceGet", answer)?;
        let mut name = [0 as c_char; 256];
        // SAFETY: writes at most 255 characters and a zero.
        let answer = unsafe { (self.functions.device_name)(name.as_mut_ptr(), 255, device) };
        self.check("cuDeviceGetName", answer)?;
        let name: Vec<u8> =
            name.iter().take_while(|letter| **letter != 0).map(|letter| *letter as u8).collect();
        let mut uuid = [0; 16];
        // SAFETY: writes 16 bytes.
        let answer = unsafe { (self.functions.device_uuid)(&mut uuid, device) };
        self.check("cuDeviceGetUuid", answer)?;
        let mut memory = 0usize;
        // SAFETY: asks for a number.
        let answer = unsafe { (self.functions.device_memory)(&mut memory, device) };
        self.check("cuDeviceTotalMem", answer)?;
        let ask = |attribute: u32| -> Result<u32, CudaError> {
            let mut value: c_int = 0;
            // SAFETY: asks for a number; an attribute it does not know is an error.
            let answer = unsafe { (self.functions.device_attribute)(&mut value, attribute, device) };
            self.check("cuDeviceGetAttribute", answer)?;
            Ok(value.max(0) as u32)
        };
        let integrated = ask(attribute::INTEGRATED)? != 0;
        // What an older driver does not know it does not have.
        let has = |attribute: u32| ask(attribute).is_ok_and(|value| value != 0);
        let unified = integrated && has(attribute::MANAGED_MEMORY) && has(attribute::CONCURRENT_MANAGED);
        let capability = 10 * ask(attribute::MAJOR)? + ask(attribute::MINOR)?;
        let multiprocessor = Multiprocessor {
            capability,
            threads: ask(attribute::THREADS_A_MULTIPROCESSOR)?,
            blocks: ask(attribute::BLOCKS_A_MULTIPROCESSOR)?,
            registers: ask(attribute::REGISTERS_A_MULTIPROCESSOR)?,
            block_registers: ask(attribute::REGISTERS_A_BLOCK)?,
            shared_bytes: ask(attribute::SHARED_A_MULTIPROCESSOR)?,
            block_shared_bytes: ask(attribute::SHARED_A_BLOCK)?,
            opt_in_shared_bytes: ask(attribute::SHARED_A_BLOCK_OPT_IN)?,
            reserved_shared_bytes: ask(attribute::SHARED_RESERVED)?,
        };
        Ok(DeviceInfo {
            ordinal,
            name: String::from_utf8_lossy(&name).into_owned(),
            uuid,
            memory: memory as u64,
            capability,
            multiprocessors: ask(attribute::MULTIPROCESSORS)?,
            multiprocessor,
            block_threads: ask(attribute::THREADS_A_BLOCK)?,
            l2_bytes: ask(attribute::L2_BYTES)?.into(),
            clock_khz: ask(attribute::CLOCK_KHZ)?,
            integrated,
            unified,
        })
    }

    /// An answer of the driver as a result, with its name for it.
    pub(crate) fn check(&self, call: &'static str, answer: u32) -> Result<(), CudaError> {
        if answer == code::SUCCESS {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: gives a text that lives as long as the library, or null and an error for a code it does not know.
        let known = unsafe { (self.functions.error_name)(answer, &mut name) };
        let name = if known == code::SUCCESS && !name.is_null() {
            // SAFETY: not null, ends with a zero, lives as long as the library.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "an error without a name".to_string()
        };
        Err(CudaError { call, code: answer, name })
    }
}

fn open(library: &Path) -> Result<Library, String> {
    // SAFETY: runs the initialisers of what is the driver by its name or by the caller's word.
    unsafe { Library::new(library) }.map_err(|error| error.to_string())
}
