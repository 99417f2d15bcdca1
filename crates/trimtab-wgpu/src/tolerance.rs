//! How far a GPU's results may be from the reference: WGSL lets functions be less exact than a processor's library.

use trimtab_core::{BinaryOp, DType, ElementwiseOp, Problem, ReduceOp, Step, UnaryOp};

/// The tolerance a kernel must keep, relative to the larger of the result and one.
///
/// Moves, sums and products of the checked operands stay exact. WGSL allows a division 2.5 units in the last place, `exp`
/// 3 + 2|x|, and `pow` what `exp2(y * log2(x))` gives; software adapters were seen at 2.6e-5 for functions.
pub fn tolerance(problem: &Problem) -> f64 {
    let on_a_processor = trimtab_operands::tolerance(problem);
    let epsilon = problem.out_dtype().map_or(0.0, DType::epsilon);
    let units = match problem {
        Problem::Elementwise(p) => units(p.op, p.dtype),
        // The sum's error and the function's, which does not enlarge it.
        Problem::Conv(p) => p.act.map_or(0.0, |act| 4.0 + units(ElementwiseOp::Unary(act), p.dtype)),
        // A weight is off by its function's error, and so is the average.
        Problem::Attention(p) => units(ElementwiseOp::Unary(UnaryOp::Exp), p.dtype) / 4.0,
        // As on a processor: a recipe is allowed twice what its steps are together, sums a unit a doubling more.
        Problem::Fused(p) => {
            let each = |step: Step| match step {
                Step::Unary(op) => units(ElementwiseOp::Unary(op), p.dtype),
                Step::Binary(op) => units(ElementwiseOp::Binary(op), p.dtype),
                Step::Product => 4.0,
                Step::Input(_) | Step::Number(_) => 0.0,
            };
            let end = match p.end() {
                Some((ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Prod, _)) => {
                    (p.reduced_len().max(2) as f64).log2()
                }
                _ => 0.0,
            };
            2.0 * (p.steps().map(each).sum::<f64>() + end)
        }
        _ => 0.0,
    };
    on_a_processor.max(units * epsilon)
}

/// Units in the last place an operation may be off.
fn units(op: ElementwiseOp, dtype: DType) -> f64 {
    match op {
        ElementwiseOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) => 0.0,
        ElementwiseOp::Unary(UnaryOp::Sqrt) => 8.0,
        // Halves are computed as f32 and rounded, so the functions' own error does not show.
        ElementwiseOp::Unary(_) | ElementwiseOp::Binary(BinaryOp::Pow) => match dtype {
            DType::F16 => 8.0,
            _ => 512.0,
        },
        ElementwiseOp::Binary(BinaryOp::Div) => 4.0,
        ElementwiseOp::Binary(_) => 1.0,
    }
}
