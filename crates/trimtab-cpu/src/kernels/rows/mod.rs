//! Kernels of rows: softmax, its logarithm, norms and variances along the middle of `outer × len × inner`.
//!
//! Semantics every kernel shares: one NaN in a row makes all of its results NaN, and so does an infinity in a softmax or a norm
//! (an infinity among the numbers of a logsumexp is its result). Sums are at least pairwise-accurate, variances are of distances from
//! the mean, so that a large mean costs no digits.

mod columns;
mod online;
mod reference;
mod row;
mod twopass;

pub(super) use row::{OfRow, exps_in_place, multiply};

use crate::args::{Args, Inputs};
use crate::kernels::Kernels;
use crate::kernels::elementwise::math::Real;
use crate::simd::{FloatVector, Lane, Levels, Simd};
use trimtab_core::{Bytes, Flops, LaunchError, Problem, Rows};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let levels = Levels::detect();
    let (level, lanes) = levels.widest();
    vec![
        trimtab_core::erase(twopass::TwoPassKernel { levels }),
        trimtab_core::erase(online::OnlineKernel { level, lanes }),
        trimtab_core::erase(columns::ColumnsKernel { level, lanes }),
        trimtab_core::erase(reference::ReferenceKernel),
    ]
}

/// f32 or f64, with vectors that divide.
pub(super) trait Float: Lane + Real {
    /// Its vector.
    type V<S: Simd>: FloatVector<Self, Token = S>;
}

impl Float for f32 {
    type V<S: Simd> = S::F32;
}
impl Float for f64 {
    type V<S: Simd> = S::F64;
}

/// The operands of a launch.
pub(super) struct Given<'a, T> {
    input: &'a [T],
    /// By element of a row; none where there is no scale.
    scale: Option<&'a [T]>,
    shift: Option<&'a [T]>,
    epsilon: f64,
    out: &'a mut [T],
    pool: &'a crate::pool::Pool,
}

fn given<'a, T: Element>(problem: &Rows, args: Args<'a>) -> Result<Given<'a, T>, LaunchError> {
    let Inputs { inputs, out, pool } = args.of::<T>(&Problem::from(*problem), problem.op.is_norm())?;
    let mut more = inputs[1..].iter();
    let mut next = |there: bool| if there { more.next().copied() } else { None };
    let (scale, shift, epsilon) = (next(problem.scaled), next(problem.shifted), next(problem.op.is_norm()));
    let epsilon = epsilon.and_then(|epsilon| epsilon.first()).map_or(0.0, |epsilon| epsilon.to_f64());
    Ok(Given { input: inputs[0], scale, shift, epsilon, out, pool })
}

/// What a kernel does that reads each element so many times and writes each result so many times.
fn counted(problem: &Rows, reads: u64, writes: u64) -> (Flops, Bytes) {
    let elements = problem.input_len().saturating_mul(reads) + problem.out_len().saturating_mul(writes);
    // A function takes about twenty operations.
    let functions = match problem.op {
        trimtab_core::RowsOp::Softmax
        | trimtab_core::RowsOp::LogSoftmax
        | trimtab_core::RowsOp::LogSumExp => 20,
        _ => 0,
    };
    let flops = problem.flops().saturating_add(problem.input_len().saturating_mul(functions));
    (Flops(flops), Bytes(elements.saturating_mul(problem.dtype.size())))
}
