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

// SAFETY: the only thing that is not `Sync` is `out`, and `span` has its callers promise disjoint ranges.
unsafe impl<T: Sync> Sync for Operands<'_, T> {}

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
        let (lhs, rhs, out) = (operands.lhs.as_ptr(), operands.rhs.as_ptr(), operands.out);
        let mode = operands.layout.mode(ARITY == BINARY, lanes);
        let load = |from: *const T| {
            // SAFETY: `row` asks only for whole vectors within the row.
            unsafe { T::Vec::<S>::load(simd, from) }
        };
        let repeat = |from: *const T| {
            // SAFETY: a repeated operand has its element at the row's offset.
            T::Vec::<S>::splat(simd, unsafe { *from })
        };
        match mode {
            Mode::Unary => operands.layout.rows(range, |at, a, _, len| {
                // SAFETY: offsets of `rows` lie within operands and result for the piece's length.
                let (a, out) = unsafe { (lhs.add(a), out.add(at)) };
                let f = |a: *const T, _: *const T| {
                    let a = load(a);
                    O::apply(simd, a, a)
                };
                // SAFETY: as above; the range is ours alone.
                unsafe { row::<T, S, O, UNROLLED>(simd, f, [a, a], [1, 0], out, len, how.stream) }
            }),
            Mode::Both => operands.layout.rows(range, |at, a, b, len| {
                // SAFETY: offsets of `rows` lie within operands and result for the piece's length.
                let (a, b, out) = unsafe { (lhs.add(a), rhs.add(b), out.add(at)) };
                let f = |a: *const T, b: *const T| O::apply(simd, load(a), load(b));
                // SAFETY: as above; the range is ours alone.
                unsafe { row::<T, S, O, UNROLLED>(simd, f, [a, b], [1, 1], out, len, how.stream) }
            }),
            Mode::RhsRepeats => operands.layout.rows(range, |at, a, b, len| {
                // SAFETY: offsets of `rows` lie within operands and result for the piece's length.
                let (a, b, out) = unsafe { (lhs.add(a), rhs.add(b), out.add(at)) };
                let repeated = repeat(b);
                let f = |a: *const T, _: *const T| O::apply(simd, load(a), repeated);
                // SAFETY: as above; the range is ours alone.
                unsafe { row::<T, S, O, UNROLLED>(simd, f, [a, b], [1, 0], out, len, how.stream) }
            }),
            Mode::LhsRepeats => operands.layout.rows(range, |at, a, b, len| {
                // SAFETY: offsets of `rows` lie within operands and result for the piece's length.
                let (a, b, out) = unsafe { (lhs.add(a), rhs.add(b), out.add(at)) };
                let repeated = repeat(a);
                let f = |_: *const T, b: *const T| O::apply(simd, repeated, load(b));
                // SAFETY: as above; the range is ours alone.
                unsafe { row::<T, S, O, UNROLLED>(simd, f, [a, b], [0, 1], out, len, how.stream) }
            }),
            Mode::Gather => {
                let f = |a: *const T, b: *const T| O::apply(simd, load(a), load(b));
                // SAFETY: the range is ours alone and lies within the result.
                unsafe { gather(ARITY == BINARY, lanes, f, operands, range) }
            }
        }
        if how.stream {
            simd.fence();
        }
    }
}

/// One row: whole vectors, the last one overlapping the one before so that there is no scalar rest.
///
/// # Safety
/// For `len` elements `out` must be writable and ours alone, and each operand readable at steps of its stride (0 or 1).
/// `f` reads whole vectors of the operands with stride 1 only.
#[inline(always)]
unsafe fn row<T: Operand, S: Simd, O: Op<T>, const UNROLLED: bool>(
    simd: S,
    f: impl Fn(*const T, *const T) -> T::Vec<S>,
    from: [*const T; 2],
    strides: [usize; 2],
    out: *mut T,
    len: usize,
    stream: bool,
) {
    let lanes = <T::Vec<S> as Vector<T>>::LANES;
    if len < lanes {
        // Shorter than a vector: through the stack.
        let mut buffer = [[T::default(); MAX_LANES]; 2];
        for ((buffer, from), stride) in buffer.iter_mut().zip(from).zip(strides) {
            // SAFETY: readable for `len` elements where the stride is one; `len` is below MAX_LANES.
            unsafe { std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), len * stride) };
        }
        let mut result = [T::default(); MAX_LANES];
        // SAFETY: buffers hold MAX_LANES elements, at least one vector; `out` is writable for `len`.
        unsafe {
            f(buffer[0].as_ptr(), buffer[1].as_ptr()).store(result.as_mut_ptr());
            std::ptr::copy_nonoverlapping(result.as_ptr(), out, len);
        }
        return;
    }
    let at = |i: usize| {
        // SAFETY: called with `i + lanes <= len` only, and a stride is at most one.
        let (a, b) = unsafe { (from[0].add(i * strides[0]), from[1].add(i * strides[1])) };
        f(a, b)
    };
    let store = |i: usize, value: T::Vec<S>| {
        // SAFETY: called with `i + lanes <= len` only.
        unsafe { value.store(out.add(i)) }
    };
    let step = if UNROLLED { lanes * O::UNROLL } else { lanes };
    let mut i = 0;
    if stream {
        // A vector stored as usual covers the elements before the first aligned one.
        let bytes = lanes * size_of::<T>();
        let ahead = (bytes - out as usize % bytes) % bytes / size_of::<T>();
        if out as usize % size_of::<T>() == 0 && len >= ahead + lanes {
            store(0, at(0));
            i = ahead;
            while i + step <= len {
                let mut u = 0;
                while u < step {
                    // SAFETY: within `len`, and `i` is a whole number of vectors past an aligned address.
                    unsafe { at(i + u).stream(out.add(i + u)) };
                    u += lanes;
                }
                i += step;
            }
        }
    } else if UNROLLED {
        while i + step <= len {
            // All loads before all stores: four independent chains, or two for long ones.
            let first = at(i);
            let second = at(i + lanes);
            if O::UNROLL == 4 {
                let third = at(i + 2 * lanes);
                let fourth = at(i + 3 * lanes);
                store(i + 2 * lanes, third);
                store(i + 3 * lanes, fourth);
            }
            store(i, first);
            store(i + lanes, second);
            i += step;
        }
    }
    while i + lanes <= len {
        store(i, at(i));
        i += lanes;
    }
    if i < len {
        store(len - lanes, at(len - lanes));
    }
    let _ = simd;
}

/// Elements gathered before a round of vectors.
const GATHERED: usize = 64;

/// Rows shorter than a vector: operands are gathered element by element, then computed as vectors.
///
/// # Safety
/// The range must lie within the result and be ours alone.
#[inline(always)]
unsafe fn gather<T: Operand, S: Simd>(
    binary: bool,
    lanes: usize,
    f: impl Fn(*const T, *const T) -> T::Vec<S>,
    operands: &Operands<'_, T>,
    range: Range<usize>,
) where
    T::Vec<S>: Vector<T>,
{
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + GATHERED);
        let mut buffer = [[T::default(); GATHERED]; 3];
        let mut filled = 0;
        let _ = operands.layout.elements(start..end, |_, lhs, rhs| {
            buffer[0][filled] = operands.lhs[lhs];
            if binary {
                buffer[1][filled] = operands.rhs[rhs];
            }
            filled += 1;
            Ok::<(), ()>(())
        });
        let mut i = 0;
        while i < end - start {
            // SAFETY: GATHERED is a multiple of every number of lanes, so whole vectors fit the buffers.
            unsafe {
                f(buffer[0].as_ptr().add(i), buffer[1].as_ptr().add(i)).store(buffer[2].as_mut_ptr().add(i));
            }
            i += lanes;
        }
        // SAFETY: the caller's range is within the result and ours alone.
        unsafe { std::ptr::copy_nonoverlapping(buffer[2].as_ptr(), operands.out.add(start), end - start) };
        start = end;
    }
}
