//! The stage that estimates, device by device: no work for one that cannot win.

use crate::decide::{Decider, Deciding};
use crate::devices::Scope;
use crate::event::Event;
use crate::experience::Effort;
use crate::field;
use crate::plan::{Plan, Rival, Standing};
use std::ops::Range;
use trimtab_core::{Estimate, Nanos, Problem, Terms};

/// How many standard deviations an estimate must be better than what was measured to be preferred unmeasured.
const CLEARLY: f64 = 2.0;
/// An estimate that was not measured may be off by this factor before a device is ruled out by it.
const DOUBT: f64 = 4.0;

impl Decider {
    /// What a calibration expects of a whole call on a device; only where there is another to choose.
    fn calibrated(&self, scope: &Scope, device: u16, problem: &Problem) -> Option<Estimate> {
        let calibration = self.calibration.read().ok().filter(|_| !scope.is_alone())?;
        let mut call = calibration.expected(device as usize, problem)?;
        // Where few sizes were seen, a line through them may promise small ones for nothing: handing over takes what it takes.
        if calibration.is_below(device as usize, problem) {
            call.time = call.time.max(self.devices.transfer(scope, device, problem));
        }
        Some(call)
    }

    /// Puts estimates of a device's rivals, none of them measured, at the level of its calibration: the best of them takes what a
    /// call was seen to take, the others keep their distance to it.
    fn level(&self, rivals: &mut [Rival], call: Estimate, terms: &Terms) {
        if rivals.iter().any(Rival::is_measured) {
            return;
        }
        let kernel = |rival: &Rival| rival.estimate().map(|estimate| estimate.time.0.max(1));
        let Some(best) = rivals.iter().filter_map(kernel).min() else { return };
        for rival in rivals {
            let Some(estimate) = rival.estimate() else { continue };
            // What was seen of the whole is believed more than what handing over should take; kernels still differ. Where the two
            // contradict each other, nobody knows how the whole divides: its estimate is that of the call, and no transfer is told.
            let around = rival.transfer.0.min(call.time.0 / 2);
            if around < rival.transfer.0 {
                rival.transfer = Nanos(0);
            }
            let kernel = (call.time.0 - around) as f64 * estimate.time.0.max(1) as f64 / best as f64;
            let time = kernel.round() as u64 + (around - rival.transfer.0);
            let estimate = Estimate { time: Nanos(time), ..call };
            rival.standing = self.experience.standing(rival, terms, estimate);
        }
    }

    /// The best rival of one device and what a call of it is expected to take, by what decisions use now. Nothing is run.
    pub(crate) fn best_on(
        &self,
        problem: &Problem,
        terms: &Terms,
        scope: &Scope,
        device: u16,
    ) -> Option<(Plan, Nanos)> {
        let mut rivals = field::enumerate(&[(device, self.devices.get(device)?)], problem, terms);
        let alone = Scope { devices: vec![device], in_place: scope.in_place };
        self.heed(problem, &alone, &mut rivals);
        let transfer = self.devices.transfer(scope, device, problem);
        rivals.iter_mut().for_each(|rival| rival.transfer = transfer);
        self.experience.estimate(&self.devices, &self.wisdom, problem, terms, &mut rivals, Effort::Model);
        if let Some(call) = self.calibrated(scope, device, problem) {
            self.level(&mut rivals, call, terms);
        }
        let best = rivals
            .iter()
            .filter_map(|rival| Some((rival, rival.call_time()?)))
            .min_by_key(|(rival, time)| (*time, rival.is_reference()))?;
        Some((Plan::of(best.0), best.1))
    }
}

impl Deciding<'_> {
    /// Gives the rivals of a device their estimates, unless it cannot win: one whose handing over alone takes longer than
    /// another needs for it all is not even asked for its rates.
    pub(crate) fn estimate_device(&mut self, turn: usize, effort: Effort) {
        let (by, problem, terms) = (self.by, self.record.problem, self.record.terms);
        let device = self.order[turn].0;
        let range = of_device(&self.record.rivals, device);
        let rivals = &mut self.record.rivals[range.clone()];
        if !rivals.iter().any(Rival::is_open) {
            return;
        }
        let estimate = |rivals: &mut [Rival]| {
            by.experience.estimate(&by.devices, &by.wisdom, &problem, &terms, rivals, effort);
        };
        if effort == Effort::Facts {
            estimate(rivals);
            // Only what was measured is compared, and only then is it asked how long handing over takes.
            let known = rivals.iter().any(|rival| rival.estimate().is_some());
            if !known || self.ask.scope.is_alone() {
                return;
            }
        }
        let transfer = by.devices.transfer(&self.ask.scope, device, &problem);
        rivals.iter_mut().for_each(|rival| rival.transfer = transfer);
        let calibrated = by.calibrated(&self.ask.scope, device, &problem).filter(|_| effort != Effort::Facts);
        let reason = match calibrated {
            Some(call) => {
                estimate(rivals);
                by.level(rivals, call, &terms);
                self.seen_slower(range.clone(), call)
            }
            None => {
                let reason = self.transfer_alone_is_slower(range.clone());
                if reason.is_none() {
                    estimate(&mut self.record.rivals[range.clone()]);
                }
                reason
            }
        };
        self.add_builds(device);
        let Some(reason) = reason else { return };
        let rivals = &mut self.record.rivals[range];
        let Some(name) = rivals.first().map(|rival| rival.device_id.to_string()) else { return };
        for rival in rivals.iter_mut().filter(|rival| rival.is_open()) {
            rival.standing = Standing::Dominated(reason.clone());
        }
        self.record.apply(Event::Dominated { device: name, reason });
    }

    /// Why a device is out: whole calls on it were seen to take clearly longer than what was measured on another.
    fn seen_slower(&self, its: Range<usize>, call: Estimate) -> Option<String> {
        let rivals = &self.record.rivals;
        if rivals[its.clone()].iter().any(Rival::is_measured) {
            return None;
        }
        let measured = others(rivals, its).filter(|rival| rival.is_measured());
        let best = measured.filter_map(|rival| Some((rival, rival.call_time()?))).min_by_key(|best| best.1);
        let optimistic = call.time.0 as f64 / (CLEARLY * call.spread_log2).exp2();
        let (rival, time) = best.filter(|(_, time)| optimistic > time.0 as f64)?;
        Some(format!(
            "dominated: calls of that size were seen to take about {}; {} does it in {time} (measured)",
            call.time, rival.device_id
        ))
    }

    /// Why a device is out: the transfer takes longer than another device needs for it all.
    fn transfer_alone_is_slower(&self, its: Range<usize>) -> Option<String> {
        let rivals = &self.record.rivals;
        let transfer = rivals[its.clone()].first()?.transfer;
        let doubted = |rival: &Rival| if rival.is_measured() { 1.0 } else { DOUBT };
        let best = others(rivals, its)
            .filter_map(|rival| Some((rival, rival.call_time()?.0 as f64 * doubted(rival))))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let (rival, _) = best.filter(|(_, ns)| transfer.0 as f64 > *ns)?;
        let time = rival.call_time().unwrap_or(Nanos(0));
        let what = if rival.is_measured() { "measured" } else { "estimated" };
        Some(format!(
            "dominated: the transfer takes about {transfer}; {} does it all in {time} ({what})",
            rival.device_id
        ))
    }

    /// After a race: a rival of another device that was not measured, but whose estimate is so much better that its spread
    /// does not matter, is preferred once its result was checked.
    pub(crate) fn prefer_unmeasured(&mut self) -> bool {
        loop {
            let winner = self.record.winner();
            let Some((device, chosen)) = winner.and_then(|rival| Some((rival.device, rival.call_time()?)))
            else {
                return false;
            };
            let pessimistic = |rival: &Rival| {
                let estimate = rival.estimate()?;
                let kernel = estimate.time.0 as f64 * (CLEARLY * estimate.spread_log2).exp2();
                Some(kernel + rival.transfer.0 as f64 + rival.build.0 as f64)
            };
            let better = (self.record.rivals.iter().enumerate())
                .filter(|(_, rival)| rival.device != device && !rival.is_measured())
                .filter_map(|(at, rival)| Some((at, pessimistic(rival)?)))
                .filter(|(_, ns)| *ns < chosen.0 as f64)
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((at, _)) = better else { return false };
            if self.verify(at) {
                let Rival { name, device_id, .. } = &self.record.rivals[at];
                let (kernel, device) = (name.to_string(), device_id.to_string());
                self.record.apply(Event::PreferredUnmeasured { rival: at, kernel, device });
                return true;
            }
        }
    }
}

/// The rivals of a device: they lie together, as they were enumerated.
pub(crate) fn of_device(rivals: &[Rival], device: u16) -> Range<usize> {
    let is_its = |rival: &Rival| rival.device == device;
    let start = rivals.iter().position(is_its).unwrap_or(rivals.len());
    let count = rivals[start..].iter().take_while(|rival| is_its(rival)).count();
    start..start + count
}

fn others(rivals: &[Rival], its: Range<usize>) -> impl Iterator<Item = &Rival> {
    rivals[..its.start].iter().chain(&rivals[its.end..])
}
