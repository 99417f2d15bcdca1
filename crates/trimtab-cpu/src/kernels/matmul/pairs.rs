//! Products by dot products of pairs of bf16, which AVX512-BF16 adds to sums of f32 in one instruction.
//!
//! Operands of bf16 are taken as they are: their products are exact in f32. Those of f32 are cut into `terms` bf16 numbers each, and
//! the products of terms are added up whose sizes matter: one product for one term, three for two, six for three. So an f32 product is
//! off by what is cut off, which is why it needs the caller's tolerance.
//!
//! **Error.** A number cut to one term is off by at most 2⁻⁹ of itself, to two terms 2⁻¹⁸, to three 2⁻²⁷; both factors together by twice
//! that, and for two terms the product of both second terms, 2⁻¹⁸, is left out. Stated is twice the sum; for three terms 2⁻²⁰, because six times
//! as many products are rounded as they are added up. Numbers too small for f32's normal range count as zero. An infinity counts in the
//! product of first terms alone: times a second term that is zero it would be no number.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::float::wrong_point;
use super::product::{Product, Spread, View, rereads, splits, spread, thread_counts};
use super::work;
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elements::not_here;
use crate::kernels::room::{MOST_ROOM, with_room};
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Matmul, Variant, Work};
use trimtab_operands::{Element, bf16};

/// Rows of a tile: 12 × 2 vectors of sums leave room for a row of the right operand and a factor.
const ROWS: usize = 12;
/// Pairs of a vector.
const LANES: usize = 16;
/// Columns of a tile.
const WIDTH: usize = 2 * LANES;
/// Columns of a block of the right operand.
const BLOCK_COLUMNS: usize = 1024;
/// Pairs between the rows of a panel, so that they do not all fall into the same places of the first-level cache: one of its lines.
const APART: usize = 16;
/// Rows of a block of the right operand: with one term 12 rows of the left one take 6 KiB of the first-level cache.
const DEPTHS: [u32; 2] = [256, 512];

trimtab_core::config! {
    /// Settings of the kernel of pairs: bf16 numbers that an f32 is cut into, rows of a block of the right operand, threads, and
    /// whether they share columns (0), rows (1) or both (2).
    pub struct PairsConfig { terms, kc, threads, split }
}

/// The kernel `cpu.matmul.pairs`.
#[derive(Debug)]
pub(super) struct Pairs;

/// Which terms of the left and the right operand are multiplied.
fn products(terms: u32) -> &'static [(u8, u8)] {
    match terms {
        1 => &[(0, 0)],
        2 => &[(0, 0), (0, 1), (1, 0)],
        _ => &[(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)],
    }
}

/// What f32 products are off by, see the module.
fn error(terms: u32) -> f64 {
    match terms {
        1 => 1.0 / 128.0,
        2 => 3.0 / 131_072.0,
        _ => 1.0 / 1_048_576.0,
    }
}

/// Whether this processor has the instruction.
pub(super) fn is_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_here = std::arch::is_x86_feature_detected!("avx512bf16")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    let is_here = false;
    is_here
}

/// Pairs of a block's depth, with all products of terms one after the other.
fn pairs(depth: usize, terms: u32) -> usize {
    depth.div_ceil(2) * products(terms).len()
}

/// Elements of 32 bits a part of a product packs at a time: a block of the right operand, a panel of the left.
fn packed(config: PairsConfig, columns: usize, k: usize) -> usize {
    let columns = columns.min(BLOCK_COLUMNS).next_multiple_of(WIDTH);
    let steps = pairs(k.min(config.kc as usize), config.terms);
    columns * steps + ROWS * (steps + APART)
}

fn declines(problem: &Matmul) -> Option<Decline> {
    let other = || Decline::from(format!("multiplies bf16, and f32 cut to it, not {}", problem.dtype));
    let missing = || Decline::because("this processor has no AVX512-BF16");
    let large = || Decline::because("the result does not fit into the room there is");
    let is_large = problem.m.saturating_mul(problem.n) > (MOST_ROOM / 2) as u64;
    let declined = (!Pairs.takes(problem.dtype)).then(other).or_else(|| (!is_here()).then(missing));
    declined.or_else(|| is_large.then(large))
}

impl Variant<Cpu> for Pairs {
    type Problem = Matmul;
    type Config = PairsConfig;

    identity!("cpu.matmul.pairs", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::Bf16)
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<PairsConfig> {
        let terms: &[u32] = if problem.dtype == DType::F32 { &[1, 2, 3] } else { &[1] };
        let mut configs = Vec::new();
        for &terms in terms {
            for threads in thread_counts(problem.flops(), device) {
                for split in splits(problem, threads) {
                    let depths = DEPTHS.iter().take(if problem.k > u64::from(DEPTHS[0]) { 2 } else { 1 });
                    configs.extend(depths.map(|&kc| PairsConfig { terms, kc, threads, split }));
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Matmul, config: PairsConfig, _: &DeviceFacts) -> Work {
        let (lhs_times, rhs_times) = rereads(problem, config.threads, config.split);
        let times = products(config.terms).len() as u64;
        let blocks = problem.n.div_ceil(BLOCK_COLUMNS as u64).max(lhs_times);
        let lhs = (problem.m * problem.k).saturating_mul(blocks).saturating_mul(1 + times);
        let rhs = (problem.k * problem.n).saturating_mul(rhs_times).saturating_mul(1 + times);
        let out = problem.m.saturating_mul(problem.n).saturating_mul(2);
        let elements = lhs.saturating_add(rhs).saturating_add(out);
        // Two products an element of a vector, and as many vectors more as there are products of terms.
        let mut work = work(problem, elements, 0, config.threads, 2 * LANES as u32);
        work.flops.0 = work.flops.0.saturating_mul(times);
        let part = packed(config, problem.n as usize, problem.k as usize) as u64;
        let sums = if problem.dtype == DType::F32 { 0 } else { problem.m.saturating_mul(problem.n) };
        work.scratch =
            Bytes(part.saturating_mul(u64::from(config.threads)).saturating_add(sums).saturating_mul(4));
        work.error = if problem.dtype == DType::F32 { error(config.terms) } else { 0.0 };
        work
    }

    fn launch(&self, problem: &Matmul, config: PairsConfig, args: Args<'_>) -> Launched {
        if declines(problem).is_some() {
            return Err(not_here(problem.dtype));
        }
        #[cfg(target_arch = "x86_64")]
        return launch::<x86::Instruction>(problem, config, args);
        #[cfg(not(target_arch = "x86_64"))]
        return launch::<Plain>(problem, config, args);
    }
}

/// How pairs are multiplied and elements cut.
trait Way {
    /// Adds products of pairs to a tile of sums: `count` steps of [`ROWS`] pairs of `lhs`, whose rows lie `apart`, and of [`WIDTH`] of
    /// `rhs`.
    ///
    /// # Safety
    /// `lhs` and `rhs` must be readable that far; the instruction set must be there.
    unsafe fn tile(
        count: usize,
        lhs: *const u32,
        apart: usize,
        rhs: *const u32,
        sums: &mut [[f32; WIDTH]; ROWS],
    );

    /// Cuts elements that lie together.
    ///
    /// # Safety
    /// The instruction set must be there.
    unsafe fn cut<T: Cut>(from: &[T], which: Which, to: &mut [u16]);

    /// Cuts two rows of elements into pairs of one above the other.
    ///
    /// # Safety
    /// The instruction set must be there.
    unsafe fn cut_pairs<T: Cut>(above: &[T], below: &[T], which: Which, to: &mut [u32]);
}

/// The same by plain arithmetic: what the instruction is defined to do, but for rounding and numbers below the normal range.
#[cfg(any(test, not(target_arch = "x86_64")))]
struct Plain;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Way for Plain {
    unsafe fn tile(
        count: usize,
        lhs: *const u32,
        apart: usize,
        rhs: *const u32,
        sums: &mut [[f32; WIDTH]; ROWS],
    ) {
        let halves = |pair: u32| (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
        for step in 0..count {
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as promised by the caller.
                let (low, high) = halves(unsafe { *lhs.add(row * apart + step) });
                for (column, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as promised by the caller.
                    let (other_low, other_high) = halves(unsafe { *rhs.add(step * WIDTH + column) });
                    *sum += high * other_high;
                    *sum += low * other_low;
                }
            }
        }
    }

    unsafe fn cut<T: Cut>(from: &[T], which: Which, to: &mut [u16]) {
        cut(from, which, to);
    }

    unsafe fn cut_pairs<T: Cut>(above: &[T], below: &[T], which: Which, to: &mut [u32]) {
        cut_pairs(above, below, which, to);
    }
}

/// An element that is cut into bf16 numbers.
trait Cut: Element {
    /// The bits of the nth term.
    fn term<const NTH: u8>(self) -> u16;
    /// A sum as an element, and back.
    fn of_sum(sum: f32) -> Self;
    fn to_sum(self) -> f32;
}

/// To the nearest, ties to even. What is not a number stays so; what is finite stays so too.
#[inline(always)]
fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    const INFINITE: u32 = 0x7f80_0000;
    let size = bits & 0x7fff_ffff;
    let kept = if size > INFINITE {
        bits | 0x0040_0000
    } else if (0x7f7f_8000..INFINITE).contains(&size) {
        bits & 0xffff_0000
    } else {
        bits.wrapping_add(0x7fff + (bits >> 16 & 1))
    };
    (kept >> 16) as u16
}

impl Cut for f32 {
    #[inline(always)]
    fn term<const NTH: u8>(self) -> u16 {
        let mut rest = self;
        for _ in 0..NTH {
            let first = f32::from_bits(u32::from(rounded(rest)) << 16);
            // What is not finite has no further terms.
            rest = if first.is_finite() { rest - first } else { 0.0 };
        }
        rounded(rest)
    }
    #[inline]
    fn of_sum(sum: f32) -> f32 {
        sum
    }
    #[inline]
    fn to_sum(self) -> f32 {
        self
    }
}

impl Cut for bf16 {
    #[inline(always)]
    fn term<const NTH: u8>(self) -> u16 {
        self.to_bits()
    }
    #[inline]
    fn of_sum(sum: f32) -> bf16 {
        bf16::from_bits(rounded_to_infinity(sum))
    }
    #[inline]
    fn to_sum(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// As [`rounded`], and to infinity past the largest number, as results are.
#[inline]
fn rounded_to_infinity(x: f32) -> u16 {
    let bits = x.to_bits();
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let kept = if is_nan { bits | 0x0040_0000 } else { bits.wrapping_add(0x7fff + (bits >> 16 & 1)) };
    (kept >> 16) as u16
}

fn launch<W: Way>(problem: &Matmul, config: PairsConfig, args: Args<'_>) -> Launched {
    let legal = (1..=3).contains(&config.terms) && DEPTHS.contains(&config.kc);
    if !legal {
        return Err(wrong_point(config));
    }
    let how = Spread { threads: config.threads, split: config.split, quantum: (ROWS, WIDTH) };
    match problem.dtype {
        DType::F32 => spread::<f32>(problem, how, args, |product| multiply::<f32, W>(product, config)),
        DType::Bf16 => {
            let config = PairsConfig { terms: 1, ..config };
            spread::<bf16>(problem, how, args, |product| multiply::<bf16, W>(product, config))
        }
        dtype => Err(not_here(dtype)),
    }
}

/// A term of one side, and whether it meets the first term of the other.
type Which = (u8, bool);

/// The terms of one side that are multiplied one after the other.
fn factors(terms: u32, side: fn(&(u8, u8)) -> (u8, u8)) -> impl Iterator<Item = Which> {
    products(terms).iter().map(move |product| {
        let (own, other) = side(product);
        (own, other == 0)
    })
}

/// The term of an element that is multiplied. What is not finite counts where first terms meet, and nowhere else.
#[inline(always)]
fn factor<T: Cut, const NTH: u8, const EVERY: bool>(element: T) -> u16 {
    let bits = element.term::<NTH>();
    if EVERY || bits & 0x7f80 != 0x7f80 { bits } else { 0 }
}

/// Calls the body with the factor that is asked for, known to the compiler.
macro_rules! by_factor {
    ($T:ty, $which:expr, $factor:ident => $body:expr) => {
        match $which {
            (0, true) => {
                let $factor = factor::<$T, 0, true>;
                $body
            }
            (0, false) => {
                let $factor = factor::<$T, 0, false>;
                $body
            }
            (1, _) => {
                let $factor = factor::<$T, 1, false>;
                $body
            }
            _ => {
                let $factor = factor::<$T, 2, false>;
                $body
            }
        }
    };
}

#[inline(always)]
fn cut<T: Cut>(from: &[T], which: Which, to: &mut [u16]) {
    by_factor!(T, which, factor => to.iter_mut().zip(from).for_each(|(to, from)| *to = factor(*from)))
}

#[inline(always)]
fn cut_pairs<T: Cut>(above: &[T], below: &[T], which: Which, to: &mut [u32]) {
    by_factor!(T, which, factor => {
        for ((to, above), below) in to.iter_mut().zip(above).zip(below) {
            *to = u32::from(factor(*above)) | u32::from(factor(*below)) << 16;
        }
    })
}

/// The term of one element that lies alone.
#[inline]
fn one<T: Cut>(element: T, which: Which) -> u16 {
    by_factor!(T, which, factor => factor(element))
}

/// A pair of terms of neighbours along the depth; the last may have no neighbour.
///
/// # Safety
/// The elements must be readable.
#[inline]
unsafe fn pair<T: Cut>(at: *const T, step: usize, both: bool, which: Which) -> u32 {
    // SAFETY: as promised by the caller.
    let (low, high) = unsafe { (*at, if both { *at.add(step) } else { T::default() }) };
    u32::from(one(low, which)) | u32::from(one(high, which)) << 16
}

/// A product on the caller's thread: sums of a block are kept in the result between passes over the depth, or beside it where the
/// result has fewer digits.
fn multiply<T: Cut, W: Way>(product: &Product<'_, T>, config: PairsConfig) {
    let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
    let kc = config.kc as usize;
    let one_pass = k <= kc;
    let beside = if one_pass || T::DTYPE == DType::F32 { 0 } else { m * n };
    let of_panel = ROWS * (pairs(k.min(kc), config.terms) + APART);
    with_room(packed(config, n, k) + beside, |room: &mut [u32]| {
        let (panel, rest) = room.split_at_mut(of_panel);
        let (block, beside) = rest.split_at_mut(packed(config, n, k) - of_panel);
        for col in (0..n).step_by(BLOCK_COLUMNS) {
            let cols = BLOCK_COLUMNS.min(n - col);
            for p in (0..k).step_by(kc) {
                let (depth, is_first, is_last) = (kc.min(k - p), p == 0, p + kc >= k);
                let steps = pairs(depth, config.terms);
                // SAFETY: the rows and columns lie within the right operand.
                unsafe {
                    pack_rhs::<T, W>(product.rhs(), (p, depth), (col, cols), config.terms, steps, block)
                };
                for row in (0..m).step_by(ROWS) {
                    let rows = ROWS.min(m - row);
                    // SAFETY: the rows and columns lie within the left operand.
                    unsafe { pack_lhs::<T, W>(product.lhs(), (p, depth), (row, rows), config.terms, panel) };
                    for (strip, packed) in (0..cols).step_by(WIDTH).zip(block.chunks_exact(steps * WIDTH)) {
                        let wide = WIDTH.min(cols - strip);
                        let mut sums = [[0.0f32; WIDTH]; ROWS];
                        let place = |nth: usize| (row + nth, col + strip);
                        for (nth, sums) in sums.iter_mut().enumerate().take(if is_first { 0 } else { rows }) {
                            let (row, column) = place(nth);
                            let sums = &mut sums[..wide];
                            match beside.get(row * n + column..row * n + column + wide) {
                                Some(bits) => sums
                                    .iter_mut()
                                    .zip(bits)
                                    .for_each(|(sum, bits)| *sum = f32::from_bits(*bits)),
                                // SAFETY: the elements lie within the result, which the pass before wrote.
                                None => unsafe {
                                    let kept =
                                        std::slice::from_raw_parts(out.add(row * out_row + column), wide);
                                    sums.iter_mut().zip(kept).for_each(|(sum, kept)| *sum = kept.to_sum());
                                },
                            }
                        }
                        // SAFETY: panel and strip hold `steps` steps; whoever chose the tile saw that the instructions are there.
                        unsafe { W::tile(steps, panel.as_ptr(), steps + APART, packed.as_ptr(), &mut sums) };
                        for (nth, sums) in sums.iter().enumerate().take(rows) {
                            let (row, column) = place(nth);
                            match beside.get_mut(row * n + column..row * n + column + wide) {
                                Some(bits) if !is_last => {
                                    bits.iter_mut().zip(sums).for_each(|(bits, sum)| *bits = sum.to_bits());
                                }
                                // SAFETY: the elements lie within the result, which is the product's own.
                                _ => unsafe {
                                    let to =
                                        std::slice::from_raw_parts_mut(out.add(row * out_row + column), wide);
                                    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::of_sum(*sum));
                                },
                            }
                        }
                    }
                }
            }
        }
    });
}

/// Strips of [`WIDTH`] columns, pairs of rows after pairs of rows, for one product of terms after the other.
///
/// # Safety
/// The rows and columns must lie within the operand; the instruction set must be there.
unsafe fn pack_rhs<T: Cut, W: Way>(
    rhs: View<T>,
    (p, depth): (usize, usize),
    (col, cols): (usize, usize),
    terms: u32,
    steps: usize,
    block: &mut [u32],
) {
    for (strip, packed) in (0..cols).step_by(WIDTH).zip(block.chunks_exact_mut(steps * WIDTH)) {
        let wide = WIDTH.min(cols - strip);
        let rows = factors(terms, |&(left, right)| (right, left))
            .flat_map(|which| (0..depth).step_by(2).map(move |at| (at, which)));
        for ((at, which), to) in rows.zip(packed.chunks_exact_mut(WIDTH)) {
            let from = rhs.start.wrapping_add((p + at) * rhs.row + (col + strip) * rhs.col);
            let both = at + 1 < depth;
            let (to, missing) = to.split_at_mut(wide);
            missing.fill(0);
            if rhs.col == 1 && both {
                // SAFETY: two rows of columns that are there and lie together.
                unsafe {
                    let above = std::slice::from_raw_parts(from, wide);
                    let below = std::slice::from_raw_parts(from.add(rhs.row), wide);
                    W::cut_pairs(above, below, which, to);
                }
                continue;
            }
            for (column, to) in to.iter_mut().enumerate() {
                // SAFETY: a column that is there, and rows below the depth.
                *to = unsafe { pair(from.add(column * rhs.col), rhs.row, both, which) };
            }
        }
    }
}

/// Pairs of columns of [`ROWS`] rows, row after row, missing ones zero, for one product of terms after the other.
///
/// # Safety
/// The rows and columns must lie within the operand; the instruction set must be there.
unsafe fn pack_lhs<T: Cut, W: Way>(
    lhs: View<T>,
    (p, depth): (usize, usize),
    (row, rows): (usize, usize),
    terms: u32,
    panel: &mut [u32],
) {
    let each = depth.div_ceil(2);
    for (nth, to) in panel.chunks_exact_mut(each * products(terms).len() + APART).take(ROWS).enumerate() {
        if nth >= rows {
            to.fill(0);
            continue;
        }
        let from = lhs.start.wrapping_add((row + nth) * lhs.row + p * lhs.col);
        for (which, to) in factors(terms, |&product| product).zip(to.chunks_exact_mut(each.max(1))) {
            if lhs.col == 1 && cfg!(target_endian = "little") {
                let to: &mut [u16] = bytemuck::cast_slice_mut(to);
                to[depth..].fill(0);
                // SAFETY: columns that are there and lie together.
                unsafe { W::cut(std::slice::from_raw_parts(from, depth), which, to) };
                continue;
            }
            for (at, to) in (0..depth).step_by(2).zip(to) {
                // SAFETY: a row that is there, and columns below the depth.
                *to = unsafe { pair(from.add(at * lhs.col), lhs.col, at + 1 < depth, which) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
