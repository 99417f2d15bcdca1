//! One launch cut into products that single threads compute. The only place that makes pointers out of operands, so
//! that every kernel may trust the rectangle it is given.

use crate::args::{Args, Launched, Typed};
use crate::pool::{MAX_THREADS, Pool};
use std::marker::PhantomData;
use trimtab_core::{DeviceFacts, LaunchError, Matmul};
use trimtab_operands::Element;

/// Least operations per thread for a thread count to be offered: handing over costs about 1 µs, in which one core does
/// some 100,000 operations.
const MIN_FLOPS_PER_THREAD: u64 = 250_000;
/// Operations per thread from which more threads are the default; below, a sleeping helper costs more than it brings.
const DEFAULT_FLOPS_PER_THREAD: u64 = 4_000_000;
/// Parts of a batch each thread gets, so that a thread that is held up does not hold up all.
const BATCH_PARTS_PER_THREAD: usize = 4;

/// A matrix in memory: element (r, c) is at `start + r * row + c * col`.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct View<T> {
    pub(in crate::kernels) start: *const T,
    pub(in crate::kernels) row: usize,
    pub(in crate::kernels) col: usize,
}

/// A product for one thread: `out = lhs · rhs` with all sizes at least 1. Made only in this file, which guarantees that
/// `lhs` is readable as m × k, `rhs` as k × n, and `out` writable as m × n by nobody else while the product lives.
#[derive(Debug)]
pub(in crate::kernels) struct Product<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    lhs: View<T>,
    rhs: View<T>,
    out: *mut T,
    out_row: usize,
    operands: PhantomData<&'a mut [T]>,
}

impl<T> Product<'_, T> {
    /// Rows, columns and length of the inner products.
    #[inline]
    pub(in crate::kernels) fn sizes(&self) -> (usize, usize, usize) {
        (self.m, self.n, self.k)
    }

    /// The left operand, m × k.
    #[inline]
    pub(super) fn lhs(&self) -> View<T> {
        View { ..self.lhs }
    }

    /// The right operand, k × n.
    #[inline]
    pub(super) fn rhs(&self) -> View<T> {
        View { ..self.rhs }
    }

    /// The result: start and elements from row to row.
    #[inline]
    pub(in crate::kernels) fn out(&self) -> (*mut T, usize) {
        (self.out, self.out_row)
    }

    /// The product of some of the rows, at least one; rows past the end are left out.
    #[inline]
    pub(in crate::kernels) fn rows(&self, from: usize, count: usize) -> Product<'_, T> {
        let from = from.min(self.m - 1);
        Product {
            m: count.clamp(1, self.m - from),
            lhs: View { start: self.lhs.start.wrapping_add(from * self.lhs.row), ..self.lhs },
            rhs: View { ..self.rhs },
            out: self.out.wrapping_add(from * self.out_row),
            ..*self
        }
    }
}

/// How a launch is spread over threads.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Spread {
    /// Most threads to use.
    pub(super) threads: u32,
    /// What a single product is cut along: [`COLUMNS`], [`ROWS`] or [`GRID`].
    pub(super) split: u32,
    /// Parts are multiples of this many rows and columns, but for the last.
    pub(super) quantum: (usize, usize),
}

/// Cut along columns.
pub(super) const COLUMNS: u32 = 0;
/// Cut along rows.
pub(super) const ROWS: u32 = 1;
/// Cut along both.
pub(super) const GRID: u32 = 2;

impl Spread {
    /// All on the caller's thread.
    pub(super) const ALONE: Spread = Spread { threads: 1, split: COLUMNS, quantum: (1, 1) };

    /// How many parts one product is cut into: (along rows, along columns).
    fn grid(self, batch: usize) -> (usize, usize) {
        let threads = self.threads.min(MAX_THREADS) as usize;
        if threads <= batch {
            return (1, 1);
        }
        let parts = threads.div_ceil(batch);
        match self.split {
            COLUMNS => (1, parts),
            ROWS => (parts, 1),
            _ => {
                let rows =
                    (1..=parts).rev().find(|r| r * r <= parts && parts.is_multiple_of(*r)).unwrap_or(1);
                (rows, parts / rows)
            }
        }
    }
}

/// The sizes of a problem, checked: every product of them that indexes memory fits `usize`.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    lens: [u64; 3],
}

impl Sizes {
    #[inline]
    fn of(problem: &Matmul) -> Option<Sizes> {
        let fit = |size: u64| usize::try_from(size).ok();
        let (batch, m, n, k) = (fit(problem.batch)?, fit(problem.m)?, fit(problem.n)?, fit(problem.k)?);
        // A hand-made problem may have sizes whose product wraps around to the length of a short slice.
        let len = |rows: usize, cols: usize, shared: bool| {
            rows.checked_mul(cols)?.checked_mul(if shared { 1 } else { batch }).map(|len| len as u64)
        };
        let lens = [len(m, k, problem.lhs.shared)?, len(k, n, problem.rhs.shared)?, len(m, n, false)?];
        Some(Sizes { batch, m, n, k, lens })
    }
}

/// Checks the operands, cuts the launch and calls `each` for every product, on the pool's threads. Without rows, columns
/// or products there is nothing to do; inner products of length 0 are zero.
#[inline]
pub(in crate::kernels) fn spread<T: Element>(
    problem: &Matmul,
    how: Spread,
    args: Args<'_>,
    each: impl Fn(&Product<'_, T>) + Sync,
) -> Launched {
    let Some(sizes) = Sizes::of(problem) else {
        return Err(too_large(problem));
    };
    let typed = args.typed::<T>(sizes.lens)?;
    if typed.out.is_empty() {
        return Ok(());
    }
    if sizes.k == 0 {
        typed.out.fill(T::default());
        return Ok(());
    }
    let Typed { lhs, rhs, out, pool } = typed;
    let whole = Whole::of(problem, sizes, lhs, rhs, out);
    if how.threads <= 1 {
        for entry in 0..sizes.batch {
            each(&whole.part(entry, (0, sizes.m), (0, sizes.n)));
        }
        return Ok(());
    }
    spread_over_pool(&whole, how, pool, &each);
    Ok(())
}

#[inline(never)]
fn spread_over_pool<T: Element>(
    whole: &Whole<'_, T>,
    how: Spread,
    pool: &Pool,
    each: &(impl Fn(&Product<'_, T>) + Sync),
) {
    let Sizes { batch, m, n, .. } = whole.sizes;
    let (row_parts, col_parts) = how.grid(batch);
    let step =
        |size: usize, parts: usize, quantum: usize| size.div_ceil(parts).next_multiple_of(quantum.max(1));
    let (row_step, col_step) = (step(m, row_parts, how.quantum.0), step(n, col_parts, how.quantum.1));
    let (row_parts, col_parts) = (m.div_ceil(row_step), n.div_ceil(col_step));
    let batch_parts = batch.min(how.threads.min(MAX_THREADS) as usize * BATCH_PARTS_PER_THREAD);
    let batch_step = batch.div_ceil(batch_parts);
    pool.run(how.threads, batch.div_ceil(batch_step) * row_parts * col_parts, &|task| {
        let (entries, cell) = (task / (row_parts * col_parts), task % (row_parts * col_parts));
        let (row, col) = (cell / col_parts * row_step, cell % col_parts * col_step);
        for entry in entries * batch_step..((entries + 1) * batch_step).min(batch) {
            each(&whole.part(entry, (row, (row + row_step).min(m)), (col, (col + col_step).min(n))));
        }
    });
}

/// The operands of a whole launch, borrowed for as long as its parts are computed.
struct Whole<'a, T> {
    sizes: Sizes,
    lhs: View<T>,
    rhs: View<T>,
    /// Elements from one product to the next; 0 for a shared operand.
    lhs_step: usize,
    rhs_step: usize,
    out: *mut T,
    operands: PhantomData<&'a mut [T]>,
}

// SAFETY: the pointers come from slices of `T: Sync` and a unique slice of `T: Send`; `part` hands out parts of the
// latter that do not overlap, because each task has its own entries and cell.
unsafe impl<T: Send + Sync> Sync for Whole<'_, T> {}

impl<'a, T: Element> Whole<'a, T> {
    #[inline]
    fn of(problem: &Matmul, sizes: Sizes, lhs: &'a [T], rhs: &'a [T], out: &'a mut [T]) -> Self {
        let view = |start: *const T, rows: usize, cols: usize, transposed: bool| match transposed {
            false => View { start, row: cols, col: 1 },
            true => View { start, row: 1, col: rows },
        };
        Whole {
            sizes,
            lhs: view(lhs.as_ptr(), sizes.m, sizes.k, problem.lhs.transposed),
            rhs: view(rhs.as_ptr(), sizes.k, sizes.n, problem.rhs.transposed),
            lhs_step: if problem.lhs.shared { 0 } else { sizes.m * sizes.k },
            rhs_step: if problem.rhs.shared { 0 } else { sizes.k * sizes.n },
            out: out.as_mut_ptr(),
            operands: PhantomData,
        }
    }

    /// The product of rows and columns `from..to` (not empty, within the sizes) of one batch entry.
    #[inline]
    fn part(&self, entry: usize, rows: (usize, usize), cols: (usize, usize)) -> Product<'_, T> {
        let offset = |view: View<T>, entry_step: usize, row: usize, col: usize| View {
            start: view.start.wrapping_add(entry * entry_step + row * view.row + col * view.col),
            ..view
        };
        let Sizes { m, n, k, .. } = self.sizes;
        Product {
            m: rows.1 - rows.0,
            n: cols.1 - cols.0,
            k,
            lhs: offset(self.lhs, self.lhs_step, rows.0, 0),
            rhs: offset(self.rhs, self.rhs_step, 0, cols.0),
            out: self.out.wrapping_add(entry * m * n + rows.0 * n + cols.0),
            out_row: n,
            operands: PhantomData,
        }
    }
}

#[cold]
fn too_large(problem: &Matmul) -> LaunchError {
    LaunchError::Kernel(format!("{problem} has more elements than this machine can address"))
}

/// The error for an element type matrix products do not have.
#[cold]
pub(in crate::kernels) fn wrong_dtype(problem: impl std::fmt::Display) -> LaunchError {
    LaunchError::Kernel(format!("{problem}: matrix products are of f32 or f64"))
}

/// Thread counts worth trying for that many operations, the default first: powers of two up to all threads of the device,
/// as long as each has enough to do.
pub(super) fn thread_counts(flops: u64, device: &DeviceFacts) -> Vec<u32> {
    let all = device.threads.max(1);
    let mut counts: Vec<u32> =
        (0..).map(|power| 1u32 << power).take_while(|&count| count < all && count < 1 << 30).collect();
    counts.push(all);
    counts.retain(|&count| count == 1 || flops / u64::from(count) >= MIN_FLOPS_PER_THREAD);
    let default =
        counts.iter().rposition(|&count| count == 1 || flops / u64::from(count) >= DEFAULT_FLOPS_PER_THREAD);
    counts[..=default.unwrap_or(0)].rotate_right(1);
    counts
}

/// Ways to cut worth trying with that many threads, the default first. The longer side goes first; a grid needs four
/// threads; what is spread over a batch is not cut.
pub(super) fn splits(problem: &Matmul, threads: u32) -> Vec<u32> {
    if threads <= 1 || problem.batch >= u64::from(threads) {
        return vec![COLUMNS];
    }
    let (long, short) = if problem.n > problem.m { (COLUMNS, ROWS) } else { (ROWS, COLUMNS) };
    let mut splits = vec![long];
    if problem.n.min(problem.m) >= 16 * u64::from(threads) {
        splits.push(short);
        if threads >= 4 {
            splits.push(GRID);
        }
    }
    splits
}

/// How often each operand is walked because a product is cut: (lhs, rhs).
pub(super) fn rereads(problem: &Matmul, threads: u32, split: u32) -> (u64, u64) {
    let how = Spread { threads: threads.max(1), split, quantum: (1, 1) };
    let (rows, cols) = how.grid(usize::try_from(problem.batch).unwrap_or(usize::MAX).max(1));
    ((cols as u64).min(problem.n.max(1)), (rows as u64).min(problem.m.max(1)))
}
