//! A window of its own for every channel. Before the space, channels are taken one by one: a band of rows is copied with zeros at both
//! ends, apart by place within a stride, so that every element of the window is a plain vector of neighbours. Behind it, vectors are of
//! channels, and nothing is copied but the weights, turned so that theirs lie together.

use super::ending::{Bias, end, end_places};
use super::im2col::copy_line;
use super::{Float, Given, along, count, given, load_some, place_of, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::lanes_of;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::{FloatVector, Level, MAX_LANES, Simd, Task, Vector};
use std::ops::Range;
use trimtab_core::{Channels, Conv, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and vectors of results that stay in registers together: 1, 2, 4 or 8.
    pub struct DepthwiseConfig { threads, vectors }
}

/// Vectors of results that stay in registers together.
const VECTORS: [u32; 3] = [4, 2, 8];

/// Elements of a band: what is copied stays in a second-level cache of 256 KiB.
const BAND: usize = 32 << 10;

/// Bands a thread gets, so that one that is held up does not hold up all.
const BANDS_PER_THREAD: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct DepthwiseKernel {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

/// How planes are cut into bands of rows.
struct Cut {
    /// Elements of a row's part at one place within a stride, with room for the vectors that reach over it.
    line: usize,
    /// Rows of the result in a band, and of the operand at most.
    rows: usize,
    seen: usize,
}

impl Cut {
    /// For so many threads, and so many results in registers together.
    fn new(p: &Conv, threads: u32, wide: usize) -> Cut {
        let (window, out) = (&p.window, p.window.out());
        let (stride, reach) = (window.stride(), [0, 1, 2].map(|axis| reach(p, axis)));
        let line = out[2].next_multiple_of(wide.max(1)) + reach[2].div_ceil(stride[2]);
        let row = (line * stride[2]).saturating_mul(window.size()[0]);
        let planes = (p.batch() * p.groups()).max(1);
        let wanted = if threads > 1 { (BANDS_PER_THREAD * threads as usize).div_ceil(planes) } else { 1 };
        let fitting = (BAND / row.max(1)).saturating_sub(reach[1]) / stride[1];
        let rows = fitting.min(out[1].div_ceil(wanted)).clamp(1, out[1].max(1));
        Cut { line, rows, seen: ((rows - 1) * stride[1] + reach[1]).min(window.size()[1]) }
    }

    fn room(&self, p: &Conv) -> usize {
        let row = self.line.saturating_mul(p.window.stride()[2]);
        row.saturating_mul(p.window.size()[0].saturating_mul(self.seen))
    }
}

/// Elements a window reaches over along an axis.
fn reach(p: &Conv, axis: usize) -> usize {
    p.window.dilation()[axis] * (p.window.kernel()[axis] - 1) + 1
}

/// Elements a thread needs, or the weights.
fn room(p: &Conv, threads: u32, wide: usize) -> usize {
    match p.channels {
        Channels::First => Cut::new(p, threads, wide).room(p),
        Channels::Last => (p.outputs() + MAX_LANES).saturating_mul(count(p.window.kernel())),
    }
}

fn declines(p: &Conv) -> Option<Decline> {
    let (groups, inputs, outputs) = (p.groups(), p.inputs(), p.outputs());
    let shared =
        || Decline::from(format!("takes a group for every channel, {inputs} channels are in {groups}"));
    let several = || {
        Decline::from(format!(
            "with nhwc takes as many results as channels, {inputs} channels have {outputs}"
        ))
    };
    let large = || Decline::because("a band of rows does not fit into the room there is");
    crate::kernels::not_of_type(p.dtype)
        .or_else(|| (p.group_inputs() != 1).then(shared))
        .or_else(|| (p.channels == Channels::Last && inputs != outputs).then(several))
        .or_else(|| (room(p, 1, 8 * MAX_LANES) > MOST_ROOM).then(large))
}

impl DepthwiseKernel {
    /// Results of a row that stay in registers together.
    fn wide(&self, problem: &Conv, config: DepthwiseConfig) -> usize {
        (config.vectors * lanes_of(problem.dtype, self.lanes)) as usize
    }
}

impl Variant<Cpu> for DepthwiseKernel {
    type Problem = Conv;
    type Config = DepthwiseConfig;

    identity!("cpu.conv.depthwise", Vectorized);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<DepthwiseConfig> {
        // More vectors than a row of results has only idle.
        let row = problem.window.out()[2] as u32;
        let each = match problem.channels {
            Channels::First => lanes_of(problem.dtype, self.lanes),
            Channels::Last => 1,
        };
        let useful = |vectors: &u32| *vectors == 2 || vectors / 2 * each < row;
        let with = |threads: u32| {
            VECTORS.into_iter().filter(useful).map(move |vectors| DepthwiseConfig { threads, vectors })
        };
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: DepthwiseConfig, _: &DeviceFacts) -> Work {
        // A copy is written once, and read once for every element of the window.
        let taps = count(problem.window.kernel()) as u64;
        let copied = match problem.channels {
            Channels::First => problem.operand_len(),
            Channels::Last => 0,
        };
        let moved = copied.saturating_add(problem.out_len().saturating_mul(taps));
        let rooms = if problem.channels == Channels::First { config.threads } else { 1 };
        let scratch = room(problem, config.threads, self.wide(problem, config)) as u64 * u64::from(rooms);
        let mut work = work(problem, moved, scratch, config.threads);
        work.lanes = lanes_of(problem.dtype, self.lanes);
        work
    }

    fn launch(&self, problem: &Conv, config: DepthwiseConfig, args: Args<'_>) -> Launched {
        let known = [1, 2, 4, 8].contains(&config.vectors);
        if !known || declines(problem).is_some() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            let given = given::<T>(problem, args)?;
            match (problem.channels, given.out.is_empty()) {
                (_, true) => (),
                (Channels::First, _) => {
                    let cut = Cut::new(problem, config.threads, self.wide(problem, config));
                    planes(problem, self.level, config, &cut, given);
                }
                (Channels::Last, _) => places(problem, self.level, config, given),
            }
            Ok(())
        })
    }
}

fn planes<T: Float>(p: &Conv, level: Level, config: DepthwiseConfig, cut: &Cut, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let whole = Disjoint::new(out);
    let (size, taps) = (p.window.out(), count(p.window.kernel()));
    let bands = size[1].div_ceil(cut.rows);
    pool.run(config.threads, p.batch() * p.inputs() * bands, &|task| {
        let (plane, band) = (task / bands, task % bands);
        let rows = band * cut.rows..size[1].min((band + 1) * cut.rows);
        with_room(cut.room(p), |room: &mut [T]| {
            let (from, elements) = (plane * count(p.window.size()), count(p.window.size()));
            let seen = copy(p, cut, &operand[from..from + elements], &rows, room);
            let outputs = p.group_outputs();
            for nth in 0..outputs {
                let output = plane % p.inputs() * outputs + nth;
                let weights = &weights[output * taps..(output + 1) * taps];
                let start = (plane / p.inputs() * p.outputs() + output) * count(size);
                let bias = bias.map_or(Bias::None, |bias| Bias::One(bias[output]));
                let band = Band { p, cut, room, seen: seen.clone(), weights };
                for row in (0..size[0]).flat_map(|z| rows.clone().map(move |y| z * size[1] + y)) {
                    // SAFETY: every task has its own rows of the results of its channel.
                    let to = unsafe { whole.part(start + row * size[2]..start + (row + 1) * size[2]) };
                    match config.vectors {
                        1 => level.vectorize(Streak::<T, 1> { band: &band, row, to: &mut *to }),
                        2 => level.vectorize(Streak::<T, 2> { band: &band, row, to: &mut *to }),
                        4 => level.vectorize(Streak::<T, 4> { band: &band, row, to: &mut *to }),
                        _ => level.vectorize(Streak::<T, 8> { band: &band, row, to: &mut *to }),
                    }
                    end(p, level, bias, to);
                }
            }
        });
    });
}

/// Copies the rows that rows of the result see, and says which they are.
fn copy<T: Float>(p: &Conv, cut: &Cut, plane: &[T], rows: &Range<usize>, to: &mut [T]) -> Range<usize> {
    let (size, stride, pad) = (p.window.size(), p.window.stride(), p.window.pad());
    let first = (rows.start * stride[1]).saturating_sub(pad[1]).min(size[1]);
    let last = ((rows.end - 1) * stride[1] + reach(p, 1)).saturating_sub(pad[1]).clamp(first, size[1]);
    let lines = (0..size[0]).flat_map(|z| (first..last).map(move |y| z * size[1] + y));
    for (to, line) in to.chunks_mut(cut.line * stride[2]).zip(lines) {
        let line = &plane[line * size[2]..][..size[2]];
        for (nth, to) in to.chunks_mut(cut.line).enumerate() {
            copy_line(line, to, nth, pad[2], stride[2]);
        }
    }
    first..last
}

/// Rows of one channel of the operand, copied, and the weights of a channel of the result.
struct Band<'a, T> {
    p: &'a Conv,
    cut: &'a Cut,
    room: &'a [T],
    seen: Range<usize>,
    weights: &'a [T],
}

/// One row of the result, so many vectors of places together.
struct Streak<'a, T, const N: usize> {
    band: &'a Band<'a, T>,
    row: usize,
    to: &'a mut [T],
}

impl<T: Float, const N: usize> Task for Streak<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Streak { band: &Band { p, cut, room, ref seen, weights }, row, to } = self;
        let (window, lanes) = (&p.window, <T::V<S> as Vector<T>>::LANES);
        let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
        let (pad, dilation, line) = (window.pad(), window.dilation(), cut.line);
        let place = place_of(window.out(), row * to.len());
        let zero = T::V::<S>::splat(simd, T::ZERO);
        let mut x = 0;
        while x < to.len() {
            let mut sums = [zero; N];
            for a in 0..kernel[0] {
                let Some(z) = along(place[0], stride[0], a, dilation[0], pad[0], size[0]) else { continue };
                for b in 0..kernel[1] {
                    let Some(y) = along(place[1], stride[1], b, dilation[1], pad[1], size[1]) else {
                        continue;
                    };
                    let start = (z * seen.len() + y - seen.start) * line * stride[2] + x;
                    let weights = &weights[(a * kernel[1] + b) * kernel[2]..][..kernel[2]];
                    for (c, &weight) in weights.iter().enumerate() {
                        let off = c * dilation[2];
                        let (part, shift) =
                            if stride[2] == 1 { (0, off) } else { (off % stride[2], off / stride[2]) };
                        let from = &room[start + part * line + shift..][..N * lanes];
                        let by = T::V::<S>::splat(simd, weight);
                        for (nth, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: that many elements are there.
                            *sum = unsafe { T::V::<S>::load(simd, from.as_ptr().add(nth * lanes)) }
                                .fma(by, *sum);
                        }
                    }
                }
            }
            let part = &mut to[x..];
            let count = part.len().min(N * lanes);
            if count == N * lanes {
                for (nth, sum) in sums.iter().enumerate() {
                    // SAFETY: that many places are there.
                    unsafe { sum.store(part.as_mut_ptr().add(nth * lanes)) };
                }
            } else {
                let mut all = [[T::ZERO; MAX_LANES]; N];
                for (nth, (sum, all)) in sums.iter().zip(&mut all).enumerate() {
                    // SAFETY: no vector has more lanes than there are places.
                    unsafe { sum.store(all.as_mut_ptr()) };
                    if let Some(part) = part[..count].get_mut(nth * lanes..) {
                        let count = part.len().min(lanes);
                        part[..count].copy_from_slice(&all[..count]);
                    }
                }
            }
            x += count;
        }
    }
}

fn places<T: Float>(p: &Conv, level: Level, config: DepthwiseConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let (size, taps, channels) = (p.window.out(), count(p.window.kernel()), p.outputs());
    let (whole, rows) = (Disjoint::new(out), p.batch() * size[0] * size[1]);
    with_room(room(p, config.threads, 1), |turned: &mut [T]| {
        for (tap, to) in turned.chunks_mut(channels + MAX_LANES).enumerate().take(taps) {
            let of_tap = weights.iter().skip(tap).step_by(taps);
            to.iter_mut().zip(of_tap).for_each(|(to, from)| *to = *from);
        }
        let turned: &[T] = turned;
        let each =
            if config.threads > 1 { rows.div_ceil(BANDS_PER_THREAD * config.threads as usize) } else { rows };
        pool.run(config.threads, rows.div_ceil(each), &|task| {
            for row in task * each..rows.min((task + 1) * each) {
                let first = row * size[2];
                // SAFETY: every task has its own rows of the result.
                let to = unsafe { whole.part(first * channels..(first + size[2]) * channels) };
                let line = Line { p, operand, turned, row, to };
                match config.vectors {
                    1 => level.vectorize(Together::<T, 1>(line)),
                    2 => level.vectorize(Together::<T, 2>(line)),
                    4 => level.vectorize(Together::<T, 4>(line)),
                    _ => level.vectorize(Together::<T, 8>(line)),
                }
                // SAFETY: every task has its own rows of the result.
                unsafe { end_places(p, level, bias, &whole, 0..channels, first..first + size[2]) };
            }
        });
    });
}

/// One row of places of the result, with all channels.
struct Line<'a, T> {
    p: &'a Conv,
    operand: &'a [T],
    turned: &'a [T],
    row: usize,
    to: &'a mut [T],
}

/// So many places together.
struct Together<'a, T, const N: usize>(Line<'a, T>);

impl<T: Float, const N: usize> Task for Together<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (window, width) = (&self.0.p.window, self.0.p.window.out()[2]);
        let (stride, pad) = (window.stride()[2], window.pad()[2]);
        // The places whose windows have no padding at either side.
        let first = pad.div_ceil(stride).min(width);
        let behind =
            (window.size()[2] + pad).checked_sub(reach(self.0.p, 2)).map_or(0, |last| last / stride + 1);
        let last = behind.clamp(first, width);
        let mut line = self.0;
        let whole = line.p.outputs() >= <T::V<S> as Vector<T>>::LANES;
        let mut x = 0;
        while x < width {
            if whole && x >= first && x + N <= last {
                line.some::<S, N, true>(simd, x);
                x += N;
            } else {
                line.some::<S, 1, false>(simd, x);
                x += 1;
            }
        }
    }
}

impl<T: Float> Line<'_, T> {
    /// So many places from one on. `INNER`: no window has padding at either side, and there are channels for a vector.
    #[inline(always)]
    fn some<S: Simd, const N: usize, const INNER: bool>(&mut self, simd: S, x: usize) {
        let Line { p, operand, turned, row, ref mut to } = *self;
        let (window, channels, lanes) = (&p.window, p.outputs(), <T::V<S> as Vector<T>>::LANES);
        let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
        let (pad, dilation, out) = (window.pad(), window.dilation(), window.out());
        let (image, place) = (row / (out[0] * out[1]), place_of(out, row % (out[0] * out[1]) * out[2]));
        let zero = T::V::<S>::splat(simd, T::ZERO);
        for channel in (0..channels).step_by(lanes) {
            // The last vector has some channels of the one before it.
            let channel = channel.min(channels.saturating_sub(lanes));
            let count = if INNER { lanes } else { lanes.min(channels) };
            let mut sums = [zero; N];
            for a in 0..kernel[0] {
                let Some(z) = along(place[0], stride[0], a, dilation[0], pad[0], size[0]) else { continue };
                for b in 0..kernel[1] {
                    let Some(y) = along(place[1], stride[1], b, dilation[1], pad[1], size[1]) else {
                        continue;
                    };
                    let line = ((image * size[0] + z) * size[1] + y) * size[2];
                    for c in 0..kernel[2] {
                        let tap = (a * kernel[1] + b) * kernel[2] + c;
                        let by = &turned[tap * (channels + MAX_LANES) + channel..][..lanes];
                        // SAFETY: that many elements are there.
                        let by = unsafe { T::V::<S>::load(simd, by.as_ptr()) };
                        if INNER {
                            let start =
                                (line + x * stride[2] + c * dilation[2] - pad[2]) * channels + channel;
                            let step = stride[2] * channels;
                            let from = &operand[start..][..(N - 1) * step + lanes];
                            for (nth, sum) in sums.iter_mut().enumerate() {
                                // SAFETY: that many elements are there.
                                *sum = unsafe { T::V::<S>::load(simd, from.as_ptr().add(nth * step)) }
                                    .fma(by, *sum);
                            }
                        } else if let Some(at) = along(x, stride[2], c, dilation[2], pad[2], size[2]) {
                            let from = &operand[(line + at) * channels + channel..][..count];
                            // SAFETY: that many elements are there.
                            let from: T::V<S> = unsafe { load_some(simd, from.as_ptr(), count, T::ZERO) };
                            sums[0] = from.fma(by, sums[0]);
                        }
                    }
                }
            }
            for (nth, sum) in sums.iter().enumerate() {
                let to = &mut to[(x + nth) * channels + channel..][..count];
                if count == lanes {
                    // SAFETY: that many places are there.
                    unsafe { sum.store(to.as_mut_ptr()) };
                } else {
                    let mut all = [T::ZERO; MAX_LANES];
                    // SAFETY: no vector has more lanes than there are places.
                    unsafe { sum.store(all.as_mut_ptr()) };
                    to.copy_from_slice(&all[..count]);
                }
            }
        }
    }
}
