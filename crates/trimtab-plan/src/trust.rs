//! How far a decision is to be trusted: the ladder a plan climbs.

use crate::event::Event;
use crate::plan::Rival;
use crate::record::Decision;
use trimtab_core::Basis;

trimtab_core::named! {
    /// Where a plan stands. What runs in the background moves it up.
    pub enum Trust {
        /// Its time is an estimate, its result was checked on small stand-ins.
        Provisional = "provisional",
        /// Its result agreed with the reference at its real size.
        Checked = "checked",
        /// It was raced, with more than one run; but others used the machine, or the race was cut short.
        Measured = "measured",
        /// It won a race that was completed on a quiet machine.
        Settled = "settled",
    }
}

impl Decision {
    /// How far it is to be trusted.
    pub fn trust(&self) -> Trust {
        match self.samples() {
            Some(2..) if self.complete && !self.busy => Trust::Settled,
            Some(2..) => Trust::Measured,
            // What was timed was checked too.
            Some(_) => Trust::Checked,
            None if self.events.iter().any(|event| matches!(event, Event::Checked { .. })) => Trust::Checked,
            None => Trust::Provisional,
        }
    }

    /// How often the winner was timed on this very problem.
    fn samples(&self) -> Option<u32> {
        match self.winner()?.estimate()?.basis {
            Basis::Measured(samples) => Some(samples),
            _ => None,
        }
    }

    /// How many times as long the fastest of the others takes as the choice, by what is known; infinite where it has no rival. Others are
    /// other kernels and other numbers of threads: most settings of one kernel do well and badly together, but which kernel is the fastest,
    /// and whether a second thread helps, a busy machine may hide.
    pub(crate) fn lead(&self) -> f64 {
        let time = |rival: &Rival| rival.estimate().map(|estimate| estimate.time.0 as f64);
        let Some((winner, own)) = self.winner().and_then(|winner| Some((winner, time(winner)?))) else {
            return f64::INFINITY;
        };
        let way = |rival: &Rival| (rival.device, rival.kernel, rival.work.threads);
        let others = self.rivals.iter().filter(|rival| way(rival) != way(winner));
        others.filter_map(time).fold(f64::INFINITY, f64::min) / own.max(1.0)
    }

    /// Why it is not settled, where something was measured.
    pub(crate) fn unsure(&self) -> Option<&'static str> {
        match self.samples()? {
            _ if self.ended_by.good_enough.is_some() => None,
            _ if self.busy => Some("the machine was busy while it was measured"),
            0..2 => Some("one run of each was timed"),
            _ => None,
        }
    }
}
