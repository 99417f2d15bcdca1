//! Launches on threads that can be left behind: a kernel, a device or a closure of a user's that never comes back costs its time, not
//! the caller.
//!
//! Callers' operands are borrowed, and whoever is left behind must not hold them: such a launch works on copies. That is done for the
//! first calls of each plan, and later wherever handing over and copying cost a twentieth of the call at most. All other launches of
//! users' kernels stay on the caller's thread and are watched; see [`watch`].

mod added;
mod watch;

pub(crate) use added::Added;
pub(crate) use watch::Watch;

use crate::buffers;
use crate::runtime::{HOST, Runtime, Shared};
use crate::tensor::allocate_result;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trimtab_core::{Bytes, Failure, FailureKind, LaunchError, Nanos, Problem};
use trimtab_cpu::{CpuDevice, Detached};
use trimtab_operands::{Data, Executor, HostLaunch, Slice, SliceMut};
use trimtab_plan::{Plan, Planner};
use trimtab_tune::{Sandbox, Stopwatch, median};

/// A launch whose time is known has so many times as long, …
const SLOWER_THAN_KNOWN: u64 = 50;
/// … and at least this.
const SHORTEST_LIMIT: Nanos = Nanos::from_millis(2_000);
/// What a launch has whose time nobody knows, unless the builder says otherwise.
pub(crate) const UNKNOWN_LIMIT: Nanos = Nanos::from_millis(30_000);
/// Handing over and copying may cost one part in so many of a call.
const SHARE: u64 = 20;
/// What copying is taken to cost. A byte was measured to take 0.05 to 0.14 ns into memory used before, and up to 1.7 ns into memory fresh
/// from the system.
const COPIED_BYTES_PER_US: u64 = 1_000;
/// Operands larger than this are never copied: twice the memory may not be there.
const MOST_COPIED: Bytes = Bytes(256 << 20);
/// Threads that wait for the next launch; more end when theirs is over.
const MAX_IDLE: usize = 4;
/// No thread wakes sooner; for shorter calls what it really takes is not measured.
const CHEAPEST_HAND_OVER: Nanos = Nanos(2_000);
/// Empty tasks that are handed over to find out what that takes.
const HAND_OVERS: usize = 9;

/// How long a launch may take, of which that is known.
pub(crate) fn limit(known: Option<Nanos>, unknown: Nanos) -> Nanos {
    match known {
        Some(time) => Nanos(time.0.saturating_mul(SLOWER_THAN_KNOWN)).max(SHORTEST_LIMIT),
        None => unknown,
    }
}

/// What a launch takes that has at most so long.
pub(crate) fn usual(known: Option<Nanos>, limit: Nanos) -> Nanos {
    known.unwrap_or(Nanos(limit.0 / SLOWER_THAN_KNOWN))
}

/// Threads that can be left behind, as many as there are calls at once.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    idle: Mutex<Vec<Sandbox>>,
    abandoned: Arc<AtomicU32>,
    hand_over: OnceLock<Nanos>,
}

impl Threads {
    /// Runs a task there, as [`Sandbox::run`] does.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        timeout: Nanos,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut sandbox = taken.unwrap_or_else(|| Sandbox::for_calls(Arc::clone(&self.abandoned)));
        let outcome = sandbox.run(timeout, task);
        let mut idle = idle();
        if idle.len() < MAX_IDLE {
            idle.push(sandbox);
        }
        outcome
    }

    /// Where threads are counted that were left behind and did not come back.
    pub(crate) fn abandoned(&self) -> &Arc<AtomicU32> {
        &self.abandoned
    }

    /// Threads that hang now.
    pub(crate) fn hanging(&self) -> u32 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// What handing over and waiting takes, measured once.
    pub(crate) fn hand_over(&self) -> Nanos {
        *self.hand_over.get_or_init(|| {
            let one = |_| {
                let watch = Stopwatch::start();
                let _ = self.run(SHORTEST_LIMIT, || ());
                watch.elapsed().0 as f64
            };
            let times: Vec<f64> = (0..HAND_OVERS).map(one).collect();
            Nanos(median(&times).unwrap_or(0.0) as u64)
        })
    }

    /// Whether handing over is worth its cost, copying included, for a call of that length.
    pub(crate) fn is_cheap(&self, expected: Nanos, copying: Nanos) -> bool {
        let most = expected.0 / SHARE;
        copying.0.max(CHEAPEST_HAND_OVER.0) <= most && self.hand_over().0.saturating_add(copying.0) <= most
    }
}

/// Launches of users' kernels of the processor.
pub(crate) struct Apart {
    threads: Threads,
    /// Kernels with threads of their own; replaced when a launch keeps them.
    kernels: Mutex<Option<Arc<Detached>>>,
    /// What a launch has whose time nobody knows.
    unknown: Nanos,
}

/// What a launch gave: its result, and its time if it was asked for.
type Launched = Result<(Data, Option<Nanos>), LaunchError>;

impl Apart {
    pub(crate) fn new(unknown: Nanos) -> Apart {
        Apart { threads: Threads::default(), kernels: Mutex::default(), unknown }
    }

    /// What a launch has whose time nobody knows.
    pub(crate) fn unknown(&self) -> Nanos {
        self.unknown
    }

    /// How long a plan's launch may take.
    pub(crate) fn limit(&self, planner: &Planner, plan: &Plan) -> Nanos {
        limit(planner.measured(plan), self.unknown)
    }

    fn is_worth(&self, plan: &Plan, problem: &Problem, is_new: bool) -> bool {
        let bytes = problem.operand_bytes();
        let copying = Nanos(bytes.0.saturating_mul(1_000) / COPIED_BYTES_PER_US);
        bytes <= MOST_COPIED && (is_new || self.threads.is_cheap(plan.expected, copying))
    }

    fn kernels(&self, cpu: &CpuDevice) -> Arc<Detached> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kernels.get_or_insert_with(|| Arc::new(cpu.detached())))
    }
}

impl Runtime {
    /// Launches a user's kernel: where it can be left behind, or else on this thread under watch.
    pub(crate) fn launch_users(
        &self,
        executor: &dyn Executor,
        plan: &Plan,
        launch: HostLaunch<'_>,
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        let Shared { planner, apart, in_calls, watch, .. } = &*self.shared;
        let (leash, is_host) = (planner.leash(plan), plan.device as usize == HOST);
        let is_new = self.is_unproven(plan);
        if is_host && apart.is_worth(plan, launch.problem, is_new) {
            let run = || self.launch_apart(plan, launch, &out.view(), timed);
            let limit = apart.limit(planner, plan);
            match leash.call(limit, usual(planner.measured(plan), limit), is_new, run) {
                Ok(launched) => {
                    let (result, time) = launched?;
                    out.copy_from(result.slice())?;
                    buffers::give(result);
                    return Ok(time);
                }
                // No thread is to be had: then this one.
                Err(failure) if failure.kind == FailureKind::Untried && leash.why().is_none() => (),
                Err(failure) => return Err(LaunchError::Failed(failure)),
            }
        }
        if leash.why().is_some() {
            leash.wait(apart.limit(planner, plan)).map_err(LaunchError::Failed)?;
        }
        let _inside = in_calls.enter(planner, launch.problem, plan);
        // Other devices have time-outs of their own.
        let _watched = is_host.then(|| watch.begin(plan, launch.problem, leash));
        executor.launch_host(launch, out, timed)
    }

    /// Whether a plan answered few calls, or nobody counts them.
    pub(crate) fn is_unproven(&self, plan: &Plan) -> bool {
        plan.number() == 0 || self.is_new(plan)
    }

    /// Launches a kernel on copies of the operands, on a thread that is left behind if it takes too long.
    fn launch_apart(
        &self,
        plan: &Plan,
        launch: HostLaunch<'_>,
        out: &Slice<'_>,
        timed: bool,
    ) -> Result<Launched, Failure> {
        let Shared { planner, apart, cpu, in_calls, .. } = &*self.shared;
        let HostLaunch { kernel, problem, point, inputs } = launch;
        let dtype = out.dtype();
        let short = |error: crate::Error| Failure::new(FailureKind::Untried, error.to_string());
        let copies = inputs.iter().map(copied).collect::<Result<Vec<Data>, _>>().map_err(short)?;
        let Some(Ok(mut result)) = dtype.map(|dtype| allocate_result(dtype, out.len())) else {
            return Err(Failure::new(FailureKind::Untried, "there is no memory for a second result"));
        };
        let (kernels, problem, point) = (apart.kernels(cpu), *problem, *point);
        let (entry, in_calls) = (in_calls.entry(planner, &problem, plan), Arc::clone(in_calls));
        let outcome = apart.threads.run(apart.limit(planner, plan), move || -> Launched {
            let slices: Vec<Slice<'_>> = copies.iter().map(Data::slice).collect();
            let inside = entry.and_then(|entry| in_calls.inside(entry));
            let watch = timed.then(Stopwatch::start);
            let ended = kernels.launch(kernel, &problem, &point, &slices, result.slice_mut());
            let time = watch.map(|watch| watch.elapsed());
            drop((inside, slices));
            copies.into_iter().for_each(buffers::give);
            ended.map(|()| (result, time))
        });
        if matches!(&outcome, Err(failure) if failure.kind == FailureKind::TimedOut) {
            // Their threads may hang with it.
            *apart.kernels.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let told =
            |Failure { kind, message }: Failure| Failure::new(kind, format!("{message} in a live call"));
        outcome.map_err(told)
    }
}

/// A copy of an operand in memory of its own.
pub(crate) fn copied(slice: &Slice<'_>) -> Result<Data, crate::Error> {
    let Some(dtype) = slice.dtype() else { return Ok(Data::None) };
    let mut copy = allocate_result(dtype, slice.len())?;
    copy.slice_mut().copy_from(*slice)?;
    Ok(copy)
}
