//! Decisions on request: planning, tuning, explaining, and what is learned from elsewhere or forgotten.

use super::{HOST, Runtime};
use crate::error::Error;
use std::sync::Arc;
use trimtab_core::{Lookup, Nanos, Patience, Problem, ProblemError};
use trimtab_plan::regret::LiveStats;
use trimtab_plan::{Decision, Plan, TuneRequest};
use trimtab_tune::Progress;
use trimtab_wisdom::{Filter, ImportReport, WisdomError};

impl Runtime {
    /// The plan for a problem, made now if need be. Hold it and pass it to [`Runtime::launch`] to pay nothing per call.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let plan = rt.plan(&"reduce.sum:f32:1000".parse()?)?;
    /// println!("device {}, expected to take {}", plan.device, plan.expected);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&self, problem: &Problem) -> Result<Plan, Error> {
        let (plan, made) = self.shared.planner.decide(problem, self.terms)?;
        if let Some(decision) = made {
            self.shared.decided(&plan, &decision);
        }
        Ok(plan)
    }

    /// How long a call that is made now is expected to take, if its plan is known and runs our own code on the processor: then nobody waits
    /// for anything but the kernel. For bindings that hold a lock others wait for. One lookup, no lock.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let problem: Problem = "reduce.sum:f32:1000".parse()?;
    /// assert_eq!(rt.expected(&problem), None); // nothing is planned yet
    /// rt.plan(&problem)?;
    /// println!("{:?}", rt.expected(&problem).map(std::time::Duration::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn expected(&self, problem: &impl Lookup) -> Option<Nanos> {
        let (_, plan) = self.shared.planner.known(problem, self.terms)?;
        (plan.device as usize == HOST && !plan.is_users()).then_some(plan.expected)
    }

    /// Measures a problem and puts the winner in force.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use std::time::Duration;
    /// use trimtab::TuneRequest;
    /// let problem: Problem = "transpose:f32:32x32".parse()?;
    /// let request = TuneRequest::new(Patience::Measure, Duration::from_millis(50));
    /// let decision = rt.tune(&problem, &request, &mut |progress| println!("{} runs", progress.runs))?;
    /// assert_eq!(decision.problem, problem);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tune(
        &self,
        problem: &Problem,
        request: &TuneRequest,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Arc<Decision>, Error> {
        let planner = &self.shared.planner;
        let decision = planner.tune(problem, self.terms, request, progress)?;
        if let Some((_, plan)) = planner.known(problem, self.terms) {
            self.shared.decided(plan, &decision);
        }
        self.shared.keep_built();
        self.shared.schedules.clear();
        Ok(decision)
    }

    /// Tunes what this program is going to ask before it asks: one problem for each size, each within the time `each`. What an
    /// earlier run found is not measured again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use trimtab::Runtime;
    /// use trimtab::{DType, Matmul};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let tuned = rt.warm([1, 32], Duration::from_millis(200), |batch| Matmul::new(DType::F32, batch, 128, 784))?;
    /// println!("{}", tuned[0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn warm<S, P: Into<Problem>>(
        &self,
        sizes: impl IntoIterator<Item = S>,
        each: impl Into<Nanos>,
        problem: impl Fn(S) -> Result<P, ProblemError>,
    ) -> Result<Vec<Arc<Decision>>, Error> {
        let request = TuneRequest::new(Patience::Measure, each);
        let tune = |size| self.tune(&problem(size)?.into(), &request, &mut |_| ());
        sizes.into_iter().map(tune).collect()
    }

    /// The record of the plan in force, or without one of what a call would begin with: why, what else there is, and how each was
    /// judged. Measures nothing.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let decision = rt.explain(&"matmul:f32:64x64x64".parse()?)?;
    /// assert!(decision.winner().is_some());
    /// println!("{}: {}", decision.problem, decision.reason);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, problem: &Problem) -> Result<Arc<Decision>, Error> {
        Ok(self.shared.planner.explain(problem, self.terms)?)
    }

    /// What live calls of this process showed: how many were timed, what trying others cost, how near expected times were.
    /// What outlives the process is in wisdom: see [`plan::regret`](trimtab_plan::regret).
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.relu(&Tensor::from(vec![-1.0f32, 1.0]))?;
    /// assert_eq!(rt.stats().wrong, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> LiveStats {
        let (audits, wrong) = self.shared.audits.counts();
        LiveStats { audits, wrong, ..self.shared.planner.stats() }
    }

    /// Takes in facts from elsewhere; with `commit` they count from the next call on.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::wisdom::Filter;
    /// rt.try_problem(&"matmul:f32:64x64x64".parse()?)?;
    /// let text = rt.wisdom().export(&Filter::operation("matmul"));
    /// let other = Runtime::builder().wisdom_in_memory().build()?;
    /// let report = other.import(&text, true)?;
    /// assert_eq!((report.committed, report.rejected_count), (true, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        let report = self.shared.planner.import(text, commit)?;
        if commit {
            self.shared.schedules.clear();
        }
        Ok(report)
    }

    /// Forgets facts; what rested on them is planned anew.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::wisdom::Filter;
    /// rt.try_problem(&"matmul:f32:64x64x64".parse()?)?;
    /// println!("{} facts forgotten", rt.forget(&Filter::operation("matmul")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget(&self, filter: &Filter) -> usize {
        let count = self.shared.planner.forget(filter);
        self.shared.schedules.clear();
        count
    }
}
