//! Where the elements of broadcast operands lie: walks over rows and over single elements of a range of the result.

use std::ops::Range;
use trimtab_core::{Elementwise, ElementwiseOp, MAX_RANK};

/// Sizes and strides, in elements; a repeated operand has stride zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    rank: usize,
    dims: [usize; MAX_RANK],
    lhs: [usize; MAX_RANK],
    rhs: [usize; MAX_RANK],
}

/// How the operands go along a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One operand.
    Unary,
    /// Both vary.
    Both,
    /// The right one is repeated.
    RhsRepeats,
    /// The left one is repeated.
    LhsRepeats,
    /// Rows too short for vectors, or nothing varies.
    Gather,
}

impl Layout {
    #[inline]
    pub(super) fn new(problem: &Elementwise) -> Layout {
        let dims = problem.dims();
        let mut layout =
            Layout { rank: dims.len(), dims: [1; MAX_RANK], lhs: [0; MAX_RANK], rhs: [0; MAX_RANK] };
        let binary = matches!(problem.op, ElementwiseOp::Binary(_));
        let (mut lhs, mut rhs) = (1, 1);
        for axis in (0..dims.len()).rev() {
            let size = dims[axis] as usize;
            layout.dims[axis] = size;
            if problem.lhs_varies(axis) {
                layout.lhs[axis] = lhs;
                lhs = lhs.saturating_mul(size);
            }
            if binary && problem.rhs_varies(axis) {
                layout.rhs[axis] = rhs;
                rhs = rhs.saturating_mul(size);
            }
        }
        layout
    }

    /// One row that operands vary along.
    pub(super) fn row_of(binary: bool) -> Layout {
        let mut layout = Layout { rank: 1, dims: [1; MAX_RANK], lhs: [0; MAX_RANK], rhs: [0; MAX_RANK] };
        (layout.dims[0], layout.lhs[0], layout.rhs[0]) = (usize::MAX, 1, usize::from(binary));
        layout
    }

    /// Whether the operands vary along a row.
    #[inline]
    pub(super) fn varies(&self) -> (bool, bool) {
        (self.lhs[self.rank - 1] != 0, self.rhs[self.rank - 1] != 0)
    }

    /// Elements of one row.
    #[inline]
    pub(super) fn row(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// How vectors of `lanes` elements go along a row.
    #[inline]
    pub(super) fn mode(&self, binary: bool, lanes: usize) -> Mode {
        if self.rank > 1 && self.row() < lanes {
            return Mode::Gather;
        }
        match (self.lhs[self.rank - 1] != 0, self.rhs[self.rank - 1] != 0) {
            (true, _) if !binary => Mode::Unary,
            (true, true) => Mode::Both,
            (true, false) => Mode::RhsRepeats,
            (false, true) => Mode::LhsRepeats,
            (false, false) => Mode::Gather,
        }
    }

    /// The indices of a flat position of the result and the offsets of the operands there.
    #[inline]
    fn locate(&self, flat: usize) -> ([usize; MAX_RANK], usize, usize) {
        let (mut index, mut lhs, mut rhs, mut rest) = ([0; MAX_RANK], 0, 0, flat);
        for axis in (0..self.rank).rev() {
            index[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
            lhs += index[axis] * self.lhs[axis];
            rhs += index[axis] * self.rhs[axis];
        }
        (index, lhs, rhs)
    }

    /// Goes to the next position along `axis`, with carries.
    #[inline(always)]
    fn advance(&self, mut axis: usize, index: &mut [usize; MAX_RANK], lhs: &mut usize, rhs: &mut usize) {
        loop {
            index[axis] += 1;
            *lhs += self.lhs[axis];
            *rhs += self.rhs[axis];
            if index[axis] < self.dims[axis] || axis == 0 {
                return;
            }
            index[axis] = 0;
            *lhs -= self.lhs[axis] * self.dims[axis];
            *rhs -= self.rhs[axis] * self.dims[axis];
            axis -= 1;
        }
    }

    /// The pieces of rows within a range. All offsets lie within the operands as long as the range lies within the result.
    #[inline(always)]
    pub(super) fn pieces(&self, range: Range<usize>) -> Pieces<'_> {
        let (index, lhs, rhs) = match self.rank {
            _ if range.is_empty() => ([0; MAX_RANK], 0, 0),
            1 => ([range.start, 0, 0, 0, 0, 0], self.lhs[0] * range.start, self.rhs[0] * range.start),
            _ => self.locate(range.start),
        };
        Pieces { layout: self, index, lhs, rhs, range }
    }

    /// Calls `body(position, lhs offset, rhs offset)` for each element of the range until it says stop with an error.
    #[inline(always)]
    pub(super) fn elements<E>(
        &self,
        range: Range<usize>,
        mut body: impl FnMut(usize, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        if range.is_empty() {
            return Ok(());
        }
        let last = self.rank - 1;
        let (mut index, mut lhs, mut rhs) = self.locate(range.start);
        for position in range {
            body(position, lhs, rhs)?;
            self.advance(last, &mut index, &mut lhs, &mut rhs);
        }
        Ok(())
    }
}

/// See [`Layout::pieces`]: a loop and not a callback, because vector code in closures is compiled without its
/// instruction set.
pub(super) struct Pieces<'a> {
    layout: &'a Layout,
    index: [usize; MAX_RANK],
    lhs: usize,
    rhs: usize,
    range: Range<usize>,
}

/// A piece of a row: position in the result, offsets of the operands, length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) at: usize,
    pub(super) lhs: usize,
    pub(super) rhs: usize,
    pub(super) len: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;
    #[inline(always)]
    fn next(&mut self) -> Option<Piece> {
        if self.range.is_empty() {
            return None;
        }
        let (layout, last) = (self.layout, self.layout.rank - 1);
        let within = self.index[last];
        let len = (layout.dims[last] - within).min(self.range.len());
        let piece = Piece { at: self.range.start, lhs: self.lhs, rhs: self.rhs, len };
        self.range.start += len;
        if !self.range.is_empty() && last > 0 {
            self.lhs -= within * layout.lhs[last];
            self.rhs -= within * layout.rhs[last];
            self.index[last] = 0;
            layout.advance(last - 1, &mut self.index, &mut self.lhs, &mut self.rhs);
        }
        Some(piece)
    }
}
