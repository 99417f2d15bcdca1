//! The stage that recalls: the winner of an earlier race, if it still counts. What was measured on a device holds for that device
//! whoever else is there, so each device has a verdict of its own beside that of all together.

use crate::decide::{Ask, Decider, Deciding, find_plan};
use crate::devices::Scope;
use crate::event::Event;
use crate::experience::Effort;
use crate::goal::satisfies;
use crate::offload::of_device;
use crate::plan::{Reason, Rival};
use crate::record::Decision;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use trimtab_core::{Nanos, Patience, VariantClass};
use trimtab_wisdom::{FactKey, Filter, Verdict, Wisdom};

/// The set of rivals of a verdict that is to be challenged: that of no race.
const UNKNOWN_RIVALS: u64 = 0;

/// Forgets facts where no planner is at work; says how many. The winner of a race that one of them was part of is challenged: it
/// stays remembered, and is raced again where measuring is allowed. A planner that is at work has [`Planner::forget`](crate::Planner::forget).
pub fn forget(wisdom: &Wisdom, filter: &Filter) -> usize {
    // A filter that says nothing matches nothing, and is not written down either.
    if *filter == Filter::default() {
        return 0;
    }
    let keys = || wisdom.all_facts().into_iter().map(|fact| fact.key).collect::<BTreeSet<FactKey>>();
    wisdom.reload();
    let before = keys();
    let count = wisdom.forget(filter);
    let lost: FxHashSet<String> = before.difference(&keys()).map(|key| key.problem.to_string()).collect();
    for verdict in wisdom.verdicts().into_iter().filter(|verdict| lost.contains(&verdict.problem)) {
        wisdom.decide(Verdict { candidates: UNKNOWN_RIVALS, ..verdict });
    }
    count
}

impl Decider {
    /// The rival a verdict names.
    fn find(&self, rivals: &[Rival], verdict: &Verdict) -> Option<usize> {
        let on = |rival: &Rival| {
            let device = self.devices.get(rival.device);
            verdict.on.is_empty() || device.is_some_and(|device| device.facts().fingerprint.0 == verdict.on)
        };
        rivals.iter().position(|rival| {
            *rival.name == *verdict.kernel
                && *rival.version.0 == *verdict.version
                && *rival.point_name == *verdict.point
                && on(rival)
                && !rival.is_barred()
        })
    }

    /// What is remembered of the race for this.
    pub(crate) fn verdict(&self, record: &Decision) -> Option<Verdict> {
        self.verdict_in(record, &record.scope)
    }

    /// The same among some devices: of a race of the kernels that may run here, or of all if one won that may.
    fn verdict_in(&self, record: &Decision, scope: &Scope) -> Option<Verdict> {
        let machine = self.devices.machine(scope);
        let of = |terms: &str| self.wisdom.verdict(&machine, &record.problem.to_string(), terms);
        let own = of(&record.remembered_under(scope));
        let out = record.left_out_in(scope);
        match own {
            None if !out.is_empty() => {
                of(&record.terms.to_string()).filter(|all| !out.contains(&all.kernel.as_str()))
            }
            own => own,
        }
    }

    /// Writes the winner into wisdom. The set of rivals is that after the race: whoever failed in it is out, and challenges the
    /// verdict when that is forgotten.
    pub(crate) fn remember(&self, record: &Decision, session: Nanos) {
        self.remember_in(record, &record.scope, record.chosen, session);
    }

    /// Writes down who won among the rivals of a device alone.
    pub(crate) fn remember_on(&self, record: &Decision, winner: usize, session: Nanos) {
        let Some(rival) = record.rivals.get(winner) else { return };
        self.remember_in(record, &Scope::alone(rival.device), winner, session);
    }

    fn remember_in(&self, record: &Decision, scope: &Scope, winner: usize, session: Nanos) {
        let Some(winner) = record.rivals.get(winner) else { return };
        let on = self.devices.get(winner.device).filter(|_| !scope.is_alone());
        let extent = record.ended_by.extent(record.complete, record.patience, session);
        self.wisdom.decide(Verdict {
            device: self.devices.machine(scope),
            problem: record.problem.to_string(),
            terms: record.remembered_under(scope),
            kernel: winner.name.to_string(),
            version: winner.version.to_string(),
            point: winner.point_name.clone(),
            extent: trimtab_wisdom::Extent { busy: record.busy, ..extent },
            candidates: self.signature(record, scope),
            on: on.map_or_else(String::new, |device| device.facts().fingerprint.0.clone()),
            origin: String::new(),
            last_seen_ms: 0,
        });
    }

    fn signature(&self, record: &Decision, scope: &Scope) -> u64 {
        let Decision { problem, rivals, .. } = record;
        let its = match scope.devices[..] {
            [device] => &rivals[of_device(rivals, device)],
            _ => rivals,
        };
        self.experience.signature(&self.devices, scope, &self.wisdom, problem, its)
    }
}

impl Deciding<'_> {
    /// Takes the winner of an earlier race, if it still counts: as long as the set of rivals is the same, in mode `off` as long as
    /// it exists. Where nothing may run, what is in force or remembered is what there is.
    pub(crate) fn recall(&mut self) -> bool {
        let in_force = self.ask.in_force.and_then(|plan| find_plan(&self.record.rivals, &plan));
        self.verdict = self.by.verdict(&self.record);
        let remembered = self.verdict.as_ref().and_then(|verdict| self.by.find(&self.record.rivals, verdict));
        let mut counts = None;
        if let Some(verdict) = &self.verdict {
            let same = remembered.is_some()
                && verdict.candidates == self.by.signature(&self.record, &self.record.scope);
            let enough = same && satisfies(&verdict.extent, &self.ask);
            counts = remembered.filter(|_| enough || self.ask.patience <= Patience::Estimate);
            if !same {
                self.record.apply(Event::Challenged { dry: self.ask.dry });
            }
        }
        self.incumbent = if self.ask.dry { in_force.or(remembered) } else { remembered.or(in_force) };
        let choice = if self.ask.dry { self.incumbent } else { counts };
        let Some(rival) = choice.filter(|&choice| self.has_fact(choice) && self.is_as_it_was(choice)) else {
            return false;
        };
        if let Some(sooner) = self.sooner_than(rival) {
            self.record.apply(Event::Settled { rival: sooner, reason: Reason::Remembered });
            self.await_build(rival);
            return true;
        }
        self.record.apply(match &self.verdict {
            Some(verdict) if remembered == Some(rival) => {
                Event::Recalled { rival, extent: verdict.extent.clone() }
            }
            _ => Event::Settled { rival, reason: Reason::Estimated },
        });
        true
    }

    /// Takes the best of what each device's own race decided, where every device that could win has one that counts.
    pub(crate) fn recall_each(&mut self) -> bool {
        if self.ask.scope.is_alone() || self.ask.patience == Patience::Off {
            return false;
        }
        let mut winners = Vec::new();
        for turn in 0..self.order.len() {
            let device = self.order[turn].0;
            if turn > 0 && self.measures() {
                self.estimate_device(turn, self.effort());
            }
            if !self.record.rivals.iter().any(|rival| rival.device == device && rival.is_open()) {
                continue;
            }
            let Some((winner, verdict)) = self.recalled_on(device) else { return false };
            winners.push((winner, verdict));
        }
        let Some((best, awaited)) = self.best_now(winners.iter().map(|winner| winner.0)) else {
            return false;
        };
        let best = winners.into_iter().find(|winner| winner.0 == best);
        let Some((rival, Verdict { extent, .. })) = best else { return false };
        self.record.apply(Event::Recalled { rival, extent });
        awaited.into_iter().for_each(|awaited| self.await_build(awaited));
        true
    }

    /// The winner of an earlier race among the rivals of a device alone, if it still counts and its time is known.
    pub(crate) fn recalled_on(&self, device: u16) -> Option<(usize, Verdict)> {
        let scope = Scope::alone(device);
        let verdict = self.by.verdict_in(&self.record, &scope)?;
        let its = of_device(&self.record.rivals, device);
        let winner = its.start + self.by.find(&self.record.rivals[its], &verdict)?;
        let same = verdict.candidates == self.by.signature(&self.record, &scope);
        let enough = same && satisfies(&verdict.extent, &self.ask);
        let counts = enough || self.ask.patience <= Patience::Estimate;
        (counts && self.record.rivals[winner].is_measured()).then_some((winner, verdict))
    }

    /// Whether a rival that was measured in another process is still right: of a user's kernel nobody knows whether its version tells
    /// that it was changed, so it is checked once in each process.
    fn is_as_it_was(&mut self, rival: usize) -> bool {
        self.record.rivals[rival].class != VariantClass::Custom || self.verify(rival)
    }

    /// Looks up what is measured of one rival; the others stay unconsidered. Cheap: no model, no rates.
    fn has_fact(&mut self, index: usize) -> bool {
        let Decider { devices, wisdom, experience, .. } = self.by;
        let Ask { problem, terms, scope, .. } = &self.ask;
        let one = &mut self.record.rivals[index..=index];
        if terms.constraints.latency_max.is_some() {
            one[0].transfer = devices.transfer(scope, one[0].device, problem);
        }
        experience.estimate(devices, wisdom, problem, terms, one, Effort::Facts);
        one[0].estimate().is_some()
    }
}
