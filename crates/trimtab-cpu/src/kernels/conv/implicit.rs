//! The product of weights and windows by the blocked product's register tiles, with windows packed on the fly, block by block, into the
//! very shape tiles read: im2col's matrix is never written, nor packed a second time.

use super::ending::{Bias, end, end_places};
use super::{Float, Given, along, count, given, place_of, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::matmul::blocked::{BlockedConfig, Source, multiply, pack_rhs};
use crate::kernels::matmul::float::vector_bits;
use crate::kernels::matmul::product::View;
use crate::simd::Level;
use trimtab_core::{Channels, Conv, Decline, DeviceFacts, LaunchError, MAX_SPACE, Variant, Work};

trimtab_core::config! {
    /// Threads; columns (`nc`) and rows (`kc`) of a packed block of the right operand, windows with nchw and weights with nhwc.
    pub struct ImplicitConfig { threads, nc, kc }
}

/// Blocks worth trying: columns, rows.
const BLOCKS: [[u32; 2]; 3] = [[384, 256], [96, 256], [1536, 128]];

/// Vectors a tile is wide: with three, rows of weights that are read in place made it half as fast.
const VECTORS: u32 = 2;

/// Parts a thread gets of what it does not pack anew for every part.
const PARTS_PER_THREAD: usize = 4;

/// Most rows any tile has, and most columns.
const EDGE: u64 = 12 + 48;

/// See the module.
#[derive(Debug)]
pub struct ImplicitKernel {
    pub(super) level: Level,
}

impl ImplicitConfig {
    fn blocked(self) -> BlockedConfig {
        let ImplicitConfig { nc, kc, .. } = self;
        BlockedConfig { bits: vector_bits()[0], vectors: VECTORS, nc, kc, pack: 1, threads: 1, split: 0 }
    }

    fn is_sound(self) -> bool {
        (1..=4096).contains(&self.nc) && (1..=4096).contains(&self.kc)
    }
}

impl Variant<Cpu> for ImplicitKernel {
    type Problem = Conv;
    type Config = ImplicitConfig;

    identity!("cpu.conv.implicit", Tiled);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        crate::kernels::not_of_type(problem.dtype)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<ImplicitConfig> {
        let columns = match problem.channels {
            Channels::First => count(problem.window.out()),
            Channels::Last => problem.group_outputs(),
        } as u64;
        // Blocks that hold all of both sides alike are one and the same.
        let useful = |[nc, _]: &[u32; 2]| *nc <= 96 || u64::from(*nc) < 4 * columns;
        let blocks: Vec<[u32; 2]> = BLOCKS.into_iter().filter(useful).collect();
        let with = |threads: u32| blocks.iter().map(move |&[nc, kc]| ImplicitConfig { threads, nc, kc });
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: ImplicitConfig, _: &DeviceFacts) -> Work {
        let places = (problem.batch() as u64).saturating_mul(count(problem.window.out()) as u64);
        let windows = places.saturating_mul(problem.depth()).saturating_mul(problem.groups() as u64);
        let (nc, kc) = (u64::from(config.nc.max(1)), u64::from(config.kc.max(1)));
        // Windows are read, packed and read again; weights once more for every block of places, or packed by every thread; the result
        // is read and written again for every further block of depth.
        let passes = problem.depth().div_ceil(kc).max(1);
        let weights = match problem.channels {
            Channels::First => problem.weights_len().saturating_mul(places.div_ceil(nc)),
            Channels::Last => problem.weights_len().saturating_mul(3 * u64::from(config.threads)),
        };
        let windows = match problem.channels {
            Channels::First => windows.saturating_mul(3),
            Channels::Last => windows.saturating_mul(3 * (problem.group_outputs() as u64).div_ceil(nc)),
        };
        let again = problem.out_len().saturating_mul(2 * (passes - 1));
        let scratch = kc.saturating_mul(nc + EDGE).saturating_mul(config.threads.into());
        work(problem, windows.saturating_add(weights).saturating_add(again), scratch, config.threads)
    }

    fn launch(&self, problem: &Conv, config: ImplicitConfig, args: Args<'_>) -> Launched {
        if !config.is_sound() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            let given = given::<T>(problem, args)?;
            match (problem.channels, given.out.is_empty()) {
                (_, true) => (),
                (Channels::First, _) => by_row(problem, self.level, config, given),
                (Channels::Last, _) => by_place(problem, self.level, config, given),
            }
            Ok(())
        })
    }
}

/// Channels before the space: rows of a product are channels of the result, columns its places.
fn by_row<T: Float>(p: &Conv, level: Level, config: ImplicitConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let (places, depth, outputs) = (count(p.window.out()), p.depth() as usize, p.group_outputs());
    let each = (config.nc as usize).min(places);
    let tiles = places.div_ceil(each);
    let whole = Disjoint::new(out);
    pool.run(config.threads, p.batch() * p.groups() * tiles, &|task| {
        let (image, first) = (task / tiles, task % tiles * each);
        let (batch, group) = (image / p.groups(), image % p.groups());
        let columns = each.min(places - first);
        let channels = (batch * p.inputs() + group * p.group_inputs()) * count(p.window.size());
        let source = PanelRows {
            p,
            operand: &operand[channels..channels + p.group_inputs() * count(p.window.size())],
            weights: &weights[group * outputs * depth..(group + 1) * outputs * depth],
            first,
        };
        let output = group * outputs;
        let start = (batch * p.outputs() + output) * places + first;
        let finish = |at: *mut T, rows: usize, columns: usize| {
            let from = (at as usize - whole.as_mut_ptr() as usize) / size_of::<T>();
            for row in 0..rows {
                let from = from + row * places;
                // SAFETY: every task has its own channels and places of the result.
                let row = unsafe { whole.part(from..from + columns) };
                let channel = from / places % p.outputs();
                end(p, level, bias.map_or(Bias::None, |bias| Bias::One(bias[channel])), row);
            }
        };
        let to = (whole.as_mut_ptr().wrapping_add(start), places);
        // SAFETY: every task has its own channels and places of the result, none of them empty.
        unsafe { product((outputs, columns, depth), &source, to, config, &finish) };
    });
}

/// Channels behind the space: rows of a product are places of all images, columns the channels of the result.
fn by_place<T: Float>(p: &Conv, level: Level, config: ImplicitConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let (depth, outputs) = (p.depth() as usize, p.group_outputs());
    let places = p.batch() * count(p.window.out());
    // Every part packs the weights anew.
    let parts = if config.threads > 1 { config.threads as usize * PARTS_PER_THREAD } else { 1 };
    let each = places.div_ceil(parts);
    let tiles = places.div_ceil(each);
    let whole = Disjoint::new(out);
    pool.run(config.threads, p.groups() * tiles, &|task| {
        let (group, first) = (task / tiles, task % tiles * each);
        let weights = &weights[group * outputs * depth..(group + 1) * outputs * depth];
        let source = Places { p, operand, weights, group, first };
        let output = group * outputs;
        let finish = |at: *mut T, rows: usize, columns: usize| {
            let from = (at as usize - whole.as_mut_ptr() as usize) / size_of::<T>();
            let (place, channel) = (from / p.outputs(), from % p.outputs());
            // SAFETY: every task has its own places and channels of the result.
            unsafe { end_places(p, level, bias, &whole, channel..channel + columns, place..place + rows) };
        };
        let to = (whole.as_mut_ptr().wrapping_add(first * p.outputs() + output), p.outputs());
        // SAFETY: every task has its own places and channels of the result, none of them empty.
        unsafe { product((each.min(places - first), outputs, depth), &source, to, config, &finish) };
    });
}

/// A product, or zeros where there is nothing to add up.
///
/// # Safety
/// As [`multiply`], but that the depth may be nothing.
unsafe fn product<T: Float>(
    sizes: (usize, usize, usize),
    source: &impl Source<T>,
    (out, out_row): (*mut T, usize),
    config: ImplicitConfig,
    finish: &impl Fn(*mut T, usize, usize),
) {
    let (rows, columns, depth) = sizes;
    if depth > 0 {
        // SAFETY: as promised by the caller. Settings were looked at before: there is a tile for them.
        let _ = unsafe { multiply(sizes, source, (out, out_row), config.blocked(), finish) };
        return;
    }
    for row in 0..rows {
        // SAFETY: as promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(out.add(row * out_row), columns) }.fill(T::ZERO);
    }
    finish(out, rows, columns);
}

/// Windows as columns, weights as rows: channels lie before the space.
struct PanelRows<'a, T> {
    p: &'a Conv,
    /// The channels of one image and group.
    operand: &'a [T],
    /// Those of the group.
    weights: &'a [T],
    /// The place of the first column.
    first: usize,
}

/// Places one after the other in a row of the result: where they begin in a strip, how many they are, and the first of them.
#[derive(Clone, Copy, Default)]
struct Stretch {
    at: usize,
    len: usize,
    place: [usize; MAX_SPACE],
}

/// Most columns of a strip: three vectors of 16.
const STRIP: usize = 48;

// SAFETY: rows and inner indices of the product are within the weights.
unsafe impl<T: Float> Source<T> for PanelRows<'_, T> {
    fn rhs(&self, (p, depth): (usize, usize), (col, cols): (usize, usize), width: usize, block: &mut [T]) {
        for (strip, packed) in (0..cols).step_by(width).zip(block.chunks_exact_mut(width * depth)) {
            let wide = width.min(cols - strip);
            let (mut runs, mut found, mut at) = ([Stretch::default(); STRIP], 0, 0);
            while at < wide {
                let place = place_of(self.p.window.out(), self.first + col + strip + at);
                let len = (self.p.window.out()[2] - place[2]).min(wide - at);
                runs[found] = Stretch { at, len, place };
                (at, found) = (at + len, found + 1);
            }
            self.strip(p, &runs[..found], width, packed);
        }
    }

    #[inline]
    fn lhs(&self, (row, rows): (usize, usize), (p, depth): (usize, usize), _: &mut [T]) -> View<T> {
        let line = self.p.depth() as usize;
        debug_assert!((row + rows - 1) * line + p + depth <= self.weights.len());
        View { start: self.weights.as_ptr().wrapping_add(row * line + p), row: line, col: 1 }
    }
}

impl<T: Float> PanelRows<'_, T> {
    /// Packs the elements of windows from one on.
    fn strip(&self, first: usize, runs: &[Stretch], width: usize, packed: &mut [T]) {
        let window = &self.p.window;
        let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
        let (pad, dilation) = (window.pad(), window.dilation());
        let [mut a, mut b, mut c] = place_of(kernel, first % count(kernel));
        let mut plane = first / count(kernel) * count(size);
        for to in packed.chunks_exact_mut(width) {
            for run in runs {
                let to = &mut to[run.at..run.at + run.len];
                let [z, y, x] = run.place;
                let line = along(z, stride[0], a, dilation[0], pad[0], size[0]).zip(along(
                    y,
                    stride[1],
                    b,
                    dilation[1],
                    pad[1],
                    size[1],
                ));
                match line {
                    None => to.fill(T::ZERO),
                    Some((z, y)) => {
                        let line = &self.operand[plane + (z * size[1] + y) * size[2]..][..size[2]];
                        let start = x * stride[2] + c * dilation[2];
                        match start.checked_sub(pad[2]) {
                            // Most windows see no padding.
                            Some(from) if stride[2] == 1 && from + to.len() <= size[2] => {
                                to.copy_from_slice(&line[from..from + to.len()]);
                            }
                            Some(from) if from + (to.len() - 1) * stride[2] < size[2] => {
                                let from = line[from..].iter().step_by(stride[2]);
                                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                            }
                            _ => {
                                for (nth, to) in to.iter_mut().enumerate() {
                                    let at = (start + nth * stride[2]).checked_sub(pad[2]);
                                    *to = at.and_then(|at| line.get(at)).copied().unwrap_or(T::ZERO);
                                }
                            }
                        }
                    }
                }
            }
            // The next element of the window, or the first of the next channel.
            c += 1;
            if c == kernel[2] {
                (c, b) = (0, b + 1);
                if b == kernel[1] {
                    (b, a) = (0, a + 1);
                    if a == kernel[0] {
                        (a, plane) = (0, plane + count(size));
                    }
                }
            }
        }
    }
}

/// Windows as rows, weights as columns: channels lie behind the space.
struct Places<'a, T> {
    p: &'a Conv,
    operand: &'a [T],
    /// Those of the group.
    weights: &'a [T],
    group: usize,
    /// The place of the first row, counted over all images.
    first: usize,
}

// SAFETY: rows are written to the panel, one after the other, and read there.
unsafe impl<T: Float> Source<T> for Places<'_, T> {
    #[inline]
    fn rhs(&self, inner: (usize, usize), columns: (usize, usize), width: usize, block: &mut [T]) {
        let rhs = View { start: self.weights.as_ptr(), row: 1, col: self.p.depth() as usize };
        // SAFETY: the weights of a group are its channels of the result by the depth.
        unsafe { pack_rhs(rhs, inner, columns, width, block) };
    }

    fn lhs(&self, (row, rows): (usize, usize), (p, depth): (usize, usize), panel: &mut [T]) -> View<T> {
        let window = &self.p.window;
        let (out, size, kernel) = (window.out(), window.size(), window.kernel());
        let (stride, pad, dilation) = (window.stride(), window.pad(), window.dilation());
        let channels = self.p.group_inputs();
        for (nth, to) in panel[..rows * depth].chunks_exact_mut(depth).enumerate() {
            let place = self.first + row + nth;
            let (image, place) = (place / count(out), place_of(out, place % count(out)));
            // The channels of one element of the window at a time, of which the first and the last may be cut.
            let mut done = 0;
            while done < depth {
                let (tap, channel) = ((p + done) / channels, (p + done) % channels);
                let len = (channels - channel).min(depth - done);
                let (of, to) = (place_of(kernel, tap), &mut to[done..done + len]);
                let axis = |axis: usize| {
                    along(place[axis], stride[axis], of[axis], dilation[axis], pad[axis], size[axis])
                };
                match (axis(0), axis(1), axis(2)) {
                    (Some(z), Some(y), Some(x)) => {
                        let at = ((image * size[0] + z) * size[1] + y) * size[2] + x;
                        let from = at * self.p.inputs() + self.group * channels + channel;
                        to.copy_from_slice(&self.operand[from..from + len]);
                    }
                    _ => to.fill(T::ZERO),
                }
                done += len;
            }
        }
        View { start: panel.as_ptr(), row: depth, col: 1 }
    }
}
