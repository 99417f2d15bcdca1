//! Lines whose elements lie apart: some neighbours are gathered, sorted and put back, so that every cache line is read once.

use super::rows::threads;
use super::{Sortable, counted, in_place, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::room::with_room;
use crate::kernels::{not_of_type, shared_work};
use crate::pool::Pool;
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Sort, Variant, Work};

trimtab_core::config! {
    /// Threads, each with lines of its own.
    pub struct ApartConfig { threads }
}

/// Neighbours that are gathered together: a cache line of `f32`.
const TOGETHER: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct ApartKernel;

impl Variant<Cpu> for ApartKernel {
    type Problem = Sort;
    type Config = ApartConfig;

    identity!("cpu.sort.apart", Tiled);

    fn declines(&self, problem: &Sort, _: &DeviceFacts) -> Option<Decline> {
        let near = || Decline::because("rows are contiguous; needs lines side by side");
        not_of_type(problem.dtype).or_else(|| (problem.inner == 1).then(near))
    }

    fn configs(&self, problem: &Sort, device: &DeviceFacts) -> Vec<ApartConfig> {
        threads(problem, device).into_iter().map(|threads| ApartConfig { threads }).collect()
    }

    fn work(&self, problem: &Sort, config: ApartConfig, _: &DeviceFacts) -> Work {
        let (flops, mut bytes) = counted(problem);
        bytes.0 = bytes.0.saturating_mul(2);
        let lines = problem.len.saturating_mul(TOGETHER as u64).saturating_mul(config.threads.into());
        let scratch = Bytes(lines.saturating_mul(problem.dtype.size()));
        Work { scratch, ..shared_work(flops, bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Sort, config: ApartConfig, args: Args<'_>) -> Launched {
        if problem.inner < 2 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => {
            let typed = args.typed::<T>(lens(problem)?)?;
            lines::<T>(problem, config.threads, typed.lhs, typed.out, typed.pool);
            Ok(())
        })
    }
}

fn lines<T: Sortable>(problem: &Sort, threads: u32, input: &[T], out: &mut [T], pool: &Pool) {
    if out.is_empty() {
        return;
    }
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    let groups = inner.div_ceil(TOGETHER);
    let whole = Disjoint::new(out);
    pool.run(threads, problem.outer as usize * groups, &|task| {
        let (outer, first) = (task / groups, task % groups * TOGETHER);
        let count = TOGETHER.min(inner - first);
        with_room(len * count, |room: &mut [T]| {
            let start = |at: usize| (outer * len + at) * inner + first;
            for at in 0..len {
                for (line, &value) in input[start(at)..start(at) + count].iter().enumerate() {
                    room[line * len + at] = value;
                }
            }
            for line in room.chunks_mut(len.max(1)) {
                in_place(line, problem.descending, |keys| keys.sort_unstable());
            }
            for at in 0..len {
                // SAFETY: every task has its own lines.
                let out = unsafe { whole.part(start(at)..start(at) + count) };
                out.iter_mut().enumerate().for_each(|(line, place)| *place = room[line * len + at]);
            }
        });
    });
}
