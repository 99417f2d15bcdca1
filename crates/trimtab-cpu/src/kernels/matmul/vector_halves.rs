//! A matrix of 16-bit floats times a vector: pieces of some rows become f32 in the first-level cache and are worked on there, so that memory
//! is read once and at half of what f32 takes.

use super::float::{Float, lanes, vector_bits, wrong_point};
use super::lines::{Lines, Rows};
use super::narrow::wide;
use super::product::{COLUMNS, Product, ROWS, Spread, spread, thread_counts};
use super::work;
use crate::args::{Args, Cpu, Launched};
use crate::kernels::halves::Half;
use crate::kernels::room::with_room;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Matmul, Variant, Work};

/// Elements of a row that are widened at a time: with 8 rows 16 KiB.
const PIECE: usize = 512;
/// Most rows at once.
const MOST_ROWS: u32 = 8;

trimtab_core::config! {
    /// Settings: bits of a vector, rows of the matrix walked at once, threads.
    pub struct VectorHalvesConfig { bits, rows, threads }
}

/// The kernel `cpu.matmul.vector_halves`.
#[derive(Debug)]
pub(super) struct VectorHalves;

/// Elements of f32 that a thread needs.
fn room(problem: &Matmul, rows: u32) -> u64 {
    let lines = problem.k.saturating_add(problem.m.max(problem.n));
    lines.saturating_add(u64::from(rows) * PIECE as u64)
}

impl Variant<Cpu> for VectorHalves {
    type Problem = Matmul;
    type Config = VectorHalvesConfig;

    identity!("cpu.matmul.vector_halves", Vectorized);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F16 | DType::Bf16)
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("{} is multiplied as it is", problem.dtype));
        let (m, n) = (problem.m, problem.n);
        let wide = || Decline::from(format!("one operand must be a vector, the result is {m} x {n}"));
        (!self.takes(problem.dtype)).then(other).or_else(|| (m != 1 && n != 1).then(wide))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<VectorHalvesConfig> {
        let mut configs = Vec::new();
        for threads in thread_counts(problem.flops(), device) {
            for &bits in vector_bits().iter().take(2) {
                configs.extend([MOST_ROWS, 4].map(|rows| VectorHalvesConfig { bits, rows, threads }));
            }
        }
        configs.truncate(24);
        configs
    }

    fn work(&self, problem: &Matmul, config: VectorHalvesConfig, _: &DeviceFacts) -> Work {
        let outs = problem.m.max(problem.n);
        let walked = outs.saturating_mul(problem.k).saturating_add(outs).saturating_add(problem.k);
        let lanes = lanes(&wide(problem), config.bits);
        let work = work(problem, walked, 0, config.threads, lanes);
        let room = room(problem, config.rows).saturating_mul(4).saturating_mul(config.threads.into());
        Work { scratch: Bytes(room), ..work }
    }

    fn launch(&self, problem: &Matmul, config: VectorHalvesConfig, args: Args<'_>) -> Launched {
        let is_vector = problem.m == 1 || problem.n == 1;
        let Some(lines) =
            f32::lines(config.bits).filter(|_| is_vector && (1..=MOST_ROWS).contains(&config.rows))
        else {
            return Err(wrong_point(config));
        };
        let split = if problem.m == 1 { COLUMNS } else { ROWS };
        let how = Spread { threads: config.threads, split, quantum: (16, 16) };
        let (one_row, rows) = (problem.m == 1, config.rows as usize);
        by_half!(problem.dtype, T => {
            spread::<T>(problem, how, args, |product| multiply(product, one_row, lines, rows))
        })
    }
}

/// The product of one row (`one_row`) or one column.
fn multiply<T: Half>(product: &Product<'_, T>, one_row: bool, lines: &Lines<f32>, rows: usize) {
    let ((m, n, k), (out, _)) = (product.sizes(), product.out());
    let (lhs, rhs) = (product.lhs(), product.rhs());
    // The vector's elements lie together, and so do the results: see the kernel of f32.
    let (outs, vector, matrix, out_step, k_step) = if one_row {
        (n, lhs.start, rhs.start, rhs.col, rhs.row)
    } else {
        (m, rhs.start, lhs.start, lhs.row, lhs.col)
    };
    with_room(k + outs + rows * PIECE, |room: &mut [f32]| {
        let (wide, rest) = room.split_at_mut(k);
        let (sums, pieces) = rest.split_at_mut(outs);
        // SAFETY: the vector has `k` elements.
        T::widen(unsafe { std::slice::from_raw_parts(vector, k) }, wide);
        // Widens `len` elements of so many rows `step` apart.
        let widen = |from: *const T, step: usize, count: usize, len: usize, to: &mut [f32]| {
            for (row, to) in to.chunks_exact_mut(PIECE).take(count).enumerate() {
                // SAFETY: the caller stays within the matrix.
                T::widen(unsafe { std::slice::from_raw_parts(from.add(row * step), len) }, &mut to[..len]);
            }
        };
        if k_step == 1 && (out_step != 1 || outs == 1) {
            sums.fill(0.0);
            let mut at = 0;
            while at < outs {
                let (count, dot) = lines.dot(rows.min(outs - at));
                for first in (0..k).step_by(PIECE) {
                    let len = PIECE.min(k - first);
                    // SAFETY: rows `at .. at + count` of the outs × k matrix, elements `first .. first + len` of them.
                    let start = unsafe { matrix.add(at * out_step + first) };
                    widen(start, out_step, count, len, pieces);
                    let mut part = [0.0; MOST_ROWS as usize];
                    // SAFETY: `count` rows of `len` were widened, the vector is as long, and there is a place for each sum; `lines`
                    // proves the instruction set.
                    unsafe {
                        let (start, vector) = (pieces.as_ptr(), wide.as_ptr().add(first));
                        dot(&Rows { start, step: PIECE, len, vector, out: part.as_mut_ptr(), add: false });
                    }
                    sums[at..at + count].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                }
                at += count;
            }
        } else {
            for first in (0..outs).step_by(PIECE) {
                let len = PIECE.min(outs - first);
                let mut at = 0;
                while at < k {
                    let (count, scaled) = lines.scaled(rows.min(k - at));
                    // SAFETY: rows `at .. at + count` of the k × outs matrix, columns `first .. first + len` of them, which lie together.
                    let start = unsafe { matrix.add(at * k_step + first) };
                    widen(start, k_step, count, len, pieces);
                    // SAFETY: `count` rows of `len` were widened, there are as many factors and `len` sums, which are read only after the
                    // first rows have written them; `lines` proves the instruction set.
                    unsafe {
                        let (start, vector) = (pieces.as_ptr(), wide.as_ptr().add(at));
                        let out = sums.as_mut_ptr().add(first);
                        scaled(&Rows { start, step: PIECE, len, vector, out, add: at > 0 });
                    }
                    at += count;
                }
            }
        }
        // SAFETY: the results lie together and are this product's own.
        T::narrow(sums, unsafe { std::slice::from_raw_parts_mut(out, outs) });
    });
}
