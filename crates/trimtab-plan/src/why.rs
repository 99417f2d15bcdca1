//! What tips the scales between devices, in one word.

use serde::{Serialize, Serializer};
use trimtab_core::Basis;

trimtab_core::named! {
    /// What tipped the scales.
    pub enum Why {
        /// Where the data lies: elsewhere it would have to be moved.
        Residency = "residency",
        /// Several operations as one are faster than apart.
        Fusion = "fusion",
        /// Estimates.
        Model = "model",
        /// Measured times.
        Measured = "measured",
        /// A size set by the user, below or above which a device is not used.
        Threshold = "threshold",
        /// Kernels the user forbids or forces.
        Kernels = "kernels",
        /// Too little work to be worth handing over.
        SmallBatch = "small-batch",
        /// The other device cannot do it.
        Unsupported = "unsupported",
        /// A limit on memory, threads or latency.
        Constraint = "constraint",
        /// No other device may be used.
        Disabled = "disabled",
    }
}

impl Why {
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
