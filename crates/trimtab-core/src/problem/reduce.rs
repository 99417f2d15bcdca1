//! Many elements to one.

use super::{ProblemError, element_count, write_sizes};
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
    /// Element type of operand and result.
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
        if op == ReduceOp::Mean && !dtype.is_float() {
            let hint = "give an operand of f32 or f64 elements (nothing is converted by trimtab), or use sum";
            return Err(ProblemError::DType { operation: "mean".to_string(), dtype, hint });
        }
        let total = element_count(shape, dtype)?;
        let (outer, len, inner) = match axis {
            None => (1, total, 1),
            Some(axis) if axis < shape.len() => {
                let outer = element_count(&shape[..axis], dtype)?;
                (outer, shape[axis], element_count(&shape[axis + 1..], dtype)?)
            }
            Some(axis) => {
                let reason = "there is no such axis";
                return Err(ProblemError::Axes { axes: vec![axis], shape: shape.to_vec(), reason });
            }
        };
        element_count(&[outer, inner], dtype)?;
        let undefined = matches!(op, ReduceOp::Mean | ReduceOp::Min | ReduceOp::Max);
        if len == 0 && undefined && outer > 0 && inner > 0 {
            return Err(ProblemError::Empty { op: op.name(), shape: shape.to_vec() });
        }
        // One form for every result without elements, so that no kernel multiplies the sizes beside the zero.
        if outer == 0 || inner == 0 {
            return Ok(Reduce { op, dtype, outer: 0, len: 1, inner: 1 });
        }
        Ok(Reduce { op, dtype, outer, len, inner })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = (self.op as u64) << 16 | (self.dtype as u64) << 8 | 3;
        super::mix(&[head, self.outer, self.len, self.inner])
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
        match (self.outer, self.inner) {
            (1, 1) => write_sizes(f, &[self.len]),
            (1, inner) => write_sizes(f, &[self.len, inner]).and_then(|()| f.write_str(":axis0")),
            (outer, 1) => write_sizes(f, &[outer, self.len]).and_then(|()| f.write_str(":axis1")),
            (outer, inner) => write_sizes(f, &[outer, self.len, inner]).and_then(|()| f.write_str(":axis1")),
        }
    }
}
