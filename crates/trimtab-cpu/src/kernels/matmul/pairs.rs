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
    let is_here =
        std::arch::is_x86_feature_detected!("avx512bf16") && std::arch::is_x86_feature_detected!("avx512f");
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
    (columns + ROWS) * pairs(k.min(config.kc as usize), config.terms)
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
        return launch(problem, config, args, x86::tile);
        #[cfg(not(target_arch = "x86_64"))]
        return launch(problem, config, args, plain_tile);
    }
}

/// Adds products of pairs to a tile of sums: `count` steps of [`ROWS`] pairs of `lhs` and [`WIDTH`] of `rhs`.
///
/// # Safety
/// `lhs` and `rhs` must be readable that far; the instruction set must be there.
type TileFn = unsafe fn(count: usize, lhs: *const u32, rhs: *const u32, sums: &mut [[f32; WIDTH]; ROWS]);

/// The same by plain arithmetic: what the instruction is defined to do, but for rounding and numbers below the normal range.
#[cfg(any(test, not(target_arch = "x86_64")))]
unsafe fn plain_tile(count: usize, lhs: *const u32, rhs: *const u32, sums: &mut [[f32; WIDTH]; ROWS]) {
    let halves = |pair: u32| (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
    for step in 0..count {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as promised by the caller.
            let (low, high) = halves(unsafe { *lhs.add(step * ROWS + row) });
            for (column, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as promised by the caller.
                let (other_low, other_high) = halves(unsafe { *rhs.add(step * WIDTH + column) });
                *sum += high * other_high;
                *sum += low * other_low;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, ROWS, WIDTH};
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) unsafe fn tile(
        count: usize,
        mut lhs: *const u32,
        mut rhs: *const u32,
        sums: &mut [[f32; WIDTH]; ROWS],
    ) {
        // The same bits as 32 halves.
        let halves = |pairs: __m512i| -> __m512bh {
            // SAFETY: both are 64 bytes of which every pattern is valid.
            unsafe { std::mem::transmute(pairs) }
        };
        let mut held = [[_mm512_setzero_ps(); 2]; ROWS];
        for (held, sums) in held.iter_mut().zip(sums.iter()) {
            // SAFETY: a row of sums has two vectors.
            *held = unsafe { [_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums.as_ptr().add(LANES))] };
        }
        for _ in 0..count {
            // SAFETY: step after step of what the caller promises to be readable; pointers move past the end without being read.
            unsafe {
                let right = [
                    halves(_mm512_loadu_si512(rhs.cast())),
                    halves(_mm512_loadu_si512(rhs.add(LANES).cast())),
                ];
                for (row, held) in held.iter_mut().enumerate() {
                    let left = halves(_mm512_set1_epi32(*lhs.add(row) as i32));
                    held[0] = _mm512_dpbf16_ps(held[0], left, right[0]);
                    held[1] = _mm512_dpbf16_ps(held[1], left, right[1]);
                }
            }
            lhs = lhs.wrapping_add(ROWS);
            rhs = rhs.wrapping_add(WIDTH);
        }
        for (held, sums) in held.iter().zip(sums.iter_mut()) {
            // SAFETY: a row of sums has two vectors.
            unsafe {
                _mm512_storeu_ps(sums.as_mut_ptr(), held[0]);
                _mm512_storeu_ps(sums.as_mut_ptr().add(LANES), held[1]);
            }
        }
    }
}

/// An element that is cut into bf16 numbers.
trait Cut: Element {
    /// The bits of the nth term.
    fn term(self, nth: u8) -> u16;
    /// A sum as an element, and back.
    fn of_sum(sum: f32) -> Self;
    fn to_sum(self) -> f32;
}

/// To the nearest, ties to even. What is not a number stays so; what is finite stays so too.
#[inline]
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
    #[inline]
    fn term(self, nth: u8) -> u16 {
        let mut rest = self;
        for _ in 0..nth {
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
    #[inline]
    fn term(self, _: u8) -> u16 {
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

fn launch(problem: &Matmul, config: PairsConfig, args: Args<'_>, tile: TileFn) -> Launched {
    let legal = (1..=3).contains(&config.terms) && DEPTHS.contains(&config.kc);
    if !legal {
        return Err(wrong_point(config));
    }
    let how = Spread { threads: config.threads, split: config.split, quantum: (ROWS, WIDTH) };
    match problem.dtype {
        DType::F32 => spread::<f32>(problem, how, args, |product| multiply(product, config, tile)),
        DType::Bf16 => {
            let config = PairsConfig { terms: 1, ..config };
            spread::<bf16>(problem, how, args, |product| multiply(product, config, tile))
        }
        dtype => Err(not_here(dtype)),
    }
}

/// The terms of one side that are multiplied one after the other, each with whether it meets the first term of the other side.
fn factors(terms: u32, side: fn(&(u8, u8)) -> (u8, u8)) -> impl Iterator<Item = (u8, bool)> {
    let products = products(terms).iter();
    products.map(move |product| {
        let (own, other) = side(product);
        (own, other == 0)
    })
}

/// The term of an element that is multiplied. What is not finite counts where first terms meet, and nowhere else.
#[inline]
fn factor<T: Cut>(element: T, (nth, meets_first): (u8, bool)) -> u16 {
    let bits = element.term(nth);
    let is_finite = bits & 0x7f80 != 0x7f80;
    if is_finite || nth == 0 && meets_first { bits } else { 0 }
}

/// A pair of terms of neighbours along the depth; the last may have no neighbour.
///
/// # Safety
/// The elements must be readable.
#[inline]
unsafe fn pair<T: Cut>(at: *const T, step: usize, both: bool, which: (u8, bool)) -> u32 {
    // SAFETY: as promised by the caller.
    let (low, high) = unsafe { (*at, if both { *at.add(step) } else { T::default() }) };
    u32::from(factor(low, which)) | u32::from(factor(high, which)) << 16
}

/// A product on the caller's thread: sums of a block are kept in the result between passes over the depth, or beside it where the
/// result has fewer digits.
fn multiply<T: Cut>(product: &Product<'_, T>, config: PairsConfig, tile: TileFn) {
    let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
    let kc = config.kc as usize;
    let one_pass = k <= kc;
    let beside = if one_pass || T::DTYPE == DType::F32 { 0 } else { m * n };
    let of_panel = ROWS * pairs(k.min(kc), config.terms);
    with_room(packed(config, n, k) + beside, |room: &mut [u32]| {
        let (panel, rest) = room.split_at_mut(of_panel);
        let (block, beside) = rest.split_at_mut(packed(config, n, k) - of_panel);
        for col in (0..n).step_by(BLOCK_COLUMNS) {
            let cols = BLOCK_COLUMNS.min(n - col);
            for p in (0..k).step_by(kc) {
                let (depth, is_first, is_last) = (kc.min(k - p), p == 0, p + kc >= k);
                let steps = pairs(depth, config.terms);
                // SAFETY: the rows and columns lie within the right operand.
                unsafe { pack_rhs(product.rhs(), (p, depth), (col, cols), config.terms, steps, block) };
                for row in (0..m).step_by(ROWS) {
                    let rows = ROWS.min(m - row);
                    // SAFETY: the rows and columns lie within the left operand.
                    unsafe { pack_lhs(product.lhs(), (p, depth), (row, rows), config.terms, panel) };
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
                        unsafe { tile(steps, panel.as_ptr(), packed.as_ptr(), &mut sums) };
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
/// The rows and columns must lie within the operand.
unsafe fn pack_rhs<T: Cut>(
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
            .flat_map(|term| (0..depth).step_by(2).map(move |at| (at, term)));
        for ((at, term), to) in rows.zip(packed.chunks_exact_mut(WIDTH)) {
            let from = rhs.start.wrapping_add((p + at) * rhs.row + (col + strip) * rhs.col);
            let both = at + 1 < depth;
            for (column, to) in to.iter_mut().enumerate() {
                *to = match column < wide {
                    // SAFETY: a column that is there, and rows below the depth.
                    true => unsafe { pair(from.add(column * rhs.col), rhs.row, both, term) },
                    false => 0,
                };
            }
        }
    }
}

/// Pairs of columns of [`ROWS`] rows, missing ones zero, for one product of terms after the other.
///
/// # Safety
/// The rows and columns must lie within the operand.
unsafe fn pack_lhs<T: Cut>(
    lhs: View<T>,
    (p, depth): (usize, usize),
    (row, rows): (usize, usize),
    terms: u32,
    panel: &mut [u32],
) {
    let steps =
        factors(terms, |&product| product).flat_map(|term| (0..depth).step_by(2).map(move |at| (at, term)));
    for ((at, term), to) in steps.zip(panel.chunks_exact_mut(ROWS)) {
        let from = lhs.start.wrapping_add(row * lhs.row + (p + at) * lhs.col);
        let both = at + 1 < depth;
        for (nth, to) in to.iter_mut().enumerate() {
            *to = match nth < rows {
                // SAFETY: a row that is there, and columns below the depth.
                true => unsafe { pair(from.add(nth * lhs.row), lhs.col, both, term) },
                false => 0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use trimtab_core::Problem;
    use trimtab_operands::{Expected, Operands, Reference, Slice, SliceMut, allowed, tolerance};

    /// Whoever computes products as the type does.
    struct Plain;
    impl Reference for Plain {
        fn compute(&self, _: &Problem, _: &[Slice<'_>], _: SliceMut<'_>) -> Launched {
            Err(not_here(DType::I8))
        }
    }

    /// Runs a problem with some settings, and compares within what the kernel states.
    fn check(text: &str, config: PairsConfig, tile: TileFn, within: Option<f64>) -> Result<(), String> {
        let problem: Problem = text.parse().unwrap();
        let Problem::Matmul(p) = problem else { panic!("{text} is a product") };
        let mut operands = Operands::new(&problem);
        let expected = Expected::new(&Plain, &problem, &operands).unwrap();
        operands.out.poison();
        let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(|data| data.slice()).collect();
        let args = Args { inputs: &inputs, out: operands.out.slice_mut(), pool: &Pool::new(2) };
        launch(&p, config, args, tile).unwrap();
        let error = if p.dtype == DType::F32 { error(config.terms) } else { 0.0 };
        let stated = allowed(tolerance(&problem), &Work { error, ..Work::default() });
        expected.check_within(&problem, &operands.out, within.unwrap_or(stated))
    }

    const PROBLEMS: [&str; 8] = [
        "matmul:f32:1x1x1",
        "matmul:f32:12x32x2",
        "matmul:f32:13x33x7",
        "matmul:f32:5x70x300",
        "matmul:f32:40x1100x9:t,t",
        "matmul:f32:3x17x19x600",
        "matmul:bf16:29x45x601",
        "matmul:bf16:2x14x66x31:t,n",
    ];

    #[test]
    fn every_number_of_terms_keeps_the_error_it_states_and_fewer_terms_do_not_keep_that_of_more() {
        for text in PROBLEMS {
            for (terms, kc, threads, split) in [(1, 256, 1, 0), (2, 256, 2, 1), (3, 512, 2, 0)] {
                let config = PairsConfig { terms, kc, threads, split };
                check(text, config, plain_tile, None)
                    .unwrap_or_else(|wrong| panic!("{text} {config:?}: {wrong}"));
            }
        }
        let rough = PairsConfig { terms: 1, kc: 256, threads: 1, split: 0 };
        assert!(check("matmul:f32:13x33x7", rough, plain_tile, Some(error(2))).is_err());
        let closer = PairsConfig { terms: 2, ..rough };
        assert!(check("matmul:f32:13x33x7", closer, plain_tile, Some(error(3))).is_err());
    }

    #[test]
    fn an_infinity_stays_one_however_many_terms_its_factor_has() {
        // A factor of one term has a second one of zero, and one that is no bf16 number has not.
        for (factor, terms) in [(0.5f32, 2), (0.5, 3), (-1.234_567_8, 3), (3.0, 1)] {
            let problem = Matmul::new(DType::F32, 1, 2, 3).unwrap();
            let (lhs, rhs) = ([f32::INFINITY, 1.0, 1.0], [factor, 1.0, 1.0, 1.0, 1.0, 1.0]);
            let mut out = [f32::NAN; 2];
            let inputs = [f32::erase(&lhs), f32::erase(&rhs)];
            let args = Args { inputs: &inputs, out: f32::erase_mut(&mut out), pool: &Pool::new(1) };
            let config = PairsConfig { terms, kc: 256, threads: 1, split: 0 };
            launch(&problem, config, args, plain_tile).unwrap();
            assert_eq!(out, [f32::INFINITY.copysign(factor), f32::INFINITY], "{factor} in {terms} terms");
        }
    }

    #[test]
    fn what_is_no_number_stays_so_and_the_largest_numbers_stay_finite() {
        assert!(f32::from_bits(u32::from(f32::NAN.term(0)) << 16).is_nan());
        assert_eq!(f32::INFINITY.term(0), 0x7f80);
        assert_eq!(f32::MAX.term(0), 0x7f7f);
        assert_eq!((f32::INFINITY.term(1), f32::NEG_INFINITY.term(0)), (0, 0xff80));
        assert_eq!(bf16::of_sum(f32::MAX), bf16::INFINITY);
        let x = 1.234_567_8f32;
        let sum: f32 = (0..3).map(|nth| f32::from_bits(u32::from(x.term(nth)) << 16)).sum();
        assert_eq!(sum, x);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_instruction_agrees_with_plain_arithmetic_where_there_is_one() {
        if !is_here() {
            eprintln!("not run: products by AVX512-BF16, which this processor does not have");
            return;
        }
        for text in PROBLEMS {
            let config = PairsConfig { terms: 1, kc: 256, threads: 2, split: 0 };
            check(text, config, x86::tile, None).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        }
    }
}
