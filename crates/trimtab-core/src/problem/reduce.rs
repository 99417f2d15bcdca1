//! Many elements to one.

use super::{ProblemError, along, element_count, write_along};
use crate::DType;
use std::fmt;

crate::named! {
    /// How many elements become one.
    #[repr(u8)]
    pub enum ReduceOp {
        /// Sum, at least pairwise-accurate; zero of nothing.
        Sum = "sum",
        /// Arithmetic mean; floating point only.
        Mean = "mean",
        /// Smallest; a NaN wins.
        Min = "min",
        /// Largest; a NaN wins.
        Max = "max",
        /// Product; one of nothing.
        Prod = "prod",
    }
}

/// A reduction over the middle of `outer × len × inner`, dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// How.
    pub op: ReduceOp,
    /// Element type of the operand.
    pub dtype: DType,
    /// Product of the sizes before the reduced axis.
    pub outer: u64,
    /// Elements that become one.
    pub len: u64,
    /// Product of the sizes after the reduced axis.
    pub inner: u64,
}

impl Reduce {
    /// Over all elements (`axis` = `None`) or along one axis.
    pub fn new(
        op: ReduceOp,
        dtype: DType,
        shape: &[u64],
        axis: Option<usize>,
    ) -> Result<Reduce, ProblemError> {
        let hint = match op {
            ReduceOp::Mean if !dtype.is_float() && !dtype.is_complex() => {
                "cast the operand to f32 or f64 first (nothing is converted unasked), or use sum"
            }
            ReduceOp::Min | ReduceOp::Max if dtype.is_complex() => "complex numbers have no order",
            _ => "",
        };
        if !hint.is_empty() {
            return Err(ProblemError::DType { operation: op.name().to_string(), dtype, hint });
        }
        let [outer, len, inner] = match axis {
            None => [1, element_count(shape, dtype)?, 1],
            Some(axis) => along(shape, axis, dtype)?,
        };
        let undefined = matches!(op, ReduceOp::Mean | ReduceOp::Min | ReduceOp::Max);
        if len == 0 && undefined && outer > 0 && inner > 0 {
            return Err(ProblemError::Empty { op: op.name(), shape: shape.to_vec() });
        }
        Ok(Reduce { op, dtype, outer, len, inner })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = (self.op as u64) << 16 | (self.dtype as u64) << 8 | 3;
        super::mix(&[head, self.outer, self.len, self.inner])
    }

    /// Element type of the result: that of the operand, but i64 for sums and products of other integers than i32, and of truth
    /// values, which are counted.
    pub const fn out_dtype(&self) -> DType {
        match (self.op, self.dtype) {
            (
                ReduceOp::Sum | ReduceOp::Prod,
                DType::Bool | DType::I8 | DType::U8 | DType::I16 | DType::U32,
            ) => DType::I64,
            (_, dtype) => dtype,
        }
    }

    /// Elements of the operand.
    pub fn input_len(&self) -> u64 {
        super::product(&[self.outer, self.len, self.inner])
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        self.outer.saturating_mul(self.inner)
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reduce.{}:{}:", self.op.name(), self.dtype)?;
        write_along(f, [self.outer, self.len, self.inner], &[])
    }
}
