//! Contiguous rows with vectors, pass by pass: what is needed of all elements first, then the results. Each function is computed once.

use super::row::{OfRow, multiply};
use super::{Float, Given, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::{lanes_of, shared_work};
use crate::simd::{Levels, Simd, Task};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Rows, RowsOp, Variant, Work};

trimtab_core::config! {
    /// `lanes` of `f32` in a vector, and threads, each with rows of its own.
    pub struct TwoPassConfig { lanes, threads }
}

/// Elements from which a second thread can pay: waking one costs up to 20 µs.
pub(super) const SHAREABLE_ELEMENTS: u64 = 16 << 10;
/// Elements a thread takes at once, about.
pub(super) const CHUNK: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub struct TwoPassKernel {
    pub(super) levels: Levels,
}

/// Why a kernel of contiguous rows does not take a problem.
pub(super) fn declines(problem: &Rows) -> Option<Decline> {
    let apart = problem.inner;
    let far = || Decline::from(format!("elements of a row lie {apart} apart; needs contiguous rows"));
    crate::kernels::not_of_type(problem.dtype).or_else(|| (apart != 1).then(far))
}

/// Threads worth trying.
pub(super) fn threads(problem: &Rows, device: &DeviceFacts) -> Vec<u32> {
    thread_counts(device, problem.outer > 1 && problem.input_len() >= SHAREABLE_ELEMENTS, 4)
}

impl Variant<Cpu> for TwoPassKernel {
    type Problem = Rows;
    type Config = TwoPassConfig;

    identity!("cpu.rows.twopass", Vectorized);

    fn declines(&self, problem: &Rows, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<TwoPassConfig> {
        let lanes: Vec<u32> = self.levels.lanes(device.vector_bytes).take(2).collect();
        let threads = threads(problem, device).into_iter();
        threads.flat_map(|threads| lanes.iter().map(move |&lanes| TwoPassConfig { lanes, threads })).collect()
    }

    fn work(&self, problem: &Rows, config: TwoPassConfig, _: &DeviceFacts) -> Work {
        let softmax = problem.op == RowsOp::Softmax;
        let reads = if problem.op == RowsOp::RmsNorm { 2 } else { 3 };
        let (flops, bytes) = counted(problem, reads, if softmax { 2 } else { 1 });
        shared_work(flops, bytes, config.threads, lanes_of(problem.dtype, config.lanes))
    }

    fn launch(&self, problem: &Rows, config: TwoPassConfig, args: Args<'_>) -> Launched {
        let Some(level) = self.levels.get(config.lanes).filter(|_| problem.inner == 1) else {
            return Err(LaunchError::Point(format!("{config:?}")));
        };
        by_float!(problem, T => {
            let given = given::<T>(problem, args)?;
            each_row(problem, config.threads, given, |row| level.vectorize(row));
            Ok(())
        })
    }
}

/// One row and where its results go.
pub(super) struct OneRow<'a, T> {
    pub(super) op: RowsOp,
    pub(super) row: &'a [T],
    pub(super) scale: Option<&'a [T]>,
    pub(super) shift: Option<&'a [T]>,
    pub(super) epsilon: f64,
    pub(super) out: &'a mut [T],
}

/// Does every row, on so many threads.
pub(super) fn each_row<T: Float>(
    problem: &Rows,
    threads: u32,
    given: Given<'_, T>,
    body: impl Fn(OneRow<'_, T>) + Sync,
) {
    let Given { input, scale, shift, epsilon, out, pool } = given;
    let len = problem.len as usize;
    let each = if problem.op.reduces() { 1 } else { len };
    if len == 0 || each == 0 {
        return;
    }
    let rows = (CHUNK / len).clamp(1, out.len().div_ceil(each).max(1));
    pool.for_chunks(threads, out, rows * each, |first, out| {
        for (nth, out) in out.chunks_mut(each).enumerate() {
            let start = (first / each + nth) * len;
            let row = &input[start..start + len];
            body(OneRow { op: problem.op, row, scale, shift, epsilon, out });
        }
    });
}

impl<T: Float> Task for OneRow<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let OneRow { op, row, scale, shift, epsilon, out } = self;
        let (row, count) = (OfRow { simd, elements: row }, row.len() as f64);
        let mean = || row.total() / count;
        let of = <T as trimtab_operands::Element>::from_f64;
        match op {
            RowsOp::Softmax => {
                let sum = row.keep_exps(row.largest(), out);
                multiply(simd, out, 1.0 / sum);
            }
            RowsOp::LogSoftmax => {
                let most = row.largest();
                row.finish(op, [most, row.exps(most).ln()], None, None, out);
            }
            RowsOp::LogSumExp => {
                let most = row.largest();
                out[0] = of(if most.is_infinite() { most } else { most + row.exps(most).ln() });
            }
            RowsOp::Variance => out[0] = of(row.squares(mean()) / count),
            RowsOp::LayerNorm => {
                let mean = mean();
                // Distances are taken from the mean as the element type has it.
                let near = of(mean).to_f64();
                let variance = row.squares(near) / count - (mean - near) * (mean - near);
                row.finish(op, [mean, 1.0 / (variance + epsilon).sqrt()], scale, shift, out);
            }
            RowsOp::RmsNorm => {
                let squares = row.squares(0.0) / count;
                row.finish(op, [0.0, 1.0 / (squares + epsilon).sqrt()], scale, shift, out);
            }
        }
    }
}
