//! Several devices in one decision: estimates device by device, and no work for one that cannot win.

use crate::cold::{Cold, is_measured};
use crate::experience::Effort;
use crate::plan::{Decision, Reason, Rival, Standing};
use std::ops::Range;
use trimtab_core::{DeviceKind, Nanos};

/// How many standard deviations an estimate must be better than what was measured to be preferred unmeasured.
const CLEARLY: f64 = 2.0;
/// An estimate that was not measured may be off by this factor before a device is ruled out by it.
const DOUBT: f64 = 4.0;

impl Cold {
    /// The order in which devices are looked at: the processor, whose operands need no handing over, first.
    pub(crate) fn device_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.sort_by_key(|&device| self.devices[device].facts().kind != DeviceKind::Cpu);
        order
    }

    /// Gives the rivals of every device their estimates.
    pub(crate) fn estimate(&self, decision: &mut Decision, effort: Effort) {
        for device in self.device_order() {
            self.estimate_device(decision, device, effort);
        }
    }

    /// Gives the rivals of a device their estimates, unless it cannot win: one whose handing over alone takes longer than
    /// another needs for it all is not even asked for its rates.
    pub(crate) fn estimate_device(&self, decision: &mut Decision, device: usize, effort: Effort) {
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
            if !known || self.devices.len() == 1 {
                return;
            }
        }
        let handover = self.devices[device].handover(&problem);
        decision.rivals[range.clone()].iter_mut().for_each(|rival| rival.handover = handover);
        if !self.rule_out(decision, device) {
            estimate(&mut decision.rivals[range]);
        }
    }

    /// Puts a device's rivals out if handing the operands over takes longer than another device needs for it all.
    pub(crate) fn rule_out(&self, decision: &mut Decision, device: usize) -> bool {
        let range = of_device(&decision.rivals, device);
        let Some(handover) = decision.rivals[range.clone()].first().map(|rival| rival.handover) else {
            return false;
        };
        let others = decision.rivals.iter().filter(|rival| rival.device as usize != device);
        let doubted = |rival: &Rival| if is_measured(rival) { 1.0 } else { DOUBT };
        let best = others
            .filter_map(|rival| Some((rival, rival.call_time()?.0 as f64 * doubted(rival))))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((rival, _)) = best.filter(|(_, ns)| handover.0 as f64 > *ns) else { return false };
        let time = rival.call_time().unwrap_or(Nanos(0));
        let what = if is_measured(rival) { "measured" } else { "estimated" };
        let reason = format!(
            "cannot win: handing the operands over takes about {handover}; {} does it all in {time} ({what})",
            rival.device_id
        );
        for rival in &mut decision.rivals[range] {
            if is_open(rival) {
                rival.standing = Standing::Outpaced(reason.clone());
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
                Some(kernel + rival.handover.0 as f64)
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
fn of_device(rivals: &[Rival], device: usize) -> Range<usize> {
    let is_its = |rival: &Rival| rival.device as usize == device;
    let start = rivals.iter().position(is_its).unwrap_or(rivals.len());
    let count = rivals[start..].iter().take_while(|rival| is_its(rival)).count();
    start..start + count
}

/// Whether a rival may still be chosen.
pub(crate) fn is_open(rival: &Rival) -> bool {
    rival.estimate().is_some() || rival.standing == Standing::Unconsidered
}
