//! Elementwise by plain loops and the standard library's functions: the yardstick, never the fastest.

use super::layout::Layout;
use super::ops::{self, Operand};
use super::{bytes_walked, lens};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, DType, Elementwise, Flops};

reference!("cpu.elementwise.reference", Elementwise, super::plain::reference);

fn counted(problem: &Elementwise) -> (Flops, Bytes) {
    let flops = ops::flops(problem.op, problem.dtype != DType::I32);
    (Flops(problem.out_len().saturating_mul(flops)), bytes_walked(problem))
}

fn run<T: Operand>(problem: &Elementwise, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>(lens(problem))?;
    let layout = Layout::new(problem);
    layout.elements(0..typed.out.len(), |at, lhs, rhs| {
        // A unary operation has no right operand; what stands in for it is ignored.
        let b = typed.rhs.get(rhs).copied().unwrap_or_default();
        let value = T::scalar(problem.op, typed.lhs[lhs], b).map_err(|what| ops::undefined(what, at))?;
        typed.out[at] = value;
        Ok(())
    })
}
