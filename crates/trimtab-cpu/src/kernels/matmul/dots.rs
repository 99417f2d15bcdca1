//! Products of bytes by dot products of pairs: bytes become 16-bit numbers while they are packed, two neighbours along the depth side by side,
//! and an instruction multiplies and adds both (`pmaddwd` of AVX2 and AVX-512; AVX512-VNNI adds to the sum too). Nothing is rounded.

use super::float::wrong_point;
use super::narrow::{of_bytes, sums};
use super::product::thread_counts;
use super::work;
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elements::not_here;
use crate::kernels::room::with_room;
use crate::pool::Pool;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Matmul, Variant, Work};

/// Columns of a block of the right operand: packed 512 deep it takes 1 MiB.
const BLOCK_COLUMNS: usize = 1024;
/// Rows of a block of the right operand: a strip of 16 columns takes 8 or 16 KiB of the first-level cache.
const DEPTHS: [u32; 2] = [512, 256];
/// Parts each thread gets, so that a thread that is held up does not hold up all.
const PARTS_PER_THREAD: usize = 4;
/// Sums of the largest tile.
const MOST_SUMS: usize = 12 * 32;

trimtab_core::config! {
    /// Rows of a block of the right operand, and threads.
    pub struct DotsConfig { kc, threads }
}

/// The kernel `cpu.matmul.dots`.
#[derive(Debug)]
pub(super) struct Dots;

/// Adds products of pairs to a tile of sums, row after row: `count` steps of a pair a row of `lhs` and a pair a column of `rhs`.
///
/// # Safety
/// `lhs` and `rhs` must be readable that far; the instruction set must be there.
type AddFn = unsafe fn(count: usize, lhs: *const u32, rhs: *const u32, sums: &mut [i32; MOST_SUMS]);

/// A tile that is kept in registers.
#[derive(Clone, Copy, Debug)]
struct DotTile {
    rows: usize,
    width: usize,
    add: AddFn,
}

/// What every processor does.
const PLAIN: DotTile = DotTile { rows: 4, width: 8, add: plain };

/// Those this processor has, the best first.
fn tiles() -> impl Iterator<Item = DotTile> {
    #[cfg(target_arch = "x86_64")]
    let fast = {
        use std::arch::is_x86_feature_detected as has;
        let wide = has!("avx512f") && has!("avx512bw");
        [
            (wide && has!("avx512vnni"), DotTile { rows: 12, width: 32, add: x86::vnni }),
            (wide, DotTile { rows: 12, width: 32, add: x86::avx512 }),
            (has!("avx2"), DotTile { rows: 6, width: 16, add: x86::avx2 }),
        ]
    };
    #[cfg(not(target_arch = "x86_64"))]
    let fast: [(bool, DotTile); 0] = [];
    fast.into_iter().filter(|(is_here, _)| *is_here).map(|(_, tile)| tile).chain([PLAIN])
}

fn best() -> DotTile {
    tiles().next().unwrap_or(PLAIN)
}

/// Pairs of so many.
fn pairs(depth: usize) -> usize {
    depth.div_ceil(2)
}

/// Pairs of a block of the right operand, and of a panel of the left one.
fn packed(tile: DotTile, problem: &Matmul, kc: u32) -> (u64, u64) {
    let deep = problem.k.min(kc.into()).div_ceil(2);
    let columns = problem.n.min(BLOCK_COLUMNS as u64).next_multiple_of(tile.width as u64);
    (columns * deep, tile.rows as u64 * deep)
}

impl Variant<Cpu> for Dots {
    type Problem = Matmul;
    type Config = DotsConfig;

    identity!("cpu.matmul.dots", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        dtype == DType::I8
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("multiplies i8, not {}", problem.dtype));
        (!self.takes(problem.dtype)).then(other)
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<DotsConfig> {
        let depths = DEPTHS.iter().take(if problem.k > u64::from(DEPTHS[1]) { 2 } else { 1 });
        let with = |threads: u32| depths.clone().map(move |&kc| DotsConfig { kc, threads });
        thread_counts(problem.flops(), device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Matmul, config: DotsConfig, _: &DeviceFacts) -> Work {
        let tile = best();
        let blocks = problem.n.div_ceil(BLOCK_COLUMNS as u64).max(1);
        // Packed ones are written and read, two bytes each; sums are walked once a block of the depth.
        let passes = problem.k.div_ceil(u64::from(config.kc).max(1)).max(1);
        let lhs = (problem.m * problem.k).saturating_mul(blocks).saturating_mul(5);
        let rhs = (problem.k * problem.n).saturating_mul(5);
        let out = problem.m.saturating_mul(problem.n).saturating_mul(8 * passes);
        let elements = lhs.saturating_add(rhs).saturating_add(out);
        let mut work = work(problem, elements, 0, config.threads, 2 * (tile.width / 2) as u32);
        let (block, panel) = packed(tile, problem, config.kc);
        let scratch = block.saturating_add(panel.saturating_mul(config.threads.into()));
        work.scratch = Bytes(scratch.saturating_mul(4));
        work
    }

    fn launch(&self, problem: &Matmul, config: DotsConfig, args: Args<'_>) -> Launched {
        launch(problem, config, args, best())
    }
}

fn launch(problem: &Matmul, config: DotsConfig, args: Args<'_>, tile: DotTile) -> Launched {
    if problem.dtype != DType::I8 {
        return Err(not_here(problem.dtype));
    }
    if !DEPTHS.contains(&config.kc) {
        return Err(wrong_point(config));
    }
    let [lhs, rhs] = of_bytes(problem, &args)?;
    let (out, pool) = (sums(problem, args.out)?, args.pool);
    if problem.k == 0 {
        out.fill(0);
    }
    if out.is_empty() || problem.k == 0 {
        return Ok(());
    }
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    for (nth, out) in out.chunks_exact_mut(m * n).enumerate() {
        let lhs = &lhs[if problem.lhs.shared { 0 } else { nth * m * k }..][..m * k];
        let rhs = &rhs[if problem.rhs.shared { 0 } else { nth * k * n }..][..k * n];
        let lhs = Bytewise::new(lhs, [m, k], problem.lhs.transposed);
        let rhs = Bytewise::new(rhs, [k, n], problem.rhs.transposed);
        multiply((m, n, k), lhs, rhs, out, config, tile, pool);
    }
    Ok(())
}

/// A matrix of bytes in memory.
#[derive(Clone, Copy, Debug)]
struct Bytewise<'a> {
    all: &'a [i8],
    row: usize,
    column: usize,
}

impl<'a> Bytewise<'a> {
    fn new(all: &'a [i8], [rows, columns]: [usize; 2], transposed: bool) -> Bytewise<'a> {
        let (row, column) = if transposed { (1, rows) } else { (columns, 1) };
        Bytewise { all, row, column }
    }

    #[inline]
    fn at(&self, row: usize, column: usize) -> i8 {
        self.all[row * self.row + column * self.column]
    }
}

#[inline]
fn pair(low: i8, high: i8) -> u32 {
    let bits = |byte: i8| u32::from(i16::from(byte) as u16);
    bits(low) | bits(high) << 16
}

fn multiply(
    (m, n, k): (usize, usize, usize),
    lhs: Bytewise<'_>,
    rhs: Bytewise<'_>,
    out: &mut [i32],
    config: DotsConfig,
    tile: DotTile,
    pool: &Pool,
) {
    let kc = config.kc as usize;
    let threads = config.threads.max(1);
    let part_rows = m.div_ceil(threads as usize * PARTS_PER_THREAD).next_multiple_of(tile.rows);
    for first in (0..n).step_by(BLOCK_COLUMNS) {
        let columns = BLOCK_COLUMNS.min(n - first);
        for p in (0..k).step_by(kc) {
            let (depth, is_first) = (kc.min(k - p), p == 0);
            let strip = pairs(depth) * tile.width;
            with_room(columns.div_ceil(tile.width) * strip, |block: &mut [u32]| {
                pool.for_chunks(threads, block, strip, |start, strip_of| {
                    let column = start / strip * tile.width;
                    let wide = tile.width.min(columns - column);
                    pack_rhs(rhs, (p, depth), (first + column, wide), tile.width, strip_of);
                });
                let block = &*block;
                pool.for_chunks(threads, out, part_rows * n, |start, part| {
                    let row = start / n;
                    with_room(pairs(depth) * tile.rows, |panel: &mut [u32]| {
                        for (nth, out) in part.chunks_mut(tile.rows * n).enumerate() {
                            let rows = (row + nth * tile.rows, out.len() / n);
                            pack_lhs(lhs, (p, depth), rows, tile.rows, panel);
                            for (at, strip) in block.chunks_exact(strip).enumerate() {
                                let column = at * tile.width;
                                let wide = tile.width.min(columns - column);
                                add_tile(tile, panel, strip, (out, n), (first + column, wide), is_first);
                            }
                        }
                    });
                });
            });
        }
    }
}

/// Pairs of rows after pairs of rows, of so many columns; missing ones are zero.
fn pack_rhs(
    rhs: Bytewise<'_>,
    (p, depth): (usize, usize),
    (column, wide): (usize, usize),
    width: usize,
    strip: &mut [u32],
) {
    for (step, to) in strip.chunks_exact_mut(width).enumerate() {
        let (at, both) = (p + 2 * step, 2 * step + 1 < depth);
        to[wide..].fill(0);
        if rhs.column == 1 {
            // Rows lie in a row: compilers make vectors of this.
            let low = &rhs.all[at * rhs.row + column..][..wide];
            match both {
                true => {
                    let high = &rhs.all[(at + 1) * rhs.row + column..][..wide];
                    to.iter_mut().zip(low).zip(high).for_each(|((to, low), high)| *to = pair(*low, *high));
                }
                false => to.iter_mut().zip(low).for_each(|(to, low)| *to = pair(*low, 0)),
            }
        } else {
            for (nth, to) in to.iter_mut().enumerate().take(wide) {
                let high = if both { rhs.at(at + 1, column + nth) } else { 0 };
                *to = pair(rhs.at(at, column + nth), high);
            }
        }
    }
}

/// Pairs of columns after pairs of columns, of so many rows; missing ones are zero.
fn pack_lhs(
    lhs: Bytewise<'_>,
    (p, depth): (usize, usize),
    (row, rows): (usize, usize),
    tall: usize,
    panel: &mut [u32],
) {
    for nth in 0..tall {
        let to = panel[nth..].iter_mut().step_by(tall).take(pairs(depth));
        if nth >= rows {
            to.for_each(|to| *to = 0);
        } else if lhs.column == 1 {
            // Two neighbours at a time, the last perhaps without one.
            let line = &lhs.all[(row + nth) * lhs.row + p..][..depth];
            let each = line.chunks(2).map(|two| pair(two[0], two.get(1).copied().unwrap_or(0)));
            to.zip(each).for_each(|(to, pair)| *to = pair);
        } else {
            for (step, to) in to.enumerate() {
                let at = p + 2 * step;
                let high = if 2 * step + 1 < depth { lhs.at(row + nth, at + 1) } else { 0 };
                *to = pair(lhs.at(row + nth, at), high);
            }
        }
    }
}

/// Adds a panel times a strip to rows of the result, or begins with it.
fn add_tile(
    tile: DotTile,
    panel: &[u32],
    strip: &[u32],
    (out, n): (&mut [i32], usize),
    (column, wide): (usize, usize),
    is_first: bool,
) {
    let steps = (panel.len() / tile.rows).min(strip.len() / tile.width);
    let mut sums = [0i32; MOST_SUMS];
    if !is_first {
        for (sums, out) in sums.chunks_exact_mut(tile.width).zip(out.chunks_exact(n)) {
            sums[..wide].copy_from_slice(&out[column..column + wide]);
        }
    }
    // SAFETY: panel and strip hold that many steps; `tiles` hands out only what the processor has, and no tile is larger than the sums.
    unsafe { (tile.add)(steps, panel.as_ptr(), strip.as_ptr(), &mut sums) };
    for (sums, out) in sums.chunks_exact(tile.width).zip(out.chunks_exact_mut(n)) {
        out[column..column + wide].copy_from_slice(&sums[..wide]);
    }
}

unsafe fn plain(count: usize, lhs: *const u32, rhs: *const u32, sums: &mut [i32; MOST_SUMS]) {
    let halves = |pair: u32| (i32::from(pair as u16 as i16), i32::from((pair >> 16) as u16 as i16));
    for step in 0..count {
        for (row, sums) in sums.chunks_exact_mut(PLAIN.width).enumerate().take(PLAIN.rows) {
            // SAFETY: as promised by the caller.
            let (low, high) = halves(unsafe { *lhs.add(step * PLAIN.rows + row) });
            for (column, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as promised by the caller.
                let (other_low, other_high) = halves(unsafe { *rhs.add(step * PLAIN.width + column) });
                *sum = sum.wrapping_add(low * other_low + high * other_high);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::MOST_SUMS;
    use std::arch::x86_64::{
        __m512i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32,
        _mm256_setzero_si256, _mm256_storeu_si256, _mm512_add_epi32, _mm512_dpwssd_epi32, _mm512_loadu_si512,
        _mm512_madd_epi16, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    /// Six rows of two vectors: with two of the right operand, a factor and a product all sixteen registers.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(
        count: usize,
        mut lhs: *const u32,
        mut rhs: *const u32,
        sums: &mut [i32; MOST_SUMS],
    ) {
        const ROWS: usize = 6;
        const LANES: usize = 8;
        let mut held = [[_mm256_setzero_si256(); 2]; ROWS];
        for (held, sums) in held.iter_mut().zip(sums.chunks_exact(2 * LANES)) {
            for (held, sums) in held.iter_mut().zip(sums.chunks_exact(LANES)) {
                // SAFETY: a vector's worth of sums.
                *held = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
            }
        }
        for _ in 0..count {
            // SAFETY: step after step of what the caller promises to be readable; pointers move past the end without being read.
            unsafe {
                let right = [_mm256_loadu_si256(rhs.cast()), _mm256_loadu_si256(rhs.add(LANES).cast())];
                for (row, held) in held.iter_mut().enumerate() {
                    let left = _mm256_set1_epi32(*lhs.add(row) as i32);
                    held[0] = _mm256_add_epi32(held[0], _mm256_madd_epi16(left, right[0]));
                    held[1] = _mm256_add_epi32(held[1], _mm256_madd_epi16(left, right[1]));
                }
            }
            lhs = lhs.wrapping_add(ROWS);
            rhs = rhs.wrapping_add(2 * LANES);
        }
        for (held, sums) in held.iter().zip(sums.chunks_exact_mut(2 * LANES)) {
            for (held, sums) in held.iter().zip(sums.chunks_exact_mut(LANES)) {
                // SAFETY: a vector's worth of sums.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *held) };
            }
        }
    }

    /// The same of twelve rows of two vectors of sixteen; how pairs are multiplied and added is given.
    macro_rules! wide {
        ($name:ident, $features:literal, $add:expr) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(
                count: usize,
                mut lhs: *const u32,
                mut rhs: *const u32,
                sums: &mut [i32; MOST_SUMS],
            ) {
                const ROWS: usize = 12;
                const LANES: usize = 16;
                let mut held = [[_mm512_setzero_si512(); 2]; ROWS];
                for (held, sums) in held.iter_mut().zip(sums.chunks_exact(2 * LANES)) {
                    for (held, sums) in held.iter_mut().zip(sums.chunks_exact(LANES)) {
                        // SAFETY: a vector's worth of sums.
                        *held = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
                    }
                }
                let add = $add;
                for _ in 0..count {
                    // SAFETY: step after step of what the caller promises to be readable; pointers move past the end without being read.
                    unsafe {
                        let right =
                            [_mm512_loadu_si512(rhs.cast()), _mm512_loadu_si512(rhs.add(LANES).cast())];
                        for (row, held) in held.iter_mut().enumerate() {
                            let left = _mm512_set1_epi32(*lhs.add(row) as i32);
                            held[0] = add(held[0], left, right[0]);
                            held[1] = add(held[1], left, right[1]);
                        }
                    }
                    lhs = lhs.wrapping_add(ROWS);
                    rhs = rhs.wrapping_add(2 * LANES);
                }
                for (held, sums) in held.iter().zip(sums.chunks_exact_mut(2 * LANES)) {
                    for (held, sums) in held.iter().zip(sums.chunks_exact_mut(LANES)) {
                        // SAFETY: a vector's worth of sums.
                        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), *held) };
                    }
                }
            }
        };
    }

    wide!(avx512, "avx512f,avx512bw", |sum: __m512i, left: __m512i, right: __m512i| {
        _mm512_add_epi32(sum, _mm512_madd_epi16(left, right))
    });
    wide!(vnni, "avx512f,avx512bw,avx512vnni", |sum: __m512i, left: __m512i, right: __m512i| {
        _mm512_dpwssd_epi32(sum, left, right)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::Problem;
    use trimtab_operands::{Data, Operands, Slice};

    /// A product by some tile.
    fn product(problem: &Matmul, operands: &Operands, config: DotsConfig, tile: DotTile) -> Data {
        let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
        let mut out = operands.out.clone();
        out.poison();
        let args = Args { inputs: &inputs, out: out.slice_mut(), pool: &Pool::new(2) };
        launch(problem, config, args, tile).unwrap();
        out
    }

    #[test]
    fn every_tile_of_this_processor_gives_the_same_also_of_the_largest_bytes() {
        for text in [
            "matmul:i8:1x1x1",
            "matmul:i8:12x32x2",
            "matmul:i8:13x33x7",
            "matmul:i8:5x1100x70:t,t",
            "matmul:i8:40x17x1030:n,t",
            "matmul:i8:3x7x19x600:ns,n",
            "matmul:i8:3x5x0",
        ] {
            let problem: Problem = text.parse().unwrap();
            let Problem::Matmul(p) = problem else { unreachable!() };
            let mut operands = Operands::new(&problem);
            for input in &mut operands.inputs {
                // The extremes of a byte: their products of pairs are the largest there are. Nothing is no bytes.
                if let Data::I8(bytes) = input {
                    bytes.iter_mut().step_by(3).for_each(|byte| *byte = i8::MIN);
                    bytes.iter_mut().step_by(7).for_each(|byte| *byte = i8::MAX);
                }
            }
            let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
            let mut wanted = operands.out.clone();
            let args = Args { inputs: &inputs, out: wanted.slice_mut(), pool: &Pool::new(1) };
            super::super::narrow::reference(&p, args).unwrap();
            for tile in tiles() {
                for (kc, threads) in [(256, 1), (512, 2)] {
                    let made = product(&p, &operands, DotsConfig { kc, threads }, tile);
                    assert!(made.slice().bytes() == wanted.slice().bytes(), "{text} {tile:?} {kc}");
                }
            }
        }
        println!("{} tiles", tiles().count());
    }
}
