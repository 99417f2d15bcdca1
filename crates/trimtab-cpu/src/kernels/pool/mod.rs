//! Pooling kernels: of every window the largest element or the mean.
//!
//! Semantics every kernel shares: padding is not looked at, a mean is of the elements that are none; a NaN wins.

mod direct;
mod reference;
mod separable;

use crate::kernels::Kernels;
use crate::kernels::elementwise::thread_counts;
use std::ops::Range;
use trimtab_core::{Bytes, DeviceFacts, Flops, LaunchError, MAX_SPACE, Pool, PoolOp, erase};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![erase(direct::DirectKernel), erase(separable::SeparableKernel), erase(reference::ReferenceKernel)]
}

/// f32 or f64 as pooling needs it.
pub(super) trait Pooled:
    Element + PartialOrd + bytemuck::Pod + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self>
{
    /// Before the first element.
    fn start(op: PoolOp) -> Self;
    /// With one more.
    #[inline(always)]
    fn step(op: PoolOp, before: Self, value: Self) -> Self {
        match op {
            #[allow(clippy::eq_op, reason = "true of what is not a number")]
            PoolOp::Max => {
                if value > before || value != value {
                    value
                } else {
                    before
                }
            }
            PoolOp::Mean => before + value,
        }
    }
}

macro_rules! pooled {
    ($($type:ty)*) => {$(
        impl Pooled for $type {
            #[inline(always)]
            fn start(op: PoolOp) -> $type {
                match op {
                    PoolOp::Max => <$type>::NEG_INFINITY,
                    PoolOp::Mean => 0.0,
                }
            }
        }
    )*};
}
pooled! { f32 f64 }

/// Elements of a space.
fn count(space: [usize; MAX_SPACE]) -> usize {
    space.iter().product()
}

/// The elements of the window that are no padding, of the window at a place along one axis.
fn taps(problem: &Pool, axis: usize, place: usize) -> Range<usize> {
    let window = &problem.window;
    let (start, pad) = (place * window.stride()[axis], window.pad()[axis]);
    let (dilation, size) = (window.dilation()[axis], window.size()[axis]);
    let first = pad.saturating_sub(start).div_ceil(dilation);
    let last = (size + pad).saturating_sub(start).div_ceil(dilation).min(window.kernel()[axis]);
    first.min(last)..last
}

/// Where the element of a window lies along one axis.
#[inline(always)]
fn at(problem: &Pool, axis: usize, place: usize, tap: usize) -> usize {
    let window = &problem.window;
    place * window.stride()[axis] + tap * window.dilation()[axis] - window.pad()[axis]
}

/// One over the elements of the window at a place that are no padding; one where the largest is looked for.
fn share(problem: &Pool, place: [usize; MAX_SPACE]) -> f64 {
    match problem.op {
        PoolOp::Max => 1.0,
        PoolOp::Mean => {
            let elements = |axis: usize| taps(problem, axis, place[axis]).len();
            1.0 / (elements(0) * elements(1) * elements(2)).max(1) as f64
        }
    }
}

fn lens(problem: &Pool) -> [u64; 3] {
    [problem.operand_len(), 0, problem.out_len()]
}

fn counted(problem: &Pool) -> (Flops, Bytes) {
    let elements = problem.operand_len().saturating_add(problem.out_len());
    (Flops(problem.flops()), Bytes(elements.saturating_mul(problem.dtype.size())))
}

/// Elements of the result from which a second thread can pay.
const SHAREABLE_FLOPS: u64 = 64 << 10;

fn threads(problem: &Pool, device: &DeviceFacts) -> Vec<u32> {
    thread_counts(device, problem.flops() >= SHAREABLE_FLOPS, 4)
}

#[cold]
fn wrong_point(config: impl std::fmt::Debug) -> LaunchError {
    LaunchError::Point(format!("{config:?}"))
}
