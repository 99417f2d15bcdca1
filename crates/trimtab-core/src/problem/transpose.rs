//! Reordering of axes.

use super::{MAX_RANK, ProblemError, element_count, write_sizes};
use crate::DType;
use std::fmt;

/// A permutation of the axes of a dense row-major operand, after merging axes that stay neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transpose {
    /// Element type.
    pub dtype: DType,
    rank: u8,
    permutation: [u8; MAX_RANK],
    dims: [u64; MAX_RANK],
}

impl Transpose {
    /// Axis `i` of the result is axis `permutation[i]` of the operand.
    pub fn new(dtype: DType, shape: &[u64], permutation: &[usize]) -> Result<Transpose, ProblemError> {
        element_count(shape, dtype)?;
        let wrong =
            |reason| Err(ProblemError::Axes { axes: permutation.to_vec(), shape: shape.to_vec(), reason });
        if permutation.len() != shape.len() {
            return wrong("a permutation names every axis once");
        }
        let mut seen = vec![false; shape.len()];
        for &axis in permutation {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return wrong("an axis is named twice"),
                None => return wrong("there is no such axis"),
            }
        }
        // One form for everything without elements, so that no kernel multiplies the sizes beside the zero.
        if shape.contains(&0) {
            return Ok(Transpose { dtype, rank: 1, permutation: [0; MAX_RANK], dims: [0; MAX_RANK] });
        }
        // Axes of size one do not move anything; runs of neighbours that stay in order move as one.
        let moving: Vec<usize> = permutation.iter().copied().filter(|&axis| shape[axis] != 1).collect();
        let mut kept: Vec<usize> = moving.clone();
        kept.sort_unstable();
        let position = |axis: usize| kept.iter().position(|&kept| kept == axis).unwrap_or(0);
        let mut runs: Vec<(usize, u64)> = Vec::new();
        let mut last = None;
        for &axis in &moving {
            let here = position(axis);
            match runs.last_mut() {
                Some(run) if last == here.checked_sub(1) => run.1 = run.1.saturating_mul(shape[axis]),
                _ => runs.push((here, shape[axis])),
            }
            last = Some(here);
        }
        if runs.is_empty() {
            runs.push((0, 1));
        }
        if runs.len() > MAX_RANK {
            return Err(ProblemError::TooManyDimensions(shape.to_vec()));
        }
        let mut order: Vec<usize> = runs.iter().map(|run| run.0).collect();
        order.sort_unstable();
        let mut problem =
            Transpose { dtype, rank: runs.len() as u8, permutation: [0; MAX_RANK], dims: [0; MAX_RANK] };
        for (out, &(start, size)) in runs.iter().enumerate() {
            let axis = order.iter().position(|&other| other == start).unwrap_or(0);
            problem.permutation[out] = axis as u8;
            problem.dims[axis] = size;
        }
        Ok(problem)
    }

    /// The operand's dimensions after merging, outermost first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank as usize]
    }

    /// Which axis of the operand each axis of the result is.
    pub fn permutation(&self) -> &[u8] {
        &self.permutation[..self.rank as usize]
    }

    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        let axes =
            self.permutation.iter().fold(u64::from(self.rank), |word, &axis| word << 4 | u64::from(axis));
        let [a, b, c, d, e, f] = self.dims;
        super::mix(&[axes << 16 | (self.dtype as u64) << 8 | 4, a, b, c, d, e, f])
    }

    /// Elements moved.
    pub fn len(&self) -> u64 {
        super::product(self.dims())
    }

    /// Whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Transpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transpose:{}:", self.dtype)?;
        write_sizes(f, self.dims())?;
        if self.permutation() == [1, 0] {
            return Ok(());
        }
        for (index, axis) in self.permutation().iter().enumerate() {
            write!(f, "{}{axis}", if index == 0 { ":" } else { "." })?;
        }
        Ok(())
    }
}
