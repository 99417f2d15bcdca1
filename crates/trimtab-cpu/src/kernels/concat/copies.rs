//! Rows of operands copied as a whole, long ones in pieces, on several threads.

use super::{Parts, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use trimtab_core::{Concat, Decline, DeviceFacts, Flops, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of the result a thread takes at once.
    pub struct CopiesConfig { threads, block }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 128 << 10;

/// See the module.
#[derive(Debug)]
pub struct CopiesKernel;

impl Variant<Cpu> for CopiesKernel {
    type Problem = Concat;
    type Config = CopiesConfig;

    identity!("cpu.concat.copies", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, _: &Concat, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Concat, device: &DeviceFacts) -> Vec<CopiesConfig> {
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.out_len() >= SHAREABLE, 3) {
            let blocks: &[u32] = if threads > 1 { &[16 << 10, 128 << 10] } else { &[16 << 10] };
            configs.extend(blocks.iter().map(|&block| CopiesConfig { threads, block }));
        }
        configs
    }

    fn work(&self, problem: &Concat, config: CopiesConfig, _: &DeviceFacts) -> Work {
        let (_, bytes) = counted(problem);
        // A call for each row of each operand.
        let calls = problem.outer().saturating_mul(8 * problem.parts().len() as u64);
        shared_work(Flops(calls), bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Concat, config: CopiesConfig, args: Args<'_>) -> Launched {
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

fn run<U: Unit>(problem: &Concat, config: CopiesConfig, args: Args<'_>) -> Launched {
    let Parts { from, parts, count, row, out, pool } = given::<U>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let (len, block) = (out.len(), (config.block as usize).max(1));
    let all = Disjoint::new(out);
    pool.run(config.threads, len.div_ceil(block), &|task| {
        let (mut at, end) = (task * block, len.min((task + 1) * block));
        let (mut line, mut column) = (at / row, at % row);
        while at < end {
            let mut first = 0;
            for (from, part) in from.iter().zip(parts).take(count) {
                if column < first + part && at < end {
                    let within = column - first;
                    let many = (part - within).min(end - at);
                    let start = line * part + within;
                    // SAFETY: every task has its own part of the result.
                    unsafe { all.part(at..at + many) }.copy_from_slice(&from[start..start + many]);
                    at += many;
                    column += many;
                }
                first += part;
            }
            line += 1;
            column = 0;
        }
    });
    Ok(())
}
