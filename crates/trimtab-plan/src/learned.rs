//! The stage that predicts: choice, expected loss and shortlist by what was learned of other problems, and the words for it.

use crate::decide::{Ask, Decider, Deciding};
use crate::event::Event;
use crate::experience::Effort;
use crate::field;
use crate::plan::{Reason, Rival};
use crate::planner::Planner;
use crate::record::Decision;
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

    /// What a learned choice rests on, and the sizes at which it would change, in words.
    pub(crate) fn grounds(&self, record: &Decision) -> Vec<String> {
        let Some(winner) = record.winner().filter(|_| record.reason == Reason::Learned) else {
            return Vec::new();
        };
        let (device, at, problem) = (winner.device, (winner.kernel, winner.point), &record.problem);
        let Some(trained) = self.experience.training.about(device, problem, true) else { return Vec::new() };
        let labels: Vec<String> =
            trained.rivals.iter().map(|rival| self.label(device, problem, rival)).collect();
        let names: Vec<&str> = labels.iter().map(String::as_str).collect();
        // The model that decided, also where another has taken its place.
        let decided = record.events.iter().rev().find_map(|event| match event {
            Event::Predicted { model, .. } => Some(model.clone()),
            _ => None,
        });
        let mut grounds = vec![decided.unwrap_or_else(|| trained.grounds())];
        grounds.extend(trained.learned.model().explain(&trained.at(problem), &names));
        grounds.extend(self.turns(&trained, problem, at, &labels));
        grounds
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

impl Deciding<'_> {
    /// What was learned says about the rivals of a device; `None` where too few problems were measured, or something else than
    /// time counts.
    fn advice(&self, device: u16, waits: bool) -> Option<Advised> {
        let Decision { problem, rivals: all, terms, .. } = &self.record;
        if terms.objective != Objective::default() {
            return None;
        }
        let trained = self.by.experience.training.about(device, problem, waits)?;
        let position = |rival: &(KernelId, Point)| {
            all.iter().position(|other| {
                other.device == device && (other.kernel, other.point) == *rival && other.is_open()
            })
        };
        let places: Vec<Option<usize>> = trained.rivals.iter().map(position).collect();
        let advice = trained.advise(problem, |rival| places[rival].is_some())?;
        let choice = places[advice.rival]?;
        let least = advice.log2[advice.rival];
        let rivals = places.iter().zip(&advice.log2);
        let rivals: Vec<(usize, f64)> =
            rivals.filter_map(|(place, log2)| Some(((*place)?, log2 - least))).collect();
        let limit = all[choice].estimate()?.time.0 as f64 * HOPELESS;
        let is_new = |rival: &Rival| {
            let hopeful = rival.estimate().is_some_and(|estimate| (estimate.time.0 as f64) < limit);
            rival.device == device && hopeful && !trained.kernels.contains(&rival.kernel)
        };
        let knows = trained.reaches(problem) && !all.iter().any(is_new);
        Some(Advised { choice, loss: advice.loss, rivals, knows, trained })
    }

    /// Replaces estimates of rivals nobody measured on this problem by what was learned, at the level of the fits.
    fn take_up(&mut self, advised: &Advised) {
        let Decision { rivals, terms, .. } = &mut self.record;
        let time = |rival: &Rival| rival.estimate().map(|estimate| (estimate.time.0.max(1) as f64).log2());
        let mut levels: Vec<f64> =
            advised.rivals.iter().filter_map(|&(index, log2)| Some(time(&rivals[index])? - log2)).collect();
        levels.sort_by(f64::total_cmp);
        let Some(level) = levels.get(levels.len() / 2).copied() else { return };
        for &(index, log2) in &advised.rivals {
            let rival = &mut rivals[index];
            if rival.is_measured() {
                continue;
            }
            let estimate = Estimate {
                time: Nanos((level + log2).exp2().max(1.0) as u64),
                spread_log2: advised.trained.learned.error_log2(),
                basis: Basis::Learned(u32::try_from(advised.trained.learned.problems()).unwrap_or(u32::MAX)),
            };
            rival.standing = self.by.experience.standing(rival, terms, estimate);
        }
    }

    /// Whether what was learned has a say in a decision made like this.
    fn may_learn(&self) -> bool {
        let in_a_call = match self.ask.patience {
            Patience::Off | Patience::Exhaustive => false,
            Patience::Estimate => true,
            // Whoever asked for tuning, or named a strategy, wants it.
            Patience::Measure => self.ask.accept_partial && self.ask.goal.strategy.is_none(),
        };
        // A verdict that does not count any more was challenged by something new: that is measured. Rivals measured on this very
        // problem, other than by live calls of one plan, are better known than any model says.
        let measured = self.record.rivals.iter().filter(|rival| rival.is_measured());
        in_a_call && self.verdict.is_none() && measured.count() <= 1
    }

    /// Whether no other device is in the running: how fast one is against another is measured, not learned.
    fn is_alone(&self, device: u16) -> bool {
        !self.record.rivals.iter().any(|rival| rival.device != device && rival.is_open())
    }

    /// Takes up what was learned where it may have a say; nothing is chosen.
    pub(crate) fn take_up_learned(&mut self) {
        let device = self.order.first().map_or(0, |(at, _)| *at);
        if self.may_learn()
            && let Some(advised) = self.advice(device, true).filter(|advised| advised.knows)
            && self.is_alone(device)
        {
            self.take_up(&advised);
        }
    }

    /// Decides by what was learned of other problems, if that is enough: for a call that may measure, if the expected loss is small;
    /// for one that may not, if the model knows such problems at all.
    pub(crate) fn predict(&mut self) -> bool {
        let device = self.order.first().map_or(0, |(at, _)| *at);
        // A call that may measure does not wait for a model to be fitted, nor does one in a hurry.
        let hurried = self.measures() || self.ask.terms.constraints.latency_max.is_some();
        let waits = !hurried || self.ask.dry;
        while self.may_learn() {
            let Some(advised) = self.advice(device, waits) else { return false };
            let sure = self.ask.patience <= Patience::Estimate || advised.loss <= SURE;
            let is_enough = advised.knows && sure && !(self.ask.dry && self.incumbent.is_some());
            if !is_enough {
                if self.ask.dry {
                    self.take_up_learned();
                }
                return false;
            }
            if self.measures() {
                (1..self.order.len()).for_each(|turn| self.estimate_device(turn, Effort::Model));
            }
            if !self.is_alone(device) {
                return false;
            }
            let choice = advised.choice;
            if !self.record.rivals[choice].is_measured() && !self.verify(choice) {
                continue;
            }
            self.take_up(&advised);
            // At its learned time it may break a limit.
            if self.record.rivals[choice].estimate().is_none() {
                continue;
            }
            let model = advised.trained.grounds();
            self.record.apply(Event::Predicted { rival: choice, model, loss: advised.loss });
            if self.ask.dry {
                self.record.apply(Event::Foreseen);
            }
            return true;
        }
        false
    }

    /// The rivals a model expects to be fastest on a device, for a call that has little time to race; nothing where it does not
    /// know such problems.
    pub(crate) fn shortlist(&self, device: u16) -> Option<Vec<usize>> {
        let Ask { accept_partial, patience, goal, .. } = &self.ask;
        if !accept_partial || *patience != Patience::Measure || goal.strategy.is_some() {
            return None;
        }
        let mut advised = self.advice(device, false).filter(|advised| advised.knows)?;
        advised.rivals.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut list: Vec<usize> = advised.rivals.iter().take(SHORTLIST).map(|(index, _)| *index).collect();
        list.sort_unstable();
        (list.len() >= 2).then_some(list)
    }

    /// What the decision is expected to lose, where that can be said.
    pub(crate) fn expected_loss(&self) -> Option<f64> {
        let indifference = self.ask.rules.indifference;
        match self.record.reason {
            Reason::Learned => self.record.expected_loss,
            Reason::Remembered | Reason::Raced if self.record.complete => Some(indifference),
            Reason::KeptIncumbent if self.record.complete => Some(indifference.max(self.by.switch_margin)),
            Reason::Estimated | Reason::NextBest => by_spreads(&self.record),
            _ => None,
        }
    }
}

/// What the best score is expected to lose by the spreads of the estimates: the most any one rival may gain on it.
fn by_spreads(record: &Decision) -> Option<f64> {
    let winner = record.winner()?;
    let own = winner.estimate().filter(|estimate| estimate.spread_log2.is_finite())?;
    let gains = record.rivals.iter().filter(|rival| !std::ptr::eq(*rival, winner)).filter_map(|rival| {
        let spread = own.spread_log2.hypot(rival.estimate()?.spread_log2).max(1e-3);
        let ahead = (rival.rank() - winner.rank()) / spread;
        // The mean of what a normal number is above zero, by the logistic curve.
        Some((1.0 + (-1.702 * ahead).exp()).ln() / 1.702 * spread)
    });
    let gain = gains.fold(0.0, f64::max);
    gain.is_finite().then(|| gain.exp2() - 1.0)
}

/// With this many measured problems of a family a model may decide.
pub const ENOUGH_PROBLEMS: usize = FEWEST_ROWS;
