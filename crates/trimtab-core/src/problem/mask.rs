//! Truth values: made by comparing, and used to choose.

use super::{MAX_RANK, ProblemError, element_count, write_sizes};
use crate::DType;
use std::fmt;

crate::named! {
    /// How truth values are made or used. What is not a number is equal to nothing, and neither less nor greater; zeros are equal.
    #[repr(u8)]
    pub enum MaskOp {
        /// `a = b`.
        Eq = "eq",
        /// `a ≠ b`.
        Ne = "ne",
        /// `a < b`.
        Lt = "lt",
        /// `a ≤ b`.
        Le = "le",
        /// `a > b`.
        Gt = "gt",
        /// `a ≥ b`.
        Ge = "ge",
        /// The second operand's element where the first, of truth values, is true, else the third's.
        Where = "where",
    }
}

/// The most operands of a mask: a mask and what is chosen from.
const MOST: usize = 3;

/// A comparison of two operands, which gives truth values, or a choice between two by truth values; dense and row-major, after merging
/// dimensions that behave alike. Along each dimension an operand either varies (its bit is set) or is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// What is done.
    pub op: MaskOp,
    /// Element type of what is compared or chosen from.
    pub dtype: DType,
    rank: u8,
    varies: [u8; MOST],
    dims: [u64; MAX_RANK],
}

impl Mask {
    /// Of operands of these shapes, aligned at the last dimension, sizes equal or one: two to compare; the mask and two to choose from.
    pub fn new(op: MaskOp, dtype: DType, shapes: &[&[u64]]) -> Result<Mask, ProblemError> {
        let operands = if op == MaskOp::Where { MOST } else { 2 };
        let first = || shapes.first().map(|shape| shape.to_vec()).unwrap_or_default();
        let last = || shapes.last().map(|shape| shape.to_vec()).unwrap_or_default();
        if shapes.len() != operands {
            let reason = format!("{op} takes {operands} operands, there are {}", shapes.len());
            return Err(ProblemError::Shapes { lhs: first(), rhs: last(), reason });
        }
        if dtype.is_complex() && !matches!(op, MaskOp::Eq | MaskOp::Ne | MaskOp::Where) {
            let hint = "complex numbers have no order; compare one of their parts";
            return Err(ProblemError::DType { operation: op.name().to_string(), dtype, hint });
        }
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let size = |shape: &[u64], axis: usize| {
            let missing = rank - shape.len();
            if axis < missing { 1 } else { shape[axis - missing] }
        };
        let mut merged: Vec<(u64, u8)> = Vec::with_capacity(rank);
        let mut shape = Vec::with_capacity(rank);
        for axis in 0..rank {
            let sizes = || shapes.iter().map(|shape| size(shape, axis));
            let out = sizes().find(|size| *size != 1).unwrap_or(1);
            if sizes().any(|size| size != 1 && size != out) {
                let reason = format!("sizes along axis {axis} are neither equal nor one");
                return Err(ProblemError::Shapes { lhs: first(), rhs: last(), reason });
            }
            shape.push(out);
            if out == 1 {
                continue;
            }
            let varies = sizes().enumerate().fold(0u8, |bits, (at, size)| bits | u8::from(size == out) << at);
            match merged.last_mut() {
                Some(last) if last.1 == varies => last.0 = last.0.saturating_mul(out),
                _ => merged.push((out, varies)),
            }
        }
        // Each by itself too: a result without elements may have operands that cannot be addressed.
        for sizes in shapes.iter().copied().chain([shape.as_slice()]) {
            element_count(sizes, dtype)?;
        }
        if merged.is_empty() {
            merged.push((1, 0b111));
        }
        if merged.len() > MAX_RANK {
            return Err(ProblemError::TooManyDimensions(shape));
        }
        let mut mask = Mask { op, dtype, rank: merged.len() as u8, varies: [0; MOST], dims: [0; MAX_RANK] };
        for (axis, &(size, varies)) in merged.iter().enumerate() {
            mask.dims[axis] = size;
            for place in 0..operands {
                mask.varies[place] |= (varies >> place & 1) << axis;
            }
        }
        Ok(mask)
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let varies = self.varies.iter().fold(0u64, |all, &bits| all << 8 | u64::from(bits)) << 24;
        let [a, b, c, d, e, f] = self.dims;
        super::mix(&[varies | (self.op as u64) << 16 | (self.dtype as u64) << 8 | 16, a, b, c, d, e, f])
    }

    /// How many operands there are.
    pub fn operands(&self) -> usize {
        if self.op == MaskOp::Where { MOST } else { 2 }
    }

    /// The result's dimensions after merging, outermost first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank as usize]
    }

    /// Whether the operand at a place varies along a dimension.
    pub fn varies(&self, place: usize, axis: usize) -> bool {
        self.varies.get(place).is_some_and(|bits| bits >> axis & 1 == 1)
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        super::product(self.dims())
    }

    /// Elements of the operand at a place.
    pub fn operand_len(&self, place: usize) -> u64 {
        super::product(&self.operand_dims(place))
    }

    /// The dimensions of the operand at a place: one where it is repeated.
    pub fn operand_dims(&self, place: usize) -> Vec<u64> {
        let dims = self.dims().iter().enumerate();
        dims.map(|(axis, &size)| if self.varies(place, axis) { size } else { 1 }).collect()
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mask.{}:{}:", self.op, self.dtype)?;
        let all = (1u8 << self.rank) - 1;
        if self.varies[..self.operands()].iter().all(|bits| *bits == all) {
            return write_sizes(f, self.dims());
        }
        for place in 0..self.operands() {
            if place > 0 {
                f.write_str(",")?;
            }
            write_sizes(f, &self.operand_dims(place))?;
        }
        Ok(())
    }
}
