//! A thread finds the operand of each of its elements.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{declines, of_bits, push, sizes, work};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Concat, Decline, DeviceFacts, LaunchError, MAX_PARTS, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct ConcatKernel;

impl Variant<Cuda> for ConcatKernel {
    type Problem = Concat;
    type Config = WalkConfig;

    identity!("cuda.concat.elements", Parallel);

    fn declines(&self, problem: &Concat, device: &DeviceFacts) -> Option<Decline> {
        declines(&(*problem).into(), device)
    }

    fn configs(&self, _: &Concat, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Concat, config: WalkConfig, _: &DeviceFacts) -> Work {
        work(&(*problem).into(), 16, config)
    }

    fn launch(&self, problem: &Concat, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let (all, row, parts) = (problem.out_len(), problem.row(), problem.parts());
        // Where each operand ends in a row; what is not there is never read, and the last stands for it.
        let mut end = 0;
        let ends: [u64; MAX_PARTS] = std::array::from_fn(|place| {
            end += parts.get(place).copied().unwrap_or(0);
            end
        });
        let last = parts.len().saturating_sub(1);
        let operand = |place: usize| StepArgument::Input(place.min(last) as u8);
        let mut given: Vec<StepArgument> = (0..MAX_PARTS).map(operand).collect();
        given.push(StepArgument::Out);
        given.extend(sizes([all, row, ends[0], ends[1], ends[2], ends[3]]));
        let source = concat!(include_str!("../bits.cu"), include_str!("elements.cu"));
        push(program, config, all, (source, "concat_elements"), of_bits(problem.dtype), given)
    }
}
