//! Operands with repeated axes: a thread finds the place of each of its elements by division.

use super::walk::WalkConfig;
use super::{OPS, declines, flops};
use crate::kernels::{NUMBER, of_number};
use crate::program::{Cuda, Program, StepArgument};
use trimtab_core::{
    Bytes, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, Variant, Work,
};

/// See the module.
#[derive(Debug)]
pub struct BroadcastKernel;

/// Sizes of the axes, and how far apart neighbours along each are in the operands: zero where one is repeated.
fn axes(problem: &Elementwise) -> Vec<[u64; 3]> {
    let (mut left, mut right) = (1, 1);
    let mut axes: Vec<[u64; 3]> = problem.dims().iter().map(|size| [*size, 0, 0]).collect();
    for (number, [size, lhs, rhs]) in axes.iter_mut().enumerate().rev() {
        if problem.lhs_varies(number) {
            *lhs = left;
            left *= *size;
        }
        if problem.rhs_varies(number) {
            *rhs = right;
            right *= *size;
        }
    }
    axes
}

/// The source for so many axes: each has three parameters of its own.
fn source(rank: usize) -> String {
    let each = |of: &dyn Fn(usize) -> String| (0..rank).map(of).collect::<Vec<_>>().join(", ");
    let takes = each(&|axis| format!("unsigned s{axis}, unsigned l{axis}, unsigned r{axis}"));
    let digits = each(&|axis| format!("{{s{axis}, l{axis}, r{axis}}}"));
    let defined = format!("#define RANK {rank}\n#define AXES {takes}\n#define DIGITS {{{digits}}}\n");
    [NUMBER, OPS, &defined, include_str!("broadcast.cu")].concat()
}

impl Variant<Cuda> for BroadcastKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("cuda.elementwise.broadcast", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        let repeats = matches!(problem.op, ElementwiseOp::Binary(_))
            && (problem.lhs_len() != problem.out_len() || problem.rhs_len() != problem.out_len());
        let plain = "takes operands with repeated axes, these have none";
        declines(problem, device).or_else(|| (!repeats).then_some(Decline::because(plain)))
    }

    fn configs(&self, _: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        WalkConfig::all(device)
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, _: &DeviceFacts) -> Work {
        let len = problem.out_len();
        // A digit takes a division, and two additions of products.
        let place = 6 * problem.dims().len() as u64;
        let elements = len.saturating_add(problem.lhs_len()).saturating_add(problem.rhs_len());
        Work {
            flops: Flops(len.saturating_mul(flops(problem.op) + place)),
            bytes: Bytes(elements.saturating_mul(problem.dtype.size())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: len.div_ceil(config.each.max(1).into()),
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
        let mut macros = of_number(problem.dtype);
        macros.extend(settings);
        macros.push(("OP", format!("op_{}", problem.op.name())));
        let mut given = vec![StepArgument::Input(0), StepArgument::Input(1), StepArgument::Out];
        given.push(StepArgument::U32(problem.out_len() as u32));
        let axes = axes(problem);
        given.extend(axes.iter().flatten().map(|size| StepArgument::U32(*size as u32)));
        let block = [config.width, 1, 1];
        program.push(source(axes.len()), "elementwise_broadcast", macros, grid, block, given)
    }
}
