//! Permutation element by element in the order of the result: the yardstick.

use super::{Axes, work};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Flops, Transpose, Work};
use trimtab_operands::Element;

reference!("cpu.transpose.reference", Transpose);

fn counted(problem: &Transpose) -> (Flops, Bytes) {
    let Work { flops, bytes, .. } = work(problem, 1, 1);
    (flops, bytes)
}

fn run<T: Element>(problem: &Transpose, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>([problem.len(), 0, problem.len()])?;
    let axes = Axes::new(problem);
    let (mut index, mut from) = ([0; trimtab_core::MAX_RANK], 0);
    for out in typed.out.iter_mut() {
        *out = typed.lhs[from];
        let mut axis = axes.rank - 1;
        loop {
            index[axis] += 1;
            from += axes.from[axis];
            if index[axis] < axes.dims[axis] || axis == 0 {
                break;
            }
            index[axis] = 0;
            from -= axes.from[axis] * axes.dims[axis];
            axis -= 1;
        }
    }
    Ok(())
}
