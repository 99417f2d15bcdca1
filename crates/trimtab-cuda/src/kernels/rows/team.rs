//! A team of threads a row: one, where neighbours are of other rows; a warp, without any barrier; or the whole block.

use super::declines;
use crate::kernels::of_number;
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Rows, RowsOp, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, and those of them that share a row.
    pub struct TeamConfig { width, team }
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Bytes of shared memory at most: a number for each warp of a block.
const SHARED_BYTES: u32 = 256;
/// Threads of a block whose threads or warps have rows of their own, and of one that shares a row, in the order they are tried.
const APART: [u32; 3] = [128, 256, 64];
const SHARED: [u32; 5] = [256, 128, 512, 64, 1024];
/// Elements of a row that are left to a warp before a block.
const SHORT: u64 = 16 * WARP as u64;

/// See the module.
#[derive(Debug)]
pub struct TeamKernel;

impl TeamConfig {
    /// Those for lines of so many elements, so far apart, in the order they are tried.
    pub(in crate::kernels) fn all(len: u64, inner: u64) -> Vec<TeamConfig> {
        let alone = APART.map(|width| TeamConfig { width, team: 1 });
        let warps = APART.map(|width| TeamConfig { width, team: WARP });
        let blocks = SHARED.map(|width| TeamConfig { width, team: width });
        // Neighbouring threads should read neighbouring elements.
        let order: [&[TeamConfig]; 3] = match len {
            _ if inner > 1 => [&alone, &blocks, &warps],
            len if len > SHORT => [&blocks, &warps, &alone],
            _ => [&warps, &blocks, &alone],
        };
        let mut all = order.concat();
        // Half of a team at least has something to do.
        all.retain(|config| u64::from(config.team) < 2 * len);
        all
    }

    pub(in crate::kernels) fn is_legal(self) -> bool {
        let known = (WARP..=1024).contains(&self.width) && self.width.is_multiple_of(WARP);
        known && [1, WARP, self.width].contains(&self.team)
    }

    /// Blocks of a launch.
    fn blocks(self, problem: &Rows) -> u64 {
        problem.outer.saturating_mul(problem.inner).div_ceil(u64::from(self.width / self.team.max(1)).max(1))
    }
}

impl Variant<Cuda> for TeamKernel {
    type Problem = Rows;
    type Config = TeamConfig;

    identity!("cuda.rows.team", Parallel);

    fn declines(&self, problem: &Rows, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Rows, device: &DeviceFacts) -> Vec<TeamConfig> {
        let mut all = TeamConfig::all(problem.len, problem.inner);
        all.retain(|config| {
            fits(device, config.width, SHARED_BYTES) && config.blocks(problem) <= MAX_GRID[0]
        });
        all
    }

    fn work(&self, problem: &Rows, config: TeamConfig, _: &DeviceFacts) -> Work {
        // How often elements are read.
        let passes = match problem.op {
            RowsOp::LogSumExp | RowsOp::Variance | RowsOp::RmsNorm => 2,
            RowsOp::Softmax | RowsOp::LogSoftmax | RowsOp::LayerNorm => 3,
        };
        let blocks = config.blocks(problem);
        let moved = passes * problem.input_len() + problem.out_len();
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(moved.saturating_mul(problem.dtype.size())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: blocks * u64::from(config.width),
            barriers: if config.team > WARP { 4 * blocks } else { 0 },
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Rows, config: TeamConfig, program: &mut Program) -> Result<(), LaunchError> {
        if !config.is_legal() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let TeamConfig { width, team } = config;
        let mut macros = of_number(problem.dtype);
        let op = match problem.op {
            RowsOp::Softmax => 0,
            RowsOp::LogSoftmax => 1,
            RowsOp::LogSumExp => 2,
            RowsOp::Variance => 3,
            RowsOp::LayerNorm => 4,
            RowsOp::RmsNorm => 5,
        };
        let flags = [problem.scaled, problem.shifted].map(u32::from);
        let settings =
            [("WIDTH", width), ("TEAM", team), ("OP", op), ("SCALED", flags[0]), ("SHIFTED", flags[1])];
        macros.extend(settings.map(|(name, value)| (name, value.to_string())));
        // Operands that are not there are never read: the first stands for them.
        let scale = u8::from(problem.scaled);
        let shift = if problem.shifted { scale + 1 } else { 0 };
        let epsilon = if problem.op.is_norm() { scale + u8::from(problem.shifted) + 1 } else { 0 };
        let mut given: Vec<StepArgument> = [0, scale, shift, epsilon].map(StepArgument::Input).to_vec();
        given.push(StepArgument::Out);
        let sizes = [problem.len, problem.inner, problem.outer.saturating_mul(problem.inner)];
        given.extend(sizes.map(|size| StepArgument::U32(size as u32)));
        let source = concat!(include_str!("../number.cu"), include_str!("team.cu"));
        program.push(source, "rows_team", macros, [config.blocks(problem), 1, 1], [width, 1, 1], given)
    }
}
