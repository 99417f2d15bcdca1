//! The CPU as a device: what the planner asks, and the launch the facade makes.

use crate::args::{Args, Cpu};
use crate::bench::CpuBench;
use crate::blas;
use crate::ending::Libraries;
use crate::fftw::Fftw;
use crate::isolate::Isolation;
use crate::kernels::{self, Kernels};
use crate::pool::Pool;
use crate::probe;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use trimtab_core::{
    Bench, Bytes, DType, Decline, Device, DeviceFacts, Failure, KernelId, KernelInfo, KernelTable,
    LaunchError, Nanos, Point, Problem, Rates, Space, State, VariantClass, Work,
};
use trimtab_operands::{
    Batch, Executor, Expected, HostBuffer, HostLaunch, Operands, Reference, Slice, SliceMut, Wait,
    making_takes, verify_on_stand_ins,
};
use trimtab_tune::Stopwatch;

/// Longest the end waits for a library to return from a measurement that was given up.
const LIBRARY_PATIENCE: Nanos = Nanos::from_millis(20_000);
/// Settings kept in mind that were tried out in a child process; with more it starts over.
const MAX_TRIED_OUT: usize = 4096;
/// Where Linux shows energy counters.
const ENERGY_COUNTERS: &str = "sys/class/powercap";

/// How to set up the CPU.
#[derive(Default)]
pub struct CpuOptions {
    /// Most threads kernels may use; `None` for all the process may use.
    pub threads: Option<u32>,
    /// BLAS libraries to try before those in the usual places.
    /// `None` looks for no library at all, FFTW included.
    pub blas: Option<Vec<PathBuf>>,
    /// Kernels the user brings; they compete like ours.
    pub kernels: Kernels,
    /// Which kernels run for the first time in a child process; nothing said, those the user brings and suspects.
    pub isolation: Option<Isolation>,
}

/// The processor this process runs on.
pub struct CpuDevice {
    facts: DeviceFacts,
    kernels: KernelTable<Cpu>,
    pool: Pool,
    rates: OnceLock<Rates>,
    root: PathBuf,
    energy_root: Option<PathBuf>,
    others: probe::Others,
    isolation: Isolation,
    /// Kernels that ended a process before.
    distrusted: Mutex<Vec<KernelId>>,
    /// What was tried out in a child process and did not end it.
    tried_out: Mutex<Vec<(KernelId, Point)>>,
    abandoned: Arc<AtomicU32>,
    /// Who is inside a library: the device is not dropped, and the process does not end, under them.
    libraries: Libraries,
    problems: Vec<String>,
}

impl std::fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuDevice({}, {} kernels)", self.facts.fingerprint, self.kernels.infos().len())
    }
}

/// The kernels of a processor with threads of their own: a launch that never comes back keeps those, and nobody else's.
pub struct Detached {
    kernels: KernelTable<Cpu>,
    pool: Pool,
}

impl std::fmt::Debug for Detached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Detached({} kernels, {:?})", self.kernels.infos().len(), self.pool)
    }
}

impl Detached {
    /// Runs a kernel, as [`CpuDevice::launch`] does.
    pub fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        self.kernels.launch(kernel, problem, point, Args { inputs, out, pool: &self.pool })
    }
}

impl CpuDevice {
    /// Probes the machine and freezes the table of kernels.
    pub fn new(options: CpuOptions) -> CpuDevice {
        let root = PathBuf::from("/");
        let facts = probe::facts(&root, None);
        let fftw = options.blas.as_ref().and_then(|_| Fftw::find());
        let (libraries, problems) = options.blas.map_or_else(Default::default, |paths| blas::find(&paths));
        let counts_energy = root.join(ENERGY_COUNTERS).exists() && probe::energy_uj(&root).is_some();
        let energy_root = counts_energy.then(|| root.clone());
        CpuDevice {
            kernels: kernels::table(libraries, fftw, options.kernels),
            pool: Pool::new(options.threads.map_or(facts.threads, |cap| cap.min(facts.threads))),
            facts,
            rates: OnceLock::new(),
            others: probe::Others::watch(&root),
            isolation: options.isolation.unwrap_or(Isolation::Auto),
            distrusted: Mutex::default(),
            tried_out: Mutex::default(),
            root,
            energy_root,
            abandoned: Arc::new(AtomicU32::new(0)),
            libraries: Libraries::new(),
            problems,
        }
    }

    /// What could not be set up, for people: a BLAS path that did not load and why.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Runs a kernel on the caller's operands. A panic inside a kernel is an error, not the end.
    #[inline(always)]
    pub fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        self.kernels.launch(kernel, problem, point, Args { inputs, out, pool: &self.pool })
    }

    /// Whether the operands' output agrees with the reference, and where not.
    pub fn check(&self, problem: &Problem, operands: &Operands) -> Result<(), String> {
        Expected::new(self, problem, operands)?.check(problem, &operands.out)
    }

    /// The threads live launches share.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its kernels for launches on threads that may have to be left behind.
    pub fn detached(&self) -> Detached {
        Detached { kernels: self.kernels.clone(), pool: Pool::new(self.pool.threads()) }
    }

    pub(crate) fn table(&self) -> &KernelTable<Cpu> {
        &self.kernels
    }

    pub(crate) fn abandoned(&self) -> &Arc<AtomicU32> {
        &self.abandoned
    }

    /// A note that a thread is inside a library's kernel; nothing for kernels of our own.
    pub(crate) fn inside_library(&self, kernel: KernelId) -> Option<Arc<()>> {
        let info = self.kernels.info(kernel)?;
        (info.class == VariantClass::Library).then(|| self.libraries.enter())
    }

    /// Whether a kernel at a point is to be tried out in a child process first.
    pub(crate) fn is_to_be_tried_out(&self, kernel: KernelId, point: &Point) -> bool {
        let class = self.kernels.info(kernel).map(|info| info.class);
        let wanted = match self.isolation {
            Isolation::Off => false,
            Isolation::All => class != Some(VariantClass::Reference),
            Isolation::Auto => {
                class == Some(VariantClass::Custom)
                    || self.distrusted.lock().is_ok_and(|distrusted| distrusted.contains(&kernel))
            }
        };
        wanted && !self.tried_out.lock().is_ok_and(|tried| tried.contains(&(kernel, *point)))
    }

    /// A kernel was tried out at a point, and nothing happened.
    pub(crate) fn was_tried_out(&self, kernel: KernelId, point: &Point) {
        if let Ok(mut tried) = self.tried_out.lock() {
            if tried.len() >= MAX_TRIED_OUT {
                tried.clear();
            }
            tried.push((kernel, *point));
        }
    }

    pub(crate) fn energy_root(&self) -> Option<&PathBuf> {
        self.energy_root.as_ref()
    }

    /// Where the operating system's files are looked for.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a kernel of ours, other than a reference, does not compute with the problem's elements.
    fn lacks_type(&self, kernel: KernelId, problem: &Problem) -> bool {
        let ours = self.kernels.info(kernel).is_some_and(|info| info.class != VariantClass::Reference);
        let takes = |dtype| self.kernels.get(kernel).is_none_or(|kernel| kernel.takes(dtype));
        ours && !self.kernels.is_users(kernel) && !problem.dtype().is_none_or(takes)
    }
}

impl Drop for CpuDevice {
    /// Waits for measurements that were given up while a library ran: libraries tear down when the process ends, and
    /// OpenBLAS crashed under a thread that was still inside. In a forked child there is no such thread.
    fn drop(&mut self) {
        if !self.pool.is_here() {
            return;
        }
        self.libraries.wait(LIBRARY_PATIENCE);
    }
}

impl Reference for CpuDevice {
    fn compute(&self, problem: &Problem, inputs: &[Slice<'_>], out: SliceMut<'_>) -> Result<(), LaunchError> {
        let is_its = |info: &KernelInfo| {
            info.class == VariantClass::Reference && info.operation == problem.operation()
        };
        let Some(at) = self.kernels.infos().iter().position(is_its) else {
            return Err(LaunchError::Kernel(format!("{} has no reference kernel", problem.operation())));
        };
        self.launch(KernelId(at as u32), problem, &Point::EMPTY, inputs, out)
    }
}

impl Executor for CpuDevice {
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let (wait, watch) = (batch.wait, Stopwatch::start());
        HostBuffer::run(batch, |launch, inputs, out| {
            self.launch(launch.kernel, launch.problem, launch.point, inputs, out)
        })?;
        Ok((wait == Wait::Timed).then(|| watch.elapsed()))
    }

    #[inline]
    fn launch_host(
        &self,
        launch: HostLaunch<'_>,
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        let HostLaunch { kernel, problem, point, inputs } = launch;
        if !timed {
            return self.launch(kernel, problem, point, inputs, out).map(|()| None);
        }
        let stopwatch = Stopwatch::start();
        self.launch(kernel, problem, point, inputs, out)?;
        Ok(Some(stopwatch.elapsed()))
    }
}

impl Device for CpuDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rates(&self) -> Rates {
        *self.rates.get_or_init(|| probe::rates(self.facts.threads, &self.facts, &self.pool))
    }

    fn state(&self) -> State {
        State {
            others: self.others.now(&self.root),
            slowed: Some(probe::slowed()),
            ..probe::state(&self.root)
        }
    }

    fn kernels(&self) -> &[KernelInfo] {
        self.kernels.infos()
    }

    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        if self.lacks_type(kernel, problem) {
            let dtype = problem.dtype().map_or("none", DType::name);
            return Some(Decline::from(format!("does not compute with {dtype}")));
        }
        self.kernels.declines(kernel, problem, &self.facts)
    }

    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        if self.lacks_type(kernel, problem) {
            return Space::default();
        }
        self.kernels.space(kernel, problem, &self.facts)
    }

    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.kernels.work(kernel, problem, point, &self.facts)
    }

    fn distrust(&self, kernel: KernelId) {
        if let (Ok(mut distrusted), Ok(mut tried)) = (self.distrusted.lock(), self.tried_out.lock())
            && !distrusted.contains(&kernel)
        {
            distrusted.push(kernel);
            tried.retain(|known| known.0 != kernel);
        }
    }

    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        // A reference is the yardstick itself.
        if self.kernels.info(kernel).is_some_and(|info| info.class == VariantClass::Reference) {
            return Ok(());
        }
        let mut bench = CpuBench::new(self, *problem);
        let check = &mut |stand_in: &Problem| bench.check(kernel, stand_in, point, timeout);
        verify_on_stand_ins(self, (kernel, problem, point), timeout, &making_takes, check)
    }

    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        if matches!(problem, Problem::Custom(_)) {
            return Err(Decline::because("operands of a custom problem are known to its owner only"));
        }
        let preparation = making_takes(problem);
        if preparation > limit {
            let reason =
                format!("making operands would take about {preparation}, more than the {limit} allowed");
            return Err(Decline::from(reason));
        }
        let needed = Bytes(problem.operand_bytes().0.saturating_mul(2));
        match self.state().memory_free {
            Some(free) if needed > free => {
                Err(Decline::from(format!("operands and reference need {needed}, {free} are free")))
            }
            _ => Ok(Box::new(CpuBench::new(self, *problem))),
        }
    }
}
