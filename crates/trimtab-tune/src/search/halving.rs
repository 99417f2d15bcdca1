//! `halving`: many local searches at once; after each round the slower half is given up and the rest get more steps.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// Local searches at the start of a bracket.
const STARTS: usize = 16;
/// Steps each of them has in its first round; doubled every round.
const STEPS: usize = 1;

#[derive(Clone, Debug)]
struct Runner {
    at: usize,
    time: f64,
    around: Vec<usize>,
}

/// Successive halving over local searches, a new bracket when one is left and stuck.
#[derive(Clone, Debug)]
pub struct Halving {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    runners: Vec<Runner>,
    /// Starts of this bracket still to be drawn.
    to_start: usize,
    /// Steps each runner has in this round, and the steps taken in it.
    steps: usize,
    taken: usize,
    /// Which runner the next answer belongs to; `None` for a new start.
    turn: Option<usize>,
}

impl Halving {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Halving {
        Halving {
            tried: Tried::new(space.len()),
            space,
            numbers: RandomNumbers::new(seed),
            runners: Vec::new(),
            to_start: STARTS,
            steps: STEPS,
            taken: 0,
            turn: None,
        }
    }

    fn next_step(&mut self) -> Option<usize> {
        while !self.runners.is_empty() {
            let turn = self.taken % self.runners.len();
            if self.taken >= self.steps * self.runners.len() {
                self.halve();
                continue;
            }
            self.taken += 1;
            while let Some(at) = self.runners[turn].around.pop() {
                if !self.tried.has(at) {
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

impl Strategy for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn ask(&mut self) -> Option<usize> {
        self.turn = None;
        let step = if self.to_start == 0 { self.next_step() } else { None };
        let at = match step {
            Some(at) => at,
            None => {
                if self.to_start == 0 {
                    (self.to_start, self.steps, self.taken) = (STARTS, STEPS, 0);
                }
                self.to_start -= 1;
                self.tried.draw(&mut self.numbers)?
            }
        };
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.tried.add(at);
        let Some(time) = seen.time().filter(|_| at < self.space.len()) else { return };
        let turn = self.turn.take();
        if turn.and_then(|turn| self.runners.get(turn)).is_some_and(|runner| runner.time <= time) {
            return;
        }
        let mut around = Vec::new();
        self.space.neighbours(at, &mut around);
        self.numbers.shuffle(&mut around);
        let runner = Runner { at, time, around };
        match turn.and_then(|turn| self.runners.get_mut(turn)) {
            Some(known) => *known = runner,
            None => self.runners.push(runner),
        }
    }
}
