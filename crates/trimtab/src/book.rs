//! The README and the pages of the book in `docs` that have Rust code: doc tests compile it, and run it where the page does not say
//! `no_run`. `cargo xtask tidy` checks that none is missing.

#[doc = include_str!("../../../README.md")]
mod readme {}

#[doc = include_str!("../../../docs/first-hour.md")]
mod first_hour {}

#[doc = include_str!("../../../docs/kernels.md")]
mod kernels {}

#[doc = include_str!("../../../docs/devices.md")]
mod devices {}

#[doc = include_str!("../../../docs/expressions.md")]
mod expressions {}

#[doc = include_str!("../../../docs/variables.md")]
mod variables {}

#[doc = include_str!("../README.md")]
mod of_this_crate {}
