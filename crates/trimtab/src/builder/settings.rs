//! What can be set before a runtime is built, one method each.

use super::Builder;
use crate::environment::{Blas, WisdomPlace};
use std::path::Path;
use std::sync::Arc;
use trimtab_core::{Bytes, Constraints, Nanos, Objective, Patience, Variant};
use trimtab_cpu::{Cpu, Isolation, erase};
use trimtab_operands::Executor;
use trimtab_plan::learn::ModelChoice;
use trimtab_plan::{KernelRules, Offload, StrategyName};
use trimtab_tune::Rules;
use trimtab_wisdom::Store;

impl Builder {
    /// Effort for a problem that is not known yet.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().patience(Patience::Estimate).build()?;
    /// assert_eq!(rt.planner().settings().patience, Patience::Estimate); // nothing is measured
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// The model that decides about problems nobody has measured: `auto` (of all kinds the one with the least cross-validated loss on
    /// what was measured here), a kind by name, or one of your own. What takes longer to fit than the default is fitted in the
    /// background; until then the default decides.
    ///
    /// ```
    /// use trimtab::advanced::plan::learn::{Model, ModelChoice, Table};
    ///
    /// /// Takes what was fastest in the mean, whatever the sizes.
    /// #[derive(Default)]
    /// struct Mean(Vec<f64>);
    /// impl Model for Mean {
    ///     fn name(&self) -> &'static str { "mean" }
    ///     fn fit(&mut self, table: &Table) {
    ///         let mean = |rival: usize| (0..table.len()).map(|row| table.told(row)[rival]).filter(|log2| !log2.is_nan()).sum::<f64>();
    ///         self.0 = (0..table.rivals()).map(mean).map(|sum| sum / table.len() as f64).collect();
    ///     }
    ///     fn predict(&self, _: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
    ///         log2.copy_from_slice(&self.0);
    ///         spread.fill(1.0);
    ///     }
    ///     fn explain(&self, _: &[f64], _: &[&str]) -> Vec<String> { vec!["the fastest in the mean".to_string()] }
    /// }
    /// let own = ModelChoice::custom(|_seed| Box::new(Mean::default()));
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().model(own).build()?;
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().model("tree".parse()?).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn model(mut self, model: ModelChoice) -> Self {
        self.environment.model = Some(model);
        self
    }

    /// Foreground time a new problem may cost.
    ///
    /// ```
    /// use std::time::Duration;
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().budget(Duration::from_millis(20)).build()?;
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn budget(mut self, budget: impl Into<Nanos>) -> Self {
        self.environment.budget = Some(budget.into());
        self
    }

    /// Most threads a kernel may use.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().threads(1).build()?;
    /// assert_eq!(rt.cpu().pool().threads(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn threads(mut self, threads: u32) -> Self {
        self.environment.threads = Some(threads.max(1));
        self
    }

    /// Keeps wisdom in that directory.
    ///
    /// Once foreign code answers a call (a library, a driver, a kernel of yours), SIGSEGV, SIGABRT, SIGBUS, SIGILL and SIGFPE are received:
    /// what ran is noted in the directory, then whoever received the signal before gets it, as if we were not there. A program that
    /// sets handlers later replaces ours. They are given back when the last runtime is dropped. A process that runs our own kernels
    /// only keeps its signals to itself.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let dir = tempfile::tempdir()?;
    /// let rt = Runtime::builder().wisdom_dir(dir.path()).build()?;
    /// assert_eq!(rt.wisdom().dir().as_deref(), Some(dir.path()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wisdom_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.environment.wisdom = Some(WisdomPlace::Directory(dir.as_ref().to_path_buf()));
        self
    }

    /// Keeps wisdom only while the process runs.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.wisdom().dir(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wisdom_in_memory(mut self) -> Self {
        self.environment.wisdom = Some(WisdomPlace::Nowhere);
        self
    }

    /// Keeps wisdom in a store of your own, or in one that several runtimes share; no directory counts then.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let store = Arc::new(trimtab::advanced::wisdom::Memory::default());
    /// let rt = trimtab::Runtime::builder().store(store).build()?;
    /// assert_eq!(rt.wisdom().place().as_deref(), Some("memory"));
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Uses only the device of that short name (`cpu`, `gpu0`), only GPUs (`gpu`), or only the device with that in its name.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().device("cpu").build()?;
    /// assert_eq!(rt.planned().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device(mut self, name: &str) -> Self {
        self.environment.device = Some(name.to_ascii_lowercase());
        self
    }

    /// Says by rule which device to use: off, thresholds by class, small batches. What is said here replaces all that the
    /// environment says.
    ///
    /// ```
    /// use trimtab::{Offload, Runtime};
    /// let large = Offload { matmul: Some(1 << 24), all: Some(u64::MAX), ..Offload::default() };
    /// let rt = Runtime::builder().wisdom_in_memory().offload(large).build()?; // products only, and only large ones
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn offload(mut self, offload: Offload) -> Self {
        self.environment.offload = Some(offload);
        self
    }

    /// Forbids a kernel by its name, or with a `*` at the end all whose names begin so. The reference answers where nobody else can.
    /// What is forbidden or forced here replaces all that the environment says about kernels; a name that no kernel has is a
    /// [warning](crate::Runtime::warnings).
    ///
    /// ```
    /// let rt = trimtab::Runtime::builder().wisdom_in_memory().forbid("cpu.matmul.gemm").build()?;
    /// let decision = rt.explain(&"matmul:f32:64x64x64".parse()?)?;
    /// assert!(decision.winner().is_some_and(|winner| &*winner.name != "cpu.matmul.gemm"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forbid(mut self, name: &str) -> Self {
        self.environment.kernels.get_or_insert_default().forbid(name);
        self
    }

    /// Forces a kernel by its name, as [`forbid`](Builder::forbid) forbids one: for problems it takes, only it and others that are
    /// forced may run.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().force("cpu.matmul.gemm").build()?;
    /// let decision = rt.explain(&"matmul:f32:64x64x64".parse()?)?;
    /// assert!(decision.winner().is_some_and(|winner| &*winner.name == "cpu.matmul.gemm"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn force(mut self, name: &str) -> Self {
        self.environment.kernels.get_or_insert_default().force(name);
        self
    }

    /// Says all about kernels at once, as `TRIMTAB_KERNELS` does.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().kernels("-cpu.matmul.gemm".parse()?).build()?;
    /// assert_eq!(rt.planner().settings().kernels.to_string(), "-cpu.matmul.gemm");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kernels(mut self, kernels: KernelRules) -> Self {
        self.environment.kernels = Some(kernels);
        self
    }

    /// Tries this BLAS library before those in the usual places.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().blas("/opt/openblas/lib/libopenblas.so").build()?;
    /// println!("{:?}", rt.warnings()); // one that cannot be loaded is told
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blas(mut self, path: impl AsRef<Path>) -> Self {
        self.blas.push(path.as_ref().to_path_buf());
        self
    }

    /// Looks for no BLAS library.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::Device;
    /// let rt = Runtime::builder().wisdom_in_memory().no_blas().build()?;
    /// assert!(rt.cpu().kernels().iter().all(|kernel| !kernel.name.contains("blas")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn no_blas(mut self) -> Self {
        self.environment.blas = Some(Blas::None);
        self
    }

    /// Adds a kernel of your own. It is checked against the reference, measured, tuned and remembered like ours.
    ///
    /// It runs for the first time in a child process ([`isolate`](Builder::isolate)), and its first calls are looked at, on a thread that is
    /// left behind if it hangs ([`longest_call`](Builder::longest_call)). Where wisdom is kept in a
    /// directory, a signal that ends the process while it runs is noted there and handed on to whoever received it before.
    ///
    /// ```
    /// use trimtab::advanced::core::{Decline, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError};
    /// use trimtab::advanced::core::{UnaryOp, Variant, VariantClass, Work, DType};
    /// use trimtab::advanced::cpu::{Args, Cpu};
    ///
    /// trimtab::advanced::core::config! { struct NoSettings {} }
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
    ///         Work { bytes: trimtab::Bytes(8 * p.out_len()), threads: 1, lanes: 1, ..Work::default() }
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

    /// Adds a device of your own. It competes with the others, is placed, explained, calibrated and quarantined like ours.
    ///
    /// It is asked on threads that are left behind if it does not answer ([`longest_call`](Builder::longest_call)), on copies of operands;
    /// its facts, state, kernels, spaces and works are asked for directly. `examples/worker-device` in the repository has a whole one;
    /// [`device`](crate::device) measures and checks it for you.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # use trimtab::Device;
    /// # use trimtab::advanced::core::{Bench, Decline, DeviceFacts, Failure, Fingerprint, Habits, KernelId};
    /// # use trimtab::advanced::core::{KernelInfo, LaunchError, Nanos, Point, Rates, Space, State, Work};
    /// # use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
    /// # use trimtab::advanced::operands::{Batch, Executor};
    /// /// The processor once more, as if it had memory of its own.
    /// struct Twin {
    ///     cpu: CpuDevice,
    ///     facts: DeviceFacts,
    /// }
    /// impl Executor for Twin {
    ///     fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> { self.cpu.run(batch) }
    /// }
    /// impl Device for Twin {
    ///     fn facts(&self) -> &DeviceFacts { &self.facts }
    ///     fn kernels(&self) -> &[KernelInfo] { self.cpu.kernels() }
    ///     // And so on: every other method asks the processor too.
    /// #     fn rates(&self) -> Rates { self.cpu.rates() }
    /// #     fn state(&self) -> State { self.cpu.state() }
    /// #     fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
    /// #         self.cpu.declines(kernel, problem)
    /// #     }
    /// #     fn space(&self, kernel: KernelId, problem: &Problem) -> Space { self.cpu.space(kernel, problem) }
    /// #     fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
    /// #         self.cpu.work(kernel, problem, point)
    /// #     }
    /// #     fn verify(&self, kernel: KernelId, problem: &Problem, point: &Point, most: Nanos) -> Result<(), Failure> {
    /// #         self.cpu.verify(kernel, problem, point, most)
    /// #     }
    /// #     fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
    /// #         self.cpu.bench(problem, limit)
    /// #     }
    /// }
    /// let cpu = CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() });
    /// let mut facts = cpu.facts().clone();
    /// facts.id = "twin".to_string();
    /// facts.fingerprint = Fingerprint(format!("twin of {}", facts.fingerprint));
    /// facts.habits = Habits { host_memory: false, ..Habits::HOST };
    /// let rt = Runtime::builder().wisdom_in_memory().add_device(Twin { cpu, facts }).build()?;
    /// assert!(rt.devices().iter().any(|device| device.facts().id == "twin"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_device(mut self, device: impl Executor + 'static) -> Self {
        self.devices.push(Arc::new(device));
        self
    }

    /// What a plan must keep, for every call that says nothing else.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let single = Constraints { threads_max: Some(1), ..Constraints::default() };
    /// let rt = Runtime::builder().wisdom_in_memory().constraints(single).build()?;
    /// assert_eq!(rt.terms().constraints.threads_max, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn constraints(mut self, constraints: Constraints) -> Self {
        self.terms.constraints = constraints;
        self
    }

    /// What a plan should minimise, for every call that says nothing else.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let frugal = Objective { memory: 0.5, ..Objective::default() };
    /// let rt = Runtime::builder().wisdom_in_memory().objective(frugal).build()?;
    /// assert_eq!(rt.terms().objective, frugal);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn objective(mut self, objective: Objective) -> Self {
        self.terms.objective = objective;
        self
    }

    /// How races are run.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::advanced::tune::Rules;
    /// let rt = Runtime::builder().wisdom_in_memory().rules(Rules::careful()).build()?;
    /// assert_eq!(rt.planner().settings().rules, Rules::careful());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Whether plans that rest on no measurement learn the width of their kernel (threads, workgroup) from live calls: they
    /// do unless this says no, and never in mode `off`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().live_resize(false).build()?;
    /// assert!(!rt.planner().settings().live_resize);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn live_resize(mut self, on: bool) -> Self {
        self.live_resize = Some(on);
        self
    }

    /// Whether calls of a problem that no completed race decided now and then run another rival, for at most one per cent of the
    /// time. They do unless this says no; never in modes `off` and `estimate`, nor under a limit on latency. Whatever this says, a
    /// kernel that became slower is measured again in the background, except in those two modes.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().explore(false).build()?;
    /// assert!(!rt.planner().settings().explore);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explore(mut self, on: bool) -> Self {
        self.explore = Some(on);
        self
    }

    /// Whether plans nobody is sure of are checked at their real size and raced again in the background, at idle priority and for a
    /// bounded share of the time. They are unless this says no; in mode `estimate` they are checked only, in mode `off` nothing is.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().settle(false).build()?;
    /// assert!(!rt.planner().settings().settle);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(mut self, on: bool) -> Self {
        self.environment.settle = Some(on);
        self
    }

    /// Which kernels of the processor run for the first time in a child process: those you bring, and those that ended a process
    /// before, unless this says otherwise. Linux only.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::advanced::cpu::Isolation;
    /// let rt = Runtime::builder().wisdom_in_memory().isolate(Isolation::Off).build()?;
    /// assert_eq!(rt.neg(&Tensor::from(vec![1.0f32]))?.item()?, -1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn isolate(mut self, isolation: Isolation) -> Self {
        self.environment.isolation = Some(isolation);
        self
    }

    /// The most memory values may take on each device beside the processor. What was used longest ago and is elsewhere too makes
    /// room; what does not fit is computed by the processor. Without this a device is filled until it says no.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::Bytes;
    /// let rt = Runtime::builder().wisdom_in_memory().device_memory_max(Bytes(256 << 20)).build()?;
    /// assert_eq!(rt.activity().evictions, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn device_memory_max(mut self, bytes: Bytes) -> Self {
        self.device_memory_max = Some(bytes);
        self
    }

    /// Longest that a kernel, a device or a closure of yours may take in a call while nobody knows what it takes: 30 s unless this says
    /// otherwise. Where its time on the problem was measured, that is 50 times as long, and at least 2 s. Whoever takes longer is left
    /// behind, and the call is answered by the next best; time in which the machine stood still or others ran is not counted.
    ///
    /// So it is for the first 32 calls of each plan, and for later calls where copying the operands for it costs a twentieth at most. In
    /// other calls your kernel runs on the caller's own thread, which nobody can leave behind: one that hangs there is named on
    /// standard error and gets no more calls.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use std::time::Duration;
    /// let rt = Runtime::builder().wisdom_in_memory().longest_call(Duration::from_secs(5)).build()?;
    /// assert_eq!(rt.neg(&Tensor::from(vec![1.0f32]))?.item()?, -1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn longest_call(mut self, longest: impl Into<Nanos>) -> Self {
        self.longest_call = Some(longest.into());
        self
    }

    /// Measures the speeds of GPUs again instead of taking over what an earlier process measured.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().measure_anew().build()?;
    /// println!("{} devices", rt.devices().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn measure_anew(mut self) -> Self {
        self.measure_anew = true;
        self
    }

    /// Does not look at `TRIMTAB_…` variables.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().ignore_environment().build()?;
    /// assert_eq!(rt.planner().settings().patience, Patience::default()); // whatever TRIMTAB_TUNE says
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ignore_environment(mut self) -> Self {
        self.ignore_environment = true;
        self
    }
}
