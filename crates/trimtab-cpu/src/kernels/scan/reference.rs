//! Scans one line after the other, carried in `f64`: the yardstick of accuracy.

use super::{Carried, lens};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Flops, Scan, ScanOp};

reference!("cpu.scan.reference", Scan);

fn counted(problem: &Scan) -> (Flops, Bytes) {
    super::counted(problem, 1)
}

fn run<T: Carried>(problem: &Scan, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>(lens(problem)?)?;
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    for nth in 0..(problem.outer * problem.inner) as usize {
        let first = nth / inner * len * inner + nth % inner;
        let mut carry = T::start(problem.op);
        for at in 0..len {
            let place = first + at * inner;
            let value = typed.lhs[place];
            if problem.exclusive {
                typed.out[place] = T::element(carry);
            }
            carry = match problem.op {
                ScanOp::Sum => T::step::<{ super::SUM }>(carry, value),
                ScanOp::Prod => T::step::<{ super::PROD }>(carry, value),
                ScanOp::Max => T::step::<{ super::MAX }>(carry, value),
                ScanOp::Min => T::step::<{ ScanOp::Min as u8 }>(carry, value),
            };
            if !problem.exclusive {
                typed.out[place] = T::element(carry);
            }
        }
    }
    Ok(())
}
