//! Every thread has elements of the result that it alone adds to: some lines, some columns, or some places along the axis. All indices
//! are looked at by each thread that might have their place.

use super::{Adding, Summed, add_row, by_summed, counted, given, not_summed};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::shared_work;
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Scatter, Variant, Work};

trimtab_core::config! {
    /// Threads, and what is divided between them: 0 lines, 1 columns, 2 places along the axis.
    pub struct OwnedConfig { threads, split }
}

const LINES: u32 = 0;
const COLUMNS: u32 = 1;
const PLACES: u32 = 2;

/// Additions from which a second thread can pay.
const SHAREABLE: u64 = 32 << 10;

/// See the module.
#[derive(Debug)]
pub struct OwnedKernel;

impl Variant<Cpu> for OwnedKernel {
    type Problem = Scatter;
    type Config = OwnedConfig;

    identity!("cpu.scatter.owned", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Scatter, _: &DeviceFacts) -> Option<Decline> {
        not_summed(problem.dtype)
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<OwnedConfig> {
        if not_summed(problem.dtype).is_some() {
            return Vec::new();
        }
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.along_count() >= SHAREABLE, 3) {
            let sizes = [(LINES, problem.outer), (COLUMNS, problem.inner / 8), (PLACES, problem.len)];
            let splits = sizes.into_iter().filter(|(_, size)| threads > 1 && *size >= u64::from(threads));
            let before = configs.len();
            configs.extend(splits.map(|(split, _)| OwnedConfig { threads, split }));
            if configs.len() == before && threads == 1 {
                configs.push(OwnedConfig { threads: 1, split: LINES });
            }
        }
        configs
    }

    fn work(&self, problem: &Scatter, config: OwnedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        let read = problem.indices().saturating_mul(problem.index.size());
        // Who has some of the places, or of the columns, reads all indices.
        let again =
            if config.split == LINES { 0 } else { read.saturating_mul(u64::from(config.threads) - 1) };
        let lanes = if problem.inner >= 4 { 4 } else { 1 };
        shared_work(flops, Bytes(bytes.0.saturating_add(again)), config.threads, lanes)
    }

    fn launch(&self, problem: &Scatter, config: OwnedConfig, args: Args<'_>) -> Launched {
        // Divided by nothing, every thread would have all of the result.
        if config.split > PLACES {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_summed!(problem, T => by_index!(problem.index, I => run::<T, I>(problem, config, args)))
    }
}

fn run<T: Summed, I: Index>(problem: &Scatter, config: OwnedConfig, args: Args<'_>) -> Launched {
    let Adding { data, indices, added, out, pool, outer, len, inner, count } = given::<T, I>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    // More than there can be would let products wrap, and parts overlap.
    let parts = config.threads.clamp(1, crate::pool::MAX_THREADS) as usize;
    let all = Disjoint::new(out);
    let cut = |split: u32, size: usize, part: usize| match config.split == split {
        true => size * part / parts..size * (part + 1) / parts,
        false => 0..size,
    };
    pool.run(config.threads, parts, &|part| {
        let (lines, columns) = (cut(LINES, outer, part), cut(COLUMNS, inner, part));
        let places = cut(PLACES, len, part);
        let own = |line: usize, place: usize| {
            let row = (line * len + place) * inner;
            // SAFETY: every task has its own lines, columns or places.
            unsafe { all.part(row + columns.start..row + columns.end) }
        };
        for line in lines {
            if columns.len() == inner {
                let rows = (line * len + places.start) * inner..(line * len + places.end) * inner;
                // SAFETY: as above, of all the columns.
                unsafe { all.part(rows.clone()) }.copy_from_slice(&data[rows]);
            } else {
                for place in places.clone() {
                    let row = (line * len + place) * inner;
                    own(line, place).copy_from_slice(&data[row + columns.start..row + columns.end]);
                }
            }
            for nth in 0..count {
                let row = (line * count + nth) * inner;
                if problem.each {
                    for column in columns.clone() {
                        let place = indices[row + column].place(len);
                        if places.contains(&place) {
                            let to = (line * len + place) * inner + column;
                            // SAFETY: as above, one element of it.
                            add_row(unsafe { all.part(to..to + 1) }, &added[row + column..=row + column]);
                        }
                    }
                } else {
                    let place = indices[nth].place(len);
                    if places.contains(&place) {
                        add_row(own(line, place), &added[row + columns.start..row + columns.end]);
                    }
                }
            }
        }
    });
    Ok(())
}
