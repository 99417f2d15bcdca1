//! Rows: what is done to many elements along an axis that needs all of them, and is not one pass of a reduction.

use super::{ProblemError, along, write_along};
use crate::DType;
use std::fmt;

crate::named! {
    /// What is done to the elements along an axis.
    #[repr(u8)]
    pub enum RowsOp {
        /// `exp(x - max) / Σ exp(x - max)`.
        Softmax = "softmax",
        /// `x - max - log Σ exp(x - max)`.
        LogSoftmax = "log_softmax",
        /// `max + log Σ exp(x - max)`: one element for each row.
        LogSumExp = "logsumexp",
        /// The mean of squared distances from the mean: one element for each row.
        Variance = "variance",
        /// `(x - mean) / √(variance + ε)`, times a scale and plus a shift by element of the row, where there are some.
        LayerNorm = "layer_norm",
        /// `x / √(mean of x² + ε)`, times a scale by element of the row, where there is one.
        RmsNorm = "rms_norm",
    }
}

impl RowsOp {
    /// Whether a row becomes one element.
    pub const fn reduces(self) -> bool {
        matches!(self, RowsOp::LogSumExp | RowsOp::Variance)
    }

    /// Whether it takes an ε, and perhaps a scale.
    pub const fn is_norm(self) -> bool {
        matches!(self, RowsOp::LayerNorm | RowsOp::RmsNorm)
    }
}

/// Something done to the middle of `outer × len × inner`, dense and row-major; floating point only.
///
/// Operands: the elements; the scale and the shift, each one element of the row long, where there are some; ε, one element, where
/// it is a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rows {
    /// What.
    pub op: RowsOp,
    /// Element type of operands and result.
    pub dtype: DType,
    /// Whether a norm is scaled.
    pub scaled: bool,
    /// Whether a layer norm is shifted.
    pub shifted: bool,
    /// Product of the sizes before the axis.
    pub outer: u64,
    /// Elements of a row.
    pub len: u64,
    /// Product of the sizes after the axis.
    pub inner: u64,
}

impl Rows {
    /// Along one axis.
    pub fn new(op: RowsOp, dtype: DType, shape: &[u64], axis: usize) -> Result<Rows, ProblemError> {
        if !dtype.is_float() {
            let hint = "give an operand of f32 or f64 elements (nothing is converted by trimtab)";
            return Err(ProblemError::DType { operation: op.name().to_string(), dtype, hint });
        }
        let [outer, len, inner] = along(shape, axis, dtype)?;
        if len == 0 && op.reduces() && outer > 0 && inner > 0 {
            return Err(ProblemError::Empty { op: op.name(), shape: shape.to_vec() });
        }
        Ok(Rows { op, dtype, scaled: false, shifted: false, outer, len, inner })
    }

    /// A norm with a scale, a shift.
    pub fn with(self, scaled: bool, shifted: bool) -> Result<Rows, ProblemError> {
        if (scaled && !self.op.is_norm()) || (shifted && self.op != RowsOp::LayerNorm) {
            let reason = "scales are of norms, shifts of layer norms only".to_string();
            return Err(ProblemError::Shapes { lhs: vec![self.len], rhs: vec![self.len], reason });
        }
        Ok(Rows { scaled, shifted, ..self })
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let more = u64::from(self.scaled) << 24 | u64::from(self.shifted) << 25;
        let head = more | (self.op as u64) << 16 | (self.dtype as u64) << 8 | 9;
        super::mix(&[head, self.outer, self.len, self.inner])
    }

    /// Elements of the first operand.
    pub fn input_len(&self) -> u64 {
        super::product(&[self.outer, self.len, self.inner])
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        match self.op.reduces() {
            true => self.outer.saturating_mul(self.inner),
            false => self.input_len(),
        }
    }

    /// Arithmetic operations, a function counting as one.
    pub fn flops(&self) -> u64 {
        let each = match self.op {
            RowsOp::Softmax | RowsOp::LogSoftmax => 4,
            RowsOp::LogSumExp | RowsOp::Variance => 3,
            RowsOp::LayerNorm => 6,
            RowsOp::RmsNorm => 3,
        };
        self.input_len().saturating_mul(each)
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows.{}:{}:", self.op, self.dtype)?;
        let words = [(self.scaled, "scale"), (self.shifted, "shift")];
        let words: Vec<&str> = words.iter().filter(|(there, _)| *there).map(|(_, word)| *word).collect();
        write_along(f, [self.outer, self.len, self.inner], &words)
    }
}
