//! One element after the other: the yardstick.

use super::{Putting, counted, given};
use crate::args::{Args, Launched};
use crate::kernels::elements::no_scratch;
use crate::kernels::units::Unit;
use trimtab_core::Put;

yardstick!("cpu.put.reference", Put, no_scratch, |problem: &Put, args: Args<'_>| {
    by_unit!(problem.dtype, U => run::<U>(problem, args))
});

fn run<U: Unit>(problem: &Put, args: Args<'_>) -> Launched {
    let Putting { base, block, out, place, .. } = given::<U>(problem, args)?;
    for (at, out) in out.iter_mut().enumerate() {
        let (mut rest, mut of_block, mut size, mut inside) = (at, 0, 1, true);
        for axis in (0..place.rank).rev() {
            let digit = rest % place.dims[axis];
            rest /= place.dims[axis];
            match digit.checked_sub(place.first[axis]).filter(|within| *within < place.size[axis]) {
                Some(within) => of_block += within * size,
                None => inside = false,
            }
            size *= place.size[axis];
        }
        *out = if inside { block[of_block] } else { base[if problem.fill { 0 } else { at }] };
    }
    Ok(())
}
