//! The kinds of models, by the names users say.

use super::{Blend, Forest, Mlp, Model, Nearest, Prior, Ridge, Svm, Table, Tree};

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Extremely randomised trees and a linear function corrected by its neighbours.
    Default,
    /// Ridge regression.
    Linear,
    /// One regression tree.
    Tree,
    /// A random forest.
    Forest,
    /// Extremely randomised trees.
    Extra,
    /// A small neural network.
    Mlp,
    /// Support vector regression.
    Svm,
    /// The nearest measured problems.
    Nearest,
    /// The roofline's estimates.
    Analytic,
}

impl Kind {
    /// Every kind, the default first.
    pub const ALL: [Kind; 9] = [
        Kind::Default,
        Kind::Linear,
        Kind::Tree,
        Kind::Forest,
        Kind::Extra,
        Kind::Mlp,
        Kind::Svm,
        Kind::Nearest,
        Kind::Analytic,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Default => "default",
            Kind::Linear => "linear",
            Kind::Tree => "tree",
            Kind::Forest => "forest",
            Kind::Extra => "extra",
            Kind::Mlp => "mlp",
            Kind::Svm => "svm",
            Kind::Nearest => "nearest",
            Kind::Analytic => "analytic",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A model of this kind that has learned nothing.
    pub fn make(self, seed: u64) -> Box<dyn Model> {
        match self {
            Kind::Default => Box::new(Blend::new(seed)),
            Kind::Linear => Box::new(Ridge::new()),
            Kind::Tree => Box::new(Tree::new()),
            Kind::Forest => Box::new(Forest::bagged(seed)),
            Kind::Extra => Box::new(Forest::extra(seed)),
            Kind::Mlp => Box::new(Mlp::new(seed)),
            Kind::Svm => Box::new(Svm::new()),
            Kind::Nearest => Box::new(Nearest::new()),
            Kind::Analytic => Box::new(Prior::new()),
        }
    }

    /// Whether the table has what this kind needs.
    pub fn fits(self, table: &Table) -> bool {
        self != Kind::Analytic || table.axes().prior == table.rivals()
    }
}
