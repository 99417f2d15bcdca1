//! A GPU reached through CUDA as a device: what the planner asks.

use crate::bench::CudaBench;
use crate::context::Context;
use crate::driver::{DeviceInfo, Driver};
use crate::error::CudaError;
use crate::kernels::{self, CudaKernels};
use crate::nvrtc::Nvrtc;
use crate::prepare::{Builder, NotReady, Prepared};
use crate::program::{Cuda, Program};
use crate::speed;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use trimtab_core::{
    Bench, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, KernelTable,
    LaunchError, Nanos, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab_operands::{Reference, making_takes, verify_on_stand_ins};

/// How to set up CUDA devices.
pub struct CudaOptions {
    /// Who computes what kernels are compared with.
    pub reference: Arc<dyn Reference>,
    /// CudaKernels the user brings; they compete like ours.
    pub kernels: CudaKernels,
    /// The driver's library, instead of the machine's.
    pub driver: Option<PathBuf>,
    /// NVRTC's library, instead of the machine's.
    pub nvrtc: Option<PathBuf>,
}

/// A GPU of this machine, reached through CUDA. Opened when it is first used.
pub struct CudaDevice {
    driver: Arc<Driver>,
    info: DeviceInfo,
    facts: DeviceFacts,
    context: OnceLock<Result<Arc<Context>, CudaError>>,
    builder: Builder,
    kernels: Arc<KernelTable<Cuda>>,
    pub(crate) reference: Arc<dyn Reference>,
    rates: OnceLock<Rates>,
    transfers: OnceLock<Option<Transfers>>,
}

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaDevice({}, {} kernels)", self.facts.fingerprint, self.kernels.infos().len())
    }
}

/// Why a kernel cannot be launched.
pub(crate) struct Refused {
    pub kind: FailureKind,
    pub error: LaunchError,
}

impl CudaDevice {
    /// Every device CUDA has here, and in words what could not be used. Opens none of them.
    pub fn all(options: CudaOptions) -> (Vec<CudaDevice>, Vec<String>) {
        let driver = match &options.driver {
            Some(file) => Driver::load(file),
            None => Driver::find(),
        };
        let driver = match driver {
            Ok(driver) => driver,
            Err(error) => return (Vec::new(), vec![error.to_string()]),
        };
        let nvrtc = match &options.nvrtc {
            Some(file) => Nvrtc::load(file),
            None => Nvrtc::find(),
        };
        let nvrtc = match nvrtc {
            Ok(nvrtc) => Arc::new(nvrtc),
            Err(error) => {
                let devices = driver.devices();
                return (
                    Vec::new(),
                    vec![format!("{devices} CUDA devices, but nothing to compile kernels with: {error}")],
                );
            }
        };
        let kernels = Arc::new(KernelTable::new(kernels::all(), options.kernels));
        let (mut devices, mut problems) = (Vec::new(), Vec::new());
        for ordinal in 0..driver.devices() {
            match driver.info(ordinal) {
                Ok(info) => devices.push(CudaDevice {
                    facts: info.facts(driver.version()),
                    info,
                    driver: Arc::clone(&driver),
                    context: OnceLock::new(),
                    builder: Builder::new(Arc::clone(&nvrtc)),
                    kernels: Arc::clone(&kernels),
                    reference: Arc::clone(&options.reference),
                    rates: OnceLock::new(),
                    transfers: OnceLock::new(),
                }),
                Err(error) => problems.push(format!("CUDA device {ordinal}: {error}")),
            }
        }
        (devices, problems)
    }

    /// What the driver tells.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The device, opened.
    pub fn context(&self) -> Result<&Arc<Context>, LaunchError> {
        let opened = self.context.get_or_init(|| Context::open(&self.driver, self.info.ordinal));
        opened.as_ref().map_err(|error| LaunchError::Kernel(error.to_string()))
    }

    /// Why the device is of no more use, if it is not.
    fn lost(&self) -> Option<String> {
        let opened = self.context.get()?;
        match opened {
            Ok(context) => context.lost().map(|error| format!("the device was lost: {error}")),
            Err(error) => Some(format!("the device cannot be opened: {error}")),
        }
    }

    /// The program of a kernel for a problem, ready to run.
    pub(crate) fn prepare(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
    ) -> Result<Prepared, Refused> {
        let launch = |error: LaunchError| Refused { kind: FailureKind::Launch, error };
        let mut program = Program::default();
        self.kernels.launch(kernel, problem, point, &mut program).map_err(launch)?;
        let context = self.context().map_err(|error| Refused { kind: FailureKind::Untried, error })?;
        self.builder.prepare(context, &program).map_err(|error| {
            let kind = match &error {
                NotReady::Driver(error) if error.is_lost() || error.is_out_of_memory() => {
                    FailureKind::Untried
                }
                _ => FailureKind::Compile,
            };
            Refused { kind, error: LaunchError::Kernel(error.to_string()) }
        })
    }

    /// Why no kernel can do a problem here, whatever the kernel.
    fn impossible(&self, problem: &Problem) -> Option<Decline> {
        if let Some(reason) = self.lost() {
            return Some(Decline::from(reason));
        }
        let bytes = problem.input_bytes().chain([problem.out_bytes()]).fold(0u64, u64::saturating_add);
        let most = self.info.memory;
        (bytes > most)
            .then(|| Decline::from(format!("the device has {most} bytes of memory, the operands {bytes}")))
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rates(&self) -> Rates {
        *self.rates.get_or_init(|| speed::rates(self).unwrap_or_default())
    }

    fn state(&self) -> State {
        State::default()
    }

    fn kernels(&self) -> &[KernelInfo] {
        self.kernels.infos()
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.impossible(problem).or_else(|| self.kernels.declines(kernel, problem, &self.facts))
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        match self.impossible(problem) {
            Some(_) => Space::default(),
            None => self.kernels.space(kernel, problem, &self.facts),
        }
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.kernels.work(kernel, problem, point, &self.facts)
    }

    fn transfer_overhead(&self, problem: &Problem) -> Nanos {
        // A device that cannot be reached is never handed anything.
        self.transfers().map_or(speed::UNUSABLE, |transfers| transfers.transfer_overhead(problem))
    }

    fn transfers(&self) -> Option<Transfers> {
        *self.transfers.get_or_init(|| speed::transfers(self).ok())
    }

    fn reasoning(&self, _: &Problem) -> Vec<String> {
        let multiprocessor = &self.info.multiprocessor;
        vec![format!(
            "{} multiprocessors of sm_{}, each {} threads, {} registers and {} bytes of shared memory",
            self.info.multiprocessors,
            self.info.capability,
            multiprocessor.threads,
            multiprocessor.registers,
            multiprocessor.shared_bytes
        )]
    }

    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let mut bench = CudaBench::new(self, *problem);
        let check = &mut |stand_in: &Problem| bench.check(kernel, stand_in, point, timeout);
        verify_on_stand_ins(self, (kernel, problem, point), timeout, &making_takes, check)
    }

    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if matches!(problem, Problem::Custom(_)) {
            return Err(Decline::because("operands of a custom problem are known to its owner only"));
        }
        if let Some(reason) = self.impossible(problem) {
            return Err(reason);
        }
        let takes = making_takes(problem);
        if takes > limit {
            return Err(Decline::from(format!(
                "making operands would take about {takes}, allowed are {limit}"
            )));
        }
        Ok(Box::new(CudaBench::new(self, *problem)))
    }
}
