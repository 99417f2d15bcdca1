//! Exploring: where no completed race decided, a call now and then runs another rival, within a budget.
//!
//! In the background a policy decides that the next call of a problem is to run another rival than the plan in force. That
//! rival is checked against the reference, put aside in the table, and goes to one call only ([`Table::try_once`]). What the call
//! took comes back as a report like any other; a rival that proves faster takes the place of the plan in force.

use crate::decide::Decider;
use crate::event::Event;
use crate::field;
use crate::plan::{Plan, Reason, Rival};
use crate::record::Decision;
use crate::table::{Table, TermsId};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{Nanos, Objective, Problem};
use trimtab_model::learn::{Ledger, Pick, Policy};

/// Rivals that take part, the one in force included: the best estimates.
const MAX_RIVALS: usize = 8;
/// Rivals of one kernel that take part: its settings are much alike.
const MAX_POINTS: usize = 3;
/// A rival estimated to be slower than this many times the best does not take part.
const HOPELESS: f64 = 4.0;
/// Problems explored at a time; more keep the plan they have.
const MAX_EXPLORED: usize = 64;
/// Problems whose ledgers are kept after they were explored.
const MAX_SPENT: usize = 4096;
/// Timed calls of the plan in force after which a call that was to run another rival is not waited for any more: its report
/// was dropped, or it went to a caller who does not report.
const PATIENCE_CALLS: u32 = 256;
/// Timed calls after which it is known well enough how long calls are at least.
const FEW_CALLS: u32 = 4;
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
    /// The number of the plan in whose place it is tried.
    in_force: u32,
    waited: u32,
}

/// One problem that is explored.
pub(crate) struct Explorer {
    problem: Problem,
    terms: TermsId,
    decision: Arc<Decision>,
    /// Positions of the rivals in the decision; the one that was chosen is the first.
    rivals: Vec<usize>,
    /// Those rivals: what is checked against the reference.
    ladder: Vec<Rival>,
    policy: Policy,
    /// The plan in force and its place among the rivals.
    plan: Plan,
    at: usize,
    trial: Option<Trial>,
    late: Option<Late>,
    /// Calls that were explored.
    explored: u64,
    /// What the last timed call of the plan in force took, the shortest, and how many there were.
    last_ns: f64,
    least_ns: f64,
    timed: u32,
}

/// What the policy wants to happen next.
pub(crate) enum Next {
    /// Nothing.
    Stay,
    /// This plan is to be tried by the next call.
    Try(Pick, Plan),
    /// This plan is to be put in force: the same one, timed more often.
    Retime(Plan),
    /// This plan is to be put in force: of the rival that calls showed to be the fastest.
    Switch(Plan, Arc<Decision>),
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

impl Explorer {
    /// Explores a decision whose plan is in force; nothing if there is nobody to try.
    pub(crate) fn new(
        decider: &Decider,
        terms: TermsId,
        decision: Arc<Decision>,
        plan: Plan,
    ) -> Option<Explorer> {
        let rivals = contenders(decider, &decision)?;
        let mut explorer = Explorer {
            problem: decision.problem,
            terms,
            ladder: Vec::new(),
            policy: Policy::new(&[0.0], 0.0, false, 0)?,
            decision,
            rivals,
            plan,
            at: 0,
            trial: None,
            late: None,
            explored: 0,
            last_ns: 0.0,
            least_ns: f64::INFINITY,
            timed: 0,
        };
        explorer.restart(decider)?;
        Some(explorer)
    }

    /// Starts the policy over with the rivals there are.
    fn restart(&mut self, decider: &Decider) -> Option<()> {
        let of = |index: &usize| self.decision.rivals.get(*index).cloned();
        self.ladder = self.rivals.iter().map(of).collect::<Option<Vec<Rival>>>()?;
        let log2 = |rival: &Rival| {
            rival.estimate().map_or(f64::NAN, |estimate| (estimate.time.0.max(1) as f64).log2())
        };
        let mut prior: Vec<f64> = self.ladder.iter().map(log2).collect();
        let least = prior.iter().copied().fold(f64::INFINITY, f64::min);
        prior.iter_mut().for_each(|log2| *log2 -= least);
        // Something spoke for the one in force beyond its estimate: it starts as the best.
        *prior.first_mut()? = 0.0;
        let mut spreads: Vec<f64> = (self.ladder.iter())
            .filter_map(|rival| Some(rival.estimate()?.spread_log2).filter(|spread| spread.is_finite()))
            .collect();
        spreads.sort_by(f64::total_cmp);
        let middle = spreads.get(spreads.len() / 2).copied().unwrap_or(ERROR_LOG2.1);
        let first = self.ladder.first()?;
        let fingerprint = decider.devices.get(first.device)?.facts().fingerprint.0.clone();
        let seed = field::seed(&[&fingerprint, "live", &self.problem.to_string()]);
        let spent = *self.policy.ledger();
        self.policy = Policy::new(&prior, middle.clamp(ERROR_LOG2.0, ERROR_LOG2.1), true, seed)?;
        self.enter(spent.total_ns, spent.explored_ns);
        Some(())
    }

    /// Takes over what calls of the problem took before: a debt is not forgiven because the rivals have changed.
    fn enter(&mut self, total_ns: f64, explored_ns: f64) {
        let paid = Some(total_ns - explored_ns).filter(|_| explored_ns > 0.0);
        self.policy.ran(Pick { explores: paid, ..NOBODY }, total_ns, &mut Ledger::default());
    }

    pub(crate) fn key(&self) -> (&Problem, TermsId) {
        (&self.problem, self.terms)
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// The problem's own ledger.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = *self.policy.ledger();
        ledger.explored = self.explored;
        ledger
    }

    /// Takes over a plan that was put in force meanwhile, if it is that of one of the rivals.
    fn adopt(&mut self, plan: &Plan) -> bool {
        let Some(at) = self.ladder.iter().position(|rival| plan.runs(rival)) else { return false };
        (self.plan, self.at) = (*plan, at);
        (self.last_ns, self.least_ns, self.timed) = (0.0, f64::INFINITY, 0);
        true
    }

    /// Gives up waiting for a trial. One that no call has taken yet is taken back; of one that runs, or whose report was lost,
    /// as much is charged as a call that is worth trying may take.
    fn abandon(&mut self, table: &Table, process: &mut Ledger) {
        let Some(trial) = self.trial.take() else { return };
        let Some(expected_ns) = trial.pick.explores.filter(|_| !table.take_back(trial.in_force, trial.id))
        else {
            return;
        };
        self.charge(expected_ns, HOPELESS * expected_ns, process);
        let charged_ns = (HOPELESS - 1.0) * expected_ns;
        self.late = Some(Late { id: trial.id, charged_ns, expected_ns });
    }

    /// Lets others try something first, if no call has taken the trial yet.
    fn yield_turn(&mut self, table: &Table) {
        self.trial.take_if(|trial| table.take_back(trial.in_force, trial.id));
    }

    /// Whether a report of that plan is its own.
    fn expects(&self, id: u32) -> bool {
        id == self.plan.id
            || self.trial.as_ref().is_some_and(|trial| trial.id == id)
            || self.late.is_some_and(|late| late.id == id)
    }

    /// Enters an explored call of which nothing is learned.
    fn charge(&mut self, expected_ns: f64, ns: f64, process: &mut Ledger) {
        self.explored += 1;
        self.policy.ran(Pick { explores: Some(expected_ns), ..NOBODY }, ns, process);
    }

    /// Takes in one report. The pair, if it was of an explored call.
    fn ran(&mut self, id: u32, ns: f64, process: &mut Ledger) -> Option<Pair> {
        if id == self.plan.id {
            self.policy.ran(Pick { rival: self.at, explores: None }, ns, process);
            (self.last_ns, self.least_ns) = (ns, self.least_ns.min(ns));
            self.timed = self.timed.saturating_add(1);
            if let Some(trial) = &mut self.trial {
                trial.waited += 1;
            }
            return None;
        }
        if let Some(late) = self.late.filter(|late| late.id == id && self.trial.is_none()) {
            self.late = None;
            let over_ns = ns - late.expected_ns - late.charged_ns;
            if over_ns > 0.0 {
                // The call was counted when it was given up.
                self.enter(over_ns, over_ns);
                process.total_ns += over_ns;
                process.explored_ns += over_ns;
            }
            return None;
        }
        let trial = self.trial.take_if(|trial| trial.id == id)?;
        self.policy.ran(trial.pick, ns, process);
        self.explored += 1;
        Some(Pair { chosen: (self.plan.id, self.last_ns), tried: (id, ns) })
    }

    /// What should happen next.
    fn next(&mut self, decider: &Decider, process: &Ledger, free: bool) -> Next {
        if self.trial.is_some() || self.last_ns <= 0.0 {
            return Next::Stay;
        }
        let best = self.policy.incumbent();
        if best != self.at {
            return self.switch(best);
        }
        // Calls that take longer than expected can be timed more often for the same share of them, and only timed ones count.
        let Plan { device, kernel, point, .. } = self.plan;
        let seen =
            Plan { code: self.plan.code, ..Plan::new(device, kernel, point, Nanos(self.least_ns as u64)) };
        if self.timed >= FEW_CALLS && seen.sample_interval() < self.plan.sample_interval() {
            return Next::Retime(seen);
        }
        if !free {
            return Next::Stay;
        }
        let pick = self.policy.pick(process);
        // Whoever never ran on this problem may be tried the sooner for having been checked on it.
        let Some(rival) = self.policy.unknown().or(pick.explores.map(|_| pick.rival)) else {
            return Next::Stay;
        };
        let checked = self.ladder.get(rival).map(|rival| decider.verify_whole(&self.problem, rival));
        match checked {
            Some(Ok(Some(took))) => self.policy.checked(rival, took.0 as f64),
            Some(Ok(None)) => (),
            _ => self.bar(decider, rival),
        }
        if pick.explores.is_none() || !matches!(checked, Some(Ok(_))) {
            return Next::Stay;
        }
        match self.plan_of(pick.rival) {
            // The one call it goes to is timed.
            Some(plan) => Next::Try(pick, Plan { sample_mask: 0, ..plan }),
            None => Next::Stay,
        }
    }

    /// A rival gave a wrong result or failed: it takes no part any more.
    fn bar(&mut self, decider: &Decider, rival: usize) {
        if rival < self.rivals.len() && rival != self.at {
            self.rivals.remove(rival);
            if rival < self.at {
                self.at -= 1;
            }
            self.rivals.swap(0, self.at);
            self.at = 0;
            let _ = self.restart(decider);
        }
    }

    fn plan_of(&self, rival: usize) -> Option<Plan> {
        self.ladder.get(rival).map(Plan::of)
    }

    fn switch(&self, best: usize) -> Next {
        let (Some(plan), Some(&index)) = (self.plan_of(best), self.rivals.get(best)) else {
            return Next::Stay;
        };
        let name = |at: usize| self.ladder.get(at).map_or_else(String::new, Rival::label);
        let (new, old) = (name(best), name(self.at));
        let event = Event::Explored { rival: index, new, old, calls: self.explored };
        Next::Switch(plan, Arc::new(self.decision.with(event)))
    }
}

/// The rivals worth trying, the chosen one first; nothing if it has no estimate or is alone. Kernels of GPUs take no part: a
/// first launch builds them, in the caller's time.
fn contenders(decider: &Decider, decision: &Decision) -> Option<Vec<usize>> {
    let here = |rival: &Rival| {
        let device = decider.devices.get(rival.device);
        device.is_some_and(|device| device.facts().habits.explored_live)
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

/// A call that was to run another rival and is not waited for any more: what it takes is still charged.
#[derive(Clone, Copy)]
struct Late {
    id: u32,
    /// What was charged for it already, beyond what the plan in force was expected to take.
    charged_ns: f64,
    expected_ns: f64,
}

/// What exploring is asked to do by its owner.
pub(crate) trait Host {
    /// The decision with estimates of everyone, where it has none.
    fn estimated(&self, decision: &Arc<Decision>) -> Arc<Decision>;
    /// Whether something else is changing that plan.
    fn is_busy(&self, plan: &Plan) -> bool;
    /// Puts a plan in force in place of the one of that number; without a decision the same rival is.
    fn replace(
        &self,
        problem: &Problem,
        terms: TermsId,
        older: u32,
        plan: Plan,
        decision: Option<&Arc<Decision>>,
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
    /// What was spent on problems that were explored before.
    spent: Mutex<FxHashMap<(Problem, TermsId), Ledger>>,
    turns: AtomicUsize,
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
            explorers.drain(..).for_each(|explorer| self.leave(&explorer));
            begun.clear();
        }
    }

    /// A problem is no longer explored; what it cost is kept.
    fn leave(&self, explorer: &Explorer) {
        if let Ok(mut spent) = self.spent.lock()
            && spent.len() < MAX_SPENT
        {
            spent.insert((explorer.problem, explorer.terms), explorer.ledger());
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

    /// What all timed calls of the process took, and how much of it went into exploring.
    pub(crate) fn ledger(&self) -> Ledger {
        self.process.lock().map_or_else(|_| Ledger::default(), |ledger| *ledger)
    }

    /// The same by problem, for those that are explored now.
    pub(crate) fn ledgers(&self) -> Vec<(Problem, Ledger)> {
        let explorers = self.explorers.lock().ok();
        let ledgers = |explorers: &Vec<Explorer>| {
            explorers.iter().map(|explorer| (explorer.problem, explorer.ledger())).collect()
        };
        explorers.map_or_else(Vec::new, |explorers| ledgers(&explorers))
    }

    /// Takes in live calls by the number of their plan; the number of a plan whose report is worth waiting for, zero for none.
    pub(crate) fn step(
        &self,
        calls: &FxHashMap<u32, Vec<u64>>,
        decider: &Decider,
        table: &Table,
        host: &dyn Host,
    ) -> u32 {
        let (Ok(mut explorers), Ok(mut process)) = (self.explorers.lock(), self.process.lock()) else {
            return 0;
        };
        self.take_over(&mut explorers, decider, table, &mut process, host);
        let failed = self.failed.lock().map(|mut failed| std::mem::take(&mut *failed)).unwrap_or_default();
        let mut owners: FxHashMap<u32, usize> = FxHashMap::default();
        for (index, explorer) in explorers.iter_mut().enumerate() {
            if let Some(trial) = explorer.trial.take_if(|trial| failed.contains(&trial.id)) {
                // Nobody timed it: as far as is known it took as long as a call before it failed.
                explorer.charge(0.0, trial.pick.explores.unwrap_or(0.0), &mut process);
                explorer.bar(decider, trial.pick.rival);
            }
            let ids = [explorer.late.map(|late| late.id), explorer.trial.as_ref().map(|trial| trial.id)];
            owners.insert(explorer.plan.id, index);
            owners.extend(ids.into_iter().flatten().map(|id| (id, index)));
        }
        let mut called: Vec<usize> = Vec::new();
        for (&id, calls) in calls {
            let owner = owners.get(&id).copied();
            for &ns in calls {
                match owner.and_then(|owner| explorers.get_mut(owner)).filter(|owner| owner.expects(id)) {
                    Some(explorer) => {
                        if let Some(pair) = explorer.ran(id, ns as f64, &mut process) {
                            host.explored(pair);
                        }
                    }
                    // Calls that are not timed earn nothing: nobody knows what they took.
                    None => process.ran(ns as f64),
                }
            }
            called.extend(owner);
        }
        called.sort_unstable();
        called.dedup();
        let mut gone: Vec<usize> = Vec::new();
        for &index in &called {
            let Some(explorer) = explorers.get_mut(index) else { continue };
            let in_force = table.get(&explorer.problem, explorer.terms).map(|(_, plan)| *plan);
            let same = in_force.is_some_and(|plan| plan.id == explorer.plan.id);
            if !same || explorer.trial.as_ref().is_some_and(|trial| trial.waited > PATIENCE_CALLS) {
                explorer.abandon(table, &mut process);
            }
            if !same && !in_force.is_some_and(|plan| explorer.adopt(&plan)) {
                gone.push(index);
            }
        }
        // One call at a time: two that each are within the budget may not be together.
        let busy = explorers.iter().position(|explorer| explorer.trial.is_some());
        let wants = |index: usize| called.contains(&index) && !gone.contains(&index);
        if let Some(other) = busy.filter(|&other| !wants(other) && (0..explorers.len()).any(wants)) {
            // A problem that is seldom called does not hold up the others.
            explorers[other].yield_turn(table);
        }
        let mut awaited = 0;
        let first = called.iter().position(|&index| index >= self.turn(explorers.len())).unwrap_or(0);
        for nth in 0..called.len() {
            let index = called[(first + nth) % called.len()];
            let free = explorers.iter().all(|explorer| explorer.trial.is_none());
            let Some(explorer) = explorers.get_mut(index).filter(|_| !gone.contains(&index)) else {
                continue;
            };
            if !host.is_busy(&explorer.plan) {
                awaited = explorer.act(decider, table, &process, free, host).unwrap_or(awaited);
            }
        }
        gone.into_iter().rev().for_each(|index| self.leave(&explorers.swap_remove(index)));
        awaited
    }

    /// Whose turn it is to explore first, of so many: the next each time.
    fn turn(&self, of: usize) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed) % of.max(1)
    }

    fn take_over(
        &self,
        explorers: &mut Vec<Explorer>,
        decider: &Decider,
        table: &Table,
        process: &mut Ledger,
        host: &dyn Host,
    ) {
        let begun = self.begun.lock().map(|mut begun| std::mem::take(&mut *begun)).unwrap_or_default();
        for (terms, decision, plan) in begun {
            let same = explorers.iter().position(|other| other.key() == (&decision.problem, terms));
            if let Some(mut other) = same.map(|same| explorers.swap_remove(same)) {
                other.abandon(table, process);
                self.leave(&other);
            }
            if explorers.len() >= MAX_EXPLORED {
                explorers.retain(|other| {
                    let (problem, terms) = other.key();
                    table.get(problem, terms).is_some_and(|(_, plan)| plan.id == other.plan().id)
                });
            }
            if explorers.len() < MAX_EXPLORED
                && let Some(mut explorer) = Explorer::new(decider, terms, host.estimated(&decision), plan)
            {
                let key = (explorer.problem, explorer.terms);
                let spent = self.spent.lock().ok().and_then(|mut spent| spent.remove(&key));
                if let Some(spent) = spent {
                    explorer.enter(spent.total_ns, spent.explored_ns);
                    explorer.explored = spent.explored;
                }
                explorers.push(explorer);
            }
        }
    }
}

impl Explorer {
    /// Does what the policy wants; the number of the plan that was put up to be tried.
    fn act(
        &mut self,
        decider: &Decider,
        table: &Table,
        process: &Ledger,
        free: bool,
        host: &dyn Host,
    ) -> Option<u32> {
        match self.next(decider, process, free) {
            Next::Stay => None,
            Next::Retime(plan) => {
                let plan = host.replace(&self.problem, self.terms, self.plan.id, plan, None)?;
                self.adopt(&plan);
                None
            }
            Next::Switch(plan, decision) => {
                let plan = host.replace(&self.problem, self.terms, self.plan.id, plan, Some(&decision))?;
                self.decision = decision;
                self.adopt(&plan);
                None
            }
            Next::Try(pick, plan) => {
                let tried = table.try_once(&self.problem, self.terms, self.plan.id, plan)?;
                host.trying(&self.problem, &tried, self.ladder.get(pick.rival)?);
                let in_force = self.plan.id;
                self.trial = Some(Trial { pick, id: tried.id, in_force, waited: 0 });
                Some(tried.id)
            }
        }
    }
}
