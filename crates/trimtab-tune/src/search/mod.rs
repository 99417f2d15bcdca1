//! Searching a space of settings: strategies that say which point to measure next and are told what came of it.
//!
//! Every strategy is deterministic by its seed on every machine, asks for no point twice, and ends when the space is spent.

mod anneal;
mod auto;
mod donors;
mod evolve;
mod exact_math;
mod gaussian;
mod halving;
mod hill;
mod model;
mod natural;
mod outlook;
mod policy;
mod random;
mod space;
mod subspace;
mod sweep;
mod told;
mod tried;
mod view;
mod walk;

pub use donors::{Donor, DonorPoint};
pub use policy::{ONE, Policy, reward};
pub use space::{SearchAxis, SearchSpace};

use model::Model;
use std::sync::Arc;
use walk::Walk;

/// What came of measuring a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// It took this long, in any unit as long as it is always the same.
    Time(f64),
    /// It could not be built, crashed, hung, or gave a wrong result.
    Failed,
}

impl Seen {
    /// The time, unless it failed. A time that is no positive number is a lie and counts as a failure.
    pub fn time(self) -> Option<f64> {
        match self {
            Seen::Time(time) if time > 0.0 && time.is_finite() => Some(time),
            _ => None,
        }
    }
}

/// A way of searching.
pub trait Strategy: Send {
    /// The name on the command line.
    fn name(&self) -> &'static str;
    /// The position of the next point to measure, never one that was asked or told before; `None` when nothing is left.
    fn ask(&mut self) -> Option<usize>;
    /// What came of a point. Points nobody asked for are welcome: what is known already is not measured again.
    fn tell(&mut self, at: usize, seen: Seen);
    /// How many doublings faster than the best so far the best of so many further points is expected to be, if the strategy has a model
    /// of that. One point is the one that was asked for last.
    fn expected_gain(&self, _points: usize) -> Option<f64> {
        None
    }
}

/// The strategies by name, the default first.
pub const STRATEGIES: [&str; 9] =
    ["auto", "model", "hill", "evolve", "anneal", "halving", "natural", "random", "sweep"];

/// A fresh strategy of that name; `None` if there is none of that name. Only `auto` and `model` listen to donors.
pub fn strategy(
    name: &str,
    space: &Arc<SearchSpace>,
    seed: u64,
    donors: &[Donor],
) -> Option<Box<dyn Strategy>> {
    let space = space.clone();
    Some(match name {
        "auto" => Box::new(auto::Auto::new(space, seed, donors)),
        "model" => Box::new(Model::new(space, seed).with_donors(donors)),
        "hill" => Walk::start(space, seed, hill::Hill::default()),
        "evolve" => Walk::start(space, seed, evolve::Evolve::default()),
        "anneal" => Walk::start(space, seed, anneal::Anneal::default()),
        "halving" => Walk::start(space, seed, halving::Halving::default()),
        "natural" => {
            let way = natural::Natural::new(&space);
            Walk::start(space, seed, way)
        }
        "random" => Walk::start(space, seed, random::Random),
        "sweep" => {
            let way = sweep::Sweep::new(space.len());
            Walk::start(space, seed, way)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
