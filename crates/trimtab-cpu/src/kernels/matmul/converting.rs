//! Products of 16-bit floats by the blocked kernel: operands become f32 while they are packed, so that nothing is copied that
//! would not be copied anyway, and the result is rounded while it is in the caches.

use super::blocked::{Blocked, BlockedConfig, Source, multiply};
use super::float::wrong_point;
use super::narrow::wide;
use super::product::{Product, Spread, View, spread};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::halves::Half;
use crate::kernels::room::{MOST_ROOM, with_room};
use std::cell::Cell;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Matmul, Variant, Work};

/// Rows and columns that parts of a product are multiples of.
const QUANTUM: (usize, usize) = (12, 32);

/// The kernel `cpu.matmul.converting`.
#[derive(Debug)]
pub(super) struct Converting;

/// Elements of f32 that one product's result takes, and a line of an operand.
fn room(problem: &Matmul) -> u64 {
    problem.m.saturating_mul(problem.n).saturating_add(problem.n.max(problem.k))
}

impl Variant<Cpu> for Converting {
    type Problem = Matmul;
    type Config = BlockedConfig;

    identity!("cpu.matmul.converting", Tiled);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F16 | DType::Bf16)
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::from(format!("{} is multiplied as it is", problem.dtype));
        let large = || Decline::from(format!("needs room for {} elements, has {MOST_ROOM}", room(problem)));
        let is_large = room(problem) > MOST_ROOM as u64;
        (!self.takes(problem.dtype)).then(other).or_else(|| is_large.then(large))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<BlockedConfig> {
        let mut configs = Blocked.configs(&wide(problem), device);
        // A panel that is converted is a packed one.
        configs.retain(|config| config.pack == 1);
        configs
    }

    fn work(&self, problem: &Matmul, config: BlockedConfig, device: &DeviceFacts) -> Work {
        let work = Blocked.work(&wide(problem), config, device);
        let scratch = Bytes(work.scratch.0.saturating_add(room(problem).saturating_mul(4)));
        Work { scratch, ..work }
    }

    fn launch(&self, problem: &Matmul, config: BlockedConfig, args: Args<'_>) -> Launched {
        if config.pack != 1 || room(problem) > MOST_ROOM as u64 {
            return Err(wrong_point(config));
        }
        by_half!(problem.dtype, T => launch::<T>(problem, config, args))
    }
}

fn launch<T: Half>(problem: &Matmul, config: BlockedConfig, args: Args<'_>) -> Launched {
    let how = Spread { threads: config.threads, split: config.split, quantum: QUANTUM };
    let failed = std::sync::atomic::AtomicBool::new(false);
    spread::<T>(problem, how, args, |product| {
        let (m, n, k) = product.sizes();
        let (out, out_row) = product.out();
        with_room(m * n + n.max(k), |room: &mut [f32]| {
            let (sums, line) = room.split_at_mut(m * n);
            let base = sums.as_mut_ptr();
            let source = Converted { product, line: Cell::new(line) };
            let finish = |start: *mut f32, rows: usize, columns: usize| {
                // SAFETY: the rectangle lies in `sums`, whose rows are n apart and which nobody writes to meanwhile; that of the
                // result is the product's own.
                unsafe {
                    let at = start.offset_from(base) as usize;
                    let (row, column) = (at / n, at % n);
                    for nth in 0..rows {
                        let from = std::slice::from_raw_parts(start.add(nth * n), columns);
                        let to = out.add((row + nth) * out_row + column);
                        T::narrow(from, std::slice::from_raw_parts_mut(to, columns));
                    }
                }
            };
            // SAFETY: `sums` is ours, m × n with rows n apart; all sizes of a product are at least 1.
            let done = unsafe { multiply::<f32>((m, n, k), &source, (base, n), config, &finish) };
            if done.is_none() {
                failed.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
    })?;
    if failed.into_inner() { Err(wrong_point(config)) } else { Ok(()) }
}

/// Operands in memory that become f32 on their way into a block or panel.
struct Converted<'a, 'b, T> {
    product: &'a Product<'b, T>,
    /// Room for one line of an operand.
    line: Cell<&'a mut [f32]>,
}

impl<T: Half> Converted<'_, '_, T> {
    /// Converts `count` lines of `len` neighbouring elements, `step` apart, and hands over each.
    ///
    /// # Safety
    /// The lines must be readable.
    unsafe fn lines(
        &self,
        from: *const T,
        step: usize,
        (count, len): (usize, usize),
        mut take: impl FnMut(usize, &[f32]),
    ) {
        let line = self.line.take();
        for nth in 0..count {
            // SAFETY: as promised by the caller.
            let from = unsafe { std::slice::from_raw_parts(from.add(nth * step), len) };
            if let Some(line) = line.get_mut(..len) {
                T::widen(from, line);
                take(nth, line);
            }
        }
        self.line.set(line);
    }
}

// SAFETY: a panel that was written is readable as rows × depth, columns together.
unsafe impl<T: Half> Source<f32> for Converted<'_, '_, T> {
    fn rhs(&self, (p, depth): (usize, usize), (col, cols): (usize, usize), width: usize, block: &mut [f32]) {
        let rhs = self.product.rhs();
        let from = rhs.start.wrapping_add(p * rhs.row + col * rhs.col);
        let strip = width * depth;
        if rhs.col == 1 {
            // SAFETY: `depth` rows of `cols` columns within the operand.
            unsafe {
                self.lines(from, rhs.row, (depth, cols), |row, line| {
                    for (part, block) in line.chunks(width).zip(block.chunks_exact_mut(strip)) {
                        block[row * width..][..part.len()].copy_from_slice(part);
                    }
                });
            }
        } else {
            // SAFETY: `cols` columns of `depth` neighbouring rows within the operand.
            unsafe {
                self.lines(from, rhs.col, (cols, depth), |column, line| {
                    let block = &mut block[column / width * strip + column % width..];
                    block.iter_mut().step_by(width).zip(line).for_each(|(to, from)| *to = *from);
                });
            }
        }
    }

    fn lhs(&self, (row, rows): (usize, usize), (p, depth): (usize, usize), panel: &mut [f32]) -> View<f32> {
        let lhs = self.product.lhs();
        let from = lhs.start.wrapping_add(row * lhs.row + p * lhs.col);
        if lhs.col == 1 {
            // SAFETY: `rows` rows of `depth` columns within the operand.
            unsafe {
                self.lines(from, lhs.row, (rows, depth), |nth, line| {
                    panel[nth..].iter_mut().step_by(rows).zip(line).for_each(|(to, from)| *to = *from);
                });
            }
        } else {
            for (nth, to) in panel.chunks_exact_mut(rows).enumerate().take(depth) {
                // SAFETY: column p + nth of the operand; its rows are neighbours.
                let from = unsafe { std::slice::from_raw_parts(from.add(nth * lhs.col), rows) };
                to.iter_mut().zip(from).for_each(|(to, from)| *to = Half::to_f32(*from));
            }
        }
        View { start: panel.as_ptr(), row: 1, col: rows }
    }
}
