//! Operands as devices see them: element types and erased slices, made-up data for measuring, and whether a result agrees
//! with the reference. Nothing here computes an operation but what checking needs, runs a thread or knows a device.
#![forbid(unsafe_code)]

mod check;
mod launch;
mod operands;
mod slack;
mod slice;
mod standin;

pub use check::{Expected, Reference, tolerance};
pub use half::f16;
pub use launch::{Held, HeldLaunch, Launch};
pub use operands::{Data, Operands, making_takes};
pub use slice::{Element, Slice, SliceMut};
pub use standin::stand_ins;
