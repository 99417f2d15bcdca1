//! A GPU reached through CUDA as a device: what the planner asks.

use crate::bench::CudaBench;
use crate::bundle::bundled_count;
use crate::context::Context;
use crate::cublas::{Cublas, CublasError, CublasHandle};
use crate::cublaslt::{CublasLt, CublasLtHandle};
use crate::driver::{DeviceInfo, Driver};
use crate::error::CudaError;
use crate::graph::Graphs;
use crate::kernels::matmul::{CublasKernel, CublasLtKernel};
use crate::kernels::{self, CudaKernels};
use crate::memory::Allocation;
use crate::nvml::Nvml;
use crate::nvrtc::Nvrtc;
use crate::prepare::{Builder, NotReady, Prepared};
use crate::program::{Cuda, Program};
use crate::speed;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trimtab_core::{
    Bench, Bytes, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, KernelTable,
    LaunchError, Nanos, Point, Problem, Rates, Space, State, Transfers, Work, erase,
};
use trimtab_operands::{Keeps, Kept, Reference, making_takes, verify_on_stand_ins};

/// How to get a compiler.
const ADVICE: &str = "the package `nvidia-cuda-nvrtc` of PyPI or of the system has it; its folder must be one libraries are looked for in";

/// Programs that stay ready; with more it starts over.
const MAX_PREPARED: usize = 1024;

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
    /// cuBLAS's library, instead of the machine's.
    pub cublas: Option<PathBuf>,
    /// cuBLASLt's library, instead of the machine's.
    pub cublaslt: Option<PathBuf>,
    /// NVML's library, instead of the machine's.
    pub nvml: Option<PathBuf>,
}

impl CudaOptions {
    /// Our kernels, and the machine's libraries.
    pub fn new(reference: Arc<dyn Reference>) -> CudaOptions {
        CudaOptions {
            reference,
            kernels: Vec::new(),
            driver: None,
            nvrtc: None,
            cublas: None,
            cublaslt: None,
            nvml: None,
        }
    }
}

/// A GPU of this machine, reached through CUDA. Opened when it is first used.
pub struct CudaDevice {
    driver: Arc<Driver>,
    info: DeviceInfo,
    facts: DeviceFacts,
    context: OnceLock<Result<Arc<Context>, CudaError>>,
    pub(crate) builder: Builder,
    nvml: Option<Arc<Nvml>>,
    cublas: Option<Arc<Cublas>>,
    /// Made when first used.
    cublas_handle: OnceLock<Result<Mutex<CublasHandle>, CublasError>>,
    cublaslt: Option<Arc<CublasLt>>,
    cublaslt_handle: OnceLock<Result<Mutex<CublasLtHandle>, CublasError>>,
    pub(crate) graphs: Graphs,
    /// Words of launches that may tell that there is no answer.
    pub(crate) status: Mutex<Option<Allocation>>,
    /// Programs that are ready, by what they compute.
    prepared: Mutex<HashMap<(KernelId, Problem, Point), Arc<Prepared>>>,
    /// Memory for what the steps of a program leave to each other. Programs run one after the other: one is enough for all.
    pub(crate) scratch: Mutex<Option<Allocation>>,
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
        let nvrtc = nvrtc.map(Arc::new);
        // Who has no cuBLAS need not be told: our kernels do the same.
        let cublas = match &options.cublas {
            Some(file) => Cublas::load(file),
            None => Cublas::find(),
        };
        let cublas = cublas.ok().map(Arc::new);
        let cublaslt = options.cublaslt.as_ref().map_or_else(CublasLt::find, |file| CublasLt::load(file));
        let cublaslt = cublaslt.ok().map(Arc::new);
        let nvml = options.nvml.as_ref().map_or_else(Nvml::find, |file| Nvml::load(file)).map(Arc::new);
        // NVIDIA's own products come first where nothing is measured yet.
        let mut ours = CudaKernels::new();
        for rough in [true, false] {
            let plain = cublas.iter().map(|cublas| CublasKernel { version: cublas.version(), rough });
            ours.extend(plain.map(erase));
            let light = cublaslt.iter().map(|library| CublasLtKernel { version: library.version(), rough });
            ours.extend(light.map(erase));
        }
        ours.extend(kernels::all());
        let kernels = Arc::new(KernelTable::new(ours, options.kernels));
        let (mut devices, mut problems) = (Vec::new(), Vec::new());
        if let Err(error) = &nvrtc {
            problems.push(format!(
                "CUDA devices run {} kernels that are compiled already and no others: {error}; {ADVICE}",
                bundled_count()
            ));
        }
        for ordinal in 0..driver.devices() {
            match driver.info(ordinal) {
                Ok(info) => devices.push(CudaDevice {
                    facts: info.facts(driver.version()),
                    info,
                    driver: Arc::clone(&driver),
                    context: OnceLock::new(),
                    builder: Builder::new(nvrtc.clone()),
                    prepared: Mutex::default(),
                    nvml: nvml.clone(),
                    cublas: cublas.clone(),
                    cublas_handle: OnceLock::new(),
                    cublaslt: cublaslt.clone(),
                    cublaslt_handle: OnceLock::new(),
                    graphs: Graphs::default(),
                    status: Mutex::new(None),
                    scratch: Mutex::new(None),
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

    /// The library's products on this device.
    pub(crate) fn cublas(&self) -> Result<&Mutex<CublasHandle>, LaunchError> {
        let missing = || CublasError::NotFound("it was not looked for".to_string());
        let told = |error: &CublasError| LaunchError::Kernel(error.to_string());
        let (context, library) = (self.context()?, self.cublas.as_ref().ok_or_else(missing));
        let library = library.map_err(|error| told(&error))?;
        let made = || CublasHandle::new(library, context).map(Mutex::new);
        self.cublas_handle.get_or_init(made).as_ref().map_err(told)
    }

    /// The same by the library that suggests algorithms.
    pub(crate) fn cublaslt(&self) -> Result<&Mutex<CublasLtHandle>, LaunchError> {
        let missing = || LaunchError::Kernel("no cuBLASLt: it was not looked for".to_string());
        let (context, library) = (self.context()?, self.cublaslt.as_ref().ok_or_else(missing)?);
        let made = || CublasLtHandle::new(library, context).map(Mutex::new);
        let handle = self.cublaslt_handle.get_or_init(made).as_ref();
        handle.map_err(|error| LaunchError::Kernel(error.to_string()))
    }

    /// Whether heat or the power supply holds its clock down.
    pub(crate) fn is_slowed(&self) -> bool {
        self.nvml.as_ref().is_some_and(|nvml| nvml.is_slowed(&self.info.uuid))
    }

    /// The counter of its energy, where there is one.
    pub(crate) fn energy_uj(&self) -> Option<u64> {
        self.nvml.as_ref()?.energy_uj(&self.info.uuid)
    }

    /// Why the device is of no more use, if it is not.
    fn lost(&self) -> Option<String> {
        let opened = self.context.get()?;
        match opened {
            Ok(context) => context.lost().map(|error| format!("the device was lost: {error}")),
            Err(error) => Some(format!("the device cannot be opened: {error}")),
        }
    }

    /// What a kernel writes for a problem.
    pub(crate) fn program(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
    ) -> Result<Program, LaunchError> {
        let mut program = Program::default();
        self.kernels.launch(kernel, problem, point, &mut program)?;
        Ok(program)
    }

    /// The program of a kernel for a problem, ready to run. How long that took is told the first time.
    pub(crate) fn prepare(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
    ) -> Result<Arc<Prepared>, Refused> {
        let key = (kernel, *problem, *point);
        let ready = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ready().get(&key) {
            return Ok(Arc::clone(known));
        }
        let launch = |error: LaunchError| Refused { kind: FailureKind::Launch, error };
        let program = self.program(kernel, problem, point).map_err(launch)?;
        let context = self.context().map_err(|error| Refused { kind: FailureKind::Untried, error })?;
        let prepared = self.builder.prepare(context, &program).map_err(|error| {
            let kind = match &error {
                NotReady::Driver(error) if error.is_lost() || error.is_out_of_memory() => {
                    FailureKind::Untried
                }
                _ => FailureKind::Compile,
            };
            Refused { kind, error: LaunchError::Kernel(error.to_string()) }
        })?;
        let known = Arc::new(Prepared { built_in: None, ..prepared.clone() });
        let mut ready = ready();
        if ready.len() >= MAX_PREPARED {
            ready.clear();
        }
        ready.insert(key, known);
        Ok(Arc::new(prepared))
    }

    /// Why a kernel cannot be built for a problem without a compiler.
    fn unbuilt(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        let space = self.kernels.space(kernel, problem, &self.facts);
        let has = space.points().iter().any(|point| self.is_buildable(kernel, problem, point));
        (!has).then_some(Decline::because("there is no NVRTC to compile it with"))
    }

    fn is_buildable(&self, kernel: KernelId, problem: &Problem, point: &Point) -> bool {
        let program = self.program(kernel, problem, point);
        program.is_ok_and(|program| self.builder.missing(&program).is_none())
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
        let told = self.nvml.as_ref().map_or_else(State::default, |nvml| nvml.state(&self.info.uuid));
        // A device nobody used yet is not opened for this.
        let opened = self.context.get().and_then(|opened| opened.as_ref().ok());
        let free = opened.and_then(|context| context.memory().ok()).map(|(free, _)| Bytes(free));
        State { memory_free: free, ..told }
    }

    fn kernels(&self) -> &[KernelInfo] {
        self.kernels.infos()
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        let declines = || self.kernels.declines(kernel, problem, &self.facts);
        let decline = self.impossible(problem).or_else(declines);
        match self.builder.has_compiler() {
            true => decline,
            false => decline.or_else(|| self.unbuilt(kernel, problem)),
        }
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        if self.impossible(problem).is_some() {
            return Space::default();
        }
        let space = self.kernels.space(kernel, problem, &self.facts);
        if self.builder.has_compiler() {
            return self.spilling_last(kernel, problem, space);
        }
        let buildable = |point: &&Point| self.is_buildable(kernel, problem, point);
        let points = space.points().iter().filter(buildable).copied().collect();
        Space::new(space.axes().to_vec(), points)
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        let work = self.kernels.work(kernel, problem, point, &self.facts);
        self.with_spills(kernel, problem, point, work)
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

    fn compiled(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Option<String> {
        self.made(kernel, problem, point)
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

impl Keeps for CudaDevice {
    fn offer(&self, what: Kept, data: Vec<u8>) {
        if what == Kept::Kernels {
            self.builder.kept().offer(&data);
        }
    }

    fn news(&self, what: Kept) -> Option<Vec<u8>> {
        match what {
            Kept::Kernels => self.builder.kept().news(),
            Kept::Speeds => None,
        }
    }
}
