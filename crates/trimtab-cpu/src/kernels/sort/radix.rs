//! Contiguous rows by their bytes, the lowest first: passes instead of comparisons. Bytes that all elements share are passed over.

use super::rows::{declines, each_row, threads};
use super::{Sortable, in_place, lens};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::room::with_room;
use crate::kernels::shared_work;
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Sort, Variant, Work};

trimtab_core::config! {
    /// Threads, each with rows of its own.
    pub struct RadixConfig { threads }
}

/// Rows shorter than this are done before their bytes are counted.
const LEAST: u64 = 64;
/// Values of a byte.
const VALUES: usize = 256;
/// Most bytes of a number.
const MOST_BYTES: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct RadixKernel;

impl Variant<Cpu> for RadixKernel {
    type Problem = Sort;
    type Config = RadixConfig;

    identity!("cpu.sort.radix", Tiled);

    fn declines(&self, problem: &Sort, _: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let short = || Decline::from(format!("rows of {len} are compared sooner; needs {LEAST}"));
        let long = || Decline::from(format!("rows of {len} elements are more than are counted in 32 bits"));
        declines(problem)
            .or_else(|| (len < LEAST).then(short))
            .or_else(|| (len > u64::from(u32::MAX)).then(long))
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<RadixConfig> {
        threads(problem, device).into_iter().map(|threads| RadixConfig { threads }).collect()
    }

    fn work(&self, problem: &Sort, config: RadixConfig, _: &DeviceFacts) -> Work {
        let (passes, len) = (problem.dtype.size(), problem.len());
        let bytes = Bytes(len.saturating_mul(2 * passes + 2).saturating_mul(problem.dtype.size()));
        let scratch =
            Bytes(problem.len.saturating_mul(problem.dtype.size()).saturating_mul(config.threads.into()));
        Work { scratch, ..shared_work(Flops(len.saturating_mul(3 * passes)), bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Sort, config: RadixConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 || problem.len > u64::from(u32::MAX) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            each_row(problem, config.threads, typed.lhs, typed.out, typed.pool, |row| {
                in_place(row, problem.descending, |keys| with_room(keys.len(), |room| sort::<T>(keys, room)));
            });
            Ok(())
        })
    }
}

fn sort<T: Sortable>(keys: &mut [T::Key], room: &mut [T::Key]) {
    let mut counts = [[0u32; VALUES]; MOST_BYTES];
    for &key in keys.iter() {
        (0..T::BYTES).for_each(|byte| counts[byte as usize][T::digit(key, byte)] += 1);
    }
    let (mut from, mut to, mut turns) = (keys, room, 0);
    for byte in 0..T::BYTES {
        let counts = &mut counts[byte as usize];
        if counts.iter().any(|&count| count as usize == from.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            let here = *count;
            *count = next;
            next += here;
        }
        for &key in from.iter() {
            let place = &mut counts[T::digit(key, byte)];
            to[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
        turns += 1;
    }
    // After an odd number of passes the elements lie in the other place.
    if turns % 2 == 1 {
        to.copy_from_slice(from);
    }
}
