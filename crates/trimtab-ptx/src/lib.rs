//! Runs NVIDIA PTX on the CPU and checks it.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod counters;
mod decode;
mod fault;
mod launch;
mod memory;
mod module;
mod number;
mod op;
mod operand;
mod parse;
mod run;
mod scalar;
mod token;

pub use counters::Counters;
pub use fault::{Fault, FaultKind, LaunchError, LoadError};
pub use launch::{Checks, GridLaunch, Limits};
pub use memory::{GlobalMemory, MemoryError};
pub use module::{Kernel, Module, Parameter};
