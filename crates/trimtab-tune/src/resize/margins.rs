//! What live resize is told: when to change, and what launches did.

use trimtab_core::Nanos;

/// When a value is entered and left, and how far it may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// How many times the present throughput another value must reach to be taken.
    pub enter: f64,
    /// By how many times throughput must shift, up or down, before a settled value is doubted.
    pub leave: f64,
    /// For how many observations it must have shifted; doubles with every search.
    pub dwell: u32,
    /// The smallest value that may be taken.
    pub floor: u32,
    /// The largest value that may be taken.
    pub ceiling: u32,
}

impl Default for Margins {
    fn default() -> Margins {
        Margins { enter: 1.05, leave: 1.3, dwell: 32, floor: 0, ceiling: u32::MAX }
    }
}

/// What one launch at the present value did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// How much was done, in any unit that stays the same.
    pub work: f64,
    /// How long it took.
    pub busy: Nanos,
    /// How long the device had nothing to do before it: not held against the value, but much of it says that there is
    /// room to grow.
    pub idle: Nanos,
}
