//! Small products: register tiles read straight from the operands, nothing is packed unless `rhs` is stored transposed.
//! The fixed cost is what counts here; threads share a batch, or the rows of the result.

use super::float::{Float, lanes, typed_launch, vector_bits, wrong_point};
use super::product::{Product, ROWS, Spread, rereads, spread, thread_counts};
use super::scratch;
use super::tiles::{MAX_VECTORS, Tile, Tiles};
use super::turn::turn;
use super::work;
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

/// Largest m, n and k: beyond, strips of `rhs` no longer stay in the first-level cache and packing pays.
const MAX_SIDE: u64 = 320;

/// Most points offered for a problem.
const MAX_POINTS: usize = 24;

/// The kernel `cpu.matmul.small`.
#[derive(Debug)]
pub(super) struct Small;

trimtab_core::config! {
    /// Settings of the small kernel: bits of a vector, vectors a tile is wide, most rows of a tile, threads.
    pub struct SmallConfig { bits, vectors, rows, threads }
}

impl Variant<Cpu> for Small {
    type Problem = Matmul;
    type Config = SmallConfig;

    identity!("cpu.matmul.small", Vectorized);

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let longest = problem.m.max(problem.n).max(problem.k);
        (longest > MAX_SIDE).then(|| {
            Decline::from(format!(
                "takes sizes up to {MAX_SIDE}, this one is {longest}; larger ones gain from packing"
            ))
        })
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<SmallConfig> {
        let mut configs = Vec::new();
        // The narrowest vectors that still cover a row at once waste no lanes; otherwise the widest.
        let mut widths = vector_bits().to_vec();
        if let Some(fitting) = widths.iter().rposition(|&bits| u64::from(lanes(problem, bits)) >= problem.n) {
            widths[..=fitting].rotate_right(1);
        }
        for bits in widths {
            let columns = u64::from(lanes(problem, bits));
            for vectors in [2, 3, 1] {
                let rows = f32::tiles(bits).map_or(0, |tiles| tiles.max_rows(vectors as usize) as u32);
                // A tile wider than the result would never be used.
                if rows == 0 || (vectors > 1 && problem.n <= columns * u64::from(vectors - 1)) {
                    continue;
                }
                configs.push(SmallConfig { bits, vectors, rows, threads: 1 });
                // Half the rows: fewer sums, but less is left over.
                if u64::from(rows / 2) < problem.m && rows >= 4 {
                    configs.push(SmallConfig { bits, vectors, rows: rows / 2, threads: 1 });
                }
            }
        }
        // The tile matters alike for every number of threads: the two first ones will do for more than one.
        let tiles: Vec<SmallConfig> = configs.iter().copied().take(2).collect();
        for (nth, threads) in
            thread_counts(problem.flops(), device).into_iter().enumerate().filter(|&(_, t)| t > 1)
        {
            let with_threads = tiles.iter().map(|&tile| SmallConfig { threads, ..tile });
            let at = if nth == 0 { 0 } else { configs.len() };
            configs.splice(at..at, with_threads);
        }
        configs.truncate(MAX_POINTS);
        configs
    }

    fn work(&self, problem: &Matmul, config: SmallConfig, _: &DeviceFacts) -> Work {
        let lanes = lanes(problem, config.bits);
        // Strips of columns, outermost: `lhs` is walked once a strip, a strip of `rhs` stays in the first-level cache.
        let strips = problem.n.div_ceil(u64::from(lanes * config.vectors).max(1));
        let (_, rhs_times) = rereads(problem, config.threads, ROWS);
        let turned = if problem.rhs.transposed { 2 } else { 0 };
        let per_product = (problem.m * problem.k)
            .saturating_mul(strips)
            .saturating_add((problem.k * problem.n).saturating_mul((1 + turned) * rhs_times))
            .saturating_add(problem.m * problem.n);
        let scratch = if problem.rhs.transposed { problem.k * problem.n } else { 0 };
        work(problem, per_product, scratch, config.threads, lanes)
    }

    #[inline]
    fn launch(&self, problem: &Matmul, config: SmallConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, launch, config, args)
    }
}

#[inline]
fn launch<T: Float>(problem: &Matmul, config: SmallConfig, args: Args<'_>) -> Launched {
    let (vectors, rows) = (config.vectors as usize, config.rows as usize);
    let Some(tiles) = T::tiles(config.bits).filter(|tiles| (1..=tiles.max_rows(vectors)).contains(&rows))
    else {
        return Err(wrong_point(config));
    };
    if problem.rhs.transposed && problem.k.saturating_mul(problem.n) > scratch::MAX_ELEMENTS as u64 {
        return Err(LaunchError::Kernel(format!("{problem} is too large for the small kernel")));
    }
    let how = Spread { threads: config.threads, split: ROWS, quantum: (rows, 1) };
    spread::<T>(problem, how, args, |product| {
        let (_, n, k) = product.sizes();
        let rhs = product.rhs();
        if rhs.col == 1 {
            // SAFETY: a product's right operand is k × n, here with columns that are neighbours.
            unsafe { multiply(product, rhs.start, rhs.row, tiles, vectors, rows) };
        } else {
            scratch::with::<T, _>(k * n, |turned| {
                // SAFETY: a product's right operand is k × n, here n neighbouring columns of k elements each, and `turned`
                // holds as many.
                unsafe {
                    turn(rhs.start, rhs.col, n, k, n, turned);
                    multiply(product, turned.as_ptr(), n, tiles, vectors, rows);
                }
            });
        }
    })
}

/// The product with `rhs`.
///
/// # Safety
/// `rhs` must be readable as k rows of n neighbouring elements, `rhs_row` apart.
#[inline]
unsafe fn multiply<T: Float>(
    product: &Product<'_, T>,
    rhs: *const T,
    rhs_row: usize,
    tiles: Tiles<T>,
    vectors: usize,
    rows: usize,
) {
    let ((m, n, k), (out, out_row), lhs) = (product.sizes(), product.out(), product.lhs());
    let width = vectors * tiles.lanes();
    // Panels of nearly equal height: 13 rows as 7 + 6, since a tile of one row cannot hide the latency of its sums.
    let panels = m.div_ceil(rows);
    let (height, taller) = (m / panels, m % panels);
    let mut col = 0;
    while col < n {
        let cols = width.min(n - col);
        let wide = cols.div_ceil(tiles.lanes()).min(MAX_VECTORS);
        let mut row = 0;
        for panel in 0..panels {
            let high = height + usize::from(panel < taller);
            if let Some(tile) = tiles.get(high, wide) {
                // SAFETY: row + high <= m and col + cols <= n, so the tile lies within the product; `wide` vectors
                // are just enough for `cols`; `tiles` proves the instruction set.
                unsafe {
                    tile(&Tile {
                        k,
                        lhs: lhs.start.add(row * lhs.row),
                        lhs_row: lhs.row,
                        lhs_col: lhs.col,
                        rhs: rhs.add(col),
                        rhs_row,
                        out: out.add(row * out_row + col),
                        out_row,
                        cols,
                        add: false,
                    });
                }
            }
            row += high;
        }
        col += cols;
    }
}
