//! The closures of a choice as a device: raced on clones of the caller's input, and compared where the caller says how.

use super::trials::{Seen, Trials};
use crate::apart::Threads;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::{
    Bench, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, Nanos, Point, Problem,
    Rates, Sample, Space, State, Work,
};
use trimtab_cpu::{CpuDevice, Watch};
use trimtab_tune::{Leash, Sandbox, Stopwatch};

/// Launches in one batch at most: an input is cloned ahead for each, outside the timed part.
const CLONES_AHEAD: u32 = 256;

pub(super) type Body<T, R> = Arc<dyn Fn(T) -> R + Send + Sync>;
/// A result that others are compared with.
pub(super) type Answer<R> = Arc<Mutex<R>>;
pub(super) type Agree<R> = Arc<dyn Fn(&R, &R) -> bool + Send + Sync>;

/// An option that failed in a race, and after what time it would have been given up.
pub(super) type Failed = (KernelId, Nanos, Failure);
/// One of several ways to do the same, by name.
pub(super) struct Way<T, R> {
    pub(super) name: String,
    pub(super) body: Body<T, R>,
}

/// A device whose kernels are the closures of one choice.
pub(super) struct Closures<T, R> {
    pub(super) facts: DeviceFacts,
    pub(super) infos: Vec<KernelInfo>,
    pub(super) name: String,
    pub(super) ways: Vec<Way<T, R>>,
    pub(super) agree: Option<Agree<R>>,
    /// The inputs of the calls that are being planned, at most one a thread.
    pub(super) samples: Mutex<Vec<(Problem, T)>>,
    /// What failed in races under way: which option, after what time it would have been given up, and how.
    pub(super) failures: Mutex<Vec<(Problem, Failed)>>,
    /// Problems whose fastest option calls find out, and how many they are.
    pub(super) trials: Mutex<FxHashMap<Problem, Trials>>,
    pub(super) trying: AtomicUsize,
    /// Timed calls in a row that took far longer than expected.
    pub(super) late: AtomicU32,
    pub(super) abandoned: Arc<AtomicU32>,
    /// What holds back each option while it hangs.
    pub(super) leashes: Vec<Leash>,
    /// The same for the comparison of answers.
    pub(super) comparing: Leash,
    /// Threads for calls, and what cloning an input took last.
    pub(super) threads: Threads,
    pub(super) cloning: AtomicU64,
    pub(super) cpu: Arc<CpuDevice>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> Closures<T, R> {
    pub(super) fn body(&self, kernel: KernelId) -> &Body<T, R> {
        // A plan for this device names one of its kernels; position zero always exists.
        &self.ways.get(kernel.0 as usize).unwrap_or(&self.ways[0]).body
    }

    /// What holds back an option.
    pub(super) fn leash(&self, kernel: KernelId) -> &Leash {
        self.leashes.get(kernel.0 as usize).unwrap_or(&self.leashes[0])
    }

    pub(super) fn trials(&self) -> MutexGuard<'_, FxHashMap<Problem, Trials>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is known of any option.
    pub(super) fn untried(&self) -> Trials {
        Trials(vec![Seen::default(); self.ways.len()])
    }

    pub(super) fn take_failures(&self, problem: &Problem) -> Vec<Failed> {
        let Ok(mut all) = self.failures.lock() else { return Vec::new() };
        all.extract_if(.., |(of, _)| of == problem).map(|(_, failed)| failed).collect()
    }

    fn start(&self, problem: &Problem) -> Option<ClosureBench<'_, T, R>> {
        let samples = self.samples.lock().ok()?;
        let sample =
            samples.iter().find(|(planned, _)| planned == problem).map(|(_, input)| input.clone())?;
        drop(samples);
        Some(ClosureBench { problem: Some(*problem), ..self.on(sample) })
    }

    /// A bench on that input.
    pub(super) fn on(&self, sample: T) -> ClosureBench<'_, T, R> {
        let sandbox = Sandbox::new(Arc::clone(&self.abandoned));
        let (checked, yardstick, failed) = (Vec::new(), None, Vec::new());
        ClosureBench { device: self, problem: None, sample, sandbox, checked, yardstick, failed }
    }
}

impl<T: Clone + Send + 'static, R: Send + 'static> Device for Closures<T, R> {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rates(&self) -> Rates {
        self.cpu.rates()
    }

    fn state(&self) -> State {
        self.cpu.state()
    }

    fn kernels(&self) -> &[KernelInfo] {
        &self.infos
    }

    fn declines(&self, _: KernelId, problem: &Problem) -> Option<Decline> {
        match problem {
            Problem::Custom(custom) if custom.name() == self.name => None,
            _ => Some(Decline::because("belongs to another choice")),
        }
    }

    fn space(&self, _: KernelId, _: &Problem) -> Space {
        Space::new(vec![], vec![Point::EMPTY])
    }

    fn work(&self, _: KernelId, _: &Problem, _: &Point) -> Work {
        // What a closure does is not known; only its times are.
        Work { threads: 1, lanes: 1, ..Work::default() }
    }

    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let Some(mut bench) = self.start(problem) else {
            return Err(Failure::new(FailureKind::Untried, "there is no input to try it on"));
        };
        // Without a comparison there is nothing to check; the first option is the yardstick itself.
        if self.agree.is_none() || kernel.0 == 0 {
            return Ok(());
        }
        bench.run(kernel, point, 1, timeout).map(|_| ())
    }

    fn bench(&self, problem: &Problem, _: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        match self.start(problem) {
            Some(bench) => Ok(Box::new(bench)),
            None => Err(Decline::because("the input is known only while a call is planned")),
        }
    }
}

pub(super) struct ClosureBench<'a, T, R> {
    device: &'a Closures<T, R>,
    /// The problem that is raced, if one is.
    problem: Option<Problem>,
    sample: T,
    sandbox: Sandbox,
    checked: Vec<KernelId>,
    /// The answer others are compared with and whose it is, or why there is none; not known before it is needed.
    yardstick: Option<Result<(KernelId, Answer<R>), Failure>>,
    /// Options that gave no answer when a yardstick was looked for; they are not run again to find out.
    failed: Vec<(KernelId, Failure)>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> ClosureBench<'_, T, R> {
    pub(super) fn answer(&mut self, kernel: KernelId, timeout: Nanos) -> Result<Answer<R>, Failure> {
        let Some(way) = self.device.ways.get(kernel.0 as usize) else {
            return Err(Failure::new(FailureKind::Launch, "there is no such option"));
        };
        let (body, input) = (Arc::clone(&way.body), self.sample.clone());
        let run = || self.sandbox.run(timeout, move || Arc::new(Mutex::new(body(input))));
        match self.problem {
            Some(_) => self.device.leash(kernel).run_alone(run),
            // A caller waits for it.
            None => self.device.leash(kernel).call(timeout, timeout, true, run),
        }
    }

    pub(super) fn agree(
        &mut self,
        agree: &Agree<R>,
        a: &Answer<R>,
        b: &Answer<R>,
        timeout: Nanos,
    ) -> Result<bool, Failure> {
        let (agree, a, b) = (Arc::clone(agree), Arc::clone(a), Arc::clone(b));
        let compare = move || match (a.lock(), b.lock()) {
            (Ok(a), Ok(b)) => agree(&a, &b),
            _ => false,
        };
        self.device.comparing.run_alone(|| self.sandbox.run(timeout, compare))
    }

    /// The first option's answer. Where it gives none in time, one that two others agree on: a single other may be wrong.
    fn find_yardstick(&mut self, agree: &Agree<R>, timeout: Nanos) -> Result<(KernelId, Answer<R>), Failure> {
        let mut answers: Vec<(KernelId, Answer<R>)> = Vec::new();
        for kernel in (0..self.device.ways.len() as u32).map(KernelId) {
            match self.answer(kernel, timeout) {
                Ok(answer) if kernel.0 == 0 => return Ok((kernel, answer)),
                Ok(answer) => {
                    for (other, known) in &answers {
                        if self.agree(agree, known, &answer, timeout) == Ok(true) {
                            return Ok((*other, Arc::clone(known)));
                        }
                    }
                    answers.push((kernel, answer));
                }
                Err(failure) => self.failed.push((kernel, failure)),
            }
        }
        let message = "the first option gave no answer in time, and no two others agree";
        Err(Failure::new(FailureKind::Untried, message))
    }

    /// Compares an option with the yardstick.
    fn check(&mut self, kernel: KernelId, agree: &Agree<R>, timeout: Nanos) -> Result<(), Failure> {
        if self.yardstick.is_none() {
            self.yardstick = Some(self.find_yardstick(agree, timeout));
        }
        if let Some((_, failure)) = self.failed.iter().find(|(failed, _)| *failed == kernel) {
            return Err(failure.clone());
        }
        let (whose, expected) = match &self.yardstick {
            Some(Ok((whose, expected))) => (*whose, Arc::clone(expected)),
            Some(Err(failure)) => return Err(failure.clone()),
            None => return Ok(()),
        };
        if whose != kernel {
            let answer = self.answer(kernel, timeout)?;
            if !self.agree(agree, &expected, &answer, timeout)? {
                let message = match self.device.ways.get(whose.0 as usize).filter(|_| whose.0 != 0) {
                    Some(way) => format!("disagrees with `{}`, which agrees with another option", way.name),
                    None => "disagrees with the first option".to_string(),
                };
                return Err(Failure::new(FailureKind::Wrong, message));
            }
        }
        self.checked.push(kernel);
        Ok(())
    }
}

impl<T: Clone + Send + 'static, R: Send + 'static> Bench for ClosureBench<'_, T, R> {
    fn run(
        &mut self,
        kernel: KernelId,
        _: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let outcome = self.measure(kernel, iterations, timeout);
        if let (Err(failure), Some(problem), Ok(mut all)) =
            (&outcome, self.problem, self.device.failures.lock())
        {
            all.push((problem, (kernel, timeout, failure.clone())));
        }
        outcome
    }
}

impl<T: Clone + Send + 'static, R: Send + 'static> ClosureBench<'_, T, R> {
    fn measure(&mut self, kernel: KernelId, iterations: u32, timeout: Nanos) -> Result<Sample, Failure> {
        let Some(way) = self.device.ways.get(kernel.0 as usize) else {
            return Err(Failure::new(FailureKind::Launch, "there is no such option"));
        };
        let body = Arc::clone(&way.body);
        if let Some(agree) = self.device.agree.clone().filter(|_| !self.checked.contains(&kernel)) {
            self.check(kernel, &agree, timeout)?;
        }
        // Inputs are cloned here: the sample itself never leaves this thread.
        let iterations = iterations.clamp(1, CLONES_AHEAD);
        let inputs = vec![self.sample.clone(); iterations as usize];
        let leash = self.device.leash(kernel);
        let task = move || {
            let watch = Watch::start();
            let mut results = Vec::with_capacity(inputs.len());
            let stopwatch = Stopwatch::start();
            results.extend(inputs.into_iter().map(|input| body(input)));
            let elapsed = stopwatch.elapsed();
            let interference = watch.seen();
            Sample { elapsed, iterations, interference, energy_uj: None, compiled_in: None }
        };
        leash.run_alone(|| self.sandbox.run(timeout, task))
    }
}
