//! Long sums for small products: blocks share out the inner axis, too, and a second launch adds up what they leave.

use super::blocked::{BlockedConfig, SOURCE};
use super::{declines, given, macros, product_source, work};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, MAX_GRID, Program, StepArgument};
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// As of the blocked kernel, and parts of the inner axis.
    pub struct SplitConfig { bm, bn, bk, tm, tn, parts }
}

/// Shorter sums are not worth a second launch.
const LEAST_DEPTH: u64 = 128;
/// The least inner steps of a part.
const LEAST_PART: u64 = 32;
/// Blocks of the product with which a multiprocessor has enough to do without splitting.
const MOST_BLOCKS: u64 = 4;
/// Threads of a block that adds up.
const WIDTH: u32 = 128;

/// Tiles and parts, in the order they are tried.
const TILES: [[u32; 5]; 3] = [[64, 64, 16, 4, 4], [32, 32, 16, 2, 2], [64, 64, 8, 8, 8]];
const PARTS: [u32; 4] = [4, 8, 16, 2];

/// See the module.
#[derive(Debug)]
pub struct SplitKernel;

impl SplitConfig {
    fn tile(self) -> BlockedConfig {
        let SplitConfig { bm, bn, bk, tm, tn, .. } = self;
        BlockedConfig { bm, bn, bk, tm, tn }
    }

    /// Inner steps of a part: whole tiles.
    fn part_len(self, problem: &Matmul) -> u64 {
        problem.k.div_ceil(self.parts.max(1).into()).next_multiple_of(self.bk.max(1).into())
    }
}

/// Bytes of the sums of all parts.
fn scratch(problem: &Matmul, config: SplitConfig) -> u64 {
    let sums = problem.batch.saturating_mul(problem.m).saturating_mul(problem.n);
    sums.saturating_mul(config.parts.into()).saturating_mul(computed_bytes(problem.dtype))
}

impl Variant<Cuda> for SplitKernel {
    type Problem = Matmul;
    type Config = SplitConfig;

    identity!("cuda.matmul.split", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        if let Some(decline) = declines(problem, device) {
            return Some(decline);
        }
        if problem.k < LEAST_DEPTH {
            return Some(Decline::from(format!("takes sums of {LEAST_DEPTH} and more, not {}", problem.k)));
        }
        let full = device.cores.map(|cores| MOST_BLOCKS * u64::from(cores));
        let blocks = problem.m.div_ceil(64).saturating_mul(problem.n.div_ceil(64));
        if full.is_some_and(|full| blocks.saturating_mul(problem.batch) > full) {
            return Some(Decline::because("the product alone keeps the device busy"));
        }
        let none = self.configs(problem, device).is_empty();
        none.then_some(Decline::because("no grid holds the parts"))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<SplitConfig> {
        let all = TILES
            .into_iter()
            .flat_map(|[bm, bn, bk, tm, tn]| PARTS.map(|parts| SplitConfig { bm, bn, bk, tm, tn, parts }));
        let legal = |config: &SplitConfig| {
            config.tile().is_legal(problem, device)
                && u64::from(config.parts) * LEAST_PART <= problem.k
                && problem.batch * u64::from(config.parts) <= MAX_GRID[2]
                && device.memory.is_none_or(|memory| scratch(problem, *config) <= memory.0 / 4)
        };
        all.filter(legal).collect()
    }

    fn work(&self, problem: &Matmul, config: SplitConfig, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, tile) = (*problem, config.tile());
        let [rows, columns] = [tile.bm.max(1), tile.bn.max(1)];
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        let rounds = k.div_ceil(config.bk.max(1).into());
        let mut work = work(problem, walked, [rows, columns], tile.threads(), rounds);
        let scratch = scratch(problem, config);
        // Every sum of a part is written and read.
        work.bytes = Bytes(work.bytes.0.saturating_add(2 * scratch));
        work.scratch = Bytes(scratch);
        work.launches = 2;
        work.invocations = work.invocations.saturating_mul(config.parts.into());
        work
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: SplitConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (tile, parts, part_len) = (config.tile(), config.parts, config.part_len(problem));
        // A part that begins behind the end leaves zeros.
        if !(2..=256).contains(&parts) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        program.scratch = scratch(problem, config);
        let Matmul { m, n, batch, .. } = *problem;
        let mut takes = given(problem, StepArgument::Scratch);
        takes.extend([parts, part_len as u32].map(StepArgument::U32));
        let grid =
            [n.div_ceil(tile.bn.into()), m.div_ceil(tile.bm.into()), batch.saturating_mul(parts.into())];
        let block = [tile.threads(), 1, 1];
        program.push(SOURCE.0, SOURCE.1, macros(problem, &tile.settings(true)?), grid, block, takes)?;
        let results = batch * m * n;
        let takes = vec![
            StepArgument::Scratch,
            StepArgument::Out,
            StepArgument::U32(m as u32),
            StepArgument::U32(n as u32),
            StepArgument::U32(parts),
            StepArgument::U64(results),
        ];
        let grid = [results.div_ceil(WIDTH.into()), 1, 1];
        let settings = macros(problem, &[("WIDTH", WIDTH)]);
        program.push(product_source!("parts.cu"), "matmul_parts", settings, grid, [WIDTH, 1, 1], takes)
    }
}
