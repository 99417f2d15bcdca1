//! Several devices in one decision: estimates device by device, and no work for one that cannot win.

use crate::decide::{Decider, is_measured};
use crate::devices::Scope;
use crate::experience::Effort;
use crate::field;
use crate::plan::{Decision, Plan, Reason, Rival, Standing};
use std::ops::Range;
use trimtab_core::{Estimate, Nanos, Problem, Terms, VariantClass};

/// How many standard deviations an estimate must be better than what was measured to be preferred unmeasured.
const CLEARLY: f64 = 2.0;
/// An estimate that was not measured may be off by this factor before a device is ruled out by it.
const DOUBT: f64 = 4.0;

impl Decider {
    /// The order in which devices are looked at: the processor, whose operands need no handing over, first.
    pub(crate) fn device_order(&self, scope: &Scope) -> Vec<u16> {
        let mut order = self.devices.within(scope);
        order.sort_by_key(|(_, device)| !device.facts().habits.host_memory);
        order.into_iter().map(|(at, _)| at).collect()
    }

    /// Gives the rivals of every device their estimates.
    pub(crate) fn estimate(&self, decision: &mut Decision, effort: Effort) {
        for device in self.device_order(&decision.scope) {
            self.estimate_device(decision, device, effort);
        }
    }

    /// Gives the rivals of a device their estimates, unless it cannot win: one whose handing over alone takes longer than
    /// another needs for it all is not even asked for its rates.
    pub(crate) fn estimate_device(&self, decision: &mut Decision, device: u16, effort: Effort) {
        let (problem, terms) = (decision.problem, decision.terms);
        let range = of_device(&decision.rivals, device);
        if !decision.rivals[range.clone()].iter().any(is_open) {
            return;
        }
        let estimate = |rivals: &mut [Rival]| {
            self.experience.estimate(&self.devices, &self.wisdom, &problem, &terms, rivals, effort);
        };
        if effort == Effort::Facts {
            estimate(&mut decision.rivals[range.clone()]);
            // Only what was measured is compared, and only then is it asked how long handing over takes.
            let known = decision.rivals[range.clone()].iter().any(|rival| rival.estimate().is_some());
            if !known || decision.scope.is_alone() {
                return;
            }
        }
        let transfer = self.transfer(&decision.scope, device, &problem);
        decision.rivals[range.clone()].iter_mut().for_each(|rival| rival.transfer = transfer);
        let calibrated =
            self.calibrated(&decision.scope, device, &problem).filter(|_| effort != Effort::Facts);
        match calibrated {
            Some(call) => {
                estimate(&mut decision.rivals[range.clone()]);
                self.level(&mut decision.rivals[range], call, &terms);
                self.rule_out_calibrated(decision, device, call);
            }
            None if !self.rule_out(decision, device) => estimate(&mut decision.rivals[range]),
            None => (),
        }
    }

    /// What moving operands and result takes; nothing where they lie on the device.
    pub(crate) fn transfer(&self, scope: &Scope, device: u16, problem: &Problem) -> Nanos {
        let device = self.devices.get(device).filter(|_| !scope.in_place);
        device.map_or(Nanos(0), |device| device.transfer_overhead(problem))
    }

    /// What a calibration expects of a whole call on a device; only where there is another to choose.
    pub(crate) fn calibrated(&self, scope: &Scope, device: u16, problem: &Problem) -> Option<Estimate> {
        let calibration = self.calibration.read().ok().filter(|_| !scope.is_alone())?;
        let mut call = calibration.expected(device as usize, problem)?;
        // Where few sizes were seen, a line through them may promise small ones for nothing: handing over takes what it takes.
        if calibration.is_below(device as usize, problem) {
            call.time = call.time.max(self.devices.get(device)?.transfer_overhead(problem));
        }
        Some(call)
    }

    /// Puts estimates of a device's rivals, none of them measured, at the level of its calibration: the best of them takes what a
    /// call was seen to take, the others keep their distance to it.
    fn level(&self, rivals: &mut [Rival], call: Estimate, terms: &Terms) {
        if rivals.iter().any(is_measured) {
            return;
        }
        let kernel = |rival: &Rival| rival.estimate().map(|estimate| estimate.time.0.max(1));
        let Some(best) = rivals.iter().filter_map(kernel).min() else { return };
        for rival in rivals {
            let Some(estimate) = rival.estimate() else { continue };
            // What was seen of the whole is believed more than what handing over should take; kernels still differ.
            rival.transfer = Nanos(rival.transfer.0.min(call.time.0 / 2));
            let least = (call.time.0 - rival.transfer.0) as f64;
            let time = (least * estimate.time.0.max(1) as f64 / best as f64).round();
            let estimate = Estimate { time: Nanos(time as u64), ..call };
            rival.standing = self.experience.standing(rival, terms, estimate);
        }
    }

    /// Puts a device's rivals out if whole calls on it were seen to take clearly longer than what was measured on another.
    fn rule_out_calibrated(&self, decision: &mut Decision, device: u16, call: Estimate) {
        let range = of_device(&decision.rivals, device);
        if decision.rivals[range.clone()].iter().any(is_measured) {
            return;
        }
        let others = decision.rivals.iter().filter(|rival| rival.device != device);
        let measured = others.filter(|rival| is_measured(rival));
        let best =
            measured.filter_map(|rival| Some((rival, rival.call_time()?))).min_by_key(|(_, time)| *time);
        let optimistic = call.time.0 as f64 / (CLEARLY * call.spread_log2).exp2();
        let Some((rival, time)) = best.filter(|(_, time)| optimistic > time.0 as f64) else { return };
        let reason = format!(
            "dominated: calls of that size were seen to take about {}; {} does it in {time} (measured)",
            call.time, rival.device_id
        );
        for rival in &mut decision.rivals[range] {
            if is_open(rival) {
                rival.standing = Standing::Dominated(reason.clone());
            }
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
        let transfer = self.transfer(scope, device, problem);
        rivals.iter_mut().for_each(|rival| rival.transfer = transfer);
        self.experience.estimate(&self.devices, &self.wisdom, problem, terms, &mut rivals, Effort::Model);
        if let Some(call) = self.calibrated(scope, device, problem) {
            self.level(&mut rivals, call, terms);
        }
        let best = rivals
            .iter()
            .filter_map(|rival| Some((rival, rival.call_time()?)))
            .min_by_key(|(rival, time)| (*time, rival.class == VariantClass::Reference))?;
        let (rival, time) = best;
        let expected = rival.estimate().map_or(Nanos(0), |estimate| estimate.time);
        Some((Plan::new(rival.device, rival.kernel, rival.point, expected), time))
    }

    /// Puts a device's rivals out if the transfer takes longer than another device needs for it all.
    pub(crate) fn rule_out(&self, decision: &mut Decision, device: u16) -> bool {
        let range = of_device(&decision.rivals, device);
        let Some(transfer) = decision.rivals[range.clone()].first().map(|rival| rival.transfer) else {
            return false;
        };
        let others = decision.rivals.iter().filter(|rival| rival.device != device);
        let doubted = |rival: &Rival| if is_measured(rival) { 1.0 } else { DOUBT };
        let best = others
            .filter_map(|rival| Some((rival, rival.call_time()?.0 as f64 * doubted(rival))))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((rival, _)) = best.filter(|(_, ns)| transfer.0 as f64 > *ns) else { return false };
        let time = rival.call_time().unwrap_or(Nanos(0));
        let what = if is_measured(rival) { "measured" } else { "estimated" };
        let reason = format!(
            "dominated: the transfer takes about {transfer}; {} does it all in {time} ({what})",
            rival.device_id
        );
        for rival in &mut decision.rivals[range] {
            if is_open(rival) {
                rival.standing = Standing::Dominated(reason.clone());
            }
        }
        true
    }

    /// After a race: a rival of another device that was not measured, but whose estimate is so much better that its spread
    /// does not matter, is preferred once its result was checked.
    pub(crate) fn prefer_unmeasured(&self, decision: &mut Decision) -> bool {
        loop {
            let Some(chosen) = decision.winner().and_then(Rival::call_time) else { return false };
            let pessimistic = |rival: &Rival| {
                let estimate = rival.estimate()?;
                let kernel = estimate.time.0 as f64 * (CLEARLY * estimate.spread_log2).exp2();
                Some(kernel + rival.transfer.0 as f64)
            };
            let chosen_device = decision.winner().map(|winner| winner.device);
            let better = (0..decision.rivals.len())
                .filter(|&at| Some(decision.rivals[at].device) != chosen_device)
                .filter(|&at| !is_measured(&decision.rivals[at]))
                .filter_map(|at| Some((at, pessimistic(&decision.rivals[at])?)))
                .filter(|(_, ns)| *ns < chosen.0 as f64)
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((at, _)) = better else { return false };
            if self.verify(decision, at) {
                decision.chosen = at;
                decision.reason = Reason::Estimated;
                let rival = &decision.rivals[at];
                decision.notes.push(format!(
                    "{} was not measured on {}, but is expected to be clearly faster; tune the problem to be sure",
                    rival.name, rival.device_id
                ));
                return true;
            }
        }
    }
}

/// The rivals of a device: they lie together, as they were enumerated.
fn of_device(rivals: &[Rival], device: u16) -> Range<usize> {
    let is_its = |rival: &Rival| rival.device == device;
    let start = rivals.iter().position(is_its).unwrap_or(rivals.len());
    let count = rivals[start..].iter().take_while(|rival| is_its(rival)).count();
    start..start + count
}

/// Whether a rival may still be chosen.
pub(crate) fn is_open(rival: &Rival) -> bool {
    rival.estimate().is_some() || rival.standing == Standing::Unconsidered
}
