//! The race: interleaved rounds over rival candidates, the minimum decides, slow ones drop out, ties keep the incumbent.
//!
//! It measures only through [`Bench`] and never looks at operands; it cannot fail, only end without a winner.

use crate::{Budget, Rules, stats};
use trimtab_core::{Bench, Failure, FailureKind, Interference, KernelId, Nanos, Point, Sample};

/// How often a batch that turned out too short is made longer: the warm-up's time is mostly cold caches.
const MAX_GROWTHS: u32 = 3;
/// A batch this much shorter than wanted is still accepted.
const BATCH_TOLERANCE: f64 = 0.9;
/// The shortest time of one launch, so that no ratio divides by zero.
const SHORTEST_NS: f64 = 1e-3;
/// What a disturbance or untouched memory may add to a warm-up: a doubling and a few scheduler time slices.
const DISTURBED_FACTOR: f64 = 2.0;
const DISTURBED_NS: f64 = 10e6;

/// One rival: a kernel at a point, and what its time is expected to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The kernel.
    pub kernel: KernelId,
    /// Its settings.
    pub point: Point,
    /// The expected time of one launch, if there is an estimate.
    pub expected: Option<Nanos>,
}

/// What was measured of one rival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raced {
    /// Its position in the list of candidates.
    pub candidate: usize,
    /// Nanoseconds per launch of each recorded batch. The warm-up is left out unless it is all there is.
    pub samples: Vec<f64>,
    /// How many of the samples were disturbed by something else on the machine.
    pub interfered: u32,
    /// Microjoules per launch, where the device can tell.
    pub energy_uj: Option<f64>,
    /// Time it took to build the kernel, where it was built in this race.
    pub compiled_in: Option<Nanos>,
    /// How it failed, if it did.
    pub failure: Option<Failure>,
    /// After how many samples it was dropped for being slow; 0: never started, or cut off in its first run by the budget.
    pub dropped_after: Option<u32>,
}

impl Raced {
    /// The smallest sample, in nanoseconds per launch: what decides.
    pub fn min(&self) -> Option<f64> {
        stats::minimum(&self.samples)
    }

    /// The middle sample, in nanoseconds per launch.
    pub fn median(&self) -> Option<f64> {
        stats::median(&self.samples)
    }

    /// One standard deviation in doublings (log2), estimated robustly.
    pub fn spread(&self) -> Option<f64> {
        stats::spread_log2(&self.samples)
    }
}

trimtab_core::named! {
    /// Why a race ended.
    #[non_exhaustive]
    pub enum StopReason {
        /// The leader's time is confirmed and nobody is close.
        Certain = "certain",
        /// The leader's time is confirmed; others are as fast within the indifference, and the incumbent or the first of
        /// them is the winner.
        WithinIndifference = "within indifference",
        /// The leader is as fast as the budget asks for.
        GoodEnough = "good enough",
        /// Only one candidate could be measured.
        OnlyOne = "only one candidate",
        /// Everyone has the most samples allowed; for fixed rounds this is the normal end.
        SamplesSpent = "samples spent",
        /// The budget does not allow another run.
        BudgetSpent = "budget spent",
        /// Every candidate failed.
        AllFailed = "all failed",
        /// There were no candidates.
        NoCandidates = "no candidates",
    }
}

/// The outcome of a race.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceReport {
    /// One entry per candidate, in the order of the candidates.
    pub rivals: Vec<Raced>,
    /// The position of the winner, if anyone finished.
    pub winner: Option<usize>,
    /// Why it ended.
    pub stopped: StopReason,
    /// What it took.
    pub spent: Nanos,
    /// Batches run, warm-ups and repeated measurements included.
    pub runs: u32,
}

/// What just happened in a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The candidate's first run is about to begin: the moment to write down the intent.
    Starting,
    /// A batch was timed.
    Ran,
    /// The candidate is out for being slow, or was not started.
    Dropped,
    /// The candidate failed.
    Failed,
}

/// How far a race is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What happened.
    pub event: Event,
    /// To which candidate.
    pub candidate: usize,
    /// Candidates that are still in the race, waiting ones included.
    pub racing: usize,
    /// The leader and its nanoseconds per launch.
    pub best: Option<(usize, f64)>,
    /// Batches run so far.
    pub runs: u32,
    /// What the race took so far.
    pub spent: Nanos,
}

/// Measures candidates against each other and names the fastest.
///
/// The first run of each candidate is a warm-up that sizes its batches. The incumbent runs first, then the others by
/// expected time. Rivals within [`Rules::indifference`] of the best are tied: the incumbent wins ties, without one the
/// first candidate in the list. The budget is overdrawn by one run at most.
pub fn race(
    bench: &mut dyn Bench,
    candidates: &[Candidate],
    incumbent: Option<usize>,
    rules: &Rules,
    budget: &Budget,
    progress: &mut dyn FnMut(&Progress),
) -> RaceReport {
    let started = budget.spent();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&index| {
        (Some(index) != incumbent, candidates[index].expected.unwrap_or(Nanos::MAX), index)
    });
    let runners = (0..candidates.len()).map(Runner::new).collect();
    let mut race =
        Race { bench, candidates, rules, budget, progress, runners, started, runs: 0, starved: false };
    let stopped = race.go(&order);
    for runner in &mut race.runners {
        if let (true, Some(warm_up)) = (runner.raced.samples.is_empty(), runner.warm_up) {
            runner.raced.samples.push(warm_up.ns);
            runner.raced.interfered = u32::from(warm_up.disturbed);
        }
        runner.raced.energy_uj =
            (runner.energy_launches > 0).then(|| runner.energy_uj as f64 / runner.energy_launches as f64);
    }
    let spent = budget.spent().saturating_sub(started);
    let rivals: Vec<Raced> = race.runners.into_iter().map(|runner| runner.raced).collect();
    let winner = winner(&rivals, incumbent, rules.indifference);
    RaceReport { rivals, winner, stopped, spent, runs: race.runs }
}

/// The incumbent if it is tied with the best, else the first that is.
fn winner(rivals: &[Raced], incumbent: Option<usize>, indifference: f64) -> Option<usize> {
    let time = |index: usize| rivals[index].min().filter(|_| rivals[index].failure.is_none());
    let best = (0..rivals.len()).filter_map(time).min_by(f64::total_cmp)?;
    let tied = |index: &usize| time(*index).is_some_and(|ns| ns <= best * (1.0 + indifference));
    incumbent.filter(|index| *index < rivals.len() && tied(index)).or_else(|| (0..rivals.len()).find(tied))
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Waiting,
    Racing,
    Dropped,
    Failed,
}

#[derive(Clone, Copy)]
struct WarmUp {
    ns: f64,
    disturbed: bool,
    /// The first run of the race: it pays for operands nobody has touched yet.
    first: bool,
}

#[derive(Default)]
struct Runner {
    status: Status,
    raced: Raced,
    warm_up: Option<WarmUp>,
    iterations: u32,
    growths: u32,
    remeasured: u32,
    energy_uj: u64,
    energy_launches: u64,
}

impl Runner {
    fn new(candidate: usize) -> Runner {
        let raced = Raced { candidate, ..Raced::default() };
        Runner { raced, iterations: 1, ..Runner::default() }
    }

    /// The best known time of one launch.
    fn ns(&self) -> Option<f64> {
        self.raced.min().or(self.warm_up.map(|warm_up| warm_up.ns))
    }

    fn too_slow(&self, rules: &Rules, best: f64) -> bool {
        let allowed = rules.allowed(self.raced.samples.len()) * best;
        match (self.raced.min(), self.warm_up) {
            (Some(ns), _) => ns > allowed,
            (None, Some(WarmUp { ns, disturbed: false, first: false })) => {
                ns >= rules.warm_up_trusted_from.0 as f64 && ns > allowed
            }
            // Time slices given to others and page faults say nothing about the kernel, unless it is slow even so.
            (None, Some(WarmUp { ns, .. })) => (ns - DISTURBED_NS) / DISTURBED_FACTOR > allowed,
            (None, None) => false,
        }
    }
}

enum Outcome {
    Timed(Sample),
    /// The candidate failed or was given up.
    Gone,
    /// The run did not fit the budget and was not begun.
    NoBudget,
}

struct Race<'a> {
    bench: &'a mut dyn Bench,
    candidates: &'a [Candidate],
    rules: &'a Rules,
    budget: &'a Budget,
    progress: &'a mut dyn FnMut(&Progress),
    runners: Vec<Runner>,
    started: Nanos,
    runs: u32,
    /// Someone was not started for want of budget.
    starved: bool,
}

impl Race<'_> {
    fn go(&mut self, order: &[usize]) -> StopReason {
        if order.is_empty() {
            return StopReason::NoCandidates;
        }
        // The first round is the warm-ups, so that cold runs are compared with cold runs.
        loop {
            for &index in order {
                let status = self.runners[index].status;
                if status == Status::Waiting {
                    self.warm_up(index);
                } else if status == Status::Racing
                    && self.samples(index) < self.rules.max_samples
                    && !self.sample(index)
                {
                    return StopReason::BudgetSpent;
                }
            }
            for &index in order {
                self.drop_if_slow(index);
            }
            if let Some(reason) = self.settled() {
                return reason;
            }
        }
    }

    fn samples(&self, index: usize) -> u32 {
        self.runners[index].raced.samples.len() as u32
    }

    /// The fastest candidate that has not failed, and its time.
    fn best(&self) -> Option<(usize, f64)> {
        let alive = self.runners.iter().enumerate().filter(|(_, runner)| runner.status != Status::Failed);
        alive.filter_map(|(index, runner)| Some((index, runner.ns()?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn tell(&mut self, event: Event, candidate: usize) {
        let out = |runner: &&Runner| matches!(runner.status, Status::Waiting | Status::Racing);
        let told = Progress {
            event,
            candidate,
            racing: self.runners.iter().filter(out).count(),
            best: self.best(),
            runs: self.runs,
            spent: self.budget.spent().saturating_sub(self.started),
        };
        (self.progress)(&told);
    }

    fn drop_out(&mut self, index: usize, after: u32) {
        self.runners[index].status = Status::Dropped;
        self.runners[index].raced.dropped_after = Some(after);
        self.tell(Event::Dropped, index);
    }

    fn drop_if_slow(&mut self, index: usize) {
        let runner = &self.runners[index];
        if let (true, Status::Racing, Some((_, best))) = (self.rules.dropping, runner.status, self.best())
            && runner.too_slow(self.rules, best)
        {
            let after = self.samples(index).max(1);
            self.drop_out(index, after);
        }
    }

    /// Starts a candidate, unless budget or expectation speak against it.
    fn warm_up(&mut self, index: usize) {
        let expected = self.candidates[index].expected;
        let left = self.budget.left();
        if self.budget.exhausted() || expected.is_some_and(|time| time > left) {
            self.starved = true;
            return self.drop_out(index, 0);
        }
        if let (true, Some(time), Some((_, best))) = (self.rules.dropping, expected, self.best())
            && time.0 as f64 > self.rules.allowed(0) * best
        {
            return self.drop_out(index, 0);
        }
        self.budget.charge_evaluation();
        self.tell(Event::Starting, index);
        if let Outcome::Timed(sample) = self.run(index) {
            let ns = sample.ns().max(SHORTEST_NS);
            let first = self.runners.iter().all(|runner| runner.warm_up.is_none());
            let runner = &mut self.runners[index];
            runner.status = Status::Racing;
            runner.warm_up = Some(WarmUp { ns, disturbed: sample.interference.is_some(), first });
            runner.iterations = self.rules.iterations(ns);
            self.tell(Event::Ran, index);
            self.drop_if_slow(index);
        }
    }

    /// Takes one sample; false if the budget does not allow it.
    fn sample(&mut self, index: usize) -> bool {
        let mut disturbed: Option<Sample> = None;
        let rest = self.rules.rest.duration();
        if self.rules.rest_always {
            std::thread::sleep(rest);
        }
        let recorded = loop {
            let sample = match self.run(index) {
                Outcome::Timed(sample) => sample,
                Outcome::Gone => return true,
                Outcome::NoBudget => match disturbed {
                    Some(sample) => break sample,
                    None => return false,
                },
            };
            self.tell(Event::Ran, index);
            let runner = &mut self.runners[index];
            let iterations = self.rules.iterations(sample.ns());
            let wanted = self.rules.batch_time().0 as f64 * BATCH_TOLERANCE;
            if (sample.elapsed.0 as f64) < wanted
                && iterations > runner.iterations
                && runner.growths < MAX_GROWTHS
            {
                runner.growths += 1;
                runner.iterations = iterations;
                continue;
            }
            if sample.interference.is_none() {
                break sample;
            }
            let least = disturbed.filter(|known| known.ns() <= sample.ns()).unwrap_or(sample);
            if runner.remeasured >= self.rules.max_remeasures {
                break least;
            }
            runner.remeasured += 1;
            disturbed = Some(least);
            std::thread::sleep(rest);
        };
        let runner = &mut self.runners[index];
        runner.raced.samples.push(recorded.ns().max(SHORTEST_NS));
        runner.raced.interfered += u32::from(recorded.interference.is_some());
        if let Some(energy) = recorded.energy_uj {
            runner.energy_uj = runner.energy_uj.saturating_add(energy);
            runner.energy_launches += u64::from(recorded.iterations.max(1));
        }
        self.drop_if_slow(index);
        true
    }

    /// Runs one batch within the time-out that applies.
    fn run(&mut self, index: usize) -> Outcome {
        let candidate = &self.candidates[index];
        let runner = &self.runners[index];
        let left = self.budget.left();
        let batch_ns = |ns: f64| ns * f64::from(runner.iterations);
        if left == Nanos(0) || runner.ns().is_some_and(|ns| batch_ns(ns) > left.0 as f64) {
            return Outcome::NoBudget;
        }
        let first = runner.warm_up.is_none();
        let slow = self.best().map(|(_, best)| {
            let time = Nanos((batch_ns(best) * self.rules.slow_factor) as u64);
            time.max(self.rules.slow_min)
        });
        let mut timeout = self.rules.timeout.min(left);
        if let (false, Some(slow)) = (first, slow) {
            timeout = timeout.min(slow);
        }
        let result = self.bench.run(candidate.kernel, &candidate.point, runner.iterations, timeout);
        self.runs += 1;
        match result {
            Ok(mut sample) => {
                self.budget.charge(sample.elapsed);
                // It was not given up, so it did not compute all that time.
                if sample.elapsed > timeout {
                    sample.interference = sample.interference.or(Some(Interference::Preempted));
                }
                let raced = &mut self.runners[index].raced;
                raced.compiled_in = raced.compiled_in.or(sample.compiled_in);
                Outcome::Timed(sample)
            }
            Err(failure) => {
                let timed_out = failure.kind == FailureKind::TimedOut;
                if timed_out {
                    self.budget.charge(timeout);
                }
                // A time-out shortened by the budget or by impatience is no fault of the kernel, unless its first run
                // has already shown it to be hopeless.
                let hopeless = first && slow.is_some_and(|slow| timeout >= slow);
                if timed_out && timeout < self.rules.timeout && !hopeless {
                    self.starved |= first;
                    let after = if first { 0 } else { self.samples(index).max(1) };
                    self.drop_out(index, after);
                } else {
                    self.fail(index, failure);
                }
                Outcome::Gone
            }
        }
    }

    /// Takes a failed candidate out. If it was the best, whoever was dropped because of it is back in the race.
    fn fail(&mut self, index: usize, failure: Failure) {
        let was_best = self.best().is_some_and(|(best, _)| best == index);
        self.runners[index].status = Status::Failed;
        self.runners[index].raced.failure = Some(failure);
        if was_best {
            for runner in &mut self.runners {
                if runner.status == Status::Dropped {
                    runner.raced.dropped_after = None;
                    runner.status = if runner.warm_up.is_some() { Status::Racing } else { Status::Waiting };
                }
            }
        }
        self.tell(Event::Failed, index);
    }

    /// Why the race is over, if it is. Called between rounds.
    fn settled(&self) -> Option<StopReason> {
        let with = |status: Status| self.runners.iter().filter(move |runner| runner.status == status);
        if with(Status::Waiting).count() > 0 {
            return None;
        }
        if with(Status::Racing).count() == 0 {
            return Some(if self.starved { StopReason::BudgetSpent } else { StopReason::AllFailed });
        }
        let fewest = with(Status::Racing).map(|runner| runner.raced.samples.len() as u32).min().unwrap_or(0);
        let leader = with(Status::Racing)
            .filter_map(|runner| Some((runner, runner.raced.min()?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        if leader.as_ref().is_some_and(|(_, best)| self.budget.is_good_enough(*best)) {
            return Some(StopReason::GoodEnough);
        }
        if let Some((leader, best)) = leader
            && fewest >= self.rules.min_samples
        {
            let near = |share: f64| move |ns: &f64| *ns <= best * (1.0 + share);
            let close = leader.raced.samples.iter().filter(|ns| near(self.rules.confirm_within)(ns)).count();
            if close as u32 >= self.rules.confirm_samples {
                let measured = self
                    .runners
                    .iter()
                    .filter(|runner| runner.status != Status::Failed && runner.warm_up.is_some());
                let tied = with(Status::Racing)
                    .filter_map(|runner| runner.raced.min())
                    .filter(near(self.rules.indifference));
                return Some(match (measured.count(), tied.count()) {
                    (1, _) => StopReason::OnlyOne,
                    (_, 1) => StopReason::Certain,
                    _ => StopReason::WithinIndifference,
                });
            }
        }
        (fewest >= self.rules.max_samples).then_some(StopReason::SamplesSpent)
    }
}
