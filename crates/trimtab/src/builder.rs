//! Setting up a runtime: what the caller asks for, what the environment asks for, and which devices there are.

mod settings;

use crate::apart::{Added, Apart, UNKNOWN_LIMIT, Watch};
use crate::audits::{Audits, Background};
use crate::calibrate;
use crate::environment::{Blas, Environment, WisdomPlace, default_wisdom_dir};
use crate::error::Error;
use crate::expression::Schedules;
use crate::gpu;
use crate::in_calls::{InCalls, note_the_dead};
use crate::journal::Journal;
use crate::memory::{Counts, DeviceMemory};
use crate::runtime::{HOST, Runtime, Shared, blob_name};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use trimtab_core::{Bytes, Device, DeviceKind, Nanos, Terms};
use trimtab_cpu::{AnyKernel, Cpu, CpuDevice, CpuOptions};
use trimtab_operands::{Executor, Kept, Reference};
use trimtab_plan::{PlanError, Planner, Settings, TermsId, Witness};
use trimtab_tune::Rules;
use trimtab_wisdom::{Store, Wisdom};

/// Why there is no GPU where offload is off.
const OFF: &str = "offload is off (TRIMTAB_OFFLOAD): no GPU was looked for";

/// Sets up a [`Runtime`]. What is set here wins over the environment.
#[derive(Default)]
pub struct Builder {
    environment: Environment,
    ignore_environment: bool,
    kernels: Vec<Box<dyn AnyKernel<Cpu>>>,
    devices: Vec<Arc<dyn Executor>>,
    rules: Option<Rules>,
    terms: Terms,
    blas: Vec<PathBuf>,
    pub(crate) gpu_kernels: gpu::Kernels,
    measure_anew: bool,
    live_resize: Option<bool>,
    explore: Option<bool>,
    device_memory_max: Option<Bytes>,
    longest_call: Option<Nanos>,
    store: Option<Arc<dyn Store>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder({:?}, {} kernels)", self.environment, self.kernels.len())
    }
}

impl Builder {
    /// Probes the machine, opens wisdom, freezes the kernels.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let wrong = Runtime::builder().wisdom_in_memory().device("no such device").build();
    /// assert!(matches!(wrong, Err(Error::NoSuchDevice { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Runtime, Error> {
        self.terms.check().map_err(PlanError::from)?;
        let asked = self.environment;
        let outside = if self.ignore_environment { Environment::default() } else { Environment::read()? };
        let threads = asked.threads.or(outside.threads);
        let blas = match asked.blas.or(outside.blas) {
            Some(Blas::None) => None,
            Some(Blas::First(paths)) => Some([self.blas, paths].concat()),
            None => Some(self.blas),
        };
        let longest = self.longest_call.unwrap_or(UNKNOWN_LIMIT);
        let isolation = asked.isolation.or(outside.isolation);
        let options = CpuOptions { threads, blas, kernels: self.kernels, isolation };
        let cpu = Arc::new(CpuDevice::new(options));
        let mut names: Vec<&str> = cpu.kernels().iter().map(|info| info.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::DuplicateKernel { name: pair[0].to_string() });
        }
        let wanted = asked.device.or(outside.device).filter(|wanted| wanted != "auto");
        let mut executors: Vec<Arc<dyn Executor>> = vec![Arc::clone(&cpu) as Arc<dyn Executor>];
        let mut unusable = Vec::new();
        // Looking for GPUs costs tens of milliseconds; whoever wants the processor does not pay them.
        let offload = asked.offload.or(outside.offload).unwrap_or_default();
        if offload.off {
            unusable.push(OFF.to_string());
        } else if wanted.as_deref() != Some("cpu") {
            let reference = Arc::clone(&cpu) as Arc<dyn Reference>;
            let (gpus, problems) = gpu::find(reference, self.gpu_kernels);
            executors.extend(gpus);
            unusable = problems;
        }
        if !offload.off {
            let added = |device| Arc::new(Added::new(device, longest)) as Arc<dyn Executor>;
            executors.extend(self.devices.into_iter().map(added));
        }
        check_names(&executors)?;
        let (executors, usable) = pinned(executors, wanted, &unusable)?;
        let devices: Vec<Arc<dyn Device>> =
            executors.iter().map(|executor| Arc::clone(executor) as Arc<dyn Device>).collect();
        let mut warnings: Vec<String> = cpu.problems().to_vec();
        let wisdom = match (self.store, asked.wisdom.or(outside.wisdom)) {
            (Some(store), _) => Wisdom::on(store),
            (None, Some(WisdomPlace::Nowhere)) => Wisdom::in_memory(),
            (None, Some(WisdomPlace::Directory(dir))) => Wisdom::open(&dir),
            (None, None) => match default_wisdom_dir() {
                Some(dir) => Wisdom::open(&dir),
                None => {
                    warnings.push(
                        "no home directory: wisdom is kept in memory; set TRIMTAB_WISDOM_DIR".to_string(),
                    );
                    Wisdom::in_memory()
                }
            },
        };
        if let Some(dir) = wisdom.dir() {
            note_the_dead(&dir, &wisdom);
        }
        let in_calls = Arc::new(InCalls::beside(&wisdom));
        let mut terms = self.terms;
        cap_threads(&mut terms, cpu.pool().threads(), cpu.facts().threads);
        let mut settings = Settings::default();
        settings.settle = asked.settle.or(outside.settle).unwrap_or(settings.settle);
        settings.patience = asked.patience.or(outside.patience).unwrap_or(settings.patience);
        settings.strategy = asked.strategy.or(outside.strategy);
        settings.model = asked.model.or(outside.model).unwrap_or(settings.model);
        settings.budget = asked.budget.or(outside.budget).unwrap_or(settings.budget);
        settings.rules = self.rules.unwrap_or(settings.rules);
        settings.live_resize = self.live_resize.unwrap_or(settings.live_resize);
        settings.explore = self.explore.unwrap_or(settings.explore);
        settings.offload = offload;
        settings.kernels = asked.kernels.or(outside.kernels).unwrap_or_default();
        let names: Vec<&str> =
            devices.iter().flat_map(|device| device.kernels()).map(|info| info.name.as_str()).collect();
        warnings.extend(settings.kernels.unmatched(&names));
        for executor in &executors {
            let Some(keeps) = executor.keeps() else { continue };
            for what in Kept::ALL.into_iter().filter(|&what| what != Kept::Speeds || !self.measure_anew) {
                let kept = wisdom.blob(&blob_name(what.name(), executor.as_ref()));
                kept.into_iter().for_each(|kept| keeps.offer(what, kept));
            }
        }
        // After blobs were read: one that others may have written is a warning.
        warnings.extend(wisdom.warnings().iter().map(|warning| warning.to_string()));
        let counts = Arc::<Counts>::default();
        let memory = |(position, executor): (usize, &Arc<dyn Executor>)| {
            let (executor, counts, in_calls) =
                (Arc::clone(executor), Arc::clone(&counts), Arc::clone(&in_calls));
            let memory = || DeviceMemory::new(executor, self.device_memory_max, counts, in_calls);
            (position != HOST).then(|| Arc::new(memory()))
        };
        let memories = executors.iter().enumerate().map(memory).collect();
        // With one device there is nothing to choose between, and nothing is read.
        let many = usable.iter().filter(|usable| **usable).count() > 1;
        let calibration = many.then(|| calibrate::kept(&devices, &wisdom, &mut warnings)).flatten();
        let log = outside.log.unwrap_or(false);
        if log {
            warnings.iter().for_each(|warning| eprintln!("trimtab: {warning}"));
        }
        let planner = Planner::with_usable(devices, usable.clone(), Arc::new(wisdom), settings, terms);
        calibration.into_iter().for_each(|calibration| planner.calibrate(calibration));
        let journal = Arc::<Journal>::default();
        let background = Arc::new(Background { journal: Arc::clone(&journal), shared: OnceLock::new() });
        planner.tell(Arc::clone(&background) as Arc<dyn Witness>);
        let shared = Arc::new(Shared {
            audits: Audits::default(),
            in_calls,
            apart: Apart::new(longest),
            watch: Watch::new(longest),
            planner,
            cpu,
            executors,
            usable,
            memories,
            counts,
            schedules: Schedules::default(),
            journal,
            log,
            warnings,
            unusable,
        });
        // The first and only time.
        let _ = background.shared.set(Arc::downgrade(&shared));
        Ok(Runtime { shared, terms: TermsId::default(), given: terms })
    }
}

/// A cap on threads is a constraint like any other, so that plans made under it are kept apart; whatever else is asked, no
/// plan uses more threads than the pool has.
pub(crate) fn cap_threads(terms: &mut Terms, pool: u32, machine: u32) {
    if pool < machine {
        terms.constraints.threads_max = Some(terms.constraints.threads_max.map_or(pool, |max| max.min(pool)));
    }
}

/// Whether devices differ in their short names, which people pin them by.
fn check_names(executors: &[Arc<dyn Executor>]) -> Result<(), Error> {
    for (at, executor) in executors.iter().enumerate() {
        let id = &executor.facts().id;
        if executors[..at].iter().any(|other| other.facts().id == *id) {
            return Err(Error::DuplicateDevice { id: id.clone() });
        }
    }
    Ok(())
}

/// Devices with the processor first, and which of them may be used.
type Pinned = (Vec<Arc<dyn Executor>>, Vec<bool>);

/// The devices a pin names, by short name, all GPUs, or the one with the pin in its name, and the processor.
fn pinned(
    executors: Vec<Arc<dyn Executor>>,
    wanted: Option<String>,
    unusable: &[String],
) -> Result<Pinned, Error> {
    let Some(wanted) = wanted else {
        let usable = vec![true; executors.len()];
        return Ok((executors, usable));
    };
    let shown = |executor: &Arc<dyn Executor>| format!("{} ({})", executor.facts().id, executor.facts().name);
    let known: Vec<String> = executors.iter().map(shown).collect();
    let by_id = |executor: &Arc<dyn Executor>| {
        let facts = executor.facts();
        facts.id == wanted || (wanted == "gpu" && facts.kind == DeviceKind::Gpu)
    };
    let by_name = |executor: &Arc<dyn Executor>| executor.facts().name.to_ascii_lowercase().contains(&wanted);
    let no_such = |reason: Option<&str>| {
        let also = unusable.iter().map(String::as_str).chain(reason);
        let also: String = also.map(|reason| format!("; {reason}")).collect();
        Error::NoSuchDevice { wanted: wanted.clone(), known: format!("auto, {}{also}", known.join(", ")) }
    };
    let is_meant: Vec<bool> = match executors.iter().any(by_id) {
        true => executors.iter().map(by_id).collect(),
        false => executors.iter().map(by_name).collect(),
    };
    match is_meant.iter().filter(|meant| **meant).count() {
        0 => return Err(no_such(None)),
        1 if wanted.is_empty() => return Err(no_such(None)),
        1 => (),
        _ if executors.iter().any(by_id) => (),
        _ => return Err(no_such(Some("that is in several names; use a short name"))),
    }
    let kept = executors.into_iter().zip(is_meant).enumerate();
    Ok(kept.filter(|(position, (_, meant))| *meant || *position == HOST).map(|(_, kept)| kept).unzip())
}
