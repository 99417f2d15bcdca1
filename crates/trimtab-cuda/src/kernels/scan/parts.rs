//! Blocks share out a line: what each part adds up to, what the parts before each add up to, then the elements.

use super::block::{BlockConfig, declines_short};
use super::{declines, lines, macros, source, state_bytes, work};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument};
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, neighbouring elements of a thread between barriers, and parts of a line at most.
    pub struct PartsConfig { width, items, parts }
}

/// Threads of a block of the launch between.
const BETWEEN: u32 = 64;
/// Lines that are fewer than this do not keep a device busy by themselves.
const FEW_LINES: u64 = 256;
/// Elements of a line that is worth sharing between blocks.
const LEAST: u64 = 2048;

/// See the module.
#[derive(Debug)]
pub struct PartsKernel;

impl PartsConfig {
    fn block(self) -> BlockConfig {
        BlockConfig { width: self.width, items: self.items }
    }

    /// Parts of a line, and elements of each: whole stretches.
    fn parts(self, problem: &Scan) -> [u64; 2] {
        let stretch = self.block().stretch().max(1);
        let part_len = problem.len.div_ceil(self.parts.max(1).into()).next_multiple_of(stretch);
        [problem.len.div_ceil(part_len), part_len]
    }

    fn scratch(self, problem: &Scan) -> u64 {
        let states = lines(problem).saturating_mul(self.parts(problem)[0]);
        states.saturating_mul(state_bytes(problem))
    }
}

impl Variant<Cuda> for PartsKernel {
    type Problem = Scan;
    type Config = PartsConfig;

    identity!("cuda.scan.parts", Parallel);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        let few = problem.len >= LEAST && lines(problem) <= FEW_LINES;
        let reason = "takes few lines of many elements";
        declines(problem, device)
            .or_else(|| declines_short(problem))
            .or_else(|| (!few).then_some(Decline::because(reason)))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<PartsConfig> {
        let blocks = BlockConfig::all(device).into_iter();
        let all = blocks.flat_map(|BlockConfig { width, items }| {
            [64, 256].map(|parts| PartsConfig { width, items, parts })
        });
        all.filter(|config| {
            let [parts, _] = config.parts(problem);
            parts > 1 && lines(problem).saturating_mul(parts) <= MAX_GRID[0]
        })
        .collect()
    }

    fn work(&self, problem: &Scan, config: PartsConfig, _: &DeviceFacts) -> Work {
        let blocks = lines(problem).saturating_mul(config.parts(problem)[0]);
        let mut work = work(problem, 2);
        let scratch = config.scratch(problem);
        work.bytes = Bytes(work.bytes.0.saturating_add(3 * scratch));
        work.scratch = Bytes(scratch);
        work.launches = 3;
        work.invocations = blocks.saturating_mul(config.width.into());
        work.barriers = problem.len().div_ceil(config.block().stretch().max(1)).saturating_mul(4);
        work
    }

    fn launch(&self, problem: &Scan, config: PartsConfig, program: &mut Program) -> Result<(), LaunchError> {
        if config.parts == 0 || config.block().stretch() == 0 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let parts = config.parts(problem);
        program.scratch = config.scratch(problem);
        config.block().push(problem, (1, StepArgument::Scratch), parts, program)?;
        let sizes = [lines(problem), parts[0]].map(|size| StepArgument::U32(size as u32));
        let given = [StepArgument::Scratch].into_iter().chain(sizes).collect();
        let (grid, macros) =
            ([lines(problem).div_ceil(BETWEEN.into()), 1, 1], macros(problem, &[("WIDTH", BETWEEN)]));
        let between = source(include_str!("between.cu"));
        program.push(between, "scan_between", macros, grid, [BETWEEN, 1, 1], given)?;
        config.block().push(problem, (2, StepArgument::Scratch), parts, program)
    }
}
