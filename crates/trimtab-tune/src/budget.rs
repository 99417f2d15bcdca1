//! What measuring may cost: time, candidates tried, and when a result is good enough. It stops a race; it never fails one.

use crate::Stopwatch;
use std::sync::Arc;
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
    /// The share of the roofline's speed that is good enough.
    share: Option<f64>,
    /// Nanoseconds of one launch at the roofline, as bits; zero while it is not known.
    roofline: AtomicU64,
    /// While this is not zero, nothing is left.
    others: Option<Arc<AtomicU32>>,
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
            share: None,
            roofline: AtomicU64::new(0),
            others: None,
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

    /// The same, and nothing more is started once the best reaches that share of the roofline's speed; see [`Budget::aim`].
    /// A share that is no positive number is none.
    pub fn good_enough(self, share: f64) -> Budget {
        Budget { share: Some(share).filter(|share| share.is_finite() && *share > 0.0), ..self }
    }

    /// The same, and nothing is left while that counter is above zero: whoever measures in the background makes way.
    pub fn yielding_to(self, others: &Arc<AtomicU32>) -> Budget {
        Budget { others: Some(Arc::clone(others)), ..self }
    }

    /// Whether it makes way now.
    pub fn yields(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.load(Ordering::Relaxed) > 0)
    }

    /// At most `limit` of the time left, for a part of the work. It counts candidates apart; [`Budget::join`] counts its
    /// time here.
    pub fn part(&self, limit: Nanos) -> Budget {
        let whole = if self.watch.is_some() { Budget::time } else { Budget::recorded };
        let roofline = AtomicU64::new(self.roofline.load(Ordering::Relaxed));
        Budget { share: self.share, roofline, others: self.others.clone(), ..whole(limit.min(self.left())) }
    }

    /// Counts the time reported to a part. Time by the clock passes for both.
    pub fn join(&self, part: &Budget) {
        self.charge(Nanos(part.charged_ns.load(Ordering::Relaxed)));
    }

    /// Says how long one launch takes at the roofline of the device that is measured next, if that is known.
    pub fn aim(&self, roofline_ns: Option<f64>) {
        let known = roofline_ns.filter(|ns| ns.is_finite() && *ns > 0.0).unwrap_or(0.0);
        self.roofline.store(known.to_bits(), Ordering::Relaxed);
    }

    /// The share of the roofline's speed a launch of that time reaches, if the roofline is known.
    pub fn share_of_roofline(&self, ns: f64) -> Option<f64> {
        let roofline = f64::from_bits(self.roofline.load(Ordering::Relaxed));
        (roofline > 0.0 && ns > 0.0).then(|| roofline / ns)
    }

    /// Whether a launch of that time is as good as was asked for; never if nothing was asked for.
    pub fn is_good_enough(&self, ns: f64) -> bool {
        let reached = self.share.zip(self.share_of_roofline(ns));
        reached.is_some_and(|(wanted, reached)| reached >= wanted)
    }

    /// Time left; [`Nanos::MAX`] for a budget without limit.
    pub fn left(&self) -> Nanos {
        match self.limit {
            _ if self.yields() => Nanos(0),
            Nanos::MAX => Nanos::MAX,
            limit => limit.saturating_sub(self.spent()),
        }
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
        self.evaluations_limit.saturating_sub(self.evaluated())
    }

    /// Candidates that were started.
    pub fn evaluated(&self) -> u32 {
        self.evaluated.load(Ordering::Relaxed)
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

    #[test]
    fn a_part_has_no_more_time_than_is_left_and_counts_candidates_apart() {
        let budget = Budget::recorded(Nanos(100)).evaluations(1);
        budget.charge(Nanos(30));
        let part = budget.part(Nanos(50));
        part.charge(Nanos(40));
        part.charge_evaluation();
        part.charge_evaluation();
        assert_eq!((part.left(), part.exhausted()), (Nanos(10), false));
        budget.join(&part);
        assert_eq!((budget.left(), budget.evaluated()), (Nanos(30), 0));
        assert_eq!(budget.part(Nanos(50)).left(), Nanos(30));
    }

    #[test]
    fn good_enough_is_a_share_of_the_roofline_and_off_without_either() {
        let budget = Budget::unlimited().good_enough(0.9);
        assert!(!budget.is_good_enough(1.0));
        budget.aim(Some(900.0));
        assert!(budget.is_good_enough(1000.0) && !budget.is_good_enough(1001.0));
        assert!(budget.part(Nanos(1)).is_good_enough(1000.0) && !budget.is_good_enough(0.0));
        budget.aim(None);
        assert!(!budget.is_good_enough(1.0));
        for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let off = Budget::unlimited().good_enough(share);
            off.aim(Some(900.0));
            assert!(!off.is_good_enough(1.0), "{share}");
        }
    }
}
