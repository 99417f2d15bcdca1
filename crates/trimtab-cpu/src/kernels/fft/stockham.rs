//! Powers of two by Stockham's passes over vectors. A long transform may be split in two of about the root of its length (four-step),
//! which several threads can share and caches hold.

use super::lines::{Lines, Plans, RealLines, Sharing, run};
use super::passes::{Ends, Pairs, Pass, Transform, radices, room};
use super::split::Split;
use super::turns::turn_of;
use super::{Real, by_part, counted, plans, too_large};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::shared_work;
use crate::simd::{Level, Levels};
use std::sync::Arc;
use trimtab_core::{DType, Decline, DeviceFacts, Fft, FftOp, LaunchError, Variant, Work};
use trimtab_operands::Complex;

trimtab_core::config! {
    /// `lanes` of `f32` in a vector, the largest radix of a pass, threads, columns side by side of other axes than the last, and
    /// whether a single line is split in two.
    pub struct StockhamConfig { lanes, radix, threads, columns, split }
}

/// The shortest row: a vector of butterflies of eight.
const SHORTEST_ROW: u64 = 64;
/// The shortest line of another axis: two passes.
const SHORTEST_COLUMN: u64 = 4;
/// Largest radices of passes.
const RADICES: [u32; 2] = [8, 4];

/// See the module.
#[derive(Debug)]
pub struct StockhamKernel {
    /// The instruction sets of this processor.
    pub(super) levels: Levels,
}

/// Numbers that lie in a row: pairs of real ones count as one.
fn row(problem: &Fft) -> u64 {
    match problem.op {
        FftOp::Forward | FftOp::Inverse => problem.last(),
        FftOp::Real | FftOp::InverseReal => problem.last() / 2,
    }
}

/// A line in two, if both are long enough.
fn split(problem: &Fft) -> Option<Split> {
    Split::of(problem)
        .filter(|split| split.tall as u64 >= SHORTEST_COLUMN && split.wide as u64 >= SHORTEST_ROW)
}

/// Whether a vector of that many `f32` holds few enough parts that a pass of eight leaves whole vectors.
fn fits_rows(problem: &Fft, lanes: u32) -> bool {
    let wide = matches!(problem.dtype, DType::F64 | DType::Complex128);
    lanes <= if wide { 16 } else { 8 }
}

impl Variant<Cpu> for StockhamKernel {
    type Problem = Fft;
    type Config = StockhamConfig;

    identity!("cpu.fft.stockham", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64) || dtype.is_complex()
    }

    fn declines(&self, problem: &Fft, _: &DeviceFacts) -> Option<Decline> {
        if let Some(size) = problem.sizes().iter().find(|size| !size.is_power_of_two()) {
            return Some(Decline::from(format!("takes powers of two, this is {size}")));
        }
        let (row, others) = (row(problem), &problem.sizes()[..problem.sizes().len() - 1]);
        if row < SHORTEST_ROW {
            return Some(Decline::from(format!(
                "takes rows of {SHORTEST_ROW} complex numbers or more, these have {row}"
            )));
        }
        if let Some(size) = others.iter().find(|size| **size < SHORTEST_COLUMN) {
            return Some(Decline::from(format!("takes axes of {SHORTEST_COLUMN} or more, one is {size}")));
        }
        too_large(problem)
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<StockhamConfig> {
        let mut configs = Vec::new();
        let fitting = self.levels.lanes(device.vector_bytes).filter(|&lanes| fits_rows(problem, lanes));
        for (rank, lanes) in fitting.take(2).enumerate() {
            for Sharing { threads, columns } in Sharing::all(problem, device) {
                // The narrower vectors with one of each: they win by clock frequency or not at all.
                let radices = if rank == 0 { &RADICES[..] } else { &RADICES[..1] };
                configs.extend(radices.iter().map(|&radix| StockhamConfig {
                    lanes,
                    radix,
                    threads,
                    columns,
                    split: 0,
                }));
            }
            if let (0, Some(split)) = (rank, split(problem)) {
                let radix = RADICES[0];
                let with = |threads: u32| StockhamConfig { lanes, radix, threads, columns: lanes, split: 1 };
                configs.extend(split.threads(device).into_iter().map(with));
            }
        }
        configs
    }

    fn work(&self, problem: &Fft, config: StockhamConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        let bytes = if config.split == 1 { trimtab_core::Bytes(bytes.0.saturating_mul(3)) } else { bytes };
        // Two copies of a line, or of as many as a vector holds.
        let lanes = super::super::lanes_of(problem.out_dtype(), config.lanes);
        let scratch = super::scratch(
            problem,
            if problem.sizes().len() > 1 { 3 * u64::from(lanes) } else { 3 },
            config.threads,
        );
        Work { scratch, ..shared_work(flops, bytes, config.threads, lanes) }
    }

    fn launch(&self, problem: &Fft, config: StockhamConfig, args: Args<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        let legal = RADICES.contains(&config.radix) && fits_rows(problem, config.lanes);
        let level = self.levels.get(config.lanes).filter(|_| legal).ok_or_else(illegal)?;
        let taken = problem.sizes().iter().all(|size| size.is_power_of_two()) && row(problem) >= SHORTEST_ROW;
        let others = &problem.sizes()[..problem.sizes().len() - 1];
        if !taken
            || others.iter().any(|&size| size < SHORTEST_COLUMN)
            || (config.split == 1 && split(problem).is_none())
        {
            return Err(illegal());
        }
        let how = How { level, lanes: config.lanes, radix: config.radix, inverse: problem.op.is_inverse() };
        by_part!(problem, T => {
            let (input, out, pool) = T::sides(problem, args)?;
            if let (1, Some(split)) = (config.split, split(problem)) {
                let (columns, rows) = (how.line::<T>(split.tall), how.line::<T>(split.wide));
                let parts = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(out));
                split.run(problem, (&*columns, columns.lanes), &*rows, config.threads, parts, pool);
                return Ok(());
            }
            let shared = Sharing { threads: config.threads, columns: config.columns };
            let plans = Plans::<T>::new(problem, |len| how.lines(len), |len| how.reals(len));
            run(problem, &plans, shared, input, out, pool);
            Ok(())
        })
    }
}

/// What plans depend on beside the length.
#[derive(Clone, Copy)]
struct How {
    level: Level,
    lanes: u32,
    radix: u32,
    inverse: bool,
}

impl How {
    fn key(self, len: usize) -> plans::PlanKey {
        [len as u64, self.lanes.into(), self.radix.into(), self.inverse.into()]
    }

    fn line<T: Real>(self, len: usize) -> Arc<Planned<T>> {
        plans::plan(self.key(len), 4 * len * size_of::<Complex<T>>(), || {
            let radix = self.radix as usize;
            let single = len as u64 >= SHORTEST_ROW;
            let row = if single { Pass::all(len, &radices(len, radix, Some(8)), true) } else { Vec::new() };
            let column = Pass::all(len, &radices(len, radix, None), false);
            let lanes = super::super::lanes_of(T::DTYPE, self.lanes) as usize;
            Planned { len, row, column, lanes, how: self }
        })
    }

    fn lines<T: Real>(self, len: usize) -> Arc<dyn Lines<T>> {
        self.line::<T>(len)
    }

    fn reals<T: Real>(self, len: usize) -> Arc<dyn RealLines<T>> {
        plans::plan(self.key(len), len * size_of::<Complex<T>>(), || {
            let turns = (0..=len as u64 / 4).map(|at| turn_of(at, len as u64)).collect();
            Halves { line: self.line(len / 2), turns }
        })
    }
}

/// Lines of one length.
struct Planned<T> {
    len: usize,
    row: Vec<Pass<T>>,
    column: Vec<Pass<T>>,
    /// Columns that are transformed side by side.
    lanes: usize,
    how: How,
}

impl<T: Real> Planned<T> {
    /// As many columns as there are lanes.
    ///
    /// # Safety
    /// Both must be there, the second nobody else's, and room for so many columns.
    unsafe fn abreast(&self, from: Pairs<T>, to: Pairs<T>, room: &mut [Complex<T>], scale: T) {
        let ends = Ends { from, to, inverse: self.how.inverse, scale };
        let room = room.as_mut_ptr().cast();
        let task = Transform { passes: &self.column, len: self.len, woven: false, ends, room };
        self.how.level.vectorize(task);
    }
}

impl<T: Real> Lines<T> for Planned<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn room(&self) -> usize {
        room(self.len, 1).div_ceil(2)
    }

    fn row(&self, from: &[Complex<T>], to: &mut [Complex<T>], room: &mut [Complex<T>], scale: T) {
        // Vectors read and write what lies there, and nothing else.
        if from.len() != self.len || to.len() != self.len || room.len() < self.room() || self.row.is_empty() {
            return;
        }
        let from = Pairs { at: from.as_ptr().cast_mut().cast(), stride: 1 };
        let ends = Ends {
            from,
            to: Pairs { at: to.as_mut_ptr().cast(), stride: 1 },
            inverse: self.how.inverse,
            scale,
        };
        let room = room.as_mut_ptr().cast();
        self.how.level.vectorize(Transform { passes: &self.row, len: self.len, woven: true, ends, room });
    }

    fn columns_room(&self, _: usize) -> usize {
        self.len * self.lanes + room(self.len, self.lanes).div_ceil(2)
    }

    unsafe fn columns(
        &self,
        (from, from_stride): (*const Complex<T>, usize),
        (to, to_stride): (*mut Complex<T>, usize),
        count: usize,
        room: &mut [Complex<T>],
        scale: T,
    ) {
        let (lanes, len) = (self.lanes, self.len);
        let (few, room) = room.split_at_mut(len * lanes);
        for first in (0..count).step_by(lanes) {
            // SAFETY: within what the caller promises, and all is read before anything is written; of fewer columns than lanes a copy
            // has as many.
            unsafe {
                let (from, to) = (from.add(first), to.add(first));
                if first + lanes <= count {
                    let from = Pairs { at: from.cast_mut().cast(), stride: from_stride };
                    self.abreast(from, Pairs { at: to.cast(), stride: to_stride }, room, scale);
                    continue;
                }
                let left = count - first;
                few.fill(Complex::default());
                for at in 0..len {
                    from.add(at * from_stride).copy_to_nonoverlapping(few.as_mut_ptr().add(at * lanes), left);
                }
                let copy = Pairs { at: few.as_mut_ptr().cast(), stride: lanes };
                self.abreast(copy, copy, room, scale);
                for at in 0..len {
                    few.as_ptr().add(at * lanes).copy_to_nonoverlapping(to.add(at * to_stride), left);
                }
            }
        }
    }
}

/// Real numbers as half as many complex ones, whose spectrum is that of the evens and of the odds at once.
struct Halves<T> {
    line: Arc<Planned<T>>,
    /// `e^(-2πi·k/n)` up to a quarter.
    turns: Vec<Complex<T>>,
}

impl<T: Real> RealLines<T> for Halves<T> {
    fn room(&self) -> usize {
        self.line.len + self.line.room()
    }

    fn forward(&self, from: &[T], to: &mut [Complex<T>], room: &mut [Complex<T>]) {
        let half = self.line.len;
        self.line.row(bytemuck::cast_slice(from), &mut to[..half], room, T::of(1.0));
        let (first, two) = (to[0], T::of(0.5));
        to[0] = Complex::new(first.re + first.im, T::of(0.0));
        to[half] = Complex::new(first.re - first.im, T::of(0.0));
        for at in 1..=half / 2 {
            let (here, there) = (to[at], to[half - at].conj());
            let (evens, odds) = ((here + there) * two, (here - there) * two);
            // Times -i.
            let odds = Complex::new(odds.im, -odds.re) * self.turns[at];
            to[at] = evens + odds;
            to[half - at] = (evens - odds).conj();
        }
    }

    fn inverse(&self, from: &[Complex<T>], to: &mut [T], room: &mut [Complex<T>], scale: T) {
        let half = self.line.len;
        let (copy, room) = room.split_at_mut(half);
        let (first, last) = (from[0].re, from[half].re);
        copy[0] = Complex::new(first + last, first - last);
        for at in 1..=half / 2 {
            let (here, there) = (from[at], from[half - at].conj());
            let (evens, odds) = (here + there, (here - there) * self.turns[at].conj());
            // Times i.
            let odds = Complex::new(-odds.im, odds.re);
            copy[at] = evens + odds;
            copy[half - at] = (evens - odds).conj();
        }
        self.line.row(copy, bytemuck::cast_slice_mut(to), room, scale);
    }
}
