//! Estimates of how long a kernel takes: the analytic roofline, and fits over measurements of the same kernel.
//!
//! Pure arithmetic: no clock, no randomness, no IO. The same observations give the same estimate on every machine.
#![forbid(unsafe_code)]

mod features;
mod fit;
pub mod learn;
mod linear;
mod profile;
mod roofline;

pub use features::{FEATURES, features};
pub use fit::{Fit, MAX_NEIGHBOURS, Observation};
pub use profile::{Assumed, Profile, Rung};
pub use roofline::{ANALYTIC_SPREAD_LOG2, Roofline, analytic, least_ns, roofline};
