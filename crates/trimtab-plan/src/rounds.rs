//! The rounds of measuring on one device: kernels against each other, their points, those too close to call; again where others use the machine.

use crate::decide::Deciding;
use crate::event::Event;
use crate::guard::Guarded;
use crate::search::Limits;
use std::time::Duration;
use trimtab_core::{KernelId, Nanos, Patience};

/// Points of one kernel raced in the first round, where kernels are compared.
const FIRST_ROUND_POINTS: usize = 3;
/// Kernels within this factor of the first round's best race with all their points in the second.
const SECOND_ROUND_FACTOR: f64 = 1.6;
/// Most points of one kernel in the second round.
const SECOND_ROUND_POINTS: usize = 48;
/// The share of a device's time kept for the run-off when points are searched: one in so many.
const RUN_OFF_SHARE: u64 = 4;
/// Rivals within this factor of the best run off, …
const RUN_OFF_FACTOR: f64 = 1.08;
/// … at most so many of them, …
const RUN_OFF_RIVALS: usize = 6;
/// … each with so many samples. Few samples of two threads on a shared machine misjudged a third of the close calls.
const RUN_OFF_SAMPLES: u32 = 12;
/// A batch of the run-off takes at least this long.
const RUN_OFF_BATCH: Nanos = Nanos::from_millis(1);
/// On a GPU a batch takes at least this long when tuning, and five times as long in the run-off: on a software GPU a launch of
/// 30 µs varies by a third from one to the next, and of 24 picks by batches of 0.2 ms two were over 10 % off.
pub(crate) const NOISY_BATCH: Nanos = Nanos::from_millis(2);
const NOISY_RUN_OFF: u64 = 5;
/// On a GPU fewer are dropped early and more run off, with more samples, for the same reason.
pub(crate) const NOISY_LADDER: [f64; 6] = [8.0, 4.0, 2.5, 1.8, 1.5, 1.35];
const NOISY_RUN_OFF_FACTOR: f64 = 1.15;
const NOISY_RUN_OFF_RIVALS: usize = 10;
const NOISY_RUN_OFF_SAMPLES: u32 = 24;
/// Where others used the machine meanwhile, whoever is within this factor of the best runs off, …
const UNSURE_FACTOR: f64 = 1.5;
const NOISY_UNSURE_FACTOR: f64 = 1.6;
/// … at most so many of them, …
const UNSURE_RIVALS: usize = 12;
/// … fewer are dropped early, …
const UNSURE_LADDER: [f64; 6] = [8.0, 4.0, 2.5, 1.8, 1.4, 1.2];
/// … on a GPU more of them once the machine is quiet again: the time is for those that may be the best, …
const SETTLING_LADDER: [f64; 6] = [4.0, 1.6, 1.35, 1.2, 1.13, 1.08];
/// … each with so many times the samples while they still do. Two threads beside two busy processes hardly ever run undisturbed: of 34
/// products one pick was 18 % off.
const UNSURE_SAMPLES: u32 = 3;
/// … and on a GPU in batches that a software GPU computes within a time slice (3 ms), each after a rest: it wakes up with a whole one.
const NOISY_BUSY_BATCH: Nanos = Nanos::from_millis(1);
/// In the background each runs so often in a race, warm-up included, and at least so many race.
const SETTLING_RUNS: usize = 6;
const SETTLING_RIVALS: usize = 3;
/// What a whole race found stays in the background unless it takes more than this many times as long as another: whoever tuned had more time, and of 108
/// picks made beside busy processes 33 were exchanged, four of them for others that were faster by more than 5 %, eight for slower ones.
const STAYS_WITHIN: f64 = 1.05;
/// Where others use the machine, all rounds are run so often for someone who waits, …
const BUSY_PASSES: u32 = 3;
/// … with this much time between them: what disturbed one for seconds, and not the others, makes a rival look four times as slow.
const BETWEEN_PASSES: Duration = Duration::from_millis(150);

/// Whose measured times are too close to call.
#[derive(Clone, Copy)]
struct Close {
    /// Within this factor of the best, …
    factor: f64,
    /// … at most so many of them.
    most: usize,
}

impl Close {
    /// After other rounds.
    const fn tuning(noisy: bool) -> Close {
        match noisy {
            true => Close { factor: NOISY_RUN_OFF_FACTOR, most: NOISY_RUN_OFF_RIVALS },
            false => Close { factor: RUN_OFF_FACTOR, most: RUN_OFF_RIVALS },
        }
    }

    /// After rounds on a busy machine: what others did to them is not known.
    const fn unsure(noisy: bool) -> Close {
        Close { factor: if noisy { NOISY_UNSURE_FACTOR } else { UNSURE_FACTOR }, most: UNSURE_RIVALS }
    }
}

impl Deciding<'_> {
    /// The rounds on one device, more than once where others use the machine.
    pub(crate) fn rounds(
        &mut self,
        bench: &mut Guarded<'_>,
        turn: usize,
        device: u16,
        noisy: bool,
    ) -> Option<usize> {
        if self.runs_off_again() {
            // On a GPU there is time for those that came close.
            let leader = match self.doubts_times() && !noisy {
                true => self.all_rounds(bench, turn, device, noisy),
                false => self.last_round(bench, device, noisy, self.incumbent),
            };
            // What a whole race found gives way to a whole and quiet one only, of one cut short some rivals may have had two runs; and to who is
            // clearly faster.
            let slowest = leader.map_or(f64::INFINITY, |leader| self.pace(leader)) + STAYS_WITHIN.log2();
            let whole = self.record.complete && !self.record.busy;
            let stays = self.incumbent.filter(|&rival| !whole || self.pace(rival) <= slowest);
            return stays.filter(|&rival| self.record.rivals[rival].estimate().is_some()).or(leader);
        }
        let mut leader = self.all_rounds(bench, turn, device, noisy);
        let is_waited_for =
            !self.ask.accept_partial && self.ask.behind.is_none() && self.ask.goal.evals.is_none();
        for _ in 1..BUSY_PASSES {
            let (left, spent) = (self.budget.left().0, self.budget.spent().0);
            let has_time_for_all = left / u64::from(BUSY_PASSES) > spent;
            // What other devices need is not known.
            let is_last = turn + 1 >= self.order.len();
            let has_time = has_time_for_all || is_last && left > spent / u64::from(BUSY_PASSES);
            if !is_waited_for || !self.record.busy || !has_time || self.is_good_enough(leader) {
                break;
            }
            std::thread::sleep(BETWEEN_PASSES);
            // Where there is no time for all rounds there is for those that came close: runs of 25 ms are never undisturbed, and of
            // few of them who was lucky wins. Of 34 products one pick was 16 % off, with two thirds of the time left.
            let again = match has_time_for_all {
                true => self.all_rounds(bench, turn, device, noisy),
                false => {
                    let given = self.ask.rules.clone();
                    let again = self.last_round(bench, device, noisy, leader);
                    self.ask.rules = given;
                    again
                }
            };
            leader = again.or(leader);
            // The shortest time of each counts, of whichever pass it is.
            let best = self.run_off(device, Close { factor: 1.0 + self.ask.rules.indifference, most: 1 });
            let best = best.first().copied();
            leader = leader.filter(|&leader| self.is_tied(leader, best)).or(best);
        }
        leader
    }

    /// Whether a rival is as fast as the best, within the indifference.
    fn is_tied(&self, rival: usize, best: Option<usize>) -> bool {
        let slowest = best.map_or(f64::INFINITY, |best| self.pace(best));
        self.pace(rival) <= slowest + (1.0 + self.ask.rules.indifference).log2()
    }

    /// Kernels against each other, then their points, then those too close to call.
    fn all_rounds(
        &mut self,
        bench: &mut Guarded<'_>,
        turn: usize,
        device: u16,
        noisy: bool,
    ) -> Option<usize> {
        let given = self.ask.rules.clone();
        let leader = self.first_to_last(bench, turn, device, noisy);
        self.ask.rules = given;
        leader
    }

    fn first_to_last(
        &mut self,
        bench: &mut Guarded<'_>,
        turn: usize,
        device: u16,
        noisy: bool,
    ) -> Option<usize> {
        let exhaustive = self.ask.patience == Patience::Exhaustive;
        let searched = match exhaustive {
            true => Vec::new(),
            false => self.searched(device, SECOND_ROUND_POINTS),
        };
        let turns = (self.order.len() - turn) as u32;
        let left = self.budget.left().0;
        let shared = left / u64::from(turns);
        let run_off = if self.ask.accept_partial { 0 } else { shared / RUN_OFF_SHARE };
        let limits = Limits {
            reserve: Nanos(left - shared + run_off),
            evaluations: self.budget.evaluations_left().div_ceil(turns),
        };
        let before = self.budget.evaluated();
        if let Some(list) = self.shortlist(device) {
            let leader = self.race(bench, &list, self.incumbent);
            if leader.is_some() {
                self.record.apply(Event::Shortlisted { rivals: list.len() });
                return leader;
            }
        }
        let first = self.first_round(device, &searched);
        let mut leader = self.race(bench, &first, self.incumbent);
        if self.is_good_enough(leader) {
            return leader;
        }
        if let (Some(first_leader), false) = (leader, exhaustive) {
            let second = self.second_round(device, &first, first_leader, &searched);
            if searched.is_empty() || second.len() > 1 {
                leader = self.race(bench, &second, leader).or(leader);
            }
        }
        if !searched.is_empty() {
            let evaluations = limits.evaluations.saturating_sub(self.budget.evaluated() - before);
            leader = self.search(bench, device, &searched, leader, Limits { evaluations, ..limits });
            // As in a race, what is in force stays unless something is clearly faster.
            let tied = |&incumbent: &usize| {
                bench.has_run(&self.record.rivals[incumbent]) && self.is_tied(incumbent, leader)
            };
            leader = self.incumbent.filter(tied).or(leader);
        }
        // Someone who asked for tuning waits for it: those too close to call run off side by side.
        if self.ask.accept_partial || self.is_good_enough(leader) {
            return leader;
        }
        self.last_round(bench, device, noisy, leader)
    }

    /// Those too close to call side by side, with many samples of each.
    fn last_round(
        &mut self,
        bench: &mut Guarded<'_>,
        device: u16,
        noisy: bool,
        leader: Option<usize>,
    ) -> Option<usize> {
        let (settles, busy) = (self.ask.behind.is_some(), self.record.busy);
        let unsure = settles || busy;
        let close = if unsure { Close::unsure(noisy) } else { Close::tuning(noisy) };
        let mut last = self.run_off(device, close);
        if settles && !noisy {
            // A race of more than there is time for is cut short, and such a one changes nothing.
            let most = self.runs_left(&last) / SETTLING_RUNS;
            last = self.run_off(device, Close { most: close.most.min(most.max(SETTLING_RIVALS)), ..close });
        }
        if last.len() < 2 && !settles {
            return leader;
        }
        let rules = &mut self.ask.rules;
        let least = if noisy { NOISY_RUN_OFF_SAMPLES } else { RUN_OFF_SAMPLES };
        rules.min_samples = (if busy { UNSURE_SAMPLES * least } else { least }).max(rules.min_samples);
        rules.max_samples = rules.min_samples.max(rules.max_samples);
        if busy {
            rules.ladder = UNSURE_LADDER;
        } else if settles && noisy {
            rules.ladder = SETTLING_LADDER;
        }
        rules.rest_always = noisy && busy;
        rules.batch_time_min = match noisy {
            true if busy => NOISY_BUSY_BATCH,
            true => Nanos(rules.batch_time_min.0.saturating_mul(NOISY_RUN_OFF)),
            false => rules.batch_time_min.max(RUN_OFF_BATCH),
        };
        self.race(bench, &last, leader).or(leader)
    }

    /// How often the fastest of these could run in the time that is left.
    fn runs_left(&self, rivals: &[usize]) -> usize {
        let times = rivals.iter().filter_map(|&index| self.record.rivals[index].estimate());
        let least = times.map(|estimate| estimate.time.0).min().unwrap_or(1).max(1);
        usize::try_from(self.budget.left().0 / least).unwrap_or(usize::MAX)
    }

    /// The rivals with which kernels are compared: the best estimates and the default of each.
    fn first_round(&self, device: u16, searched: &[KernelId]) -> Vec<usize> {
        let rivals = &self.record.rivals;
        let open = |index: &usize| rivals[*index].device == device && rivals[*index].is_open();
        let mut all: Vec<usize> = (0..rivals.len()).filter(open).collect();
        if self.ask.patience == Patience::Exhaustive {
            return all;
        }
        // The first of each kernel in the order of its author.
        let mut defaults: Vec<usize> = Vec::new();
        for &index in &all {
            let kernel = rivals[index].kernel;
            if !defaults.iter().any(|&other| rivals[other].kernel == kernel) {
                defaults.push(index);
            }
        }
        // Stable: of equal estimates the one the kernel's author put first.
        all.sort_by(|&a, &b| rivals[a].rank().total_cmp(&rivals[b].rank()));
        let mut chosen: Vec<usize> = Vec::new();
        for &index in &all {
            let rival = &rivals[index];
            let same = chosen.iter().filter(|&&other| rivals[other].kernel == rival.kernel).count();
            // The points of a kernel that is searched are the strategy's business.
            let most = if searched.contains(&rival.kernel) { 1 } else { FIRST_ROUND_POINTS };
            if same < most || self.incumbent == Some(index) {
                chosen.push(index);
            }
        }
        defaults.retain(|index| !chosen.contains(index));
        chosen.extend(defaults);
        chosen.sort_unstable();
        chosen
    }

    /// The points of the kernels that came close and are not searched, and the leader.
    fn second_round(&self, device: u16, first: &[usize], leader: usize, searched: &[KernelId]) -> Vec<usize> {
        let rivals = &self.record.rivals;
        let limit = self.pace(leader) + SECOND_ROUND_FACTOR.log2();
        let close: Vec<KernelId> = first
            .iter()
            .filter(|&&index| rivals[index].is_measured() && self.pace(index) <= limit)
            .map(|&index| rivals[index].kernel)
            .filter(|kernel| !searched.contains(kernel))
            .collect();
        let mut second = vec![leader];
        for (index, rival) in rivals.iter().enumerate() {
            let same = second.iter().filter(|&&other| rivals[other].kernel == rival.kernel).count();
            let fresh = !first.contains(&index) || self.pace(index) <= limit && rival.is_measured();
            if rival.device == device
                && rival.estimate().is_some()
                && close.contains(&rival.kernel)
                && fresh
                && index != leader
                && same < SECOND_ROUND_POINTS
            {
                second.push(index);
            }
        }
        second.sort_unstable();
        second
    }

    /// The few whose measured times are too close to call.
    fn run_off(&self, device: u16, Close { factor, most }: Close) -> Vec<usize> {
        let rivals = &self.record.rivals;
        let its = |&index: &usize| rivals[index].device == device && rivals[index].is_measured();
        let mut close: Vec<usize> = (0..rivals.len()).filter(its).collect();
        close.sort_by(|&a, &b| self.pace(a).total_cmp(&self.pace(b)));
        let limit = close.first().map_or(0.0, |&best| self.pace(best) + factor.log2());
        close.retain(|&index| self.pace(index) <= limit);
        close.truncate(most);
        close.sort_unstable();
        close
    }
}
