//! The record of a decision: its rivals, and the events of each stage in order. What came of it follows from the events alone.

use crate::devices::Scope;
use crate::event::Event;
use crate::goal::SearchGoal;
use crate::plan::{Plan, Reason, Rival, Standing};
use crate::strategy_name::StrategyName;
use crate::why::Why;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use trimtab_core::{Failure, Nanos, Patience, Problem, Terms};

/// Events a record keeps; of those that live calls add the oldest go first.
const MAX_EVENTS: usize = 128;

/// The record of a choice: every rival with its estimate, or why it is out, and what happened on the way to it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What was asked.
    pub problem: Problem,
    /// Under which terms.
    pub terms: Terms,
    /// Among which devices.
    pub(crate) scope: Scope,
    /// Every rival in order of preference; [`ranked`](Decision::ranked) has the best first.
    pub rivals: Vec<Rival>,
    /// Position of the chosen one.
    pub chosen: usize,
    /// Why it was chosen.
    pub reason: Reason,
    /// Which of the user's rules left rivals out, if one did.
    pub overruled: Option<Why>,
    /// How much effort was allowed.
    pub patience: Patience,
    /// Whether everything that patience asks for was measured.
    pub complete: bool,
    /// Whether the machine was busy while it was measured.
    pub busy: bool,
    /// Time spent deciding.
    pub spent: Nanos,
    /// Timed runs made for this decision.
    pub runs: u32,
    /// Points measured for this decision.
    pub evaluations: u32,
    /// What searched settings, and what ended it before everything was measured.
    pub(crate) ended_by: SearchGoal,
    /// What the choice is expected to lose against the best of all rivals, as a share: 0.02 is two per cent. Rivals that cannot be
    /// told apart for the noise of measuring count as equal. Absent where nothing can be said.
    pub expected_loss: Option<f64>,
    /// What happened, stage by stage.
    pub events: Vec<Event>,
}

impl Decision {
    /// A decision that is still to be made.
    pub(crate) fn new(
        problem: Problem,
        terms: Terms,
        scope: Scope,
        rivals: Vec<Rival>,
        patience: Patience,
    ) -> Decision {
        Decision {
            problem,
            terms,
            scope,
            rivals,
            chosen: 0,
            reason: Reason::Estimated,
            overruled: None,
            patience,
            complete: true,
            busy: false,
            spent: Nanos(0),
            runs: 0,
            evaluations: 0,
            ended_by: SearchGoal::default(),
            expected_loss: None,
            events: Vec::new(),
        }
    }

    /// Puts a rival out that failed.
    pub(crate) fn fail(&mut self, rival: usize, failure: &Failure) {
        let kernel = self.rivals.get(rival).map_or_else(String::new, Rival::label);
        self.apply(Event::Failed { rival, kernel, failure: failure.to_string() });
    }

    /// Appends an event and does what it says: nothing else changes what came of a decision.
    pub(crate) fn apply(&mut self, event: Event) {
        let before = self.chosen;
        match &event {
            Event::Disabled => self.overruled = Some(Why::Disabled),
            Event::LeftOut { .. } => self.overruled = Some(Why::Kernels),
            Event::Overruled { why, .. } => self.overruled = Some(*why),
            Event::NoPlace { .. } => {
                self.overruled =
                    self.overruled.filter(|why| !matches!(why, Why::Threshold | Why::SmallBatch));
            }
            Event::Recalled { rival, extent } => {
                (self.chosen, self.reason, self.complete) = (*rival, Reason::Remembered, !extent.partial);
                self.busy = extent.busy;
                self.ended_by = SearchGoal::of(extent);
            }
            Event::Predicted { rival, loss, .. } => {
                (self.chosen, self.reason) = (*rival, Reason::Learned);
                self.expected_loss = Some(*loss);
            }
            Event::Measuring { strategy } => self.ended_by.strategy = *strategy,
            Event::Busy { .. } => self.busy = true,
            Event::NotMeasured { .. }
            | Event::Shortlisted { .. }
            | Event::Untried { .. }
            | Event::Foreseen
            | Event::BudgetEnded { .. }
            | Event::FewRuns
            | Event::AwaitsBuild { .. }
            | Event::Drifting { .. } => self.complete = false,
            Event::Raced { runs, .. } => self.runs += runs,
            Event::EvalsEnded { evals } => self.ended_by.evals = Some(*evals),
            Event::GoodEnough { asked, .. } => self.ended_by.good_enough = Some(*asked),
            Event::Searched { strategy, runs, ended, .. } => {
                self.runs += runs;
                self.ended_by.strategy = Some(*strategy);
                self.complete &= !ended.is_early();
            }
            Event::Failed { rival, failure, .. } => {
                if let Some(rival) = self.rivals.get_mut(*rival) {
                    rival.standing = Standing::Quarantined(failure.clone());
                }
            }
            Event::Settled { rival, reason } => (self.chosen, self.reason) = (*rival, *reason),
            Event::PreferredUnmeasured { rival, .. } => {
                (self.chosen, self.reason) = (*rival, Reason::Estimated);
            }
            Event::Closed { spent_ns, evaluations, expected_loss } => {
                (self.spent, self.evaluations) = (Nanos(*spent_ns), *evaluations);
                self.expected_loss = *expected_loss;
            }
            Event::Explored { rival, .. } => {
                (self.chosen, self.reason, self.complete) = (*rival, Reason::Explored, false);
            }
            Event::Drifted { rival, .. } => {
                (self.chosen, self.reason, self.complete) = (*rival, Reason::Raced, false);
                self.expected_loss = None;
            }
            Event::Resized { rival, .. } if *rival != self.chosen => {
                (self.chosen, self.reason) = (*rival, Reason::Resized);
            }
            Event::Enumerated { .. }
            | Event::Unheeded { .. }
            | Event::Challenged { .. }
            | Event::Dominated { .. }
            | Event::NoRoofline { .. }
            | Event::NoEnergy
            | Event::Implausible { .. }
            | Event::NotExplored
            | Event::Retried { .. }
            | Event::Checked { .. }
            | Event::Surveyed
            | Event::Resized { .. } => (),
        }
        if event.is_live() {
            // What was expected of the choice before says nothing about another.
            self.expected_loss = self.expected_loss.filter(|_| self.chosen == before);
            let oldest = self.events.iter().position(Event::is_live);
            if let Some(oldest) = oldest.filter(|_| self.events.len() >= MAX_EVENTS) {
                self.events.remove(oldest);
            }
        }
        self.events.push(event);
    }

    /// The record with one more event.
    pub(crate) fn with(&self, event: Event) -> Decision {
        let mut next = self.clone();
        next.apply(event);
        next
    }

    /// Applies an event unless an equal one was already.
    pub(crate) fn apply_once(&mut self, event: Event) {
        if !self.events.contains(&event) {
            self.apply(event);
        }
    }

    /// What there is to say beside the choice, in sentences: why nothing was measured, what was kept back.
    pub fn notes(&self) -> Vec<String> {
        let later = |at: usize, event: &Event| self.events[at + 1..].iter().any(|next| next.replaces(event));
        let events = self.events.iter().enumerate().filter(|(at, event)| !later(*at, event));
        let unsure = self.unsure().map(|why| format!("provisional: {why}"));
        events.filter_map(|(_, event)| event.note()).chain(unsure).collect()
    }

    /// What accuracy has to do with it: which kernels the caller's tolerance opened, and which are kept out for want of one.
    pub fn accuracy(&self) -> Vec<String> {
        let mut lines: Vec<(String, usize)> = Vec::new();
        for rival in self.rivals.iter().filter(|rival| rival.work.error > 0.0) {
            let line = match &rival.standing {
                Standing::Excluded(reason) => format!("{} is kept out: {reason}", rival.name),
                Standing::Estimated { .. } => format!("{} is opened by the tolerance", rival.name),
                _ => continue,
            };
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, settings)) => *settings += 1,
                None => lines.push((line, 1)),
            }
        }
        let told = |(line, settings)| match settings {
            1 => format!("accuracy: {line}"),
            _ => format!("accuracy: {line} ({settings} settings)"),
        };
        lines.into_iter().map(told).collect()
    }

    /// The strategy that searched settings for this decision or for the one remembered, if one did or was asked to.
    pub fn strategy(&self) -> Option<StrategyName> {
        self.ended_by.strategy
    }

    /// How many legal points the kernels that take the problem have together.
    pub fn space(&self) -> usize {
        let legal = |rival: &&Rival| {
            !matches!(rival.standing, Standing::Declined(_) | Standing::Excluded(_) | Standing::Overruled(_))
        };
        self.rivals.iter().filter(legal).count()
    }

    /// The chosen rival.
    pub fn winner(&self) -> Option<&Rival> {
        self.rivals.get(self.chosen)
    }

    /// Whether it looked at its choice alone: what is remembered, or the first in order, was enough.
    pub fn is_narrow(&self) -> bool {
        self.rivals.iter().filter(|rival| rival.estimate().is_some()).count() < 2
    }

    /// The plan this decision puts in force.
    pub fn plan(&self) -> Option<Plan> {
        self.winner().map(Plan::of)
    }

    /// Every rival, best first, then those out of the running.
    pub fn ranked(&self) -> Vec<&Rival> {
        let mut ranked: Vec<&Rival> = self.rivals.iter().collect();
        ranked.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
        ranked
    }

    /// The best rival of each kernel, the chosen one first: what people want to see first.
    pub fn best_per_kernel(&self) -> Vec<&Rival> {
        let mut seen = Vec::new();
        let mut best: Vec<&Rival> = Vec::new();
        for rival in self.winner().into_iter().chain(self.ranked()) {
            if !seen.contains(&(rival.device, rival.kernel)) {
                seen.push((rival.device, rival.kernel));
                best.push(rival);
            }
        }
        best
    }
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut view = to.serialize_struct("Decision", 14)?;
        view.serialize_field("problem", &self.problem.to_string())?;
        view.serialize_field("terms", &self.terms.to_string())?;
        view.serialize_field("patience", self.patience.name())?;
        view.serialize_field("chosen", &self.chosen)?;
        view.serialize_field("reason", &self.reason)?;
        view.serialize_field("complete", &self.complete)?;
        view.serialize_field("busy", &self.busy)?;
        view.serialize_field("trust", self.trust().name())?;
        view.serialize_field("spent_ns", &self.spent.0)?;
        view.serialize_field("runs", &self.runs)?;
        view.serialize_field("evaluations", &self.evaluations)?;
        view.serialize_field("expected_loss", &self.expected_loss)?;
        view.serialize_field("rivals", &self.rivals)?;
        view.serialize_field("events", &self.events)?;
        view.end()
    }
}
