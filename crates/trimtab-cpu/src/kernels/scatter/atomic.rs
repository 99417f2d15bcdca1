//! Threads share the indices and add to one result by atomic instructions: good where few meet at one place.

use super::{Adding, Summed, by_summed, counted, given, not_summed};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::shared_work;
use trimtab_core::{Decline, DeviceFacts, Flops, LaunchError, Scatter, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements a thread adds at once.
    pub struct AtomicConfig { threads, block }
}

/// Additions from which a second thread can pay.
const SHAREABLE: u64 = 32 << 10;
/// Elements a thread copies at once.
const CHUNK: usize = 16 << 10;
/// What an atomic addition costs, in plain ones; about.
const ATOMIC: u64 = 20;

/// See the module.
#[derive(Debug)]
pub struct AtomicKernel;

impl Variant<Cpu> for AtomicKernel {
    type Problem = Scatter;
    type Config = AtomicConfig;

    identity!("cpu.scatter.atomic", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Scatter, _: &DeviceFacts) -> Option<Decline> {
        not_summed(problem.dtype)
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<AtomicConfig> {
        if not_summed(problem.dtype).is_some() {
            return Vec::new();
        }
        let threads = thread_counts(device, problem.along_count() >= SHAREABLE, 3).into_iter();
        let blocks: &[u32] =
            if problem.along_count() >= SHAREABLE { &[8 << 10, 1 << 10] } else { &[8 << 10] };
        threads.flat_map(|threads| blocks.iter().map(move |&block| AtomicConfig { threads, block })).collect()
    }

    fn work(&self, problem: &Scatter, config: AtomicConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        shared_work(Flops(flops.0.saturating_mul(ATOMIC)), bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Scatter, config: AtomicConfig, args: Args<'_>) -> Launched {
        by_summed!(problem, T => by_index!(problem.index, I => run::<T, I>(problem, config, args)))
    }
}

fn run<T: Summed, I: Index>(problem: &Scatter, config: AtomicConfig, args: Args<'_>) -> Launched {
    let Adding { data, indices, added, out, pool, len, inner, count, .. } = given::<T, I>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    pool.for_chunks(config.threads, out, CHUNK, |start, part| {
        part.copy_from_slice(&data[start..start + part.len()]);
    });
    if added.is_empty() {
        return Ok(());
    }
    if size_of::<T>() != size_of::<T::Shared>() || align_of::<T>() < align_of::<T::Shared>() {
        let reason = format!("has no atomic {} here", T::DTYPE);
        return Err(LaunchError::Kernel(reason));
    }
    // SAFETY: as many of the same size and alignment, and while they are shared nobody has the result in another way: `out` is
    // borrowed for as long.
    let shared = unsafe { std::slice::from_raw_parts(out.as_mut_ptr().cast::<T::Shared>(), out.len()) };
    let rows = added.len() / inner;
    let each = (config.block as usize / inner).max(1);
    pool.run(config.threads, rows.div_ceil(each), &|task| {
        for row in task * each..rows.min((task + 1) * each) {
            let (line, from) = (row / count * len, row * inner);
            if problem.each {
                for at in from..from + inner {
                    added[at].add_to(&shared[(line + indices[at].place(len)) * inner + at - from]);
                }
            } else {
                let to = (line + indices[row % count].place(len)) * inner;
                let places = &shared[to..to + inner];
                added[from..from + inner].iter().zip(places).for_each(|(value, place)| value.add_to(place));
            }
        }
    });
    Ok(())
}
