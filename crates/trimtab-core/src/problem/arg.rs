//! Where along an axis something is: indices instead of elements.

use super::{ProblemError, along, write_along};
use crate::DType;
use std::fmt;

crate::named! {
    /// Which indices.
    #[repr(u8)]
    pub enum ArgOp {
        /// Of the smallest; the first of those that are equal, and of what is not a number.
        Min = "min",
        /// Of the largest; the first of those that are equal, and of what is not a number.
        Max = "max",
        /// Of all elements in order, equal ones by index; what is not a number comes last.
        Sort = "sort",
        /// Of so many of the largest, the largest first, equal ones by index; what is not a number comes last.
        Top = "top",
    }
}

/// Indices, as i64, along the middle of `outer × len × inner`, dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arg {
    /// Which.
    pub op: ArgOp,
    /// Element type of the operand.
    pub dtype: DType,
    /// Whether [`ArgOp::Sort`] has the largest first.
    pub descending: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements along the axis.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
    /// Indices along the axis: one, all, or as many as were asked for.
    pub count: u64,
}

impl Arg {
    /// Along one axis; `count` is how many of the largest [`ArgOp::Top`] gives and is ignored by the others.
    pub fn new(
        op: ArgOp,
        dtype: DType,
        shape: &[u64],
        axis: usize,
        descending: bool,
        count: u64,
    ) -> Result<Arg, ProblemError> {
        super::real_or_i32(op.name(), dtype)?;
        let [outer, len, inner] = along(shape, axis, DType::I64)?;
        let count = match op {
            ArgOp::Min | ArgOp::Max => 1,
            ArgOp::Sort => len,
            ArgOp::Top => count,
        };
        if count > len && outer > 0 && inner > 0 {
            return Err(match op {
                ArgOp::Top => {
                    let reason = format!("{count} of {len} elements are asked for");
                    ProblemError::Shapes { lhs: shape.to_vec(), rhs: vec![count], reason }
                }
                _ => ProblemError::Empty { op: op.name(), shape: shape.to_vec() },
            });
        }
        Ok(Arg { op, dtype, descending: descending && op == ArgOp::Sort, outer, len, inner, count })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let head = u64::from(self.descending) << 24 | (self.op as u64) << 16 | (self.dtype as u64) << 8 | 13;
        super::mix(&[head, self.outer, self.len, self.inner, self.count])
    }

    /// Elements of the operand.
    pub fn input_len(&self) -> u64 {
        super::product(&[self.outer, self.len, self.inner])
    }

    /// Indices of the result.
    pub fn out_len(&self) -> u64 {
        super::product(&[self.outer, self.count, self.inner])
    }

    /// Comparisons, about.
    pub fn flops(&self) -> u64 {
        let each = match self.op {
            ArgOp::Min | ArgOp::Max => 1,
            ArgOp::Sort | ArgOp::Top => u64::from(self.count.max(2).ilog2()),
        };
        self.input_len().saturating_mul(each)
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arg.{}:{}:", self.op, self.dtype)?;
        let count = format!("count{}", self.count);
        let words = [(self.descending, "descending"), (self.op == ArgOp::Top, count.as_str())];
        let words: Vec<&str> = words.iter().filter(|(there, _)| *there).map(|(_, word)| *word).collect();
        write_along(f, [self.outer, self.len, self.inner], &words)
    }
}
