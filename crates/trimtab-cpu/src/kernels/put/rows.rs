//! Row by row, each element of the result written once: what is before the block, the block's row, what is behind it.

use super::{Putting, around, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use trimtab_core::{Decline, DeviceFacts, Flops, Put, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of the result a thread takes at once.
    pub struct RowsConfig { threads, block }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 128 << 10;

/// See the module.
#[derive(Debug)]
pub struct PutRows;

impl Variant<Cpu> for PutRows {
    type Problem = Put;
    type Config = RowsConfig;

    identity!("cpu.put.rows", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, _: &Put, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Put, device: &DeviceFacts) -> Vec<RowsConfig> {
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.out_len() >= SHAREABLE, 3) {
            let blocks: &[u32] = if threads > 1 { &[16 << 10, 128 << 10] } else { &[16 << 10] };
            configs.extend(blocks.iter().map(|&block| RowsConfig { threads, block }));
        }
        configs
    }

    fn work(&self, problem: &Put, config: RowsConfig, _: &DeviceFacts) -> Work {
        let (_, bytes) = counted(problem);
        let row = problem.dims().last().map_or(1, |&row| u64::from(row)).max(1);
        shared_work(Flops((problem.out_len() / row).saturating_mul(24)), bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Put, config: RowsConfig, args: Args<'_>) -> Launched {
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

fn run<U: Unit>(problem: &Put, config: RowsConfig, args: Args<'_>) -> Launched {
    let Putting { base, block, out, pool, place } = given::<U>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let (len, row, columns) = (out.len(), place.row(), place.columns());
    let each = (config.block as usize).max(1);
    let all = Disjoint::new(out);
    pool.run(config.threads, len.div_ceil(each), &|task| {
        let (mut at, end) = (task * each, len.min((task + 1) * each));
        while at < end {
            let (line, column) = (at / row, at % row);
            let stop = end.min((line + 1) * row);
            // SAFETY: every task has its own part of the result.
            let out = unsafe { all.part(at..stop) };
            match place.block_row(line) {
                None => around(out, base, at, problem.fill),
                Some(of_block) => {
                    // Of this piece: before the block, in it, and behind.
                    let [first, last] = [columns.start, columns.end]
                        .map(|edge| edge.clamp(column, column + out.len()) - column);
                    let start = of_block * columns.len() + (column + first).saturating_sub(columns.start);
                    around(&mut out[..first], base, at, problem.fill);
                    if first < last {
                        out[first..last].copy_from_slice(&block[start..start + last - first]);
                    }
                    around(&mut out[last..], base, at + last, problem.fill);
                }
            }
            at = stop;
        }
    });
    Ok(())
}
