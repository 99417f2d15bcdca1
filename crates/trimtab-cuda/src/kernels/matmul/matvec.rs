//! Products with a vector, or with a few: the matrix is read once, and threads share out the inner axis of each result.

use super::{declines, given, macros, product_source, work};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, Program, StepArgument, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Results of a block side by side, and threads that share the inner axis of each.
    pub struct MatvecConfig { width, split }
}

/// The most vectors; with more the blocked kernels read the matrix no oftener.
const MAX_VECTORS: u64 = 8;

/// In the order they are tried: threads of a result are lanes of a warp, or neighbours walk down neighbouring columns.
const ALONG: [[u32; 2]; 6] = [[8, 32], [4, 32], [16, 16], [2, 128], [32, 8], [1, 256]];
const ACROSS: [[u32; 2]; 6] = [[32, 8], [32, 16], [64, 4], [128, 1], [128, 2], [32, 32]];

/// See the module.
#[derive(Debug)]
pub struct MatvecKernel;

/// Which operand is the matrix, and how it lies.
#[derive(Clone, Copy)]
struct MatrixSide {
    of_right: bool,
    /// Its neighbours in memory are neighbours along the inner axis.
    along: bool,
    count: u64,
    results: u64,
}

impl MatrixSide {
    fn of(problem: &Matmul) -> MatrixSide {
        let of_right = problem.m <= problem.n;
        let along = if of_right { problem.rhs.transposed } else { !problem.lhs.transposed };
        let (count, results) = (problem.m.min(problem.n), problem.m.max(problem.n));
        MatrixSide { of_right, along, count, results }
    }

    /// Lanes of a warp need no shared memory.
    fn shared_bytes(self, dtype: DType, MatvecConfig { width, split }: MatvecConfig) -> u32 {
        let by_lanes = self.along && split <= 32 || split == 1;
        if by_lanes { 0 } else { self.count as u32 * width * split * computed_bytes(dtype) as u32 }
    }
}

impl Variant<Cuda> for MatvecKernel {
    type Problem = Matmul;
    type Config = MatvecConfig;

    identity!("cuda.matmul.matvec", Vectorized);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        let count = MatrixSide::of(problem).count;
        let many = || Decline::from(format!("takes up to {MAX_VECTORS} rows or columns, this has {count}"));
        declines(problem, device).or_else(|| (count > MAX_VECTORS).then(many))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<MatvecConfig> {
        let side = MatrixSide::of(problem);
        let all = if side.along { ALONG } else { ACROSS };
        let all = all.into_iter().map(|[width, split]| MatvecConfig { width, split });
        all.filter(|config| {
            fits(device, config.width * config.split, side.shared_bytes(problem.dtype, *config))
        })
        .collect()
    }

    fn work(&self, problem: &Matmul, config: MatvecConfig, _: &DeviceFacts) -> Work {
        let MatrixSide { count, results, .. } = MatrixSide::of(problem);
        // The matrix once; the vectors anew for every block.
        let blocks = results.div_ceil(config.width.max(1).into());
        let walked = results * problem.k + blocks * count * problem.k + results * count;
        let tile =
            if problem.m <= problem.n { [count as u32, config.width] } else { [config.width, count as u32] };
        work(problem, walked, tile.map(|side| side.max(1)), config.width * config.split, 1)
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: MatvecConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (side, MatvecConfig { width, split }) = (MatrixSide::of(problem), config);
        let threads = width.saturating_mul(split);
        let whole = split.is_power_of_two() && threads.is_multiple_of(32) && (32..=1024).contains(&threads);
        if !whole || side.count > MAX_VECTORS {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let settings = [
            ("COUNT", side.count as u32),
            ("WIDTH", width),
            ("SPLIT", split),
            ("ALONG", side.along.into()),
            ("OF_RIGHT", side.of_right.into()),
        ];
        let grid = [side.results.div_ceil(width.into()), 1, problem.batch];
        program.push(
            product_source!("matvec.cu"),
            "matmul_matvec",
            macros(problem, &settings),
            grid,
            [threads, 1, 1],
            given(problem, StepArgument::Out),
        )
    }
}
