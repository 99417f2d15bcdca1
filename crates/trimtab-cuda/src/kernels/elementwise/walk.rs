//! Threads walk over the elements, neighbours over neighbours.

use super::{declines, flops};
use crate::kernels::{CompilerMacros, of_number};
use crate::program::{Cuda, Program, StepArgument, fits};
use trimtab_core::{
    Bytes, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Threads of a block, and elements of a thread.
    pub struct WalkConfig { width, each }
}

impl WalkConfig {
    /// Those a device can do, in the order they are tried.
    pub(in crate::kernels) fn all(device: &DeviceFacts) -> Vec<WalkConfig> {
        let all =
            [256, 128, 512].into_iter().flat_map(|width| [4, 1, 8].map(|each| WalkConfig { width, each }));
        all.filter(|config| fits(device, config.width, 0)).collect()
    }

    /// Fewer of them, for what memory alone limits.
    pub(in crate::kernels) fn few(device: &DeviceFacts) -> Vec<WalkConfig> {
        let all = [(256, 4), (256, 1), (128, 8)].map(|(width, each)| WalkConfig { width, each });
        all.into_iter().filter(|config| fits(device, config.width, 0)).collect()
    }

    /// Its macros, and the grid for so many elements.
    pub(in crate::kernels) fn shape(self, elements: u64) -> Result<(CompilerMacros, [u64; 3]), LaunchError> {
        let WalkConfig { width, each } = self;
        if !(1..=1024).contains(&width) || !(1..=64).contains(&each) {
            return Err(LaunchError::Point(format!("{self:?}")));
        }
        let blocks = elements.div_ceil(u64::from(width) * u64::from(each));
        Ok((vec![("WIDTH", width.to_string()), ("EACH", each.to_string())], [blocks, 1, 1]))
    }
}

/// See the module.
#[derive(Debug)]
pub struct WalkKernel;

impl Variant<Cuda> for WalkKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("cuda.elementwise.walk", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        let pairs = matches!(problem.op, ElementwiseOp::Binary(_));
        if pairs && (problem.lhs_len() != problem.out_len() || problem.rhs_len() != problem.out_len()) {
            return Some(Decline::because("takes operands of one shape"));
        }
        declines(problem, device)
    }

    fn configs(&self, _: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::all(device)
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, _: &DeviceFacts) -> Work {
        let operands = 2 + u64::from(matches!(problem.op, ElementwiseOp::Binary(_)));
        Work {
            flops: Flops(problem.out_len().saturating_mul(flops(problem.op))),
            bytes: Bytes(operands * problem.out_len() * problem.dtype.size()),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: problem.out_len().div_ceil(config.each.max(1).into()),
            ..Work::default()
        }
    }

    fn launch(
        &self,
        problem: &Elementwise,
        config: WalkConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (settings, grid) = config.shape(problem.out_len())?;
        let pairs = matches!(problem.op, ElementwiseOp::Binary(_));
        let mut macros = of_number(problem.dtype);
        macros.extend(settings);
        macros.extend([("OP", format!("op_{}", problem.op.name())), ("PAIRS", u32::from(pairs).to_string())]);
        let mut given = vec![StepArgument::Input(0)];
        given.extend(pairs.then_some(StepArgument::Input(1)));
        given.extend([StepArgument::Out, StepArgument::U32(problem.out_len() as u32)]);
        let source = concat!(include_str!("../number.cu"), include_str!("ops.cu"), include_str!("walk.cu"));
        program.push(source, "elementwise_walk", macros, grid, [config.width, 1, 1], given)
    }
}
