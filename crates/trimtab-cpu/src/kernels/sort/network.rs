//! Short lines, many at once: each lane of a vector holds a line, and all are sorted by the same comparisons (Batcher's merge exchange).

use super::rows::{SHAREABLE_ELEMENTS, threads};
use super::{Sortable, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::room::with_room;
use crate::kernels::{lanes_of, not_of_type, shared_work};
use crate::pool::Pool;
use crate::simd::{Level, Simd, Task};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Sort, Variant, Work};

trimtab_core::config! {
    /// Threads, each with lines of its own.
    pub struct NetworkConfig { threads }
}

/// Most elements of a line. The network took 1.3 ns an element of f32 at 32, 2.7 at 256 and 4.9 at 1024, sorting row by row 5.6, 9.2 and
/// 10.6 (one thread, AVX2); beyond, the lines of a group leave the caches near the processor.
const MOST: u64 = 1024;
/// Lines that are sorted side by side.
const SIDE: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct NetworkKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for NetworkKernel {
    type Problem = Sort;
    type Config = NetworkConfig;

    identity!("cpu.sort.network", Vectorized);

    fn declines(&self, problem: &Sort, _: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let long = || Decline::from(format!("sorts lines of up to {MOST} elements, these have {len}"));
        not_of_type(problem.dtype).or_else(|| (len > MOST).then(long))
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<NetworkConfig> {
        threads(problem, device).into_iter().map(|threads| NetworkConfig { threads }).collect()
    }

    fn work(&self, problem: &Sort, config: NetworkConfig, _: &DeviceFacts) -> Work {
        let (len, log) = (problem.len(), u64::from(problem.len.max(2).next_power_of_two().ilog2()));
        // A comparison of two elements, half of them a step; keys to and fro.
        let flops = Flops(len.saturating_mul(log * (log + 1) / 2 + 8));
        let bytes = Bytes(len.saturating_mul(2 * problem.dtype.size()));
        let lines = problem.len.saturating_mul(SIDE as u64).saturating_mul(config.threads.into());
        let scratch = Bytes(lines.saturating_mul(problem.dtype.size()));
        let lanes = lanes_of(problem.dtype, self.lanes);
        Work { scratch, ..shared_work(flops, bytes, config.threads, lanes) }
    }

    fn launch(&self, problem: &Sort, config: NetworkConfig, args: Args<'_>) -> Launched {
        if problem.len > MOST {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            lines::<T>(problem, self.level, config.threads, typed.lhs, typed.out, typed.pool);
            Ok(())
        })
    }
}

fn lines<T: Sortable>(problem: &Sort, level: Level, threads: u32, input: &[T], out: &mut [T], pool: &Pool) {
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    if len == 0 || inner == 0 {
        return;
    }
    // Contiguous lines are grouped over all of them, others within their neighbours.
    let (blocks, neighbours) = match inner {
        1 => (1, problem.outer as usize),
        _ => (problem.outer as usize, inner),
    };
    let groups = neighbours.div_ceil(SIDE);
    let at_once = (SHAREABLE_ELEMENTS as usize / (len * SIDE)).max(1);
    let whole = Disjoint::new(out);
    pool.run(threads, (blocks * groups).div_ceil(at_once), &|task| {
        with_room(len * SIDE, |keys: &mut [T::Key]| {
            for group in task * at_once..((task + 1) * at_once).min(blocks * groups) {
                let (block, first) = (group / groups, group % groups * SIDE);
                let count = SIDE.min(neighbours - first);
                let group = Group { problem, block, first, count, input, keys, out: &whole };
                level.vectorize(group);
            }
        });
    });
}

/// Some lines side by side: the elements of all at a place, place after place.
struct Group<'a, T: Sortable> {
    problem: &'a Sort,
    block: usize,
    first: usize,
    count: usize,
    input: &'a [T],
    keys: &'a mut [T::Key],
    out: &'a Disjoint<'a, T>,
}

impl<T: Sortable> Task for Group<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Group { problem, block, first, count, input, keys, out } = self;
        let (len, inner, descending) = (problem.len as usize, problem.inner as usize, problem.descending);
        if inner == 1 {
            for (line, elements) in input[first * len..(first + count) * len].chunks_exact(len).enumerate() {
                for (places, &element) in keys.chunks_exact_mut(SIDE).zip(elements) {
                    places[line] = T::key(element, descending);
                }
            }
        } else {
            for (at, places) in keys.chunks_exact_mut(SIDE).enumerate() {
                let start = (block * len + at) * inner + first;
                for (place, &element) in places.iter_mut().zip(&input[start..start + count]) {
                    *place = T::key(element, descending);
                }
            }
        }
        sort(keys, len);
        if inner == 1 {
            // SAFETY: every group has its own lines.
            let out = unsafe { out.part(first * len..(first + count) * len) };
            for (line, elements) in out.chunks_exact_mut(len).enumerate() {
                for (places, element) in keys.chunks_exact(SIDE).zip(elements) {
                    *element = T::element(places[line], descending);
                }
            }
        } else {
            for (at, places) in keys.chunks_exact(SIDE).enumerate() {
                let start = (block * len + at) * inner + first;
                // SAFETY: every group has its own lines.
                let out = unsafe { out.part(start..start + count) };
                for (element, &place) in out.iter_mut().zip(places) {
                    *element = T::element(place, descending);
                }
            }
        }
    }
}

/// Sorts the lines of a group: the same pairs for any elements, also where the length is no power of two.
#[inline(always)]
fn sort<K: Copy + Ord>(keys: &mut [K], len: usize) {
    let top = len.next_power_of_two() / 2;
    let mut step = top;
    while step > 0 {
        let (mut run, mut odd, mut apart) = (top, 0, step);
        loop {
            for low in 0..len - apart {
                if low & step == odd {
                    exchange(keys, low, low + apart);
                }
            }
            if run == step {
                break;
            }
            apart = run - step;
            run /= 2;
            odd = step;
        }
        step /= 2;
    }
}

/// The smaller of each line to the lower place, the larger to the higher.
#[inline(always)]
fn exchange<K: Copy + Ord>(keys: &mut [K], low: usize, high: usize) {
    let (before, behind) = keys.split_at_mut(high * SIDE);
    for (a, b) in before[low * SIDE..][..SIDE].iter_mut().zip(&mut behind[..SIDE]) {
        (*a, *b) = ((*a).min(*b), (*a).max(*b));
    }
}
