//! What tips the scales between devices, in one word.

use serde::{Serialize, Serializer};
use std::fmt;
use trimtab_core::Basis;

/// What tipped the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Where the data lies: elsewhere it would have to be moved.
    Residency,
    /// Several operations as one are faster than apart.
    Fusion,
    /// Estimates.
    Model,
    /// Measured times.
    Measured,
    /// A size set by the user, below or above which a device is not used.
    Threshold,
    /// Too little work to be worth handing over.
    SmallBatch,
    /// The other device cannot do it.
    Unsupported,
    /// A limit on memory, threads or latency.
    Constraint,
    /// No other device may be used.
    Disabled,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 9] = [
        Why::Residency,
        Why::Fusion,
        Why::Model,
        Why::Measured,
        Why::Threshold,
        Why::SmallBatch,
        Why::Unsupported,
        Why::Constraint,
        Why::Disabled,
    ];

    /// One word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Residency => "residency",
            Why::Fusion => "fusion",
            Why::Model => "model",
            Why::Measured => "measured",
            Why::Threshold => "threshold",
            Why::SmallBatch => "small-batch",
            Why::Unsupported => "unsupported",
            Why::Constraint => "constraint",
            Why::Disabled => "disabled",
        }
    }

    /// The reason an estimate is.
    pub fn of(basis: Basis) -> Why {
        match basis {
            Basis::Measured(_) => Why::Measured,
            _ => Why::Model,
        }
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
