//! A GPU as a device: what the planner asks, and the launch the facade makes.

use crate::bench::{GpuBench, building_takes_longer, preparation};
use crate::build::Author;
use crate::engine::{Engine, engines};
use crate::kernels::{self, Kernels};
use crate::memory::{BufferUse, GpuBuffer, MemoryUse};
use crate::prepare::Prepared;
use crate::program::{Gpu, Needs, Program, Writer};
use crate::strategy;
use crate::transfer::TransferPath;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use trimtab_core::{
    AnyKernel, Bench, DType, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo,
    KernelTable, LaunchError, Nanos, Point, Problem, Rates, Space, State, Transfers, VariantClass, Work,
};
use trimtab_operands::{
    Batch, Buffer, Executor, HostLaunch, Launch, Reference, Slice, SliceMut, Wait, operand_name,
    verify_on_stand_ins,
};

/// The most programs a device keeps ready.
pub const MAX_PREPARED: usize = 1024;

/// What handing over to a device takes that cannot be used: about 30 years, so that sums stay finite.
const UNUSABLE: Nanos = Nanos(1_000_000_000_000_000_000);

/// How to set up the GPUs.
pub struct GpuOptions {
    /// Who computes what kernels are compared with.
    pub reference: Arc<dyn Reference>,
    /// Kernels the user brings; they compete like ours.
    pub kernels: Kernels,
}

type Key = (KernelId, Problem, Point);

/// Programs that are ready, the oldest first in `order`.
#[derive(Default)]
struct Programs {
    programs: FxHashMap<Key, Arc<Prepared>>,
    order: VecDeque<Key>,
}

/// A GPU of this machine.
pub struct GpuDevice {
    pub(crate) engine: Arc<Engine>,
    pub(crate) reference: Arc<dyn Reference>,
    kernels: Arc<KernelTable<Gpu>>,
    kept: RwLock<Programs>,
}

impl std::fmt::Debug for GpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GpuDevice({}, {} kernels)", self.engine.facts.fingerprint, self.kernels.infos().len())
    }
}

impl GpuDevice {
    /// Every GPU of this machine, and in words what could not be used. Opens none of them.
    pub fn all(options: GpuOptions) -> (Vec<GpuDevice>, Vec<String>) {
        let (engines, problems) = engines();
        let kernels = Arc::new(KernelTable::new(kernels::all(), options.kernels));
        let device = |engine: &Arc<Engine>| GpuDevice {
            engine: Arc::clone(engine),
            reference: Arc::clone(&options.reference),
            kernels: Arc::clone(&kernels),
            kept: RwLock::default(),
        };
        (engines.iter().map(device).collect(), problems.clone())
    }

    /// Fixed facts.
    pub fn facts(&self) -> &DeviceFacts {
        &self.engine.facts
    }

    /// The kernels.
    pub fn table(&self) -> &[Box<dyn AnyKernel<Gpu>>] {
        self.kernels.kernels()
    }

    /// Runs a kernel on operands in the caller's memory.
    pub fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        self.launch_host(HostLaunch { kernel, problem, point, inputs }, out, false).map(drop)
    }

    /// Runs a kernel on operands that are on the device.
    pub fn launch_on(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[&GpuBuffer],
        out: &GpuBuffer,
    ) -> Result<(), LaunchError> {
        let inputs = inputs.iter().map(|input| *input as &dyn Buffer).collect();
        let launches = [Launch { kernel, problem, point, inputs, out }];
        self.run(Batch { launches: &launches, read: None, wait: Wait::Done }).map(drop)
    }

    /// Memory on the device. Its contents are whatever an earlier user of this process left.
    pub fn allocate(&self, bytes: u64) -> Result<GpuBuffer, LaunchError> {
        self.engine.take(BufferUse::Storage, bytes)
    }

    /// Bytes moved to memory of their own on the device.
    pub fn upload(&self, data: &[u8]) -> Result<GpuBuffer, LaunchError> {
        let buffer = self.allocate(data.len() as u64)?;
        self.write(&buffer, data)?;
        Ok(buffer)
    }

    /// Overwrites the first bytes of a buffer; launches made afterwards see them.
    pub fn write(&self, to: &GpuBuffer, data: &[u8]) -> Result<(), LaunchError> {
        self.engine.write_by(self.engine.path(), to, data)
    }

    /// Reads the first bytes of a buffer, after every launch made before.
    pub fn download(&self, from: &GpuBuffer, out: &mut [u8]) -> Result<(), LaunchError> {
        self.engine.read_by(self.engine.path(), from, out)
    }

    /// The ways operands can reach this device, the one that is used first.
    pub fn transfer_paths(&self) -> &'static [TransferPath] {
        match self.engine.path() {
            TransferPath::InPlace => &[TransferPath::InPlace, TransferPath::Staged],
            TransferPath::Staged => &[TransferPath::Staged],
        }
    }

    /// [`GpuDevice::write`] on a path of choice, for comparing them.
    pub fn write_by(&self, path: TransferPath, to: &GpuBuffer, data: &[u8]) -> Result<(), LaunchError> {
        self.engine.write_by(path, to, data)
    }

    /// [`GpuDevice::download`] on a path of choice, for comparing them.
    pub fn download_by(
        &self,
        path: TransferPath,
        from: &GpuBuffer,
        out: &mut [u8],
    ) -> Result<(), LaunchError> {
        self.engine.read_by(path, from, out)
    }

    /// How much of the device's memory this process uses, over all its runtimes.
    pub fn memory(&self) -> MemoryUse {
        self.engine.memory.in_use()
    }

    /// How many pipelines this process built for the device, over all its runtimes.
    pub fn pipelines_built(&self) -> u64 {
        self.engine.pipelines.built()
    }

    /// What [`GpuDevice::pipeline_data`] gave in an earlier process. Saves building; of no use once the device was used.
    /// Damaged or foreign data costs what it would have saved.
    pub fn offer_pipelines(&self, data: Option<Vec<u8>>) {
        self.engine.offer(data);
    }

    /// What to keep for the next process; nothing where the driver has no such data or nothing was built since last asked.
    pub fn pipeline_data(&self) -> Option<Vec<u8>> {
        self.engine.pipeline_data()
    }

    /// Whether times come from the device's own clock.
    pub fn has_clock(&self) -> Result<bool, LaunchError> {
        self.engine.believes_its_clock()
    }

    /// Loses the device, as a driver that crashed does: for testing what happens then. It stays lost until the process ends.
    pub fn lose(&self) -> Result<(), LaunchError> {
        self.engine.lose()
    }

    /// The program of a kernel for a problem, ready to run.
    pub(crate) fn prepare(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
    ) -> Result<Arc<Prepared>, Refused> {
        let key = (kernel, *problem, *point);
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(prepared) = kept.programs.get(&key) {
                return Ok(Arc::clone(prepared));
            }
        }
        let launch = |error: LaunchError| Refused { kind: FailureKind::Launch, error };
        let (adapter, mut program) = (self.engine.told().map_err(launch)?, Program::default());
        let writer = Writer { adapter, program: &mut program };
        self.kernels.launch(kernel, problem, point, writer).map_err(launch)?;
        self.engine.open().map_err(|error| Refused { kind: FailureKind::Untried, error })?;
        let is_users = self.kernels.info(kernel).is_none_or(|info| info.class == VariantClass::Custom);
        let author = if is_users { Author::Users } else { Author::Ours };
        let prepared = self.engine.prepare(&program, author);
        let lost = self.engine.refusal().is_some();
        let kind = if lost { FailureKind::Untried } else { FailureKind::Compile };
        let prepared = Arc::new(prepared.map_err(|error| Refused { kind, error })?);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.programs.insert(key, Arc::clone(&prepared)).is_none() {
            kept.order.push_back(key);
        }
        while kept.order.len() > MAX_PREPARED {
            if let Some(oldest) = kept.order.pop_front() {
                kept.programs.remove(&oldest);
            }
        }
        Ok(prepared)
    }

    /// Why no kernel can do a problem here, whatever the kernel.
    fn impossible(&self, problem: &Problem) -> Option<Decline> {
        if let Some(reason) = self.engine.refusal() {
            return Some(Decline::from(reason));
        }
        // Kernels count with sizes as constructors let them through.
        if let Err(error) = problem.check() {
            return Some(Decline::from(error.to_string()));
        }
        let told = self.engine.told().ok()?;
        let dtype = problem.dtype()?;
        // Complex numbers are pairs of f32 to the kernels of transforms, and to no others.
        let pairs = dtype == DType::Complex64 && matches!(problem, Problem::Fft(_));
        // Casts go by bits: their kernels say themselves which types they know, and need no arithmetic of them.
        let bits = matches!(problem, Problem::Cast(_));
        if !pairs && !bits && !matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::I32) {
            return Some(Decline::from(format!("shaders have f32, f64, f16 and i32, not {dtype}")));
        }
        if let Some(what) = Needs::of(dtype).missing_on(told).filter(|_| !bits) {
            return Some(Decline::from(format!("the adapter has no {what}")));
        }
        let named = problem.input_bytes().enumerate().map(|(place, bytes)| (operand_name(place), bytes));
        let mut sized = named.chain([("the result", problem.out_bytes())]);
        let (name, bytes) = sized.find(|(_, bytes)| *bytes > told.max_buffer.0)?;
        let largest = told.max_buffer.0;
        Some(Decline::from(format!("the adapter takes buffers up to {largest} bytes, {name} has {bytes}")))
    }
}

/// Why a program could not be made ready.
pub(crate) struct Refused {
    pub kind: FailureKind,
    pub error: LaunchError,
}

impl Device for GpuDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.engine.facts
    }

    fn rates(&self) -> Rates {
        self.engine.rates()
    }

    fn state(&self) -> State {
        State::default()
    }

    fn kernels(&self) -> &[KernelInfo] {
        self.kernels.infos()
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.impossible(problem).or_else(|| self.kernels.declines(kernel, problem, &self.engine.facts))
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        if self.impossible(problem).is_some() {
            return Space::default();
        }
        self.kernels.space(kernel, problem, &self.engine.facts)
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.kernels.work(kernel, problem, point, &self.engine.facts)
    }

    fn transfer_overhead(&self, problem: &Problem) -> Nanos {
        // A device that cannot be reached is never handed anything.
        self.transfers().map_or(UNUSABLE, |transfers| transfers.transfer_overhead(problem))
    }

    fn transfers(&self) -> Option<Transfers> {
        self.engine.transfers().ok()
    }

    fn reasoning(&self, problem: &Problem) -> Vec<String> {
        let told = self.engine.facts.adapter.as_deref();
        told.map_or_else(Vec::new, |told| strategy::reasoning(problem, told, &self.rates()))
    }

    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let takes = |stand_in: &Problem| preparation(&self.engine, stand_in);
        let mut bench = GpuBench::new(self, *problem);
        let check = &mut |stand_in: &Problem| bench.check(kernel, stand_in, point, timeout);
        verify_on_stand_ins(self, (kernel, problem, point), timeout, &takes, check)
    }

    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if matches!(problem, Problem::Custom(_)) {
            return Err(Decline::because("operands of a custom problem are known to its owner only"));
        }
        if let Some(reason) = self.impossible(problem) {
            return Err(reason);
        }
        if let Err(error) = self.engine.open() {
            return Err(Decline::from(error.to_string()));
        }
        if let Some(reason) = building_takes_longer(&self.engine, limit) {
            return Err(Decline::from(reason));
        }
        let preparation = preparation(&self.engine, problem);
        if preparation > limit {
            let reason =
                format!("making operands would take about {preparation}, more than the {limit} allowed");
            return Err(Decline::from(reason));
        }
        Ok(Box::new(GpuBench::new(self, *problem)))
    }
}
