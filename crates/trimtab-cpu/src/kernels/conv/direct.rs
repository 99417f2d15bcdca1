//! Windows one after the other over a padded copy of the operand: a vector of places and some channels of the result stay in
//! registers while the window is walked. Good where there are few channels, and where each has a window of its own.

use super::ending::{Bias, end};
use super::{Float, Given, count, given, needs_channels_first, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::lanes_of;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::{FloatVector, Level, MAX_LANES, Simd, Task, Vector};
use trimtab_core::{Conv, Decline, DeviceFacts, LaunchError, MAX_SPACE, Variant, Work};

trimtab_core::config! {
    /// Threads, and channels of the result that stay in registers together.
    pub struct DirectConfig { threads, channels }
}

/// Channels of the result that stay in registers together: with two vectors each, 6 fill the 16 registers of AVX2, 8 half the 32 of
/// AVX-512.
const CHANNELS: [u32; 4] = [6, 8, 4, 1];
/// Those there is code for, the most first.
const KNOWN: [u32; 5] = [8, 6, 4, 2, 1];
/// Vectors of places that stay in registers for each of them: one where a row fits into it.
const VECTORS: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct DirectKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

/// The operand's space with its padding, and room behind for the vectors that reach over it.
fn padded(problem: &Conv) -> [usize; MAX_SPACE] {
    let (size, pad) = (problem.window.size(), problem.window.pad());
    [0, 1, 2].map(|axis| size[axis] + 2 * pad[axis])
}

/// Elements of one group's padded copy.
fn room(problem: &Conv) -> u64 {
    let plane = padded(problem).iter().fold(1u64, |all, &size| all.saturating_mul(size as u64));
    plane.saturating_mul(problem.group_inputs() as u64).saturating_add((VECTORS * MAX_LANES) as u64)
}

/// Elements a thread needs: the copy, and the weights of channels that stay in registers together.
fn all_room(problem: &Conv) -> u64 {
    room(problem).saturating_add(problem.depth().saturating_mul(KNOWN[0].into()))
}

fn declines(problem: &Conv) -> Option<Decline> {
    let step = problem.window.stride()[2];
    let apart = || Decline::from(format!("places of a row are {step} apart; needs neighbours"));
    let large = || Decline::from(format!("a padded copy of {} elements is too large", room(problem)));
    crate::kernels::not_of_type(problem.dtype)
        .or_else(|| needs_channels_first(problem))
        .or_else(|| (step != 1).then(apart))
        .or_else(|| (all_room(problem) > MOST_ROOM as u64).then(large))
}

impl Variant<Cpu> for DirectKernel {
    type Problem = Conv;
    type Config = DirectConfig;

    identity!("cpu.conv.direct", Vectorized);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<DirectConfig> {
        let fits = |channels: &u32| *channels as usize <= problem.group_outputs() || *channels == 1;
        let with = |threads: u32| {
            CHANNELS.into_iter().filter(fits).map(move |channels| DirectConfig { threads, channels })
        };
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: DirectConfig, _: &DeviceFacts) -> Work {
        let copied =
            (problem.batch() as u64).saturating_mul(problem.groups() as u64).saturating_mul(room(problem));
        let rereads = (problem.group_outputs() as u64).div_ceil(config.channels.max(1).into());
        let moved = copied.saturating_mul(2 + rereads);
        let mut work = work(problem, moved, all_room(problem) * u64::from(config.threads), config.threads);
        work.lanes = lanes_of(problem.dtype, self.lanes);
        work
    }

    fn launch(&self, problem: &Conv, config: DirectConfig, args: Args<'_>) -> Launched {
        let known = KNOWN.contains(&config.channels);
        if !known || declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            convolve(problem, self.level, config, given::<T>(problem, args)?);
            Ok(())
        })
    }
}

fn convolve<T: Float>(p: &Conv, level: Level, config: DirectConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let (places, elements, depth) = (count(p.window.out()), count(p.window.size()), p.depth() as usize);
    if places == 0 || out.is_empty() {
        return;
    }
    let whole = Disjoint::new(out);
    // Where there are few groups, threads share the rows of the result; each makes a copy of its own.
    let rows = p.window.out()[0] * p.window.out()[1];
    let threads = config.threads.min(crate::pool::MAX_THREADS) as usize;
    let shares = threads.div_ceil((p.batch() * p.groups()).max(1)).clamp(1, rows.max(1));
    pool.run(config.threads, p.batch() * p.groups() * shares, &|task| {
        let (batch, rest) = (task / (p.groups() * shares), task % (p.groups() * shares));
        let (group, share) = (rest / shares, rest % shares);
        let own = rows * share / shares..rows * (share + 1) / shares;
        with_room(all_room(p) as usize, |all: &mut [T]| {
            let (room, packed) = all.split_at_mut(room(p) as usize);
            let first = (batch * p.inputs() + group * p.group_inputs()) * elements;
            pad(p, &operand[first..first + p.group_inputs() * elements], room);
            let mut channel = 0;
            while channel < p.group_outputs() {
                let left = (p.group_outputs() - channel).min(config.channels as usize);
                let fits = |some: &usize| *some <= left;
                let together = KNOWN.iter().map(|&some| some as usize).find(fits).unwrap_or(1);
                let output = group * p.group_outputs() + channel;
                pack(&weights[output * depth..(output + together) * depth], depth, packed);
                let strip = Strip { p, room, packed, out: &whole, batch, output, rows: own.clone() };
                match together {
                    8 => strip.run::<8>(level),
                    6 => strip.run::<6>(level),
                    4 => strip.run::<4>(level),
                    2 => strip.run::<2>(level),
                    _ => strip.run::<1>(level),
                }
                for output in output..output + together {
                    let start = (batch * p.outputs() + output) * places;
                    let columns = p.window.out()[2];
                    let range = start + own.start * columns..start + own.end * columns;
                    // SAFETY: every task has its own rows of the channels of its group.
                    let part = unsafe { whole.part(range) };
                    end(p, level, bias.map_or(Bias::None, |bias| Bias::One(bias[output])), part);
                }
                channel += together;
            }
        });
    });
}

/// Copies the channels of a group with zeros around them.
fn pad<T: Float>(p: &Conv, from: &[T], to: &mut [T]) {
    let (size, pad, wide) = (p.window.size(), p.window.pad(), padded(p));
    to.fill(T::ZERO);
    for channel in 0..p.group_inputs() {
        for z in 0..size[0] {
            for y in 0..size[1] {
                let line = &from[((channel * size[0] + z) * size[1] + y) * size[2]..][..size[2]];
                let start = ((channel * wide[0] + z + pad[0]) * wide[1] + y + pad[1]) * wide[2] + pad[2];
                to[start..start + size[2]].copy_from_slice(line);
            }
        }
    }
}

/// Copies the weights of some channels of the result so that those of one element of the window lie together.
fn pack<T: Float>(weights: &[T], depth: usize, to: &mut [T]) {
    let channels = weights.len().checked_div(depth).unwrap_or(0);
    for (nth, of_channel) in weights.chunks_exact(depth.max(1)).enumerate() {
        let to = to.iter_mut().skip(nth).step_by(channels);
        to.zip(of_channel).for_each(|(to, from)| *to = *from);
    }
}

/// Rows of some channels of the result.
struct Strip<'a, T> {
    p: &'a Conv,
    room: &'a [T],
    packed: &'a [T],
    out: &'a Disjoint<'a, T>,
    batch: usize,
    output: usize,
    rows: std::ops::Range<usize>,
}

impl<T: Float> Strip<'_, T> {
    fn run<const N: usize>(self, level: Level) {
        level.vectorize(Block::<T, N>(self));
    }
}

/// So many channels of the result together.
struct Block<'a, T, const N: usize>(Strip<'a, T>);

impl<T: Float, const N: usize> Task for Block<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.0.p.window.out()[2] <= <T::V<S> as Vector<T>>::LANES {
            self.0.columns::<S, N, 1>(simd);
        } else {
            self.0.columns::<S, N, VECTORS>(simd);
        }
    }
}

impl<T: Float> Strip<'_, T> {
    /// So many vectors of places at a time.
    #[inline(always)]
    fn columns<S: Simd, const N: usize, const V: usize>(self, simd: S) {
        let Strip { p, room, packed, out: whole, batch, output, rows } = self;
        let (out, kernel, wide) = (p.window.out(), p.window.kernel(), padded(p));
        let (stride, dilation) = (p.window.stride(), p.window.dilation());
        let lanes = <T::V<S> as Vector<T>>::LANES;
        let zero = T::V::<S>::splat(simd, T::ZERO);
        // What is read below ends at the last element of the last window, and a vector that begins there.
        let reach =
            [0, 1, 2].map(|axis| (out[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis]);
        let last = (reach[0] * wide[1] + reach[1]) * wide[2] + reach[2];
        let channels = p.group_inputs();
        let enough = channels == 0 || (channels - 1) * count(wide) + last + V * lanes <= room.len();
        assert!(enough && packed.len() >= N * channels * count(kernel) && V <= VECTORS);
        for row in rows {
            let (z, y) = (row / out[1], row % out[1]);
            let mut x = 0;
            while x < out[2] {
                let mut sums = [[zero; V]; N];
                let mut weights = packed.as_ptr();
                for channel in 0..channels {
                    for a in 0..kernel[0] {
                        for b in 0..kernel[1] {
                            let line = (channel * wide[0] + z * stride[0] + a * dilation[0]) * wide[1];
                            let start = (line + y * stride[1] + b * dilation[1]) * wide[2] + x;
                            for c in 0..kernel[2] {
                                // SAFETY: the element is at most the last of a window of the last channel, which was compared with
                                // the room; of `weights` there are N for every channel and element of the window.
                                unsafe {
                                    let from = room.as_ptr().add(start + c * dilation[2]);
                                    let mut seen = [zero; V];
                                    for (nth, seen) in seen.iter_mut().enumerate() {
                                        *seen = T::V::<S>::load(simd, from.add(nth * lanes));
                                    }
                                    for (nth, sums) in sums.iter_mut().enumerate() {
                                        let by = T::V::<S>::splat(simd, *weights.add(nth));
                                        for (sum, seen) in sums.iter_mut().zip(seen) {
                                            *sum = seen.fma(by, *sum);
                                        }
                                    }
                                    weights = weights.add(N);
                                }
                            }
                        }
                    }
                }
                let count = (out[2] - x).min(V * lanes);
                for (nth, sums) in sums.iter().enumerate() {
                    let start = ((batch * p.outputs() + output + nth) * out[0] * out[1] + row) * out[2] + x;
                    // SAFETY: every task has its own rows of the channels of its group.
                    let to = unsafe { whole.part(start..start + count) };
                    let mut all = [T::ZERO; VECTORS * MAX_LANES];
                    for (nth, sum) in sums.iter().enumerate() {
                        // SAFETY: there is room for so many vectors of the widest lanes.
                        unsafe { sum.store(all.as_mut_ptr().add(nth * lanes)) };
                    }
                    to.copy_from_slice(&all[..count]);
                }
                x += count;
            }
        }
    }
}
