//! The kinds of models, by the names users say.

use super::{Blend, Forest, Mlp, Model, Nearest, Prior, Ridge, Svm, Table, Tree};

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelKind {
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

impl ModelKind {
    /// Every kind, the default first.
    pub const ALL: [ModelKind; 9] = [
        ModelKind::Default,
        ModelKind::Linear,
        ModelKind::Tree,
        ModelKind::Forest,
        ModelKind::Extra,
        ModelKind::Mlp,
        ModelKind::Svm,
        ModelKind::Nearest,
        ModelKind::Analytic,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            ModelKind::Default => "default",
            ModelKind::Linear => "linear",
            ModelKind::Tree => "tree",
            ModelKind::Forest => "forest",
            ModelKind::Extra => "extra",
            ModelKind::Mlp => "mlp",
            ModelKind::Svm => "svm",
            ModelKind::Nearest => "nearest",
            ModelKind::Analytic => "analytic",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<ModelKind> {
        ModelKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A model of this kind that has learned nothing.
    pub fn make(self, seed: u64) -> Box<dyn Model> {
        match self {
            ModelKind::Default => Box::new(Blend::new(seed)),
            ModelKind::Linear => Box::new(Ridge::new()),
            ModelKind::Tree => Box::new(Tree::new()),
            ModelKind::Forest => Box::new(Forest::bagged(seed)),
            ModelKind::Extra => Box::new(Forest::extra(seed)),
            ModelKind::Mlp => Box::new(Mlp::new(seed)),
            ModelKind::Svm => Box::new(Svm::new()),
            ModelKind::Nearest => Box::new(Nearest::new()),
            ModelKind::Analytic => Box::new(Prior::new()),
        }
    }

    /// Whether the table has what this kind needs.
    pub fn fits(self, table: &Table) -> bool {
        self != ModelKind::Analytic || table.axes().prior == table.rivals()
    }
}
