//! Permutation that keeps the last axis in its place: whole rows are copied. Copies of everything are one long row.

use super::{Axes, SHAREABLE_ELEMENTS, moved, work};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::thread_counts;
use crate::kernels::units::Unit;
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Threads, and elements a thread takes at once (rounded to whole rows).
    pub struct RowsConfig { threads, chunk }
}

/// Elements a thread takes at once.
const CHUNKS: [u32; 2] = [1 << 20, 64 << 10];
/// One chunk: a single thread has nothing to share out.
const EVERYTHING: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct RowsKernel;

impl Variant<Cpu> for RowsKernel {
    type Problem = Transpose;
    type Config = RowsConfig;

    identity!("cpu.transpose.rows", Parallel);

    fn takes(&self, _: DType) -> bool {
        true
    }

    fn declines(&self, problem: &Transpose, _: &DeviceFacts) -> Option<Decline> {
        (!Axes::keeps_rows(problem)).then(|| {
            let last = problem.permutation().last().copied().unwrap_or(0);
            let rank = problem.dims().len();
            Decline::from(format!("the last axis of the result is axis {last} of {rank}; needs the last"))
        })
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<RowsConfig> {
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.len() >= SHAREABLE_ELEMENTS, 5) {
            if threads == 1 {
                configs.push(RowsConfig { threads, chunk: EVERYTHING });
                continue;
            }
            let even = problem.len().div_ceil(u64::from(threads)).min(u64::from(EVERYTHING)) as u32;
            configs.push(RowsConfig { threads, chunk: even });
            let chunks = CHUNKS.into_iter().filter(|&chunk| chunk < even);
            configs.extend(chunks.map(|chunk| RowsConfig { threads, chunk }));
        }
        configs
    }

    fn work(&self, problem: &Transpose, config: RowsConfig, device: &DeviceFacts) -> Work {
        let lanes = device.vector_bytes.map_or(1, |bytes| bytes / problem.dtype.size() as u32);
        work(problem, config.threads, lanes)
    }

    #[inline]
    fn launch(&self, problem: &Transpose, config: RowsConfig, args: Args<'_>) -> Launched {
        if !Axes::keeps_rows(problem) || config.chunk == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_unit!(problem.dtype, U => run::<U>(problem, config, args))
    }
}

fn run<U: Unit>(problem: &Transpose, config: RowsConfig, args: Args<'_>) -> Launched {
    let typed = moved::<U>(problem, args)?;
    let (axes, input, chunk) = (Axes::new(problem), typed.lhs, config.chunk as usize);
    if axes.rank == 1 {
        typed.pool.for_chunks(config.threads, typed.out, chunk, |start, part| {
            part.copy_from_slice(&input[start..start + part.len()]);
        });
        return Ok(());
    }
    let last = axes.rank - 1;
    let row = axes.dims[last].max(1);
    let order: [usize; trimtab_core::MAX_RANK] = std::array::from_fn(|axis| axis);
    let rows_at_once = (chunk / row).max(1);
    typed.pool.for_chunks(config.threads, typed.out, rows_at_once.saturating_mul(row), |start, part| {
        // The second last axis is walked by its stride; offsets of the others are found once per run of it.
        let (run, stride) = (axes.dims[last - 1], axes.from[last - 1]);
        let mut position = start / row;
        let mut rows = part.chunks_exact_mut(row);
        while rows.len() > 0 {
            let (mut from, _) = axes.offsets(&order[..last], position);
            let count = (run - position % run).min(rows.len());
            for out in rows.by_ref().take(count) {
                copy_row(&input[from..from + row], out);
                from += stride;
            }
            position += count;
        }
    });
    Ok(())
}

/// Short rows element by element: a call of `memcpy` costs more than eight moves.
#[inline(always)]
fn copy_row<T: Copy>(from: &[T], to: &mut [T]) {
    if to.len() <= 8 {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = from;
        }
    } else {
        to.copy_from_slice(from);
    }
}
