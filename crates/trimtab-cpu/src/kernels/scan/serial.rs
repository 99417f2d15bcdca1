//! Contiguous rows, each from its first element to its last, a few abreast; several threads have rows of their own.

use super::{Carried, by_op, counted, lens, lines};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::pool::Pool;
use trimtab_core::{Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads, each with rows of its own.
    pub struct SerialConfig { threads }
}

/// Elements from which a second thread can pay: waking one costs up to 20 µs.
pub(super) const SHAREABLE_ELEMENTS: u64 = 32 << 10;

/// See the module.
#[derive(Debug)]
pub struct SerialKernel;

/// Why a kernel of contiguous rows does not take a problem.
pub(super) fn declines(problem: &Scan) -> Option<Decline> {
    let apart = problem.inner;
    (apart != 1).then(|| Decline::from(format!("elements lie {apart} apart; needs contiguous rows")))
}

impl Variant<Cpu> for SerialKernel {
    type Problem = Scan;
    type Config = SerialConfig;

    identity!("cpu.scan.serial", Parallel);

    fn declines(&self, problem: &Scan, _: &DeviceFacts) -> Option<Decline> {
        declines(problem).or_else(|| crate::kernels::not_of_type(problem.dtype))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<SerialConfig> {
        let shareable = problem.outer > 1 && problem.len() >= SHAREABLE_ELEMENTS;
        thread_counts(device, shareable, 4).into_iter().map(|threads| SerialConfig { threads }).collect()
    }

    fn work(&self, problem: &Scan, config: SerialConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 1);
        shared_work(flops, bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Scan, config: SerialConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            by_op!(problem.op, rows::<T>(problem, config.threads, typed.lhs, typed.out, typed.pool));
            Ok(())
        })
    }
}

fn rows<T: Carried, const OP: u8>(problem: &Scan, threads: u32, input: &[T], out: &mut [T], pool: &Pool) {
    let len = (problem.len as usize).max(1);
    let rows = ((SHAREABLE_ELEMENTS as usize / 4) / len).max(1);
    pool.for_chunks(threads, out, rows * len, |first, out| {
        let input = &input[first..first + out.len()];
        lines::<T, OP>(input, out, len, problem.exclusive, |_| T::start(problem.op));
    });
}
