//! What sorting is, of elements or of their indices: lines, keys, and a bitonic network over them. Tiles are sorted in shared memory; where a tile
//! does not hold a line, pairs that lie further apart are compared in memory between tiles.

use crate::kernels::{CompilerMacros, NUMBERS, impossible, not_float_or_i32, of_any_number};
use crate::program::{Program, StepArgument, adapter, fits};
use trimtab_core::{Arg, ArgOp, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Sort, Work};

trimtab_core::config! {
    /// Threads of a block, and elements of each in a tile: powers of two.
    pub struct BitonicConfig { width, items }
}

/// Threads of a block that compares pairs between tiles.
const BETWEEN: u32 = 256;
/// Elements of all lines, filled up, that are counted in 32 bits: the length of the last run is doubled once more.
const MOST_FILLED: u64 = 1 << 30;

/// Lines that are sorted, and how many of each are kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Sorted {
    dtype: DType,
    outer: u64,
    len: u64,
    inner: u64,
    descending: bool,
    indices: bool,
    count: u64,
}

impl From<&Sort> for Sorted {
    fn from(problem: &Sort) -> Sorted {
        let Sort { dtype, outer, len, inner, descending } = *problem;
        Sorted { dtype, outer, len, inner, descending, indices: false, count: len }
    }
}

impl From<&Arg> for Sorted {
    fn from(problem: &Arg) -> Sorted {
        let Arg { op, dtype, descending, outer, len, inner, count } = *problem;
        let descending = descending || matches!(op, ArgOp::Top | ArgOp::Max);
        Sorted { dtype, outer, len, inner, descending, indices: true, count }
    }
}

/// The macros of keys: see `keys.cu`.
pub(in crate::kernels) fn keys(sorted: &Sorted, none_first: bool) -> CompilerMacros {
    let mut macros = of_any_number(sorted.dtype);
    let flags = [("DESCENDING", sorted.descending), ("INDEXED", sorted.indices), ("NONE_FIRST", none_first)];
    macros.extend(flags.map(|(name, is)| (name, u32::from(is).to_string())));
    macros
}

/// A source behind keys.
pub(in crate::kernels) fn source(own: &str) -> String {
    [NUMBERS, include_str!("keys.cu"), own].concat()
}

/// One launch: a tile that is sorted or merged, or pairs between tiles.
#[derive(Clone, Copy, Debug)]
enum Pass {
    /// From pairs up to runs of so many.
    Sorted(u64),
    /// Into runs of so many.
    Merged(u64),
    /// Compared at a distance, on the way to runs of so many.
    Between { run: u64, apart: u64 },
}

impl Sorted {
    fn lines(&self) -> u64 {
        self.outer.saturating_mul(self.inner)
    }

    /// Elements of a line filled up.
    fn filled(&self) -> u64 {
        self.len.next_power_of_two().max(2)
    }

    fn all_filled(&self) -> u64 {
        self.lines().saturating_mul(self.filled())
    }

    fn entry_bytes(&self) -> u64 {
        let key = if self.dtype == DType::F64 { 8 } else { 4 };
        if self.indices { 2 * key } else { key }
    }

    /// Why no line is sorted.
    pub(in crate::kernels) fn declines(&self, device: &DeviceFacts) -> Option<Decline> {
        if adapter(device).is_none() {
            return Some(Decline::because("not a GPU"));
        }
        let kept = self.lines().saturating_mul(self.count);
        let large = self.all_filled() > MOST_FILLED;
        let reason = || Decline::from(format!("{} elements, filled up, are too many", self.all_filled()));
        not_float_or_i32(self.dtype)
            .or_else(|| impossible([self.lines().saturating_mul(self.len), kept]))
            .or_else(|| large.then(reason))
    }
}

impl BitonicConfig {
    pub(in crate::kernels) fn all(sorted: &Sorted, device: &DeviceFacts) -> Vec<BitonicConfig> {
        let all = [(256, 4), (128, 4), (256, 2), (512, 4), (128, 2)];
        let all = all.map(|(width, items)| BitonicConfig { width, items });
        let legal = |config: &BitonicConfig| {
            fits(device, config.width, (config.tile() * sorted.entry_bytes()) as u32)
        };
        let mut all: Vec<BitonicConfig> = all.into_iter().filter(legal).collect();
        // Half of a larger tile would have nothing to do.
        let needed = sorted.all_filled();
        let least = all.iter().map(|config| config.tile()).min().unwrap_or(0);
        all.retain(|config| config.tile() / 2 < needed || config.tile() == least);
        all
    }

    fn tile(self) -> u64 {
        u64::from(self.width) * u64::from(self.items)
    }

    /// Everything that is done, in order.
    fn passes(self, sorted: &Sorted) -> Vec<Pass> {
        let (tile, filled) = (self.tile(), sorted.filled());
        let mut passes = vec![Pass::Sorted(tile.min(filled))];
        let mut run = 2 * tile;
        while run <= filled {
            let mut apart = run / 2;
            while apart >= tile {
                passes.push(Pass::Between { run, apart });
                apart /= 2;
            }
            passes.push(Pass::Merged(run));
            run *= 2;
        }
        passes
    }

    /// Bytes between passes: none where one is enough.
    fn scratch(self, sorted: &Sorted) -> u64 {
        let entries = sorted.all_filled().next_multiple_of(self.tile().max(1));
        if self.passes(sorted).len() > 1 { entries.saturating_mul(sorted.entry_bytes()) } else { 0 }
    }

    pub(in crate::kernels) fn work(self, sorted: &Sorted) -> Work {
        let passes = self.passes(sorted);
        let filled = sorted.all_filled();
        let doublings = u64::from(sorted.filled().max(2).ilog2());
        let moved = 2 * (passes.len() as u64 - 1) * filled.saturating_mul(sorted.entry_bytes());
        let result = if sorted.indices { 8 } else { sorted.dtype.size() };
        let whole = sorted.lines().saturating_mul(sorted.len * sorted.dtype.size() + sorted.count * result);
        let tiles = filled.div_ceil(self.tile().max(1));
        Work {
            flops: Flops(filled.saturating_mul(doublings * (doublings + 1) / 2 * 2)),
            bytes: Bytes(whole.saturating_add(moved)),
            scratch: Bytes(self.scratch(sorted)),
            launches: passes.len() as u32,
            threads: 1,
            lanes: 1,
            invocations: tiles * u64::from(self.width),
            barriers: tiles.saturating_mul(doublings * (doublings + 1) / 2),
            ..Work::default()
        }
    }

    pub(in crate::kernels) fn launch(
        self,
        sorted: &Sorted,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let BitonicConfig { width, items } = self;
        let sound = |size: u32, most: u32| (1..=most).contains(&size) && size.is_power_of_two();
        if !sound(width, 1024) || !sound(items, 8) || self.tile() < 2 {
            return Err(LaunchError::Point(format!("{self:?}")));
        }
        let passes = self.passes(sorted);
        program.scratch = self.scratch(sorted);
        let (tile, last) = (self.tile(), passes.len() - 1);
        let word = |size: u64| StepArgument::U32(size as u32);
        // What is not used is never read: the result stands for it.
        let entries = if last > 0 { StepArgument::Scratch } else { StepArgument::Out };
        for (nth, pass) in passes.into_iter().enumerate() {
            let mut macros = keys(sorted, false);
            let runs = match pass {
                Pass::Sorted(run) => [2, run],
                Pass::Merged(run) => [run, run],
                Pass::Between { run, apart } => {
                    let pairs = sorted.all_filled() / 2;
                    macros.push(("WIDTH", BETWEEN.to_string()));
                    let sizes = [pairs, sorted.filled(), run, apart].map(word);
                    let given = [entries].into_iter().chain(sizes).collect();
                    let grid = [pairs.div_ceil(BETWEEN.into()), 1, 1];
                    let text = source(include_str!("between.cu"));
                    program.push(text, "sort_between", macros, grid, [BETWEEN, 1, 1], given)?;
                    continue;
                }
            };
            let flags = [("FIRST", nth == 0), ("FINAL", nth == last)];
            macros.extend([("WIDTH", width.to_string()), ("TILE", tile.to_string())]);
            macros.extend(flags.map(|(name, is)| (name, u32::from(is).to_string())));
            let sizes = [sorted.lines(), sorted.len, sorted.inner, sorted.count, sorted.filled()];
            let sizes = sizes.into_iter().chain(runs).map(word);
            let given = [StepArgument::Input(0), StepArgument::Out, entries].into_iter().chain(sizes);
            let grid = [sorted.all_filled().div_ceil(tile), 1, 1];
            let text = source(include_str!("tile.cu"));
            program.push(text, "sort_tile", macros, grid, [width, 1, 1], given.collect())?;
        }
        Ok(())
    }
}
