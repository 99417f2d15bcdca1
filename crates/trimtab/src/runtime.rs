//! The runtime: devices, planner and memory together, shared by cheap clones.

use crate::environment::{Blas, Environment, WisdomPlace, default_wisdom_dir};
use crate::error::Error;
use crate::gpu;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_core::{
    Constraints, Device, DeviceKind, LaunchError, Lookup, Nanos, Objective, Patience, Problem, Terms, Variant,
};
use trimtab_cpu::{AnyKernel, Cpu, CpuDevice, CpuOptions, Element, Slice, SliceMut, erase};
use trimtab_operands::{Launch, Reference};
use trimtab_plan::{Decision, Plan, Planner, Settings, StrategyName, TermsId, TuneRequest};
use trimtab_tune::{Progress, Rules};
use trimtab_wisdom::{Filter, ImportReport, Wisdom, WisdomError};

/// Chooses the kernel, settings and device for every operation, runs it, learns, remembers, and can say why.
///
/// Clones are cheap and share everything. Building one probes the machine; nothing is measured before the first call.
///
/// ```
/// use trimtab::{Runtime, Tensor};
/// let rt = Runtime::builder().wisdom_in_memory().build()?;
/// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let b = Tensor::from_vec(vec![5.0f32, 6.0, 7.0, 8.0], &[2, 2])?;
/// assert_eq!(rt.matmul(&a, &b)?.to_vec(), [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    pub(crate) terms: TermsId,
    given: Terms,
}

pub(crate) struct Shared {
    pub planner: Planner,
    pub cpu: Arc<CpuDevice>,
    /// The processor's position in the planner's list; past its end if another device is pinned.
    cpu_at: u16,
    /// What runs plans of the other devices, by position; nothing at the processor's.
    launchers: Vec<Option<Arc<dyn Launch>>>,
    pub warnings: Vec<String>,
    /// GPUs that could not be used, or why there is none.
    unusable: Vec<String>,
}

impl Shared {
    /// Keeps what drivers built and how fast devices are for the next process.
    fn keep_built(&self) {
        for (device, launcher) in self.planner.devices().iter().zip(&self.launchers) {
            let Some(launcher) = launcher else { continue };
            let kept = [(BUILT, launcher.built()), (SPEEDS, launcher.speeds().map(String::into_bytes))];
            for (what, bytes) in kept {
                if let Some(bytes) = bytes {
                    // What cannot be written costs time in the next process, nothing else.
                    let _ = self.planner.wisdom().keep_blob(&blob_name(what, device.as_ref()), &bytes);
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keep_built();
    }
}

/// What is kept of a device beside facts: kernels its driver built, and its speeds.
const BUILT: &str = "built";
const SPEEDS: &str = "speeds";

/// The name under which something of a device is kept.
fn blob_name(what: &str, device: &dyn Device) -> String {
    format!("{what}-{}", device.facts().fingerprint)
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:?}, terms {})", self.shared.planner, self.given)
    }
}

/// Sets up a [`Runtime`]. What is set here wins over the environment.
#[derive(Default)]
pub struct Builder {
    environment: Environment,
    ignore_environment: bool,
    kernels: Vec<Box<dyn AnyKernel>>,
    rules: Option<Rules>,
    terms: Terms,
    blas: Vec<PathBuf>,
    pub(crate) gpu_kernels: gpu::Kernels,
    measure_anew: bool,
    live_resize: Option<bool>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder({:?}, {} kernels)", self.environment, self.kernels.len())
    }
}

impl Builder {
    /// Effort for a problem that is not known yet.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.environment.patience = Some(patience);
        self
    }

    /// The strategy for kernels whose settings are searched; kernels with few settings are searched too, not raced whole.
    ///
    /// ```
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().strategy("hill".parse()?).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strategy(mut self, strategy: StrategyName) -> Self {
        self.environment.strategy = Some(strategy);
        self
    }

    /// Foreground time a new problem may cost.
    pub fn budget(mut self, budget: Nanos) -> Self {
        self.environment.budget = Some(budget);
        self
    }

    /// Most threads a kernel may use.
    pub fn threads(mut self, threads: u32) -> Self {
        self.environment.threads = Some(threads.max(1));
        self
    }

    /// Keeps wisdom in that directory.
    pub fn wisdom_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.environment.wisdom = Some(WisdomPlace::Directory(dir.as_ref().to_path_buf()));
        self
    }

    /// Keeps wisdom only while the process runs.
    pub fn wisdom_in_memory(mut self) -> Self {
        self.environment.wisdom = Some(WisdomPlace::Nowhere);
        self
    }

    /// Uses only the device of that short name (`cpu`, `gpu0`), only GPUs (`gpu`), or only the device with that in its name.
    pub fn device(mut self, name: &str) -> Self {
        self.environment.device = Some(name.to_ascii_lowercase());
        self
    }

    /// Tries this BLAS library before those in the usual places.
    pub fn blas(mut self, path: impl AsRef<Path>) -> Self {
        self.blas.push(path.as_ref().to_path_buf());
        self
    }

    /// Looks for no BLAS library.
    pub fn no_blas(mut self) -> Self {
        self.environment.blas = Some(Blas::None);
        self
    }

    /// Adds a kernel of your own. It is checked against the reference, measured, tuned and remembered like ours.
    ///
    /// ```
    /// use trimtab::core::{Decline, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError};
    /// use trimtab::core::{UnaryOp, Variant, VariantClass, Work, DType};
    /// use trimtab::cpu::{Args, Cpu};
    ///
    /// trimtab::core::config! { struct NoSettings {} }
    /// struct MyNeg;
    /// impl Variant<Cpu> for MyNeg {
    ///     type Problem = Elementwise;
    ///     type Config = NoSettings;
    ///     fn name(&self) -> std::borrow::Cow<'static, str> { "my.neg".into() }
    ///     fn version(&self) -> KernelVersion { "1".into() }
    ///     fn class(&self) -> VariantClass { VariantClass::Custom }
    ///     fn declines(&self, p: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
    ///         let mine = p.op == ElementwiseOp::Unary(UnaryOp::Neg) && p.dtype == DType::F32;
    ///         (!mine).then(|| Decline::because("does neg of f32 only"))
    ///     }
    ///     fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> { vec![NoSettings {}] }
    ///     fn work(&self, p: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
    ///         Work { bytes: trimtab::core::Bytes(8 * p.out_len()), threads: 1, lanes: 1, ..Work::default() }
    ///     }
    ///     fn launch(&self, p: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
    ///         let args = args.typed::<f32>([p.lhs_len(), 0, p.out_len()])?;
    ///         args.out.iter_mut().zip(args.lhs).for_each(|(out, x)| *out = -x);
    ///         Ok(())
    ///     }
    /// }
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().kernel(MyNeg).build()?;
    /// let problem = "elementwise.neg:f32:1000".parse()?;
    /// assert!(rt.explain(&problem)?.rivals.iter().any(|rival| &*rival.name == "my.neg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kernel<V: Variant<Cpu>>(mut self, variant: V) -> Self {
        self.kernels.push(erase(variant));
        self
    }

    /// What a plan must keep, for every call that says nothing else.
    pub fn constraints(mut self, constraints: Constraints) -> Self {
        self.terms.constraints = constraints;
        self
    }

    /// What a plan should minimise, for every call that says nothing else.
    pub fn objective(mut self, objective: Objective) -> Self {
        self.terms.objective = objective;
        self
    }

    /// How races are run.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Whether plans that rest on no measurement learn the width of their kernel (threads, workgroup) from live calls: they
    /// do unless this says no, and never in mode `off`.
    pub fn live_resize(mut self, on: bool) -> Self {
        self.live_resize = Some(on);
        self
    }

    /// Measures the speeds of GPUs again instead of taking over what an earlier process measured.
    pub fn measure_anew(mut self) -> Self {
        self.measure_anew = true;
        self
    }

    /// Does not look at `TRIMTAB_…` variables.
    pub fn ignore_environment(mut self) -> Self {
        self.ignore_environment = true;
        self
    }

    /// Probes the machine, opens wisdom, freezes the kernels.
    pub fn build(self) -> Result<Runtime, Error> {
        let asked = self.environment;
        let outside = if self.ignore_environment { Environment::default() } else { Environment::read()? };
        let threads = asked.threads.or(outside.threads);
        let blas = match asked.blas.or(outside.blas) {
            Some(Blas::None) => None,
            Some(Blas::First(paths)) => Some([self.blas, paths].concat()),
            None => Some(self.blas),
        };
        let cpu = Arc::new(CpuDevice::new(CpuOptions { threads, blas, kernels: self.kernels }));
        let mut names: Vec<&str> = cpu.kernels().iter().map(|info| info.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::DuplicateKernel { name: pair[0].to_string() });
        }
        let wanted = asked.device.or(outside.device).filter(|wanted| wanted != "auto");
        let mut devices: Vec<Place> = vec![(Arc::clone(&cpu) as Arc<dyn Device>, None)];
        let mut unusable = Vec::new();
        // Looking for GPUs costs tens of milliseconds; whoever wants the processor does not pay them.
        if wanted.as_deref() != Some("cpu") {
            let reference = Arc::clone(&cpu) as Arc<dyn Reference>;
            let (gpus, problems) = gpu::find(reference, &self.gpu_kernels);
            devices.extend(gpus.into_iter().map(|(device, launcher)| (device, Some(launcher))));
            unusable = problems;
        }
        let places = pinned(devices, wanted, &unusable)?;
        let cpu_at =
            places.iter().position(|(_, launcher)| launcher.is_none()).unwrap_or(places.len()) as u16;
        let (devices, launchers): (Vec<Arc<dyn Device>>, Vec<_>) = places.into_iter().unzip();
        let mut warnings: Vec<String> = cpu.problems().to_vec();
        let wisdom = match asked.wisdom.or(outside.wisdom) {
            Some(WisdomPlace::Nowhere) => Wisdom::in_memory(),
            Some(WisdomPlace::Directory(dir)) => Wisdom::open(&dir),
            None => match default_wisdom_dir() {
                Some(dir) => Wisdom::open(&dir),
                None => {
                    warnings.push(
                        "no home directory: wisdom is kept in memory; set TRIMTAB_WISDOM_DIR".to_string(),
                    );
                    Wisdom::in_memory()
                }
            },
        };
        warnings.extend(wisdom.warnings().iter().map(|warning| warning.to_string()));
        let mut terms = self.terms;
        cap_threads(&mut terms, cpu.pool().threads(), cpu.facts().threads);
        let mut settings = Settings::default();
        settings.patience = asked.patience.or(outside.patience).unwrap_or(settings.patience);
        settings.strategy = asked.strategy.or(outside.strategy);
        settings.budget = asked.budget.or(outside.budget).unwrap_or(settings.budget);
        settings.rules = self.rules.unwrap_or(settings.rules);
        settings.live_resize = self.live_resize.unwrap_or(settings.live_resize);
        if outside.log.unwrap_or(false) {
            warnings.iter().for_each(|warning| eprintln!("trimtab: {warning}"));
        }
        for (device, launcher) in devices.iter().zip(&launchers) {
            let Some(launcher) = launcher else { continue };
            if let Some(built) = wisdom.blob(&blob_name(BUILT, device.as_ref())) {
                launcher.offer_built(built);
            }
            let speeds = wisdom.blob(&blob_name(SPEEDS, device.as_ref())).filter(|_| !self.measure_anew);
            if let Some(speeds) = speeds.and_then(|bytes| String::from_utf8(bytes).ok()) {
                launcher.offer_speeds(&speeds);
            }
        }
        let planner = Planner::new(devices, Arc::new(wisdom), settings, terms);
        let shared = Arc::new(Shared { planner, cpu, cpu_at, launchers, warnings, unusable });
        Ok(Runtime { shared, terms: TermsId::default(), given: terms })
    }
}

/// A cap on threads is a constraint like any other, so that plans made under it are kept apart; whatever else is asked, no
/// plan uses more threads than the pool has.
fn cap_threads(terms: &mut Terms, pool: u32, machine: u32) {
    if pool < machine {
        terms.constraints.threads_max = Some(terms.constraints.threads_max.map_or(pool, |max| max.min(pool)));
    }
}

/// A device, and what runs its plans if it is not the processor.
type Place = (Arc<dyn Device>, Option<Arc<dyn Launch>>);

/// The devices a pin names: by short name, all GPUs, or the one with the pin in its name.
fn pinned(places: Vec<Place>, wanted: Option<String>, unusable: &[String]) -> Result<Vec<Place>, Error> {
    let Some(wanted) = wanted else { return Ok(places) };
    let shown = |place: &Place| format!("{} ({})", place.0.facts().id, place.0.facts().name);
    let known: Vec<String> = places.iter().map(shown).collect();
    let by_id = |place: &Place| {
        let facts = place.0.facts();
        facts.id == wanted || (wanted == "gpu" && facts.kind == DeviceKind::Gpu)
    };
    let by_name = |place: &Place| place.0.facts().name.to_ascii_lowercase().contains(&wanted);
    let no_such = |reason: Option<&str>| {
        let also = unusable.iter().map(String::as_str).chain(reason);
        let also: String = also.map(|reason| format!("; {reason}")).collect();
        Error::NoSuchDevice { wanted: wanted.clone(), known: format!("auto, {}{also}", known.join(", ")) }
    };
    if places.iter().any(by_id) {
        return Ok(places.into_iter().filter(by_id).collect());
    }
    match places.iter().filter(|place| by_name(place)).count() {
        1 if !wanted.is_empty() => Ok(places.into_iter().filter(by_name).collect()),
        0 | 1 => Err(no_such(None)),
        _ => Err(no_such(Some("that is in several names; use a short name"))),
    }
}

impl Runtime {
    /// A runtime set up by the environment alone.
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    /// Sets up a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same runtime under other terms. Plans made under different terms are kept apart.
    ///
    /// ```
    /// use trimtab::{core::Constraints, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let single = rt.constrained(Constraints { threads_max: Some(1), ..Constraints::default() })?;
    /// let ones = Tensor::full(&[64, 64], 1.0f32)?;
    /// assert_eq!(single.matmul(&ones, &ones)?.get(&[0, 0]), Some(64.0));
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn constrained(&self, constraints: Constraints) -> Result<Runtime, Error> {
        self.under(Terms { constraints, ..self.given })
    }

    /// The same runtime with another objective.
    pub fn minimising(&self, objective: Objective) -> Result<Runtime, Error> {
        self.under(Terms { objective, ..self.given })
    }

    fn under(&self, mut terms: Terms) -> Result<Runtime, Error> {
        cap_threads(&mut terms, self.shared.cpu.pool().threads(), self.shared.cpu.facts().threads);
        let id = self.shared.planner.terms(&terms)?;
        Ok(Runtime { shared: Arc::clone(&self.shared), terms: id, given: terms })
    }

    /// The terms calls through this handle are planned under.
    pub fn terms(&self) -> &Terms {
        &self.given
    }

    /// The planner, for those who bring their own kernels or devices.
    pub fn planner(&self) -> &Planner {
        &self.shared.planner
    }

    /// The processor.
    pub fn cpu(&self) -> &CpuDevice {
        &self.shared.cpu
    }

    /// The devices planned for.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        self.shared.planner.devices()
    }

    /// What is remembered.
    pub fn wisdom(&self) -> &Wisdom {
        self.shared.planner.wisdom()
    }

    /// GPUs that could not be used, or why there is none and how to get one. Empty if nobody looked: with the processor pinned.
    pub fn unusable(&self) -> &[String] {
        &self.shared.unusable
    }

    /// What could not be set up, and what to do about it.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// The plan for a problem, made now if need be. Hold it and pass it to [`Runtime::launch`] to pay nothing per call.
    pub fn plan(&self, problem: &Problem) -> Result<Plan, Error> {
        Ok(self.shared.planner.plan(problem, self.terms)?)
    }

    /// Measures a problem and puts the winner in force.
    pub fn tune(
        &self,
        problem: &Problem,
        request: &TuneRequest,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Arc<Decision>, Error> {
        let decision = self.shared.planner.tune(problem, self.terms, request, progress)?;
        self.shared.keep_built();
        Ok(decision)
    }

    /// Why this plan, what else there is, and how each was judged. Measures nothing.
    pub fn explain(&self, problem: &Problem) -> Result<Decision, Error> {
        Ok(self.shared.planner.explain(problem, self.terms)?)
    }

    /// Takes in facts from elsewhere; with `commit` they count from the next call on.
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        self.shared.planner.import(text, commit)
    }

    /// Forgets facts; what rested on them is planned anew.
    pub fn forget(&self, filter: &Filter) -> usize {
        self.shared.planner.forget(filter)
    }

    /// Runs a problem on operands, choosing as needed. The warm path: one lookup, then the kernel.
    #[inline]
    pub fn execute<T: Element>(
        &self,
        problem: &impl Lookup,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        let planner = &self.shared.planner;
        let Some((problem, plan)) = planner.known(problem, self.terms) else {
            return self.execute_cold(&problem.problem(), lhs, rhs, out);
        };
        let outcome = if plan.device == self.shared.cpu_at {
            planner.run(plan, || self.launch_here(plan, problem, lhs, rhs, out))
        } else {
            self.launch_elsewhere(plan, problem, lhs, rhs, out, planner.should_time(plan))
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.recover(problem, *plan, error, lhs, rhs, out),
        }
    }

    #[cold]
    fn execute_cold<T: Element>(
        &self,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        let plan = self.plan(problem)?;
        match self.launch_once(&plan, problem, lhs, rhs, out) {
            Ok(()) => {
                self.shared.keep_built();
                Ok(())
            }
            Err(error) => self.recover(problem, plan, error, lhs, rhs, out),
        }
    }

    /// Runs a held plan on operands of the problem it was made for.
    ///
    /// ```
    /// use trimtab::Runtime;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let problem = "matmul:f32:2x2x2".parse()?;
    /// let plan = rt.plan(&problem)?;
    /// let mut out = [0.0f32; 4];
    /// rt.launch(&plan, &problem, &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 1.0], &mut out)?;
    /// assert_eq!(out, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn launch<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        Ok(self.launch_once(plan, problem, lhs, rhs, out)?)
    }

    #[inline]
    fn launch_once<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), LaunchError> {
        if plan.device == self.shared.cpu_at {
            self.launch_here(plan, problem, lhs, rhs, out)
        } else {
            self.launch_elsewhere(plan, problem, lhs, rhs, out, false)
        }
    }

    /// On a device beside the processor. Reported is the kernel's own time, as in races: moving operands is counted apart.
    #[cold]
    fn launch_elsewhere<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
        timed: bool,
    ) -> Result<(), LaunchError> {
        let Some(Some(launcher)) = self.shared.launchers.get(plan.device as usize) else {
            return Err(LaunchError::Kernel(format!("there is no device {}", plan.device)));
        };
        let operand = |slice| if <[T]>::is_empty(slice) { Slice::None } else { T::erase(slice) };
        let (lhs, rhs, out) = (operand(lhs), operand(rhs), T::erase_mut(out));
        let time = launcher.launch(plan.kernel, problem, &plan.point, lhs, rhs, out, timed)?;
        if let Some(time) = time {
            self.shared.planner.report(plan, time);
        }
        Ok(())
    }

    #[inline]
    fn launch_here<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), LaunchError> {
        let operand = |slice| if <[T]>::is_empty(slice) { Slice::None } else { T::erase(slice) };
        let out: SliceMut<'_> = T::erase_mut(out);
        self.shared.cpu.launch(plan.kernel, problem, &plan.point, operand(lhs), operand(rhs), out)
    }

    /// How far the result of a plan may be from the reference.
    pub(crate) fn tolerance(&self, plan: &Plan, problem: &Problem) -> f64 {
        match self.shared.launchers.get(plan.device as usize) {
            Some(Some(launcher)) => launcher.tolerance(problem),
            _ => trimtab_operands::tolerance(problem),
        }
    }

    /// A launch failed: the operands are to blame, or the next best plan answers.
    #[cold]
    fn recover<T: Element>(
        &self,
        problem: &Problem,
        plan: Plan,
        error: LaunchError,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        let (mut plan, mut error) = (plan, error);
        // Each round quarantines one point; the reference ends the loop at the latest.
        loop {
            if error.is_callers() {
                return Err(Error::Launch(error));
            }
            plan = self.shared.planner.failed(problem, self.terms, &plan, &error)?;
            match self.launch_once(&plan, problem, lhs, rhs, out) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
    }
}
