//! Elements of one type as elements of another.

use super::{ProblemError, element_count, write_sizes};
use crate::DType;
use std::fmt;

/// Every element as the nearest of another type.
///
/// Floats become whole numbers by leaving out what is behind the point; what is past the range becomes its end, what is not a number
/// zero. Whole numbers keep their lower bits, as in Rust's `as`. Anything but zero is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    /// Element type of the operand.
    pub dtype: DType,
    /// Element type of the result.
    pub to: DType,
    /// Elements.
    pub len: u64,
}

impl Cast {
    /// Of any number of elements.
    pub fn new(dtype: DType, to: DType, shape: &[u64]) -> Result<Cast, ProblemError> {
        if dtype.is_complex() && !to.is_complex() {
            let hint = "a complex number is no real one; say which of its parts is meant";
            return Err(ProblemError::DType { operation: format!("cast to {to}"), dtype, hint });
        }
        element_count(shape, to)?;
        Ok(Cast { dtype, to, len: element_count(shape, dtype)? })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        super::mix(&[(self.to as u64) << 16 | (self.dtype as u64) << 8 | 12, self.len])
    }
}

impl fmt::Display for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cast:{}:", self.dtype)?;
        write_sizes(f, &[self.len])?;
        write!(f, ":{}", self.to)
    }
}
