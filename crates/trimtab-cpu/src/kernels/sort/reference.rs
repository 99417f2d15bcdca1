//! Lines one after the other, sorted by the standard library: the yardstick.

use super::{Sortable, lens};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Flops, Sort};

reference!("cpu.sort.reference", Sort);

fn counted(problem: &Sort) -> (Flops, Bytes) {
    let (flops, bytes) = super::counted(problem);
    (Flops(flops.0.saturating_mul(4)), bytes)
}

fn run<T: Sortable>(problem: &Sort, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>(lens(problem)?)?;
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    for nth in 0..(problem.outer * problem.inner) as usize {
        let first = nth / inner * len * inner + nth % inner;
        let mut line: Vec<T> = (0..len).map(|at| typed.lhs[first + at * inner]).collect();
        // Stable, and by the numbers themselves: what is not one is behind all others.
        line.sort_by(|a, b| match (a.partial_cmp(b), problem.descending) {
            (Some(order), false) => order,
            (Some(order), true) => order.reverse(),
            (None, _) => (a.partial_cmp(a).is_none()).cmp(&b.partial_cmp(b).is_none()),
        });
        line.into_iter().enumerate().for_each(|(at, value)| typed.out[first + at * inner] = value);
    }
    Ok(())
}
