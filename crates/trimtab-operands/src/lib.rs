//! Operands as devices see them: element types and erased slices, made-up data for measuring, and whether a result agrees
//! with the reference; and the trait of devices that compute on them. Nothing here computes an operation but what checking needs, or runs a thread.
#![forbid(unsafe_code)]

mod check;
mod executor;
mod operands;
mod slack;
mod slice;
mod standin;

pub use check::{Expected, Reference, tolerance};
pub use executor::{
    Batch, Buffer, Executor, HostBuffer, HostLaunch, Keeps, Kept, Launch, Pending, Wait, fits, fits_bytes,
    operand_name,
};
pub use half::f16;
pub use operands::{Operands, making_takes};
pub use slice::{Data, Element, Lend, Slice, SliceMut};
pub use standin::stand_ins;
pub use trimtab_core::DType;
