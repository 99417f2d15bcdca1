//! The time a thread has for something: what it cannot help is not counted, so that a pause bars nobody.

use trimtab_core::Nanos;

/// A task that does not compute, but sleeps or waits for other threads, gets this beyond its time-out: those may be kept from
/// running. More would let a candidate that sleeps use up what is allowed for all.
const SLEEPER_MORE: Nanos = Nanos::from_millis(100);
/// However long others keep it from running, nobody waits longer than so many time-outs and this.
const LONGEST_FACTOR: u64 = 20;
const LONGEST_MIN: Nanos = Nanos::from_millis(5_000);

/// How long a thread ran, and how long others kept it from running.
pub(crate) type Times = (Nanos, Nanos);

/// What is left of a time-out that counts what a thread computed, or slept. Time in which others kept it from running, or the whole
/// process or its machine stood still, is not counted.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    timeout: Nanos,
    waited: Nanos,
    /// Where nobody can tell what the thread did, the clock on the wall counts.
    before: Option<Times>,
}

impl Allowance {
    /// A thread has that long from now on; with what its clock shows now.
    pub fn new(timeout: Nanos, before: Option<(Nanos, Nanos)>) -> Allowance {
        Allowance { timeout, waited: Nanos(0), before }
    }

    /// Somebody waited that long, in a step that was to take so long: one of twice that or more was a pause of the whole process.
    /// What is left by what the thread's clock shows now; nothing if it is late.
    pub fn left(
        &mut self,
        took: Nanos,
        step: Nanos,
        now: impl FnOnce() -> Option<(Nanos, Nanos)>,
    ) -> Option<Nanos> {
        self.waited = Nanos(self.waited.0.saturating_add(took.0.min(step.0.saturating_mul(2))));
        let left = self.timeout.saturating_sub(self.waited);
        if left > Nanos(0) {
            return Some(left);
        }
        let (ran, kept) = self.before?;
        let (ran_now, kept_now) = now()?;
        let left = self.timeout.saturating_sub(ran_now.saturating_sub(ran));
        let slept = self.waited.saturating_sub(kept_now.saturating_sub(kept));
        let most = |factor, more: Nanos| Nanos(self.timeout.0.saturating_mul(factor).saturating_add(more.0));
        let is_late = left == Nanos(0) || slept >= most(1, SLEEPER_MORE);
        (!is_late && self.waited < most(LONGEST_FACTOR, LONGEST_MIN)).then_some(left)
    }

    /// Whether nobody would wait any longer, whatever the thread does.
    pub(crate) fn is_over(&self) -> bool {
        let longest = self.timeout.0.saturating_mul(LONGEST_FACTOR).saturating_add(LONGEST_MIN.0);
        self.waited.0 >= longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_a_thread_computed_or_slept_counts_and_what_others_took_does_not() {
        let (start, timeout, step) = (Some((Nanos(0), Nanos(0))), Nanos(1000 * MS), Nanos(100 * MS));
        let waits = |steps: u64, took: u64, now: (u64, u64)| {
            let mut allowance = Allowance::new(timeout, start);
            let now = || Some((Nanos(now.0 * MS), Nanos(now.1 * MS)));
            let mut left = |_| allowance.left(Nanos(took * MS), step, now).is_some();
            (0..steps).all(&mut left)
        };
        assert!(waits(9, 100, (900, 0)), "there is time left");
        assert!(!waits(10, 100, (1000, 0)), "it computed too long");
        assert!(waits(30, 100, (0, 3000)), "others ran");
        assert!(!waits(12, 100, (0, 0)), "it sleeps");
        assert!(waits(4, 60_000, (0, 0)), "the machine stood still");
        assert!(!waits(300, 100, (0, 30_000)), "nobody waits for ever");
        let mut blind = Allowance::new(timeout, None);
        assert!((0..9).all(|_| blind.left(step, step, || None).is_some()));
        assert_eq!(blind.left(step, step, || None), None);
    }
}
