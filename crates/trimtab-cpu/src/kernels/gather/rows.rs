//! Row by row: what lies behind an index is copied as a whole, and rows that come later are asked for ahead of time.

use super::{Taking, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::shared_work;
use crate::kernels::units::{Unit, prefetch};
use trimtab_core::{Decline, DeviceFacts, Gather, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and how many rows ahead memory is asked for; none for not at all.
    pub struct RowsConfig { threads, ahead }
}

/// Bytes a thread takes at once, about.
const TAKEN: u64 = 64 << 10;
/// Bytes from which a second thread can pay.
const SHAREABLE: u64 = 256 << 10;
/// Bytes of a row that are asked for ahead: what follows, the processor finds itself.
const ASKED: usize = 256;
/// Bytes of a cache line.
const LINE: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct GatherRows;

fn declines(problem: &Gather) -> Option<Decline> {
    problem.each.then(|| Decline::because("copies rows; here every element has an index of its own"))
}

impl Variant<Cpu> for GatherRows {
    type Problem = Gather;
    type Config = RowsConfig;

    identity!("cpu.gather.rows", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Gather, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Gather, device: &DeviceFacts) -> Vec<RowsConfig> {
        if problem.each {
            return Vec::new();
        }
        let bytes = problem.along_count().saturating_mul(problem.dtype.size());
        // What fits the first caches is there already.
        let aheads: &[u32] = if problem.input_len() > 16 << 10 { &[8, 0, 32] } else { &[0] };
        let threads = thread_counts(device, bytes >= SHAREABLE, 3).into_iter();
        threads.flat_map(|threads| aheads.iter().map(move |&ahead| RowsConfig { threads, ahead })).collect()
    }

    fn work(&self, problem: &Gather, config: RowsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        shared_work(flops, bytes, config.threads, 4)
    }

    fn launch(&self, problem: &Gather, config: RowsConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_unit!(problem.dtype, U => by_index!(problem.index, I => run::<U, I>(problem, config, args)))
    }
}

fn run<U: Unit, I: Index>(problem: &Gather, config: RowsConfig, args: Args<'_>) -> Launched {
    let Taking { data, indices, out, pool } = given::<U, I>(problem, args)?;
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    if out.is_empty() {
        return Ok(());
    }
    let rows = out.len() / inner;
    let each = (TAKEN as usize / (inner * size_of::<U>())).max(1);
    let (asked, line) = ((ASKED / size_of::<U>()).min(inner), LINE / size_of::<U>());
    let (ahead, all) = (config.ahead as usize, Disjoint::new(out));
    let source = |row: usize| (row / count * len + indices[row % count].place(len)) * inner;
    pool.run(config.threads, rows.div_ceil(each), &|task| {
        let last = rows.min((task + 1) * each);
        for row in task * each..last {
            if ahead > 0 && row + ahead < last {
                let next = source(row + ahead);
                (0..asked).step_by(line).for_each(|at| prefetch(data, next + at));
            }
            let from = source(row);
            // SAFETY: every task has its own rows of the result.
            let to = unsafe { all.part(row * inner..(row + 1) * inner) };
            to.copy_from_slice(&data[from..from + inner]);
        }
    });
    Ok(())
}
