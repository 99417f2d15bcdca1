//! Winograd's minimal filtering, F(2×2, 3×3) and F(4×4, 3×3): tiles of the operand and the weights are transformed, multiplied
//! element by element, which over all channels are 16 (36) matrix products, and transformed back. A result takes 4 (2.25)
//! multiplications a channel in place of 9.
//!
//! **Error.** With unit roundoff u, C channels and `|·|` taken of every element, a tile is off by at most
//! `(C + 7) u · Σ |A|ᵀ[(|G||g||G|ᵀ) ∘ (|B|ᵀ|d||B|)]|A|`, with C + 15 for tiles of 4: two (six) roundings of the operand, one of the
//! weights, which are transformed in f64, C of the sums and four (eight) of the way back. `tests.rs` checks that. For numbers of one size
//! the sum is up to 7.1 times what a window adds up to; for tiles of 4 up to 28 times at the first result of a tile, 256 times at the last.
//! Rounding errors mostly cancel, and more so over more channels: see `LEAST_CHANNELS`.
//!
//! Seen in a simulation, on numbers of several sizes: 1.2 ε of what a window adds up to with tiles of 2 and 8 channels, 0.6 with 256; 28
//! and 8 with tiles of 4. The kernel's own test saw 0.6 to 1.1, and 7.5 to 9.7. The gate allows 4; tiles of 4 state 128, and answer only
//! where the caller's tolerance allows that.
//!
//! The bound is of the tile, not of the window: next to a number a million times larger a result has six digits less. What is not
//! finite would spread over its tile; such results are computed again, window by window.

mod transform;
mod vectors;

#[cfg(test)]
mod tests;

use super::ending::{Bias, end, end_places};
use super::pointwise::{Strided, multiplied};
use super::{Float, Given, given, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::{Level, MAX_LANES};
use trimtab_core::{Channels, Conv, Decline, DeviceFacts, Flops, LaunchError, Variant, Work};
use vectors::{ByChannel, ByRow, Places, TileRows, Weights};

trimtab_core::config! {
    /// Threads, the side of a tile of the result (2 or 4), and tiles that are transformed at once.
    pub struct WinogradConfig { threads, tile, tiles }
}

/// Tiles that are transformed at once, as far as whole rows of them allow.
const TILES: [u32; 3] = [128, 32, 512];

/// Units of rounding that tiles of 4 may be off, of what a window adds up to: four times what was seen with the fewest channels. Those of
/// 2 stay within what every kernel may be off.
const ROUGH_UNITS: f64 = 128.0;

/// Channels below which the errors of the transforms do not vanish in those of the sums.
const LEAST_CHANNELS: usize = 8;

/// Output channels whose weights a thread transforms at once.
const WEIGHTS_AT_ONCE: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct WinogradKernel {
    pub(super) level: Level,
}

/// Elements from one of many arrays to the next: an odd number of cache lines. Arrays a multiple of 4 KiB apart fall on the same lines of
/// a first-level cache, and 16 are written at a time: so placed, 512 × 512 channels at 7 × 7 places took 22 ms, by im2col 3.6.
fn odd_lines(elements: usize) -> usize {
    (elements.div_ceil(MAX_LANES) | 1).saturating_mul(MAX_LANES)
}

/// How a problem is cut into tiles.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Side of a tile of the result, and of the operand.
    m: usize,
    n: usize,
    /// Tiles in a row, rows of them in an image, rows of them that make a block.
    across: usize,
    down: usize,
    rows: usize,
    /// Elements from one line of the transformed operand, and of the products, to the next: tiles of a channel, or channels of a tile.
    lines: [usize; 2],
    /// Elements of a transformed operand, of the products.
    sizes: [usize; 2],
}

impl Cut {
    fn new(p: &Conv, tile: u32, tiles: u32) -> Cut {
        let (m, out) = (tile as usize, p.window.out());
        let (across, down) = (out[2].div_ceil(m), out[1].div_ceil(m));
        let rows = (tiles as usize / across.max(1)).clamp(1, (p.batch() * down).max(1));
        let width = rows.saturating_mul(across);
        // Vectors may reach over the end of a line.
        let (lines, counts) = match p.channels {
            Channels::First => ([width + MAX_LANES; 2], [p.inputs(), p.outputs()]),
            Channels::Last => ([p.inputs() + MAX_LANES, p.outputs() + MAX_LANES], [width; 2]),
        };
        let n = m + 2;
        let sizes = [0, 1].map(|side: usize| odd_lines(lines[side].saturating_mul(counts[side])));
        Cut { m, n, across, down, rows, lines, sizes }
    }

    /// Elements of one row of tiles, taken apart by their place in a tile: of the operand, of the result.
    fn apart(&self) -> [usize; 2] {
        let line = self.across + 1 + MAX_LANES;
        [self.n * self.m * line, self.m * self.m * line]
    }

    /// Elements of the transformed weights.
    fn weights(&self, p: &Conv) -> usize {
        (self.n * self.n).saturating_mul(odd_lines(p.inputs().saturating_mul(p.outputs())))
    }

    /// Elements a thread needs for a block.
    fn block(&self) -> usize {
        let products = (self.n * self.n).saturating_mul(self.sizes[0].saturating_add(self.sizes[1]));
        products.saturating_add(self.apart()[0] + self.apart()[1])
    }

    fn fits(&self, p: &Conv) -> bool {
        self.weights(p) <= MOST_ROOM && self.block() <= MOST_ROOM
    }
}

fn declines(p: &Conv) -> Option<Decline> {
    let w = &p.window;
    let takes = w.rank() == 2 && w.kernel() == [1, 3, 3] && w.stride() == [1; 3] && w.dilation() == [1; 3];
    let window = || Decline::because("takes windows of 3 x 3, one apart and whole");
    let padding = || {
        Decline::because(
            "takes padding up to one: a window that sees little else would have its tile's error",
        )
    };
    let groups = || Decline::from(format!("takes one group of channels, this has {}", p.groups()));
    let few = || {
        let found = p.inputs();
        Decline::from(format!(
            "{found} channels are summed; from {LEAST_CHANNELS} on the errors of the transforms vanish in the sums"
        ))
    };
    let large = || Decline::because("transformed weights or tiles do not fit into the room there is");
    crate::kernels::not_of_type(p.dtype)
        .or_else(|| (!takes).then(window))
        .or_else(|| (w.pad()[1] > 1 || w.pad()[2] > 1).then(padding))
        .or_else(|| (p.groups() != 1).then(groups))
        .or_else(|| (p.inputs() < LEAST_CHANNELS).then(few))
        .or_else(|| (!Cut::new(p, 2, TILES[1]).fits(p)).then(large))
}

impl Variant<Cpu> for WinogradKernel {
    type Problem = Conv;
    type Config = WinogradConfig;

    identity!("cpu.conv.winograd", Library);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<WinogradConfig> {
        if declines(problem).is_some() {
            return Vec::new();
        }
        let mut all: Vec<(u32, u32)> = Vec::new();
        for tile in [2, 4] {
            let mut seen = Vec::new();
            for tiles in TILES {
                let cut = Cut::new(problem, tile, tiles);
                if !seen.contains(&cut.rows) && cut.fits(problem) {
                    all.push((tile, tiles));
                }
                seen.push(cut.rows);
            }
        }
        let with =
            |threads: u32| all.iter().map(move |&(tile, tiles)| WinogradConfig { threads, tile, tiles });
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: WinogradConfig, device: &DeviceFacts) -> Work {
        let cut = Cut::new(problem, config.tile.max(1), config.tiles);
        let tiles = (problem.batch() * cut.across * cut.down) as u64;
        let (inputs, outputs) = (problem.inputs() as u64, problem.outputs() as u64);
        let elements = (cut.n * cut.n) as u64;
        // The operand's tiles and the products are written and read, the weights once more for every block.
        let blocks = (problem.batch() * cut.down).div_ceil(cut.rows) as u64;
        let weights = (cut.weights(problem) as u64).saturating_mul(1 + blocks);
        let moved = elements.saturating_mul(tiles).saturating_mul(2 * (inputs + outputs));
        let room = cut.weights(problem) as u64 + cut.block() as u64 * u64::from(config.threads);
        let product = [outputs, (cut.rows * cut.across) as u64, inputs];
        let all = work(problem, moved.saturating_add(weights), room, config.threads);
        let mut work = multiplied(all, device, product, problem.dtype);
        // Additions of the transforms: 1 (3) for each element and axis of the operand, and twice that of the way back.
        let each = if config.tile == 2 { 2 } else { 6 };
        let products = elements.saturating_mul(tiles).saturating_mul(2 * inputs * outputs);
        let turned = elements.saturating_mul(tiles).saturating_mul(each * (inputs + 2 * outputs));
        work.flops = Flops(products.saturating_add(turned));
        if config.tile != 2 {
            work.error = ROUGH_UNITS * problem.dtype.epsilon();
        }
        work
    }

    fn launch(&self, problem: &Conv, config: WinogradConfig, args: Args<'_>) -> Launched {
        let known = matches!(config.tile, 2 | 4) && config.tiles > 0;
        if !known
            || declines(problem).is_some()
            || !Cut::new(problem, config.tile, config.tiles).fits(problem)
        {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            let given = given::<T>(problem, args)?;
            match config.tile {
                2 => convolve::<T, 4>(problem, self.level, config, given),
                _ => convolve::<T, 6>(problem, self.level, config, given),
            }
            Ok(())
        })
    }
}

fn convolve<T: Float, const N: usize>(p: &Conv, level: Level, config: WinogradConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    if out.is_empty() {
        return;
    }
    let cut = Cut::new(p, config.tile, config.tiles);
    let whole = Disjoint::new(out);
    let (inputs, outputs) = (p.inputs(), p.outputs());
    let step = odd_lines(inputs * outputs);
    with_room(cut.weights(p), |turned: &mut [T]| {
        let parts = Disjoint::new(turned);
        pool.run(config.threads, outputs.div_ceil(WEIGHTS_AT_ONCE), &|task| {
            let first = task * WEIGHTS_AT_ONCE;
            for output in first..outputs.min(first + WEIGHTS_AT_ONCE) {
                level.vectorize(Weights::<T, N> { p, weights, output, step, to: &parts });
            }
        });
        let turned: &[T] = turned;
        let rows = p.batch() * cut.down;
        pool.run(config.threads, rows.div_ceil(cut.rows), &|task| {
            let first = task * cut.rows;
            let rows = cut.rows.min(rows - first);
            with_room(cut.block(), |room: &mut [T]| {
                let (of_operand, rest) = room.split_at_mut(N * N * cut.sizes[0]);
                let (products, rest) = rest.split_at_mut(N * N * cut.sizes[1]);
                let (apart, together) = rest.split_at_mut(cut.apart()[0]);
                let block = Block { p, cut, first, rows };
                match p.channels {
                    Channels::First => {
                        level.vectorize(ByRow::<T, N> { block, operand, apart, to: of_operand })
                    }
                    Channels::Last => level.vectorize(ByChannel::<T, N> { block, operand, to: of_operand }),
                }
                for element in 0..N * N {
                    let of_operand = &of_operand[element * cut.sizes[0]..][..cut.sizes[0]];
                    let products = &mut products[element * cut.sizes[1]..][..cut.sizes[1]];
                    let turned = &turned[element * step..][..inputs * outputs];
                    let product = match p.channels {
                        Channels::First => Strided {
                            sizes: [outputs, rows * cut.across, inputs],
                            lhs: (turned.as_ptr(), inputs, 1),
                            rhs: (of_operand.as_ptr(), cut.lines[0], 1),
                            out: (products.as_mut_ptr(), cut.lines[1], 1),
                        },
                        Channels::Last => Strided {
                            sizes: [rows * cut.across, outputs, inputs],
                            lhs: (of_operand.as_ptr(), cut.lines[0], 1),
                            rhs: (turned.as_ptr(), 1, inputs),
                            out: (products.as_mut_ptr(), cut.lines[1], 1),
                        },
                    };
                    // SAFETY: the operands have these sizes and lines; the products are this task's own.
                    unsafe { product.multiply() };
                }
                let back = Back { block, products, operand, weights, bias, out: &whole, level };
                match p.channels {
                    Channels::First => back.by_row::<N>(together),
                    Channels::Last => back.by_channel::<N>(),
                }
            });
        });
    });
}

/// Rows of tiles, counted over all images, from a first one on.
#[derive(Clone, Copy)]
struct Block<'a> {
    p: &'a Conv,
    cut: Cut,
    first: usize,
    rows: usize,
}

impl Block<'_> {
    /// The image and the first row of its result of the nth row of tiles.
    fn place(&self, nth: usize) -> (usize, usize) {
        let row = self.first + nth;
        (row / self.cut.down, row % self.cut.down * self.cut.m)
    }
}

/// The way back from products to results.
struct Back<'a, T> {
    block: Block<'a>,
    products: &'a [T],
    operand: &'a [T],
    weights: &'a [T],
    bias: Option<&'a [T]>,
    out: &'a Disjoint<'a, T>,
    level: Level,
}

impl<T: Float> Back<'_, T> {
    /// Channels before the space: a row of tiles is written apart by place in the tile, then together.
    fn by_row<const N: usize>(&self, together: &mut [T]) {
        let Block { p, cut, rows, .. } = self.block;
        let (m, line, size) = (cut.m, cut.across + 1 + MAX_LANES, p.window.out());
        for output in 0..p.outputs() {
            let bias = self.bias.map_or(Bias::None, |bias| Bias::One(bias[output]));
            for nth in 0..rows {
                let from = output * cut.lines[1] + nth * cut.across;
                self.level.vectorize(TileRows::<T, N> {
                    cut,
                    products: self.products,
                    from,
                    to: &mut *together,
                });
                let (batch, top) = self.block.place(nth);
                for i in 0..m.min(size[1] - top) {
                    let start = ((batch * p.outputs() + output) * size[1] + top + i) * size[2];
                    // SAFETY: every task has its own rows of tiles.
                    let row = unsafe { self.out.part(start..start + size[2]) };
                    for j in 0..m {
                        let to = row.iter_mut().skip(j).step_by(m);
                        to.zip(&together[(i * m + j) * line..]).for_each(|(to, from)| *to = *from);
                    }
                    if !all_finite(row) {
                        for (x, to) in row.iter_mut().enumerate().filter(|(_, to)| !is_finite(**to)) {
                            *to = self.one(batch, output, top + i, x);
                        }
                    }
                    end(p, self.level, bias, row);
                }
            }
        }
    }

    /// Channels behind the space.
    fn by_channel<const N: usize>(&self) {
        let Block { p, cut, rows, .. } = self.block;
        let (size, outputs) = (p.window.out(), p.outputs());
        for nth in 0..rows {
            let (batch, top) = self.block.place(nth);
            let image = batch * size[1] * size[2];
            self.level.vectorize(Places::<T, N> {
                cut,
                products: &self.products[nth * cut.across * cut.lines[1]..],
                out: self.out,
                // The first row of results, how many there are, and of how many places and channels.
                sizes: [image + top * size[2], cut.m.min(size[1] - top), size[2], outputs],
            });
            let (first, last) = (image + top * size[2], image + (top + cut.m).min(size[1]) * size[2]);
            // SAFETY: every task has its own rows of tiles.
            let results = unsafe { self.out.part(first * outputs..last * outputs) };
            if !all_finite(results) {
                for (at, to) in results.iter_mut().enumerate().filter(|(_, to)| !is_finite(**to)) {
                    let place = at / outputs;
                    *to = self.one(batch, at % outputs, top + place / size[2], place % size[2]);
                }
            }
            // SAFETY: as above; those results are not used any more.
            unsafe { end_places(p, self.level, self.bias, self.out, 0..outputs, first..last) };
        }
    }

    /// One result before its end, by its window.
    #[cold]
    fn one(&self, batch: usize, output: usize, y: usize, x: usize) -> T {
        let (p, mut sum) = (self.block.p, T::ZERO);
        let (size, pad, inputs) = (p.window.size(), p.window.pad(), p.inputs());
        for tap in 0..9 {
            let at = |place: usize, pad: usize, size: usize| place.checked_sub(pad).filter(|&at| at < size);
            let (Some(y), Some(x)) = (at(y + tap / 3, pad[1], size[1]), at(x + tap % 3, pad[2], size[2]))
            else {
                continue;
            };
            for input in 0..inputs {
                let (from, weight) = match p.channels {
                    Channels::First => (
                        ((batch * inputs + input) * size[1] + y) * size[2] + x,
                        (output * inputs + input) * 9 + tap,
                    ),
                    Channels::Last => (
                        ((batch * size[1] + y) * size[2] + x) * inputs + input,
                        (output * 9 + tap) * inputs + input,
                    ),
                };
                sum += self.operand[from] * self.weights[weight];
            }
        }
        sum
    }
}

fn is_finite<T: Float>(value: T) -> bool {
    // Zero times what is not finite is not a number.
    value * T::ZERO == T::ZERO
}

/// Eight sums, so that compilers see vectors.
fn all_finite<T: Float>(values: &[T]) -> bool {
    let (eights, rest) = values.as_chunks::<8>();
    let mut sums = [T::ZERO; 8];
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, value)| *sum += *value * T::ZERO);
    }
    sums.into_iter().chain(rest.iter().copied()).all(is_finite)
}
