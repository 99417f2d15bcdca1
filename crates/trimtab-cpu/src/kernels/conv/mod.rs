//! Convolution kernels: a window of weights over one to three dimensions of space.
//!
//! Semantics every kernel shares: padding is zeros that are not multiplied where that shows (a NaN in the weights does not reach a
//! place through padding alone only in kernels that skip it, so weights that are not numbers are nobody's promise); sums are in the
//! element type, in an order that differs from kernel to kernel; the bias is added, then the function applied.

mod depthwise;
mod direct;
mod ending;
mod im2col;
mod implicit;
mod pointwise;
mod reference;
mod winograd;

pub(super) use pointwise::Strided;

use crate::args::{Args, Inputs};
use crate::kernels::Kernels;
use crate::kernels::matmul::float::{self, vector_bits};
use crate::kernels::rows::Float as Real;
use crate::simd::{Levels, MAX_LANES, Vector};
use trimtab_core::{
    Bytes, Channels, Conv, Decline, DeviceFacts, Flops, LaunchError, MAX_SPACE, Problem, Work, erase,
};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let (level, lanes) = Levels::detect().widest();
    vec![
        erase(pointwise::PointwiseKernel { level }),
        erase(depthwise::DepthwiseKernel { level, lanes }),
        erase(implicit::ImplicitKernel { level }),
        erase(winograd::WinogradKernel { level }),
        erase(im2col::Im2ColKernel { level }),
        erase(direct::DirectKernel { level, lanes }),
        erase(reference::ReferenceKernel),
    ]
}

/// f32 or f64 with everything kernels of convolution need.
pub(super) trait Float: Real + float::Float + bytemuck::Pod {}
impl Float for f32 {}
impl Float for f64 {}

/// The operands of a launch.
struct Given<'a, T> {
    operand: &'a [T],
    weights: &'a [T],
    /// By channel of the result; empty where there is none.
    bias: Option<&'a [T]>,
    out: &'a mut [T],
    pool: &'a crate::pool::Pool,
}

fn given<'a, T: Element>(problem: &Conv, args: Args<'a>) -> Result<Given<'a, T>, LaunchError> {
    let Inputs { inputs, out, pool } = args.of::<T>(&Problem::from(*problem), false)?;
    let bias = problem.bias.then_some(inputs[2]);
    Ok(Given { operand: inputs[0], weights: inputs[1], bias, out, pool })
}

/// Elements of a space.
fn count(space: [usize; MAX_SPACE]) -> usize {
    space.iter().product()
}

/// A place in space by its number.
fn place_of(space: [usize; MAX_SPACE], nth: usize) -> [usize; MAX_SPACE] {
    [nth / (space[1] * space[2]), nth / space[2] % space[1], nth % space[2]]
}

/// Where an element of a window lies in the operand's space along one axis, if it is not padding.
#[inline(always)]
fn along(place: usize, stride: usize, tap: usize, dilation: usize, pad: usize, size: usize) -> Option<usize> {
    (place * stride + tap * dilation).checked_sub(pad).filter(|&at| at < size)
}

/// Arithmetic and bytes of a kernel that moves so many elements beside the operands, on so many threads.
fn work(problem: &Conv, moved: u64, scratch: u64, threads: u32) -> Work {
    let size = problem.dtype.size();
    let operands = problem.operand_len() + problem.weights_len() + problem.out_len();
    let lanes = (vector_bits()[0] / 8 / size as u32).max(1);
    Work {
        flops: Flops(problem.flops()),
        bytes: Bytes(operands.saturating_add(moved).saturating_mul(size)),
        scratch: Bytes(scratch.saturating_mul(size)),
        launches: u32::from(threads > 1),
        threads,
        lanes,
        ..Work::default()
    }
}

/// Flops from which a second thread can pay.
const SHAREABLE_FLOPS: u64 = 1 << 20;

/// Threads worth trying.
fn threads(problem: &Conv, device: &DeviceFacts) -> Vec<u32> {
    crate::kernels::elementwise::thread_counts(device, problem.flops() >= SHAREABLE_FLOPS, 4)
}

/// Why a kernel of channels before the space does not take a problem.
fn needs_channels_first(problem: &Conv) -> Option<Decline> {
    (problem.channels == Channels::Last)
        .then(|| Decline::because("channels lie behind the space; needs nchw"))
}

/// Some elements as a vector, the rest of it of a value.
///
/// # Safety
/// So many elements must be readable.
#[inline(always)]
unsafe fn load_some<T: Copy, V: Vector<T>>(token: V::Token, from: *const T, count: usize, rest: T) -> V {
    if count >= V::LANES {
        // SAFETY: that many are readable.
        return unsafe { V::load(token, from) };
    }
    let mut all = [rest; MAX_LANES];
    // SAFETY: `count` elements are readable, and no vector has more lanes than there are places.
    unsafe {
        std::ptr::copy_nonoverlapping(from, all.as_mut_ptr(), count);
        V::load(token, all.as_ptr())
    }
}
