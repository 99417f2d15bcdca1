//! Choosing among plain Rust closures by the sizes the caller gives: measured, learned and remembered like kernels.

mod closures;
mod options;
mod trials;

use crate::apart::{limit, usual};
use crate::error::Error;
use crate::runtime::{Runtime, Shared};
use closures::{Agree, Answer, Closures, Way};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trials::{Seen, Trials};
use trimtab_core::{
    Condition, Custom, Failure, FailureKind, KernelId, KernelInfo, Nanos, Point, Problem, Space,
    panic_message,
};
use trimtab_plan::{Decision, Plan, Reason, Standing, TermsId};
use trimtab_tune::Stopwatch;
use trimtab_wisdom::{FactKey, Outcome, Stats};

/// How many times as long as expected timed calls take that may have become slower, and how many in a row are looked into.
const SLOWER: u64 = 8;
const LATE: u32 = 3;
/// Problems of one choice whose fastest option calls find out.
const MAX_TRYING: usize = 4_096;

/// An answer that came from another thread.
struct Answered<R>(Answer<R>);

impl<R> Answered<R> {
    fn into_inner(self) -> Option<R> {
        Arc::into_inner(self.0)?.into_inner().ok()
    }
}

/// What became of a call of an option.
enum Called<T, R> {
    /// It answered, and took so long if it was timed.
    Answered(R, Nanos),
    /// It failed where it could be left behind: the input is still there.
    Failed(Failure, T),
    /// It panicked on the caller's thread, and the input is gone.
    Panicked(Box<dyn Any + Send>),
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::new(FailureKind::Launch, format!("panicked: {}", panic_message(panic)))
}

/// Collects the ways to choose from. See [`Runtime::choose`].
pub struct ChoiceBuilder<T, R> {
    runtime: Runtime,
    name: String,
    version: String,
    ways: Vec<Way<T, R>>,
    agree: Option<Agree<R>>,
}

impl<T, R> std::fmt::Debug for ChoiceBuilder<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChoiceBuilder({}, {} options)", self.name, self.ways.len())
    }
}

/// A choice among closures, ready to run.
pub struct Choice<T, R> {
    name: String,
    device: Arc<Closures<T, R>>,
    runtime: Runtime,
    /// Its position among the planner's devices, and the handle of plans for it.
    at: u16,
    terms: TermsId,
}

impl<T, R> Drop for Choice<T, R> {
    fn drop(&mut self) {
        self.runtime.planner().leave(self.at);
    }
}

impl<T, R> std::fmt::Debug for Choice<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Choice({}, {} options)", self.name, self.device.ways.len())
    }
}

impl Runtime {
    /// Begins a choice among closures that do the same. The fastest for the sizes at hand is found on clones of the
    /// input within the runtime's budget, on a thread that is left behind if a closure takes too long, and remembered.
    ///
    /// ```
    /// use trimtab::Runtime;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sort = rt
    ///     .choose::<Vec<u32>, Vec<u32>>("sort")
    ///     .option("stable", |mut v| { v.sort(); v })
    ///     .option("unstable", |mut v| { v.sort_unstable(); v })
    ///     .agree(|a, b| a == b)
    ///     .build()?;
    /// let numbers: Vec<u32> = (0..1000).rev().collect();
    /// let sorted = sort.run(&[numbers.len() as u64], numbers)?;
    /// assert!(sorted.is_sorted());
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn choose<T, R>(&self, name: &str) -> ChoiceBuilder<T, R> {
        ChoiceBuilder {
            runtime: self.clone(),
            name: name.to_string(),
            version: "1".to_string(),
            ways: Vec::new(),
            agree: None,
        }
    }
}

impl<T: Clone + Send + 'static, R: Send + 'static> Choice<T, R> {
    /// Runs the best option for these sizes on the input. What takes too long to be raced is tried by calls, each option once.
    ///
    /// An option that panics or hangs gets no more calls of these sizes, and the call itself is answered by another. So it is for the
    /// first 32 calls of each size, and later wherever cloning the input and handing it over cost a twentieth of the call at most. Other
    /// calls are made on this thread, without a clone: there a panic goes on, and one that hangs is named on standard error.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let largest = rt
    ///     .choose::<Vec<u32>, Option<u32>>("largest")
    ///     .option("max", |numbers| numbers.into_iter().max())
    ///     .option("fold", |numbers| numbers.into_iter().reduce(u32::max))
    ///     .build()?;
    /// assert_eq!(largest.run(&[3], vec![1, 9, 4])?, Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&self, sizes: &[u64], input: T) -> Result<R, Error> {
        let custom = Custom::new(&self.name, sizes)?;
        let planner = self.runtime.planner();
        let problem = Problem::from(custom);
        if self.device.trying.load(Ordering::Relaxed) > 0 && self.device.trials().contains_key(&problem) {
            return self.run_tried(&problem, input);
        }
        if let Some((_, plan)) = planner.known(&custom, self.terms) {
            return self.run_known(&problem, plan, input);
        }
        if let Ok(mut samples) = self.device.samples.lock() {
            samples.push((problem, input.clone()));
        }
        let plan = planner.plan(&problem, self.terms);
        // Ours, or one for the same sizes that another thread has no longer use for either.
        if let Ok(mut samples) = self.device.samples.lock()
            && let Some(place) = samples.iter().position(|(planned, _)| *planned == problem)
        {
            samples.swap_remove(place);
        }
        match (plan, self.unmeasured(&problem)) {
            (Ok(plan), None) => self.run_known(&problem, &plan, input),
            (_, trials) => {
                self.try_live(&problem, trials.unwrap_or_else(|| self.device.untried()));
                self.run_tried(&problem, input)
            }
        }
    }

    /// What a race just told of each option, if it leaves open which is the fastest.
    fn unmeasured(&self, problem: &Problem) -> Option<Trials> {
        let (mut trials, reason) = self.told(problem)?;
        // Who was given up takes longer than the fastest; without one, nobody knows how long.
        let has_fastest = trials.fastest().is_some_and(|at| trials.0[at].trusted);
        if reason == Reason::Remembered || (!trials.is_open() && has_fastest) {
            return None;
        }
        for seen in trials.0.iter_mut().filter(|seen| seen.out.is_none() && !has_fastest) {
            *seen = Seen::default();
        }
        Some(trials)
    }

    /// What the planner knows of each option, and why it chose.
    fn told(&self, problem: &Problem) -> Option<(Trials, Reason)> {
        let failures = self.device.take_failures(problem);
        let decision = self.runtime.planner().decision(problem, self.terms)?;
        let of = |option: usize| {
            let kernel = KernelId(option as u32);
            let failed = failures.iter().find(|(failed, ..)| *failed == kernel);
            let rival = decision.rivals.iter().find(|rival| rival.kernel == kernel);
            match (rival.and_then(|rival| rival.estimate()), failed) {
                (Some(estimate), _) if estimate.time.0 > 0 => Seen::raced(estimate.time.0 as f64, true),
                (_, Some((_, timeout, Failure { kind: FailureKind::TimedOut, .. }))) => {
                    Seen::raced(timeout.0 as f64, false)
                }
                (_, Some((.., failure))) if failure.kind != FailureKind::Untried => {
                    Seen::out(failure.to_string())
                }
                // Who failed in an earlier race, or disagreed, is not tried on callers.
                (None, None) => match rival.map(|rival| &rival.standing) {
                    Some(Standing::Quarantined(why)) => Seen::out(why.clone()),
                    _ => Seen::default(),
                },
                _ => Seen::default(),
            }
        };
        let trials = Trials((0..self.device.ways.len()).map(of).collect());
        Some((trials, decision.reason))
    }

    /// Lets calls find out which option is the fastest.
    fn try_live(&self, problem: &Problem, trials: Trials) {
        let mut all = self.device.trials();
        // With too many, one of them is forgotten for this one: it is planned anew when it is called.
        let other =
            all.keys().next().copied().filter(|_| all.len() >= MAX_TRYING && !all.contains_key(problem));
        let is_room = other.is_some_and(|other| all.remove(&other).is_some());
        if all.insert(*problem, trials).is_none() && !is_room {
            self.device.trying.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs an option: where it can be left behind while it is new or where that costs little, else on this thread.
    fn call(
        &self,
        kernel: KernelId,
        input: T,
        (expected, is_new, is_timed): (Nanos, bool, bool),
        known: impl FnOnce() -> Option<Nanos>,
        watched: Option<(&Plan, &Problem)>,
    ) -> Called<T, R> {
        let Closures { threads, cloning, .. } = &*self.device;
        let leash = self.device.leash(kernel);
        if is_new || threads.is_cheap(expected, Nanos(cloning.load(Ordering::Relaxed))) {
            let watch = Stopwatch::start();
            let (body, copy) = (Arc::clone(self.device.body(kernel)), input.clone());
            cloning.store(watch.elapsed().0, Ordering::Relaxed);
            let task = move || {
                let watch = Stopwatch::start();
                (body(copy), watch.elapsed())
            };
            let known = known();
            let limit = limit(known, self.longest());
            let alone = is_new && !leash.is_proven();
            match leash.call(limit, usual(known, limit), alone, || threads.run(limit, task)) {
                Ok((answer, took)) => return Called::Answered(answer, took),
                // No thread is to be had: then this one.
                Err(failure) if failure.kind == FailureKind::Untried && leash.why().is_none() => (),
                Err(failure) => return Called::Failed(failure, input),
            }
        }
        if let Err(failure) = leash.wait(self.longest()) {
            return Called::Failed(failure, input);
        }
        let watch = |(plan, problem)| self.runtime.shared.watch.begin(plan, problem, leash.clone());
        let _watched = watched.map(watch);
        let watch = is_timed.then(Stopwatch::start);
        match catch_unwind(AssertUnwindSafe(|| self.device.body(kernel)(input))) {
            Ok(answer) => Called::Answered(answer, watch.map_or(Nanos(0), |watch| watch.elapsed())),
            Err(panic) => Called::Panicked(panic),
        }
    }

    /// What an option has whose time nobody knows.
    fn longest(&self) -> Nanos {
        self.runtime.shared.apart.unknown()
    }

    /// Runs the option of a plan.
    fn run_known(&self, problem: &Problem, plan: &Plan, input: T) -> Result<R, Error> {
        let Shared { planner, audits, .. } = &*self.runtime.shared;
        let (is_timed, is_new) = (planner.should_time(plan), self.runtime.is_unproven(plan));
        if is_new {
            audits.saw(plan);
        }
        let option = plan.kernel.0 as usize;
        let try_anew = |change: &dyn Fn(&mut Trials)| {
            let mut trials = self.told(problem).map_or_else(|| self.device.untried(), |(trials, _)| trials);
            change(&mut trials);
            self.try_live(problem, trials);
        };
        let known = || planner.measured(plan);
        let how = (plan.expected, is_new, is_timed);
        match self.call(plan.kernel, input, how, known, Some((plan, problem))) {
            Called::Answered(answer, took) => {
                if is_timed {
                    planner.report(plan, took);
                    let is_late = took.0 > SLOWER * plan.expected.0.max(1) && plan.expected.0 > 0;
                    let late = if is_late { self.device.late.load(Ordering::Relaxed) + 1 } else { 0 };
                    self.device.late.store(late % LATE, Ordering::Relaxed);
                    if late >= LATE {
                        try_anew(&|trials| trials.0[option] = Seen::raced(took.0 as f64, true));
                    }
                }
                Ok(answer)
            }
            Called::Failed(failure, input) => {
                try_anew(&|_| ());
                self.put_out(problem, option, &failure);
                self.run_tried(problem, input)
            }
            Called::Panicked(panic) => {
                try_anew(&|trials| trials.put_out(option, panic_message(panic.as_ref())));
                resume_unwind(panic)
            }
        }
    }

    /// Answers a call while it is being found out which option is the fastest.
    fn run_tried(&self, problem: &Problem, mut input: T) -> Result<R, Error> {
        loop {
            let Some(trials) = self.device.trials().get(problem).cloned() else { break };
            let Some(option) = trials.turn() else { break };
            let kernel = KernelId(option as u32);
            if let Some(ns) = trials.0[option].ns {
                let known = Nanos(ns as u64);
                let how = (known, trials.0[option].is_new(), true);
                match self.call(kernel, input, how, || Some(known), None) {
                    Called::Answered(answer, took) => {
                        self.ran(problem, option, took);
                        return Ok(answer);
                    }
                    Called::Failed(failure, kept) => {
                        self.put_out(problem, option, &failure);
                        input = kept;
                        continue;
                    }
                    Called::Panicked(panic) => {
                        self.put_out(problem, option, &panicked(panic.as_ref()));
                        resume_unwind(panic)
                    }
                }
            }
            match self.try_once(&trials, option, &input) {
                Ok((answer, took)) => {
                    self.ran(problem, option, took);
                    if let Some(answer) = answer.into_inner() {
                        return Ok(answer);
                    }
                    self.put_out(problem, option, &Failure::new(FailureKind::Launch, "its answer is lost"));
                }
                Err(failure) => self.put_out(problem, option, &failure),
            }
        }
        let out = |seen: &Seen| seen.out.clone();
        let all = self
            .device
            .trials()
            .get(problem)
            .map(|trials| trials.0.iter().filter_map(out).collect::<Vec<_>>());
        let reason = format!("no option is left for {problem}: {}", all.unwrap_or_default().join("; "));
        Err(Error::Choice { name: self.name.clone(), reason })
    }

    /// Runs an option for the first time: on a thread that can be left behind, on a clone of the input, and compared with one that is
    /// trusted where answers are compared.
    fn try_once(&self, trials: &Trials, option: usize, input: &T) -> Result<(Answered<R>, Nanos), Failure> {
        let mut bench = self.device.on(input.clone());
        let watch = Stopwatch::start();
        let answer = bench.answer(KernelId(option as u32), self.longest())?;
        let took = watch.elapsed();
        let trusted =
            trials.0.iter().enumerate().filter(|(at, seen)| (seen.trusted || *at == 0) && seen.out.is_none());
        let cheapest = trusted.filter_map(|(at, seen)| Some((at, seen.ns?)));
        let other = cheapest.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| option != 0);
        if let (Some(agree), Some((other, _))) = (self.device.agree.clone(), other) {
            let expected = bench.answer(KernelId(other as u32), self.longest())?;
            if !bench.agree(&agree, &expected, &answer, self.longest())? {
                let message = format!("disagrees with `{}`", self.device.ways[other].name);
                return Err(Failure::new(FailureKind::Wrong, message));
            }
        }
        Ok((Answered(answer), took))
    }

    fn ran(&self, problem: &Problem, option: usize, took: Nanos) {
        let mut all = self.device.trials();
        let Some(trials) = all.get_mut(problem) else { return };
        let first = trials.0[option].ns.is_none();
        trials.ran(option, took.0 as f64);
        trials.0[option].trusted = true;
        drop(all);
        if first {
            let timed = Outcome::Timed(Stats::single(took.0.max(1) as f64));
            self.runtime.wisdom().record(self.key(problem, option), timed);
        }
    }

    fn put_out(&self, problem: &Problem, option: usize, failure: &Failure) {
        if let Some(trials) = self.device.trials().get_mut(problem) {
            trials.put_out(option, format!("`{}` {failure}", self.device.ways[option].name));
        }
        let Failure { kind, message } = failure.clone();
        if kind != FailureKind::Untried {
            self.runtime.wisdom().record(self.key(problem, option), Outcome::Failed { kind, message });
        }
    }

    fn key(&self, problem: &Problem, option: usize) -> FactKey {
        let KernelInfo { name, version, .. } = &self.device.infos[option];
        FactKey {
            device: self.device.facts.fingerprint.0.clone(),
            kernel: name.clone(),
            version: version.to_string(),
            problem: problem.to_string(),
            point: Space::new(vec![], vec![]).name(&Point::EMPTY),
            condition: Condition::Live,
        }
    }

    /// The name of the option that would run for these sizes, if that is known.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let double = rt.choose::<u64, u64>("double").option("add", |x| x + x).option("shift", |x| x << 1).build()?;
    /// assert_eq!(double.chosen(&[1])?, None); // nothing has run
    /// double.run(&[1], 21)?;
    /// println!("{:?}", double.chosen(&[1])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn chosen(&self, sizes: &[u64]) -> Result<Option<&str>, Error> {
        let problem = Problem::from(Custom::new(&self.name, sizes)?);
        if let Some(trials) = self.device.trials().get(&problem) {
            return Ok(trials.fastest().map(|option| self.device.ways[option].name.as_str()));
        }
        let plan = self.runtime.planner().known(&problem, self.terms);
        Ok(plan.map(|(_, plan)| self.device.ways[plan.kernel.0 as usize].name.as_str()))
    }

    /// Every option with its time or why it is out.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let double = rt.choose::<u64, u64>("double").option("add", |x| x + x).option("shift", |x| x << 1).build()?;
    /// double.run(&[1], 21)?;
    /// println!("{}", double.explain(&[1])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, sizes: &[u64]) -> Result<Arc<Decision>, Error> {
        let problem = Problem::from(Custom::new(&self.name, sizes)?);
        Ok(self.runtime.planner().explain(&problem, self.terms)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_plan::Standing;

    #[test]
    fn threads_that_plan_at_once_are_measured_on_inputs_of_their_own_sizes() -> Result<(), Error> {
        let rt = Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().build()?;
        // Each thread has its own sizes, and an input of another thread's would disagree.
        let choice = rt
            .choose::<(u64, u64), bool>("mixed")
            .option("first", |(size, input)| size == input)
            .option("second", |(size, input)| size == input)
            .agree(|a, b| *a && *b)
            .build()?;
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let choice = &choice;
                scope.spawn(move || {
                    for size in (0..10).map(|nth| 100 * thread + nth) {
                        assert_eq!(choice.run(&[size], (size, size)), Ok(true));
                    }
                });
            }
        });
        for size in (0..4u64).flat_map(|thread| (0..10).map(move |nth| 100 * thread + nth)) {
            let decision = choice.explain(&[size])?;
            // A busy machine may be too slow for anyone; that is not what is looked for here.
            let wrong = |rival: &&trimtab_plan::Rival| match &rival.standing {
                Standing::Quarantined(reason) => !reason.starts_with("timeout"),
                _ => false,
            };
            let out = decision.rivals.iter().find(wrong);
            assert!(out.is_none(), "{out:?}");
        }
        Ok(())
    }
}
