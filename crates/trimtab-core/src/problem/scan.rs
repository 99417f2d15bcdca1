//! Scans: every element becomes what those up to it add up to.

use super::{ProblemError, along, write_along};
use crate::DType;
use std::fmt;

crate::named! {
    /// How elements are put together.
    #[repr(u8)]
    pub enum ScanOp {
        /// Sum; integers wrap.
        Sum = "sum",
        /// Product; integers wrap.
        Prod = "prod",
        /// Largest so far; a NaN stays.
        Max = "max",
        /// Smallest so far; a NaN stays.
        Min = "min",
    }
}

/// A scan along the middle of `outer × len × inner`, dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// How.
    pub op: ScanOp,
    /// Element type of operand and result.
    pub dtype: DType,
    /// Whether an element is left out of its own result: the first is then zero, one, or the least or largest there is.
    pub exclusive: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements along the axis.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
}

impl Scan {
    /// Along one axis.
    pub fn new(
        op: ScanOp,
        dtype: DType,
        shape: &[u64],
        axis: usize,
        exclusive: bool,
    ) -> Result<Scan, ProblemError> {
        super::real_or_i32("scan", dtype)?;
        let [outer, len, inner] = along(shape, axis, dtype)?;
        Ok(Scan { op, dtype, exclusive, outer, len, inner })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = u64::from(self.exclusive) << 24 | (self.op as u64) << 16 | (self.dtype as u64) << 8 | 10;
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
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan.{}:{}:", self.op, self.dtype)?;
        let words: &[&str] = if self.exclusive { &["exclusive"] } else { &[] };
        write_along(f, [self.outer, self.len, self.inner], words)
    }
}
