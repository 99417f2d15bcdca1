//! Element by element without a call: for short rows, and where every element has an index of its own.

use super::{Taking, counted, given};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::shared_work;
use crate::kernels::units::{Unit, prefetch};
use trimtab_core::{Decline, DeviceFacts, Gather, Variant, Work};

trimtab_core::config! {
    /// Threads, elements a thread takes at once, and how many indices ahead memory is asked for; none for not at all.
    pub struct ElementsConfig { threads, block, ahead }
}

/// Elements from which a second thread can pay.
const SHAREABLE: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct GatherElements;

impl Variant<Cpu> for GatherElements {
    type Problem = Gather;
    type Config = ElementsConfig;

    identity!("cpu.gather.elements", Vectorized);

    fn takes(&self, _: trimtab_core::DType) -> bool {
        true
    }

    fn declines(&self, _: &Gather, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, problem: &Gather, device: &DeviceFacts) -> Vec<ElementsConfig> {
        let aheads: &[u32] = if problem.input_len() > 64 << 10 { &[0, 16] } else { &[0] };
        let mut configs = Vec::new();
        for threads in thread_counts(device, problem.along_count() >= SHAREABLE, 3) {
            let blocks: &[u32] = if threads > 1 { &[16 << 10, 4 << 10] } else { &[16 << 10] };
            for &block in blocks {
                configs.extend(aheads.iter().map(|&ahead| ElementsConfig { threads, block, ahead }));
            }
        }
        configs
    }

    fn work(&self, problem: &Gather, config: ElementsConfig, _: &DeviceFacts) -> Work {
        let (_, bytes) = counted(problem);
        // A load, a place and a store each.
        let flops = trimtab_core::Flops(problem.along_count().saturating_mul(3));
        shared_work(flops, bytes, config.threads, 1)
    }

    fn launch(&self, problem: &Gather, config: ElementsConfig, args: Args<'_>) -> Launched {
        by_unit!(problem.dtype, U => by_index!(problem.index, I => run::<U, I>(problem, config, args)))
    }
}

fn run<U: Unit, I: Index>(problem: &Gather, config: ElementsConfig, args: Args<'_>) -> Launched {
    let Taking { data, indices, out, pool } = given::<U, I>(problem, args)?;
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    if out.is_empty() {
        return Ok(());
    }
    let (rows, ahead) = (out.len() / inner, config.ahead as usize);
    let each = (config.block as usize / inner).max(1);
    let all = Disjoint::new(out);
    pool.run(config.threads, rows.div_ceil(each), &|task| {
        let (mut row, last) = (task * each, rows.min((task + 1) * each));
        // Line by line, as far as the task goes.
        while row < last {
            let (line, nth) = (row / count, row % count);
            let many = (last - row).min(count - nth);
            let line = &data[line * len * inner..][..len * inner];
            // SAFETY: every task has its own rows of the result.
            let to = unsafe { all.part(row * inner..(row + many) * inner) };
            match problem.each {
                true if inner == 1 => ones(line, &indices[row..row + many], to, len, ahead),
                true => own(line, &indices[row * inner..(row + many) * inner], to, len, inner),
                false if inner == 1 => ones(line, &indices[nth..nth + many], to, len, ahead),
                false => short(line, &indices[nth..nth + many], to, len, inner),
            }
            row += many;
        }
    });
    Ok(())
}

/// Elements of a line that lies in one piece.
#[inline(always)]
fn ones<U: Unit, I: Index>(line: &[U], indices: &[I], to: &mut [U], len: usize, ahead: usize) {
    if ahead == 0 {
        to.iter_mut().zip(indices).for_each(|(to, index)| *to = line[index.place(len)]);
        return;
    }
    for (nth, (to, index)) in to.iter_mut().zip(indices).enumerate() {
        if let Some(next) = indices.get(nth + ahead) {
            prefetch(line, next.place(len));
        }
        *to = line[index.place(len)];
    }
}

/// Elements of lines side by side, each with its own index.
#[inline(always)]
fn own<U: Unit, I: Index>(lines: &[U], indices: &[I], to: &mut [U], len: usize, inner: usize) {
    for (to, indices) in to.chunks_exact_mut(inner).zip(indices.chunks_exact(inner)) {
        for (column, (to, index)) in to.iter_mut().zip(indices).enumerate() {
            *to = lines[index.place(len) * inner + column];
        }
    }
}

/// Rows of a few elements: moves of a size that is known, where a copy would be a call.
#[inline(always)]
fn short<U: Unit, I: Index>(lines: &[U], indices: &[I], to: &mut [U], len: usize, inner: usize) {
    match inner {
        2 => known::<U, I, 2>(lines, indices, to, len),
        3 => known::<U, I, 3>(lines, indices, to, len),
        4 => known::<U, I, 4>(lines, indices, to, len),
        8 => known::<U, I, 8>(lines, indices, to, len),
        16 => known::<U, I, 16>(lines, indices, to, len),
        _ => {
            for (to, index) in to.chunks_exact_mut(inner).zip(indices) {
                to.copy_from_slice(&lines[index.place(len) * inner..][..inner]);
            }
        }
    }
}

#[inline(always)]
fn known<U: Unit, I: Index, const N: usize>(lines: &[U], indices: &[I], to: &mut [U], len: usize) {
    let (rows, _) = lines.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<N>();
    to.iter_mut().zip(indices).for_each(|(to, index)| *to = rows[index.place(len)]);
}
