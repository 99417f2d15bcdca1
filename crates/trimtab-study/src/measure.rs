//! Measures a point: how often it is run, when enough is known, what several runs say together.
//!
//! Times are raced as kernels are (`trimtab_tune::LADDER`): a point that is far behind the best is dropped after a run or two, one that comes
//! close runs in turns with the best, and the smallest time counts. In the end those too close to call run in turns once more
//! ([`run_off`]). Of other numbers the middle one counts.
//!
//! Compilers go on beside warm-ups and pause while a time counts.

use crate::outcome::{Failed, Fault, Outcome, Ran};
use crate::quiet::Quiet;
use crate::runner::{Runner, Trouble};
use crate::space::NamedPoint;
use trimtab_core::Nanos;
use trimtab_tune::{LADDER, Stopwatch, median, minimum};

/// A time is confirmed when this many further ones lie within this share above it.
const CONFIRMED_BY: usize = 1;
const CONFIRMED_WITHIN: f64 = 0.05;
/// Within this factor of the best a point runs in turns with it.
const CLOSE: f64 = 1.07;
/// A time close to the best is confirmed by this many runs that lie near each other: the run-off decides.
const CLOSE_RUNS: usize = 3;
/// The most points in the run-off.
const RUN_OFF: usize = 8;
/// Where there is time left those within this factor of the best go on, at most so many rounds.
const NEAREST: f64 = 1.03;
const MORE_ROUNDS: usize = 24;
/// A run that takes this much longer than the fastest of its point is an outlier.
pub const OUTLIER: f64 = 1.25;

/// How points are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most runs of a point that count; times that are known sooner take fewer.
    pub repeats: u32,
    /// Runs before those that count. One that is already far behind the best counts, and is the last.
    pub warmup: u32,
    /// How often a point that failed is tried again: failures that do not come back make it flaky.
    pub retries: u32,
}

impl Effort {
    /// What is usual for times, or for other numbers.
    pub fn usual(measures_time: bool) -> Effort {
        if measures_time {
            Effort { repeats: 5, warmup: 1, retries: 1 }
        } else {
            Effort { repeats: 1, warmup: 0, retries: 1 }
        }
    }
}

/// The best point so far, to be run in turns with one that comes close.
#[derive(Clone, Debug)]
pub struct Rival {
    /// Its place in the space.
    pub at: usize,
    /// Its values.
    pub point: NamedPoint,
    /// Its smallest time.
    pub best: f64,
    /// Its runs so far.
    pub runs: usize,
}

/// A point that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What came of it.
    pub outcome: Outcome,
    /// Its runs, failed ones and warm-ups included.
    pub runs: u32,
    /// Further times of the rival.
    pub rival: Vec<f64>,
}

/// Measures a point that was built. An error ends the search.
pub fn measure(
    runner: &dyn Runner,
    point: &NamedPoint,
    worker: usize,
    effort: Effort,
    rival: Option<&Rival>,
) -> Result<Measured, Trouble> {
    let mut runs = Runs { runner, point, worker, effort, ran: Vec::new(), failures: Vec::new(), count: 0 };
    let rival_times = match runner.measures_time() {
        true => runs.race(rival)?,
        false => {
            while runs.ran.len() < effort.repeats.max(1) as usize && runs.once(false)? {}
            Vec::new()
        }
    };
    Ok(Measured { runs: runs.count, outcome: runs.outcome(), rival: rival_times })
}

struct Runs<'a> {
    runner: &'a dyn Runner,
    point: &'a NamedPoint,
    worker: usize,
    effort: Effort,
    ran: Vec<Ran>,
    failures: Vec<Failed>,
    count: u32,
}

impl Runs<'_> {
    /// One more run; false when the point is not to be run any more.
    fn once(&mut self, in_silence: bool) -> Result<bool, Trouble> {
        let is_first = self.ran.is_empty();
        self.count += 1;
        let silence = self.runner.quiet().filter(|_| in_silence).map(Quiet::keep);
        let ran = self.runner.run(self.point, self.worker, is_first);
        drop(silence);
        match ran {
            Ok(ran) => self.ran.push(ran),
            Err(Trouble::Failed(failed)) => {
                // What takes too long takes too long again, and costs most.
                let comes_back = matches!(failed.fault, Fault::TimedOut | Fault::Memory | Fault::Compile);
                self.failures.push(failed);
                if comes_back || self.failures.len() > self.effort.retries as usize {
                    return Ok(false);
                }
            }
            Err(trouble) => return Err(trouble),
        }
        Ok(true)
    }

    fn times(&self) -> Vec<f64> {
        self.ran.iter().map(|ran| ran.value).collect()
    }

    /// Runs until the time is known, or known to be no better than the rival's.
    fn race(&mut self, rival: Option<&Rival>) -> Result<Vec<f64>, Trouble> {
        for _ in 0..self.effort.warmup {
            if !self.once(false)? {
                return Ok(Vec::new());
            }
            let far =
                rival.zip(self.ran.last()).is_some_and(|(rival, ran)| ran.value > LADDER[0] * rival.best);
            if far {
                return Ok(Vec::new());
            }
        }
        let warmups = self.ran.len();
        let mut rival_times: Vec<f64> = Vec::new();
        loop {
            if !self.once(true)? {
                return Ok(rival_times);
            }
            let times = self.times();
            let counted = times.len().saturating_sub(warmups);
            let Some(best) = minimum(&times) else { continue };
            let rival_best = rival.map(|rival| rival_times.iter().copied().fold(rival.best, f64::min));
            let rung = LADDER[counted.clamp(1, LADDER.len()) - 1];
            let is_dropped = rival_best.is_some_and(|rival| best > rung * rival);
            let is_close = rival_best.is_some_and(|rival| best <= CLOSE * rival);
            let near = times.iter().filter(|time| **time <= best * (1.0 + CONFIRMED_WITHIN)).count();
            let is_confirmed = near > CONFIRMED_BY && (!is_close || counted >= CLOSE_RUNS);
            if counted >= self.effort.repeats.max(1) as usize || is_dropped || is_confirmed {
                break;
            }
            if let Some(rival) = rival.filter(|_| is_close)
                && rival.runs + rival_times.len() < 2 * self.effort.repeats as usize
            {
                rival_times.extend(again(self.runner, &rival.point, self.worker)?);
            }
        }
        // The warm-up served: what comes first is slow for reasons of its own.
        if self.ran.len() > warmups {
            self.ran.drain(..warmups);
        }
        Ok(rival_times)
    }

    fn outcome(self) -> Outcome {
        let count = self.failures.len() + self.ran.len();
        if let Some(last) = self.failures.last().cloned() {
            if self.ran.is_empty() {
                return Outcome::Failed(last);
            }
            let message =
                format!("{} of {count} runs failed, others did not; the last: {last}", self.failures.len());
            return Outcome::Failed(Failed { fault: Fault::Flaky, message, ..last });
        }
        let times: Vec<f64> = self.ran.iter().map(|ran| ran.value).collect();
        let value = if self.runner.measures_time() { minimum(&times) } else { median(&times) };
        let Some(value) = value else {
            return Outcome::Failed(Failed::new(Fault::Unreadable, "it was never run"));
        };
        let mut others = self.ran.last().map(|ran| ran.others.clone()).unwrap_or_default();
        for (name, number) in &mut others {
            let all: Vec<f64> = self.ran.iter().filter_map(|ran| ran.others.get(name).copied()).collect();
            *number = median(&all).unwrap_or(*number);
        }
        Outcome::Ran(Ran { value, samples: times, others })
    }
}

/// Runs a point that ran before once more; nothing if it fails now: that is somebody else's trouble.
fn again(runner: &dyn Runner, point: &NamedPoint, worker: usize) -> Result<Option<f64>, Trouble> {
    let ran = runner.build(point, false).and_then(|()| {
        let _silence = runner.quiet().map(Quiet::keep);
        runner.run(point, worker, false)
    });
    match ran {
        Ok(ran) => Ok(Some(ran.value)),
        Err(Trouble::Failed(_)) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// Runs those that come close to the best in turns with it, until each ran twice as often as a point usually does: which of them is the
/// best is then no luck of a few runs. Until `more` is over the nearest of them go on: short runs vary most. Gives back the further times of
/// each.
pub fn run_off(
    runner: &dyn Runner,
    effort: Effort,
    close: &[Rival],
    more: Nanos,
) -> Result<Vec<Vec<f64>>, Trouble> {
    let watch = Stopwatch::start();
    let most = 2 * effort.repeats.max(1) as usize;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); close.len()];
    for round in 0..most {
        for (rival, times) in close.iter().zip(&mut times) {
            if rival.runs + times.len() < most && times.len() <= round {
                times.extend(again(runner, &rival.point, 0)?);
            }
        }
    }
    let least =
        |rival: &Rival, times: &[f64]| minimum(times).map_or(rival.best, |least| least.min(rival.best));
    for _ in 0..MORE_ROUNDS {
        let best =
            close.iter().zip(&times).map(|(rival, times)| least(rival, times)).fold(f64::INFINITY, f64::min);
        for (rival, times) in close.iter().zip(&mut times) {
            if watch.elapsed() < more && least(rival, times) <= NEAREST * best {
                times.extend(again(runner, &rival.point, 0)?);
            }
        }
    }
    Ok(times)
}

/// Those that a run-off is between, the best first; nobody where one is ahead of all others.
pub fn too_close_to_call(mut ran: Vec<Rival>) -> Vec<Rival> {
    ran.sort_by(|a, b| a.best.total_cmp(&b.best));
    let limit = ran.first().map_or(0.0, |best| CLOSE * best.best);
    ran.retain(|rival| rival.best <= limit);
    ran.truncate(RUN_OFF);
    if ran.len() < 2 { Vec::new() } else { ran }
}

/// How many of a point's times are outliers.
pub fn outliers(times: &[f64]) -> usize {
    let Some(best) = minimum(times) else { return 0 };
    times.iter().filter(|time| **time > OUTLIER * best).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Gives what is written down, point by point.
    struct Written {
        time: bool,
        next: Mutex<Vec<Result<f64, Fault>>>,
        rival: f64,
        rival_runs: Mutex<u32>,
    }

    impl Runner for Written {
        fn measures_time(&self) -> bool {
            self.time
        }

        fn run(&self, point: &NamedPoint, _: usize, _: bool) -> Result<Ran, Trouble> {
            if !point.0.is_empty() {
                *self.rival_runs.lock().unwrap() += 1;
                return Ok(Ran::of(self.rival));
            }
            self.next
                .lock()
                .unwrap()
                .remove(0)
                .map(Ran::of)
                .map_err(|fault| Failed::new(fault, "as written").into())
        }
    }

    fn written(time: bool, next: &[Result<f64, Fault>]) -> Written {
        Written { time, next: Mutex::new(next.to_vec()), rival: 10.0, rival_runs: Mutex::new(0) }
    }

    fn measured(runner: &Written, effort: Effort, rival: bool) -> Measured {
        let best = Rival {
            at: 0,
            point: NamedPoint(vec![("a".into(), crate::Setting::Integer(1))]),
            best: 10.0,
            runs: 3,
        };
        measure(runner, &NamedPoint(vec![]), 0, effort, rival.then_some(&best)).unwrap()
    }

    #[test]
    fn a_time_far_behind_the_best_costs_one_run() {
        let runner = written(true, &[Ok(41.0)]);
        let measured = measured(&runner, Effort::usual(true), true);
        assert_eq!((measured.runs, measured.outcome.ran().unwrap().value), (1, 41.0));
    }

    #[test]
    fn a_time_that_is_confirmed_and_not_close_costs_a_warm_up_and_two() {
        let runner = written(true, &[Ok(30.0), Ok(15.0), Ok(15.1)]);
        let measured = measured(&runner, Effort::usual(true), true);
        assert_eq!((measured.runs, measured.outcome.ran().unwrap().value), (3, 15.0));
        assert_eq!(measured.outcome.ran().unwrap().samples, [15.0, 15.1]);
    }

    #[test]
    fn a_time_close_to_the_best_runs_in_turns_with_it() {
        let runner = written(true, &[Ok(12.0), Ok(10.1), Ok(10.0), Ok(9.9), Ok(10.2), Ok(10.0)]);
        let measured = measured(&runner, Effort::usual(true), true);
        assert_eq!(measured.outcome.ran().unwrap().value, 9.9);
        assert_eq!((measured.runs, *runner.rival_runs.lock().unwrap()), (4, 2));
        assert_eq!(measured.rival, [10.0; 2]);
    }

    #[test]
    fn those_too_close_to_call_run_in_turns_until_each_ran_often() {
        let named = |at: i64| NamedPoint(vec![("a".into(), crate::Setting::Integer(at))]);
        let rival = |at: i64, best: f64, runs: usize| Rival { at: at as usize, point: named(at), best, runs };
        let ran = vec![rival(1, 10.3, 3), rival(2, 10.0, 8), rival(3, 10.8, 3), rival(4, 10.1, 10)];
        let close = too_close_to_call(ran);
        assert_eq!(close.iter().map(|rival| rival.best).collect::<Vec<_>>(), [10.0, 10.1, 10.3]);
        let runner = written(true, &[]);
        let times = run_off(&runner, Effort::usual(true), &close, Nanos(0)).unwrap();
        assert_eq!(times.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 7]);
        // With time the nearest go on: a run of any of them takes 10.
        let times = run_off(&written(true, &[]), Effort::usual(true), &close, Nanos::MAX).unwrap();
        assert_eq!(
            times.iter().map(Vec::len).collect::<Vec<_>>(),
            [2 + MORE_ROUNDS, MORE_ROUNDS, 7 + MORE_ROUNDS]
        );
        assert!(too_close_to_call(vec![rival(1, 1.0, 1), rival(2, 2.0, 1)]).is_empty());
    }

    #[test]
    fn other_numbers_are_the_middle_of_as_many_runs_as_are_asked_for() {
        let runner = written(false, &[Ok(3.0), Ok(1.0), Ok(2.0)]);
        let effort = Effort { repeats: 3, ..Effort::usual(false) };
        assert_eq!(measured(&runner, effort, false).outcome.ran().unwrap().value, 2.0);
    }

    #[test]
    fn a_failure_is_tried_again_and_what_does_not_come_back_is_flaky() {
        let measured_of =
            |next: &[Result<f64, Fault>]| measured(&written(false, next), Effort::usual(false), false);
        let twice = measured_of(&[Err(Fault::Exit), Err(Fault::Exit)]);
        assert_eq!((twice.runs, twice.outcome.failed().unwrap().fault), (2, Fault::Exit));
        let once = measured_of(&[Err(Fault::Crashed), Ok(1.0)]);
        let failed = once.outcome.failed().unwrap();
        assert_eq!(failed.fault, Fault::Flaky);
        assert!(failed.message.contains("1 of 2 runs failed"), "{failed}");
        assert_eq!(measured_of(&[Err(Fault::TimedOut)]).runs, 1);
    }

    #[test]
    fn outliers_are_counted() {
        assert_eq!(outliers(&[1.0, 1.1, 1.3, 9.0]), 2);
        assert_eq!(outliers(&[]), 0);
    }
}
