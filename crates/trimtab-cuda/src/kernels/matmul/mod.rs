//! The kernels of the operation matmul: every layout and batch; f32 and f64; f16 and bf16 with sums in f32, also on tensor cores; f32 on tensor
//! cores for callers who tolerate it.

pub(super) mod blocked;
mod library;
pub(super) mod matvec;
pub(super) mod naive;
pub(super) mod pipelined;
pub(super) mod split;
pub(super) mod tensor;
mod tf32;
pub(super) mod tiled;

pub use library::{CublasKernel, CublasLtKernel};

use super::{CompilerMacros, CudaKernels, impossible, not_float, of_number};
use crate::program::{MAX_GRID, Program, StepArgument};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Matmul, Work, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![
        erase(tf32::Tf32Kernel),
        erase(tensor::TensorKernel),
        erase(blocked::BlockedKernel),
        erase(pipelined::PipelinedKernel),
        erase(split::SplitKernel),
        erase(matvec::MatvecKernel),
        erase(tiled::TiledKernel),
        erase(naive::NaiveKernel),
    ]
}

fn declines(problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
    not_float(problem.dtype).or_else(|| no_launch(problem, device))
}

/// Why no launch can compute a product, whatever its type.
fn no_launch(problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
    if crate::program::adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    let Matmul { m, n, k, batch, .. } = *problem;
    if k == 0 {
        return Some(Decline::because("there is nothing to add up"));
    }
    if batch > MAX_GRID[2] {
        return Some(Decline::from(format!("takes batches of up to {}, not {batch}", MAX_GRID[2])));
    }
    impossible([m * k, k * n, m * n, batch])
}

/// Whether a grid holds the product in tiles of this size.
fn has_grid(problem: &Matmul, [rows, columns]: [u32; 2]) -> bool {
    problem.m.div_ceil(rows.into()) <= MAX_GRID[1] && problem.n.div_ceil(columns.into()) <= MAX_GRID[0]
}

/// A source behind what all products begin with.
macro_rules! product_source {
    ($file:literal) => {
        concat!(include_str!("../number.cu"), include_str!("product.cu"), include_str!($file))
    };
}
use product_source;

/// Operands by their strides, and the sizes: what every product takes. The result is where it is said to be.
fn given(problem: &Matmul, out: StepArgument) -> Vec<StepArgument> {
    let Matmul { m, n, k, lhs, rhs, .. } = *problem;
    let (left, right) =
        (if lhs.transposed { [1, m] } else { [k, 1] }, if rhs.transposed { [1, k] } else { [n, 1] });
    let sizes = [m, n, k, left[0], left[1], right[0], right[1]];
    let matrix = |shared: bool, elements: u64| StepArgument::U64(if shared { 0 } else { elements });
    let mut given = vec![StepArgument::Input(0), StepArgument::Input(1), out];
    given.extend(sizes.map(|size| StepArgument::U32(size as u32)));
    given.extend([matrix(lhs.shared, m * k), matrix(rhs.shared, k * n), StepArgument::U64(m * n)]);
    given
}

/// The macros of a type and of settings.
fn macros(problem: &Matmul, settings: &[(&'static str, u32)]) -> CompilerMacros {
    let settings = settings.iter().map(|(name, value)| (*name, value.to_string()));
    of_number(problem.dtype).into_iter().chain(settings).collect()
}

/// Writes a launch whose blocks compute tiles of rows × columns.
fn write(
    problem: &Matmul,
    (source, entry): (&'static str, &'static str),
    settings: &[(&'static str, u32)],
    [rows, columns]: [u32; 2],
    block: [u32; 3],
    program: &mut Program,
) -> Result<(), LaunchError> {
    let Matmul { m, n, batch, .. } = *problem;
    let grid = [n.div_ceil(columns.into()), m.div_ceil(rows.into()), batch];
    program.push(source, entry, macros(problem, settings), grid, block, given(problem, StepArgument::Out))
}

/// The work of a kernel that walks over so many elements for each matrix.
fn work(problem: &Matmul, walked: u64, [rows, columns]: [u32; 2], threads: u32, rounds: u64) -> Work {
    let blocks = problem.batch * problem.m.div_ceil(rows.into()) * problem.n.div_ceil(columns.into());
    Work {
        flops: Flops(problem.flops()),
        bytes: Bytes(walked.saturating_mul(problem.batch).saturating_mul(problem.dtype.size())),
        launches: 1,
        threads: 1,
        lanes: 1,
        barriers: 2 * rounds * blocks,
        invocations: blocks * u64::from(threads),
        ..Work::default()
    }
}
