//! Operands as devices see them: element types and erased slices, made-up data for measuring, and whether a result agrees
//! with the reference; and the trait of devices that compute on them. Nothing here computes an operation but what checking needs, or runs a thread.
#![forbid(unsafe_code)]

mod audit;
mod check;
mod element;
mod exam;
mod executor;
pub mod npy;
mod operands;
mod slack;
mod slice;
mod standin;
mod windows;

pub use audit::{Audit, Share};
pub use check::{Expected, Reference, WeightedRows, allowed, tolerance};
pub use element::Element;
pub use exam::{Exam, small_stand_ins, verify_on_stand_ins};
pub use executor::{
    Batch, Buffer, Executor, HostBuffer, HostLaunch, Keeps, Kept, Launch, Pending, Wait, fits, fits_bytes,
    operand_name,
};
pub use half::{bf16, f16};
pub use num_complex::Complex;
pub use operands::{Numbers, Operands, making_takes};
pub use slice::{Data, Lend, Slice, SliceMut};
pub use trimtab_core::DType;
