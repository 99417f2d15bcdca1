//! Noticing that a kernel has become slower or faster, and that the whole machine has.
//!
//! A key is one rival on one problem, with the time it is known for. Runs are compared with that after what all keys have
//! in common is divided out, so that a machine that is slow for a while changes nobody's place. A change is noticed when all of
//! the last eight runs are slower, or three of them faster, than known by a quarter; a disturbed run or two cannot do that. Noticing is
//! not believing: the caller measures again, side by side, and tells what it found.

/// Runs looked at.
const WINDOW: usize = 8;
/// Runs of the window that must be faster for a key to count as faster: what disturbs only adds, so that few will do, but one or
/// two may have met the machine at the end of a slow time.
const FASTER_RUNS: usize = 3;
/// A change by this factor is noticed.
pub const NOTICED: f64 = 1.25;
/// The keys that ran last tell how fast the machine is: at most so many, and nothing with fewer than so many.
const RECENT_KEYS: usize = 64;
const FEWEST_KEYS: usize = 3;

/// A change that was noticed: how many times as long as known a key takes, what the machine is slower by divided out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Above one for slower, below for faster.
    pub factor: f64,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    /// log2 of the nanoseconds it is known for, on the machine as it usually is.
    known: f64,
    /// log2 of the last runs over that; what the machine was slower by is taken off.
    runs: [f64; WINDOW],
    seen: usize,
    /// log2 of the last run over what it is known for, as it was.
    last: f64,
    /// Its place among the keys that ran last.
    place: Option<usize>,
}

/// Watches keys for changes. All arithmetic: nothing is timed here.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    keys: Vec<Key>,
    /// (key, log2 of its last runs over what it is known for): one entry a key, of the keys that ran last.
    recent: Vec<(usize, f64)>,
    oldest: usize,
}

impl Watch {
    /// Nothing is watched yet.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// Watches one more key, known to take so many nanoseconds; returns its number.
    pub fn track(&mut self, known_ns: f64) -> usize {
        let known = known_ns.max(1e-3).log2() - self.slower_log2();
        self.keys.push(Key { known, runs: [0.0; WINDOW], seen: 0, last: 0.0, place: None });
        self.keys.len() - 1
    }

    /// How many times as long as usual everything takes now: the median over the keys that ran last; one where there are fewer
    /// than three.
    pub fn slower_by(&self) -> f64 {
        self.slower_log2().exp2()
    }

    fn slower_log2(&self) -> f64 {
        if self.recent.len() < FEWEST_KEYS {
            return 0.0;
        }
        let mut ratios = [0.0; RECENT_KEYS];
        for (slot, (_, ratio)) in ratios.iter_mut().zip(&self.recent) {
            *slot = *ratio;
        }
        let ratios = &mut ratios[..self.recent.len()];
        let middle = ratios.len() / 2;
        *ratios.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// A run of a key; the change where one is noticed, at every run until [`known`](Watch::known) settles it.
    pub fn ran(&mut self, key: usize, ns: f64) -> Option<Change> {
        let state = self.keys.get_mut(key).filter(|_| ns > 0.0 && ns.is_finite())?;
        let ratio = ns.log2() - state.known;
        // One disturbed run says nothing about the machine: the lesser of the last two counts.
        let steady = if state.seen > 0 { ratio.min(state.last) } else { ratio };
        state.last = ratio;
        self.enter(key, steady);
        let slower = self.slower_log2();
        let state = &mut self.keys[key];
        state.runs[state.seen % WINDOW] = ratio - slower;
        state.seen += 1;
        if state.seen < WINDOW {
            return None;
        }
        let mut runs = state.runs;
        runs.sort_by(f64::total_cmp);
        let noticed = NOTICED.log2();
        let change = if runs[0] > noticed {
            runs[0]
        } else if runs[FASTER_RUNS - 1] < -noticed {
            runs[FASTER_RUNS - 1]
        } else {
            return None;
        };
        Some(Change { factor: change.exp2() })
    }

    /// A key was measured again and takes so many nanoseconds, now: what it is known for from here on, the machine's being slower
    /// divided out.
    pub fn known(&mut self, key: usize, ns: f64) {
        let slower = self.slower_log2();
        if let Some(state) = self.keys.get_mut(key).filter(|_| ns > 0.0 && ns.is_finite()) {
            state.known = ns.log2() - slower;
            state.seen = 0;
            if let Some(entry) = state.place.and_then(|place| self.recent.get_mut(place)) {
                entry.1 = slower;
            }
        }
    }

    fn enter(&mut self, key: usize, ratio: f64) {
        if let Some(entry) = self.keys[key].place.and_then(|place| self.recent.get_mut(place)) {
            entry.1 = ratio;
            return;
        }
        let place = if self.recent.len() < RECENT_KEYS {
            self.recent.push((key, ratio));
            self.recent.len() - 1
        } else {
            let place = self.oldest;
            self.oldest = (self.oldest + 1) % RECENT_KEYS;
            let (gone, _) = std::mem::replace(&mut self.recent[place], (key, ratio));
            self.keys[gone].place = None;
            place
        };
        self.keys[key].place = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::RandomNumbers;

    /// A run of about a microsecond: up to a fifth longer than its best, one in 25 disturbed by up to three times.
    fn sample(dice: &mut RandomNumbers) -> f64 {
        let disturbed = dice.below(25) == 0;
        1000.0 * (1.0 + dice.unit() * if disturbed { 2.0 } else { 0.2 })
    }

    fn watch(keys: usize) -> Watch {
        let mut watch = Watch::new();
        (0..keys).for_each(|_| assert!(watch.track(1000.0) < keys));
        watch
    }

    #[test]
    fn a_step_of_half_in_one_kernel_is_noticed_within_twenty_runs_and_only_there() {
        for seed in 0..500 {
            let (mut watch, mut dice) = (watch(6), RandomNumbers::new(seed));
            for run in 0..600 {
                assert_eq!(watch.ran(run % 6, sample(&mut dice)), None, "seed {seed}");
            }
            let mut noticed = None;
            for run in 0..20 {
                for key in 1..6 {
                    assert_eq!(watch.ran(key, sample(&mut dice)), None);
                }
                if let Some(change) = watch.ran(0, 1.5 * sample(&mut dice)) {
                    noticed = noticed.or(Some(run));
                    assert!((1.25..2.0).contains(&change.factor), "{change:?}");
                }
            }
            assert!(noticed.is_some_and(|run| run < 20), "seed {seed}: {noticed:?}");
        }
    }

    #[test]
    fn false_alarms_are_rarer_than_one_in_a_hundred_thousand_runs() {
        let (mut watch, mut dice) = (watch(10), RandomNumbers::new(7));
        let alarms = (0..1_000_000).filter(|run| watch.ran(run % 10, sample(&mut dice)).is_some()).count();
        assert!(alarms < 10, "{alarms}");
    }

    #[test]
    fn a_machine_that_is_slow_for_a_while_changes_nothing_and_all_is_as_before() {
        for keys in [3, 12, 100] {
            let (mut watch, mut dice) = (watch(keys), RandomNumbers::new(keys as u64));
            for (rounds, slow) in [(40, 1.0), (60, 2.0), (40, 1.0)] {
                for round in 0..rounds {
                    for key in 0..keys {
                        let change = watch.ran(key, slow * sample(&mut dice));
                        assert_eq!(change, None, "{keys} keys, round {round}, slower by {slow}");
                    }
                }
                assert!((watch.slower_by() / slow - 1.1).abs() < 0.1, "{}", watch.slower_by());
            }
        }
    }

    #[test]
    fn what_was_measured_again_while_the_machine_was_slow_holds_when_it_no_longer_is() {
        let (mut watch, mut dice) = (watch(5), RandomNumbers::new(1));
        for run in 0..200 {
            watch.ran(run % 5, 2.0 * sample(&mut dice));
        }
        // One kernel becomes slower by half as well; measured again it takes three times what it did.
        let noticed = (0..100).any(|run| {
            let slower = if run % 5 == 0 { 1.5 } else { 1.0 };
            watch.ran(run % 5, 2.0 * slower * sample(&mut dice)).is_some()
        });
        assert!(noticed);
        watch.known(0, 3000.0);
        for run in 0..500 {
            let slower = if run % 5 == 0 { 1.5 } else { 1.0 };
            assert_eq!(watch.ran(run % 5, slower * sample(&mut dice)), None);
        }
        // And when the kernel is fast again, that is noticed too.
        let faster = (0..100).filter_map(|run| watch.ran(run % 5, sample(&mut dice))).next();
        assert!(faster.is_some_and(|change| change.factor < 0.8), "{faster:?}");
    }

    #[test]
    fn unusable_times_and_unknown_keys_are_ignored() {
        let mut watch = watch(1);
        for ns in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert_eq!(watch.ran(0, ns), None);
            watch.known(0, ns);
        }
        assert_eq!(watch.ran(9, 1.0), None);
        assert_eq!(watch.slower_by(), 1.0);
    }
}
