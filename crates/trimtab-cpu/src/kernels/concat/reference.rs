//! One element after the other, its operand looked for anew each time: the yardstick.

use super::{Parts, counted, given};
use crate::args::{Args, Launched};
use crate::kernels::elements::no_scratch;
use crate::kernels::units::Unit;
use trimtab_core::Concat;

yardstick!("cpu.concat.reference", Concat, no_scratch, |problem: &Concat, args: Args<'_>| {
    by_unit!(problem.dtype, U => run::<U>(problem, args))
});

fn run<U: Unit>(problem: &Concat, args: Args<'_>) -> Launched {
    let Parts { from, parts, count, row, out, .. } = given::<U>(problem, args)?;
    for (at, out) in out.iter_mut().enumerate() {
        let (line, mut column) = (at / row, at % row);
        for (from, part) in from.iter().zip(parts).take(count) {
            if column < part {
                *out = from[line * part + column];
                break;
            }
            column -= part;
        }
    }
    Ok(())
}
