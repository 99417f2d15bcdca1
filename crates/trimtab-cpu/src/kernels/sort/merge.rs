//! Long contiguous rows in parts on several threads: each sorts a part, then neighbours are merged, every merge divided among all.

use super::rows::declines;
use super::{in_place, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::with_room;
use crate::kernels::shared_work;
use crate::pool::Pool;
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Sort, Variant, Work};

trimtab_core::config! {
    /// Threads, and parts that are sorted apart: a power of two.
    pub struct MergeConfig { threads, parts }
}

/// Elements from which sharing a row can pay.
const LEAST: u64 = 16 << 10;

/// See the module.
#[derive(Debug)]
pub struct MergeKernel;

impl Variant<Cpu> for MergeKernel {
    type Problem = Sort;
    type Config = MergeConfig;

    identity!("cpu.sort.merge", Parallel);

    fn declines(&self, problem: &Sort, device: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let short = || Decline::from(format!("rows of {len} are not divided; needs {LEAST}"));
        let alone = || Decline::because("parts are for several threads, the device has 1");
        declines(problem).or_else(|| (device.threads < 2).then(alone)).or_else(|| (len < LEAST).then(short))
    }

    fn configs(&self, _: &Sort, device: &DeviceFacts) -> Vec<MergeConfig> {
        let with = |threads: u32| {
            let parts = threads.next_power_of_two();
            [parts, 2 * parts].map(|parts| MergeConfig { threads, parts })
        };
        thread_counts(device, true, 4).into_iter().filter(|&threads| threads > 1).flat_map(with).collect()
    }

    fn work(&self, problem: &Sort, config: MergeConfig, _: &DeviceFacts) -> Work {
        let (flops, mut bytes) = super::counted(problem);
        let rounds = u64::from(config.parts.max(2).ilog2());
        let len = problem.len().saturating_mul(problem.dtype.size());
        bytes.0 = bytes.0.saturating_add(len.saturating_mul(2 * rounds));
        let scratch = Bytes(problem.len.saturating_mul(problem.dtype.size()));
        Work { scratch, ..shared_work(flops, bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Sort, config: MergeConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 || !config.parts.is_power_of_two() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            typed.out.copy_from_slice(typed.lhs);
            for row in typed.out.chunks_mut((problem.len as usize).max(1)) {
                in_place(row, problem.descending, |keys| {
                    with_room(keys.len(), |room| sort(keys, room, config, typed.pool));
                });
            }
            Ok(())
        })
    }
}

fn sort<K: Copy + Ord + Send + Sync>(keys: &mut [K], room: &mut [K], config: MergeConfig, pool: &Pool) {
    let len = keys.len();
    let mut part = len.div_ceil(config.parts as usize).max(1);
    pool.for_chunks(config.threads, keys, part, |_, part| part.sort_unstable());
    let (mut from, mut to, mut turns) = (keys, room, 0);
    while part < len {
        merge_all(from, to, part, config.threads, pool);
        std::mem::swap(&mut from, &mut to);
        part *= 2;
        turns += 1;
    }
    if turns % 2 == 1 {
        to.copy_from_slice(from);
    }
}

/// Merges neighbours of that length. Every merge is divided so that all threads have the same to do.
pub(in crate::kernels) fn merge_all<K: Copy + Ord + Send + Sync>(
    from: &[K],
    to: &mut [K],
    part: usize,
    threads: u32,
    pool: &Pool,
) {
    let pairs = from.len().div_ceil(2 * part);
    let pieces = (threads.min(crate::pool::MAX_THREADS) as usize).div_ceil(pairs).max(1);
    let all = Disjoint::new(to);
    pool.run(threads, pairs * pieces, &|task| {
        let (pair, piece) = (task / pieces, task % pieces);
        let start = pair * 2 * part;
        let middle = (start + part).min(from.len());
        let end = (start + 2 * part).min(from.len());
        let (left, right) = (&from[start..middle], &from[middle..end]);
        let cut = |nth: usize| (end - start) * nth / pieces;
        let (first, last) = (cut(piece), cut(piece + 1));
        let (left_first, left_last) = (of_left(left, right, first), of_left(left, right, last));
        // SAFETY: every task has its own part of the result.
        let out = unsafe { all.part(start + first..start + last) };
        merge(&left[left_first..left_last], &right[first - left_first..last - left_last], out);
    });
}

/// How many of the first so many elements of a merge come from the left.
fn of_left<K: Ord>(left: &[K], right: &[K], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = low.midpoint(high);
        if left[middle] <= right[count - middle - 1] { low = middle + 1 } else { high = middle }
    }
    low
}

fn merge<'a, K: Copy + Ord>(mut left: &'a [K], mut right: &'a [K], out: &mut [K]) {
    for place in out {
        let from_left = match (left.first(), right.first()) {
            (Some(a), Some(b)) => a <= b,
            (first, _) => first.is_some(),
        };
        let side = if from_left { &mut left } else { &mut right };
        let Some((first, rest)) = side.split_first() else { return };
        (*place, *side) = (*first, rest);
    }
}
