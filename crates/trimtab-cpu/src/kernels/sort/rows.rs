//! Contiguous rows, each sorted where its result lies by the standard library's unstable sort; threads have rows of their own.

use super::{Sortable, counted, in_place, lens};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::{not_of_type, shared_work};
use crate::pool::Pool;
use trimtab_core::{Decline, DeviceFacts, LaunchError, Sort, Variant, Work};

trimtab_core::config! {
    /// Threads, each with rows of its own.
    pub struct RowsConfig { threads }
}

/// Elements from which a second thread can pay: waking one costs up to 20 µs.
pub(super) const SHAREABLE_ELEMENTS: u64 = 4 << 10;

/// See the module.
#[derive(Debug)]
pub struct RowsKernel;

/// Why a kernel of contiguous rows does not take a problem.
pub(super) fn declines(problem: &Sort) -> Option<Decline> {
    let apart = problem.inner;
    let far = || Decline::from(format!("elements lie {apart} apart; needs contiguous rows"));
    not_of_type(problem.dtype).or_else(|| (apart != 1).then(far))
}

/// Threads worth trying where each has rows of its own.
pub(super) fn threads(problem: &Sort, device: &DeviceFacts) -> Vec<u32> {
    let lines = problem.outer.saturating_mul(problem.inner);
    thread_counts(device, lines > 1 && problem.len() >= SHAREABLE_ELEMENTS, 4)
}

impl Variant<Cpu> for RowsKernel {
    type Problem = Sort;
    type Config = RowsConfig;

    identity!("cpu.sort.rows", Parallel);

    fn declines(&self, problem: &Sort, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<RowsConfig> {
        threads(problem, device).into_iter().map(|threads| RowsConfig { threads }).collect()
    }

    fn work(&self, problem: &Sort, config: RowsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        shared_work(flops, bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Sort, config: RowsConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            each_row(problem, config.threads, typed.lhs, typed.out, typed.pool, |row| {
                in_place(row, problem.descending, |keys| keys.sort_unstable());
            });
            Ok(())
        })
    }
}

/// Copies rows to their result and sorts them there, on so many threads.
pub(super) fn each_row<T: Sortable>(
    problem: &Sort,
    threads: u32,
    input: &[T],
    out: &mut [T],
    pool: &Pool,
    sort: impl Fn(&mut [T]) + Sync,
) {
    let len = (problem.len as usize).max(1);
    let rows = (SHAREABLE_ELEMENTS as usize / len).max(1);
    pool.for_chunks(threads, out, rows * len, |first, out| {
        out.copy_from_slice(&input[first..first + out.len()]);
        out.chunks_mut(len).for_each(&sort);
    });
}
