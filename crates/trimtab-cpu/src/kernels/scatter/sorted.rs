//! Numbers of the indices in the order of their places, by counting: every place is added to in one go, and places are shared by threads.

use super::{Adding, Summed, add_row, by_summed, counted, given, not_summed};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::shared_work;
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Scatter, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements of the result a thread takes at once.
    pub struct SortedConfig { threads, block }
}

/// Additions from which a second thread can pay.
const SHAREABLE: u64 = 32 << 10;

/// See the module.
#[derive(Debug)]
pub struct SortedKernel;

/// Words beside the operands: where each place begins, and the numbers.
fn room(problem: &Scatter) -> u64 {
    problem.len.saturating_add(problem.count).saturating_add(2)
}

fn declines(problem: &Scatter) -> Option<Decline> {
    let words = room(problem);
    let large = || Decline::from(format!("keeps {words} numbers beside the operands, at most {MOST_ROOM}"));
    not_summed(problem.dtype)
        .or_else(|| problem.each.then(|| Decline::because("sorts one list of indices for all lines")))
        .or_else(|| (words > MOST_ROOM as u64).then(large))
}

impl Variant<Cpu> for SortedKernel {
    type Problem = Scatter;
    type Config = SortedConfig;

    identity!("cpu.scatter.sorted", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Scatter, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<SortedConfig> {
        if declines(problem).is_some() {
            return Vec::new();
        }
        let threads = thread_counts(device, problem.along_count() >= SHAREABLE, 3).into_iter();
        let blocks: &[u32] = if problem.input_len() > 16 << 10 { &[16 << 10, 2 << 10] } else { &[2 << 10] };
        threads.flat_map(|threads| blocks.iter().map(move |&block| SortedConfig { threads, block })).collect()
    }

    fn work(&self, problem: &Scatter, config: SortedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        let scratch = Bytes(room(problem).saturating_mul(4));
        // Indices and numbers are read and written twice.
        let bytes = Bytes(bytes.0.saturating_add(problem.count.saturating_mul(16)));
        let lanes = if problem.inner >= 4 { 4 } else { 1 };
        Work { scratch, ..shared_work(flops, bytes, config.threads, lanes) }
    }

    fn launch(&self, problem: &Scatter, config: SortedConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_summed!(problem, T => by_index!(problem.index, I => run::<T, I>(problem, config, args)))
    }
}

fn run<T: Summed, I: Index>(problem: &Scatter, config: SortedConfig, args: Args<'_>) -> Launched {
    let Adding { data, indices, added, out, pool, outer, len, inner, count } = given::<T, I>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let all = Disjoint::new(out);
    with_room(room(problem) as usize, |room: &mut [u32]| {
        let (ends, numbers) = room.split_at_mut(len + 2);
        // Count, add up so that each place's count is where it begins, and hand out the numbers: each beginning becomes its end, which is
        // where the next place begins.
        ends.fill(0);
        indices.iter().for_each(|index| ends[index.place(len) + 2] += 1);
        for place in 1..ends.len() {
            ends[place] += ends[place - 1];
        }
        for (nth, index) in indices.iter().enumerate() {
            let next = &mut ends[index.place(len) + 1];
            numbers[*next as usize] = nth as u32;
            *next += 1;
        }
        let (ends, numbers) = (&*ends, &*numbers);
        let each = (config.block as usize / inner).max(1);
        let tasks = len.div_ceil(each);
        pool.run(config.threads, outer * tasks, &|task| {
            let (line, first) = (task / tasks, task % tasks * each);
            for place in first..len.min(first + each) {
                let row = (line * len + place) * inner;
                // SAFETY: every task has its own places of a line.
                let to = unsafe { all.part(row..row + inner) };
                to.copy_from_slice(&data[row..row + inner]);
                for &nth in &numbers[ends[place] as usize..ends[place + 1] as usize] {
                    let from = (line * count + nth as usize) * inner;
                    add_row(to, &added[from..from + inner]);
                }
            }
        });
    });
    Ok(())
}
