//! Every thread adds up a part of the indices in a result of its own; then those are added up: for results much smaller than what is added.

use super::{Adding, Summed, add_row, by_summed, counted, given, not_summed};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::shared_work;
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Scatter, Variant, Work};

trimtab_core::config! {
    /// Parts of the indices, each a thread's with a result of its own.
    pub struct PrivatisedConfig { threads }
}

/// Elements a thread takes at once when results are added up.
const CHUNK: usize = 4 << 10;

/// See the module.
#[derive(Debug)]
pub struct PrivatisedKernel;

fn room(problem: &Scatter, threads: u32) -> u64 {
    problem.input_len().saturating_mul(threads.into())
}

fn declines(problem: &Scatter) -> Option<Decline> {
    let (words, most) = (room(problem, 2), MOST_ROOM as u64 * 4 / problem.dtype.size().max(4));
    let large = || Decline::from(format!("keeps {words} elements beside the operands, at most {most}"));
    not_summed(problem.dtype).or_else(|| (words > most).then(large))
}

impl Variant<Cpu> for PrivatisedKernel {
    type Problem = Scatter;
    type Config = PrivatisedConfig;

    identity!("cpu.scatter.privatised", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Scatter, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<PrivatisedConfig> {
        if declines(problem).is_some() {
            return Vec::new();
        }
        // Two at least: with one this is another kernel's way.
        let all = device.threads.clamp(2, 64);
        let counts = [all, all / 2, 2].into_iter().filter(|threads| *threads >= 2);
        let most = MOST_ROOM as u64 * 4 / problem.dtype.size();
        let mut configs: Vec<PrivatisedConfig> = counts
            .filter(|threads| *threads == 2 || room(problem, *threads) <= most)
            .map(|threads| PrivatisedConfig { threads })
            .collect();
        configs.dedup();
        configs
    }

    fn work(&self, problem: &Scatter, config: PrivatisedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        let scratch = room(problem, config.threads).saturating_mul(problem.dtype.size());
        let bytes = Bytes(bytes.0.saturating_add(scratch.saturating_mul(2)));
        let flops = trimtab_core::Flops(flops.0.saturating_add(room(problem, config.threads)));
        let lanes = if problem.inner >= 4 { 4 } else { 1 };
        Work { scratch: Bytes(scratch), ..shared_work(flops, bytes, config.threads, lanes) }
    }

    fn launch(&self, problem: &Scatter, config: PrivatisedConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() || config.threads < 2 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_summed!(problem, T => by_index!(problem.index, I => run::<T, I>(problem, config, args)))
    }
}

fn run<T: Summed, I: Index>(problem: &Scatter, config: PrivatisedConfig, args: Args<'_>) -> Launched {
    let Adding { data, indices, added, out, pool, outer, len, inner, count } = given::<T, I>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let (parts, whole) = (config.threads as usize, out.len());
    with_room(parts * whole, |room: &mut [T]| {
        let results = Disjoint::new(room);
        pool.run(config.threads, parts, &|part| {
            // SAFETY: every task has a result of its own.
            let own = unsafe { results.part(part * whole..(part + 1) * whole) };
            own.fill(T::default());
            let nths = count * part / parts..count * (part + 1) / parts;
            for line in 0..outer {
                for nth in nths.clone() {
                    let from = (line * count + nth) * inner;
                    if problem.each {
                        for at in from..from + inner {
                            let to = (line * len + indices[at].place(len)) * inner + at - from;
                            own[to] = own[to].plus(added[at]);
                        }
                    } else {
                        let to = (line * len + indices[nth].place(len)) * inner;
                        add_row(&mut own[to..to + inner], &added[from..from + inner]);
                    }
                }
            }
        });
        // SAFETY: the tasks above are done, so nobody else holds a part.
        let results = &*unsafe { results.part(0..parts * whole) };
        pool.for_chunks(config.threads, out, CHUNK, |start, chunk| {
            chunk.copy_from_slice(&data[start..start + chunk.len()]);
            for own in results.chunks_exact(whole) {
                add_row(chunk, &own[start..start + chunk.len()]);
            }
        });
    });
    Ok(())
}
