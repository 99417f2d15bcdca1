//! What most programs need: `use trimtab::prelude::*;`.
//!
//! ```
//! use trimtab::prelude::*;
//!
//! let rt = Runtime::builder().wisdom_in_memory().build()?;
//! let x = Tensor::from_fn(&[4, 3], |i| i as f32)?;
//! let shares = rt.lazy(&x) / rt.lazy(&x).sum(Axis::Kept(1));
//! println!("{:.2}", shares.eval()?);
//! println!("{}", rt.explain(&"reduce.sum:f32:4x3:axis1".parse()?)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::{Axis, Builder, Error, Expression, Float, Operand, Runtime, Tensor, Term};
pub use trimtab_core::{Constraints, DType, Objective, Patience, Problem};
