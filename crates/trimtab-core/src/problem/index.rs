//! Elements found by index, and added up by index.

use super::{ProblemError, along, element_count, write_along};
use crate::DType;
use std::fmt;

/// Elements along the middle of `outer × len × inner` by index: `count` of them take the place of `len`.
///
/// One list of indices serves every line, or every element of the result has an index of its own (`each`). Indices are i32 or i64;
/// negative ones count from the end, and one past either end is an error of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Element type of the first operand and the result.
    pub dtype: DType,
    /// Element type of the indices, the second operand.
    pub index: DType,
    /// Whether every element of the result has an index of its own.
    pub each: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements along the axis.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
    /// Elements of the result along the axis.
    pub count: u64,
}

/// The elements of `outer × len × inner`, with `count` others along the axis each added where its index says, as [`Gather`] reads them.
///
/// Operands are the elements, the indices and what is added. Integers wrap. Of floats the order of additions is not said, nor that it is
/// the same twice: kernels keep to the error of adding one after the other in the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// Element type of the first and last operand and the result.
    pub dtype: DType,
    /// Element type of the indices, the second operand.
    pub index: DType,
    /// Whether every element that is added has an index of its own.
    pub each: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements along the axis.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
    /// Elements along the axis that are added.
    pub count: u64,
}

/// Sizes that fit each other, or why they do not.
fn sized(
    operation: &'static str,
    [dtype, index]: [DType; 2],
    shape: &[u64],
    axis: usize,
    count: u64,
) -> Result<[u64; 3], ProblemError> {
    if !matches!(index, DType::I32 | DType::I64) {
        let hint = "indices are i32 or i64; cast them first (nothing is converted unasked)";
        return Err(ProblemError::DType { operation: format!("{operation} by index"), dtype: index, hint });
    }
    let sizes @ [outer, len, inner] = along(shape, axis, dtype)?;
    // Indices may be as many as elements, and are not of their size.
    for of in [dtype, index] {
        element_count(&[outer, count, inner], of)?;
        element_count(&[count], of)?;
    }
    if len == 0 && count > 0 && outer > 0 && inner > 0 {
        return Err(ProblemError::Empty { op: operation, shape: shape.to_vec() });
    }
    Ok(sizes)
}

macro_rules! indexed {
    ($name:ident, $text:literal, $code:literal) => {
        impl $name {
            #[inline]
            pub(super) fn mixed(&self) -> u64 {
                let head =
                    u64::from(self.each) << 24 | (self.index as u64) << 16 | (self.dtype as u64) << 8 | $code;
                super::mix(&[head, self.outer, self.len, self.inner, self.count])
            }

            /// Indices there are.
            pub fn indices(&self) -> u64 {
                if self.each { self.along_count() } else { self.count }
            }

            /// Elements of the first operand.
            pub fn input_len(&self) -> u64 {
                super::product(&[self.outer, self.len, self.inner])
            }

            /// Elements that have an index.
            pub fn along_count(&self) -> u64 {
                super::product(&[self.outer, self.count, self.inner])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}:", $text, self.dtype)?;
                let count = format!("count{}", self.count);
                let mut words = vec![count.as_str()];
                words.extend(self.each.then_some("each"));
                words.extend((self.index != DType::I64).then_some(self.index.name()));
                write_along(f, [self.outer, self.len, self.inner], &words)
            }
        }
    };
}
indexed!(Gather, "gather", 14);
indexed!(Scatter, "scatter", 15);

impl Gather {
    /// So many elements along an axis; indices are of type `index`, one list for all lines or `each` element's own.
    pub fn new(
        dtype: DType,
        index: DType,
        shape: &[u64],
        axis: usize,
        count: u64,
        each: bool,
    ) -> Result<Gather, ProblemError> {
        let [outer, len, inner] = sized("gather", [dtype, index], shape, axis, count)?;
        Ok(Gather { dtype, index, each, outer, len, inner, count })
    }
}

impl Scatter {
    /// So many elements along an axis that are added; indices are of type `index`, one list for all lines or `each` element's own.
    pub fn new(
        dtype: DType,
        index: DType,
        shape: &[u64],
        axis: usize,
        count: u64,
        each: bool,
    ) -> Result<Scatter, ProblemError> {
        if dtype == DType::Bool {
            let hint = "cast the operand to an integer first (nothing is converted unasked)";
            return Err(ProblemError::DType { operation: "scatter".to_string(), dtype, hint });
        }
        let [outer, len, inner] = sized("scatter", [dtype, index], shape, axis, count)?;
        Ok(Scatter { dtype, index, each, outer, len, inner, count })
    }
}
