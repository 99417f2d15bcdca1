//! Few results of many elements: blocks fold parts, and a second launch folds what they leave.

use super::{declines, macros, work};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, and parts of a result.
    pub struct TwoPassConfig { width, parts }
}

/// Fewer elements are folded by one block as fast.
const LEAST_LEN: u64 = 2048;
/// More results keep the device busy by themselves.
const MOST_RESULTS: u64 = 256;
/// Threads of a block of the second launch.
const ENDS_WIDTH: u32 = 128;

/// See the module.
#[derive(Debug)]
pub struct TwoPassKernel;

/// Elements of a part, and how many parts that makes.
fn parts(problem: &Reduce, config: TwoPassConfig) -> [u64; 2] {
    let part_len = problem.len.div_ceil(config.parts.max(1).into()).max(1);
    [part_len, problem.len.div_ceil(part_len)]
}

fn scratch(problem: &Reduce, config: TwoPassConfig) -> u64 {
    problem.out_len().saturating_mul(parts(problem, config)[1]).saturating_mul(computed_bytes(problem.dtype))
}

impl Variant<Cuda> for TwoPassKernel {
    type Problem = Reduce;
    type Config = TwoPassConfig;

    identity!("cuda.reduce.twopass", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let few = problem.len < LEAST_LEN || problem.out_len() > MOST_RESULTS;
        let reason = "takes few results of many elements";
        declines(problem, device).or_else(|| few.then_some(Decline::because(reason)))
    }

    fn configs(&self, _: &Reduce, device: &DeviceFacts) -> Vec<TwoPassConfig> {
        let all = [256, 512, 128].into_iter();
        let all = all.flat_map(|width| [64, 256, 16].map(|parts| TwoPassConfig { width, parts }));
        all.filter(|config| fits(device, config.width, 256)).collect()
    }

    fn work(&self, problem: &Reduce, config: TwoPassConfig, _: &DeviceFacts) -> Work {
        let (scratch, [_, parts]) = (scratch(problem, config), parts(problem, config));
        let blocks = problem.out_len().saturating_mul(parts);
        let mut work = work(problem, blocks.saturating_mul(config.width.into()), blocks);
        work.bytes = Bytes(work.bytes.0.saturating_add(2 * scratch));
        work.scratch = Bytes(scratch);
        work.launches = 2;
        work
    }

    fn launch(
        &self,
        problem: &Reduce,
        config: TwoPassConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let TwoPassConfig { width, parts: count } = config;
        let whole = (32..=1024).contains(&width) && width.is_multiple_of(32);
        if !whole || !(1..=1024).contains(&count) || problem.out_len() > MAX_GRID[1] {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let [part_len, parts] = parts(problem, config);
        program.scratch = scratch(problem, config);
        let sizes = [problem.len, problem.inner, part_len].map(|size| StepArgument::U32(size as u32));
        let given = [StepArgument::Input(0), StepArgument::Scratch].into_iter().chain(sizes).collect();
        let source = concat!(include_str!("../number.cu"), include_str!("fold.cu"), include_str!("parts.cu"));
        let (grid, block) = ([parts, problem.out_len(), 1], [width, 1, 1]);
        program.push(source, "reduce_parts", macros(problem, width), grid, block, given)?;
        let sizes = [parts, problem.len].map(|size| StepArgument::U32(size as u32));
        let given = [StepArgument::Scratch, StepArgument::Out].into_iter().chain(sizes).collect();
        let source = concat!(include_str!("../number.cu"), include_str!("fold.cu"), include_str!("ends.cu"));
        let (grid, block) = ([problem.out_len(), 1, 1], [ENDS_WIDTH, 1, 1]);
        program.push(source, "reduce_ends", macros(problem, ENDS_WIDTH), grid, block, given)
    }
}
