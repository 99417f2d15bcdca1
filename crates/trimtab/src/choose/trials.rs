//! Options that no race could measure, tried in live calls: each once, whoever comes near the fastest once more, and from then on the
//! fastest, for as long as it is.

/// Options within so many times the fastest are tried a second time: a first run may be disturbed.
const NEAR: f64 = 2.0;
/// Calls in a row that must take [`SLOWER`] times as long before an option counts as slower.
const LATE: u32 = 3;
/// First calls of an option that are made where it can be left behind, whatever that costs.
const FEW: u32 = 32;
/// How many times as long a call takes that may have become slower.
const SLOWER: f64 = 3.0;

/// What is known of an option.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// What a call takes; of one that was given up, what it takes at least.
    pub ns: Option<f64>,
    /// Whether its answer was compared, where answers are.
    pub trusted: bool,
    /// Why it is out.
    pub out: Option<String>,
    runs: u32,
    late: u32,
}

impl Seen {
    /// An option that a race measured, or gave up after that time.
    pub(super) fn raced(ns: f64, trusted: bool) -> Seen {
        Seen { ns: Some(ns), trusted, runs: 2, ..Seen::default() }
    }

    /// Whether it answered so few calls that it may still be left behind.
    pub(super) fn is_new(&self) -> bool {
        self.runs < FEW
    }

    pub(super) fn out(why: String) -> Seen {
        Seen { out: Some(why), ..Seen::default() }
    }
}

/// What is known of every option for one problem.
#[derive(Clone, Debug)]
pub(super) struct Trials(pub Vec<Seen>);

impl Trials {
    fn in_the_running(&self) -> impl Iterator<Item = (usize, &Seen)> {
        self.0.iter().enumerate().filter(|(_, seen)| seen.out.is_none())
    }

    /// The fastest option known.
    pub(super) fn fastest(&self) -> Option<usize> {
        let timed = self.in_the_running().filter_map(|(at, seen)| Some((at, seen.ns?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// The option that answers the next call.
    pub(super) fn turn(&self) -> Option<usize> {
        let fastest = self.fastest();
        let least = fastest.and_then(|at| self.0[at].ns).unwrap_or(f64::INFINITY);
        let near = |seen: &Seen| seen.runs == 1 && seen.ns.is_some_and(|ns| ns < NEAR * least);
        let untried = self.in_the_running().find(|(_, seen)| seen.ns.is_none());
        let again = self.in_the_running().find(|(_, seen)| near(seen));
        untried.or(again).map(|(at, _)| at).or(fastest)
    }

    /// Whether calls still try something out.
    pub(super) fn is_open(&self) -> bool {
        self.turn() != self.fastest() || self.in_the_running().any(|(_, seen)| seen.ns.is_none())
    }

    /// Takes in what a call took.
    pub(super) fn ran(&mut self, option: usize, ns: f64) {
        let Some(seen) = self.0.get_mut(option) else { return };
        let known = seen.ns.unwrap_or(f64::INFINITY);
        seen.runs = seen.runs.saturating_add(1);
        seen.late = if ns > SLOWER * known { seen.late + 1 } else { 0 };
        if ns < known || seen.late >= LATE {
            (seen.ns, seen.late) = (Some(ns), 0);
        }
    }

    /// Puts an option out.
    pub(super) fn put_out(&mut self, option: usize, why: String) {
        if let Some(seen) = self.0.get_mut(option) {
            seen.out = Some(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::RandomNumbers;

    /// What calls of options that take so long cost above the fastest, and which they took.
    fn calls(times: &[f64], count: usize) -> (f64, Vec<usize>) {
        let mut trials = Trials(vec![Seen::default(); times.len()]);
        let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
        let (mut regret, mut taken) = (0.0, Vec::new());
        for _ in 0..count {
            let option = trials.turn().unwrap();
            trials.ran(option, times[option]);
            regret += times[option] - fastest;
            taken.push(option);
        }
        (regret, taken)
    }

    #[test]
    fn the_fastest_gets_the_calls_and_finding_out_costs_less_than_three_of_the_slowest() {
        let mut random = RandomNumbers::new(7);
        for _ in 0..2_000 {
            let times: Vec<f64> = (0..4).map(|_| 1e3 * 10f64.powf(6.5 * random.unit())).collect();
            let (regret, taken) = calls(&times, 40);
            let (slowest, fastest) = times
                .iter()
                .fold((0.0f64, f64::INFINITY), |(most, least), &ns| (most.max(ns), least.min(ns)));
            assert!(regret < 3.0 * slowest, "{times:?}: {regret}");
            assert!(taken[20..].iter().all(|&option| times[option] == fastest), "{times:?}: {taken:?}");
        }
    }

    #[test]
    fn an_option_that_becomes_slower_loses_its_calls_and_one_disturbed_call_does_not() {
        let mut trials = Trials(vec![Seen::raced(10.0, true), Seen::raced(100.0, true)]);
        trials.ran(0, 500.0);
        assert_eq!(trials.turn(), Some(0));
        (0..3).for_each(|_| trials.ran(0, 500.0));
        assert_eq!(trials.turn(), Some(1));
        trials.put_out(1, "it panicked".to_string());
        assert_eq!(trials.turn(), Some(0));
        trials.put_out(0, "it panicked too".to_string());
        assert_eq!((trials.turn(), trials.is_open()), (None, false));
    }
}
