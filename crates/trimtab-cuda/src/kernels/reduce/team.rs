//! A team of threads a result: what the other kernels do not do, products and whole numbers.

use super::work;
use crate::kernels::rows::TeamConfig;
use crate::kernels::{NUMBERS, impossible, not_float_or_i32, of_any_number};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, adapter, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Reduce, ReduceOp, Variant, Work};

/// Bytes of shared memory at most: what each warp of a block has.
const SHARED_BYTES: u32 = 512;

/// See the module.
#[derive(Debug)]
pub struct ReduceTeam;

fn blocks(problem: &Reduce, config: TeamConfig) -> u64 {
    problem.out_len().div_ceil(u64::from(config.width / config.team.max(1)).max(1))
}

/// The operation's number in the source, where it is one of ours.
fn number(problem: &Reduce) -> Option<u32> {
    match (problem.op, problem.dtype) {
        (ReduceOp::Prod, _) => Some(4),
        (ReduceOp::Sum, DType::I32) => Some(0),
        (ReduceOp::Min, DType::I32) => Some(2),
        (ReduceOp::Max, DType::I32) => Some(3),
        _ => None,
    }
}

impl Variant<Cuda> for ReduceTeam {
    type Problem = Reduce;
    type Config = TeamConfig;

    identity!("cuda.reduce.team", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let other = || Decline::because("does products, and sums and extremes of i32");
        let gpu = || Decline::because("not a GPU");
        adapter(device)
            .is_none()
            .then(gpu)
            .or_else(|| not_float_or_i32(problem.dtype))
            .or_else(|| number(problem).is_none().then(other))
            .or_else(|| impossible([problem.input_len(), problem.out_len()]))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<TeamConfig> {
        let mut all = TeamConfig::all(problem.len, problem.inner);
        all.retain(|config| {
            fits(device, config.width, SHARED_BYTES) && blocks(problem, *config) <= MAX_GRID[0]
        });
        all
    }

    fn work(&self, problem: &Reduce, config: TeamConfig, _: &DeviceFacts) -> Work {
        let blocks = blocks(problem, config);
        work(problem, blocks * u64::from(config.width), if config.team > 32 { blocks } else { 0 })
    }

    fn launch(&self, problem: &Reduce, config: TeamConfig, program: &mut Program) -> Result<(), LaunchError> {
        let (true, Some(op)) = (config.is_legal(), number(problem)) else {
            return Err(LaunchError::Point(format!("{config:?}")));
        };
        let TeamConfig { width, team } = config;
        let mut macros = of_any_number(problem.dtype);
        let settings = [("OP", op), ("WIDTH", width), ("TEAM", team)];
        macros.extend(settings.map(|(name, value)| (name, value.to_string())));
        let sizes =
            [problem.len, problem.inner, problem.out_len()].map(|size| StepArgument::U32(size as u32));
        let given =
            [StepArgument::Input(0), StepArgument::Out, StepArgument::Status].into_iter().chain(sizes);
        let (grid, source) = ([blocks(problem, config), 1, 1], [NUMBERS, include_str!("team.cu")].concat());
        program.push(source, "reduce_team", macros, grid, [width, 1, 1], given.collect())
    }
}
