//! Exploring: where no completed race decided, a call now and then runs another rival, within a budget.
//!
//! In the background a policy decides that the next call of a problem is to run another rival than the plan in force. That
//! rival is checked against the reference, put aside in the table, and goes to one call only ([`Table::try_once`]). What the call
//! took comes back as a report like any other; a rival that proves faster takes the place of the plan in force.

use crate::cold::Cold;
use crate::field;
use crate::plan::{Decision, Plan, Reason, Rival};
use crate::table::{Table, TermsId};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use trimtab_core::{DeviceKind, Nanos, Objective, Problem};
use trimtab_model::learn::{Ledger, Pick, Policy};

/// Rivals that take part, the one in force included: the best estimates.
const MAX_RIVALS: usize = 8;
/// Rivals of one kernel that take part: its settings are much alike.
const MAX_POINTS: usize = 3;
/// A rival estimated to be slower than this many times the best does not take part.
const HOPELESS: f64 = 4.0;
/// Problems explored at a time; more keep the plan they have.
const MAX_EXPLORED: usize = 64;
/// Timed calls of the plan in force after which a call that was to run another rival is not waited for any more: its report
/// was dropped, or it went to a caller who does not report.
const PATIENCE_CALLS: u32 = 256;
/// Bounds of the error that estimates are believed to have, in doublings.
const ERROR_LOG2: (f64, f64) = (0.1, 1.0);
/// A pick of no rival: time that is entered into a ledger without teaching anything.
const NOBODY: Pick = Pick { rival: usize::MAX, explores: None };

/// An explored call: what it took, and what the last call of the plan in force took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The number of the plan in force, and what its last timed call took.
    pub chosen: (u32, f64),
    /// The number of the plan that was tried, and what it took.
    pub tried: (u32, f64),
}

/// A call that is to run another rival, or has.
struct Trial {
    pick: Pick,
    id: u32,
    waited: u32,
}

/// One problem that is explored.
pub(crate) struct Explorer {
    problem: Problem,
    terms: TermsId,
    decision: Arc<Decision>,
    /// Positions of the rivals in the decision; the one that was chosen is the first.
    rivals: Vec<usize>,
    /// A decision between those alone: what is checked against the reference.
    ladder: Decision,
    policy: Policy,
    /// The plan in force and its place among the rivals.
    plan: Plan,
    at: usize,
    trial: Option<Trial>,
    /// What the last timed call of the plan in force took.
    last_ns: f64,
}

/// What the policy wants to happen next.
pub(crate) enum Next {
    /// Nothing.
    Stay,
    /// This plan is to be tried by the next call.
    Try(Pick, Plan),
    /// This rival of the decision is to be put in force: calls showed it to be the fastest.
    Switch(Plan, Box<Decision>),
}

/// Whether a decision leaves something to be found out by live calls: no completed race stands behind it, and nothing but time is
/// asked for. A limit on latency is kept by not trying.
pub(crate) fn is_open(decision: &Decision) -> bool {
    let raced = matches!(decision.reason, Reason::Raced | Reason::KeptIncumbent | Reason::Remembered);
    !(raced && decision.complete)
        && decision.reason != Reason::DefaultOrder
        && decision.terms.constraints.latency_max.is_none()
        && decision.terms.objective == Objective::default()
}

/// Whether the decision knows too little of the others: one that was remembered has looked at its winner alone.
pub(crate) fn needs_estimates(decision: &Decision) -> bool {
    decision.rivals.iter().filter(|rival| rival.estimate().is_some()).count() < 2
}

impl Explorer {
    /// Explores a decision whose plan is in force; nothing if there is nobody to try.
    pub(crate) fn new(cold: &Cold, terms: TermsId, decision: Arc<Decision>, plan: Plan) -> Option<Explorer> {
        let rivals = contenders(cold, &decision)?;
        let mut explorer = Explorer {
            problem: decision.problem,
            terms,
            ladder: Decision::new(decision.problem, decision.terms, Vec::new(), decision.patience),
            policy: Policy::new(&[0.0], 0.0, false, 0)?,
            decision,
            rivals,
            plan,
            at: 0,
            trial: None,
            last_ns: 0.0,
        };
        explorer.restart(cold)?;
        Some(explorer)
    }

    /// Starts the policy over with the rivals there are.
    fn restart(&mut self, cold: &Cold) -> Option<()> {
        let of = |index: &usize| self.decision.rivals.get(*index).cloned();
        self.ladder.rivals = self.rivals.iter().map(of).collect::<Option<Vec<Rival>>>()?;
        let log2 = |rival: &Rival| {
            rival.estimate().map_or(f64::NAN, |estimate| (estimate.time.0.max(1) as f64).log2())
        };
        let mut prior: Vec<f64> = self.ladder.rivals.iter().map(log2).collect();
        let least = prior.iter().copied().fold(f64::INFINITY, f64::min);
        prior.iter_mut().for_each(|log2| *log2 -= least);
        // Something spoke for the one in force beyond its estimate: it starts as the best.
        *prior.first_mut()? = 0.0;
        let mut spreads: Vec<f64> = (self.ladder.rivals.iter())
            .filter_map(|rival| Some(rival.estimate()?.spread_log2).filter(|spread| spread.is_finite()))
            .collect();
        spreads.sort_by(f64::total_cmp);
        let middle = spreads.get(spreads.len() / 2).copied().unwrap_or(ERROR_LOG2.1);
        let first = self.ladder.rivals.first()?;
        let fingerprint = &cold.devices.get(first.device as usize)?.facts().fingerprint.0;
        let seed = field::seed(&[fingerprint, "live", &self.problem.to_string()]);
        self.policy = Policy::new(&prior, middle.clamp(ERROR_LOG2.0, ERROR_LOG2.1), true, seed)?;
        Some(())
    }

    pub(crate) fn key(&self) -> (&Problem, TermsId) {
        (&self.problem, self.terms)
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// The problem's own ledger.
    pub(crate) fn ledger(&self) -> &Ledger {
        self.policy.ledger()
    }

    /// Takes over a plan that was put in force meanwhile, if it is that of one of the rivals.
    fn adopt(&mut self, plan: &Plan) -> bool {
        let same = |rival: &Rival| {
            (rival.device, rival.kernel, rival.point) == (plan.device, plan.kernel, plan.point)
        };
        let Some(at) = self.ladder.rivals.iter().position(same) else { return false };
        (self.plan, self.at) = (*plan, at);
        true
    }

    /// Takes in one report. The pair, if it was of an explored call.
    fn ran(&mut self, id: u32, ns: f64, process: &mut Ledger) -> Option<Pair> {
        if id == self.plan.id {
            self.policy.ran(Pick { rival: self.at, explores: None }, ns, process);
            // The calls between two timed ones took as long.
            let untimed = f64::from(self.plan.sample_interval() - 1);
            self.policy.ran(NOBODY, ns * untimed, process);
            self.last_ns = ns;
            if let Some(trial) = &mut self.trial {
                trial.waited += 1;
            }
            return None;
        }
        let trial = self.trial.take_if(|trial| trial.id == id)?;
        self.policy.ran(trial.pick, ns, process);
        Some(Pair { chosen: (self.plan.id, self.last_ns), tried: (id, ns) })
    }

    /// What should happen next.
    fn next(&mut self, cold: &Cold, table: &Table, process: &Ledger) -> Next {
        if self.trial.as_ref().is_some_and(|trial| trial.waited > PATIENCE_CALLS)
            && let Some(trial) = self.trial.take()
        {
            table.take_back(self.plan.id, trial.id);
        }
        if self.trial.is_some() || self.last_ns <= 0.0 {
            return Next::Stay;
        }
        let best = self.policy.incumbent();
        if best != self.at {
            return self.switch(best);
        }
        let pick = self.policy.pick(process);
        if pick.explores.is_none() {
            return Next::Stay;
        }
        if !cold.verify(&mut self.ladder, pick.rival) {
            self.bar(cold, pick.rival);
            return Next::Stay;
        }
        match self.plan_of(pick.rival) {
            // The one call it goes to is timed.
            Some(plan) => Next::Try(pick, Plan { sample_mask: 0, ..plan }),
            None => Next::Stay,
        }
    }

    /// A rival gave a wrong result or failed: it takes no part any more.
    fn bar(&mut self, cold: &Cold, rival: usize) {
        if rival < self.rivals.len() && rival != self.at {
            self.rivals.remove(rival);
            if rival < self.at {
                self.at -= 1;
            }
            self.rivals.swap(0, self.at);
            self.at = 0;
            let _ = self.restart(cold);
        }
    }

    fn plan_of(&self, rival: usize) -> Option<Plan> {
        let rival = self.ladder.rivals.get(rival)?;
        let expected = rival.estimate().map_or(Nanos(0), |estimate| estimate.time);
        Some(Plan::new(rival.device, rival.kernel, rival.point, expected))
    }

    fn switch(&self, best: usize) -> Next {
        let (Some(plan), Some(&index)) = (self.plan_of(best), self.rivals.get(best)) else {
            return Next::Stay;
        };
        let mut decision = Decision::clone(&self.decision);
        let name = |at: usize| {
            let rival = self.ladder.rivals.get(at);
            rival.map_or_else(String::new, |rival| format!("{} ({})", rival.name, rival.point_name))
        };
        let explored = self.policy.ledger().explored;
        decision.notes.retain(|note| !note.starts_with(NOTE));
        decision.notes.push(format!(
            "{NOTE}{} instead of {}, {explored} calls explored",
            name(best),
            name(self.at)
        ));
        (decision.chosen, decision.reason) = (index, Reason::Explored);
        Next::Switch(plan, Box::new(decision))
    }
}

/// How a note about exploring begins.
const NOTE: &str = "live calls: ";

/// The rivals worth trying, the chosen one first; nothing if it has no estimate or is alone. Kernels of GPUs take no part: a
/// first launch builds them, in the caller's time.
fn contenders(cold: &Cold, decision: &Decision) -> Option<Vec<usize>> {
    let here = |rival: &Rival| {
        let device = cold.devices.get(rival.device as usize);
        device.is_some_and(|device| device.facts().kind != DeviceKind::Gpu)
    };
    let winner = decision.winner().filter(|winner| here(winner))?;
    let time = |index: &usize| Some(decision.rivals.get(*index)?.estimate()?.time.0.max(1) as f64);
    let open = |index: &usize| time(index).is_some() && decision.rivals.get(*index).is_some_and(here);
    winner.estimate().filter(|estimate| estimate.spread_log2.is_finite())?;
    let mut order: Vec<usize> = (0..decision.rivals.len()).filter(open).collect();
    order.sort_by(|a, b| time(a).partial_cmp(&time(b)).unwrap_or(std::cmp::Ordering::Equal));
    let limit = HOPELESS * order.first().and_then(time)?;
    let mut rivals = vec![decision.chosen];
    for index in order {
        let rival = &decision.rivals[index];
        let same = |other: &&usize| {
            let other = &decision.rivals[**other];
            (other.device, other.kernel) == (rival.device, rival.kernel)
        };
        let few = rivals.iter().filter(same).count() < MAX_POINTS;
        if index != decision.chosen && few && rivals.len() < MAX_RIVALS && time(&index)? <= limit {
            rivals.push(index);
        }
    }
    (rivals.len() > 1).then_some(rivals)
}

/// What exploring is asked to do by its owner.
pub(crate) trait Host {
    /// The decision with estimates of everyone, where it has none.
    fn estimated(&self, decision: &Arc<Decision>, terms: TermsId) -> Option<Arc<Decision>>;
    /// Whether something else is changing that plan.
    fn is_busy(&self, plan: &Plan) -> bool;
    /// Puts a plan in force in place of the one of that number.
    fn replace(
        &self,
        problem: &Problem,
        terms: TermsId,
        older: u32,
        plan: Plan,
        decision: Decision,
    ) -> Option<Plan>;
    /// A plan is tried that this rival of the decision stands behind.
    fn trying(&self, problem: &Problem, plan: &Plan, rival: &Rival);
    /// A call was explored.
    fn explored(&self, pair: Pair);
}

/// The problems that are explored. Only draining and deciding come here; calls and their reports never do.
#[derive(Default)]
pub(crate) struct Explores {
    /// New ones, taken over when feedback is drained.
    begun: Mutex<Vec<(TermsId, Arc<Decision>, Plan)>>,
    explorers: Mutex<Vec<Explorer>>,
    /// Numbers of tried plans whose launch failed.
    failed: Mutex<Vec<u32>>,
    process: Mutex<Ledger>,
}

impl Explores {
    /// Explores the decision from now on.
    pub(crate) fn begin(&self, terms: TermsId, decision: &Arc<Decision>, plan: Plan) {
        if let Ok(mut begun) = self.begun.lock()
            && plan.id != 0
            && begun.len() < MAX_EXPLORED
        {
            begun.push((terms, Arc::clone(decision), plan));
        }
    }

    pub(crate) fn clear(&self) {
        if let (Ok(mut explorers), Ok(mut begun)) = (self.explorers.lock(), self.begun.lock()) {
            explorers.clear();
            begun.clear();
        }
    }

    /// The launch of a plan failed.
    pub(crate) fn failed(&self, id: u32) {
        if let Ok(mut failed) = self.failed.lock()
            && failed.len() < MAX_EXPLORED
        {
            failed.push(id);
        }
    }

    /// What all calls of the process took, and how much of it went into exploring.
    pub(crate) fn ledger(&self) -> Ledger {
        self.process.lock().map_or_else(|_| Ledger::default(), |ledger| *ledger)
    }

    /// The same by problem, for those that are explored now.
    pub(crate) fn ledgers(&self) -> Vec<(Problem, Ledger)> {
        let explorers = self.explorers.lock().ok();
        let ledgers = |explorers: &Vec<Explorer>| {
            explorers.iter().map(|explorer| (explorer.problem, *explorer.ledger())).collect()
        };
        explorers.map_or_else(Vec::new, |explorers| ledgers(&explorers))
    }

    /// Takes in live calls by the number of their plan; the number of a plan whose report is worth waiting for, zero for none.
    pub(crate) fn step(
        &self,
        calls: &FxHashMap<u32, Vec<u64>>,
        cold: &Cold,
        table: &Table,
        host: &dyn Host,
    ) -> u32 {
        let (Ok(mut explorers), Ok(mut process)) = (self.explorers.lock(), self.process.lock()) else {
            return 0;
        };
        self.take_over(&mut explorers, cold, table, host);
        let failed = self.failed.lock().map(|mut failed| std::mem::take(&mut *failed)).unwrap_or_default();
        let mut owners: FxHashMap<u32, usize> = FxHashMap::default();
        for (index, explorer) in explorers.iter_mut().enumerate() {
            owners.insert(explorer.plan.id, index);
            if let Some(trial) = explorer.trial.take_if(|trial| failed.contains(&trial.id)) {
                explorer.bar(cold, trial.pick.rival);
            }
            if let Some(trial) = &explorer.trial {
                owners.insert(trial.id, index);
            }
        }
        let mut called: Vec<usize> = Vec::new();
        for (&id, calls) in calls {
            let owner = owners.get(&id).copied();
            let interval = table.numbered(id).map_or(1, Plan::sample_interval);
            for &ns in calls {
                match owner.and_then(|owner| explorers.get_mut(owner)) {
                    Some(explorer) => {
                        if let Some(pair) = explorer.ran(id, ns as f64, &mut process) {
                            host.explored(pair);
                        }
                    }
                    None => process.ran(ns as f64 * f64::from(interval)),
                }
            }
            called.extend(owner);
        }
        called.sort_unstable();
        called.dedup();
        let mut awaited = 0;
        let mut gone: Vec<usize> = Vec::new();
        for index in called {
            let Some(explorer) = explorers.get_mut(index) else { continue };
            let in_force = table.get(&explorer.problem, explorer.terms).map(|(_, plan)| *plan);
            let known = in_force.is_some_and(|plan| plan.id == explorer.plan.id || explorer.adopt(&plan));
            if !known {
                gone.push(index);
            } else if !host.is_busy(&explorer.plan) {
                awaited = explorer.act(cold, table, &process, host).unwrap_or(awaited);
            }
        }
        gone.into_iter().rev().for_each(|index| drop(explorers.swap_remove(index)));
        awaited
    }

    fn take_over(&self, explorers: &mut Vec<Explorer>, cold: &Cold, table: &Table, host: &dyn Host) {
        let begun = self.begun.lock().map(|mut begun| std::mem::take(&mut *begun)).unwrap_or_default();
        for (terms, decision, plan) in begun {
            explorers.retain(|other| other.key() != (&decision.problem, terms));
            if explorers.len() >= MAX_EXPLORED {
                explorers.retain(|other| {
                    let (problem, terms) = other.key();
                    table.get(problem, terms).is_some_and(|(_, plan)| plan.id == other.plan().id)
                });
            }
            if explorers.len() < MAX_EXPLORED
                && let Some(decision) = host.estimated(&decision, terms)
                && let Some(explorer) = Explorer::new(cold, terms, decision, plan)
            {
                explorers.push(explorer);
            }
        }
    }
}

impl Explorer {
    /// Does what the policy wants; the number of the plan that was put up to be tried.
    fn act(&mut self, cold: &Cold, table: &Table, process: &Ledger, host: &dyn Host) -> Option<u32> {
        match self.next(cold, table, process) {
            Next::Stay => None,
            Next::Switch(plan, decision) => {
                let kept = Arc::new(Decision::clone(&decision));
                if let Some(plan) = host.replace(&self.problem, self.terms, self.plan.id, plan, *decision) {
                    self.decision = kept;
                    self.last_ns = 0.0;
                    self.adopt(&plan);
                }
                None
            }
            Next::Try(pick, plan) => {
                let tried = table.try_once(&self.problem, self.terms, self.plan.id, plan)?;
                host.trying(&self.problem, &tried, self.ladder.rivals.get(pick.rival)?);
                self.trial = Some(Trial { pick, id: tried.id, waited: 0 });
                Some(tried.id)
            }
        }
    }
}
