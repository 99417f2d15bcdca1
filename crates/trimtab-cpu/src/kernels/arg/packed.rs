//! Lines of four-byte elements: number and index of each as one whole number, which are sorted, or of which the first are selected,
//! without looking anything up.

use super::{given, key};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elements::not_here;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::shared_work;
use crate::kernels::sort::Sortable;
use trimtab_core::{Arg, ArgOp, Bytes, DType, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, each with lines of its own, and whether the first are selected before they are sorted.
    pub struct PackedConfig { threads, select }
}

/// See the module.
#[derive(Debug)]
pub struct PackedKernel;

fn declines(problem: &Arg) -> Option<Decline> {
    let most = (MOST_ROOM as u64 / 2).min(u64::from(u32::MAX));
    match (problem.op, problem.len) {
        (ArgOp::Min | ArgOp::Max, _) => Some(Decline::because("sorts; one element needs no order")),
        _ if !matches!(problem.dtype, DType::F32 | DType::I32) => {
            Some(Decline::from(format!("packs elements of four bytes, not {}", problem.dtype)))
        }
        (_, len) if len > most => Some(Decline::from(format!("lines of {len} are too long; at most {most}"))),
        _ => None,
    }
}

impl Variant<Cpu> for PackedKernel {
    type Problem = Arg;
    type Config = PackedConfig;

    identity!("cpu.arg.packed", Vectorized);

    fn declines(&self, problem: &Arg, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<PackedConfig> {
        let lines = problem.outer.saturating_mul(problem.inner);
        let threads = thread_counts(device, lines > 1 && problem.input_len() >= 16 << 10, 3).into_iter();
        let selects: &[u32] = if problem.count < problem.len { &[1, 0] } else { &[0] };
        threads
            .flat_map(|threads| selects.iter().map(move |&select| PackedConfig { threads, select }))
            .collect()
    }

    fn work(&self, problem: &Arg, config: PackedConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        let scratch = Bytes(problem.len.saturating_mul(8).saturating_mul(config.threads.into()));
        Work { scratch, ..shared_work(flops, bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Arg, config: PackedConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        match problem.dtype {
            DType::F32 => run::<f32>(problem, config, args),
            DType::I32 => run::<i32>(problem, config, args),
            dtype => Err(not_here(dtype)),
        }
    }
}

fn run<T: Sortable<Key = u32>>(problem: &Arg, config: PackedConfig, args: Args<'_>) -> Launched {
    let (input, out, pool) = given::<T>(problem, args)?;
    if out.is_empty() {
        return Ok(());
    }
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    let descending = problem.descending || problem.op == ArgOp::Top;
    let all = Disjoint::new(out);
    pool.run(config.threads, (problem.outer * problem.inner) as usize, &|nth| {
        let (first, to) =
            (nth / inner * len * inner + nth % inner, nth / inner * count * inner + nth % inner);
        with_room(len, |room: &mut [u64]| {
            for (at, packed) in room.iter_mut().enumerate() {
                *packed = u64::from(key(input[first + at * inner], descending)) << 32 | at as u64;
            }
            let wanted = match config.select != 0 && count > 0 && count < len {
                true => room.select_nth_unstable(count - 1).0.len() + 1,
                false => len,
            };
            let wanted = &mut room[..wanted];
            wanted.sort_unstable();
            for (at, packed) in wanted.iter().take(count).enumerate() {
                // SAFETY: every task has its own line of the result.
                unsafe { all.part(to + at * inner..to + at * inner + 1) }.fill((packed & 0xffff_ffff) as i64);
            }
        });
    });
    Ok(())
}
