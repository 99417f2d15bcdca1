//! Live resize: a plan that rests on no measurement learns the width of its kernel from live calls.

use crate::decide::Decider;
use crate::devices::Devices;
use crate::event::{Event, ResizeStep};
use crate::feedback::Report;
use crate::plan::{Plan, Reason, Rival};
use crate::record::Decision;
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use trimtab_core::{Nanos, Objective, Problem};
use trimtab_tune::{Margins, Observed, Resize, Stopwatch};

/// Axes that say how wide a kernel works, most telling first; the first of them with several legal values is resized.
const WIDTHS: [&str; 6] = ["threads", "workgroup", "width", "wx", "tile", "bm"];
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
    /// Those rivals in the order of the values: what is checked against the reference.
    ladder: Vec<Rival>,
    resize: Resize,
    /// The plan in force, its value, whether it was put in force as the settled one, and the fastest call at it
    /// and at any.
    plan: Plan,
    value: u32,
    settled: bool,
    fastest: Nanos,
    quickest: Nanos,
    /// The last change that stayed.
    learned: Option<ResizeStep>,
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
    let measured = decision.winner().is_some_and(Rival::is_measured);
    matches!(decision.reason, Reason::Estimated | Reason::DefaultOrder)
        && !measured
        && decision.terms.constraints.latency_max.is_none()
        && decision.terms.objective == Objective::default()
}

impl Live {
    /// The plan of a decision under resize, if its kernel has a width with several legal values.
    pub(crate) fn new(devices: &Devices, terms: TermsId, decision: &Arc<Decision>) -> Option<Live> {
        let winner = decision.winner()?;
        let device = devices.get(winner.device)?;
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
            ladder: rungs.iter().map(|rung| decision.rivals[rung.1].clone()).collect(),
            axis: space.axes()[axis].to_string(),
            rungs,
            resize: Resize::new(&values, value, Margins::default()),
            plan: decision.plan()?,
            value,
            settled: false,
            fastest: Nanos::MAX,
            quickest: Nanos::MAX,
            learned: None,
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
        let code = Plan::of(rival).code;
        let plan = |expected| Plan { code, ..Plan::new(rival.device, rival.kernel, rival.point, expected) };
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
    fn step(&mut self, calls: &[Nanos], decider: &Decider) -> Option<(Plan, Decision)> {
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
            if value == self.value || decider.verify_whole(&self.problem, &self.ladder[rung]).is_ok() {
                break rung;
            }
            value = self.resize.refuse();
        };
        let plan = self.plan_at(&self.ladder[rung]);
        self.has_changed().then(|| (plan, self.decided(self.rungs[rung].1)))
    }

    /// Whether what is in force is not what it should be.
    fn has_changed(&self) -> bool {
        (self.resize.value(), self.resize.settled()) != (self.value, self.settled)
    }

    /// The decision with that rival chosen, and what live calls told.
    fn decided(&mut self, rival: usize) -> Decision {
        let value = self.resize.value();
        let (from, gain) = self.resize.gain();
        let settled = self.resize.settled();
        if settled && from != value {
            self.learned = Some(ResizeStep::Settled { from, to: value, gain });
        }
        let step = match (settled, &self.learned) {
            (false, _) => ResizeStep::Trying(self.resize.why().to_string()),
            (true, Some(learned)) => learned.clone(),
            (true, None) => ResizeStep::Stays(value),
        };
        self.decision.with(Event::Resized { rival, axis: self.axis.clone(), step })
    }

    fn is_over(&self) -> bool {
        self.resize.settled() && self.resize.searches() >= MAX_SEARCHES
    }
}

/// The values of one axis that nothing speaks against, each with the rival that differs least from the winner otherwise: all
/// other axes are held where that is legal. Some settings go together, as one thread and no split.
fn rungs(decision: &Decision, winner: &Rival, axis: usize) -> Vec<(u32, usize)> {
    let apart = |rival: usize| {
        let values = decision.rivals[rival].point.values().iter().zip(winner.point.values()).enumerate();
        values.filter(|(at, (own, other))| *at != axis && own != other).count()
    };
    let mut rungs: Vec<(u32, usize)> = Vec::new();
    for (index, rival) in decision.rivals.iter().enumerate() {
        let same = (rival.device, rival.kernel) == (winner.device, winner.kernel);
        let Some(&value) = rival.point.values().get(axis).filter(|_| same && rival.is_open()) else {
            continue;
        };
        match rungs.iter_mut().find(|rung| rung.0 == value) {
            Some(rung) if apart(index) < apart(rung.1) => rung.1 = index,
            Some(_) => (),
            None => rungs.push((value, index)),
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

    /// Whether a width is being looked for with the plan of that number.
    pub(crate) fn works_on(&self, id: u32) -> bool {
        let begun = self.begun.lock().is_ok_and(|begun| begun.iter().any(|live| live.plan.id == id));
        begun
            || self.lives.lock().is_ok_and(|lives| lives.get(&id).is_some_and(|live| !live.resize.settled()))
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
        decider: &Decider,
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
            if let Some((plan, decision)) = live.step(&calls, decider) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Scope;
    use crate::plan::Standing;
    use trimtab_core::{Custom, KernelId, KernelVersion, Patience, Point, Terms, VariantClass, Work};

    fn rival(kernel: u32, point: &[u32], standing: Standing) -> Rival {
        Rival {
            device: 0,
            device_id: "cpu".into(),
            kernel: KernelId(kernel),
            name: "kernel".into(),
            version: KernelVersion::from("1"),
            class: VariantClass::Tiled,
            point: Point::new(point),
            point_name: format!("{point:?}"),
            work: Work::default(),
            transfer: Nanos(0),
            build: Nanos(0),
            energy_uj: None,
            implausible: None,
            standing,
        }
    }

    #[test]
    fn other_axes_are_held_where_that_is_legal_and_who_is_out_is_not_tried() {
        let open = || Standing::Unconsidered;
        let rivals = vec![
            rival(0, &[2, 1, 7], open()),
            rival(0, &[1, 0, 9], open()),
            rival(0, &[1, 0, 7], open()),
            rival(0, &[4, 2, 7], open()),
            rival(0, &[4, 1, 7], open()),
            rival(0, &[8, 1, 7], Standing::Excluded("too many".to_string())),
            rival(1, &[16, 1, 7], open()),
        ];
        let problem = Custom::new("p", &[1]).unwrap().into();
        let decision = Decision::new(problem, Terms::default(), Scope::default(), rivals, Patience::Estimate);
        let winner = decision.winner().unwrap();
        assert_eq!(rungs(&decision, winner, 0), [(2, 0), (1, 2), (4, 4)]);
        assert_eq!(rungs(&decision, winner, 2), [(7, 0), (9, 1)]);
        assert_eq!(rungs(&decision, winner, 3), []);
    }
}
