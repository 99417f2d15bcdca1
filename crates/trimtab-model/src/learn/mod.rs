//! Which rival is fastest on a problem nobody has measured: learned from the problems that were.
//!
//! A [`Table`] holds measured problems, a [`Model`] learns from it and predicts, for one problem, log2 of every rival's
//! time over the best's. [`Learned`] is a model with its cross-validated errors: what it chooses comes with an expected
//! loss. All of it is arithmetic: no clock, no IO, and the same table and seed give the same model.

mod active;
mod blend;
mod calibration;
mod drift;
mod forest;
mod kind;
mod learned;
mod linear;
mod mlp;
mod nearest;
mod policy;
mod recency;
mod shape;
mod svm;
mod table;
mod tree;
mod words;

pub use active::{ENOUGH_LOSS, FIRST, Next, k_centre, next};
pub use blend::Blend;
pub use calibration::Calibration;
pub use drift::{Change, NOTICED, Watch};
pub use forest::Forest;
pub use kind::{ModelChoice, ModelKind, UnknownModel};
pub use learned::{Buffers, Choice, FEWEST_PROBLEMS, Learned};
pub use linear::Ridge;
pub use mlp::Mlp;
pub use nearest::Nearest;
pub use policy::{Ledger, PROBLEM_LIMIT, PROBLEM_SHARE, PROCESS_SHARE, Pick, Policy};
pub use recency::{HALF_LIFE_S, recency};
pub use shape::{axes, shape};
pub use svm::Svm;
pub use table::{Axes, SLOWEST_LOG2, Table, relative};
pub use tree::Tree;

use crate::roofline::LONGEST_NS;

/// What learns from measured problems and predicts others.
pub trait Model: Send + Sync {
    /// Its name, as users say it.
    fn name(&self) -> &'static str;

    /// Learns these problems and forgets all others.
    fn fit(&mut self, table: &Table);

    /// Learns one more problem: its numbers, what was told of the rivals as in [`Table::told`], its weight. False if it
    /// only counts when the model is fitted again.
    fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        let _ = (at, told, weight);
        false
    }

    /// log2 of each rival's time over the best's, and how far off that typically is. Where `opinions` has room for as many
    /// values as [`members`](Model::members) times rivals, each part's own prediction goes there too, part by part.
    /// Allocates nothing.
    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], opinions: &mut [f64]);

    /// Parts it is made of that may disagree; none for a model of one piece.
    fn members(&self) -> usize {
        0
    }

    /// In words, what the prediction for a problem rests on.
    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String>;
}
