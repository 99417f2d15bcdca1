//! Reduction along an axis that is not the last: rows are walked as they lie, a tile of columns is accumulated at once.

use super::fold::{Fold, Foldable, Visit, has_vector_form, one_by_one};
use super::{bytes_walked, lens};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::{lanes_of, shared_work};
use crate::pool::Pool;
use crate::simd::{Level, Simd, Task};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Columns accumulated at once (64, 512 or 4096: their sums live on the stack), and threads.
    pub struct ColumnsConfig { tile, threads }
}

/// Rows added up before they go to the totals: what keeps sums pairwise-accurate.
const ROWS: usize = 32;
/// Elements from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE_ELEMENTS: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct ColumnsKernel {
    /// The widest vectors of this processor.
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for ColumnsKernel {
    type Problem = Reduce;
    type Config = ColumnsConfig;

    identity!("cpu.reduce.columns", Tiled);

    fn declines(&self, problem: &Reduce, _: &DeviceFacts) -> Option<Decline> {
        (problem.inner <= 1).then(|| {
            let inner = problem.inner;
            Decline::from(format!("{inner} columns beside each other; needs at least 2"))
        })
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<ColumnsConfig> {
        let shareable = problem.input_len() >= SHAREABLE_ELEMENTS;
        let mut tiles: Vec<u32> =
            [4096, 512, 64].into_iter().filter(|&tile| problem.inner > u64::from(tile / 8)).collect();
        if tiles.is_empty() {
            tiles.push(64);
        }
        let mut configs = Vec::new();
        for tile in tiles {
            for threads in thread_counts(device, shareable, 4) {
                let tasks = problem.outer.saturating_mul(problem.inner.div_ceil(u64::from(tile)));
                if threads == 1 || tasks >= u64::from(threads) {
                    configs.push(ColumnsConfig { tile, threads });
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: ColumnsConfig, _: &DeviceFacts) -> Work {
        let vector = has_vector_form(problem) && problem.inner >= u64::from(self.lanes);
        let lanes = if vector { lanes_of(problem.dtype, self.lanes) } else { 1 };
        let flops = Flops(problem.input_len());
        let scratch = Bytes(u64::from(config.tile) * u64::from(config.threads) * 24);
        Work { scratch, ..shared_work(flops, bytes_walked(problem), config.threads, lanes) }
    }

    #[inline]
    fn launch(&self, problem: &Reduce, config: ColumnsConfig, args: Args<'_>) -> Launched {
        by_type!(problem, T => self.run::<T>(problem, config, args))
    }
}

impl ColumnsKernel {
    fn run<T: Foldable>(&self, problem: &Reduce, config: ColumnsConfig, args: Args<'_>) -> Launched {
        let typed = args.typed::<T>(lens(problem)?)?;
        let (level, input, out, pool) = (self.level, typed.lhs, typed.out, typed.pool);
        let visitor = Columns { level, problem, config, input, out, pool };
        T::visit(problem.op, visitor).unwrap_or_else(|| Err(LaunchError::Point(format!("{config:?}"))))
    }
}

struct Columns<'a, T> {
    level: Level,
    problem: &'a Reduce,
    config: ColumnsConfig,
    input: &'a [T],
    out: &'a mut [T],
    pool: &'a Pool,
}

impl<T: Foldable> Visit<T> for Columns<'_, T> {
    type Out = Launched;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        match self.config.tile {
            64 => self.tiles::<F, 64>(),
            512 => self.tiles::<F, 512>(),
            4096 => self.tiles::<F, 4096>(),
            _ => Err(LaunchError::Point(format!("{:?}", self.config))),
        }
    }
}

impl<T: Foldable> Columns<'_, T> {
    fn tiles<F: Fold<T>, const TILE: usize>(self) -> Launched {
        let (outer, len, inner) =
            (self.problem.outer as usize, self.problem.len as usize, self.problem.inner as usize);
        if self.out.is_empty() {
            return Ok(());
        }
        let tiles = inner.div_ceil(TILE);
        let (input, out) = (self.input, Disjoint::new(self.out));
        let failed = AtomicBool::new(false);
        self.pool.run(self.config.threads, outer * tiles, &|task| {
            let (plane, first) = (task / tiles, task % tiles * TILE);
            let width = TILE.min(inner - first);
            let start = plane * inner + first;
            // SAFETY: every task has its own columns of its own plane of the result.
            let out = unsafe { out.part(start..start + width) };
            let input = &input[plane * len * inner..(plane + 1) * len * inner];
            let tile = Tile::<T, F, TILE> { input, first, inner, len, out, fold: PhantomData };
            if self.level.vectorize(tile).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        });
        if !failed.into_inner() {
            return Ok(());
        }
        // Which error it is does not depend on the column: an overflow, or an extreme of nothing.
        if len == 0 {
            F::finish(F::EMPTY, 0).map(drop)
        } else {
            Err(LaunchError::Overflow { dtype: T::DTYPE.name() })
        }
    }
}

struct Tile<'a, T, F, const TILE: usize> {
    /// One plane, `len × inner`.
    input: &'a [T],
    first: usize,
    inner: usize,
    len: usize,
    out: &'a mut [T],
    fold: PhantomData<F>,
}

impl<T: Foldable, F: Fold<T>, const TILE: usize> Task for Tile<'_, T, F, TILE> {
    type Out = Launched;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Self::Out {
        let width = self.out.len();
        let mut totals = [F::EMPTY; TILE];
        let mut runs = [F::EMPTY_RUN; TILE];
        let (totals, runs) = (&mut totals[..width], &mut runs[..width]);
        let mut row = 0;
        while row < self.len {
            let end = self.len.min(row + ROWS);
            runs.fill(F::EMPTY_RUN);
            for row in row..end {
                let start = row * self.inner + self.first;
                for (run, &value) in runs.iter_mut().zip(&self.input[start..start + width]) {
                    *run = F::step(*run, value);
                }
            }
            for (total, &run) in totals.iter_mut().zip(runs.iter()) {
                *total = F::absorb(*total, run);
            }
            row = end;
        }
        for (column, (out, &total)) in self.out.iter_mut().zip(totals.iter()).enumerate() {
            let mut total = total;
            if F::may_have_overflown(total) {
                let column = self.input[self.first + column..].iter().step_by(self.inner);
                total = one_by_one::<T, F>(column.copied().take(self.len));
            }
            *out = F::finish(total, self.len)?;
        }
        Ok(())
    }
}
