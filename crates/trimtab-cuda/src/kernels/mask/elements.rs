//! A thread finds its elements in every operand by their digits, compares two, or chooses between two.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{Digits, declines, digits, of_bits, push, with_digits, work};
use crate::kernels::{NUMBERS, not_real, of_any_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Mask, MaskOp, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct MaskKernel;

/// Sizes of the axes, and the steps of every operand along each.
fn axes(problem: &Mask) -> Digits {
    let mut axes: Digits = problem.dims().iter().map(|size| vec![*size]).collect();
    for place in 0..problem.operands() {
        let mut step = 1;
        for (number, axis) in axes.iter_mut().enumerate().rev() {
            let varies = problem.varies(place, number);
            axis.push(if varies { step } else { 0 });
            step *= if varies { axis[0] } else { 1 };
        }
    }
    axes
}

/// The comparison in C, which is that of numbers: what is none is equal to nothing.
fn compared(op: MaskOp) -> &'static str {
    match op {
        MaskOp::Eq | MaskOp::Where => "==",
        MaskOp::Ne => "!=",
        MaskOp::Lt => "<",
        MaskOp::Le => "<=",
        MaskOp::Gt => ">",
        MaskOp::Ge => ">=",
    }
}

impl Variant<Cuda> for MaskKernel {
    type Problem = Mask;
    type Config = WalkConfig;

    identity!("cuda.mask.elements", Parallel);

    fn declines(&self, problem: &Mask, device: &DeviceFacts) -> Option<Decline> {
        let compares = problem.op != MaskOp::Where;
        declines(&(*problem).into(), device).or_else(|| compares.then(|| not_real(problem.dtype)).flatten())
    }

    fn configs(&self, _: &Mask, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Mask, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 1 + 7 * problem.dims().len() as u64, config)
    }

    fn launch(&self, problem: &Mask, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let (axes, all) = (axes(problem), problem.out_len());
        let mut given: Vec<StepArgument> = (0..problem.operands() as u8).map(StepArgument::Input).collect();
        given.extend([StepArgument::Out, StepArgument::U32(all as u32)]);
        given.extend(digits(&axes));
        if problem.op == MaskOp::Where {
            let text = concat!(include_str!("../bits.cu"), include_str!("choose.cu"));
            let source = (with_digits(&axes, text), "mask_choose");
            return push(program, config, all, source, of_bits(problem.dtype), given);
        }
        let mut macros = of_any_number(problem.dtype);
        macros.push(("COMPARED", compared(problem.op).to_string()));
        let text = [NUMBERS, include_str!("compare.cu")].concat();
        push(program, config, all, (with_digits(&axes, &text), "mask_compare"), macros, given)
    }
}
