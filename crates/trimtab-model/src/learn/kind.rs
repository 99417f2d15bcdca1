//! The kinds of models, by the names users say, and which of them decides.

use super::{Blend, Forest, Learned, Mlp, Model, Nearest, Ridge, Svm, Table, Tree};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The word for [`ModelChoice::Auto`].
const AUTO: &str = "auto";

trimtab_core::named! {
    /// A kind of model.
    pub enum ModelKind {
        /// Extremely randomised trees and a linear function corrected by its neighbours.
        Default = "default",
        /// Ridge regression.
        Linear = "linear",
        /// One regression tree.
        Tree = "tree",
        /// A random forest.
        Forest = "forest",
        /// Extremely randomised trees.
        Extra = "extra",
        /// A small neural network.
        Mlp = "mlp",
        /// Support vector regression.
        Svm = "svm",
        /// The nearest measured problems.
        Nearest = "nearest",
    }
}

impl ModelKind {
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
        }
    }
}

/// Which model decides.
#[derive(Clone, Default)]
pub enum ModelChoice {
    /// The kind with the least cross-validated loss on what was measured.
    #[default]
    Auto,
    /// Always this kind.
    Kind(ModelKind),
    /// A model of the user's own: what this makes of a seed has learned nothing.
    Custom(Arc<dyn Fn(u64) -> Box<dyn Model> + Send + Sync>),
}

impl ModelChoice {
    /// A model of the user's own.
    pub fn custom(make: impl Fn(u64) -> Box<dyn Model> + Send + Sync + 'static) -> ModelChoice {
        ModelChoice::Custom(Arc::new(make))
    }

    /// The kind that decides until there was time to [`learn`](ModelChoice::learn), and whether it is what was chosen. Fitting it takes
    /// milliseconds; comparing all kinds takes tenths of a second, a network as long, and of a user's model nobody knows.
    pub fn at_once(&self) -> (ModelKind, bool) {
        match self {
            ModelChoice::Kind(kind) if *kind != ModelKind::Mlp => (*kind, true),
            _ => (ModelKind::Default, false),
        }
    }

    /// The model chosen, fitted to a table: a function of choice, table and seed alone. `None` as in [`Learned::fit`].
    pub fn learn(&self, table: &Table, seed: u64) -> Option<Learned> {
        match self {
            ModelChoice::Auto => Learned::auto(table, seed),
            ModelChoice::Kind(kind) => Learned::fit(*kind, table, seed),
            ModelChoice::Custom(make) => Learned::with(&**make, table, seed),
        }
    }

    /// Every word that is understood, for messages and help.
    pub fn words() -> String {
        format!("{AUTO}, {}", ModelKind::ALL.map(ModelKind::name).join(", "))
    }
}

impl fmt::Debug for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelChoice::Auto => AUTO,
            ModelChoice::Kind(kind) => kind.name(),
            ModelChoice::Custom(_) => "custom",
        })
    }
}

/// A word that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a model; use one of: {words}", words = ModelChoice::words())]
pub struct UnknownModel(pub String);

impl FromStr for ModelChoice {
    type Err = UnknownModel;

    /// `auto` or the name of a kind; case does not matter.
    fn from_str(text: &str) -> Result<ModelChoice, UnknownModel> {
        let word = text.trim().to_ascii_lowercase();
        if word == AUTO {
            return Ok(ModelChoice::Auto);
        }
        let kind = ModelKind::ALL.into_iter().find(|kind| kind.name() == word);
        kind.map(ModelChoice::Kind).ok_or_else(|| UnknownModel(text.to_string()))
    }
}
