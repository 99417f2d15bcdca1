//! Any permutation: a thread finds its elements in the operand by their digits; neighbours are neighbours in the result.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{Digits, declines, digits, of_bits, push, with_digits, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct PermuteKernel;

/// Sizes of the result, and the operand's steps along each axis.
fn axes(problem: &Transpose) -> Digits {
    let dims = problem.dims();
    let step = |axis: usize| dims[axis + 1..].iter().product::<u64>();
    let of = |axis: &u8| vec![dims[usize::from(*axis)], step(usize::from(*axis))];
    problem.permutation().iter().map(of).collect()
}

impl Variant<Cuda> for PermuteKernel {
    type Problem = Transpose;
    type Config = WalkConfig;

    identity!("cuda.transpose.walk", Parallel);

    fn declines(&self, problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
        declines(&(*problem).into(), device)
    }

    fn configs(&self, _: &Transpose, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Transpose, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 6 * problem.dims().len() as u64, config)
    }

    fn launch(
        &self,
        problem: &Transpose,
        config: WalkConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (axes, all) = (axes(problem), problem.len());
        let mut given = vec![StepArgument::Input(0), StepArgument::Out, StepArgument::U32(all as u32)];
        given.extend(digits(&axes));
        let text = concat!(include_str!("../bits.cu"), include_str!("walk.cu"));
        let source = (with_digits(&axes, text), "transpose_walk");
        push(program, config, all, source, of_bits(problem.dtype), given)
    }
}
