//! Rows whose elements lie apart: a vector holds as many rows as it has lanes, and walks along all of them at once.

use super::{Float, Given, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::math::{exp, log};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::{lanes_of, shared_work};
use crate::simd::{FloatVector, Level, Simd, Task, Vector};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Rows, RowsOp, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// Threads, each with columns of its own.
    pub struct ColumnsConfig { threads }
}

/// See the module.
#[derive(Debug)]
pub struct ColumnsKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for ColumnsKernel {
    type Problem = Rows;
    type Config = ColumnsConfig;

    identity!("cpu.rows.columns", Vectorized);

    fn declines(&self, problem: &Rows, _: &DeviceFacts) -> Option<Decline> {
        let (inner, lanes) = (problem.inner, lanes_of(problem.dtype, self.lanes));
        let narrow = || Decline::from(format!("{inner} rows lie side by side; a vector holds {lanes}"));
        crate::kernels::not_of_type(problem.dtype).or_else(|| (inner < u64::from(lanes)).then(narrow))
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<ColumnsConfig> {
        let shareable = problem.input_len() >= super::twopass::SHAREABLE_ELEMENTS;
        thread_counts(device, shareable, 4).into_iter().map(|threads| ColumnsConfig { threads }).collect()
    }

    fn work(&self, problem: &Rows, config: ColumnsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 3, 1);
        shared_work(flops, bytes, config.threads, lanes_of(problem.dtype, self.lanes))
    }

    fn launch(&self, problem: &Rows, config: ColumnsConfig, args: Args<'_>) -> Launched {
        if problem.inner < u64::from(lanes_of(problem.dtype, self.lanes)) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            let Given { input, scale, shift, epsilon, out, pool } = given::<T>(problem, args)?;
            if out.is_empty() {
                return Ok(());
            }
            let (lanes, inner) = (lanes_of(problem.dtype, self.lanes) as usize, problem.inner as usize);
            // The last vector of a row of columns overlaps the one before: the same results are written twice by one task.
            let groups = inner.div_ceil(lanes);
            let (tasks, whole) = (problem.outer as usize, Disjoint::new(out));
            pool.run(config.threads, tasks, &|outer| {
                for group in 0..groups {
                    let column = (group * lanes).min(inner - lanes);
                    let rows = Lanes { problem, outer, column, input, scale, shift, epsilon, out: &whole };
                    self.level.vectorize(rows);
                }
            });
            Ok(())
        })
    }
}

/// As many rows side by side as a vector has lanes.
struct Lanes<'a, T> {
    problem: &'a Rows,
    outer: usize,
    column: usize,
    input: &'a [T],
    scale: Option<&'a [T]>,
    shift: Option<&'a [T]>,
    epsilon: f64,
    out: &'a Disjoint<'a, T>,
}

/// Terms that are added up in the element type before they are merged: what keeps sums accurate.
const RUN: usize = 32;

impl<T: Float> Lanes<'_, T> {
    #[inline(always)]
    fn splat<S: Simd>(&self, simd: S, value: f64) -> T::V<S> {
        T::V::<S>::splat(simd, <T as Element>::from_f64(value))
    }

    /// The elements of all rows at a place.
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, at: usize) -> T::V<S> {
        let (len, inner) = (self.problem.len as usize, self.problem.inner as usize);
        let first = self.outer * len * inner + self.column;
        let elements = &self.input[first + at * inner..][..<T::V<S> as Vector<T>>::LANES];
        // SAFETY: that many elements are there.
        unsafe { T::V::<S>::load(simd, elements.as_ptr()) }
    }

    /// Writes the results of all rows at a place of a result with so many places a row.
    #[inline(always)]
    fn store<S: Simd>(&self, places: usize, at: usize, value: T::V<S>) {
        let (inner, lanes) = (self.problem.inner as usize, <T::V<S> as Vector<T>>::LANES);
        let first = (self.outer * places + at) * inner + self.column;
        // SAFETY: one task alone writes the results of an outer index.
        let places = unsafe { self.out.part(first..first + lanes) };
        if places.len() == lanes {
            // SAFETY: that many places are there.
            unsafe { value.store(places.as_mut_ptr()) };
        }
    }

    /// The sums of what a function makes of the elements at each place, compensated: what is lost when a run is added is kept.
    #[inline(always)]
    fn sum<S: Simd>(&self, simd: S, term: impl Fn(T::V<S>) -> T::V<S>) -> T::V<S> {
        let (mut total, mut lost, mut at) = (self.splat(simd, 0.0), self.splat(simd, 0.0), 0);
        let len = self.problem.len as usize;
        while at < len {
            let end = len.min(at + RUN);
            let mut run = self.splat(simd, 0.0);
            while at < end {
                run = run.add(term(self.load(simd, at)));
                at += 1;
            }
            let new = total.add(run);
            let part = new.sub(total);
            lost = lost.add(total.sub(new.sub(part)).add(run.sub(part)));
            total = new;
        }
        // What was lost is no number where the sum is none, or infinite.
        let whole = total.add(lost);
        whole.where_equal(whole, whole, total)
    }

    /// Writes what a function makes of the elements at each place.
    #[inline(always)]
    fn write<S: Simd>(&self, simd: S, value: impl Fn(usize, T::V<S>) -> T::V<S>) {
        let len = self.problem.len as usize;
        for at in 0..len {
            self.store::<S>(len, at, value(at, self.load(simd, at)));
        }
    }
}

impl<T: Float> Task for Lanes<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (op, len) = (self.problem.op, self.problem.len as usize);
        let one = self.splat(simd, 1.0);
        match op {
            RowsOp::Softmax | RowsOp::LogSoftmax | RowsOp::LogSumExp => {
                let mut most = self.splat(simd, f64::NEG_INFINITY);
                for at in 0..len {
                    most = most.max(self.load(simd, at));
                }
                let total = self.sum(
                    simd,
                    #[inline(always)]
                    |x| exp(x.sub(most)),
                );
                if op == RowsOp::Softmax {
                    let by = one.div(total);
                    return self.write(
                        simd,
                        #[inline(always)]
                        |_, x| exp(x.sub(most)).mul(by),
                    );
                }
                let log = log(total);
                if op == RowsOp::LogSoftmax {
                    return self.write(
                        simd,
                        #[inline(always)]
                        |_, x| x.sub(most).sub(log),
                    );
                }
                let infinity = self.splat(simd, f64::INFINITY);
                self.store::<S>(1, 0, most.abs().where_equal(infinity, most, most.add(log)));
            }
            RowsOp::Variance | RowsOp::LayerNorm | RowsOp::RmsNorm => {
                let part = self.splat(simd, 1.0 / len as f64);
                let mean = match op {
                    RowsOp::RmsNorm => self.splat(simd, 0.0),
                    _ => self
                        .sum(
                            simd,
                            #[inline(always)]
                            |x| x,
                        )
                        .mul(part),
                };
                let squares = self
                    .sum(
                        simd,
                        #[inline(always)]
                        |x| x.sub(mean).mul(x.sub(mean)),
                    )
                    .mul(part);
                if op == RowsOp::Variance {
                    return self.store::<S>(1, 0, squares);
                }
                let by = one.div(squares.add(self.splat(simd, self.epsilon)).sqrt());
                self.write(
                    simd,
                    #[inline(always)]
                    |at, x| {
                        let mut value = x.sub(mean).mul(by);
                        if let Some(scale) = self.scale {
                            value = value.mul(T::V::<S>::splat(simd, scale[at]));
                        }
                        if let Some(shift) = self.shift {
                            value = value.add(T::V::<S>::splat(simd, shift[at]));
                        }
                        value
                    },
                );
            }
        }
    }
}
