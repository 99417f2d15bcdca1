//! Scans along the middle of `outer × len × inner`.
//!
//! Semantics every kernel shares: sums of floats are at least pairwise-accurate (carried in `f64`, or compensated); integers wrap;
//! in a minimum or maximum a NaN stays once it was met.

mod blocked;
mod columns;
mod reference;
mod serial;

use crate::kernels::Kernels;
use trimtab_core::{Bytes, Flops, LaunchError, Scan, ScanOp, erase};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![
        erase(serial::SerialKernel),
        erase(blocked::BlockedKernel),
        erase(columns::ColumnsKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// An element type, and what elements are carried along in: wider than floats, so that long sums keep their digits.
pub(super) trait Carried: Element {
    /// What is carried.
    type Carry: Copy + Send + Sync;
    /// Before the first element.
    fn start(op: ScanOp) -> Self::Carry;
    /// With one more element.
    fn step<const OP: u8>(carry: Self::Carry, value: Self) -> Self::Carry;
    /// Two parts in a row.
    fn join(op: ScanOp, first: Self::Carry, second: Self::Carry) -> Self::Carry;
    /// As an element.
    fn element(carry: Self::Carry) -> Self;
}

/// The operations as numbers known when compiled.
pub(super) const SUM: u8 = ScanOp::Sum as u8;
pub(super) const PROD: u8 = ScanOp::Prod as u8;
pub(super) const MAX: u8 = ScanOp::Max as u8;

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Carried for $type {
            type Carry = f64;
            #[inline(always)]
            fn start(op: ScanOp) -> f64 {
                match op {
                    ScanOp::Sum => 0.0,
                    ScanOp::Prod => 1.0,
                    ScanOp::Max => f64::NEG_INFINITY,
                    ScanOp::Min => f64::INFINITY,
                }
            }
            #[inline(always)]
            fn step<const OP: u8>(carry: f64, value: $type) -> f64 {
                let value = f64::from(value);
                match OP {
                    SUM => carry + value,
                    PROD => carry * value,
                    // Whichever is not a number stays: no comparison with it holds.
                    MAX => if carry >= value || carry.is_nan() { carry } else { value },
                    _ => if carry <= value || carry.is_nan() { carry } else { value },
                }
            }
            #[inline(always)]
            fn join(op: ScanOp, first: f64, second: f64) -> f64 {
                match op {
                    ScanOp::Sum => first + second,
                    ScanOp::Prod => first * second,
                    ScanOp::Max => if first >= second || first.is_nan() { first } else { second },
                    ScanOp::Min => if first <= second || first.is_nan() { first } else { second },
                }
            }
            #[inline(always)]
            fn element(carry: f64) -> $type {
                carry as $type
            }
        }
    )*};
}
floats! { f32 f64 }

impl Carried for i32 {
    type Carry = i32;
    #[inline(always)]
    fn start(op: ScanOp) -> i32 {
        match op {
            ScanOp::Sum => 0,
            ScanOp::Prod => 1,
            ScanOp::Max => i32::MIN,
            ScanOp::Min => i32::MAX,
        }
    }
    #[inline(always)]
    fn step<const OP: u8>(carry: i32, value: i32) -> i32 {
        match OP {
            SUM => carry.wrapping_add(value),
            PROD => carry.wrapping_mul(value),
            MAX => carry.max(value),
            _ => carry.min(value),
        }
    }
    #[inline(always)]
    fn join(op: ScanOp, first: i32, second: i32) -> i32 {
        match op {
            ScanOp::Sum => first.wrapping_add(second),
            ScanOp::Prod => first.wrapping_mul(second),
            ScanOp::Max => first.max(second),
            ScanOp::Min => first.min(second),
        }
    }
    #[inline(always)]
    fn element(carry: i32) -> i32 {
        carry
    }
}

/// Calls a function with the operation as a number known when compiled.
macro_rules! by_op {
    ($op:expr, $run:ident::<$type:ty>($($argument:expr),*)) => {
        match $op {
            trimtab_core::ScanOp::Sum => $run::<$type, { $crate::kernels::scan::SUM }>($($argument),*),
            trimtab_core::ScanOp::Prod => $run::<$type, { $crate::kernels::scan::PROD }>($($argument),*),
            trimtab_core::ScanOp::Max => $run::<$type, { $crate::kernels::scan::MAX }>($($argument),*),
            trimtab_core::ScanOp::Min => $run::<$type, { trimtab_core::ScanOp::Min as u8 }>($($argument),*),
        }
    };
}
use by_op;

/// Scans a contiguous row from a carry on, and gives the one at its end.
#[inline(always)]
fn row<T: Carried, const OP: u8>(
    input: &[T],
    out: &mut [T],
    exclusive: bool,
    mut carry: T::Carry,
) -> T::Carry {
    if exclusive {
        for (out, &value) in out.iter_mut().zip(input) {
            *out = T::element(carry);
            carry = T::step::<OP>(carry, value);
        }
    } else {
        for (out, &value) in out.iter_mut().zip(input) {
            carry = T::step::<OP>(carry, value);
            *out = T::element(carry);
        }
    }
    carry
}

/// Lines that are scanned abreast: what is carried along one waits for what was before, so that one alone takes a step every four cycles.
const ABREAST: usize = 4;

/// Scans contiguous lines of that length, the last perhaps shorter, each from its carry on.
#[inline(always)]
fn lines<T: Carried, const OP: u8>(
    input: &[T],
    out: &mut [T],
    len: usize,
    exclusive: bool,
    carry: impl Fn(usize) -> T::Carry,
) {
    let groups = input.chunks(ABREAST * len).zip(out.chunks_mut(ABREAST * len));
    for (nth, (input, out)) in groups.enumerate() {
        let carry = |line: usize| carry(nth * ABREAST + line);
        if input.len() == ABREAST * len {
            abreast::<T, OP>(input, out, len, exclusive, std::array::from_fn(carry));
            continue;
        }
        for (line, (input, out)) in input.chunks(len).zip(out.chunks_mut(len)).enumerate() {
            row::<T, OP>(input, out, exclusive, carry(line));
        }
    }
}

/// Scans as many lines at once.
#[inline(always)]
fn abreast<T: Carried, const OP: u8>(
    input: &[T],
    out: &mut [T],
    len: usize,
    exclusive: bool,
    mut carries: [T::Carry; ABREAST],
) {
    let ((a, b), (c, d)) = (input[..2 * len].split_at(len), input[2 * len..].split_at(len));
    let (front, back) = out.split_at_mut(2 * len);
    let ((p, q), (r, s)) = (front.split_at_mut(len), back.split_at_mut(len));
    let inputs = a.iter().zip(b).zip(c.iter().zip(d));
    let outs = p.iter_mut().zip(q).zip(r.iter_mut().zip(s));
    for (((a, b), (c, d)), ((p, q), (r, s))) in inputs.zip(outs) {
        let before = carries;
        let values = [*a, *b, *c, *d];
        carries = std::array::from_fn(
            #[inline(always)]
            |line| T::step::<OP>(before[line], values[line]),
        );
        let [e, f, g, h] = if exclusive { before } else { carries };
        (*p, *q, *r, *s) = (T::element(e), T::element(f), T::element(g), T::element(h));
    }
}

fn lens(problem: &Scan) -> Result<[u64; 3], LaunchError> {
    let len = problem.outer.checked_mul(problem.inner).and_then(|lines| lines.checked_mul(problem.len));
    len.map(|len| [len, 0, len])
        .ok_or_else(|| LaunchError::Kernel(format!("{problem} has more elements than can be counted")))
}

fn counted(problem: &Scan, reads: u64) -> (Flops, Bytes) {
    let len = problem.len();
    (
        Flops(len.saturating_mul(reads)),
        Bytes(len.saturating_mul(reads + 1).saturating_mul(problem.dtype.size())),
    )
}
