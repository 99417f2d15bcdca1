//! Large products: blocks of `rhs` are packed for the second-level cache, panels of `lhs` for the first, and register tiles
//! run over them. Threads compute separate rectangles of the result and share nothing.

use super::float::{Float, lanes, typed_launch, vector_bits, wrong_point};
use super::product::{Product, Spread, View, rereads, splits, spread, thread_counts};
use super::scratch;
use super::tiles::{Tile, Tiles};
use super::turn::turn;
use super::work;
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{Decline, DeviceFacts, Matmul, Variant, Work};

/// Most points offered for a problem.
const MAX_POINTS: usize = 24;
/// Largest block sizes a point may name.
const MAX_BLOCK: u32 = 16_384;
/// A second-level cache to plan for where none could be read.
const ASSUMED_CACHE_BYTES: u64 = 256 << 10;

/// Addresses this far apart share a set in a first-level cache of 64 sets of 64-byte lines, the usual kind.
const SAME_LINES_BYTES: u64 = 4096;

/// The kernel `cpu.matmul.blocked`.
#[derive(Debug)]
pub(in crate::kernels) struct Blocked;

trimtab_core::config! {
    /// Settings of the blocked kernel: bits of a vector, vectors a tile is wide, columns (`nc`) and rows (`kc`) of a block of
    /// `rhs`, whether panels of `lhs` are packed (1) or read in place (0), threads, and whether they share columns (0), rows
    /// (1) or both (2).
    pub struct BlockedConfig { bits, vectors, nc, kc, pack, threads, split }
}

impl Variant<Cpu> for Blocked {
    type Problem = Matmul;
    type Config = BlockedConfig;

    identity!("cpu.matmul.blocked", Tiled);

    fn declines(&self, _: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<BlockedConfig> {
        let size = problem.dtype.size();
        // A 1 KiB row of a panel: 12 rows of `lhs` take a third of a 32 KiB first-level cache.
        let kc = (1024 / size) as u32;
        // Half the second-level cache for the block of `rhs`, the rest for what streams by.
        let cache = device.cache(2).map_or(ASSUMED_CACHE_BYTES, |bytes| bytes.0);
        let fitting = (cache / 2 / (u64::from(kc) * size)).clamp(64, 4096) as u32;
        let nc = fitting.next_multiple_of(96);
        let bits = vector_bits()[0];
        let counts = thread_counts(problem.flops(), device);
        // Reading `lhs` in place saves the copy (1.02 against 1.13 of the best at 256³), unless its rows fall on the same
        // lines of the first-level cache, which repeat every 4 KiB.
        let line = if problem.lhs.transposed { problem.m } else { problem.k } * size;
        let pack = u32::from(line > 0 && line.is_multiple_of(SAME_LINES_BYTES));
        let default = BlockedConfig { bits, vectors: 2, nc, kc, pack, threads: 1, split: 0 };
        let mut configs = Vec::new();
        for (nth, threads) in counts.into_iter().enumerate() {
            for (way, split) in splits(problem, threads).into_iter().enumerate() {
                let base = BlockedConfig { threads, split, ..default };
                configs.extend([base, BlockedConfig { pack: 1 - pack, ..base }]);
                if way > 0 || nth > 1 {
                    continue;
                }
                configs.push(BlockedConfig { vectors: 3, ..base });
                if problem.k > u64::from(kc) {
                    configs.push(BlockedConfig { kc: kc * 2, nc: nc / 2, ..base });
                    configs.push(BlockedConfig { kc: kc * 2, ..base });
                }
                if problem.n > u64::from(nc) {
                    configs.push(BlockedConfig { nc: nc * 4, ..base });
                }
                if let (Some(&narrower), 0) = (vector_bits().get(1), nth) {
                    configs.push(BlockedConfig { bits: narrower, ..base });
                }
            }
        }
        // Portable tiles come two vectors wide at most.
        configs.retain(|config| {
            f32::tiles(config.bits).is_some_and(|tiles| tiles.max_rows(config.vectors as usize) > 0)
        });
        configs.truncate(MAX_POINTS);
        configs
    }

    fn work(&self, problem: &Matmul, config: BlockedConfig, _: &DeviceFacts) -> Work {
        let (lhs_times, rhs_times) = rereads(problem, config.threads, config.split);
        let blocks = problem.n.div_ceil(u64::from(config.nc.max(1))).max(lhs_times);
        let passes = problem.k.div_ceil(u64::from(config.kc.max(1)));
        // `lhs` once a block of columns, twice more if it is copied; `rhs` is read, its copy written and read; the result is
        // written, and read and written again for every further pass over k.
        let lhs =
            (problem.m * problem.k).saturating_mul(blocks).saturating_mul(1 + 2 * u64::from(config.pack));
        let rhs = (problem.k * problem.n).saturating_mul(3 * rhs_times);
        let out = (problem.m * problem.n).saturating_mul((2 * passes).saturating_sub(1).max(1));
        let elements = lhs.saturating_add(rhs).saturating_add(out);
        let scratch = scratch_elements(config, problem.n, problem.k);
        work(problem, elements, scratch, config.threads, lanes(problem, config.bits))
    }

    #[inline]
    fn launch(&self, problem: &Matmul, config: BlockedConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, launch, config, args, |_, _, _| ())
    }
}

/// Most rows any tile has.
const MAX_ROWS: u64 = 12;
/// Most columns any tile has.
const MAX_WIDTH: u64 = 48;

/// Elements a thread packs at a time: a block of `rhs`, rounded up to whole tiles, and a panel of `lhs`.
fn scratch_elements(config: BlockedConfig, n: u64, k: u64) -> u64 {
    let kc = u64::from(config.kc).min(k);
    let nc = u64::from(config.nc).min(n).saturating_add(MAX_WIDTH);
    kc.saturating_mul(nc + u64::from(config.pack) * MAX_ROWS)
}

/// Computes a product and calls `finish(start, rows, columns)` for every rectangle of the result once it is complete, while
/// it is in the caches; its rows are as far apart as those of the result.
#[inline]
pub(in crate::kernels) fn launch<T: Float>(
    problem: &Matmul,
    config: BlockedConfig,
    args: Args<'_>,
    finish: impl Fn(*mut T, usize, usize) + Sync,
) -> Launched {
    let scratch = scratch_elements(config, problem.n, problem.k);
    let Some(blocks) = Blocks::<T>::new(config, scratch) else {
        return Err(wrong_point(config));
    };
    let quantum = (blocks.tiles.max_rows(blocks.vectors), blocks.tiles.lanes() * blocks.vectors);
    let how = Spread { threads: config.threads, split: config.split, quantum };
    spread::<T>(problem, how, args, |product| {
        let source = Stored { product, pack: blocks.pack };
        scratch::with::<T, _>(scratch as usize, |scratch| {
            // SAFETY: the result of a product is writable by nobody else, and its sizes are at least 1.
            unsafe { blocks.multiply(product.sizes(), &source, product.out(), scratch, &finish) }
        });
    })
}

/// Where the operands of a product come from.
///
/// # Safety
/// `lhs` must give a view that is readable as rows × depth while nobody writes to the panel.
pub(in crate::kernels) unsafe trait Source<T> {
    /// Packs rows `p .. p + depth` and columns `col .. col + cols` of the right operand, which are among those of the product:
    /// strips of `width` columns, each row of a strip together. Nobody reads the missing columns of the last strip.
    fn rhs(&self, inner: (usize, usize), columns: (usize, usize), width: usize, block: &mut [T]);
    /// Rows `row .. row + rows` and columns `p .. p + depth` of the left operand, which are among those of the product, in place or
    /// in the panel, which has room for them if [`Blocks::pack`] says so.
    fn lhs(&self, rows: (usize, usize), inner: (usize, usize), panel: &mut [T]) -> View<T>;
}

/// Operands that lie in memory.
struct Stored<'a, 'b, T> {
    product: &'a Product<'b, T>,
    pack: bool,
}

// SAFETY: the views of a product cover its operands.
unsafe impl<T: Float> Source<T> for Stored<'_, '_, T> {
    #[inline]
    fn rhs(&self, inner: (usize, usize), columns: (usize, usize), width: usize, block: &mut [T]) {
        // SAFETY: the rows and columns lie within the product's right operand.
        unsafe { pack_rhs(self.product.rhs(), inner, columns, width, block) };
    }

    #[inline]
    fn lhs(&self, (row, rows): (usize, usize), (p, depth): (usize, usize), panel: &mut [T]) -> View<T> {
        let lhs = self.product.lhs();
        let lhs = View { start: lhs.start.wrapping_add(row * lhs.row + p * lhs.col), ..lhs };
        // SAFETY: the rows and columns lie within the product's left operand.
        if self.pack { unsafe { pack_lhs(lhs, rows, depth, panel) } } else { lhs }
    }
}

/// Computes a product of operands that come from elsewhere on the caller's thread, as [`launch`] does. `None` for settings no
/// point has.
///
/// # Safety
/// `out` must be writable as m × n, rows `out_row` apart, by nobody else; all sizes must be at least 1.
pub(in crate::kernels) unsafe fn multiply<T: Float>(
    (m, n, k): (usize, usize, usize),
    source: &impl Source<T>,
    (out, out_row): (*mut T, usize),
    config: BlockedConfig,
    finish: &impl Fn(*mut T, usize, usize),
) -> Option<()> {
    let scratch = scratch_elements(config, n as u64, k as u64);
    let blocks = Blocks::new(config, scratch)?;
    scratch::with::<T, _>(scratch as usize, |scratch| {
        // SAFETY: as promised by the caller.
        unsafe { blocks.multiply((m, n, k), source, (out, out_row), scratch, finish) }
    });
    Some(())
}

#[derive(Clone, Copy)]
struct Blocks<T: 'static> {
    tiles: Tiles<T>,
    vectors: usize,
    nc: usize,
    kc: usize,
    pack: bool,
}

impl<T: Float> Blocks<T> {
    /// Those of settings, unless no point has them.
    fn new(config: BlockedConfig, scratch: u64) -> Option<Blocks<T>> {
        let (vectors, nc, kc) = (config.vectors as usize, config.nc, config.kc);
        let legal = (1..=MAX_BLOCK).contains(&nc) && (1..=MAX_BLOCK).contains(&kc) && config.pack <= 1;
        let tiles = T::tiles(config.bits).filter(|tiles| {
            tiles.max_rows(vectors) > 0 && legal && scratch <= scratch::MAX_ELEMENTS as u64
        })?;
        Some(Blocks { tiles, vectors, nc: nc as usize, kc: kc as usize, pack: config.pack == 1 })
    }

    /// # Safety
    /// As [`multiply`].
    unsafe fn multiply(
        self,
        (m, n, k): (usize, usize, usize),
        source: &impl Source<T>,
        out: (*mut T, usize),
        scratch: &mut [T],
        finish: &impl Fn(*mut T, usize, usize),
    ) {
        let (lanes, max_rows) = (self.tiles.lanes(), self.tiles.max_rows(self.vectors));
        let width = self.vectors * lanes;
        let nc = self.nc.next_multiple_of(width).min(n.next_multiple_of(width));
        // Blocks of nearly equal depth: 257 as 129 + 128.
        let passes = k.div_ceil(self.kc);
        let kc = k.div_ceil(passes);
        let (panel, block) = scratch.split_at_mut(if self.pack { max_rows * kc } else { 0 });
        for col in (0..n).step_by(nc) {
            let cols = nc.min(n - col);
            for p in (0..k).step_by(kc) {
                let depth = kc.min(k - p);
                source.rhs((p, depth), (col, cols), width, block);
                let panels = m.div_ceil(max_rows);
                let (height, taller) = (m / panels, m % panels);
                let mut row = 0;
                for nth in 0..panels {
                    let rows = height + usize::from(nth < taller);
                    let lhs = source.lhs((row, rows), (p, depth), panel);
                    // SAFETY: the source promises that the left operand is readable, the caller that the result is writable.
                    unsafe { self.panel(out, lhs, (row, rows), (col, cols), (p, depth), block) };
                    if p + depth == k {
                        finish(out.0.wrapping_add(row * out.1 + col), rows, cols);
                    }
                    row += rows;
                }
            }
        }
    }

    /// One panel of rows times the packed block.
    ///
    /// # Safety
    /// `lhs` must be readable as rows × depth, `block` packed, and the rows and columns must lie within the result.
    #[inline]
    unsafe fn panel(
        self,
        (out, out_row): (*mut T, usize),
        lhs: View<T>,
        (row, rows): (usize, usize),
        (col, cols): (usize, usize),
        (p, depth): (usize, usize),
        block: &[T],
    ) {
        let lanes = self.tiles.lanes();
        let width = self.vectors * lanes;
        for (strip, packed) in (0..cols).step_by(width).zip(block.chunks_exact(width * depth)) {
            let wide = width.min(cols - strip);
            let Some(tile) = self.tiles.get(rows, wide.div_ceil(lanes)) else { continue };
            // SAFETY: the tile's rows and columns lie within the product; `packed` holds depth rows of `width` elements;
            // just enough vectors for `wide` were chosen; `tiles` proves the instruction set.
            unsafe {
                tile(&Tile {
                    k: depth,
                    lhs: lhs.start,
                    lhs_row: lhs.row,
                    lhs_col: lhs.col,
                    rhs: packed.as_ptr(),
                    rhs_row: width,
                    out: out.add(row * out_row + col + strip),
                    out_row,
                    cols: wide,
                    add: p > 0,
                });
            }
        }
    }
}

/// Copies rows `p .. p + depth` and columns `col .. col + cols` of a product's right operand to `block`: strips of `width`
/// columns, each row of a strip together. The last strip's missing columns are left as they are; nobody reads them.
///
/// # Safety
/// The rows and columns must lie within the operand.
pub(in crate::kernels) unsafe fn pack_rhs<T: Float>(
    rhs: View<T>,
    (p, depth): (usize, usize),
    (col, cols): (usize, usize),
    width: usize,
    block: &mut [T],
) {
    for (strip, packed) in (0..cols).step_by(width).zip(block.chunks_exact_mut(width * depth)) {
        let wide = width.min(cols - strip);
        let from = rhs.start.wrapping_add(p * rhs.row + (col + strip) * rhs.col);
        if rhs.col == 1 {
            for (row, to) in packed.chunks_exact_mut(width).enumerate() {
                // SAFETY: `wide` elements of row p + row, which is within the operand.
                let from = unsafe { std::slice::from_raw_parts(from.add(row * rhs.row), wide) };
                to[..wide].copy_from_slice(from);
            }
        } else {
            // SAFETY: `wide` columns of `depth` neighbouring elements, within the operand.
            unsafe { turn(from, rhs.col, wide, depth, width, packed) };
        }
    }
}

/// Copies rows × depth elements of a left operand to `panel`, columns together, and returns the copy's view.
///
/// # Safety
/// `lhs` must be readable as rows × depth, with rows or columns that are neighbours.
#[inline]
pub(in crate::kernels) unsafe fn pack_lhs<T: Float>(
    lhs: View<T>,
    rows: usize,
    depth: usize,
    panel: &mut [T],
) -> View<T> {
    if lhs.col == 1 {
        // SAFETY: as promised by the caller.
        unsafe { turn(lhs.start, lhs.row, rows, depth, rows, panel) };
    } else {
        for (p, to) in panel.chunks_exact_mut(rows).enumerate().take(depth) {
            // SAFETY: column p of those the caller promises; its rows are neighbours.
            to.copy_from_slice(unsafe { std::slice::from_raw_parts(lhs.start.add(p * lhs.col), rows) });
        }
    }
    View { start: panel.as_ptr(), row: 1, col: rows }
}
