//! Permutation element by element in the order of the result: the yardstick.

use super::{Axes, moved, work};
use crate::args::{Args, Launched};
use crate::kernels::elements::no_scratch;
use crate::kernels::units::Unit;
use trimtab_core::{Bytes, Flops, Transpose, Work};

yardstick!("cpu.transpose.reference", Transpose, no_scratch, |problem: &Transpose, args: Args<'_>| {
    by_unit!(problem.dtype, U => run::<U>(problem, args))
});

fn counted(problem: &Transpose) -> (Flops, Bytes) {
    let Work { flops, bytes, .. } = work(problem, 1, 1);
    (flops, bytes)
}

fn run<U: Unit>(problem: &Transpose, args: Args<'_>) -> Launched {
    let typed = moved::<U>(problem, args)?;
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
