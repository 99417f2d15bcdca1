//! Windows axis by axis: a window of 7 × 7 takes 14 steps instead of 49. Channels lie before the space.

use super::{Pooled, at, count, counted, lens, share, taps, threads, wrong_point};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::kernels::shared_work;
use trimtab_core::{Bytes, Channels, Decline, DeviceFacts, Flops, Pool, Variant, Work};

trimtab_core::config! {
    /// Threads, each with planes of its own.
    pub struct SeparableConfig { threads }
}

/// See the module.
#[derive(Debug)]
pub struct SeparableKernel;

/// Elements after the first axis, and after the second.
fn room(problem: &Pool) -> [usize; 2] {
    let (size, out) = (problem.window.size(), problem.window.out());
    [size[0] * size[1] * out[2], size[0] * out[1] * out[2]]
}

impl Variant<Cpu> for SeparableKernel {
    type Problem = Pool;
    type Config = SeparableConfig;

    identity!("cpu.pool.separable", Tiled);

    fn declines(&self, problem: &Pool, _: &DeviceFacts) -> Option<Decline> {
        let long = problem.window.kernel().iter().filter(|&&size| size > 1).count();
        let last = || Decline::because("channels lie behind the space; needs nchw");
        let single = || Decline::from(format!("the window is long along {long} axes; needs two"));
        let large = || Decline::because("a plane does not fit into the room there is");
        crate::kernels::not_of_type(problem.dtype)
            .or_else(|| (problem.channels == Channels::Last).then(last))
            .or_else(|| (long < 2).then(single))
            .or_else(|| (room(problem).iter().sum::<usize>() > MOST_ROOM).then(large))
    }

    fn configs(&self, problem: &Pool, device: &DeviceFacts) -> Vec<SeparableConfig> {
        threads(problem, device).into_iter().map(|threads| SeparableConfig { threads }).collect()
    }

    fn work(&self, problem: &Pool, config: SeparableConfig, _: &DeviceFacts) -> Work {
        let planes = (problem.batch() * problem.count()) as u64;
        let [first, second] = room(problem).map(|elements| elements as u64);
        let [depth, rows, columns] = problem.window.kernel().map(|size| size as u64);
        let steps = first * columns + second * rows + count(problem.window.out()) as u64 * depth;
        let (_, bytes) = counted(problem);
        let moved = planes.saturating_mul(2 * (first + second)).saturating_mul(problem.dtype.size());
        let bytes = Bytes(bytes.0.saturating_add(moved));
        let scratch =
            Bytes((first + second).saturating_mul(problem.dtype.size() * u64::from(config.threads)));
        Work { scratch, ..shared_work(Flops(planes.saturating_mul(steps)), bytes, config.threads, 4) }
    }

    fn launch(&self, problem: &Pool, config: SeparableConfig, args: Args<'_>) -> Launched {
        if problem.channels == Channels::Last || room(problem).iter().sum::<usize>() > MOST_ROOM {
            return Err(wrong_point(config));
        }
        by_float!(problem, T => {
            let typed = args.typed::<T>(lens(problem))?;
            let (places, elements) = (count(problem.window.out()), count(problem.window.size()));
            typed.pool.for_chunks(config.threads, typed.out, places.max(1), |first, to| {
                let start = first / places.max(1) * elements;
                plane::<T>(problem, &typed.lhs[start..start + elements], to);
            });
            Ok(())
        })
    }
}

fn plane<T: Pooled>(p: &Pool, from: &[T], to: &mut [T]) {
    let (size, out) = (p.window.size(), p.window.out());
    let [first, second] = room(p);
    with_room(first + second, |room: &mut [T]| {
        let (rows, planes) = room.split_at_mut(first);
        along(p, 2, from, rows, (size[0] * size[1], 1));
        along(p, 1, rows, planes, (size[0], out[2]));
        along(p, 0, planes, to, (1, out[1] * out[2]));
        if p.op == trimtab_core::PoolOp::Mean {
            for (place, to) in to.iter_mut().enumerate() {
                let place = [place / (out[1] * out[2]), place / out[2] % out[1], place % out[2]];
                *to = *to * T::from_f64(share(p, place));
            }
        }
    });
}

/// The windows along one axis of `outer × size × inner`.
fn along<T: Pooled>(p: &Pool, axis: usize, from: &[T], to: &mut [T], (outer, inner): (usize, usize)) {
    let (size, out) = (p.window.size()[axis], p.window.out()[axis]);
    for (nth, to) in to.chunks_mut((out * inner).max(1)).enumerate().take(outer) {
        let from = &from[nth * size * inner..(nth + 1) * size * inner];
        for (place, to) in to.chunks_mut(inner.max(1)).enumerate() {
            to.fill(T::start(p.op));
            for tap in taps(p, axis, place) {
                let line = &from[at(p, axis, place, tap) * inner..][..inner];
                to.iter_mut().zip(line).for_each(|(to, &x)| *to = T::step(p.op, *to, x));
            }
        }
    }
}
