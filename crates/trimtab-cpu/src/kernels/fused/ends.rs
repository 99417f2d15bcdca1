//! The reduction at the end of a recipe: tiles are computed into a buffer that stays in the first-level cache and folded from
//! there, as the reduction kernels fold their operands. What parts there are depends on the settings, never on who computes them.

use super::machine::{How, Recipe};
use crate::args::Launched;
use crate::kernels::elementwise::ops::Operand;
use crate::kernels::reduce::fold::{Fold, Foldable, Visit, one_by_one, reduce_row};
use crate::pool::Pool;
use crate::simd::{Level, Simd, Task};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use trimtab_core::{Fused, LaunchError, Over, ReduceOp};

/// Elements of the buffer: 8 KiB of f32, 16 KiB of f64.
const TILE: usize = 2048;
/// Most parts of one reduction; they wait on the stack to be merged in order.
const PARTS: usize = 256;
/// Accumulators of the vector loop, and elements between moves of the accumulators to the total: 64 terms a lane where
/// vectors have two.
const UNROLL: u32 = 4;
const BLOCK: usize = 64 * UNROLL as usize * 2;
/// Columns accumulated at once when rows are reduced.
const WIDTH: usize = 512;
/// As many, or fewer, columns are reduced in parts of rows, at most so many, each of at least so many elements.
const NARROW: usize = 64;
const ROW_PARTS: usize = 32;
const ROW_PART_ELEMENTS: usize = 16 << 10;
/// Rows added up before they go to the totals: what keeps sums pairwise-accurate.
const ROWS: usize = 32;

/// A reduction under way.
pub(super) struct Ends<'a, T> {
    pub(super) recipe: &'a Recipe<'a, T>,
    pub(super) level: Level,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) over: Over,
    pub(super) threads: u32,
    /// Elements a thread takes at once.
    pub(super) tile: usize,
    pub(super) out: &'a mut [T],
    pub(super) pool: &'a Pool,
}

impl<T: Operand + Foldable> Ends<'_, T> {
    /// Computes and reduces.
    pub(super) fn run(self, problem: &Fused, op: ReduceOp) -> Launched {
        <T as Foldable>::visit(op, self)
            .unwrap_or_else(|| Err(LaunchError::Kernel(format!("{problem} has no such reduction"))))
    }

    fn how(&self) -> How {
        How { level: self.level, stream: false }
    }

    /// Elements from a flat position on that are computed at once: whole rows where several fit.
    fn at_once(&self, left: usize) -> usize {
        let whole = if self.columns <= TILE { TILE / self.columns * self.columns } else { TILE };
        whole.min(left)
    }

    /// The state of `len` elements from a flat position on.
    ///
    /// # Safety
    /// They must lie within the problem.
    unsafe fn fold<F: Fold<T>>(&self, start: usize, len: usize) -> F::State {
        let mut buffer = [MaybeUninit::<T>::uninit(); TILE];
        let (mut state, mut done) = (F::EMPTY, 0);
        while done < len {
            let some = self.at_once(len - done);
            // SAFETY: within the problem, as the caller promises.
            let values = unsafe { self.computed(start + done, some, &mut buffer) };
            state = F::merge(state, reduce_row::<T, F>(self.level, UNROLL, BLOCK, values));
            done += some;
        }
        state
    }

    /// At most a tile of elements from a flat position on.
    ///
    /// # Safety
    /// They must lie within the problem.
    unsafe fn computed<'b>(&self, start: usize, len: usize, to: &'b mut [MaybeUninit<T>; TILE]) -> &'b [T] {
        let (len, to) = (len.min(TILE), to.as_mut_ptr().cast::<T>());
        // SAFETY: the caller's promise; `len` elements fit and are written.
        unsafe {
            self.recipe.compute(self.how(), start, len, to);
            std::slice::from_raw_parts(to, len)
        }
    }

    /// The state of a range of elements, in parts that threads take.
    fn shared<F: Fold<T>>(&self, start: usize, len: usize) -> F::State {
        let chunk = self.tile.max(len.div_ceil(PARTS)).next_multiple_of(self.columns.clamp(1, TILE));
        let mut parts = [F::EMPTY; PARTS];
        let parts = &mut parts[..len.div_ceil(chunk)];
        self.pool.for_chunks(self.threads, parts, 1, |part, state| {
            let (from, to) = (part * chunk, len.min((part + 1) * chunk));
            if let Some(state) = state.first_mut() {
                // SAFETY: a part of the range, which lies within the problem.
                *state = unsafe { self.fold::<F>(start + from, to - from) };
            }
        });
        parts.iter().fold(F::EMPTY, |a, &b| F::merge(a, b))
    }

    /// A result for each row.
    fn columns<F: Fold<T>>(mut self) -> Launched {
        let (rows, columns, out) = (self.rows, self.columns, std::mem::take(&mut self.out));
        if columns > self.tile && rows < 4 * self.threads as usize {
            for (row, out) in out.iter_mut().enumerate() {
                *out = F::finish(self.shared::<F>(row * columns, columns), columns)?;
            }
            return Ok(());
        }
        let at_once = (self.tile / columns.max(1)).max(1);
        let failed = AtomicBool::new(false);
        self.pool.for_chunks(self.threads, out, at_once, |first, out| {
            let mut buffer = [MaybeUninit::<T>::uninit(); TILE];
            let several = (TILE / columns.max(1)).max(1);
            for (nth, out) in out.chunks_mut(several).enumerate() {
                let start = (first + nth * several) * columns;
                let short = columns > 0 && columns <= TILE;
                // SAFETY: rows of the problem: as many as there are results.
                let values = short.then(|| unsafe { self.computed(start, out.len() * columns, &mut buffer) });
                for (out, at) in out.iter_mut().zip((0..).step_by(columns.max(1))) {
                    let state = match values.map(|values| &values[at..at + columns]) {
                        Some(row) => reduce_row::<T, F>(self.level, UNROLL, BLOCK, row),
                        // SAFETY: one row of the problem.
                        None => unsafe { self.fold::<F>(start + at, columns) },
                    };
                    match F::finish(state, columns) {
                        Ok(value) => *out = value,
                        Err(_) => failed.store(true, Ordering::Relaxed),
                    }
                }
            }
        });
        self.outcome(failed, rows * columns)
    }

    /// A result for each column.
    fn rows<F: Fold<T>>(mut self) -> Launched {
        let (rows, columns, out) = (self.rows, self.columns, std::mem::take(&mut self.out));
        let failed = AtomicBool::new(false);
        let finish = |first: usize, out: &mut [T], totals: &[F::State]| {
            for (nth, (out, &total)) in out.iter_mut().zip(totals).enumerate() {
                let mut total = total;
                if F::may_have_overflown(total) {
                    // SAFETY: elements of one column of the problem.
                    let each = (0..rows).map(|row| unsafe { self.single(row * columns + first + nth) });
                    total = one_by_one::<T, F>(each);
                }
                match F::finish(total, rows) {
                    Ok(value) => *out = value,
                    Err(_) => failed.store(true, Ordering::Relaxed),
                }
            }
        };
        if columns <= NARROW {
            let parts = (rows * columns / ROW_PART_ELEMENTS).clamp(1, ROW_PARTS);
            let height = rows.div_ceil(parts).max(1).next_multiple_of(ROWS);
            let parts = rows.div_ceil(height);
            let mut totals = [[F::EMPTY; NARROW]; ROW_PARTS];
            self.pool.for_chunks(self.threads, &mut totals[..parts], 1, |part, totals| {
                if let Some(totals) = totals.first_mut() {
                    let some = part * height..rows.min((part + 1) * height);
                    // SAFETY: rows of the problem, all their columns.
                    unsafe { self.band::<F>(some, 0, &mut totals[..columns]) };
                }
            });
            let mut all = [F::EMPTY; NARROW];
            for part in &totals[..parts] {
                all.iter_mut().zip(part).for_each(|(all, &part)| *all = F::merge(*all, part));
            }
            finish(0, out, &all[..columns]);
        } else {
            let share = columns.div_ceil(self.threads.max(1) as usize);
            let width = share.next_multiple_of(NARROW).min(WIDTH);
            self.pool.for_chunks(self.threads, out, width, |first, out| {
                let mut totals = [F::EMPTY; WIDTH];
                let totals = &mut totals[..out.len().min(WIDTH)];
                // SAFETY: columns of the problem, all their rows.
                unsafe { self.band::<F>(0..rows, first, totals) };
                finish(first, out, totals);
            });
        }
        self.outcome(failed, rows * columns)
    }

    /// The states of neighbouring columns over some rows.
    ///
    /// # Safety
    /// Rows and columns must lie within the problem.
    unsafe fn band<F: Fold<T>>(&self, rows: std::ops::Range<usize>, first: usize, totals: &mut [F::State]) {
        let width = totals.len();
        let mut buffer = [MaybeUninit::<T>::uninit(); TILE];
        let mut runs = [F::EMPTY_RUN; WIDTH];
        let runs = &mut runs[..width];
        // Where the band is as wide as the problem, several rows lie side by side.
        let most = if width == self.columns { (TILE / width.max(1)).clamp(1, ROWS) } else { 1 };
        let (mut row, mut added) = (rows.start, 0);
        while row < rows.end && width > 0 {
            let some = most.min(rows.end - row).min(ROWS - added);
            // SAFETY: within the problem, as the caller promises; at most a tile.
            let values = unsafe { self.computed(row * self.columns + first, some * width, &mut buffer) };
            self.level.vectorize(Add::<T, F> { runs, values, fold: PhantomData });
            (row, added) = (row + some, added + some);
            if added == ROWS || row == rows.end {
                for (total, run) in totals.iter_mut().zip(runs.iter_mut()) {
                    *total = F::absorb(*total, *run);
                    *run = F::EMPTY_RUN;
                }
                added = 0;
            }
        }
    }

    /// One element.
    ///
    /// # Safety
    /// It must lie within the problem.
    unsafe fn single(&self, at: usize) -> T {
        let mut value = T::default();
        // SAFETY: the caller's promise; the result is one element.
        unsafe { self.recipe.compute(self.how(), at, 1, &mut value) };
        value
    }

    fn outcome(&self, failed: AtomicBool, len: usize) -> Launched {
        match failed.into_inner() {
            true => Err(LaunchError::Kernel(format!("the reduction of {len} elements is undefined"))),
            false => Ok(()),
        }
    }
}

impl<T: Operand + Foldable> Visit<T> for Ends<'_, T> {
    type Out = Launched;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        match self.over {
            Over::All => {
                let len = self.rows * self.columns;
                let value = F::finish(self.shared::<F>(0, len), len)?;
                self.out.iter_mut().for_each(|out| *out = value);
                Ok(())
            }
            Over::Columns => self.columns::<F>(),
            Over::Rows => self.rows::<F>(),
        }
    }
}

/// Whole rows added to the runs of their columns, compiled for an instruction set.
struct Add<'a, T: Operand, F: Fold<T>> {
    runs: &'a mut [F::Run],
    values: &'a [T],
    fold: PhantomData<F>,
}

impl<T: Operand, F: Fold<T>> Task for Add<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for row in self.values.chunks_exact(self.runs.len()) {
            for (run, &value) in self.runs.iter_mut().zip(row) {
                *run = F::step(*run, value);
            }
        }
    }
}
