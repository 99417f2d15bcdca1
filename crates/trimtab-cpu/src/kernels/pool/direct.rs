//! Windows over whole rows of the result at once, an element of the window after the other; threads have rows of their own.

use super::{Pooled, at, counted, lens, share, taps, threads, wrong_point};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::shared_work;
use trimtab_core::{Channels, Decline, DeviceFacts, Pool, PoolOp, Variant, Work};

trimtab_core::config! {
    /// Threads, and rows of the result that one takes at once.
    pub struct DirectConfig { threads, rows }
}

/// Rows of the result that a thread takes at once.
const ROWS: [u32; 2] = [8, 64];

/// See the module.
#[derive(Debug)]
pub struct DirectKernel;

impl Variant<Cpu> for DirectKernel {
    type Problem = Pool;
    type Config = DirectConfig;

    identity!("cpu.pool.direct", Parallel);

    fn declines(&self, problem: &Pool, _: &DeviceFacts) -> Option<Decline> {
        crate::kernels::not_of_type(problem.dtype)
    }

    fn configs(&self, problem: &Pool, device: &DeviceFacts) -> Vec<DirectConfig> {
        let with = |threads: u32| {
            let rows = &ROWS[..if threads > 1 { 2 } else { 1 }];
            rows.iter().map(move |&rows| DirectConfig { threads, rows })
        };
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Pool, config: DirectConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Pool, config: DirectConfig, args: Args<'_>) -> Launched {
        if config.rows == 0 {
            return Err(wrong_point(config));
        }
        by_float!(problem, T => {
            let typed = args.typed::<T>(lens(problem))?;
            let out = problem.window.out();
            // A row of places, with all of its channels where they lie behind it.
            let row = out[2] * if problem.channels == Channels::Last { problem.count() } else { 1 };
            typed.pool.for_chunks(config.threads, typed.out, (config.rows as usize * row).max(1), |first, part| {
                for (nth, to) in part.chunks_mut(row.max(1)).enumerate() {
                    match problem.op {
                        PoolOp::Max => one_row::<T, true>(problem, first / row + nth, typed.lhs, to),
                        PoolOp::Mean => one_row::<T, false>(problem, first / row + nth, typed.lhs, to),
                    }
                }
            });
            Ok(())
        })
    }
}

/// The row of that number of the result.
fn one_row<T: Pooled, const MAX: bool>(p: &Pool, row: usize, input: &[T], to: &mut [T]) {
    let op = if MAX { PoolOp::Max } else { PoolOp::Mean };
    let (out, size) = (p.window.out(), p.window.size());
    let (plane, y, z) = (row / (out[0] * out[1]), row % out[1], row / out[1] % out[0]);
    let channels = if p.channels == Channels::Last { p.count() } else { 1 };
    let (step, dilation, pad) = (p.window.stride()[2], p.window.dilation()[2], p.window.pad()[2]);
    to.fill(T::start(op));
    for a in taps(p, 0, z) {
        for b in taps(p, 1, y) {
            let line = ((plane * size[0] + at(p, 0, z, a)) * size[1] + at(p, 1, y, b)) * size[2] * channels;
            let line = &input[line..line + size[2] * channels];
            for c in 0..p.window.kernel()[2] {
                // The places whose element here is no padding.
                let off = c * dilation;
                let first = pad.saturating_sub(off).div_ceil(step).min(out[2]);
                let last = (size[2] + pad).saturating_sub(off).div_ceil(step).clamp(first, out[2]);
                if first == last {
                    continue;
                }
                let from = &line[(first * step + off - pad) * channels..];
                let to = &mut to[first * channels..last * channels];
                if step == 1 {
                    to.iter_mut().zip(from).for_each(|(to, &x)| *to = T::step(op, *to, x));
                } else if channels == 1 {
                    to.iter_mut()
                        .zip(from.iter().step_by(step))
                        .for_each(|(to, &x)| *to = T::step(op, *to, x));
                } else {
                    for (to, from) in to.chunks_mut(channels).zip(from.chunks(channels).step_by(step)) {
                        to.iter_mut().zip(from).for_each(|(to, &x)| *to = T::step(op, *to, x));
                    }
                }
            }
        }
    }
    if !MAX {
        for (x, to) in to.chunks_mut(channels).enumerate() {
            let by = T::from_f64(share(p, [z, y, x]));
            to.iter_mut().for_each(|to| *to = *to * by);
        }
    }
}
