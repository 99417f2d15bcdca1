//! A thread has an element of the result, looks at all indices of its line in order and adds what is its own: no atomics, the same bits every time, good where
//! there are few indices.

use super::{declines, of_indices, sizes};
use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::push;
use crate::kernels::{NUMBERS, of_any_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Problem, Scatter, Variant, Work};

/// Indices a thread looks at, at most: more are left to atomics where there are such.
const MOST_INDICES: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct OwnedKernel;

impl Variant<Cuda> for OwnedKernel {
    type Problem = Scatter;
    type Config = WalkConfig;

    identity!("cuda.scatter.owned", Parallel);

    fn declines(&self, problem: &Scatter, device: &DeviceFacts) -> Option<Decline> {
        let many = || Decline::from(format!("looks at up to {MOST_INDICES} indices, not {}", problem.count));
        declines(problem, device).or_else(|| (problem.count > MOST_INDICES).then(many))
    }

    fn configs(&self, _: &Scatter, device: &DeviceFacts) -> Vec<WalkConfig> {
        let mut all = WalkConfig::few(device);
        all.sort_by_key(|config| config.each);
        all
    }

    fn work(&self, problem: &Scatter, config: WalkConfig, _: &DeviceFacts) -> Work {
        let whole = problem.input_len();
        Work {
            flops: Flops(whole.saturating_mul(problem.count).saturating_mul(4)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: whole.div_ceil(config.each.max(1).into()),
            ..Work::default()
        }
    }

    fn launch(
        &self,
        problem: &Scatter,
        config: WalkConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let mut macros = of_any_number(problem.dtype);
        macros.extend(of_indices(problem));
        let mut given: Vec<StepArgument> = [0, 1, 2].map(StepArgument::Input).to_vec();
        given.extend([StepArgument::Out, StepArgument::Status]);
        given.extend(sizes(problem, problem.input_len()));
        let source = [NUMBERS, include_str!("../index.cu"), include_str!("owned.cu")].concat();
        push(program, config, problem.input_len(), (source, "scatter_owned"), macros, given)
    }
}
