//! The two element types of matrix products and the code each has of its own.

use super::lines::Lines;
use super::tiles::Tiles;
use super::vectors::of_width;
use std::ops::{Add, AddAssign, Mul};
use trimtab_core::{LaunchError, Matmul};
use trimtab_operands::Element;

/// f32 or f64.
pub(in crate::kernels) trait Float:
    Element + Add<Output = Self> + Mul<Output = Self> + AddAssign
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Register tiles of vectors of that many bits, if this processor has them.
    fn tiles(bits: u32) -> Option<Tiles<Self>>;
    /// Dot products and scaled sums with vectors of that many bits, if this processor has them.
    fn lines(bits: u32) -> Option<&'static Lines<Self>>;
    /// Transposes 4 × 4 elements, rows `from_step` and `to_step` apart.
    ///
    /// # Safety
    /// The elements must be readable at `from` and writable at `to`.
    unsafe fn turn_square(from: *const Self, from_step: usize, to: *mut Self, to_step: usize);
}

macro_rules! float {
    ($type:ty, $sets:tt, $square:path) => {
        impl Float for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline]
            fn tiles(bits: u32) -> Option<Tiles<Self>> {
                of_width!(bits, tiles::TABLE, $sets).map(|table| Tiles::of(bits, table))
            }

            #[inline]
            fn lines(bits: u32) -> Option<&'static Lines<Self>> {
                of_width!(bits, lines::LINES, $sets)
            }

            #[inline(always)]
            unsafe fn turn_square(from: *const Self, from_step: usize, to: *mut Self, to_step: usize) {
                // SAFETY: as promised by the caller.
                unsafe { $square(from, from_step, to, to_step) }
            }
        }
    };
}
float!(f32, (avx512_f32 avx2_f32 portable_f32), super::turn::square_f32);
float!(f64, (avx512_f64 avx2_f64 portable_f64), super::turn::square_f64);

/// Calls a generic launch with the element type of a problem of products.
macro_rules! typed_launch {
    ($problem:expr, $launch:ident $(, $argument:expr)*) => {
        match $problem.dtype {
            trimtab_core::DType::F32 => $launch::<f32>($problem $(, $argument)*),
            trimtab_core::DType::F64 => $launch::<f64>($problem $(, $argument)*),
            _ => Err($crate::kernels::matmul::product::wrong_dtype($problem)),
        }
    };
}
pub(in crate::kernels) use typed_launch;

/// The widths of vectors this processor has for that element type, widest first. 128 is what the compiler makes of plain
/// loops on every x86-64 and AArch64.
pub(in crate::kernels) fn vector_bits() -> &'static [u32] {
    match (f32::tiles(512).is_some(), f32::tiles(256).is_some()) {
        (true, true) => &[512, 256, 128],
        (true, false) => &[512, 128],
        (false, true) => &[256, 128],
        (false, false) => &[128],
    }
}

/// Elements of a vector of that many bits.
pub(in crate::kernels) fn lanes(problem: &Matmul, bits: u32) -> u32 {
    (bits / 8 / problem.dtype.size() as u32).max(1)
}

/// The error for settings no point of this kernel has.
#[cold]
pub(super) fn wrong_point(config: impl std::fmt::Debug) -> LaunchError {
    LaunchError::Point(format!("{config:?}"))
}
