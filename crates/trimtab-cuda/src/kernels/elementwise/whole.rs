//! Whole numbers of 32 bits, of one shape or with repeated axes: they wrap, and what has no answer is told.

use super::walk::WalkConfig;
use crate::kernels::walked::{Digits, declines, digits, push, with_digits, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{
    BinaryOp, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, LaunchError, UnaryOp, Variant, Work,
};

/// See the module.
#[derive(Debug)]
pub struct WholeKernel;

/// Whether it is an operation of whole numbers.
fn is_whole(op: ElementwiseOp) -> bool {
    match op {
        ElementwiseOp::Unary(op) => matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu),
        ElementwiseOp::Binary(op) => BinaryOp::ALL.contains(&op),
    }
}

/// Sizes of the axes, and the steps of both operands along each.
fn axes(problem: &Elementwise) -> Digits {
    let mut steps = [1, 1];
    let mut axes: Digits = problem.dims().iter().map(|size| vec![*size, 0, 0]).collect();
    for (number, axis) in axes.iter_mut().enumerate().rev() {
        for (place, varies) in
            [problem.lhs_varies(number), problem.rhs_varies(number)].into_iter().enumerate()
        {
            if varies {
                axis[1 + place] = steps[place];
                steps[place] *= axis[0];
            }
        }
    }
    axes
}

impl Variant<Cuda> for WholeKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("cuda.elementwise.whole", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        let takes = problem.dtype == DType::I32 && is_whole(problem.op);
        let other = || {
            Decline::from(format!("does arithmetic of i32, not {} of {}", problem.op.name(), problem.dtype))
        };
        (!takes).then(other).or_else(|| declines(&(*problem).into(), device))
    }

    fn configs(&self, _: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 2 + 6 * problem.dims().len() as u64, config)
    }

    fn launch(
        &self,
        problem: &Elementwise,
        config: WalkConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (axes, all) = (axes(problem), problem.out_len());
        let pairs = matches!(problem.op, ElementwiseOp::Binary(_));
        let macros =
            vec![("OP", format!("op_{}", problem.op.name())), ("PAIRS", u32::from(pairs).to_string())];
        // A second operand that is not there is never read: the first stands for it.
        let mut given = vec![StepArgument::Input(0), StepArgument::Input(u8::from(pairs)), StepArgument::Out];
        given.extend([StepArgument::Status, StepArgument::U32(all as u32)]);
        given.extend(digits(&axes));
        let source = with_digits(&axes, include_str!("whole.cu"));
        push(program, config, all, (source, "elementwise_whole"), macros, given)
    }
}
