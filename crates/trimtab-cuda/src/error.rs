//! What can go wrong with a driver: it is not there, or a call fails.

/// Why there is no CUDA here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No library of that name can be loaded.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// The driver lacks a function.
    #[error("the CUDA driver has no function {0}: a newer driver has it")]
    Symbol(&'static str),
    /// The driver is older than what we call.
    #[error("the CUDA driver is for CUDA {}.{}, at least {}.{} is needed", .found / 1000, .found % 1000 / 10, .needed / 1000, .needed % 1000 / 10)]
    TooOld {
        /// Its version, as in 12020 for 12.2.
        found: u32,
        /// What is needed.
        needed: u32,
    },
    /// A driver, and nothing to drive.
    #[error("a CUDA driver, but no device")]
    NoDevice,
    /// It does not start.
    #[error("the CUDA driver does not start: {0}")]
    Refused(CudaError),
}

/// A call of the driver that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub struct CudaError {
    /// The function.
    pub call: &'static str,
    /// The driver's code.
    pub code: u32,
    /// The driver's name for it.
    pub name: String,
}

/// Codes of the driver that mean something to us.
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const LAUNCH_TIMEOUT: u32 = 702;
    /// After these every call of the process on that device fails.
    pub(crate) const STICKY: [u32; 12] = [46, 214, 220, 700, 710, 714, 715, 716, 717, 718, 719, 999];
}

impl CudaError {
    /// Not enough memory, on the device or for the launch.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == code::OUT_OF_MEMORY
    }

    /// The device is of no more use to this process.
    pub fn is_lost(&self) -> bool {
        self.code == code::LAUNCH_TIMEOUT || code::STICKY.contains(&self.code)
    }

    /// What was launched is not over in time.
    pub fn is_not_ready(&self) -> bool {
        self.code == code::NOT_READY
    }
}
