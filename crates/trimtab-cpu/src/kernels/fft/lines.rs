//! Transforms of several axes, line by line: first the last axis, whose lines lie in a row, then columns of the others, some side by
//! side. Who transforms a single line is a plan's affair.

use super::{Real, scale};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::with_room;
use crate::pool::Pool;
use std::sync::Arc;
use trimtab_core::{DeviceFacts, Fft, FftOp, MAX_FFT_RANK};
use trimtab_operands::Complex;

/// Numbers from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE: u64 = 8 << 10;
/// Numbers of the rows that a thread takes at once.
const TAKEN: usize = 8 << 10;
/// Columns side by side that are worth trying: as many as a line of the caches holds, and some.
const COLUMNS: [u32; 2] = [8, 32];

/// Transforms lines of one length in one direction.
pub(super) trait Lines<T: Real>: Send + Sync {
    /// Numbers of a line.
    fn len(&self) -> usize;

    /// Numbers a line needs beside it.
    fn room(&self) -> usize;

    /// A line into another place, times a number.
    fn row(&self, from: &[Complex<T>], to: &mut [Complex<T>], room: &mut [Complex<T>], scale: T);

    /// Numbers so many columns need beside them.
    fn columns_room(&self, count: usize) -> usize {
        (count + 1) * self.len() + self.room()
    }

    /// Columns side by side from one place to another, or where they are, times a number.
    ///
    /// # Safety
    /// In both places the numbers of `len` rows of `count`, so far apart, must be there, and those of the second nobody else's.
    unsafe fn columns(
        &self,
        (from, from_stride): (*const Complex<T>, usize),
        (to, to_stride): (*mut Complex<T>, usize),
        count: usize,
        room: &mut [Complex<T>],
        scale: T,
    ) {
        let len = self.len();
        let (block, room) = room.split_at_mut(count * len);
        let (made, room) = room.split_at_mut(len);
        for at in 0..len {
            for column in 0..count {
                // SAFETY: within the rows that the caller promises.
                block[column * len + at] = unsafe { from.add(at * from_stride + column).read() };
            }
        }
        for line in block.chunks_mut(len) {
            self.row(line, made, room, scale);
            line.copy_from_slice(made);
        }
        for at in 0..len {
            for column in 0..count {
                // SAFETY: within the rows that the caller promises.
                unsafe { to.add(at * to_stride + column).write(block[column * len + at]) };
            }
        }
    }
}

/// Transforms lines of real numbers, or spectra of such.
pub(super) trait RealLines<T: Real>: Send + Sync {
    /// Numbers a line needs beside it.
    fn room(&self) -> usize;
    /// Real numbers to the first half of their spectrum.
    fn forward(&self, from: &[T], to: &mut [Complex<T>], room: &mut [Complex<T>]);
    /// Half a spectrum to real numbers, times a number.
    fn inverse(&self, from: &[Complex<T>], to: &mut [T], room: &mut [Complex<T>], scale: T);
}

/// How lines are shared: threads, and columns side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    pub threads: u32,
    pub columns: u32,
}

impl Sharing {
    /// What is worth trying.
    pub(super) fn all(problem: &Fft, device: &DeviceFacts) -> Vec<Sharing> {
        let lines = problem.batch.saturating_mul(problem.points() / problem.last().max(1));
        let shareable = lines > 1 && problem.batch.saturating_mul(problem.points()) >= SHAREABLE;
        let columns: &[u32] = if problem.sizes().len() > 1 { &COLUMNS } else { &COLUMNS[..1] };
        let with = |threads: u32| columns.iter().map(move |&columns| Sharing { threads, columns });
        thread_counts(device, shareable, 3).into_iter().flat_map(with).collect()
    }
}

/// The plans of a problem: of lines along every axis, where one side is real all but the last, and that.
pub(super) struct Plans<T: Real> {
    lines: [Option<Arc<dyn Lines<T>>>; MAX_FFT_RANK],
    real: Option<Arc<dyn RealLines<T>>>,
}

impl<T: Real> Plans<T> {
    /// By who plans lines of a length, and of real numbers.
    pub(super) fn new(
        problem: &Fft,
        lines: impl Fn(usize) -> Arc<dyn Lines<T>>,
        real: impl Fn(usize) -> Arc<dyn RealLines<T>>,
    ) -> Plans<T> {
        let is_real = matches!(problem.op, FftOp::Real | FftOp::InverseReal);
        let sizes = &problem.sizes()[..problem.sizes().len() - usize::from(is_real)];
        let of = |axis: usize| sizes.get(axis).map(|&len| lines(len as usize));
        Plans { lines: std::array::from_fn(of), real: is_real.then(|| real(problem.last() as usize)) }
    }
}

/// A transform of a batch: sizes as numbers of this machine.
struct Work<'a, T: Real> {
    op: FftOp,
    batch: usize,
    /// Rows of a transform, and numbers of each on either side.
    rows: usize,
    given: usize,
    made: usize,
    bins: usize,
    scale: T,
    plans: &'a Plans<T>,
    sizes: &'a [u64],
    columns: usize,
    pool: &'a Pool,
}

/// Computes a problem from the parts of its operand to those of its result; lengths were checked.
pub(super) fn run<T: Real>(
    problem: &Fft,
    plans: &Plans<T>,
    shared: Sharing,
    input: &[T],
    out: &mut [T],
    pool: &Pool,
) {
    let (last, bins) = (problem.last() as usize, problem.bins() as usize);
    let (given, made) = match problem.op {
        FftOp::Forward | FftOp::Inverse => (2 * last, 2 * last),
        FftOp::Real => (last, 2 * bins),
        FftOp::InverseReal => (2 * bins, last),
    };
    let work = Work {
        op: problem.op,
        batch: problem.batch as usize,
        rows: problem.points() as usize / last.max(1),
        given,
        made,
        bins,
        scale: T::of(scale(problem)),
        plans,
        sizes: problem.sizes(),
        columns: shared.columns.max(1) as usize,
        pool,
    };
    if work.rows == 1 {
        return work.rows(input, out, work.scale, shared.threads);
    }
    // Whole transforms to each thread where there are enough.
    let inside = if work.batch >= shared.threads as usize { 1 } else { shared.threads };
    let each = work.rows * made;
    let parts = Disjoint::new(out);
    pool.run(shared.threads, work.batch, &|nth| {
        // SAFETY: every task has a transform of its own.
        let out = unsafe { parts.part(nth * each..(nth + 1) * each) };
        work.one(&input[nth * work.rows * given..(nth + 1) * work.rows * given], out, inside);
    });
}

impl<T: Real> Work<'_, T> {
    /// One transform of several axes.
    fn one(&self, input: &[T], out: &mut [T], threads: u32) {
        let one = T::of(1.0);
        if self.op != FftOp::InverseReal {
            self.rows(input, out, one, threads);
            let spectrum: &mut [Complex<T>] = bytemuck::cast_slice_mut(out);
            return self.axes(spectrum, self.scale, threads);
        }
        // The operand is not ours to write.
        with_room::<Complex<T>>(self.rows * self.bins, |spectrum| {
            spectrum.copy_from_slice(bytemuck::cast_slice(input));
            self.axes(spectrum, one, threads);
            self.rows(bytemuck::cast_slice(spectrum), out, self.scale, threads);
        });
    }

    /// The last axis of rows one behind the other.
    fn rows(&self, input: &[T], out: &mut [T], scale: T, threads: u32) {
        let group = (TAKEN / self.made.max(1)).max(1);
        let line = self.plans.lines[self.sizes.len() - 1].as_deref();
        let room = match (&self.plans.real, line) {
            (Some(real), _) => real.room(),
            (None, Some(line)) => line.room(),
            (None, None) => 0,
        };
        self.pool.for_chunks(threads, out, group * self.made, |first, out| {
            let first = first / self.made * self.given;
            with_room::<Complex<T>>(room, |room| {
                let rows = input[first..].chunks(self.given).zip(out.chunks_mut(self.made));
                for (from, to) in rows {
                    match (&self.plans.real, self.op, line) {
                        (Some(real), FftOp::Real, _) => {
                            real.forward(from, bytemuck::cast_slice_mut(to), room)
                        }
                        (Some(real), ..) => real.inverse(bytemuck::cast_slice(from), to, room, scale),
                        (None, _, Some(line)) => {
                            line.row(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), room, scale);
                        }
                        (None, _, None) => (),
                    }
                }
            });
        });
    }

    /// The axes before the last of a spectrum, scaled with the first.
    fn axes(&self, spectrum: &mut [Complex<T>], scale: T, threads: u32) {
        for axis in (0..self.sizes.len() - 1).rev() {
            let Some(line) = self.plans.lines[axis].as_deref() else { continue };
            let between: u64 = self.sizes[axis + 1..self.sizes.len() - 1].iter().product();
            let (len, inner) = (line.len(), between as usize * self.bins);
            let (outer, groups) = (spectrum.len() / (len * inner), inner.div_ceil(self.columns));
            let scale = if axis == 0 { scale } else { T::of(1.0) };
            let all = Disjoint::new(spectrum);
            self.pool.run(threads, outer * groups, &|task| {
                let (nth, first) = (task / groups, task % groups * self.columns);
                let count = self.columns.min(inner - first);
                with_room::<Complex<T>>(line.columns_room(count), |room| {
                    // SAFETY: `len` rows of `inner` numbers lie there, and every task has columns of its own.
                    unsafe {
                        let data = all.as_mut_ptr().add(nth * len * inner + first);
                        line.columns((data, inner), (data, inner), count, room, scale);
                    }
                });
            });
        }
    }
}
