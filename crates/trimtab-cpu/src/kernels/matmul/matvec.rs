//! A matrix times a vector, either way round: every element of the matrix is read once, so memory sets the pace.

use super::float::{Float, lanes, typed_launch, vector_bits, wrong_point};
use super::lines::{Lines, Rows};
use super::product::{COLUMNS, Product, ROWS, Spread, spread, thread_counts};
use super::work;
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

/// Results of a scaled sum that are worked on at a time: 8 KiB of f32 stay in the first-level cache while the rows stream.
const CHUNK: u32 = 2048;
/// The alternative: longer rows for the prefetchers, results from the second-level cache.
const LONG_CHUNK: u32 = 16_384;

/// The kernel `cpu.matmul.matvec`.
#[derive(Debug)]
pub(super) struct Matvec;

trimtab_core::config! {
    /// Settings of the matrix-vector kernel: bits of a vector, rows of the matrix walked at once, results worked on at a time
    /// (0 where the results are dot products, which need no chunks), threads.
    pub struct MatvecConfig { bits, rows, chunk, threads }
}

/// Whether the results are dot products of stored rows, or else sums of scaled stored rows.
fn by_dot_products(problem: &Matmul) -> bool {
    let along_k =
        if problem.n == 1 && problem.m != 1 { !problem.lhs.transposed } else { problem.rhs.transposed };
    (along_k && problem.k != 1) || (problem.m == 1 && problem.n == 1)
}

impl Variant<Cpu> for Matvec {
    type Problem = Matmul;
    type Config = MatvecConfig;

    identity!("cpu.matmul.matvec", Vectorized);

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        (problem.m != 1 && problem.n != 1).then(|| {
            Decline::from(format!(
                "one operand must be a vector, the result is {} x {}",
                problem.m, problem.n
            ))
        })
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<MatvecConfig> {
        let (rows, chunks): (&[u32], &[u32]) = if by_dot_products(problem) {
            (&[4, 1], &[0])
        } else if problem.m.max(problem.n) > u64::from(CHUNK) {
            (&[8, 4], &[LONG_CHUNK, CHUNK])
        } else {
            (&[8, 4], &[CHUNK])
        };
        // Loads set the pace, not arithmetic: 256 bits were faster than 512 in each of seven shapes, by 1.1 to 2.2.
        let mut widths = vector_bits().to_vec();
        if let Some(at) = widths.iter().position(|&bits| bits == 256) {
            widths.swap(0, at);
        }
        let mut configs = Vec::new();
        for (nth, threads) in thread_counts(problem.flops(), device).into_iter().enumerate() {
            // Rows and chunks matter alike for every number of threads; vector width only where a cache can keep up.
            for &bits in widths.iter().take(if nth == 0 { 2 } else { 1 }) {
                for &chunk in chunks {
                    configs.extend(rows.iter().map(|&rows| MatvecConfig { bits, rows, chunk, threads }));
                }
            }
        }
        configs.truncate(24);
        configs
    }

    fn work(&self, problem: &Matmul, config: MatvecConfig, _: &DeviceFacts) -> Work {
        let rows = u64::from(config.rows.max(1));
        let outs = problem.m.max(problem.n);
        let matrix = outs * problem.k;
        // The matrix once; beside it, dot products walk the vector once every few rows, scaled sums read and write the
        // results once every few rows.
        let beside = if by_dot_products(problem) {
            problem.k.saturating_mul(outs.div_ceil(rows)).saturating_add(outs)
        } else {
            (2 * outs).saturating_mul(problem.k.div_ceil(rows)).saturating_add(problem.k)
        };
        work(problem, matrix.saturating_add(beside), 0, config.threads, lanes(problem, config.bits))
    }

    #[inline]
    fn launch(&self, problem: &Matmul, config: MatvecConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, launch, config, args)
    }
}

#[inline]
fn launch<T: Float>(problem: &Matmul, config: MatvecConfig, args: Args<'_>) -> Launched {
    let Some(lines) = T::lines(config.bits) else {
        return Err(wrong_point(config));
    };
    if problem.m != 1 && problem.n != 1 {
        return Err(LaunchError::Kernel(format!("{problem} has no vector")));
    }
    let split = if problem.m == 1 { COLUMNS } else { ROWS };
    let how = Spread { threads: config.threads, split, quantum: (16, 16) };
    let rows = (config.rows as usize).max(1);
    let chunk = if config.chunk == 0 { CHUNK as usize } else { config.chunk as usize };
    let one_row = problem.m == 1;
    spread::<T>(problem, how, args, |product| multiply(product, one_row, lines, rows, chunk))
}

/// The product of one row (`one_row`) or one column.
#[inline]
fn multiply<T: Float>(product: &Product<'_, T>, one_row: bool, lines: &Lines<T>, rows: usize, chunk: usize) {
    let ((m, n, k), (out, _)) = (product.sizes(), product.out());
    let (lhs, rhs) = (product.lhs(), product.rhs());
    // The vector's elements always lie together: whichever way it is stored, one of its sizes is 1. So do the results: a
    // row of them, or a column of a matrix of one column.
    let (outs, vector, matrix, out_step, k_step) = if one_row {
        (n, lhs.start, rhs.start, rhs.col, rhs.row)
    } else {
        (m, rhs.start, lhs.start, lhs.row, lhs.col)
    };
    if k_step == 1 && (out_step != 1 || outs == 1) {
        let mut at = 0;
        while at < outs {
            let (count, dot) = lines.dot(rows.min(outs - at));
            // SAFETY: rows `at .. at + count` of the outs × k matrix, the whole vector and `count` results lie within the
            // product; `lines` proves the instruction set.
            unsafe {
                let start = matrix.add(at * out_step);
                dot(&Rows { start, step: out_step, len: k, vector, out: out.add(at), add: false });
            }
            at += count;
        }
        return;
    }
    let mut first = 0;
    while first < outs {
        let len = chunk.min(outs - first);
        let mut at = 0;
        while at < k {
            let (count, scaled) = lines.scaled(rows.min(k - at));
            // SAFETY: rows `at .. at + count` of the k × outs matrix, columns `first .. first + len`, as many factors and
            // `len` results lie within the product (columns lie together: only one of the steps can differ from 1);
            // results are read only after the first rows have written them; `lines` proves the instruction set.
            unsafe {
                scaled(&Rows {
                    start: matrix.add(at * k_step + first),
                    step: k_step,
                    len,
                    vector: vector.add(at),
                    out: out.add(first),
                    add: at > 0,
                });
            }
            at += count;
        }
        first += len;
    }
}
