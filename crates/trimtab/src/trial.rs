//! Trying problems without operands of one's own: a checked run, and a side-by-side comparison of all rivals.

use crate::error::Error;
use crate::runtime::Runtime;
use trimtab_core::{Bytes, Device, LaunchError, Nanos, Problem};
use trimtab_operands::{Data, Expected, Operands, Slice};
use trimtab_plan::{Plan, Rival};
use trimtab_tune::{Budget, Candidate, Progress, Raced, Rules, Stopwatch, race};

/// In a comparison a rival this many times slower than the best estimate is left out when timing it would eat the budget:
/// nobody needs twelve rounds of a plain loop that takes a second.
const HOPELESS_FACTOR: u64 = 8;
/// The share of the budget a hopeless rival may use before it is left out.
const HOPELESS_SHARE: u64 = 20;

/// A problem computed once on made-up operands.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What ran.
    pub plan: Plan,
    /// The first call, planning included.
    pub first: Nanos,
    /// A second call with the plan known.
    pub warm: Nanos,
    /// How far the result may be from the reference, relative to the larger of the result and one.
    pub tolerance: f64,
    /// Whether the result agrees with the reference, and where not.
    pub check: Result<(), String>,
}

/// Rivals measured side by side in one interleaved run.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What was compared on.
    pub problem: Problem,
    /// Each kernel at its best known point with what was measured, fastest first.
    pub rows: Vec<(Rival, Raced)>,
    /// Kernels that were not measured and why.
    pub out: Vec<(String, String)>,
    /// The plan in force when it was measured, as a position in `rows`.
    pub chosen: Option<usize>,
}

impl Runtime {
    /// Computes a problem on generated operands, checks the result against the reference, and times it.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let trial = rt.try_problem(&"matmul:f32:16x16x16".parse()?)?;
    /// assert_eq!(trial.check, Ok(()));
    /// println!("first {}, then {}", trial.first, trial.warm);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_problem(&self, problem: &Problem) -> Result<Trial, Error> {
        if matches!(problem, Problem::Custom(_)) {
            let message = "a custom problem runs through the choice that owns it";
            return Err(Error::Launch(LaunchError::Kernel(message.to_string())));
        }
        let needed = Bytes(problem.operand_bytes().0.saturating_mul(2));
        if self.cpu().state().memory_free.is_some_and(|free| needed > free) {
            return Err(Error::OutOfMemory { bytes: needed });
        }
        let mut operands = Operands::new(problem);
        operands.out.poison();
        let stopwatch = Stopwatch::start();
        self.execute_operands(problem, &mut operands)?;
        let first = stopwatch.elapsed();
        let stopwatch = Stopwatch::start();
        self.execute_operands(problem, &mut operands)?;
        let warm = stopwatch.elapsed();
        let plan = self.plan(problem)?;
        let tolerance = self.tolerance(&plan, problem);
        let check = Expected::new(self.cpu(), problem, &operands)
            .and_then(|expected| expected.check_within(problem, &operands.out, tolerance));
        Ok(Trial { plan, first, warm, tolerance, check })
    }

    fn execute_operands(&self, problem: &Problem, operands: &mut Operands) -> Result<(), Error> {
        // Borrowed, not copied: the caller times this.
        let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
        match operands.out.is_empty() {
            true => Ok(()),
            false => self.execute_inputs(problem, &inputs, operands.out.slice_mut()),
        }
    }

    /// Measures every kernel that takes the problem, each at its best known point, interleaved in one run a device. With
    /// `points` every point of every kernel. Times are of the kernels: moving operands to a device is not in them.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{Nanos, advanced::tune::Rules};
    /// let problem: Problem = "transpose:f32:32x32".parse()?;
    /// let compared = rt.compare(&problem, &Rules::default(), Nanos::from_millis(50), false, &mut |_| ())?;
    /// for (rival, raced) in &compared.rows {
    ///     println!("{}: {:?} ns", rival.name, raced.min());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare(
        &self,
        problem: &Problem,
        rules: &Rules,
        budget: Nanos,
        points: bool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Comparison, Error> {
        let decision = self.planner().survey(self.explain(problem)?.as_ref());
        let chosen = decision.winner().map(|winner| (winner.device, winner.kernel, winner.point));
        let rivals: Vec<Rival> = if points {
            decision.rivals.clone()
        } else {
            decision.best_per_kernel().into_iter().cloned().collect()
        };
        let time = |rival: &Rival| rival.estimate().map(|estimate| estimate.time);
        let best = rivals.iter().filter_map(time).min().unwrap_or(Nanos(0));
        let rounds = u64::from(rules.min_samples.max(1));
        let hopeless = |rival: &Rival| {
            let slow = time(rival).filter(|time| time.0 > best.0.saturating_mul(HOPELESS_FACTOR))?;
            let costs = slow.0.saturating_mul(rounds) > budget.0 / HOPELESS_SHARE;
            costs.then(|| format!("expected to take {slow}, {}× the best: not timed", slow.0 / best.0.max(1)))
        };
        let mut racing = Vec::new();
        let mut out: Vec<(String, String)> = Vec::new();
        for rival in rivals {
            match rival.out_because().or_else(|| hopeless(&rival)) {
                Some(reason) => out.push((rival.name.to_string(), reason)),
                None => racing.push(rival),
            }
        }
        let mut rows = Vec::new();
        let mut refused = None;
        // Each device measures on operands of its own, so that only its own rivals can be interleaved.
        let shares: u64 = self.planned().count().max(1) as u64;
        for (at, device) in self.planned() {
            let (its, rest): (Vec<Rival>, Vec<Rival>) =
                racing.into_iter().partition(|rival| rival.device as usize == at);
            racing = rest;
            if its.is_empty() {
                continue;
            }
            let budget = Budget::time(Nanos(budget.0 / shares));
            let mut bench = match device.bench(problem, budget.left()) {
                Ok(bench) => bench,
                Err(decline) => {
                    out.extend(its.iter().map(|rival| (rival.name.to_string(), decline.to_string())));
                    refused = Some(decline);
                    continue;
                }
            };
            let candidates: Vec<Candidate> = its
                .iter()
                .map(|rival| Candidate { kernel: rival.kernel, point: rival.point, expected: None })
                .collect();
            let report = race(bench.as_mut(), &candidates, None, rules, &budget, progress);
            for (rival, raced) in its.into_iter().zip(report.rivals) {
                match (&raced.failure, raced.samples.is_empty()) {
                    (Some(failure), _) => out.push((rival.name.to_string(), failure.to_string())),
                    (None, true) => {
                        out.push((rival.name.to_string(), "the budget ended before it ran".to_string()))
                    }
                    (None, false) => rows.push((rival, raced)),
                }
            }
        }
        if let (true, Some(decline)) = (rows.is_empty(), refused) {
            let message = format!("{problem} cannot be measured: {decline}");
            return Err(Error::Launch(LaunchError::Kernel(message)));
        }
        rows.sort_by(|a, b| a.1.min().unwrap_or(f64::MAX).total_cmp(&b.1.min().unwrap_or(f64::MAX)));
        let chosen =
            rows.iter().position(|(rival, _)| Some((rival.device, rival.kernel, rival.point)) == chosen);
        Ok(Comparison { problem: *problem, rows, out, chosen })
    }
}
