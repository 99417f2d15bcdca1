//! Long contiguous rows in parts: first what each part adds up to, then each part from there on, a few abreast, on one thread or several.

use super::serial::{SHAREABLE_ELEMENTS, declines};
use super::{ABREAST, Carried, by_op, counted, lens, lines};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::pool::Pool;
use trimtab_core::{Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of a part.
    pub struct BlockedConfig { threads, part }
}

/// Elements of a part: some that few steps are needed between them, and some that short rows have several.
const PARTS: [u32; 3] = [64 << 10, 8 << 10, 1 << 10];
/// Elements from which a row has parts.
const LEAST: u64 = 4 << 10;
/// Most parts of a row: their carries wait on the stack.
const MOST_PARTS: usize = 256;
/// Accumulators of a part's sum: additions wait for each other otherwise.
const CHAINS: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct BlockedKernel;

impl Variant<Cpu> for BlockedKernel {
    type Problem = Scan;
    type Config = BlockedConfig;

    identity!("cpu.scan.blocked", Tiled);

    fn declines(&self, problem: &Scan, _: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let short = || Decline::from(format!("rows of {len} are not divided; needs {LEAST}"));
        declines(problem)
            .or_else(|| crate::kernels::not_of_type(problem.dtype))
            .or_else(|| (len < LEAST).then(short))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<BlockedConfig> {
        let fits = |part: &u32| u64::from(*part) < problem.len;
        let with =
            |threads: u32| PARTS.into_iter().filter(fits).map(move |part| BlockedConfig { threads, part });
        let shareable = problem.len >= SHAREABLE_ELEMENTS;
        thread_counts(device, shareable, 4).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Scan, config: BlockedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 2);
        shared_work(flops, bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Scan, config: BlockedConfig, args: Args<'_>) -> Launched {
        if problem.inner != 1 || config.part == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            by_op!(problem.op, rows::<T>(problem, config, typed.lhs, typed.out, typed.pool));
            Ok(())
        })
    }
}

/// What the elements of a part amount to.
fn total<T: Carried, const OP: u8>(problem: &Scan, part: &[T]) -> T::Carry {
    let mut chains = [T::start(problem.op); CHAINS];
    let mut groups = part.chunks_exact(CHAINS);
    for group in &mut groups {
        chains.iter_mut().zip(group).for_each(|(chain, value)| *chain = T::step::<OP>(*chain, *value));
    }
    for (chain, value) in chains.iter_mut().zip(groups.remainder()) {
        *chain = T::step::<OP>(*chain, *value);
    }
    chains.into_iter().reduce(|a, b| T::join(problem.op, a, b)).unwrap_or(T::start(problem.op))
}

fn rows<T: Carried, const OP: u8>(
    problem: &Scan,
    config: BlockedConfig,
    input: &[T],
    out: &mut [T],
    pool: &Pool,
) {
    let len = (problem.len as usize).max(1);
    let part = (config.part as usize).max(len.div_ceil(MOST_PARTS));
    for (input, out) in input.chunks(len).zip(out.chunks_mut(len)) {
        let mut carries = [T::start(problem.op); MOST_PARTS];
        let carries = &mut carries[..len.div_ceil(part)];
        pool.for_chunks(config.threads, carries, 1, |nth, carry| {
            let end = len.min((nth + 1) * part);
            carry.iter_mut().for_each(|carry| *carry = total::<T, OP>(problem, &input[nth * part..end]));
        });
        let mut before = T::start(problem.op);
        for carry in carries.iter_mut() {
            let here = *carry;
            *carry = before;
            before = T::join(problem.op, before, here);
        }
        let carries = &*carries;
        // A thread takes as many parts as are scanned abreast, if there are enough for all.
        let at_once = (carries.len() / config.threads.max(1) as usize).clamp(1, ABREAST);
        pool.for_chunks(config.threads, out, at_once * part, |first, out| {
            let input = &input[first..first + out.len()];
            lines::<T, OP>(input, out, part, problem.exclusive, |nth| carries[first / part + nth]);
        });
    }
}
