//! Contiguous rows with vectors, in blocks that stay in the nearest cache: what is needed of all elements is known after reading
//! them once (an online softmax, a merged variance). Softmax computes each function twice and writes each result once.

use super::row::OfRow;
use super::twopass::{OneRow, declines, each_row, threads};
use super::{Float, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::{lanes_of, shared_work};
use crate::simd::{Level, Simd, Task};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Rows, RowsOp, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// Elements of a block, and threads, each with rows of its own.
    pub struct OnlineConfig { block, threads }
}

/// Elements of a block: 4 and 16 KiB of `f32`.
const BLOCKS: [u32; 2] = [1 << 10, 4 << 10];

/// See the module.
#[derive(Debug)]
pub struct OnlineKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for OnlineKernel {
    type Problem = Rows;
    type Config = OnlineConfig;

    identity!("cpu.rows.online", Tiled);

    fn declines(&self, problem: &Rows, _: &DeviceFacts) -> Option<Decline> {
        let (len, block) = (problem.len, BLOCKS[0]);
        let short = || Decline::from(format!("a row of {len} is one block; needs more than {block}"));
        declines(problem).or_else(|| (len <= u64::from(block)).then(short))
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<OnlineConfig> {
        let blocks = BLOCKS.into_iter().filter(|block| u64::from(*block) < problem.len);
        blocks
            .flat_map(|block| {
                threads(problem, device).into_iter().map(move |threads| OnlineConfig { block, threads })
            })
            .collect()
    }

    fn work(&self, problem: &Rows, config: OnlineConfig, _: &DeviceFacts) -> Work {
        let (mut flops, bytes) = counted(problem, if problem.op.reduces() { 1 } else { 2 }, 1);
        if problem.op == RowsOp::Softmax {
            flops.0 = flops.0.saturating_mul(2);
        }
        shared_work(flops, bytes, config.threads, lanes_of(problem.dtype, self.lanes))
    }

    fn launch(&self, problem: &Rows, config: OnlineConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 || config.block == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let block = config.block as usize;
        by_float!(problem, T => {
            let given = given::<T>(problem, args)?;
            each_row(problem, config.threads, given, |row| self.level.vectorize(Blocks { row, block }));
            Ok(())
        })
    }
}

struct Blocks<'a, T> {
    row: OneRow<'a, T>,
    block: usize,
}

impl<T: Float> Task for Blocks<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let OneRow { op, row: elements, scale, shift, epsilon, out } = self.row;
        let row = OfRow { simd, elements };
        let blocks = || elements.chunks(self.block).map(|elements| OfRow { simd, elements });
        let (count, of) = (elements.len() as f64, <T as Element>::from_f64);
        match op {
            RowsOp::Softmax | RowsOp::LogSoftmax | RowsOp::LogSumExp => {
                let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
                for block in blocks() {
                    let largest = block.largest();
                    // Nothing but minus infinity so far: there is nothing to add up.
                    if largest == f64::NEG_INFINITY {
                        continue;
                    }
                    let new = if largest.is_nan() || most.is_nan() { f64::NAN } else { largest.max(most) };
                    let before = if most == f64::NEG_INFINITY { 0.0 } else { sum * (most - new).exp() };
                    sum = before + block.exps(new);
                    most = new;
                }
                match op {
                    RowsOp::LogSumExp => {
                        out[0] = of(if most.is_infinite() { most } else { most + sum.ln() });
                    }
                    RowsOp::LogSoftmax => row.finish(op, [most, sum.ln()], None, None, out),
                    _ => row.finish(op, [most, 1.0 / sum], None, None, out),
                }
            }
            RowsOp::RmsNorm => {
                let squares = blocks().map(|block| block.squares(0.0)).sum::<f64>() / count;
                row.finish(op, [0.0, 1.0 / (squares + epsilon).sqrt()], scale, shift, out);
            }
            RowsOp::Variance | RowsOp::LayerNorm => {
                // Blocks have means of their own; two parts merge by the distance of theirs.
                let (mut seen, mut mean, mut squares) = (0.0, 0.0, 0.0);
                for block in blocks() {
                    let new = block.elements.len() as f64;
                    let near = of(block.total() / new).to_f64();
                    let own = block.total() / new;
                    let off = block.squares(near) - new * (own - near) * (own - near);
                    let apart = own - mean;
                    squares += off + apart * apart * seen * new / (seen + new);
                    mean += apart * new / (seen + new);
                    seen += new;
                }
                match op {
                    RowsOp::Variance => out[0] = of(squares / count),
                    _ => row.finish(op, [mean, 1.0 / (squares / count + epsilon).sqrt()], scale, shift, out),
                }
            }
        }
    }
}
