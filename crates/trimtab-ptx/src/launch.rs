//! A launch: how many blocks and threads, which parameters, what is checked.

use crate::counters::Counters;
use crate::fault::LaunchError;
use crate::memory::GlobalMemory;
use crate::module::Kernel;
use crate::run;

/// What is looked at beside bounds and alignment, which always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Races on shared memory.
    pub shared_races: bool,
    /// Races on global memory, within a block and between blocks. Blocks that order their accesses by fences and flags look like
    /// races.
    pub global_races: bool,
    /// Reads of shared and global memory that nobody wrote.
    pub uninitialised: bool,
    /// A barrier that some threads can no longer reach because they have returned. CUDA allows it from sm_70 on.
    pub exited_at_barrier: bool,
}

impl Default for Checks {
    /// All of them.
    fn default() -> Self {
        Self { shared_races: true, global_races: true, uninitialised: true, exited_at_barrier: true }
    }
}

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, declared and dynamic together.
    pub shared_bytes: usize,
    /// Instructions of all warps together before a kernel counts as endless.
    pub instructions: u64,
}

impl Default for Limits {
    /// What every device has: 1024 threads and 48 KiB. A thousand million instructions take about a minute.
    fn default() -> Self {
        Self { threads: 1024, shared_bytes: 48 << 10, instructions: 1 << 30 }
    }
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridLaunch {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared: usize,
    /// The parameters as bytes, each at its alignment.
    pub parameters: Vec<u8>,
    /// What the device allows.
    pub limits: Limits,
    /// What is checked.
    pub checks: Checks,
}

impl GridLaunch {
    /// A launch without parameters; all checks.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            dynamic_shared: 0,
            parameters: Vec::new(),
            limits: Limits::default(),
            checks: Checks::default(),
        }
    }

    /// Adds a parameter of 8 bytes: an address or a long integer.
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a parameter of 4 bytes.
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a number.
    pub fn f32(self, value: f32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a number.
    pub fn f64(self, value: f64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a parameter that is aligned to its size.
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.parameters.resize(self.parameters.len().next_multiple_of(bytes.len()), 0);
        self.parameters.extend_from_slice(bytes);
        self
    }
}

impl Kernel {
    /// Runs a launch to its end, or to its first mistake.
    pub fn launch(&self, memory: &mut GlobalMemory, launch: &GridLaunch) -> Result<Counters, LaunchError> {
        self.check(launch).map_err(LaunchError::Refused)?;
        run::grid(self, memory, launch).map_err(LaunchError::Fault)
    }

    fn check(&self, launch: &GridLaunch) -> Result<(), String> {
        let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let threads = product(launch.block);
        if threads == 0 || product(launch.grid) == 0 {
            return Err(format!("grid {:?} and block {:?}: nothing to run", launch.grid, launch.block));
        }
        if launch.grid[1] > 65535 || launch.grid[2] > 65535 || launch.grid[0] > i32::MAX as u32 {
            return Err(format!("grid {:?}: y and z may be 65535 at most", launch.grid));
        }
        let most = u64::from(launch.limits.threads.min(1024));
        if threads > most || launch.block[2] > 64 {
            return Err(format!(
                "block {:?}: {threads} threads, at most {most} are allowed and 64 along z",
                launch.block
            ));
        }
        if let Some(most) = self.max_threads.filter(|most| threads > u64::from(*most)) {
            return Err(format!(
                "block {:?}: {threads} threads, {} was compiled for at most {most}",
                launch.block, self.name
            ));
        }
        if let Some(required) = self.required_threads.filter(|required| *required != launch.block) {
            return Err(format!("block {:?}: {} was compiled for {required:?}", launch.block, self.name));
        }
        let shared = self.shared_bytes.saturating_add(launch.dynamic_shared);
        if shared > launch.limits.shared_bytes {
            return Err(format!(
                "{shared} bytes of shared memory, at most {} are allowed",
                launch.limits.shared_bytes
            ));
        }
        if launch.parameters.len() != self.parameter_bytes() {
            return Err(format!(
                "{} bytes of parameters, {} takes {}",
                launch.parameters.len(),
                self.name,
                self.parameter_bytes()
            ));
        }
        Ok(())
    }
}
