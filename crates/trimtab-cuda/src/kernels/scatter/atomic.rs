//! The operand is copied, then every element is added where its index says, atomically.

use super::{declines, of_indices, sizes};
use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{of_bits, push};
use crate::kernels::{NUMBERS, of_any_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Problem, Scatter, Variant, Work};

/// What an atomic addition costs, in plain ones; about.
const ATOMIC: u64 = 16;

/// See the module.
#[derive(Debug)]
pub struct AtomicKernel;

fn not_atomic(dtype: DType) -> Option<Decline> {
    let known = matches!(dtype, DType::F32 | DType::F64 | DType::I32);
    (!known).then(|| Decline::from(format!("adds f32, f64 and i32, not {dtype}")))
}

impl Variant<Cuda> for AtomicKernel {
    type Problem = Scatter;
    type Config = WalkConfig;

    identity!("cuda.scatter.atomic", Parallel);

    fn declines(&self, problem: &Scatter, device: &DeviceFacts) -> Option<Decline> {
        let none = || Decline::because("there is nothing to add");
        declines(problem, device)
            .or_else(|| not_atomic(problem.dtype))
            .or_else(|| (problem.along_count() == 0).then(none))
    }

    fn configs(&self, _: &Scatter, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::few(device)
    }

    fn work(&self, problem: &Scatter, config: WalkConfig, _: &DeviceFacts) -> Work {
        let added = problem.along_count();
        let again = added.saturating_mul(2 * problem.dtype.size());
        Work {
            flops: Flops(added.saturating_mul(ATOMIC)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0.saturating_add(again)),
            launches: 2,
            threads: 1,
            lanes: 1,
            invocations: added.div_ceil(config.each.max(1).into()),
            ..Work::default()
        }
    }

    fn launch(
        &self,
        problem: &Scatter,
        config: WalkConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (all, added) = (problem.input_len(), problem.along_count());
        let given = vec![StepArgument::Input(0), StepArgument::Out, StepArgument::U32(all as u32)];
        let source = concat!(include_str!("../bits.cu"), include_str!("copy.cu"));
        push(program, config, all, (source, "scatter_copy"), of_bits(problem.dtype), given)?;
        let mut macros = of_any_number(problem.dtype);
        macros.extend(of_indices(problem));
        let mut given =
            vec![StepArgument::Input(2), StepArgument::Input(1), StepArgument::Out, StepArgument::Status];
        given.extend(sizes(problem, added));
        let source = [NUMBERS, include_str!("../index.cu"), include_str!("atomic.cu")].concat();
        push(program, config, added, (source, "scatter_atomic"), macros, given)
    }
}
