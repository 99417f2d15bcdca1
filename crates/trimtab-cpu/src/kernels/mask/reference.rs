//! One element after the other, its places computed anew each time: the yardstick.

use super::{Chosen, Layout, chosen, counted};
use crate::args::{Args, Launched};
use crate::kernels::elements::no_scratch;
use crate::kernels::units::Unit;
use trimtab_core::{Mask, MaskOp, Problem};
use trimtab_operands::{Element, Slice, by_dtype};

yardstick!("cpu.mask.reference", Mask, no_scratch, |problem: &Mask, args: Args<'_>| match problem.op {
    MaskOp::Where => by_unit!(problem.dtype, U => choose::<U>(problem, args)),
    _ => by_dtype!(problem.dtype, T => compare::<T>(problem, args)),
});

fn compare<T: Element>(problem: &Mask, args: Args<'_>) -> Launched {
    args.check(&Problem::from(*problem))?;
    let of =
        |place: usize| T::slice(args.inputs.get(place).copied().unwrap_or(Slice::None)).unwrap_or_default();
    let (a, b, layout) = (of(0), of(1), Layout::new(problem));
    let out = bool::slice_mut(args.out).unwrap_or_default();
    // Whole numbers as such: large ones may be the same as doubles.
    let whole = T::DTYPE.range().is_some();
    for (at, out) in out.iter_mut().enumerate() {
        let [first, second, _] = layout.offsets(at);
        let (a, b) = (a[first], b[second]);
        let order = match whole {
            true => Some(a.to_i64().cmp(&b.to_i64())),
            false => a.to_f64().partial_cmp(&b.to_f64()),
        };
        *out = match problem.op {
            MaskOp::Eq | MaskOp::Where => a == b,
            MaskOp::Ne => a != b,
            MaskOp::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
            MaskOp::Le => order.is_some_and(std::cmp::Ordering::is_le),
            MaskOp::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
            MaskOp::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        };
    }
    Ok(())
}

fn choose<U: Unit>(problem: &Mask, args: Args<'_>) -> Launched {
    let Chosen { mask, from, out, .. } = chosen::<U>(problem, args)?;
    let layout = Layout::new(problem);
    for (at, out) in out.iter_mut().enumerate() {
        let [chooses, yes, no] = layout.offsets(at);
        *out = if mask[chooses] { from[0][yes] } else { from[1][no] };
    }
    Ok(())
}
