//! A thread finds each of its elements by an index, neighbours beside neighbours.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{declines, of_bits, push, sizes, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{DType, Decline, DeviceFacts, Gather, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct GatherKernel;

impl Variant<Cuda> for GatherKernel {
    type Problem = Gather;
    type Config = WalkConfig;

    identity!("cuda.gather.elements", Parallel);

    fn declines(&self, problem: &Gather, device: &DeviceFacts) -> Option<Decline> {
        declines(&(*problem).into(), device)
    }

    fn configs(&self, _: &Gather, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Gather, config: WalkConfig, _: &DeviceFacts) -> Work {
        // Three divisions and the place. Elements are read that are taken, not all there are.
        let mut work = work(&(*problem).into(), 16, config);
        let read = problem.along_count().saturating_mul(2 * problem.dtype.size());
        work.bytes.0 = read.saturating_add(problem.indices().saturating_mul(problem.index.size()));
        work
    }

    fn launch(&self, problem: &Gather, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let mut macros = of_bits(problem.dtype);
        let flags = [("WIDE", problem.index == DType::I64), ("OWN", problem.each)];
        macros.extend(flags.map(|(name, is)| (name, u32::from(is).to_string())));
        let taken = problem.along_count();
        let mut given =
            vec![StepArgument::Input(0), StepArgument::Input(1), StepArgument::Out, StepArgument::Status];
        given.extend(sizes([taken, problem.inner, problem.count, problem.len]));
        let source =
            concat!(include_str!("../bits.cu"), include_str!("../index.cu"), include_str!("elements.cu"));
        push(program, config, taken, (source, "gather_elements"), macros, given)
    }
}
