//! The kernels of the operation elementwise: one or two dense operands of floating-point numbers or i32, of one shape or with repeated axes.

mod broadcast;
pub(super) mod walk;
mod whole;

use super::{CudaKernels, impossible, not_float};
use crate::program::adapter;
use trimtab_core::{BinaryOp, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, UnaryOp, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(walk::WalkKernel), erase(broadcast::BroadcastKernel), erase(whole::WholeKernel)]
}

/// The operations in CUDA C, as functions `op_<name>`.
pub(super) const OPS: &str = include_str!("ops.cu");

/// Why no kernel does an operation on a type.
pub(super) fn undefined(op: ElementwiseOp, dtype: DType) -> Option<Decline> {
    // A power of doubles calls a function, which nobody here can check without a GPU.
    let power = dtype == DType::F64 && op == ElementwiseOp::Binary(BinaryOp::Pow);
    not_float(dtype).or_else(|| power.then_some(Decline::because("takes powers of f32")))
}

fn declines(problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    undefined(problem.op, problem.dtype).or_else(|| impossible([problem.out_len()]))
}

/// Arithmetic operations of one element; functions count as 16, about what compilers make of them.
pub(super) fn flops(op: ElementwiseOp) -> u64 {
    match op {
        ElementwiseOp::Unary(UnaryOp::Gelu) => 16 + 8,
        ElementwiseOp::Unary(UnaryOp::Sigmoid) => 16 + 3,
        op if op.is_function() => 16,
        _ => 1,
    }
}
