//! The whole copied or filled first, in one piece a thread, then the block's rows over it: good for blocks of a few rows in something large.

use super::{Putting, around, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, Put, Variant, Work};

trimtab_core::config! {
    /// Threads.
    pub struct OverConfig { threads }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 128 << 10;
/// Elements a thread takes at once.
const CHUNK: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct OverKernel;

impl Variant<Cpu> for OverKernel {
    type Problem = Put;
    type Config = OverConfig;

    identity!("cpu.put.over", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, _: &Put, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Put, device: &DeviceFacts) -> Vec<OverConfig> {
        let threads = thread_counts(device, problem.out_len() >= SHAREABLE, 3);
        threads.into_iter().map(|threads| OverConfig { threads }).collect()
    }

    fn work(&self, problem: &Put, config: OverConfig, _: &DeviceFacts) -> Work {
        let (_, bytes) = counted(problem);
        let twice = problem.block_len().saturating_mul(2 * problem.dtype.size());
        let row = problem.size().last().map_or(1, |&row| u64::from(row)).max(1);
        let calls = Flops((problem.block_len() / row).saturating_mul(16));
        shared_work(calls, Bytes(bytes.0.saturating_add(twice)), config.threads, 1)
    }

    fn launch(&self, problem: &Put, config: OverConfig, args: Args<'_>) -> Launched {
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

fn run<U: Unit>(problem: &Put, config: OverConfig, args: Args<'_>) -> Launched {
    let Putting { base, block, out, pool, place } = given::<U>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    pool.for_chunks(config.threads, out, CHUNK, |start, part| around(part, base, start, problem.fill));
    let (row, columns) = (place.row(), place.columns());
    if block.is_empty() {
        return Ok(());
    }
    let (rows, each) = (block.len() / columns.len(), (CHUNK / columns.len()).max(1));
    let all = Disjoint::new(out);
    pool.run(config.threads, rows.div_ceil(each), &|task| {
        for nth in task * each..rows.min((task + 1) * each) {
            let first = place.out_row(nth) * row + columns.start;
            // SAFETY: every row of the block has its own part of the result.
            let to = unsafe { all.part(first..first + columns.len()) };
            to.copy_from_slice(&block[nth * columns.len()..(nth + 1) * columns.len()]);
        }
    });
    Ok(())
}
