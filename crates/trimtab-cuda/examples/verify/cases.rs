//! What is verified: kernels × problems that fit no tile × all legal points.

use anyhow::{Context, Result};
use trimtab_core::{
    BinaryOp, DType, DeviceFacts, Elementwise, Matmul, Operand, Problem, Reduce, ReduceOp, Transpose, UnaryOp,
};
use trimtab_cuda::occupancy::Multiprocessor;
use trimtab_cuda::{DeviceInfo, LaunchStep, Program, kernels};

pub struct Case {
    pub kernel: String,
    pub problem: Problem,
    /// The point, by the names of its settings.
    pub setting: String,
    pub program: Program,
}

impl Case {
    /// Programs so far have one step each.
    pub fn step(&self) -> &LaunchStep {
        &self.program.steps[0]
    }
}

/// A device of an architecture as its driver would tell it.
fn facts(architecture: u32) -> Result<DeviceFacts> {
    let multiprocessor = Multiprocessor::of(architecture).context("an architecture without a table")?;
    let info = DeviceInfo {
        ordinal: 0,
        name: format!("sm_{architecture}"),
        uuid: [0; 16],
        memory: 8 << 30,
        capability: architecture,
        multiprocessors: 40,
        multiprocessor,
        block_threads: 1024,
        l2_bytes: 4 << 20,
        clock_khz: 1_500_000,
        integrated: false,
    };
    Ok(info.facts(12_020))
}

pub fn cases(architecture: u32) -> Result<Vec<Case>> {
    let (facts, mut cases) = (facts(architecture)?, Vec::new());
    for kernel in kernels::all() {
        for (problem, whole) in problems()? {
            let space = kernel.space(&problem, &facts);
            let most = if whole { space.points().len() } else { 1 };
            for point in space.points().iter().take(most) {
                let program = Program::of(kernel.as_ref(), &problem, point)?;
                anyhow::ensure!(
                    program.steps.len() == 1,
                    "{problem}: programs of several steps are new here"
                );
                cases.push(Case { kernel: kernel.info().name, problem, setting: space.name(point), program });
            }
        }
    }
    Ok(cases)
}

/// Problems, and whether every point of a kernel is tried on them or the default alone.
fn problems() -> Result<Vec<(Problem, bool)>> {
    let mut all: Vec<(Problem, bool)> = Vec::new();
    let floats = [DType::F32, DType::F64];
    for dtype in floats {
        for [m, n, k] in [[1, 1, 1], [33, 70, 17], [130, 20, 9], [65, 129, 40]] {
            all.push((Problem::Matmul(Matmul::new(dtype, m, n, k)?), true));
        }
        for (lhs, rhs) in [(true, false), (false, true), (true, true)] {
            let operand = |transposed| Operand { transposed, shared: false };
            all.push((
                Problem::Matmul(Matmul::batched(dtype, 1, 37, 45, 19, operand(lhs), operand(rhs))?),
                false,
            ));
        }
        let shared = Operand { transposed: false, shared: true };
        all.push((Problem::Matmul(Matmul::batched(dtype, 3, 20, 33, 18, Operand::PLAIN, shared)?), false));
        for op in UnaryOp::ALL {
            all.push((Problem::Elementwise(Elementwise::unary(op, dtype, &[1027])?), op == UnaryOp::Gelu));
        }
        for op in BinaryOp::ALL {
            let problem = Elementwise::binary(op, dtype, &[31, 33], &[31, 33])?;
            all.push((Problem::Elementwise(problem), op == BinaryOp::Div));
        }
        for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min, ReduceOp::Max] {
            for (shape, axis) in
                [(vec![1], None), (vec![3001], None), (vec![7, 45, 13], Some(1)), (vec![5, 130], Some(1))]
            {
                all.push((Problem::Reduce(Reduce::new(op, dtype, &shape, axis)?), true));
            }
        }
    }
    for dtype in [DType::F16, DType::Bf16] {
        for [m, n, k] in [[1, 1, 1], [33, 70, 17], [130, 20, 9], [65, 129, 40]] {
            all.push((Problem::Matmul(Matmul::new(dtype, m, n, k)?), true));
        }
        let transposed = Operand { transposed: true, shared: false };
        all.push((Problem::Matmul(Matmul::batched(dtype, 2, 37, 45, 19, transposed, transposed)?), true));
    }
    for dtype in [DType::F32, DType::F64, DType::F16, DType::U8] {
        for (shape, axes) in
            [(vec![33, 65], vec![1, 0]), (vec![3, 20, 40], vec![0, 2, 1]), (vec![2, 5], vec![1, 0])]
        {
            all.push((Problem::Transpose(Transpose::new(dtype, &shape, &axes)?), true));
        }
    }
    Ok(all)
}
