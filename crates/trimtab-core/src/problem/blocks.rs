//! Blocks side by side, and a block put into a larger one.

use super::{ProblemError, element_count, product, write_sizes};
use crate::DType;
use std::fmt;

/// The most operands that are put side by side at once.
pub const MAX_PARTS: usize = 5;
/// The most dimensions of a [`Put`] after merging those that are covered whole.
pub const MAX_PUT_RANK: usize = 4;

/// Operands side by side along an axis: rows of the result are rows of each operand one after the other, dense and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concat {
    /// Element type of operands and result.
    pub dtype: DType,
    count: u8,
    outer: u64,
    parts: [u64; MAX_PARTS],
}

impl Concat {
    /// Of shapes that are the same but for one axis.
    pub fn new(dtype: DType, shapes: &[&[u64]], axis: usize) -> Result<Concat, ProblemError> {
        let first = shapes.first().copied().unwrap_or_default();
        let wrong = |rhs: &[u64], reason: String| {
            Err(ProblemError::Shapes { lhs: first.to_vec(), rhs: rhs.to_vec(), reason })
        };
        if shapes.is_empty() || shapes.len() > MAX_PARTS {
            return wrong(
                first,
                format!("1 to {MAX_PARTS} operands go side by side, there are {}", shapes.len()),
            );
        }
        if axis >= first.len() {
            let reason = "there is no such axis";
            return Err(ProblemError::Axes { axes: vec![axis], shape: first.to_vec(), reason });
        }
        let mut concat = Concat { dtype, count: shapes.len() as u8, outer: 1, parts: [0; MAX_PARTS] };
        let mut along = 0u64;
        for (shape, part) in shapes.iter().zip(&mut concat.parts) {
            let same = |at: usize| at == axis || shape.get(at) == first.get(at);
            if shape.len() != first.len() || !(0..first.len()).all(same) {
                return wrong(shape, format!("sizes are the same but along axis {axis}"));
            }
            element_count(shape, dtype)?;
            *part = element_count(&shape[axis..], dtype)?;
            along = along.saturating_add(shape[axis]);
        }
        let mut whole = first.to_vec();
        whole[axis] = along;
        element_count(&whole, dtype)?;
        concat.outer = element_count(&first[..axis], dtype)?;
        // Nothing is one form.
        if concat.out_len() == 0 {
            (concat.outer, concat.parts) = (0, [0; MAX_PARTS]);
        }
        Ok(concat)
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let [a, b, c, d, e] = self.parts;
        super::mix(&[(self.count as u64) << 16 | (self.dtype as u64) << 8 | 17, self.outer, a, b, c, d, e])
    }

    /// Rows of every operand and of the result.
    pub fn outer(&self) -> u64 {
        self.outer
    }

    /// Elements of a row of each operand.
    pub fn parts(&self) -> &[u64] {
        &self.parts[..usize::from(self.count)]
    }

    /// Elements of a row of the result.
    pub fn row(&self) -> u64 {
        self.parts().iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        product(&[self.outer, self.row()])
    }
}

impl fmt::Display for Concat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "concat:{}:", self.dtype)?;
        for (nth, part) in self.parts().iter().enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            write_sizes(f, &[self.outer, *part])?;
        }
        Ok(())
    }
}

/// A block in the place of a part of a larger one: what is not covered comes from an operand of the result's shape, or is one number
/// everywhere (`fill`), which makes it padding. Operands are the larger one, or the number, and the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Put {
    /// Element type of operands and result.
    pub dtype: DType,
    /// Whether what is not covered is one number.
    pub fill: bool,
    rank: u8,
    dims: [u32; MAX_PUT_RANK],
    first: [u32; MAX_PUT_RANK],
    size: [u32; MAX_PUT_RANK],
}

impl Put {
    /// A block of shape `block` in a result of shape `whole`, beginning at `first`.
    pub fn new(
        dtype: DType,
        whole: &[u64],
        block: &[u64],
        first: &[u64],
        fill: bool,
    ) -> Result<Put, ProblemError> {
        let wrong =
            |reason: String| Err(ProblemError::Shapes { lhs: whole.to_vec(), rhs: block.to_vec(), reason });
        if block.len() != whole.len() || first.len() != whole.len() {
            return wrong("a block and its place have as many axes as what it is put into".to_string());
        }
        for (axis, (dim, (size, first))) in whole.iter().zip(block.iter().zip(first)).enumerate() {
            if first.checked_add(*size).is_none_or(|end| end > *dim) {
                return wrong(format!("{size} from {first} on do not fit {dim} along axis {axis}"));
            }
        }
        element_count(whole, dtype)?;
        element_count(block, dtype)?;
        let mut merged: Vec<[u64; 3]> = Vec::with_capacity(whole.len());
        for ((&dim, &size), &first) in whole.iter().zip(block).zip(first) {
            if (dim, size) == (1, 1) {
                continue;
            }
            match merged.last_mut() {
                // What is covered whole lies in one piece with what is before it.
                Some(last) if size == dim => {
                    last.iter_mut().for_each(|length| *length = length.saturating_mul(dim))
                }
                _ => merged.push([dim, first, size]),
            }
        }
        if element_count(whole, dtype)? == 0 {
            merged = vec![[0, 0, 0]];
        } else if element_count(block, dtype)? == 0 {
            // No block at all: where it is not does not matter.
            merged = vec![[element_count(whole, dtype)?, 0, 0]];
        } else if merged.is_empty() {
            merged.push([1, 0, 1]);
        }
        if merged.len() > MAX_PUT_RANK {
            let reason =
                format!("a block is put along at most {MAX_PUT_RANK} axes at once; put it in two steps");
            return wrong(reason);
        }
        let mut put = Put {
            dtype,
            fill,
            rank: merged.len() as u8,
            dims: [0; MAX_PUT_RANK],
            first: [0; MAX_PUT_RANK],
            size: [0; MAX_PUT_RANK],
        };
        for (axis, [dim, first, size]) in merged.into_iter().enumerate() {
            let Ok(dim) = u32::try_from(dim) else {
                let sizes = whole.to_vec();
                return Err(ProblemError::TooLarge { sizes, dtype });
            };
            (put.dims[axis], put.first[axis], put.size[axis]) = (dim, first as u32, size as u32);
        }
        Ok(put)
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let head = u64::from(self.fill) << 24 | u64::from(self.rank) << 16 | (self.dtype as u64) << 8 | 18;
        let [a, b, c, d] = self.dims;
        let [e, f, g, h] = self.first;
        let [i, j, k, l] = self.size;
        super::mix(&[head, pair(a, b), pair(c, d), pair(e, f), pair(g, h), pair(i, j), pair(k, l)])
    }

    /// The result's dimensions after merging, outermost first.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..usize::from(self.rank)]
    }

    /// Where the block begins along each.
    pub fn first(&self) -> &[u32] {
        &self.first[..usize::from(self.rank)]
    }

    /// The block's size along each.
    pub fn size(&self) -> &[u32] {
        &self.size[..usize::from(self.rank)]
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        self.dims().iter().map(|&dim| u64::from(dim)).product()
    }

    /// Elements of the block.
    pub fn block_len(&self) -> u64 {
        self.size().iter().map(|&size| u64::from(size)).product()
    }

    /// Elements of what the block is put into: as many as the result has, or one.
    pub fn base_len(&self) -> u64 {
        if self.fill { 1 } else { self.out_len() }
    }
}

impl fmt::Display for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).collect::<Vec<u64>>();
        write!(f, "put:{}:", self.dtype)?;
        write_sizes(f, &wide(self.dims()))?;
        f.write_str(",")?;
        write_sizes(f, &wide(self.size()))?;
        f.write_str(":at")?;
        write_sizes(f, &wide(self.first()))?;
        f.write_str(if self.fill { ",fill" } else { "" })
    }
}
