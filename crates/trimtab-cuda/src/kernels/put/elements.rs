//! A thread looks whether each of its elements is in the block.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{Digits, declines, digits, of_bits, push, with_digits, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Put, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct PutKernel;

/// Sizes of the result, where the block begins, its sizes, and its steps.
fn axes(problem: &Put) -> Digits {
    let mut step = 1;
    let mut axes: Digits = Vec::new();
    for ((&dim, &first), &size) in problem.dims().iter().zip(problem.first()).zip(problem.size()).rev() {
        axes.push(vec![dim.into(), first.into(), size.into(), step]);
        step *= u64::from(size);
    }
    axes.reverse();
    axes
}

impl Variant<Cuda> for PutKernel {
    type Problem = Put;
    type Config = WalkConfig;

    identity!("cuda.put.elements", Parallel);

    fn declines(&self, problem: &Put, device: &DeviceFacts) -> Option<Decline> {
        declines(&(*problem).into(), device)
    }

    fn configs(&self, _: &Put, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Put, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 8 * problem.dims().len() as u64, config)
    }

    fn launch(&self, problem: &Put, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let mut macros = of_bits(problem.dtype);
        macros.push(("FILL", u32::from(problem.fill).to_string()));
        let (axes, all) = (axes(problem), problem.out_len());
        let mut given = vec![StepArgument::Input(0), StepArgument::Input(1), StepArgument::Out];
        given.push(StepArgument::U32(all as u32));
        given.extend(digits(&axes));
        let text = concat!(include_str!("../bits.cu"), include_str!("elements.cu"));
        push(program, config, all, (with_digits(&axes, text), "put_elements"), macros, given)
    }
}
