//! The kernels of the operation reduce: sum, mean, smallest, largest and product of floating-point numbers, and of i32 all but the mean.

pub(super) mod columns;
pub(super) mod rows;
mod team;
pub(super) mod twopass;

use super::{CompilerMacros, CudaKernels, impossible, not_float, of_number};
use crate::program::{Program, StepArgument, adapter};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Reduce, ReduceOp, Work, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![
        erase(twopass::TwoPassKernel),
        erase(rows::RowsKernel),
        erase(columns::ColumnsKernel),
        erase(team::ReduceTeam),
    ]
}

fn declines(problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    if problem.op == ReduceOp::Prod {
        return Some(Decline::because("does sum, mean, min and max"));
    }
    not_float(problem.dtype).or_else(|| impossible([problem.input_len(), problem.out_len()]))
}

/// The macros of a reduction in blocks of so many threads.
fn macros(problem: &Reduce, width: u32) -> CompilerMacros {
    let op = match problem.op {
        ReduceOp::Sum | ReduceOp::Prod => 0,
        ReduceOp::Mean => 1,
        ReduceOp::Min => 2,
        ReduceOp::Max => 3,
    };
    let mut macros = of_number(problem.dtype);
    macros.extend([("WIDTH", width.to_string()), ("OP", op.to_string())]);
    macros
}

/// Writes a launch of a kernel that takes operand, result and sizes.
fn write(
    problem: &Reduce,
    (source, entry): (&'static str, &'static str),
    width: u32,
    blocks: u64,
    program: &mut Program,
) -> Result<(), LaunchError> {
    let sizes = [problem.len, problem.inner, problem.out_len()].map(|size| StepArgument::U32(size as u32));
    let given = [StepArgument::Input(0), StepArgument::Out].into_iter().chain(sizes).collect();
    program.push(source, entry, macros(problem, width), [blocks, 1, 1], [width, 1, 1], given)
}

fn work(problem: &Reduce, invocations: u64, barriers: u64) -> Work {
    Work {
        flops: Flops(problem.input_len()),
        bytes: Bytes((problem.input_len() + problem.out_len()) * problem.dtype.size()),
        launches: 1,
        threads: 1,
        lanes: 1,
        invocations,
        barriers,
        ..Work::default()
    }
}
