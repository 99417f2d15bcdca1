//! The kernels of scans: a thread a line, a block a line, or blocks that share one out. A scan in one pass whose blocks wait for each other
//! (decoupled look-back) needs blocks to be started in order, which CUDA does not promise: there is none.

mod block;
mod lines;
mod parts;

use super::{CompilerMacros, CudaKernels, NUMBERS, impossible, not_float_or_i32, of_any_number};
use crate::program::adapter;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, Scan, ScanOp, Work, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(parts::PartsKernel), erase(block::BlockKernel), erase(lines::LinesKernel)]
}

/// Elements of a line that is worth sharing.
const LEAST_LEN: u64 = 64;

fn declines(problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    not_float_or_i32(problem.dtype).or_else(|| impossible([problem.len()]))
}

/// Lines there are.
fn lines(problem: &Scan) -> u64 {
    problem.outer.saturating_mul(problem.inner)
}

/// The macros all sources have.
fn macros(problem: &Scan, own: &[(&'static str, u32)]) -> CompilerMacros {
    let op = match problem.op {
        ScanOp::Sum => 0,
        ScanOp::Prod => 1,
        ScanOp::Max => 2,
        ScanOp::Min => 3,
    };
    let mut macros = of_any_number(problem.dtype);
    macros.extend([("OP", op.to_string()), ("EXCLUSIVE", u32::from(problem.exclusive).to_string())]);
    macros.extend(own.iter().map(|(name, value)| (*name, value.to_string())));
    macros
}

/// A source behind what all scans begin with.
fn source(own: &str) -> String {
    [NUMBERS, include_str!("state.cu"), own].concat()
}

/// Bytes of what elements are carried along in.
fn state_bytes(problem: &Scan) -> u64 {
    let of_floats = match problem.dtype {
        DType::F64 => 16,
        _ => 8,
    };
    let pairs = problem.dtype.is_float() && matches!(problem.op, ScanOp::Sum | ScanOp::Prod);
    if pairs { of_floats } else { problem.dtype.size().max(4) }
}

/// Elements read so often and written once.
fn work(problem: &Scan, reads: u64) -> Work {
    let each = if problem.dtype.is_float() { 8 } else { 2 };
    Work {
        flops: Flops(problem.len().saturating_mul(each * reads)),
        bytes: Bytes((reads + 1).saturating_mul(problem.len()).saturating_mul(problem.dtype.size())),
        launches: 1,
        threads: 1,
        lanes: 1,
        ..Work::default()
    }
}
