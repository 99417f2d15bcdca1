//! Sorting along an axis.

use super::{ProblemError, along, write_along};
use crate::DType;
use std::fmt;

/// The elements along the middle of `outer × len × inner` in order, dense and row-major. Negative zero is equal to zero: which of
/// them comes first is not said. What is not a number comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Element type of operand and result.
    pub dtype: DType,
    /// Whether the largest comes first; what is not a number comes last all the same.
    pub descending: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements along the axis.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
}

impl Sort {
    /// Along one axis.
    pub fn new(dtype: DType, shape: &[u64], axis: usize, descending: bool) -> Result<Sort, ProblemError> {
        super::real_or_i32("sort", dtype)?;
        let [outer, len, inner] = along(shape, axis, dtype)?;
        Ok(Sort { dtype, descending, outer, len, inner })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = u64::from(self.descending) << 24 | (self.dtype as u64) << 8 | 11;
        super::mix(&[head, self.outer, self.len, self.inner])
    }

    /// Elements of operand and result.
    pub fn len(&self) -> u64 {
        super::product(&[self.outer, self.len, self.inner])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Comparisons that sorting by comparing takes.
    pub fn flops(&self) -> u64 {
        self.len().saturating_mul(u64::from(self.len.max(2).ilog2()))
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sort:{}:", self.dtype)?;
        let words: &[&str] = if self.descending { &["descending"] } else { &[] };
        write_along(f, [self.outer, self.len, self.inner], words)
    }
}
