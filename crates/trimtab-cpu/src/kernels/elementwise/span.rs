//! A range of the result computed with vectors: the inner loops shared by the fast kernels.

use super::layout::{Layout, Mode};
use super::ops::{Op, Operand, Visit};
use crate::simd::{Level, MAX_LANES, Simd, Task, Vector};
use std::marker::PhantomData;
use std::ops::Range;
use trimtab_core::ElementwiseOp;

/// Operands and result of a launch whose lengths were checked against the problem the layout is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands<'a, T> {
    pub(super) layout: &'a Layout,
    pub(super) lhs: &'a [T],
    pub(super) rhs: &'a [T],
    /// The whole result; each span writes its own range only.
    pub(super) out: *mut T,
}

// SAFETY: the only thing that is not `Sync` is `out`, and `span` has its callers promise disjoint ranges; elements written
// there by other threads are `Send`.
unsafe impl<T: Send + Sync> Sync for Operands<'_, T> {}

/// How a span is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) level: Level,
    /// Several vectors in flight.
    pub(super) unrolled: bool,
    /// Stores that pass the caches.
    pub(super) stream: bool,
}

/// Computes a range of the result. `false` if the operation has no vector form.
///
/// # Safety
/// `operands.out` must be writable for the problem's result, the operands must have the lengths of the layout's problem,
/// `range` must lie within the result, and nobody else may use that range of it meanwhile.
#[inline]
pub(super) unsafe fn span<T: Operand>(
    op: ElementwiseOp,
    how: How,
    operands: &Operands<'_, T>,
    range: Range<usize>,
) -> bool {
    T::visit(op, Span { how, operands, range }).is_some()
}

struct Span<'a, T> {
    how: How,
    operands: &'a Operands<'a, T>,
    range: Range<usize>,
}

impl<T: Operand> Visit<T> for Span<'_, T> {
    type Out = ();
    #[inline(always)]
    fn unary<O: Op<T>>(self) {
        match self.how.unrolled {
            false => self.how.level.vectorize(Rows::<T, O, UNARY, false>(self, PhantomData)),
            true => self.how.level.vectorize(Rows::<T, O, UNARY, true>(self, PhantomData)),
        }
    }
    #[inline(always)]
    fn binary<O: Op<T>>(self) {
        match self.how.unrolled {
            false => self.how.level.vectorize(Rows::<T, O, BINARY, false>(self, PhantomData)),
            true => self.how.level.vectorize(Rows::<T, O, BINARY, true>(self, PhantomData)),
        }
    }
}

const UNARY: bool = false;
const BINARY: bool = true;

struct Rows<'a, T, O, const ARITY: bool, const UNROLLED: bool>(Span<'a, T>, PhantomData<O>);

impl<T: Operand, O: Op<T>, const ARITY: bool, const UNROLLED: bool> Task for Rows<'_, T, O, ARITY, UNROLLED> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Span { how, operands, range } = self.0;
        let lanes = <T::Vec<S> as Vector<T>>::LANES;
        // SAFETY: the range lies within the result and is ours alone, and the mode is the layout's.
        unsafe {
            match operands.layout.mode(ARITY == BINARY, lanes) {
                Mode::Unary => rows::<T, S, O, ONE, UNROLLED>(simd, how, operands, range),
                Mode::Both if ARITY == BINARY => rows::<T, S, O, BOTH, UNROLLED>(simd, how, operands, range),
                Mode::RhsRepeats if ARITY == BINARY => {
                    rows::<T, S, O, LEFT, UNROLLED>(simd, how, operands, range)
                }
                Mode::LhsRepeats if ARITY == BINARY => {
                    rows::<T, S, O, RIGHT, UNROLLED>(simd, how, operands, range)
                }
                _ => gather::<T, S, O>(simd, ARITY == BINARY, operands, range),
            }
        }
        if how.stream {
            simd.fence();
        }
    }
}

/// Which operands vary along a row.
const ONE: u8 = 0;
const BOTH: u8 = 1;
const LEFT: u8 = 2;
const RIGHT: u8 = 3;

/// A row under way: where its operands start, and the repeated one as a vector.
struct Row<T: Operand, S: Simd> {
    simd: S,
    lhs: *const T,
    rhs: *const T,
    repeated: T::Vec<S>,
}

impl<T: Operand, S: Simd> Row<T, S> {
    /// The results of the vector that starts `i` elements into the row.
    ///
    /// # Safety
    /// The operands that vary must be readable for a whole vector there.
    #[inline(always)]
    unsafe fn at<O: Op<T>, const VARIES: u8>(&self, i: usize) -> T::Vec<S> {
        // SAFETY: the caller's promise; repeated operands are not read.
        unsafe {
            let a = match VARIES {
                RIGHT => self.repeated,
                _ => T::Vec::<S>::load(self.simd, self.lhs.add(i)),
            };
            let b = match VARIES {
                ONE => a,
                LEFT => self.repeated,
                _ => T::Vec::<S>::load(self.simd, self.rhs.add(i)),
            };
            O::apply(self.simd, a, b)
        }
    }
}

/// Every piece of a row in a range.
///
/// # Safety
/// As [`span`]; `VARIES` must be the layout's mode.
#[inline(always)]
unsafe fn rows<T: Operand, S: Simd, O: Op<T>, const VARIES: u8, const UNROLLED: bool>(
    simd: S,
    how: How,
    operands: &Operands<'_, T>,
    range: Range<usize>,
) {
    for piece in operands.layout.pieces(range) {
        // SAFETY: a piece's offsets lie within operands and result for its length; a repeated operand has its element at
        // the offset.
        unsafe {
            let (lhs, rhs) =
                (operands.lhs.as_ptr().add(piece.lhs), operands.rhs.as_ptr().wrapping_add(piece.rhs));
            let repeated = match VARIES {
                LEFT => T::Vec::<S>::splat(simd, *rhs),
                RIGHT => T::Vec::<S>::splat(simd, *lhs),
                _ => T::Vec::<S>::splat(simd, T::default()),
            };
            let row = Row { simd, lhs, rhs, repeated };
            compute::<T, S, O, VARIES, UNROLLED>(row, operands.out.add(piece.at), piece.len, how.stream);
        }
    }
}

/// One row: whole vectors, the last one overlapping the one before so that there is no scalar rest.
///
/// The operation stands here as seldom as can be: it is compiled in again at every place, and with a loop of its own for
/// streamed stores, for the rest, the tail and short rows this crate took twice as long to build.
///
/// # Safety
/// For `len` elements `out` must be writable and ours alone and the operands that vary readable.
#[inline(always)]
unsafe fn compute<T: Operand, S: Simd, O: Op<T>, const VARIES: u8, const UNROLLED: bool>(
    row: Row<T, S>,
    out: *mut T,
    len: usize,
    stream: bool,
) {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let (mut row, mut to, mut whole) = (row, out, len);
    let mut buffer = [[std::mem::MaybeUninit::<T>::uninit(); MAX_LANES]; 3];
    // SAFETY: operands that vary are readable for `len`, buffers for MAX_LANES, which is a vector at least. Every vector
    // starts at least `lanes` before the end, for reads and writes; streamed ones are whole vectors past an aligned address.
    unsafe {
        if len < lanes {
            // Shorter than a vector: through the stack, where a whole one fits.
            buffer = [[std::mem::MaybeUninit::new(T::default()); MAX_LANES]; 3];
            let [lhs, rhs, result] = &mut buffer;
            if VARIES != RIGHT {
                std::ptr::copy_nonoverlapping(row.lhs, lhs.as_mut_ptr().cast(), len);
            }
            if VARIES == BOTH || VARIES == RIGHT {
                std::ptr::copy_nonoverlapping(row.rhs, rhs.as_mut_ptr().cast(), len);
            }
            row = Row { lhs: lhs.as_ptr().cast(), rhs: rhs.as_ptr().cast(), ..row };
            (to, whole) = (result.as_mut_ptr().cast(), lanes);
        }
        let (bytes, mut i) = (lanes * size_of::<T>(), 0);
        // Elements before the first aligned one; a vector stored as usual covers them.
        let ahead = (bytes - to as usize % bytes) % bytes / size_of::<T>();
        let stream = stream && whole >= ahead + lanes && (to as usize).is_multiple_of(size_of::<T>());
        if stream && ahead > 0 {
            row.at::<O, VARIES>(0).store(to);
            i = ahead;
        }
        if UNROLLED {
            let step = lanes * O::UNROLL;
            while i + step <= whole {
                // All loads before all stores: four independent chains, or two for long ones.
                let first = row.at::<O, VARIES>(i);
                let second = row.at::<O, VARIES>(i + lanes);
                if O::UNROLL == 4 {
                    let third = row.at::<O, VARIES>(i + 2 * lanes);
                    let fourth = row.at::<O, VARIES>(i + 3 * lanes);
                    put::<T, S>(stream, first, to.add(i));
                    put::<T, S>(stream, second, to.add(i + lanes));
                    put::<T, S>(stream, third, to.add(i + 2 * lanes));
                    put::<T, S>(stream, fourth, to.add(i + 3 * lanes));
                } else {
                    put::<T, S>(stream, first, to.add(i));
                    put::<T, S>(stream, second, to.add(i + lanes));
                }
                i += step;
            }
        }
        while i < whole {
            let at = i.min(whole - lanes);
            put::<T, S>(stream && at == i, row.at::<O, VARIES>(at), to.add(at));
            i += lanes;
        }
        if len < lanes {
            std::ptr::copy_nonoverlapping(buffer[2].as_ptr().cast(), out, len);
        }
    }
}

/// Stores past the caches or as usual.
///
/// # Safety
/// A whole vector must be writable there, and aligned if streamed.
#[inline(always)]
unsafe fn put<T: Operand, S: Simd>(stream: bool, value: T::Vec<S>, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe { if stream { value.stream(to) } else { value.store(to) } }
}

/// Elements gathered before a round of vectors.
const GATHERED: usize = 64;

/// Rows shorter than a vector: operands are gathered element by element, then computed as vectors.
///
/// # Safety
/// The range must lie within the result and be ours alone.
#[inline(always)]
unsafe fn gather<T: Operand, S: Simd, O: Op<T>>(
    simd: S,
    binary: bool,
    operands: &Operands<'_, T>,
    range: Range<usize>,
) {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    let mut start = range.start;
    let mut buffer = [[T::default(); GATHERED]; 3];
    while start < range.end {
        let end = range.end.min(start + GATHERED);
        let [lhs, rhs, _] = &mut buffer;
        // Only scalars in here: see `Pieces`.
        let _ = operands.layout.elements(start..end, |at, left, right| {
            lhs[at - start] = operands.lhs[left];
            if binary {
                rhs[at - start] = operands.rhs[right];
            }
            Ok::<(), ()>(())
        });
        let [lhs, rhs, out] = &mut buffer;
        let mut i = 0;
        // SAFETY: GATHERED is a multiple of every number of lanes, so whole vectors fit the buffers; the caller's range is
        // within the result and ours alone.
        unsafe {
            while i < end - start {
                let a = T::Vec::<S>::load(simd, lhs.as_ptr().add(i));
                let b = T::Vec::<S>::load(simd, rhs.as_ptr().add(i));
                O::apply(simd, a, b).store(out.as_mut_ptr().add(i));
                i += lanes;
            }
            std::ptr::copy_nonoverlapping(out.as_ptr(), operands.out.add(start), end - start);
        }
        start = end;
    }
}
