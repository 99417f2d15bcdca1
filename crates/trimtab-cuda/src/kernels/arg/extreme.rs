//! The smallest or largest of each line, by a team of threads: one, a warp, or the block.

use super::is_extreme;
use crate::kernels::rows::TeamConfig;
use crate::kernels::sort::network::{Sorted, keys, source};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Arg, Bytes, Decline, DeviceFacts, Flops, LaunchError, Variant, Work};

/// Bytes of shared memory at most: an entry for each warp of a block.
const SHARED_BYTES: u32 = 512;

/// See the module.
#[derive(Debug)]
pub struct ExtremeKernel;

fn lines(problem: &Arg) -> u64 {
    problem.outer.saturating_mul(problem.inner)
}

fn blocks(problem: &Arg, config: TeamConfig) -> u64 {
    lines(problem).div_ceil(u64::from(config.width / config.team.max(1)).max(1))
}

impl Variant<Cuda> for ExtremeKernel {
    type Problem = Arg;
    type Config = TeamConfig;

    identity!("cuda.arg.extreme", Parallel);

    fn declines(&self, problem: &Arg, device: &DeviceFacts) -> Option<Decline> {
        let order = || Decline::because("gives one index a line");
        (!is_extreme(problem)).then(order).or_else(|| Sorted::from(problem).declines(device))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<TeamConfig> {
        let mut all = TeamConfig::all(problem.len, problem.inner);
        all.retain(|config| {
            fits(device, config.width, SHARED_BYTES) && blocks(problem, *config) <= MAX_GRID[0]
        });
        all
    }

    fn work(&self, problem: &Arg, config: TeamConfig, _: &DeviceFacts) -> Work {
        let blocks = blocks(problem, config);
        let read = problem.input_len().saturating_mul(problem.dtype.size());
        Work {
            flops: Flops(problem.input_len().saturating_mul(4)),
            bytes: Bytes(read.saturating_add(8 * problem.out_len())),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: blocks.saturating_mul(config.width.into()),
            barriers: if config.team > 32 { blocks } else { 0 },
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Arg, config: TeamConfig, program: &mut Program) -> Result<(), LaunchError> {
        if !config.is_legal() || !is_extreme(problem) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let TeamConfig { width, team } = config;
        let mut macros = keys(&problem.into(), true);
        macros.extend([("WIDTH", width.to_string()), ("TEAM", team.to_string())]);
        let sizes = [lines(problem), problem.len, problem.inner].map(|size| StepArgument::U32(size as u32));
        let given = [StepArgument::Input(0), StepArgument::Out].into_iter().chain(sizes).collect();
        let grid = [blocks(problem, config), 1, 1];
        program.push(source(include_str!("extreme.cu")), "arg_extreme", macros, grid, [width, 1, 1], given)
    }
}
