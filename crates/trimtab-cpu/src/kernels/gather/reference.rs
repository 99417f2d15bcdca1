//! One element after the other, its place computed anew each time: the yardstick.

use super::{Taking, counted, given};
use crate::args::{Args, Launched};
use crate::kernels::elements::no_scratch;
use crate::kernels::indices::{Index, by_index};
use crate::kernels::units::Unit;
use trimtab_core::Gather;

yardstick!("cpu.gather.reference", Gather, no_scratch, |problem: &Gather, args: Args<'_>| {
    by_unit!(problem.dtype, U => by_index!(problem.index, I => run::<U, I>(problem, args)))
});

fn run<U: Unit, I: Index>(problem: &Gather, args: Args<'_>) -> Launched {
    let Taking { data, indices, out, .. } = given::<U, I>(problem, args)?;
    let [len, inner, count] = [problem.len, problem.inner, problem.count].map(|size| size as usize);
    for (at, out) in out.iter_mut().enumerate() {
        let (line, nth, column) = (at / inner / count, at / inner % count, at % inner);
        let index = indices[if problem.each { at } else { nth }];
        *out = data[(line * len + index.place(len)) * inner + column];
    }
    Ok(())
}
