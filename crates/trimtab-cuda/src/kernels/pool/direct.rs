//! A thread looks through the window of each of its results; neighbours have neighbouring results.

use crate::kernels::elementwise::walk::WalkConfig;
use crate::kernels::walked::{declines, push, sizes, window};
use crate::kernels::{not_float, of_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{Bytes, Channels, Decline, DeviceFacts, Flops, LaunchError, Pool, PoolOp, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct PoolKernel;

impl Variant<Cuda> for PoolKernel {
    type Problem = Pool;
    type Config = WalkConfig;

    identity!("cuda.pool.direct", Parallel);

    fn declines(&self, problem: &Pool, device: &DeviceFacts) -> Option<Decline> {
        not_float(problem.dtype).or_else(|| declines(&(*problem).into(), device))
    }

    fn configs(&self, _: &Pool, device: &DeviceFacts) -> Vec<WalkConfig> {
        let mut all = WalkConfig::few(device);
        // A result is a loop: most are best alone.
        all.sort_by_key(|config| config.each);
        all
    }

    fn work(&self, problem: &Pool, config: WalkConfig, _: &DeviceFacts) -> Work {
        let elements = problem.flops().saturating_add(problem.out_len());
        Work {
            flops: Flops(problem.flops().saturating_mul(4)),
            bytes: Bytes(elements.saturating_mul(problem.dtype.size())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: problem.out_len().div_ceil(config.each.max(1).into()),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Pool, config: WalkConfig, program: &mut Program) -> Result<(), LaunchError> {
        let mut macros = of_number(problem.dtype);
        macros.push(("OP", u32::from(problem.op == PoolOp::Mean).to_string()));
        let channels = if problem.channels == Channels::Last { problem.count() as u64 } else { 1 };
        let mut given = vec![StepArgument::Input(0), StepArgument::Out];
        given.extend(sizes([problem.out_len(), channels]));
        given.extend(window(&problem.window));
        let source =
            concat!(include_str!("../number.cu"), include_str!("../window.cu"), include_str!("direct.cu"));
        push(program, config, problem.out_len(), (source, "pool_direct"), macros, given)
    }
}
