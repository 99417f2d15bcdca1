//! What is asked for besides time, and times nobody believes: how rivals are compared all the same, and that it is said.

use crate::decide::Deciding;
use crate::event::Event;
use crate::plan::{Rival, Standing};
use trimtab_core::{DType, Nanos, Problem, Rates, Work};
use trimtab_model::least_ns;

/// A time is not believed that is so many times shorter than what the work takes at the device's full rates: those are measured, and
/// may have been measured while others used the machine.
pub const IMPLAUSIBLE: f64 = 8.0;
/// Operations and bytes a nanosecond up to which no rates are asked for: asking may mean measuring them.
const ORDINARY: f64 = 1e3;
/// Implausible times told in one record.
const MAX_TOLD: usize = 4;

/// Whether no device of these rates does that work in that time.
pub(crate) fn is_implausible(work: &Work, problem: &Problem, ns: f64, rates: &Rates) -> bool {
    IMPLAUSIBLE * ns < least_ns(work, problem.dtype().map_or(4, DType::size), rates)
}

/// Whether work does as much in that time that it is worth asking a device for its rates.
pub(crate) fn is_extraordinary(work: &Work, ns: f64) -> bool {
    work.flops.0.max(work.bytes.0) as f64 > ORDINARY * ns
}

impl Deciding<'_> {
    /// Scores those that are compared alike: energy counts where it is known of every one of them.
    pub(crate) fn compare_evenly(&mut self, is_compared: impl Fn(&Rival) -> bool) {
        let objective = self.record.terms.objective;
        let of = |rival: &&mut Rival| rival.estimate().is_some() && is_compared(rival);
        let rivals = &mut self.record.rivals;
        if objective.energy == 0.0 || rivals.iter_mut().filter(of).all(|rival| rival.energy_uj.is_some()) {
            return;
        }
        for rival in rivals.iter_mut().filter(of) {
            let (call, scratch) = (rival.call_time().unwrap_or(Nanos(0)), rival.work.scratch);
            if let Standing::Estimated { score, .. } = &mut rival.standing {
                *score = objective.score(call.0 as f64, scratch, None);
            }
        }
    }

    /// Says what was asked for and could not be had, and which times are not believed.
    pub(crate) fn doubts(&mut self) {
        let winner = self.record.winner();
        let unread = winner.is_some_and(|winner| winner.energy_uj.is_none());
        if self.record.terms.objective.energy > 0.0 && unread {
            self.record.apply_once(Event::NoEnergy);
        }
        let told = self.record.rivals.iter().filter_map(Event::implausible).take(MAX_TOLD);
        for event in told.collect::<Vec<Event>>() {
            self.record.apply_once(event);
        }
    }
}
