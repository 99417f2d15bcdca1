//! trimtab decides, for every tensor operation, which kernel, which launch settings and which device to use; runs it;
//! learns from the run; remembers it on this machine; and can say why.
//!
//! ```
//! use trimtab::{Axis, Runtime, Tensor};
//!
//! let rt = Runtime::builder().wisdom_in_memory().build()?; // Runtime::new() keeps what it learns on disk
//! let x = Tensor::from_fn(&[64, 32], |i| (i % 7) as f32)?;
//! let w = Tensor::full(&[32, 16], 0.5f32)?;
//! let y = rt.relu(&rt.add(&rt.matmul(&x, &w)?, -10.0)?)?;
//! println!("{} {}", rt.sum(&y, Axis::All)?.item()?, rt.explain(&"matmul:f32:64x16x32".parse()?)?.reason);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`prelude`] has what most programs need; [`Runtime`] the operations as methods; [`Tensor`] holds the data.
//! - [`Expression`] writes operations down first and computes them as a whole: fused, and each on the device that fits.
//! - [`Runtime::plan`] and [`Runtime::launch`] let a caller hold a plan and pay nothing per call.
//! - [`Builder::kernel`] and [`Runtime::choose`] let your own code compete.
//! - [`advanced`] has what authors of kernels, devices and tools need, crate by crate.
//! - [`Runtime::explain`] shows every rival with its time or its reason for standing back.
#![forbid(unsafe_code)]

pub mod advanced;
mod apart;
mod audits;
#[cfg(doctest)]
mod book;
mod buffers;
mod builder;
mod calibrate;
mod choose;
pub mod device;
mod environment;
mod error;
mod expression;
#[doc(hidden)]
pub mod fuzzing;
mod gpu;
mod in_calls;
mod journal;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod npy;
mod ops;
pub mod prelude;
mod runtime;
mod storage;
mod tensor;
mod trial;
mod tuned;

pub use builder::Builder;
pub use choose::{Choice, ChoiceBuilder};
pub use environment::{VARIABLES, default_wisdom_dir, parse_duration, wisdom_dir};
pub use error::Error;
pub use expression::{AnyExpression, AnyTerm, Explanation, Expression, Term};
pub use in_calls::open_wisdom;
pub use journal::{Entry, Journal, MAX_ENTRIES};
pub use memory::Activity;
pub use ops::{Axis, Float, Operand, Windows};
pub use runtime::Runtime;
pub use storage::Foreign;
pub use tensor::{AnyTensor, MAX_TENSOR_RANK, Tensor};
pub use trial::{Comparison, Trial};
pub use trimtab_core::{
    Bytes, Constraints, DType, Device, Matmul, Nanos, Objective, Patience, Problem, Tolerance,
};
pub use trimtab_operands::{Complex, bf16, f16};
pub use trimtab_plan::{Class, Decision, KernelRules, Offload, TuneRequest, Why};
pub use tuned::{Tuned, TunedBuilder};
