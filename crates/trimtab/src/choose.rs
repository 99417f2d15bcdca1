//! Choosing among plain Rust closures by the sizes the caller gives: measured, learned and remembered like kernels.

use crate::error::Error;
use crate::runtime::Runtime;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Bench, Custom, Decline, Device, DeviceFacts, Failure, FailureKind, KernelId, KernelInfo, KernelVersion,
    Nanos, Operation, Point, Problem, Rates, Sample, Space, State, VariantClass, Work,
};
use trimtab_cpu::{CpuDevice, Watch};
use trimtab_plan::{Decision, TermsId};
use trimtab_tune::{Sandbox, Stopwatch};

/// Launches in one batch at most: an input is cloned ahead for each, outside the timed part.
const CLONES_AHEAD: u32 = 256;

type Body<T, R> = Arc<dyn Fn(T) -> R + Send + Sync>;
/// A result that others are compared with.
type Answer<R> = Arc<Mutex<R>>;
type Agree<R> = Arc<dyn Fn(&R, &R) -> bool + Send + Sync>;

/// One of several ways to do the same, by name.
struct Way<T, R> {
    name: String,
    body: Body<T, R>,
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

impl<T: Clone + Send + 'static, R: Send + 'static> ChoiceBuilder<T, R> {
    /// Adds a way to do it. The first is the one used when nothing is known or allowed.
    pub fn option(mut self, name: &str, body: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        self.ways.push(Way { name: name.to_string(), body: Arc::new(body) });
        self
    }

    /// How results are compared; an option that disagrees with the first is never chosen. Where the first gives no answer
    /// in time, those that agree with one another may be.
    pub fn agree(mut self, agree: impl Fn(&R, &R) -> bool + Send + Sync + 'static) -> Self {
        self.agree = Some(Arc::new(agree));
        self
    }

    /// The version of the options' code, part of the key in wisdom: change it when a closure changes.
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_string();
        self
    }

    /// Freezes the options.
    pub fn build(self) -> Result<Choice<T, R>, Error> {
        // The name must make a problem; better said here than at the first run.
        Custom::new(&self.name, &[])?;
        let wrong = |reason: String| Err(Error::Choice { name: self.name.clone(), reason });
        if self.ways.is_empty() {
            return wrong("there are no options; add at least one with .option(name, closure)".to_string());
        }
        for (index, way) in self.ways.iter().enumerate() {
            if self.ways[..index].iter().any(|other| other.name == way.name) {
                return wrong(format!("two options are named `{}`", way.name));
            }
        }
        let infos = self
            .ways
            .iter()
            .map(|way| KernelInfo {
                name: format!("choose.{}.{}", self.name, way.name),
                version: KernelVersion::from(self.version.clone()),
                operation: Operation::Custom,
                class: VariantClass::Custom,
            })
            .collect();
        let mut facts = self.runtime.cpu().facts().clone();
        // Closures see inputs of the caller's; only those of the first call are raced, and none is tried on others.
        facts.habits.explored_live = false;
        let device = Arc::new(Closures {
            facts,
            infos,
            name: self.name.clone(),
            ways: self.ways,
            agree: self.agree,
            samples: Mutex::new(Vec::new()),
            abandoned: Arc::new(AtomicU32::new(0)),
            cpu: Arc::clone(&self.runtime.shared.cpu),
        });
        let planner = self.runtime.planner();
        let at = planner.join(Arc::clone(&device) as Arc<dyn Device>)?;
        match planner.terms_on(self.runtime.terms(), at) {
            Ok(terms) => Ok(Choice { name: self.name, device, runtime: self.runtime, at, terms }),
            Err(error) => {
                planner.leave(at);
                Err(error.into())
            }
        }
    }
}

impl<T: Clone + Send + 'static, R: Send + 'static> Choice<T, R> {
    /// Runs the best option for these sizes on the input.
    pub fn run(&self, sizes: &[u64], input: T) -> Result<R, Error> {
        let problem = Custom::new(&self.name, sizes)?;
        let planner = self.runtime.planner();
        if let Some((_, plan)) = planner.known(&problem, self.terms) {
            return planner.run(plan, || Ok(self.device.call(plan.kernel, input)));
        }
        let problem = Problem::from(problem);
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
        // Without a plan (every option too slow to try, say) the first option answers.
        let kernel = plan.map_or(KernelId(0), |plan| plan.kernel);
        Ok(self.device.call(kernel, input))
    }

    /// The name of the option that would run for these sizes, if that is known.
    pub fn chosen(&self, sizes: &[u64]) -> Result<Option<&str>, Error> {
        let problem = Problem::from(Custom::new(&self.name, sizes)?);
        let plan = self.runtime.planner().known(&problem, self.terms);
        Ok(plan.map(|(_, plan)| self.device.ways[plan.kernel.0 as usize].name.as_str()))
    }

    /// Every option with its time or why it is out.
    pub fn explain(&self, sizes: &[u64]) -> Result<Arc<Decision>, Error> {
        let problem = Problem::from(Custom::new(&self.name, sizes)?);
        Ok(self.runtime.planner().explain(&problem, self.terms)?)
    }
}

/// A device whose kernels are the closures of one choice.
struct Closures<T, R> {
    facts: DeviceFacts,
    infos: Vec<KernelInfo>,
    name: String,
    ways: Vec<Way<T, R>>,
    agree: Option<Agree<R>>,
    /// The inputs of the calls that are being planned, at most one a thread.
    samples: Mutex<Vec<(Problem, T)>>,
    abandoned: Arc<AtomicU32>,
    cpu: Arc<CpuDevice>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> Closures<T, R> {
    fn call(&self, kernel: KernelId, input: T) -> R {
        // A plan for this device names one of its kernels; position zero always exists.
        let way = self.ways.get(kernel.0 as usize).unwrap_or(&self.ways[0]);
        (way.body)(input)
    }

    fn start(&self, problem: &Problem) -> Option<ClosureBench<'_, T, R>> {
        let samples = self.samples.lock().ok()?;
        let sample =
            samples.iter().find(|(planned, _)| planned == problem).map(|(_, input)| input.clone())?;
        drop(samples);
        let sandbox = Sandbox::new(Arc::clone(&self.abandoned));
        let (checked, yardstick, failed) = (Vec::new(), None, Vec::new());
        Some(ClosureBench { device: self, sample, sandbox, checked, yardstick, failed })
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

struct ClosureBench<'a, T, R> {
    device: &'a Closures<T, R>,
    sample: T,
    sandbox: Sandbox,
    checked: Vec<KernelId>,
    /// The answer others are compared with and whose it is, or why there is none; not known before it is needed.
    yardstick: Option<Result<(KernelId, Answer<R>), Failure>>,
    /// Options that gave no answer when a yardstick was looked for; they are not run again to find out.
    failed: Vec<(KernelId, Failure)>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> ClosureBench<'_, T, R> {
    fn answer(&mut self, kernel: KernelId, timeout: Nanos) -> Result<Answer<R>, Failure> {
        let Some(way) = self.device.ways.get(kernel.0 as usize) else {
            return Err(Failure::new(FailureKind::Launch, "there is no such option"));
        };
        let (body, input) = (Arc::clone(&way.body), self.sample.clone());
        self.sandbox.run(timeout, move || Arc::new(Mutex::new(body(input))))
    }

    fn agree(
        &mut self,
        agree: &Agree<R>,
        a: &Answer<R>,
        b: &Answer<R>,
        timeout: Nanos,
    ) -> Result<bool, Failure> {
        let (agree, a, b) = (Arc::clone(agree), Arc::clone(a), Arc::clone(b));
        self.sandbox.run(timeout, move || match (a.lock(), b.lock()) {
            (Ok(a), Ok(b)) => agree(&a, &b),
            _ => false,
        })
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
        self.sandbox.run(timeout, move || {
            let watch = Watch::start();
            let mut results = Vec::with_capacity(inputs.len());
            let stopwatch = Stopwatch::start();
            results.extend(inputs.into_iter().map(|input| body(input)));
            let elapsed = stopwatch.elapsed();
            let interference = watch.seen();
            Sample { elapsed, iterations, interference, energy_uj: None, compiled_in: None }
        })
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
