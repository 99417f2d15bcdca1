//! Threads walk over the elements, neighbours over neighbours.

use crate::kernels::{impossible, not_float, of_float};
use crate::program::{Cuda, Program, StepArgument, adapter, fits};
use trimtab_core::{
    BinaryOp, Bytes, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, UnaryOp,
    Variant, Work,
};

trimtab_core::config! {
    /// Threads of a block, and elements of a thread.
    pub struct WalkConfig { width, each }
}

/// See the module.
#[derive(Debug)]
pub struct WalkKernel;

/// The macro of an operation.
fn name(op: ElementwiseOp) -> &'static str {
    match op {
        ElementwiseOp::Unary(op) => match op {
            UnaryOp::Neg => "NEG",
            UnaryOp::Abs => "ABS",
            UnaryOp::Exp => "EXP",
            UnaryOp::Log => "LOG",
            UnaryOp::Sqrt => "SQRT",
            UnaryOp::Tanh => "TANH",
            UnaryOp::Sigmoid => "SIGMOID",
            UnaryOp::Relu => "RELU",
            UnaryOp::Gelu => "GELU",
        },
        ElementwiseOp::Binary(op) => match op {
            BinaryOp::Add => "ADD",
            BinaryOp::Sub => "SUB",
            BinaryOp::Mul => "MUL",
            BinaryOp::Div => "DIV",
            BinaryOp::Min => "MIN",
            BinaryOp::Max => "MAX",
            BinaryOp::Pow => "POW",
        },
    }
}

impl Variant<Cuda> for WalkKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("cuda.elementwise.walk", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if adapter(device).is_none() {
            return Some(Decline::because("not a GPU"));
        }
        let pairs = matches!(problem.op, ElementwiseOp::Binary(_));
        if pairs && (problem.lhs_len() != problem.out_len() || problem.rhs_len() != problem.out_len()) {
            return Some(Decline::because("takes operands of one shape"));
        }
        // A power of doubles calls a function, which nobody here can check without a GPU.
        if problem.dtype == DType::F64 && problem.op == ElementwiseOp::Binary(BinaryOp::Pow) {
            return Some(Decline::because("takes powers of f32"));
        }
        not_float(problem.dtype).or_else(|| impossible([problem.out_len()]))
    }

    fn configs(&self, _: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        let all =
            [256, 128, 512].into_iter().flat_map(|width| [4, 1, 8].map(|each| WalkConfig { width, each }));
        all.filter(|config| fits(device, config.width, 0)).collect()
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, _: &DeviceFacts) -> Work {
        let operands = 2 + u64::from(matches!(problem.op, ElementwiseOp::Binary(_)));
        Work {
            flops: Flops(problem.out_len()),
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
        let WalkConfig { width, each } = config;
        if !(1..=1024).contains(&width) || !(1..=64).contains(&each) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let pairs = matches!(problem.op, ElementwiseOp::Binary(_));
        let mut macros = of_float(problem.dtype);
        macros.extend([
            ("WIDTH", width.to_string()),
            ("EACH", each.to_string()),
            ("OP", name(problem.op).to_string()),
            ("PAIRS", u32::from(pairs).to_string()),
        ]);
        let n = problem.out_len();
        let mut given = vec![StepArgument::Input(0)];
        given.extend(pairs.then_some(StepArgument::Input(1)));
        given.extend([StepArgument::Out, StepArgument::U32(n as u32)]);
        let grid = [n.div_ceil(u64::from(width) * u64::from(each)), 1, 1];
        program.push(include_str!("walk.cu"), "elementwise_walk", macros, grid, [width, 1, 1], given)
    }
}
