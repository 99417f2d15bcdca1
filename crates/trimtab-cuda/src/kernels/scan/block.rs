//! A block a line: what its threads have is put together by shuffles, and the sum of a stretch goes on to the next.

use super::{LEAST_LEN, declines, lines, macros, source, work};
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, fits};
use trimtab_core::{Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, and neighbouring elements of a thread between barriers.
    pub struct BlockConfig { width, items }
}

/// Bytes of shared memory at most: what each warp of a block has.
const SHARED_BYTES: u32 = 512;

/// See the module.
#[derive(Debug)]
pub struct BlockKernel;

impl BlockConfig {
    /// Those a device can do, in the order they are tried.
    pub(super) fn all(device: &DeviceFacts) -> Vec<BlockConfig> {
        let all = [(256, 4), (128, 4), (256, 8), (512, 2), (64, 4)];
        let all = all.map(|(width, items)| BlockConfig { width, items });
        all.into_iter().filter(|config| fits(device, config.width, SHARED_BYTES)).collect()
    }

    /// Elements between barriers.
    pub(super) fn stretch(self) -> u64 {
        u64::from(self.width) * u64::from(self.items)
    }

    /// Adds a launch of so many parts of each line, of so many elements.
    pub(super) fn push(
        self,
        problem: &Scan,
        (part, states): (u32, StepArgument),
        [parts, part_len]: [u64; 2],
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let BlockConfig { width, items } = self;
        if !(32..=1024).contains(&width) || !width.is_multiple_of(32) || !(1..=16).contains(&items) {
            return Err(LaunchError::Point(format!("{self:?}")));
        }
        let macros = macros(problem, &[("WIDTH", width), ("ITEMS", items), ("PART", part)]);
        let mut given = vec![StepArgument::Input(0), StepArgument::Out, states];
        let sizes = [problem.len, problem.inner, parts, part_len];
        given.extend(sizes.map(|size| StepArgument::U32(size as u32)));
        let grid = [lines(problem).saturating_mul(parts), 1, 1];
        program.push(source(include_str!("block.cu")), "scan_block", macros, grid, [width, 1, 1], given)
    }
}

/// Why blocks do not share lines.
pub(super) fn declines_short(problem: &Scan) -> Option<Decline> {
    let len = problem.len;
    (len < LEAST_LEN)
        .then(|| Decline::from(format!("shares lines of {LEAST_LEN} elements or more, not {len}")))
}

impl Variant<Cuda> for BlockKernel {
    type Problem = Scan;
    type Config = BlockConfig;

    identity!("cuda.scan.block", Parallel);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        let many = lines(problem) > MAX_GRID[0];
        declines(problem, device)
            .or_else(|| declines_short(problem))
            .or_else(|| many.then_some(Decline::because("more lines than blocks")))
    }

    fn configs(&self, _: &Scan, device: &DeviceFacts) -> Vec<BlockConfig> {
        BlockConfig::all(device)
    }

    fn work(&self, problem: &Scan, config: BlockConfig, _: &DeviceFacts) -> Work {
        let stretches = problem.len.div_ceil(config.stretch().max(1)).saturating_mul(lines(problem));
        let invocations = lines(problem).saturating_mul(config.width.into());
        Work { invocations, barriers: stretches.saturating_mul(2), ..work(problem, 1) }
    }

    fn launch(&self, problem: &Scan, config: BlockConfig, program: &mut Program) -> Result<(), LaunchError> {
        // There are no states between blocks: nothing is read there.
        config.push(problem, (0, StepArgument::Out), [1, problem.len], program)
    }
}
