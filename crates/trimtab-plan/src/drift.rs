//! Drift: a kernel whose calls take another time than before is measured again beside the next best; its plan changes only if
//! their order has.

use crate::decide::fact_key;
use crate::event::Event;
use crate::guard::Guarded;
use crate::plan::Plan;
use crate::planner::Inner;
use crate::record::Decision;
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use trimtab_core::{Condition, Nanos, Problem};
use trimtab_model::learn::{Change, Watch};
use trimtab_tune::{Budget, Candidate, Rules, race};
use trimtab_wisdom::{Filter, Outcome, Stats};

/// Calls a plan is known by: its usual time is the middle of so many.
const FIRST_CALLS: usize = 8;
/// After a plan was left, and where no call may try whether it is as fast again, it is measured again after so many timed calls, then
/// after twice as many, and so on.
const BACK_AFTER: usize = 128;
/// Rivals measured, the one in force included.
const MEASURED: usize = 3;
/// Samples of each, and the fewest the budget must have time for.
const SAMPLES: u32 = 6;
const FEWEST_SAMPLES: u64 = 2;
/// Times one plan is measured again: what keeps moving is not worth following.
const MAX_AGAIN: u32 = 16;
/// Plans watched; more keep what they have.
const MAX_WATCHED: usize = 4096;

/// The last calls of a plan.
#[derive(Default)]
struct Watched {
    last: [f64; FIRST_CALLS],
    seen: usize,
    /// Its place in the watch, once its usual time is known.
    key: Option<usize>,
    again: u32,
    /// Calls after which the one it took the place of is measured again.
    back_at: Option<usize>,
}

impl Watched {
    fn middle(&self) -> f64 {
        let mut last = self.last;
        let last = &mut last[..self.seen.clamp(1, FIRST_CALLS)];
        last.sort_by(f64::total_cmp);
        last[(last.len() - 1) / 2]
    }
}

#[derive(Default)]
struct Watching {
    watch: Watch,
    plans: FxHashMap<u32, Watched>,
}

/// Watches the plans in force. Only draining comes here.
#[derive(Default)]
pub(crate) struct Drifts(Mutex<Watching>);

impl Drifts {
    /// What calls of a plan took in other processes is what it is known for, where that were enough.
    pub(crate) fn knows(&self, id: u32, live: &Stats) {
        let Ok(mut state) = self.0.lock() else { return };
        let Watching { watch, plans } = &mut *state;
        if live.n >= FIRST_CALLS as u64 && plans.len() < MAX_WATCHED && !plans.contains_key(&id) {
            // What disturbs only adds: most calls lie between the shortest and the mean.
            let usual = 0.5 * (live.min_ns + live.mean());
            let key = Some(watch.track(usual * watch.slower_by()));
            plans.insert(id, Watched { key, ..Watched::default() });
        }
    }

    /// The plan took the place of another that had become slower and may become as fast again.
    fn came_instead(&self, id: u32) {
        if let Ok(mut state) = self.0.lock() {
            let plan = state.plans.entry(id).or_default();
            plan.back_at = Some(plan.seen + BACK_AFTER);
        }
    }

    /// Takes in live calls; a plan that takes another time than known, what the whole machine does divided out.
    fn ran(&self, calls: &FxHashMap<u32, Vec<u64>>) -> Option<(u32, Change)> {
        let Ok(mut state) = self.0.lock() else { return None };
        let Watching { watch, plans } = &mut *state;
        let mut noticed = None;
        // In a fixed order: what the machine does is judged by the order in which plans ran.
        let mut ids: Vec<u32> = calls.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if plans.len() >= MAX_WATCHED && !plans.contains_key(&id) {
                continue;
            }
            let plan = plans.entry(id).or_default();
            for &ns in calls.get(&id).into_iter().flatten() {
                plan.last[plan.seen % FIRST_CALLS] = ns as f64;
                plan.seen += 1;
                match plan.key {
                    None if plan.seen >= FIRST_CALLS => plan.key = Some(watch.track(plan.middle())),
                    None => (),
                    Some(key) => {
                        let change = watch.ran(key, ns as f64);
                        noticed =
                            change.filter(|_| plan.again < MAX_AGAIN).map(|change| (id, change)).or(noticed);
                    }
                }
            }
            if let Some(at) = plan.back_at.filter(|at| plan.seen >= *at) {
                plan.back_at = Some(2 * at);
                noticed = noticed.or(Some((id, Change { factor: 1.0 })));
            }
        }
        noticed
    }

    /// What the last calls of a plan took.
    fn now(&self, id: u32) -> f64 {
        self.0.lock().ok().and_then(|state| Some(state.plans.get(&id)?.middle())).unwrap_or(0.0)
    }

    /// A change was looked into: the plan's last calls are what it is known for.
    fn settle(&self, id: u32) {
        let Ok(mut state) = self.0.lock() else { return };
        let Watching { watch, plans } = &mut *state;
        if let Some(plan) = plans.get_mut(&id) {
            plan.again += 1;
            if let Some(key) = plan.key {
                watch.known(key, plan.middle());
            }
        }
    }

    pub(crate) fn clear(&self) {
        if let Ok(mut state) = self.0.lock() {
            *state = Watching::default();
        }
    }
}

impl Inner {
    /// Gives live calls to the watch, and looks into what it notices: one plan at a time.
    pub(crate) fn watch(&self, calls: &FxHashMap<u32, Vec<u64>>) {
        let Some((id, change)) = self.drifts.ran(calls) else { return };
        let Some((problem, terms, plan)) = self.table.in_force(id) else { return self.drifts.settle(id) };
        if self.resizes.works_on(id) {
            return;
        }
        // Whoever decides now goes first; it is noticed again with the next call.
        let Ok(_guard) = self.deciding.try_lock() else { return };
        if change.factor != 1.0 {
            self.live_counts.count(|counts| counts.noticed += 1);
        }
        if self.measure_again(&problem, terms, &plan, change).is_none() {
            self.drifts.settle(id);
        }
    }

    /// Measures the plan in force side by side with the next best, or lets calls try them where that would take too long in the
    /// background. `None` if nothing is to change, or nothing can be done.
    fn measure_again(&self, problem: &Problem, terms: TermsId, plan: &Plan, change: Change) -> Option<()> {
        let mut decision = self.survey(self.record(problem, terms).ok()?.as_ref());
        let device = self.decider.devices.get(plan.device)?;
        let facts = device.facts();
        let own = decision.rivals.iter().position(|rival| plan.runs(rival))?;
        let rivals = beside(&decision, own);
        // What was known of them, before it is replaced.
        let known: Vec<Option<f64>> = rivals
            .iter()
            .map(|&index| &decision.rivals[index])
            .map(|rival| {
                rival.estimate().filter(|_| rival.is_measured()).map(|estimate| estimate.time.0 as f64)
            })
            .collect();
        let recorded = facts.habits.recorded;
        let given = self.settings.budget;
        let least = self.drifts.now(plan.id) * (FEWEST_SAMPLES * rivals.len() as u64) as f64;
        if least > given.0 as f64 {
            self.open(terms, &Arc::new(decision.with(Event::Drifting { factor: change.factor })), *plan);
            return None;
        }
        let budget = if recorded { Budget::recorded(given) } else { Budget::time(given) };
        let bench = device.bench(problem, budget.left()).ok()?;
        let mut bench = Guarded::new(bench, *problem, &self.decider.wisdom, device.as_ref());
        let candidates: Vec<Candidate> = rivals
            .iter()
            .map(|&index| &decision.rivals[index])
            .map(|rival| Candidate { kernel: rival.kernel, point: rival.point, expected: None })
            .collect();
        let rules = Rules {
            dropping: false,
            min_samples: SAMPLES,
            max_samples: SAMPLES,
            timeout: self.settings.rules.timeout.min(given),
            precision: self.settings.rules.precision.or(recorded.then_some(Nanos(0))),
            ..self.settings.rules.clone()
        };
        let report = race(&mut bench, &candidates, Some(0), &rules, &budget, &mut |_| ());
        let least = |at: usize| {
            report.rivals.iter().find(|raced| raced.candidate == at).and_then(|raced| raced.min())
        };
        let ns = least(0)?;
        let (next, next_ns) =
            (1..rivals.len()).filter_map(|at| Some((at, least(at)?))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        // A machine that is slow does not move them apart, and chance only a little.
        let apart = match (known[0], known[next]) {
            (Some(own), Some(other)) if own > 0.0 && other > 0.0 => (ns / next_ns) / (own / other),
            _ => ns / next_ns,
        };
        let overtaken = next_ns * (1.0 + self.settings.switch_margin) < ns && apart >= MOVED;
        let moved = if change.factor < 1.0 { 1.0 / apart } else { apart };
        if !overtaken && (moved < MOVED || change.factor == 1.0) {
            return None;
        }
        self.live_counts.count(|counts| counts.confirmed += 1);
        let condition = device.state().condition(facts.cores.unwrap_or(facts.threads));
        if overtaken && condition == Condition::Quiet {
            // What was measured before says something else; kept, it would be believed again in the next process.
            self.decider.wisdom.forget(&Filter {
                device: Some(facts.fingerprint.0.clone()),
                kernel: Some(decision.rivals[own].name.to_string()),
                problem: Some(problem.to_string()),
                ..Filter::default()
            });
        }
        let drifted = fact_key(device.as_ref(), problem, &decision.rivals[own], Condition::Drifted);
        self.decider.wisdom.record(drifted, Outcome::Timed(Stats::single(ns)));
        if !overtaken {
            return None;
        }
        self.decider.note(&mut decision, &rivals, &report);
        // It may break a limit.
        let chosen = rivals[next];
        decision.rivals[chosen].estimate()?;
        let [old, new] = [own, chosen].map(|index| decision.rivals[index].label());
        // Not settled for good: calls try whether the other is as fast again.
        decision.apply(Event::Drifted { rival: chosen, factor: change.factor, old, new });
        let next = self.table.replace(problem, terms, plan.id, decision.plan()?)?;
        self.decider.remember(&decision, Nanos(0));
        let decision = Arc::new(decision);
        self.changed(&next, &decision);
        self.keep(problem, terms, &next, Arc::clone(&decision));
        self.drifts.settle(plan.id);
        if !self.explores() && change.factor != 1.0 {
            self.drifts.came_instead(next.id);
        }
        self.open(terms, &decision, next);
        self.live_counts.count(|counts| counts.changed += 1);
        Some(())
    }
}

/// How far two rivals must have moved apart for a change to count as confirmed.
const MOVED: f64 = 1.1;

/// The one in force and the next best on its device.
fn beside(decision: &Decision, own: usize) -> Vec<usize> {
    let device = decision.rivals[own].device;
    let open = |index: &usize| {
        let rival = &decision.rivals[*index];
        *index != own && rival.device == device && rival.estimate().is_some()
    };
    let mut others: Vec<usize> = (0..decision.rivals.len()).filter(open).collect();
    others.sort_by(|&a, &b| decision.rivals[a].rank().total_cmp(&decision.rivals[b].rank()));
    std::iter::once(own).chain(others).take(MEASURED).collect()
}
