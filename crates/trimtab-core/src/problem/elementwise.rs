//! One result element per element, with broadcasting.

use super::{MAX_RANK, ProblemError, element_count, write_sizes};
use crate::DType;
use std::fmt;

crate::named! {
    /// Functions of one element.
    #[repr(u8)]
    pub enum UnaryOp {
        /// `-x`; wraps for integers.
        Neg = "neg",
        /// `|x|`; wraps for integers.
        Abs = "abs",
        /// e to the power of x.
        Exp = "exp",
        /// Natural logarithm.
        Log = "log",
        /// Square root.
        Sqrt = "sqrt",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// `max(x, 0)`; a NaN stays.
        Relu = "relu",
        /// `x · (1 + erf(x / √2)) / 2` in its tanh form, `x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2`.
        Gelu = "gelu",
    }
}

crate::named! {
    /// Functions of two elements.
    #[repr(u8)]
    pub enum BinaryOp {
        /// `a + b`; wraps for integers.
        Add = "add",
        /// `a - b`; wraps for integers.
        Sub = "sub",
        /// `a × b`; wraps for integers.
        Mul = "mul",
        /// `a ÷ b`; for integers rounds toward zero.
        Div = "div",
        /// The smaller; a NaN wins.
        Min = "min",
        /// The larger; a NaN wins.
        Max = "max",
        /// `a` to the power of `b`; for integers wraps, and negative powers round toward zero.
        Pow = "pow",
    }
}

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementwiseOp {
    /// To one.
    Unary(UnaryOp),
    /// To a pair.
    Binary(BinaryOp),
}

impl ElementwiseOp {
    /// The name in a problem's text form.
    pub const fn name(self) -> &'static str {
        match self {
            ElementwiseOp::Unary(op) => op.name(),
            ElementwiseOp::Binary(op) => op.name(),
        }
    }

    /// The operation of that name.
    pub fn parse(name: &str) -> Option<ElementwiseOp> {
        let unary = UnaryOp::parse(name).map(ElementwiseOp::Unary);
        unary.or_else(|| BinaryOp::parse(name).map(ElementwiseOp::Binary))
    }

    /// Whether each element costs a function call rather than an instruction.
    pub const fn is_function(self) -> bool {
        match self {
            ElementwiseOp::Unary(op) => {
                !matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu | UnaryOp::Sqrt)
            }
            ElementwiseOp::Binary(op) => matches!(op, BinaryOp::Pow),
        }
    }

    /// Every name, for error messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        UnaryOp::ALL.iter().map(|op| op.name()).chain(BinaryOp::ALL.iter().map(|op| op.name()))
    }
}

/// An elementwise operation over dense row-major operands, after merging dimensions that behave alike.
///
/// Along each dimension an operand either varies (its bit is set) or is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elementwise {
    /// What is done.
    pub op: ElementwiseOp,
    /// Element type of operands and result.
    pub dtype: DType,
    rank: u8,
    lhs_varies: u8,
    rhs_varies: u8,
    dims: [u64; MAX_RANK],
}

impl Elementwise {
    /// A function of every element of one operand.
    pub fn unary(op: UnaryOp, dtype: DType, shape: &[u64]) -> Result<Elementwise, ProblemError> {
        let is_defined = match op {
            _ if dtype.is_float() => true,
            UnaryOp::Neg => dtype.is_integer() || dtype.is_complex(),
            UnaryOp::Abs | UnaryOp::Relu => dtype.is_integer(),
            _ => false,
        };
        if !is_defined {
            let hint = "cast the operand to f32 or f64 first (nothing is converted unasked)";
            return Err(ProblemError::DType { operation: op.name().to_string(), dtype, hint });
        }
        let mut dims = [0; MAX_RANK];
        dims[0] = element_count(shape, dtype)?;
        let op = ElementwiseOp::Unary(op);
        Ok(Elementwise { op, dtype, rank: 1, lhs_varies: 1, rhs_varies: 0, dims })
    }

    /// A function of every pair, shapes aligned at the last dimension, sizes equal or one.
    pub fn binary(op: BinaryOp, dtype: DType, lhs: &[u64], rhs: &[u64]) -> Result<Elementwise, ProblemError> {
        let is_defined = match op {
            _ if dtype.is_float() || dtype.is_integer() => true,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div => dtype.is_complex(),
            BinaryOp::Min | BinaryOp::Max => dtype == DType::Bool,
            BinaryOp::Pow => false,
        };
        if !is_defined {
            let hint = match dtype {
                DType::Bool => {
                    "of truth values there are min (and), max (or) and comparisons; cast it first for more"
                }
                _ => "of complex numbers there are add, sub, mul and div",
            };
            return Err(ProblemError::DType { operation: op.name().to_string(), dtype, hint });
        }
        let rank = lhs.len().max(rhs.len());
        let size = |shape: &[u64], axis: usize| {
            let missing = rank - shape.len();
            if axis < missing { 1 } else { shape[axis - missing] }
        };
        let mut merged: Vec<(u64, bool, bool)> = Vec::with_capacity(rank);
        let mut shape = Vec::with_capacity(rank);
        for axis in 0..rank {
            let (left, right) = (size(lhs, axis), size(rhs, axis));
            let out = match (left, right) {
                (left, right) if left == right => left,
                (1, other) | (other, 1) => other,
                _ => {
                    let reason =
                        format!("sizes {left} and {right} along axis {axis} are neither equal nor one");
                    return Err(ProblemError::Shapes { lhs: lhs.to_vec(), rhs: rhs.to_vec(), reason });
                }
            };
            shape.push(out);
            if out == 1 {
                continue;
            }
            let varies = (left == out, right == out);
            match merged.last_mut() {
                Some(last) if (last.1, last.2) == varies => last.0 = last.0.saturating_mul(out),
                _ => merged.push((out, varies.0, varies.1)),
            }
        }
        // Each by itself too: a result without elements may have operands that cannot be addressed.
        for sizes in [&shape, lhs, rhs] {
            element_count(sizes, dtype)?;
        }
        if merged.is_empty() {
            merged.push((1, true, true));
        }
        if merged.len() > MAX_RANK {
            return Err(ProblemError::TooManyDimensions(shape));
        }
        let mut problem = Elementwise {
            op: ElementwiseOp::Binary(op),
            dtype,
            rank: merged.len() as u8,
            lhs_varies: 0,
            rhs_varies: 0,
            dims: [0; MAX_RANK],
        };
        for (axis, &(size, left, right)) in merged.iter().enumerate() {
            problem.dims[axis] = size;
            problem.lhs_varies |= u8::from(left) << axis;
            problem.rhs_varies |= u8::from(right) << axis;
        }
        Ok(problem)
    }

    /// The result's dimensions after merging, outermost first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank as usize]
    }

    /// Whether the left (or only) operand varies along a dimension.
    pub fn lhs_varies(&self, axis: usize) -> bool {
        self.lhs_varies >> axis & 1 == 1
    }

    /// Whether the right operand varies along a dimension; never for a unary operation.
    pub fn rhs_varies(&self, axis: usize) -> bool {
        self.rhs_varies >> axis & 1 == 1
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(self.dims())
    }

    /// Elements of the left (or only) operand.
    pub fn lhs_len(&self) -> u64 {
        self.len_where(|axis| self.lhs_varies(axis))
    }

    /// Elements of the right operand; zero for a unary operation.
    pub fn rhs_len(&self) -> u64 {
        match self.op {
            ElementwiseOp::Unary(_) => 0,
            ElementwiseOp::Binary(_) => self.len_where(|axis| self.rhs_varies(axis)),
        }
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let op = match self.op {
            ElementwiseOp::Unary(op) => op as u64,
            ElementwiseOp::Binary(op) => 0x80 | op as u64,
        };
        let varies = u64::from(self.lhs_varies) << 24 | u64::from(self.rhs_varies) << 32;
        let [a, b, c, d, e, f] = self.dims;
        super::mix(&[op << 16 | (self.dtype as u64) << 8 | varies | 2, a, b, c, d, e, f])
    }

    fn len_where(&self, varies: impl Fn(usize) -> bool) -> u64 {
        let varying = self.dims().iter().enumerate().filter(|&(axis, _)| varies(axis));
        varying.fold(1u64, |product, (_, &size)| product.saturating_mul(size))
    }

    fn operand_dims(&self, varies: impl Fn(usize) -> bool) -> Vec<u64> {
        self.dims().iter().enumerate().map(|(axis, &size)| if varies(axis) { size } else { 1 }).collect()
    }
}

impl fmt::Display for Elementwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "elementwise.{}:{}:", self.op.name(), self.dtype)?;
        let all = (1u8 << self.rank) - 1;
        if matches!(self.op, ElementwiseOp::Unary(_)) || (self.lhs_varies == all && self.rhs_varies == all) {
            return write_sizes(f, self.dims());
        }
        write_sizes(f, &self.operand_dims(|axis| self.lhs_varies(axis)))?;
        f.write_str(",")?;
        write_sizes(f, &self.operand_dims(|axis| self.rhs_varies(axis)))
    }
}
