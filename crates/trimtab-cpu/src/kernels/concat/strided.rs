//! Operand by operand, element by element over some rows at a time: for rows so short that a copy of each would be calls and nothing else.

use super::{Parts, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use trimtab_core::{Concat, Decline, DeviceFacts, Flops, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of the result a thread takes at once.
    pub struct StridedConfig { threads, block }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;
/// The longest row that is not better copied.
const LONGEST: u64 = 64;

/// See the module.
#[derive(Debug)]
pub struct StridedKernel;

fn declines(problem: &Concat) -> Option<Decline> {
    let row = problem.row();
    let long =
        || Decline::from(format!("goes element by element over rows of up to {LONGEST}, these have {row}"));
    (row > LONGEST).then(long)
}

impl Variant<Cpu> for StridedKernel {
    type Problem = Concat;
    type Config = StridedConfig;

    identity!("cpu.concat.strided", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Concat, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Concat, device: &DeviceFacts) -> Vec<StridedConfig> {
        if declines(problem).is_some() {
            return Vec::new();
        }
        let threads = thread_counts(device, problem.out_len() >= SHAREABLE, 3).into_iter();
        threads
            .flat_map(|threads| [4 << 10, 32 << 10].map(|block| StridedConfig { threads, block }))
            .collect()
    }

    fn work(&self, problem: &Concat, config: StridedConfig, _: &DeviceFacts) -> Work {
        let (_, bytes) = counted(problem);
        shared_work(Flops(problem.out_len().saturating_mul(2)), bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Concat, config: StridedConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

fn run<U: Unit>(problem: &Concat, config: StridedConfig, args: Args<'_>) -> Launched {
    let Parts { from, parts, count, row, out, pool } = given::<U>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let (lines, each) = (out.len() / row, (config.block as usize / row).max(1));
    let all = Disjoint::new(out);
    pool.run(config.threads, lines.div_ceil(each), &|task| {
        let (start, end) = (task * each, lines.min((task + 1) * each));
        // SAFETY: every task has its own rows of the result.
        let out = unsafe { all.part(start * row..end * row) };
        let mut first = 0;
        for (from, part) in from.iter().zip(parts).take(count) {
            let from = &from[start * part..end * part];
            for column in 0..part {
                let to = out[first + column..].iter_mut().step_by(row);
                to.zip(from[column..].iter().step_by(part)).for_each(|(to, from)| *to = *from);
            }
            first += part;
        }
    });
    Ok(())
}
