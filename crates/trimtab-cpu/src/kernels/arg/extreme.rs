//! The smallest or largest of lines: of contiguous rows parts side by side, of lines that lie apart neighbours side by side.

use super::{given, key};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::sort::Sortable;
use crate::kernels::{not_of_type, shared_work};
use trimtab_core::{Arg, ArgOp, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and parts of a row, or lines, that are walked side by side.
    pub struct ExtremeConfig { threads, side }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;
/// What is walked side by side.
const SIDES: [u32; 2] = [16, 64];

/// See the module.
#[derive(Debug)]
pub struct ExtremeKernel;

impl Variant<Cpu> for ExtremeKernel {
    type Problem = Arg;
    type Config = ExtremeConfig;

    identity!("cpu.arg.extreme", Vectorized);

    fn declines(&self, problem: &Arg, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::because("finds the smallest or largest, and no order");
        let sorts = !matches!(problem.op, ArgOp::Min | ArgOp::Max);
        not_of_type(problem.dtype).or_else(|| sorts.then(other))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<ExtremeConfig> {
        let threads = thread_counts(device, problem.input_len() >= SHAREABLE, 3).into_iter();
        threads.flat_map(|threads| SIDES.map(|side| ExtremeConfig { threads, side })).collect()
    }

    fn work(&self, problem: &Arg, config: ExtremeConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Arg, config: ExtremeConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => match (problem.op, config.side) {
            (ArgOp::Min | ArgOp::Max, 16) => run::<T, 16>(problem, config.threads, args),
            (ArgOp::Min | ArgOp::Max, 64) => run::<T, 64>(problem, config.threads, args),
            _ => Err(LaunchError::Point(format!("{config:?}"))),
        })
    }
}

/// The number that is smallest for the element that is asked for: what is not a number before all others.
#[inline(always)]
pub(super) fn rank<T: Sortable>(value: T, largest: bool) -> T::Key {
    #[expect(clippy::eq_op, reason = "true of what is not a number")]
    if value != value { T::Key::default() } else { key(value, largest) }
}

fn run<T: Sortable, const SIDE: usize>(problem: &Arg, threads: u32, args: Args<'_>) -> Launched {
    let (input, out, pool) = given::<T>(problem, args)?;
    let [outer, len, inner] = [problem.outer, problem.len, problem.inner].map(|size| size as usize);
    let largest = problem.op == ArgOp::Max;
    let all = Disjoint::new(out);
    if inner > 1 {
        let groups = inner.div_ceil(SIDE);
        pool.run(threads, outer * groups, &|task| {
            let (nth, first) = (task / groups, task % groups * SIDE);
            let count = SIDE.min(inner - first);
            let (mut best, mut at) = ([T::Key::default(); SIDE], [0i64; SIDE]);
            for step in 0..len {
                let from = (nth * len + step) * inner + first;
                for (lane, &value) in input[from..from + count].iter().enumerate() {
                    let rank = rank(value, largest);
                    if step == 0 || rank < best[lane] {
                        (best[lane], at[lane]) = (rank, step as i64);
                    }
                }
            }
            // SAFETY: every task has its own results.
            let out = unsafe { all.part(nth * inner + first..nth * inner + first + count) };
            out.copy_from_slice(&at[..count]);
        });
        return Ok(());
    }
    pool.run(threads, outer, &|nth| {
        let row = &input[nth * len..(nth + 1) * len];
        let (mut best, mut at) = ([T::Key::default(); SIDE], [usize::MAX; SIDE]);
        let (whole, rest) = row.as_chunks::<SIDE>();
        for (step, part) in whole.iter().enumerate() {
            for lane in 0..SIDE {
                let rank = rank(part[lane], largest);
                // Later ones only if they are better: the first of equal ones stays.
                let wins = step == 0 || rank < best[lane];
                best[lane] = if wins { rank } else { best[lane] };
                at[lane] = if wins { step } else { at[lane] };
            }
        }
        let lanes =
            (0..SIDE).filter(|&lane| at[lane] != usize::MAX).map(|lane| (best[lane], at[lane] * SIDE + lane));
        let start = whole.len() * SIDE;
        let rest = rest.iter().enumerate().map(|(lane, &value)| (rank(value, largest), start + lane));
        let found = lanes.chain(rest).min().map_or(0, |(_, index)| index);
        // SAFETY: every task has its own result.
        unsafe { all.part(nth..nth + 1) }.fill(found as i64);
    });
    Ok(())
}
