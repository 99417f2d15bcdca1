//! `auto`: the default. A model of the space, mixed with steps to neighbours of the best when the model is stuck.

use super::hill::shuffle;
use super::{Donor, Model, RandomNumbers, SearchSpace, Seen, Strategy, Sweep};
use std::sync::Arc;

/// Spaces up to this size are measured whole, in order: nothing is learned from so few.
const SMALL: usize = 8;
/// Answers without a new best after which every fourth question is a neighbour of the best.
const PATIENCE: usize = 12;
const EVERY: usize = 4;

/// The strategy for everyone who does not choose one.
#[derive(Clone, Debug)]
pub struct Auto {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    way: Way,
    best: Option<(usize, f64)>,
    idle: usize,
    /// Neighbours of the best not measured yet, in random order.
    around: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Way {
    Everything(Sweep),
    Modelled(Box<Model>),
}

impl Auto {
    /// A search of that seed, starting from what donors know.
    pub fn new(space: Arc<SearchSpace>, seed: u64, donors: &[Donor]) -> Auto {
        let way = if space.len() <= SMALL {
            Way::Everything(Sweep::new(&space))
        } else {
            Way::Modelled(Box::new(Model::new(space.clone(), seed).with_donors(donors)))
        };
        // Any other stream than the model's.
        let numbers = RandomNumbers::new(!seed);
        Auto { space, numbers, way, best: None, idle: 0, around: Vec::new() }
    }
}

impl Strategy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn ask(&mut self) -> Option<usize> {
        let model = match &mut self.way {
            Way::Everything(sweep) => return sweep.ask(),
            Way::Modelled(model) => model,
        };
        if self.idle > PATIENCE && self.idle.is_multiple_of(EVERY) {
            while let Some(at) = self.around.pop() {
                if model.take(at) {
                    return Some(at);
                }
            }
        }
        model.ask()
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        match &mut self.way {
            Way::Everything(sweep) => sweep.tell(at, seen),
            Way::Modelled(model) => model.tell(at, seen),
        }
        self.idle += 1;
        let Some(time) = seen.time().filter(|_| at < self.space.len()) else { return };
        if self.best.is_none_or(|(_, best)| time < best) {
            self.best = Some((at, time));
            self.idle = 0;
            self.around.clear();
            self.space.neighbours(at, &mut self.around);
            shuffle(&mut self.around, &mut self.numbers);
        }
    }
}
