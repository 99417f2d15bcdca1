//! Learning from live calls: which rival a call should run, and what trying others may cost.
//!
//! Thompson sampling in log time: each rival has a time that is believed in and a doubt, at first the model's prediction and
//! its cross-validated error; a call draws one time a rival and runs the least. A call that does not run the incumbent, the
//! rival believed to be fastest of those that have been timed, is **explored**, and what it takes beyond the incumbent's
//! expected time is charged. It is started only if what the problem and the process have earned so far covers the longest it is thought
//! to take, its **bound**; so the budget is never exceeded while times stay within their bounds. A call that takes longer still is charged in
//! full; that one call is then owed, and nothing is explored until later calls have earned it back.
//!
//! What is promised of a problem, after every call: exploring took at most [`PROBLEM_LIMIT`] of its time, as long as no explored call took
//! longer than its **surprise** ([`Policy::surprise_ns`]), which is many times its bound and is earned before the first try. One that
//! stalls for longer still breaks this once, until the problem's calls have earned it back; meanwhile nothing is tried.

use trimtab_core::RandomNumbers;

/// What exploring may cost of the time all calls take: of one problem, and of the process.
pub const PROBLEM_SHARE: f64 = 0.02;
/// See [`PROBLEM_SHARE`].
pub const PROCESS_SHARE: f64 = 0.01;
/// What exploring takes of a problem's time at most, calls that took longer than their bound included.
pub const PROBLEM_LIMIT: f64 = 0.03;
/// The surprise of an explored call: so many times what the incumbent takes if the rival never ran on this problem, …
const NEVER_RAN: f64 = 50.0;
/// … and so many times the longer of its own time and the incumbent's if it did.
const RAN: f64 = 8.0;
/// A rival believed to be slower than the incumbent by more than this many doublings is not tried.
const HOPELESS_LOG2: f64 = 2.0;
/// Samples kept a rival: the last ones.
const KEPT: usize = 8;
/// The deviation assumed of one sample, in doublings: about eight per cent.
const NOISE_LOG2: f64 = 0.12;
/// No rival is known better than this, in doublings: draws of rivals this close are left to chance.
const LEAST_DOUBT: f64 = 0.01;
/// A rival takes the incumbent's place when it is believed to be faster by this many doublings: two per cent.
const WORTH_LOG2: f64 = 0.03;
/// The bound of an explored call: so many deviations above what is believed, and so many times what the incumbent takes at least.
const COVERED: f64 = 3.0;
const COVERED_TIMES: f64 = 2.0;

/// The part of a budget that is planned with; the rest pays for calls that took longer than their bound.
const PLANNED: f64 = 0.85;

/// Time that was spent, and how much of it on exploring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ledger {
    /// What all calls took.
    pub total_ns: f64,
    /// What explored calls took beyond the incumbent's expected time.
    pub explored_ns: f64,
    /// Calls that were explored.
    pub explored: u64,
    /// What explored calls that have not come back yet may cost.
    held_ns: f64,
}

impl Ledger {
    /// Enters time of calls that were not explored.
    pub fn ran(&mut self, ns: f64) {
        if ns > 0.0 && ns.is_finite() {
            self.total_ns += ns;
        }
    }

    /// The share of the time that went into exploring.
    pub fn share(&self) -> f64 {
        if self.total_ns > 0.0 { self.explored_ns / self.total_ns } else { 0.0 }
    }

    /// Whether something that may cost so much is still within that share of the time spent so far.
    pub fn covers(&self, ns: f64, share: f64) -> bool {
        self.explored_ns + self.held_ns + ns <= share * self.total_ns
    }

    /// What exploring has cost beyond that share of the time spent so far: zero, or the rest of one call that took longer than its bound.
    pub fn owed_ns(&self, share: f64) -> f64 {
        (self.explored_ns - share * self.total_ns).max(0.0)
    }

    fn explore(&mut self, ns: f64, expected_ns: f64) {
        self.ran(ns);
        self.explored_ns += (ns - expected_ns).max(0.0);
        self.explored += 1;
    }
}

/// What a call should run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// The rival.
    pub rival: usize,
    /// What the incumbent is expected to take; an explored call is charged what it takes beyond that. `None` for a call that is
    /// not explored.
    pub explores: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    /// log2 of the time over the best's by the model; not a number for a rival that must not run.
    prior: f64,
    /// log2 of the last samples in nanoseconds.
    samples: [f64; KEPT],
    seen: usize,
    /// What it took when it was checked on this problem, not in a call.
    checked_ns: Option<f64>,
}

impl Arm {
    /// log2 of the time it is known for: between the two least of the last samples, for what disturbs only adds.
    fn measured(&self) -> Option<f64> {
        let (mut least, mut second) = (f64::INFINITY, f64::INFINITY);
        for &sample in &self.samples[..self.seen.min(KEPT)] {
            if sample < least {
                (least, second) = (sample, least);
            } else if sample < second {
                second = sample;
            }
        }
        let second = if second.is_finite() { second } else { least };
        least.is_finite().then_some(0.5 * (least + second))
    }
}

/// The live choice for one problem.
#[derive(Clone, Debug)]
pub struct Policy {
    arms: Vec<Arm>,
    /// Error of the model's predictions.
    width: f64,
    incumbent: usize,
    ledger: Ledger,
    dice: RandomNumbers,
    exploring: bool,
    /// What the process holds back for a call of this problem.
    held_ns: f64,
    /// log2 of each rival's believed time, and its doubt, after the last sample.
    believed: Vec<(f64, f64)>,
    unknown: Option<usize>,
}

impl Policy {
    /// From a model's predictions, log2 over the best's (not a number for rivals that must not run), and its cross-validated
    /// error in doublings. Without `exploring`, as under a limit on latency or where the same must happen every time, the rival with
    /// the least prediction runs for ever. `None` if no rival may run.
    pub fn new(log2: &[f64], error_log2: f64, exploring: bool, seed: u64) -> Option<Policy> {
        let least = |best: Option<usize>, rival: usize| {
            if best.is_some_and(|best| log2[best] <= log2[rival]) { best } else { Some(rival) }
        };
        let incumbent = (0..log2.len()).filter(|&rival| log2[rival].is_finite()).fold(None, least)?;
        let arms: Vec<Arm> = log2.iter().map(|&prior| Arm { prior, ..Arm::default() }).collect();
        let believed = vec![(f64::NAN, 0.0); arms.len()];
        let width = error_log2.max(LEAST_DOUBT);
        Some(Policy {
            arms,
            width,
            incumbent,
            ledger: Ledger::default(),
            dice: RandomNumbers::new(seed),
            exploring,
            held_ns: 0.0,
            believed,
            unknown: None,
        })
    }

    /// The rival believed to be fastest.
    pub fn incumbent(&self) -> usize {
        self.incumbent
    }

    /// What calls of this problem took.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The longest an explored call of this rival is thought to take, in nanoseconds; `None` before the incumbent was timed, and for a
    /// rival that must not run.
    pub fn bound_ns(&self, rival: usize) -> Option<f64> {
        let (now, _) = self.believed[self.incumbent];
        let (time, doubt) = *self.believed.get(rival)?;
        let bound = (time + COVERED * doubt.hypot(NOISE_LOG2)).exp2().max(COVERED_TIMES * now.exp2());
        (now.is_finite() && time.is_finite()).then_some(bound)
    }

    /// What an explored call of this rival may take before it breaks the promise of [`PROBLEM_LIMIT`], in nanoseconds; `None` as for
    /// [`bound_ns`](Policy::bound_ns).
    pub fn surprise_ns(&self, rival: usize) -> Option<f64> {
        let now = self.believed[self.incumbent].0.exp2();
        let arm = self.arms.get(rival)?;
        let own = arm.measured().map(f64::exp2).into_iter().chain(arm.checked_ns).reduce(f64::max);
        let most = own.map_or(NEVER_RAN * now, |own| RAN * own.max(now));
        self.bound_ns(rival).map(|bound| bound.max(most))
    }

    /// What a rival took when it was checked on this problem: its calls surprise less.
    pub fn checked(&mut self, rival: usize, ns: f64) {
        if let Some(arm) = self.arms.get_mut(rival).filter(|_| ns > 0.0 && ns.is_finite()) {
            arm.checked_ns = Some(ns);
        }
    }

    /// A rival the last pick would have been of, had it run on this problem before: checking it makes it cheaper to try.
    pub fn unknown(&self) -> Option<usize> {
        self.unknown
    }

    /// As [`pick`](Policy::pick), for processes where calls of several problems are under way at once: what the call may cost is held back
    /// until [`ran`](Policy::ran) or the next pick of this problem, so that calls that fit one by one also fit together.
    pub fn pick_held(&mut self, process: &mut Ledger) -> Pick {
        self.release(process);
        let pick = self.pick(process);
        if let (Some(expected_ns), Some(bound)) = (pick.explores, self.bound_ns(pick.rival)) {
            self.held_ns = (bound - expected_ns).max(0.0);
            process.held_ns += self.held_ns;
        }
        pick
    }

    fn release(&mut self, process: &mut Ledger) {
        process.held_ns = (process.held_ns - self.held_ns).max(0.0);
        self.held_ns = 0.0;
    }

    /// What the next call should run, given what the process has spent.
    pub fn pick(&mut self, process: &Ledger) -> Pick {
        self.unknown = None;
        let stay = Pick { rival: self.incumbent, explores: None };
        let (now, _) = self.believed[self.incumbent];
        let affordable = self.ledger.covers(0.0, PROBLEM_SHARE) && process.covers(0.0, PROCESS_SHARE);
        if !self.exploring || !now.is_finite() || !affordable {
            return stay;
        }
        let mut best = (f64::INFINITY, self.incumbent);
        for (rival, &(time, doubt)) in self.believed.iter().enumerate() {
            if time.is_finite() && time - now <= HOPELESS_LOG2 {
                let drawn = time + doubt * self.dice.normal();
                if drawn < best.0 {
                    best = (drawn, rival);
                }
            }
        }
        let rival = best.1;
        let expected_ns = now.exp2();
        let Some(bound) = self.bound_ns(rival) else { return stay };
        let may_cost = (bound - expected_ns).max(0.0);
        if rival == self.incumbent
            || !self.ledger.covers(may_cost, PROBLEM_SHARE * PLANNED)
            || !process.covers(may_cost, PROCESS_SHARE * PLANNED)
        {
            return stay;
        }
        let surprise = self.surprise_ns(rival).unwrap_or(f64::INFINITY) - expected_ns;
        if !self.ledger.covers(surprise, PROBLEM_LIMIT) {
            self.unknown =
                Some(rival).filter(|_| self.arms[rival].seen == 0 && self.arms[rival].checked_ns.is_none());
            return stay;
        }
        Pick { rival, explores: Some(expected_ns) }
    }

    /// What a call took that ran as picked, in nanoseconds. Enters both ledgers and learns.
    pub fn ran(&mut self, pick: Pick, ns: f64, process: &mut Ledger) {
        if ns.is_nan() || ns <= 0.0 || ns.is_infinite() {
            return;
        }
        if pick.explores.is_some() {
            self.release(process);
        }
        for ledger in [&mut self.ledger, process] {
            match pick.explores {
                Some(expected_ns) => ledger.explore(ns, expected_ns),
                None => ledger.ran(ns),
            }
        }
        let Some(arm) = self.arms.get_mut(pick.rival) else { return };
        arm.samples[arm.seen % KEPT] = ns.log2();
        arm.seen += 1;
        self.believe();
    }

    /// Believed times and doubts from the model and the samples; the incumbent is who is fastest of those that were timed.
    fn believe(&mut self) {
        // The model knows times up to a factor: where the best's time lies is what the timed rivals say, each less by what the
        // model says it is slower.
        let (mut weights, mut sum) = (0.0, 0.0);
        for arm in &self.arms {
            if let Some(measured) = arm.measured().filter(|_| arm.prior.is_finite()) {
                weights += 1.0;
                sum += measured - arm.prior;
            }
        }
        if weights == 0.0 {
            return;
        }
        let level = sum / weights;
        let level_doubt = self.width * self.width / weights;
        for (arm, believed) in self.arms.iter().zip(&mut self.believed) {
            if !arm.prior.is_finite() {
                continue;
            }
            let prior = (level + arm.prior, self.width * self.width + level_doubt);
            *believed = match arm.measured() {
                None => (prior.0, prior.1.sqrt()),
                Some(measured) => {
                    let precision = arm.seen.min(KEPT) as f64 / (NOISE_LOG2 * NOISE_LOG2);
                    let all = precision + 1.0 / prior.1;
                    let mean = (precision * measured + prior.0 / prior.1) / all;
                    (mean, (1.0 / all).sqrt().max(LEAST_DOUBT))
                }
            };
        }
        for rival in 0..self.arms.len() {
            let timed = self.arms[rival].seen > 0;
            if timed && self.believed[rival].0 < self.believed[self.incumbent].0 - WORTH_LOG2 {
                self.incumbent = rival;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls whose times are given by a function of (call, rival), and checks the budget around every one.
    fn live(policy: &mut Policy, calls: usize, mut time: impl FnMut(usize, usize) -> f64) -> Ledger {
        let mut process = Ledger::default();
        for call in 0..calls {
            let pick = policy.pick(&process);
            let ns = time(call, pick.rival);
            let before = process;
            policy.ran(pick, ns, &mut process);
            // Time beyond what was covered is the only way over the budget, and only the last explored call can have it.
            let overrun = pick.explores.map_or(0.0, |expected| (ns - expected).max(0.0));
            assert!(
                process.explored_ns - overrun <= PROCESS_SHARE * before.total_ns + 1e-6
                    || pick.explores.is_none()
            );
            if pick.explores.is_some() {
                assert!(before.explored_ns <= PROCESS_SHARE * before.total_ns, "explored in debt");
            }
        }
        process
    }

    #[test]
    fn a_wrong_prediction_is_put_right_by_live_calls_within_the_budget() {
        let truth = [110.0, 100.0, 300.0];
        let mut policy = Policy::new(&[0.0, 0.1, 0.2], 0.2, true, 1).unwrap();
        let mut dice = RandomNumbers::new(2);
        let process = live(&mut policy, 3000, |_, rival| truth[rival] * (1.0 + 0.05 * dice.unit()));
        assert_eq!(policy.incumbent(), 1);
        assert!(process.explored > 3 && process.share() <= PROCESS_SHARE, "{process:?}");
    }

    #[test]
    fn rivals_believed_to_be_hopeless_or_barred_never_run_and_without_exploring_nothing_changes() {
        let mut policy = Policy::new(&[0.0, 2.5, f64::NAN], 0.05, true, 3).unwrap();
        live(&mut policy, 2000, |_, rival| {
            assert_eq!(rival, 0);
            100.0
        });
        let mut still = Policy::new(&[0.1, 0.0], 1.0, false, 3).unwrap();
        let process = live(&mut still, 500, |_, rival| if rival == 1 { 900.0 } else { 100.0 });
        assert_eq!((still.incumbent(), process.explored), (1, 0));
        assert!(Policy::new(&[f64::NAN], 0.1, true, 0).is_none());
    }
}
