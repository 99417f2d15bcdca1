//! Fused kernels: elementwise steps over shared operands in one pass, perhaps after a product or before a reduction.
//!
//! Semantics every kernel shares are those of the single operations: see the elementwise and reduction kernels. Between
//! steps a value has the element type; f16 is computed in f32 throughout and rounded once, at the end.

mod acts;
mod ends;
mod gemm;
mod machine;
mod product;
mod program;
mod reference;
mod tiles;

use crate::kernels::Kernels;
use crate::kernels::elementwise::ops;
use crate::simd::Levels;
use trimtab_core::{Bytes, DType, ElementwiseOp, Flops, Fused, InputLens, Problem, Step, erase};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let levels = Levels::detect();
    let (level, _) = levels.widest();
    vec![
        erase(tiles::TilesKernel { levels }),
        erase(product::ProductKernel { level }),
        erase(gemm::GemmKernel { level }),
        erase(reference::ReferenceKernel),
    ]
}

/// The lengths of the inputs, as the launch must have them.
fn lens(problem: &Fused) -> InputLens {
    Problem::from(*problem).input_lens()
}

/// What a step computes, if it does.
fn operation(step: Step) -> Option<ElementwiseOp> {
    match step {
        Step::Unary(op) => Some(ElementwiseOp::Unary(op)),
        Step::Binary(op) => Some(ElementwiseOp::Binary(op)),
        Step::Input(_) | Step::Number(_) | Step::Product => None,
    }
}

/// Arithmetic of all steps, the product and the reduction.
fn flops(problem: &Fused) -> Flops {
    let double = problem.dtype == DType::F64;
    let steps: u64 = problem.steps().filter_map(operation).map(|op| ops::flops(op, double)).sum();
    let product = problem.product().map_or(0, |product| product.depth.saturating_mul(2));
    let each = steps.saturating_add(product).saturating_add(u64::from(problem.end().is_some()));
    Flops(problem.len().saturating_mul(each))
}

/// Bytes of inputs and result, each walked over once.
fn bytes_walked(problem: &Fused) -> Bytes {
    let lens = lens(problem);
    let elements = lens.as_slice().iter().fold(problem.out_len(), |sum, &len| sum.saturating_add(len));
    Bytes(elements.saturating_mul(problem.dtype.size()))
}
