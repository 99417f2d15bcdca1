//! What this machine is (facts), what it is like now (state), how fast it is (rates), and whether something disturbed a
//! measurement (watch). Reads only; what the system does not tell is absent, never a plausible constant.

mod facts;
mod features;
mod interference;
mod others;
mod pace;
mod rates;
mod read;
mod speed;
mod state;

#[cfg(test)]
mod fixtures;

pub use facts::facts;
pub use interference::Watch;
pub(crate) use interference::processor_time;
pub(crate) use others::Others;
pub(crate) use pace::{is_shared, slowed};
pub use rates::rates;
pub use state::{energy_uj, state};
