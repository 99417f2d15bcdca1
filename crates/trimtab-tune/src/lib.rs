//! Measuring and searching.

mod sandbox;

pub use sandbox::{MAX_ABANDONED, Sandbox, panic_message};
