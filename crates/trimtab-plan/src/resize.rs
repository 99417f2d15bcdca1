//! Live resize: a plan that rests on no measurement learns the width of its kernel from live calls.

use crate::cold::Cold;
use crate::feedback::Report;
use crate::plan::{Decision, Plan, Reason, Rival, Standing};
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use trimtab_core::{Basis, Device, Estimate, Nanos, Objective, Patience, Point, Problem};
use trimtab_tune::{Margins, Observed, Resize, Stopwatch};

/// Axes that say how wide a kernel works, most telling first; the first of them with several legal values is resized.
const WIDTHS: [&str; 5] = ["threads", "workgroup", "width", "wx", "tile"];
/// Every call of a plan under resize is timed, unless calls turn out to be shorter: timing would cost more than a tenth of
/// them, and enough are seen anyway.
const WORTH_SEEING: Nanos = Nanos(1_000);
/// Plans resized at a time; more keep the setting they have.
const MAX_LIVE: usize = 64;
/// Searches after which a plan is left alone: what keeps moving is not worth following.
const MAX_SEARCHES: u32 = 8;

/// One plan under live resize.
pub(crate) struct Live {
    problem: Problem,
    terms: TermsId,
    /// The decision it was made by, shared with whoever explains it.
    decision: Arc<Decision>,
    axis: String,
    /// The values of the axis with the positions of their rivals in the decision.
    rungs: Vec<(u32, usize)>,
    /// A decision between those rivals alone, in the order of the values: what is checked against the reference.
    ladder: Decision,
    resize: Resize,
    /// The plan in force, its value, whether it was put in force as the settled one, and the fastest call at it
    /// and at any.
    plan: Plan,
    value: u32,
    settled: bool,
    fastest: Nanos,
    quickest: Nanos,
    /// Since the last look at its calls.
    since: Stopwatch,
}

/// What came of putting a plan in force.
pub(crate) enum Put {
    /// It is, under this number.
    Done(Plan),
    /// Another decision was made meanwhile: it counts.
    Gone,
    /// A decision is being made.
    Later,
}

/// Whether a decision is of the sort that is resized: it rests on estimates or preference alone, and nothing but time is
/// asked for. A limit on latency is not: what is tried may break it.
pub(crate) fn is_resizable(decision: &Decision) -> bool {
    let measured = matches!(
        decision.winner().and_then(Rival::estimate),
        Some(Estimate { basis: Basis::Measured(_), .. })
    );
    matches!(decision.reason, Reason::Estimated | Reason::DefaultOrder)
        && !measured
        && decision.patience > Patience::Off
        && decision.terms.constraints.latency_max.is_none()
        && decision.terms.objective == Objective::default()
}

impl Live {
    /// The plan of a decision under resize, if its kernel has a width with several legal values.
    pub(crate) fn new(devices: &[Arc<dyn Device>], terms: TermsId, decision: &Arc<Decision>) -> Option<Live> {
        let winner = decision.winner()?;
        let device = devices.get(winner.device as usize)?;
        let space = device.space(winner.kernel, &decision.problem);
        let (axis, rungs) = WIDTHS.iter().find_map(|width| {
            let at = space.axes().iter().position(|axis| axis == width)?;
            let rungs = rungs(decision, winner, at);
            (rungs.len() > 1).then_some((at, rungs))
        })?;
        let value = *winner.point.values().get(axis)?;
        let values: Vec<u32> = rungs.iter().map(|rung| rung.0).collect();
        let mut live = Live {
            problem: decision.problem,
            terms,
            decision: Arc::clone(decision),
            ladder: Decision::new(
                decision.problem,
                decision.terms,
                rungs.iter().map(|rung| decision.rivals[rung.1].clone()).collect(),
                decision.patience,
            ),
            axis: space.axes()[axis].to_string(),
            rungs,
            resize: Resize::new(&values, value, Margins::default()),
            plan: decision.plan()?,
            value,
            settled: false,
            fastest: Nanos::MAX,
            quickest: Nanos::MAX,
            since: Stopwatch::start(),
        };
        live.plan = live.plan_at(decision.winner()?);
        Some(live)
    }

    /// The plan to put in force, whose every call is seen while it is resized.
    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// Takes over the number under which the plan was put in force.
    pub(crate) fn numbered(self, plan: Plan) -> Live {
        Live { plan, ..self }
    }

    pub(crate) fn key(&self) -> (&Problem, TermsId) {
        (&self.problem, self.terms)
    }

    fn plan_at(&self, rival: &Rival) -> Plan {
        let expected = rival.estimate().map_or(Nanos(0), |estimate| estimate.time);
        let plan = |expected| Plan::new(rival.device, rival.kernel, rival.point, expected);
        match self.resize.settled() {
            true => plan(self.fastest),
            false if self.quickest < WORTH_SEEING => {
                Plan { sample_mask: plan(self.quickest).sample_mask, ..plan(expected) }
            }
            false => Plan { sample_mask: 0, ..plan(expected) },
        }
    }

    /// Takes in live calls; the plan to put in force if that changes something, with the decision behind it. At most one
    /// change: calls after it were still made with the old setting.
    fn step(&mut self, calls: &[Nanos], cold: &Cold) -> Option<(Plan, Decision)> {
        let busy: u64 = calls.iter().fold(0, |sum, call| sum.saturating_add(call.0));
        let idle = self.since.elapsed().saturating_sub(Nanos(busy)).0 / calls.len().max(1) as u64;
        self.since = Stopwatch::start();
        for &call in calls {
            // Once a change is decided, what was in force says nothing more.
            if self.has_changed() {
                break;
            }
            self.fastest = self.fastest.min(call);
            self.quickest = self.quickest.min(call);
            self.resize.observe(Observed { work: 1.0, busy: call, idle: Nanos(idle) });
        }
        if !self.has_changed() {
            return None;
        }
        // A setting is used only after its result agreed with the reference.
        let mut value = self.resize.value();
        let rung = loop {
            let rung = self.rungs.iter().position(|rung| rung.0 == value)?;
            if value == self.value || cold.verify(&mut self.ladder, rung) {
                break rung;
            }
            value = self.resize.refuse();
        };
        let plan = self.plan_at(&self.ladder.rivals[rung]);
        self.has_changed().then(|| (plan, self.decided(self.rungs[rung].1)))
    }

    /// Whether what is in force is not what it should be.
    fn has_changed(&self) -> bool {
        (self.resize.value(), self.resize.settled()) != (self.value, self.settled)
    }

    /// The decision with that rival chosen, and what live calls told.
    fn decided(&self, rival: usize) -> Decision {
        let mut decision = Decision::clone(&self.decision);
        let (axis, value) = (&self.axis, self.resize.value());
        let (from, gain) = self.resize.gain();
        let note = match (self.resize.settled(), from == value) {
            (false, _) => format!("live resize: {axis} {}", self.resize.why()),
            (true, true) => {
                format!("live resize: {axis} {value} stays, nothing is clearly faster in live calls")
            }
            (true, false) => {
                format!("live resize: {axis} {from} → {value}, {gain:.1}× throughput in live calls")
            }
        };
        decision.notes.push(note);
        if decision.chosen != rival {
            decision.reason = Reason::Resized;
        }
        decision.chosen = rival;
        decision
    }

    fn is_over(&self) -> bool {
        self.resize.settled() && self.resize.searches() >= MAX_SEARCHES
    }
}

/// The values of one axis with all others as the winner has them, that nothing speaks against.
fn rungs(decision: &Decision, winner: &Rival, axis: usize) -> Vec<(u32, usize)> {
    let others = |point: &Point| {
        let mut values = point.values().to_vec();
        let own = values.get_mut(axis).map(std::mem::take);
        own.map(|own| (own, values))
    };
    let Some((_, held)) = others(&winner.point) else { return Vec::new() };
    let is_open = |rival: &Rival| rival.estimate().is_some() || rival.standing == Standing::Unconsidered;
    let mut rungs = Vec::new();
    for (index, rival) in decision.rivals.iter().enumerate() {
        let same = (rival.device, rival.kernel) == (winner.device, winner.kernel);
        if let (true, Some((value, rest))) = (same && is_open(rival), others(&rival.point))
            && rest == held
        {
            rungs.push((value, index));
        }
    }
    rungs
}

/// The plans under live resize. Only draining and deciding come here; calls and their reports never do.
#[derive(Default)]
pub(crate) struct Resizes {
    /// New ones, taken over when feedback is drained: whoever decides does not wait for a check against the reference.
    begun: Mutex<Vec<Live>>,
    /// By the number of the plan in force.
    lives: Mutex<FxHashMap<u32, Live>>,
}

impl Resizes {
    pub(crate) fn begin(&self, live: Live) {
        if let Ok(mut begun) = self.begun.lock()
            && live.plan.id != 0
            && begun.len() < MAX_LIVE
        {
            begun.push(live);
        }
    }

    pub(crate) fn clear(&self) {
        if let (Ok(mut lives), Ok(mut begun)) = (self.lives.lock(), self.begun.lock()) {
            lives.clear();
            begun.clear();
        }
    }

    /// Takes in the reports of live calls; the number of the plan whose next calls are waited for, zero for none. Of
    /// several the one that was called most, else the one that was `awaited` before.
    pub(crate) fn step(
        &self,
        reports: &[Report],
        cold: &Cold,
        is_in_force: &dyn Fn(&Live) -> bool,
        put: &dyn Fn(&Live, Plan, Decision) -> Put,
        awaited: u32,
    ) -> u32 {
        let Ok(mut lives) = self.lives.lock() else { return 0 };
        self.take_over(&mut lives, is_in_force);
        let mut calls: FxHashMap<u32, Vec<Nanos>> = FxHashMap::default();
        for report in reports.iter().filter(|report| lives.contains_key(&report.plan_id)) {
            calls.entry(report.plan_id).or_default().push(Nanos(report.elapsed_ns));
        }
        let mut busiest: Option<(usize, u32)> = None;
        for (id, calls) in calls {
            let Some(mut live) = lives.remove(&id) else { continue };
            if let Some((plan, decision)) = live.step(&calls, cold) {
                match put(&live, plan, decision) {
                    Put::Done(plan) => {
                        if live.value != live.resize.value() {
                            live.fastest = Nanos::MAX;
                        }
                        live.plan = plan;
                        (live.value, live.settled) = (live.resize.value(), live.resize.settled());
                    }
                    Put::Gone => continue,
                    Put::Later => (),
                }
            }
            // Without a number there are no reports: the table of plans is full.
            if live.is_over() || live.plan.id == 0 {
                continue;
            }
            if !live.resize.settled() {
                busiest = busiest.max(Some((calls.len(), live.plan.id)));
            }
            lives.insert(live.plan.id, live);
        }
        let still = lives.get(&awaited).is_some_and(|live| !live.resize.settled());
        busiest.map_or(if still { awaited } else { 0 }, |busiest| busiest.1)
    }

    fn take_over(&self, lives: &mut FxHashMap<u32, Live>, is_in_force: &dyn Fn(&Live) -> bool) {
        let Ok(mut begun) = self.begun.lock() else { return };
        for live in begun.drain(..) {
            lives.retain(|_, other| other.key() != live.key());
            if lives.len() >= MAX_LIVE {
                lives.retain(|_, other| is_in_force(other));
            }
            if lives.len() < MAX_LIVE {
                lives.insert(live.plan.id, live);
            }
        }
    }
}
