//! `halving`: many local searches at once; after each round the slower half is given up and the rest get more steps.

use super::walk::{Known, Way};

/// Local searches at the start of a bracket.
const STARTS: usize = 16;
/// Steps each of them has in its first round; doubled every round.
const STEPS: usize = 1;

struct Runner {
    at: usize,
    time: f64,
    around: Vec<usize>,
}

/// Successive halving over local searches, a new bracket when one is left and stuck.
pub(super) struct Halving {
    runners: Vec<Runner>,
    /// Starts of this bracket still to be drawn.
    to_start: usize,
    /// Steps each runner has in this round, and the steps taken in it.
    steps: usize,
    taken: usize,
    /// Which runner the next answer belongs to; `None` for a new start.
    turn: Option<usize>,
}

impl Default for Halving {
    fn default() -> Halving {
        Halving { runners: Vec::new(), to_start: STARTS, steps: STEPS, taken: 0, turn: None }
    }
}

impl Halving {
    fn next_step(&mut self, known: &Known) -> Option<usize> {
        while !self.runners.is_empty() {
            let turn = self.taken % self.runners.len();
            if self.taken >= self.steps * self.runners.len() {
                self.halve();
                continue;
            }
            self.taken += 1;
            while let Some(at) = self.runners[turn].around.pop() {
                if !known.tried.has(at) {
                    self.turn = Some(turn);
                    return Some(at);
                }
            }
            if self.runners.iter().all(|runner| runner.around.is_empty()) {
                self.runners.clear();
            }
        }
        None
    }

    fn halve(&mut self) {
        self.runners.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.at.cmp(&b.at)));
        self.runners.truncate(self.runners.len().div_ceil(2));
        self.taken = 0;
        self.steps *= 2;
    }
}

impl Way for Halving {
    const NAME: &'static str = "halving";

    fn step(&mut self, known: &mut Known) -> Option<usize> {
        self.turn = None;
        if self.to_start == 0 {
            if let Some(at) = self.next_step(known) {
                return Some(at);
            }
            (self.to_start, self.steps, self.taken) = (STARTS, STEPS, 0);
        }
        self.to_start -= 1;
        None
    }

    fn learn(&mut self, known: &mut Known, at: usize, time: Option<f64>) {
        let Some(time) = time else { return };
        let turn = self.turn.take();
        if turn.and_then(|turn| self.runners.get(turn)).is_some_and(|runner| runner.time <= time) {
            return;
        }
        let runner = Runner { at, time, around: known.around(at) };
        match turn.and_then(|turn| self.runners.get_mut(turn)) {
            Some(known) => *known = runner,
            None => self.runners.push(runner),
        }
    }
}
