//! Row by row in vectors of the widest instructions there are; what is repeated along a row is laid out once in a block.

use super::{AT_MOST, EQUAL, LESS};
use super::{
    Chosen, Compared, Layout, by_compared, by_three, chosen, compared, counted, holds, not_compared, nothing,
};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::shared_work;
use crate::kernels::units::Unit;
use crate::pool::Pool;
use crate::simd::{Level, Simd, Task};
use trimtab_core::{Decline, DeviceFacts, Flops, Mask, MaskOp, Variant, Work};
use trimtab_operands::Element;

trimtab_core::config! {
    /// Threads, and elements a thread takes at once.
    pub struct RowsConfig { threads, block }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;
/// Elements that are laid out of what is repeated.
const LAID: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct MaskRows {
    pub(super) level: Level,
    pub(super) lanes: u32,
}

impl Variant<Cpu> for MaskRows {
    type Problem = Mask;
    type Config = RowsConfig;

    identity!("cpu.mask.rows", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, problem: &Mask, _: &DeviceFacts) -> Option<Decline> {
        not_compared(problem)
    }

    fn configs(&self, problem: &Mask, device: &DeviceFacts) -> Vec<RowsConfig> {
        if not_compared(problem).is_some() {
            return Vec::new();
        }
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.out_len() >= SHAREABLE, 3) {
            let blocks: &[u32] = if threads > 1 { &[16 << 10, 64 << 10] } else { &[16 << 10] };
            configs.extend(blocks.iter().map(|&block| RowsConfig { threads, block }));
        }
        configs
    }

    fn work(&self, problem: &Mask, config: RowsConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        // To begin a row takes about as long as so many vectors.
        let rows = problem.dims()[..problem.dims().len() - 1]
            .iter()
            .fold(1, |rows: u64, size| rows.saturating_mul(*size));
        let begun = rows.saturating_mul(8 * u64::from(self.lanes));
        shared_work(Flops(flops.0.saturating_add(begun)), bytes, config.threads, self.lanes)
    }

    fn launch(&self, problem: &Mask, config: RowsConfig, args: Args<'_>) -> Launched {
        if let Some(done) = nothing(problem, &args) {
            return done;
        }
        match problem.op {
            MaskOp::Where => by_unit!(problem.dtype, U => choose::<U>(self.level, problem, config, args)),
            _ => by_compared!(problem.dtype, T => compare::<T>(self.level, problem, config, args)),
        }
    }
}

/// Calls `body` with pieces of rows: where one begins in the result and in each operand, and its part of the result.
fn pieces<T: Send>(
    layout: &Layout,
    config: RowsConfig,
    pool: &Pool,
    out: &mut [T],
    body: impl Fn([usize; 3], &mut [T]) + Sync,
) {
    let (len, row) = (out.len(), layout.row());
    // Pieces of long rows, or several short ones.
    let block = (config.block as usize).max(1);
    let each = if row > block { block } else { block / row * row };
    let per_row = if row > block { row.div_ceil(block) } else { 1 };
    let tasks = if row > block { len / row * per_row } else { len.div_ceil(each) };
    let all = Disjoint::new(out);
    pool.run(config.threads, tasks, &|task| {
        let (first, end) = match row > block {
            true => {
                let start = task / per_row * row;
                (start + task % per_row * block, start + row.min((task % per_row + 1) * block))
            }
            false => (task * each, len.min((task + 1) * each)),
        };
        let mut at = first;
        while at < end {
            let stop = end.min(at - at % row + row);
            // SAFETY: every task has its own part of the result.
            body(layout.offsets(at), unsafe { all.part(at..stop) });
            at = stop;
        }
    });
}

/// A row of an operand in parts: as it lies, or what is repeated.
#[inline(always)]
fn part<'a, T>(of: &'a [T], laid: &'a [T; LAID], step: usize, first: usize, len: usize) -> &'a [T] {
    if step == 0 { &laid[..len] } else { &of[first..first + len] }
}

struct Compare<'a, T, const OP: u8> {
    of: [&'a [T]; 2],
    at: [usize; 2],
    steps: [usize; 2],
    turn: u8,
    out: &'a mut [u8],
}

impl<T: Element + PartialOrd, const OP: u8> Task for Compare<'_, T, OP> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Compare { of: [a, b], at, steps, turn, out } = self;
        let laid = [[a[at[0]]; LAID], [b[at[1]]; LAID]];
        for (nth, out) in out.chunks_mut(LAID).enumerate() {
            let (done, len) = (nth * LAID, out.len());
            let a = part(a, &laid[0], steps[0], at[0] + done, len);
            let b = part(b, &laid[1], steps[1], at[1] + done, len);
            out.iter_mut()
                .zip(a)
                .zip(b)
                .for_each(|((out, &a), &b)| *out = u8::from(holds::<T, OP>(a, b)) ^ turn);
        }
    }
}

fn compare<T: Element + PartialOrd>(
    level: Level,
    problem: &Mask,
    config: RowsConfig,
    args: Args<'_>,
) -> Launched {
    let Compared { operands, out, pool } = compared::<T>(problem, args)?;
    let (layout, (op, swaps, turned)) = (Layout::new(problem), by_three(problem.op));
    let order: [usize; 2] = if swaps { [1, 0] } else { [0, 1] };
    macro_rules! by {
        ($op:ident) => {
            pieces(&layout, config, pool, out, |at, out| {
                let (of, at) = (order.map(|place| operands[place]), order.map(|place| at[place]));
                let steps = order.map(|place| layout.step(place));
                level.vectorize(Compare::<T, $op> { of, at, steps, turn: u8::from(turned), out });
            })
        };
    }
    match op {
        EQUAL => by!(EQUAL),
        LESS => by!(LESS),
        _ => by!(AT_MOST),
    }
    Ok(())
}

struct Choose<'a, U> {
    mask: &'a [bool],
    from: [&'a [U]; 2],
    at: [usize; 3],
    steps: [usize; 3],
    out: &'a mut [U],
}

impl<U: Unit> Task for Choose<'_, U> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Choose { mask, from: [yes, no], at, steps, out } = self;
        if steps[0] == 0 {
            // One of the two, whole.
            let (from, at, step) = if mask[at[0]] { (yes, at[1], steps[1]) } else { (no, at[2], steps[2]) };
            match step {
                0 => out.fill(from[at]),
                _ => out.copy_from_slice(&from[at..at + out.len()]),
            }
            return;
        }
        let laid = [[yes[at[1]]; LAID], [no[at[2]]; LAID]];
        for (nth, out) in out.chunks_mut(LAID).enumerate() {
            let (done, len) = (nth * LAID, out.len());
            let mask = &mask[at[0] + done..at[0] + done + len];
            let yes = part(yes, &laid[0], steps[1], at[1] + done, len);
            let no = part(no, &laid[1], steps[2], at[2] + done, len);
            let all = out.iter_mut().zip(mask).zip(yes.iter().zip(no));
            all.for_each(|((out, &mask), (&yes, &no))| *out = if mask { yes } else { no });
        }
    }
}

fn choose<U: Unit>(level: Level, problem: &Mask, config: RowsConfig, args: Args<'_>) -> Launched {
    let Chosen { mask, from, out, pool } = chosen::<U>(problem, args)?;
    let layout = Layout::new(problem);
    let steps = [0, 1, 2].map(|place| layout.step(place));
    pieces(&layout, config, pool, out, |at, out| level.vectorize(Choose { mask, from, at, steps, out }));
    Ok(())
}
