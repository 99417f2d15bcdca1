//! Lines of any element type: indices are sorted by the numbers they stand for, or, where few are asked for, only the best so far are
//! kept while the line is walked once.

use super::{given, key};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::sort::Sortable;
use crate::kernels::{not_of_type, shared_work};
use trimtab_core::{Arg, ArgOp, Bytes, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, each with lines of its own, and whether only the best so far are kept.
    pub struct LinesConfig { threads, keep }
}

/// Kept at most: beyond that, finding the place of a new one takes longer than sorting all.
const MOST_KEPT: u64 = 256;

/// See the module.
#[derive(Debug)]
pub struct LinesKernel;

fn declines(problem: &Arg) -> Option<Decline> {
    let most = MOST_ROOM as u64 / 4;
    let one = || Decline::because("sorts; one element needs no order");
    let long = || Decline::from(format!("lines of {} are too long; at most {most}", problem.len));
    let extreme = matches!(problem.op, ArgOp::Min | ArgOp::Max);
    not_of_type(problem.dtype).or_else(|| extreme.then(one)).or_else(|| (problem.len > most).then(long))
}

impl Variant<Cpu> for LinesKernel {
    type Problem = Arg;
    type Config = LinesConfig;

    identity!("cpu.arg.lines", Parallel);

    fn declines(&self, problem: &Arg, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<LinesConfig> {
        let lines = problem.outer.saturating_mul(problem.inner);
        let threads = thread_counts(device, lines > 1 && problem.input_len() >= 16 << 10, 3).into_iter();
        let keeps: &[u32] = if problem.count <= MOST_KEPT { &[1, 0] } else { &[0] };
        threads.flat_map(|threads| keeps.iter().map(move |&keep| LinesConfig { threads, keep })).collect()
    }

    fn work(&self, problem: &Arg, config: LinesConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = super::counted(problem);
        let scratch = Bytes(problem.len.saturating_mul(16).saturating_mul(config.threads.into()));
        Work { scratch, ..shared_work(flops, bytes, config.threads, 1) }
    }

    fn launch(&self, problem: &Arg, config: LinesConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() || (config.keep != 0 && problem.count > MOST_KEPT) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_type!(problem, T => run::<T>(problem, config, args))
    }
}

fn run<T: Sortable>(problem: &Arg, config: LinesConfig, args: Args<'_>) -> Launched {
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
        let set = |at: usize, index: usize| {
            // SAFETY: every task has its own line of the result.
            unsafe { all.part(to + at * inner..to + at * inner + 1) }.fill(index as i64);
        };
        let number = |at: usize| key(input[first + at * inner], descending);
        if config.keep != 0 {
            let mut kept = [(T::Key::default(), 0usize); MOST_KEPT as usize];
            let mut there = 0;
            for at in 0..len {
                let number = number(at);
                if there == count && (count == 0 || number >= kept[count - 1].0) {
                    continue;
                }
                // Behind those that are equal: they came first.
                let place = kept[..there].partition_point(|(other, _)| *other <= number);
                there = (there + 1).min(count);
                kept.copy_within(place..there - 1, place + 1);
                kept[place] = (number, at);
            }
            kept[..there].iter().enumerate().for_each(|(at, (_, index))| set(at, *index));
            return;
        }
        with_room(2 * len, |room: &mut [u64]| {
            let (indices, numbers) = room.split_at_mut(len);
            let numbers: &mut [T::Key] = bytemuck::try_cast_slice_mut(numbers).unwrap_or_default();
            numbers.iter_mut().take(len).enumerate().for_each(|(at, own)| *own = number(at));
            indices.iter_mut().enumerate().for_each(|(at, index)| *index = at as u64);
            indices.sort_unstable_by_key(|&at| (numbers[at as usize], at));
            indices.iter().take(count).enumerate().for_each(|(at, index)| set(at, *index as usize));
        });
    });
    Ok(())
}
