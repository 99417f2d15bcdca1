//! What sorting is, of elements or of their indices: lines, keys, and two ways to sort them. Bitonic: tiles in workgroup memory, and passes over
//! all of a line between them where a tile does not hold it; lines are filled up to a power of two with what comes last. Insertion: one
//! invocation a short line, in memory of its own.

use super::keys::Keys;
use crate::kernels::lines::{Lines, alone, fits, workgroups};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Launched, MAX_STEPS, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Arg, ArgOp, Bytes, Decline, DeviceFacts, Flops, LaunchError, Sort, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements of each in a tile: powers of two.
    pub struct BitonicConfig { workgroup, items }
}

trimtab_core::config! {
    /// Invocations of a workgroup.
    pub struct InsertionConfig { workgroup }
}

/// Invocations of a workgroup of a pass between tiles.
const BETWEEN: u32 = 64;
/// Most elements of a line that is sorted by insertion: an invocation keeps them all, and looks at half of them for each.
const MOST: u64 = 64;

/// Lines that are sorted, and how many of each are kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Sorted {
    lines: Lines,
    keys: Keys,
    count: u64,
}

impl From<&Sort> for Sorted {
    fn from(problem: &Sort) -> Sorted {
        let Sort { dtype, outer, len, inner, descending } = *problem;
        let keys = Keys { dtype, descending, indices: false };
        Sorted { lines: Lines { dtype, outer, len, inner }, keys, count: len }
    }
}

impl From<&Arg> for Sorted {
    fn from(problem: &Arg) -> Sorted {
        let Arg { op, dtype, descending, outer, len, inner, count } = *problem;
        let keys = Keys { dtype, descending: descending || op == ArgOp::Top, indices: true };
        Sorted { lines: Lines { dtype, outer, len, inner }, keys, count }
    }
}

/// One dispatch: a tile that is sorted or merged, or a pass between tiles.
#[derive(Clone, Copy, Debug)]
enum Pass {
    /// Sorted from pairs up to so many elements.
    Sorted(u64),
    /// Merged into runs of so many.
    Merged(u64),
    /// Compared at a distance, on the way to runs of so many.
    Between { run: u64, apart: u64 },
}

impl Sorted {
    /// Elements of a line filled up.
    fn filled(&self) -> u64 {
        self.lines.len.next_power_of_two().max(2)
    }

    /// Elements of all lines filled up.
    fn all_filled(&self) -> u64 {
        self.lines.count().saturating_mul(self.filled())
    }

    /// Bytes of the operand and the result, each once.
    fn moved(&self) -> u64 {
        let kept = self.lines.count().saturating_mul(self.count);
        let of_result = if self.keys.indices { 8 } else { self.lines.dtype.size() };
        let read = self.lines.elements().saturating_mul(self.lines.dtype.size());
        read.saturating_add(kept.saturating_mul(of_result))
    }

    /// What the adapter told, or why no kernel takes the lines there.
    fn admits<'a>(&self, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
        let adapter = self.lines.admits(self.keys.needs(), device)?;
        let limit = adapter.max_binding.0.min(adapter.max_buffer.0);
        let bytes = self.lines.count().saturating_mul(self.count).saturating_mul(8);
        let decline = || Decline::from(format!("takes bindings up to {limit} bytes, the result has {bytes}"));
        if self.keys.indices && bytes > limit {
            return Err(decline());
        }
        match self.count {
            0 => Err(Decline::because("no indices are asked for")),
            _ => Ok(adapter),
        }
    }

    /// Why bitonic sorting does not take the lines.
    pub(in crate::kernels) fn declines_bitonic(&self, device: &DeviceFacts) -> Option<Decline> {
        let (len, filled) = (self.lines.len, self.filled());
        let large = || {
            Decline::from(format!(
                "no way to sort lines of {len} elements, filled up to {filled}, fits the adapter"
            ))
        };
        let declined = self.admits(device).err();
        declined.or_else(|| BitonicConfig::all(self, device).is_empty().then(large))
    }

    /// Why insertion does not take them.
    pub(in crate::kernels) fn declines_insertion(&self, device: &DeviceFacts) -> Option<Decline> {
        let len = self.lines.len;
        let long = || Decline::from(format!("an invocation keeps up to {MOST} elements, lines have {len}"));
        let declined = self.admits(device).err();
        declined.or_else(|| InsertionConfig::all(self, device).is_empty().then(long))
    }
}

impl BitonicConfig {
    fn tile(self) -> u64 {
        u64::from(self.workgroup) * u64::from(self.items)
    }

    fn tiles(self, sorted: &Sorted) -> u64 {
        sorted.all_filled().div_ceil(self.tile().max(1))
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

    fn is_legal(self, sorted: &Sorted, adapter: &AdapterFacts) -> bool {
        let entry = sorted.keys.entry_bytes();
        let binding = adapter.max_binding.0.min(adapter.max_buffer.0);
        let (all, scratch) = (sorted.all_filled(), sorted.all_filled().saturating_mul(entry));
        self.workgroup.is_power_of_two()
            && self.items.is_power_of_two()
            && self.items > 1
            && all <= 1 << 31
            && fits(self.workgroup, self.tile().saturating_mul(entry), self.tiles(sorted), adapter)
            && (self.tile() >= sorted.filled()
                || (scratch <= binding
                    && self.passes(sorted).len() <= MAX_STEPS
                    && fits(BETWEEN, 0, all.div_ceil(2 * u64::from(BETWEEN)), adapter)))
    }

    /// Those worth trying.
    pub(in crate::kernels) fn all(sorted: &Sorted, device: &DeviceFacts) -> Vec<BitonicConfig> {
        let Ok(adapter) = sorted.admits(device) else { return Vec::new() };
        let mut configs = Vec::new();
        for workgroup in workgroups(adapter) {
            for items in [8, 2, 32, 128] {
                let config = BitonicConfig { workgroup, items };
                // A tile of several lines waits for all of them: only the smallest, and what 256 elements are.
                let several = config.tile() > sorted.filled().max(256);
                let is_smallest = workgroup == 32 && items == 2;
                if (!several || is_smallest) && config.is_legal(sorted, adapter) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    pub(in crate::kernels) fn work(self, sorted: &Sorted) -> Work {
        let (passes, all) = (self.passes(sorted), sorted.all_filled());
        let log = |len: u64| u64::from(len.max(2).ilog2());
        let in_tile = self.tile().min(sorted.filled());
        let merged = passes.iter().filter(|pass| matches!(pass, Pass::Merged(_))).count() as u64;
        let between = passes.len() as u64 - merged - 1;
        let rounds = log(in_tile) * (log(in_tile) + 1) / 2 + merged * log(self.tile());
        let entry = sorted.keys.entry_bytes();
        let further = all.saturating_mul(2 * entry).saturating_mul(passes.len() as u64 - 1);
        Work {
            flops: Flops(all.saturating_mul(2 * (rounds + between))),
            bytes: Bytes(sorted.moved().saturating_add(further)),
            scratch: Bytes(if passes.len() > 1 { all.saturating_mul(2 * entry) } else { 0 }),
            launches: passes.len() as u32,
            threads: 1,
            lanes: 1,
            barriers: self.tiles(sorted).saturating_mul(rounds),
            invocations: self.tiles(sorted) * u64::from(self.workgroup),
            ..Work::default()
        }
    }

    fn step(
        self,
        sorted: &Sorted,
        pass: Pass,
        [from, to]: [Option<BindTarget>; 2],
        adapter: &AdapterFacts,
    ) -> Result<Dispatch, LaunchError> {
        let illegal = || LaunchError::Point(format!("{self:?}"));
        let (Sorted { lines, keys, count }, filled) = (sorted, sorted.filled());
        let words = |first: u64, second: u64| {
            let words = [lines.count(), lines.len, lines.inner, filled, first, second, *count, 0];
            words.map(|word| word as u32).to_vec()
        };
        if let Pass::Between { run, apart } = pass {
            let pairs = sorted.all_filled() / 2;
            let groups = spread_groups(pairs.div_ceil(BETWEEN.into()), adapter).ok_or_else(illegal)?;
            let text = keys.text() + &with_main(include_str!("between.wgsl"));
            let bindings = vec![Binding::write(from.ok_or_else(illegal)?)];
            let mut params = words(run, apart);
            params[0] = pairs as u32;
            return Ok(in_a_row(text.into(), BETWEEN, groups, keys.needs(), bindings, params));
        }
        let (first, last) = match pass {
            Pass::Sorted(run) => (2, run),
            Pass::Merged(run) | Pass::Between { run, .. } => (run, run),
        };
        let place =
            |len: &str| format!("(line / params[0].z * {len} + at) * params[0].z + line % params[0].z");
        let (input, load) = match from {
            None => (
                "T",
                format!(
                    "if (at < params[0].y && line < params[0].x) {{\n            entry = entry_of(input[{}], at);\n        }}",
                    place("params[0].y")
                ),
            ),
            Some(_) => (
                "E",
                "if (line < params[0].x) {\n            entry = input[everywhere];\n        }".to_string(),
            ),
        };
        let (output, store) = match to {
            None => (
                "R",
                format!(
                    "if (at < params[1].z && line < params[0].x) {{\n            output[{}] = result_of(entries[nth]);\n        }}",
                    place("params[1].z")
                ),
            ),
            Some(_) => (
                "E",
                "if (line < params[0].x) {\n            output[everywhere] = entries[nth];\n        }"
                    .to_string(),
            ),
        };
        let main = with_main(include_str!("tile.wgsl"))
            .replace("$INPUT", input)
            .replace("$OUTPUT", output)
            .replace("$LOAD", &load)
            .replace("$STORE", &store);
        let text = keys.text() + &main;
        let groups = spread_groups(self.tiles(sorted), adapter).ok_or_else(illegal)?;
        let bindings = vec![
            Binding::read(from.unwrap_or(BindTarget::Input(0))),
            Binding::write(to.unwrap_or(BindTarget::Out)),
        ];
        let mut step =
            in_a_row(text.into(), self.workgroup, groups, keys.needs(), bindings, words(first, last));
        step.constants.push(("TILE", self.tile() as f64));
        step.workgroup_bytes = (self.tile() * keys.entry_bytes()) as u32;
        Ok(step)
    }

    pub(in crate::kernels) fn launch(self, sorted: &Sorted, args: Writer<'_>) -> Launched {
        if !self.is_legal(sorted, args.adapter) {
            return Err(LaunchError::Point(format!("{self:?}")));
        }
        let passes = self.passes(sorted);
        let last = passes.len() - 1;
        let bytes = sorted.all_filled() * sorted.keys.entry_bytes();
        // Tiles read one and write the other; passes between them work in place.
        let mut places = match last {
            0 => [None, None],
            _ => [args.program.scratch(bytes), args.program.scratch(bytes)].map(Some),
        };
        for (nth, pass) in passes.into_iter().enumerate() {
            let from = if nth == 0 { None } else { places[0] };
            let to = if nth == last { None } else { places[1] };
            let is_between = matches!(pass, Pass::Between { .. });
            args.program.push(self.step(sorted, pass, [from, to], args.adapter)?);
            if !is_between {
                places.swap(0, 1);
            }
        }
        Ok(())
    }
}

impl InsertionConfig {
    fn groups(self, sorted: &Sorted) -> u64 {
        sorted.lines.count().div_ceil(self.workgroup.max(1).into())
    }

    fn is_legal(self, sorted: &Sorted, adapter: &AdapterFacts) -> bool {
        sorted.lines.len <= MOST && fits(self.workgroup, 0, self.groups(sorted), adapter)
    }

    /// Those worth trying.
    pub(in crate::kernels) fn all(sorted: &Sorted, device: &DeviceFacts) -> Vec<InsertionConfig> {
        let Ok(adapter) = sorted.admits(device) else { return Vec::new() };
        let configs = alone(sorted.lines.count()).map(|workgroup| InsertionConfig { workgroup });
        configs.filter(|config| config.is_legal(sorted, adapter)).collect()
    }

    pub(in crate::kernels) fn work(self, sorted: &Sorted) -> Work {
        Work {
            // Half of those before are compared and moved.
            flops: Flops(sorted.lines.elements().saturating_mul(2 + sorted.lines.len / 2)),
            bytes: Bytes(sorted.moved()),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: self.groups(sorted) * u64::from(self.workgroup),
            ..Work::default()
        }
    }

    pub(in crate::kernels) fn launch(self, sorted: &Sorted, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{self:?}"));
        if !self.is_legal(sorted, args.adapter) {
            return Err(illegal());
        }
        let Sorted { lines, keys, count } = *sorted;
        // Six sizes, not one a length: each is a pipeline.
        let most = lines.len.next_power_of_two().max(2);
        let main = with_main(include_str!("insertion.wgsl")).replace("$MOST", &format!("{most}u"));
        let groups = spread_groups(self.groups(sorted), args.adapter).ok_or_else(illegal)?;
        let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        let params = [lines.count(), lines.len, lines.inner, count].map(|word| word as u32).to_vec();
        let text = keys.text() + &main;
        args.program.push(in_a_row(text.into(), self.workgroup, groups, keys.needs(), bindings, params));
        Ok(())
    }
}
