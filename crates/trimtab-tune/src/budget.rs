//! What measuring may cost: time, and candidates tried. It stops a race; it never fails one.

use crate::Stopwatch;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use trimtab_core::Nanos;

/// A budget that runs from its creation. Shared by reference by everything that spends from it.
#[derive(Debug)]
pub struct Budget {
    limit: Nanos,
    /// `None`: recordings, where only reported time counts.
    watch: Option<Stopwatch>,
    charged_ns: AtomicU64,
    evaluations_limit: u32,
    evaluated: AtomicU32,
}

impl Budget {
    /// This much time from now on, preparations between runs included.
    pub fn time(limit: Nanos) -> Budget {
        Budget {
            limit,
            watch: Some(Stopwatch::start()),
            charged_ns: AtomicU64::new(0),
            evaluations_limit: u32::MAX,
            evaluated: AtomicU32::new(0),
        }
    }

    /// No limit.
    pub fn unlimited() -> Budget {
        Budget::time(Nanos::MAX)
    }

    /// This much reported time, for recordings: no clock is read, so the same recording stops at the same run on every
    /// machine.
    pub fn recorded(limit: Nanos) -> Budget {
        Budget { watch: None, ..Budget::time(limit) }
    }

    /// The same, and at most `limit` candidates started.
    pub fn evaluations(self, limit: u32) -> Budget {
        Budget { evaluations_limit: limit, ..self }
    }

    /// Time left; [`Nanos::MAX`] for a budget without limit.
    pub fn left(&self) -> Nanos {
        if self.limit == Nanos::MAX { Nanos::MAX } else { self.limit.saturating_sub(self.spent()) }
    }

    /// Time spent: by the clock, or as reported if that is more.
    pub fn spent(&self) -> Nanos {
        let charged = Nanos(self.charged_ns.load(Ordering::Relaxed));
        self.watch.map_or(charged, |watch| watch.elapsed().max(charged))
    }

    /// Whether nothing more may be started.
    pub fn exhausted(&self) -> bool {
        self.left() == Nanos(0) || self.evaluations_left() == 0
    }

    /// Candidates that may still be started.
    pub fn evaluations_left(&self) -> u32 {
        self.evaluations_limit.saturating_sub(self.evaluated.load(Ordering::Relaxed))
    }

    /// Counts a run's reported time.
    pub fn charge(&self, time: Nanos) {
        // Never fails: the function always returns a value.
        let _ = self
            .charged_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| Some(known.saturating_add(time.0)));
    }

    /// Counts a candidate as started.
    pub fn charge_evaluation(&self) {
        self.evaluated.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_budget_counts_only_what_is_charged() {
        let budget = Budget::recorded(Nanos(100));
        assert_eq!((budget.spent(), budget.left()), (Nanos(0), Nanos(100)));
        budget.charge(Nanos(60));
        assert_eq!((budget.spent(), budget.left(), budget.exhausted()), (Nanos(60), Nanos(40), false));
        budget.charge(Nanos(u64::MAX));
        assert_eq!((budget.left(), budget.exhausted()), (Nanos(0), true));
    }

    #[test]
    fn a_timed_budget_counts_charges_longer_than_the_clock_says() {
        let budget = Budget::time(Nanos::from_millis(1_000_000));
        budget.charge(Nanos::from_millis(999_999));
        assert!(budget.left() <= Nanos::from_millis(1));
    }

    #[test]
    fn an_unlimited_budget_is_never_exhausted_but_by_evaluations() {
        let budget = Budget::unlimited().evaluations(2);
        budget.charge(Nanos::MAX);
        budget.charge_evaluation();
        assert_eq!((budget.left(), budget.exhausted()), (Nanos::MAX, false));
        budget.charge_evaluation();
        assert!(budget.exhausted());
    }
}
