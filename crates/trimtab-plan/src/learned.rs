//! Deciding by what was learned of other problems: choice, expected loss, shortlist, and the words for it.

use crate::decide::{Ask, Decider, is_measured, total};
use crate::experience::Effort;
use crate::field;
use crate::offload::is_open;
use crate::plan::{Decision, Reason, Rival};
use crate::planner::Planner;
use crate::table::TermsId;
use crate::training::{Collected, FEWEST_ROWS, Trained};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use trimtab_core::{Basis, Estimate, KernelId, Matmul, Nanos, Objective, Patience, Point, Problem};
use trimtab_model::learn::{Learned, ModelChoice, ModelKind, Table};

/// A choice expected to lose no more than this is not measured.
const SURE: f64 = 0.02;
/// Rivals raced where the model is not sure.
const SHORTLIST: usize = 3;
/// A kernel nobody has measured on problems of this family is raced, unless its estimate is so many times the choice's.
const HOPELESS: f64 = 2.0;
/// Doublings of a size looked at to say where a choice would change.
const WALK: u32 = 6;
/// The most sizes a walk goes to.
const LARGEST: u64 = 1 << 24;

/// What a model says about a decision's rivals on one device.
struct Advised {
    trained: Arc<Trained>,
    /// Position of the choice among the decision's rivals.
    choice: usize,
    loss: f64,
    /// Positions of the trained's rivals, where they are in the running, and log2 of their time over the best's.
    rivals: Vec<(usize, f64)>,
    /// Whether sizes like this were measured and no kernel is new to it.
    knows: bool,
}

/// What a call would choose by what was learned.
pub(crate) struct Foreseen {
    /// Position among the decision's rivals.
    pub choice: usize,
    /// What it is expected to lose.
    pub loss: f64,
    /// Whether a call would go by it.
    pub enough: bool,
}

/// Measured problems of one family on one device, as models see them.
#[derive(Clone, Debug)]
pub struct TrainingTable {
    /// Position in the planner's list of devices.
    pub device: u16,
    /// What the problems have in common: their text without sizes.
    pub family: String,
    /// The problems, a row of the table each.
    pub problems: Vec<Problem>,
    /// The rivals that matter, a column each: kernel and settings by name.
    pub rivals: Vec<String>,
    /// Their times.
    pub table: Table,
    /// The rivals as the device knows them.
    at: Vec<(KernelId, Point)>,
    /// The times with ties, as calls learn them.
    tied: Table,
    model: ModelChoice,
}

impl TrainingTable {
    /// A model fitted to these times, rivals within the noise of the best as fast as it: the one chosen if that is quick, else the
    /// default.
    pub fn learn(&self) -> Option<Learned> {
        self.judge(self.model.at_once().0)
    }

    /// A model of that kind, as calls would learn it.
    pub fn judge(&self, kind: ModelKind) -> Option<Learned> {
        Learned::fit(kind, &self.tied, field::seed(&[&self.family]))
    }

    /// Which of these calls go by, once [`ENOUGH_PROBLEMS`] were measured and there was time to compare: a position, if it is one of them.
    pub fn in_use(&self, judged: &[Learned]) -> Option<usize> {
        let of = |name: &str| judged.iter().position(|learned| learned.model().name() == name);
        match &self.model {
            _ if self.problems.len() < ENOUGH_PROBLEMS => None,
            ModelChoice::Auto => Learned::least(judged),
            ModelChoice::Kind(kind) => of(kind.name()),
            ModelChoice::Custom(_) => None,
        }
    }
}

impl Planner {
    /// What there is to learn from: the measured problems, by device and family, of every family with at least `fewest`.
    pub fn training_tables(&self, fewest: usize) -> Vec<TrainingTable> {
        let decider = self.decider();
        for device in 0..decider.devices.own().len() {
            decider.experience.load(&decider.devices, device as u16, &decider.wisdom);
        }
        let tables = decider.experience.training.tables(fewest).into_iter();
        tables
            .map(|(device, family, collected)| {
                let Collected { table, tied, problems, rivals, .. } = collected;
                let names = |problem: &Problem| {
                    rivals.iter().map(|rival| decider.label(device, problem, rival)).collect()
                };
                let names = problems.first().map(names).unwrap_or_default();
                let model = decider.experience.training.model.clone();
                TrainingTable { device, family, problems, rivals: names, table, at: rivals, tied, model }
            })
            .collect()
    }

    /// Fits the model that decides about problems of this family, as the background does after a call: for whoever would rather wait
    /// than see what decides until then.
    pub fn learn_now(&self, problem: &Problem) {
        let decider = self.decider();
        for device in 0..decider.devices.own().len() as u16 {
            decider.experience.load(&decider.devices, device, &decider.wisdom);
            decider.experience.training.catch_up_now(device, problem);
        }
    }

    /// Which of the rivals take a problem, under the terms of a call that says nothing else: those whose kernel does not decline
    /// it and whose settings are legal for it.
    pub fn takes(&self, training_table: &TrainingTable, problem: &Problem) -> Vec<bool> {
        let decider = self.decider();
        let Some(device) = decider.devices.get(training_table.device) else {
            return vec![false; training_table.at.len()];
        };
        let (terms, _) = self.given(TermsId::default());
        // Settings of one kernel stand together more often than not: its space is built once.
        let mut spaces: FxHashMap<KernelId, Option<FxHashSet<Point>>> = FxHashMap::default();
        let mut takes = |(kernel, point): &(KernelId, Point)| {
            let space = spaces.entry(*kernel).or_insert_with(|| {
                let open = device.declines(*kernel, problem).is_none();
                open.then(|| device.space(*kernel, problem).points().iter().copied().collect())
            });
            let legal = space.as_ref().is_some_and(|points| points.contains(point));
            legal && terms.constraints.excludes(&device.work(*kernel, problem, point), None).is_none()
        };
        training_table.at.iter().map(&mut takes).collect()
    }
}

impl Decider {
    /// A rival by name and settings.
    fn label(&self, device: u16, problem: &Problem, rival: &(KernelId, Point)) -> String {
        let Some(device) = self.devices.get(device) else { return String::new() };
        let name = device.kernels().get(rival.0.0 as usize).map_or("", |info| info.name.as_str());
        match device.space(rival.0, problem).name(&rival.1).as_str() {
            "" | "-" => name.to_string(),
            point => format!("{name}@{point}"),
        }
    }

    /// What was learned says about the rivals of a device; `None` where too few problems were measured, or something else than
    /// time counts.
    fn advice(&self, decision: &Decision, device: u16, waits: bool) -> Option<Advised> {
        if decision.terms.objective != Objective::default() {
            return None;
        }
        let problem = &decision.problem;
        let trained = self.experience.training.about(device, problem, waits)?;
        let position = |rival: &(KernelId, Point)| {
            decision.rivals.iter().position(|other| {
                other.device == device && (other.kernel, other.point) == *rival && is_open(other)
            })
        };
        let places: Vec<Option<usize>> = trained.rivals.iter().map(position).collect();
        let advice = trained.advise(problem, |rival| places[rival].is_some())?;
        let choice = places[advice.rival]?;
        let least = advice.log2[advice.rival];
        let rivals = places.iter().zip(&advice.log2);
        let rivals: Vec<(usize, f64)> =
            rivals.filter_map(|(place, log2)| Some(((*place)?, log2 - least))).collect();
        let limit = decision.rivals[choice].estimate()?.time.0 as f64 * HOPELESS;
        let is_new = |rival: &Rival| {
            let hopeful = rival.estimate().is_some_and(|estimate| (estimate.time.0 as f64) < limit);
            rival.device == device && hopeful && !trained.kernels.contains(&rival.kernel)
        };
        let knows = trained.reaches(problem) && !decision.rivals.iter().any(is_new);
        Some(Advised { choice, loss: advice.loss, rivals, knows, trained })
    }

    /// Replaces estimates of rivals nobody measured on this problem by what was learned, at the level of the fits.
    fn take_up(&self, decision: &mut Decision, advised: &Advised) {
        let time = |index: usize| {
            decision.rivals[index].estimate().map(|estimate| (estimate.time.0.max(1) as f64).log2())
        };
        let mut levels: Vec<f64> =
            advised.rivals.iter().filter_map(|&(index, log2)| Some(time(index)? - log2)).collect();
        levels.sort_by(f64::total_cmp);
        let Some(level) = levels.get(levels.len() / 2).copied() else { return };
        for &(index, log2) in &advised.rivals {
            if is_measured(&decision.rivals[index]) {
                continue;
            }
            let estimate = Estimate {
                time: Nanos((level + log2).exp2().max(1.0) as u64),
                spread_log2: advised.trained.learned.error_log2(),
                basis: Basis::Learned(u32::try_from(advised.trained.learned.problems()).unwrap_or(u32::MAX)),
            };
            decision.rivals[index].standing =
                self.experience.standing(&decision.rivals[index], &decision.terms, estimate);
        }
    }

    /// Whether what was learned has a say in a decision made like this.
    fn may_learn(decision: &Decision, ask: &Ask<'_>) -> bool {
        let in_a_call = match ask.patience {
            Patience::Off | Patience::Exhaustive => false,
            Patience::Estimate => true,
            // Whoever asked for tuning, or named a strategy, wants it.
            Patience::Measure => ask.accept_partial && ask.goal.strategy.is_none(),
        };
        // Rivals measured on this very problem, other than by live calls of one plan, are better known than any model says.
        in_a_call && decision.rivals.iter().filter(|rival| is_measured(rival)).count() <= 1
    }

    /// Whether advice is enough to decide by: for a call that may measure, if the expected loss is small; for one that may
    /// not, if the model knows such problems at all.
    fn is_enough(advised: &Advised, ask: &Ask<'_>) -> bool {
        advised.knows && (ask.patience <= Patience::Estimate || advised.loss <= SURE)
    }

    /// Decides by what was learned, without measuring, if that is enough.
    pub(crate) fn settle_learned(&self, decision: &mut Decision, ask: &Ask<'_>) -> bool {
        let device = self.device_order(&ask.scope).first().copied().unwrap_or(0);
        // A call that may measure does not wait for a model to be fitted, nor does one in a hurry.
        let waits = ask.patience <= Patience::Estimate && ask.terms.constraints.latency_max.is_none();
        loop {
            if !Decider::may_learn(decision, ask) {
                return false;
            }
            let Some(advised) = self.advice(decision, device, waits) else { return false };
            if !Decider::is_enough(&advised, ask) {
                return false;
            }
            let others = self.device_order(&ask.scope).into_iter().filter(|&other| other != device);
            if ask.patience > Patience::Estimate {
                others.for_each(|other| self.estimate_device(decision, other, Effort::Model));
            }
            if !is_alone(decision, device) {
                return false;
            }
            let choice = advised.choice;
            if !is_measured(&decision.rivals[choice]) && !self.verify(decision, choice) {
                continue;
            }
            self.take_up(decision, &advised);
            // At its learned time it may break a limit.
            if decision.rivals[choice].estimate().is_none() {
                continue;
            }
            decision.chosen = choice;
            decision.reason = Reason::Learned;
            decision.expected_loss = Some(advised.loss);
            return true;
        }
    }

    /// What [`settle_learned`](Decider::settle_learned) would look at. Runs nothing; estimates of
    /// rivals nobody measured on this problem become what was learned.
    pub(crate) fn foresee(&self, decision: &mut Decision, ask: &Ask<'_>) -> Option<Foreseen> {
        let device = self.device_order(&ask.scope).first().copied()?;
        let advised = Some(())
            .filter(|()| Decider::may_learn(decision, ask))
            .and_then(|()| self.advice(decision, device, true))?;
        if !advised.knows || !is_alone(decision, device) {
            return None;
        }
        self.take_up(decision, &advised);
        let open = decision.rivals[advised.choice].estimate().is_some();
        let enough = Decider::is_enough(&advised, ask);
        open.then_some(Foreseen { choice: advised.choice, loss: advised.loss, enough })
    }

    /// The rivals a model expects to be fastest on a device, for a call that has little time to race; nothing where it does not
    /// know such problems.
    pub(crate) fn shortlist(&self, decision: &Decision, device: u16, ask: &Ask<'_>) -> Option<Vec<usize>> {
        if !ask.accept_partial || ask.patience != Patience::Measure || ask.goal.strategy.is_some() {
            return None;
        }
        let mut advised = self.advice(decision, device, false).filter(|advised| advised.knows)?;
        advised.rivals.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut list: Vec<usize> = advised.rivals.iter().take(SHORTLIST).map(|(index, _)| *index).collect();
        list.sort_unstable();
        (list.len() >= 2).then_some(list)
    }

    /// Says what a decision is expected to lose, where that can be said.
    pub(crate) fn expect_loss(&self, decision: &mut Decision, indifference: f64) {
        decision.expected_loss = match decision.reason {
            Reason::Learned => decision.expected_loss,
            Reason::Remembered | Reason::Raced if decision.complete => Some(indifference),
            Reason::KeptIncumbent if decision.complete => Some(indifference.max(self.switch_margin)),
            Reason::Estimated | Reason::NextBest => decision.expected_loss.or_else(|| by_spreads(decision)),
            _ => None,
        };
    }

    /// Fills in an explanation: what a learned choice rests on, and the sizes at which it would change.
    pub(crate) fn explain_learned(&self, decision: &mut Decision) {
        let Some(winner) = decision.winner() else { return };
        let (device, at) = (winner.device, (winner.kernel, winner.point));
        let problem = decision.problem;
        let Some(trained) = self.experience.training.about(device, &problem, true) else { return };
        let labels: Vec<String> =
            trained.rivals.iter().map(|rival| self.label(device, &problem, rival)).collect();
        let names: Vec<&str> = labels.iter().map(String::as_str).collect();
        let mut grounds = vec![trained.grounds()];
        grounds.extend(trained.learned.model().explain(&trained.at(&problem), &names));
        grounds.extend(self.turns(&trained, &problem, at, &labels));
        decision.grounds = grounds;
    }

    /// Where the choice would change if one size were doubled or halved a few times.
    fn turns(
        &self,
        trained: &Trained,
        problem: &Problem,
        at: (KernelId, Point),
        labels: &[String],
    ) -> Vec<String> {
        let mut turns = Vec::new();
        let Problem::Matmul(product) = *problem else { return turns };
        type Size = (&'static str, fn(&mut Matmul) -> &mut u64);
        let sizes: [Size; 3] = [("m", |p| &mut p.m), ("n", |p| &mut p.n), ("k", |p| &mut p.k)];
        for (name, size) in sizes {
            for grows in [true, false] {
                let mut walked = product;
                for _ in 0..WALK {
                    let value = size(&mut walked);
                    *value = if grows { *value * 2 } else { *value / 2 };
                    let value = *value;
                    let other = Problem::Matmul(walked);
                    if !(1..=LARGEST).contains(&value)
                        || field::family_of(&other) != field::family_of(problem)
                    {
                        break;
                    }
                    let Some(advice) = trained.advise(&other, |_| true) else { break };
                    if trained.rivals[advice.rival] != at {
                        let way = if grows { "from" } else { "down to" };
                        turns.push(format!("{way} {name} = {value} it would be {}", labels[advice.rival]));
                        break;
                    }
                }
            }
        }
        if turns.is_empty() {
            turns.push(format!("the same with any one size doubled or halved up to {WALK} times"));
        }
        turns
    }
}

/// Whether no other device is in the running: how fast one is against another is measured, not learned.
fn is_alone(decision: &Decision, device: u16) -> bool {
    !decision.rivals.iter().any(|rival| rival.device != device && is_open(rival))
}

/// What the best score is expected to lose by the spreads of the estimates: the most any one rival may gain on it.
fn by_spreads(decision: &Decision) -> Option<f64> {
    let winner = decision.winner()?;
    let own = winner.estimate().filter(|estimate| estimate.spread_log2.is_finite())?;
    let gains = decision.rivals.iter().filter(|rival| !std::ptr::eq(*rival, winner)).filter_map(|rival| {
        let spread = own.spread_log2.hypot(rival.estimate()?.spread_log2).max(1e-3);
        let ahead = (total(rival) - total(winner)) / spread;
        // The mean of what a normal number is above zero, by the logistic curve.
        Some((1.0 + (-1.702 * ahead).exp()).ln() / 1.702 * spread)
    });
    let gain = gains.fold(0.0, f64::max);
    gain.is_finite().then(|| gain.exp2() - 1.0)
}

/// With this many measured problems of a family a model may decide.
pub const ENOUGH_PROBLEMS: usize = FEWEST_ROWS;
