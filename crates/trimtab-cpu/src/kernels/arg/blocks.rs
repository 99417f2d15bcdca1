//! The smallest or largest of contiguous rows in two looks: blocks give their best without an index, and only the best block is searched
//! for it. A long row is shared by several threads.

use super::extreme::rank;
use super::given;
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::sort::Sortable;
use crate::kernels::{not_of_type, shared_work};
use crate::simd::{Level, Simd, Task};
use trimtab_core::{Arg, ArgOp, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of a block.
    pub struct ExtremeBlocksConfig { threads, block }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 32 << 10;
/// Elements of a block: fewer are searched for the index, more rarely hold a new best.
const BLOCKS: [u32; 2] = [512, 4096];
/// Keys that are compared side by side.
const LANES: usize = 32;
/// Parts that rows are cut into where there are fewer rows than threads.
const MOST_PARTS: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct ExtremeBlocksKernel {
    pub(super) level: Level,
}

impl Variant<Cpu> for ExtremeBlocksKernel {
    type Problem = Arg;
    type Config = ExtremeBlocksConfig;

    identity!("cpu.arg.blocks", Vectorized);

    fn declines(&self, problem: &Arg, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::because("finds the smallest or largest, and no order");
        let sorts = !matches!(problem.op, ArgOp::Min | ArgOp::Max);
        let inner = problem.inner;
        let apart = || Decline::from(format!("elements of a line lie {inner} apart; needs contiguous rows"));
        not_of_type(problem.dtype).or_else(|| sorts.then(other)).or_else(|| (inner != 1).then(apart))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<ExtremeBlocksConfig> {
        let threads = thread_counts(device, problem.input_len() >= SHAREABLE, 3).into_iter();
        threads.flat_map(|threads| BLOCKS.map(|block| ExtremeBlocksConfig { threads, block })).collect()
    }

    fn work(&self, problem: &Arg, config: ExtremeBlocksConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Arg, config: ExtremeBlocksConfig, args: Args<'_>) -> Launched {
        let is_ours = matches!(problem.op, ArgOp::Min | ArgOp::Max) && problem.inner == 1;
        if !is_ours || config.threads == 0 || !BLOCKS.contains(&config.block) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => run::<T>(problem, self.level, config, args))
    }
}

fn run<T: Sortable>(problem: &Arg, level: Level, config: ExtremeBlocksConfig, args: Args<'_>) -> Launched {
    let (input, out, pool) = given::<T>(problem, args)?;
    let (rows, len, block) = (problem.outer as usize, problem.len as usize, config.block as usize);
    let largest = problem.op == ArgOp::Max;
    if rows == 0 {
        return Ok(());
    }
    let best = |part: &[T]| level.vectorize(BestOf { part, block, largest });
    let wanted = (config.threads as usize).div_ceil(rows).min(MOST_PARTS / rows.min(MOST_PARTS)).max(1);
    // Parts are whole blocks.
    let each = len.div_ceil(wanted).next_multiple_of(block);
    if len <= each {
        let all = Disjoint::new(out);
        pool.run(config.threads, rows, &|row| {
            let found = best(&input[row * len..(row + 1) * len]).map_or(0, |(_, at)| at);
            // SAFETY: every task has its own result.
            unsafe { all.part(row..row + 1) }.fill(found as i64);
        });
        return Ok(());
    }
    let parts = len.div_ceil(each);
    let mut found = [None; MOST_PARTS];
    let all = Disjoint::new(&mut found[..rows * parts]);
    pool.run(config.threads, rows * parts, &|task| {
        let (row, first) = (task / parts, task % parts * each);
        let part = &input[row * len..(row + 1) * len][first..(first + each).min(len)];
        let best = best(part).map(|(rank, at)| (rank, first + at));
        // SAFETY: every task has its own place.
        unsafe { all.part(task..task + 1) }.fill(best);
    });
    for (out, found) in out.iter_mut().zip(found.chunks(parts)) {
        *out = found.iter().flatten().min().map_or(0, |(_, at)| *at as i64);
    }
    Ok(())
}

/// The best rank of a part and the first place it is at.
struct BestOf<'a, T> {
    part: &'a [T],
    block: usize,
    largest: bool,
}

impl<T: Sortable> Task for BestOf<'_, T> {
    type Out = Option<(T::Key, usize)>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Self::Out {
        let BestOf { part, block, largest } = self;
        let mut best = (rank(*part.first()?, largest), 0);
        for (nth, block) in part.chunks(block).enumerate() {
            let least = least(block, best.0, largest);
            if least < best.0 {
                best = (least, nth);
            }
        }
        let first = best.1 * block;
        let within = part[first..].iter().position(|&value| rank(value, largest) == best.0);
        Some((best.0, first + within.unwrap_or(0)))
    }
}

/// The best rank of a block, or what was known where that is better.
#[inline(always)]
fn least<T: Sortable>(block: &[T], known: T::Key, largest: bool) -> T::Key {
    let mut lanes = [known; LANES];
    let (whole, rest) = block.as_chunks::<LANES>();
    for part in whole {
        for lane in 0..LANES {
            let rank = rank(part[lane], largest);
            lanes[lane] = if rank < lanes[lane] { rank } else { lanes[lane] };
        }
    }
    let rest = rest.iter().map(|&value| rank(value, largest));
    lanes.into_iter().chain(rest).fold(known, |least, rank| if rank < least { rank } else { least })
}
