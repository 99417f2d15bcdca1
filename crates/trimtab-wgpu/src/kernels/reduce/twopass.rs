//! Many chunks a result fold into scratch, a second dispatch folds what they wrote: for few results of long axes, and for
//! operands larger than a binding.

use super::fold::{Fold, Sink, Source};
use super::stage::{
    Body, LONGEST_WALK, Part, Slots, Stage, admits, launch_parts, operand_bytes, parts_on, reads_rows,
    spans_columns, widths,
};
use super::tree::declines_short;
use crate::program::{Gpu, Launched, MAX_STEPS, Writer};
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, Decline, DeviceFacts, Flops, LaunchError, Reduce, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, chunks an axis is cut into, elements loaded at once, who shares a chunk ([`ALONE`],
    /// [`TURNS`] or [`TREE`]), and invocations that fold a result's chunks in the end (1: one walks them, no barrier).
    pub struct TwoPassConfig { workgroup, chunks, width, share, finish }
}

/// A chunk is contiguous and one invocation's own.
const ALONE: u32 = 0;
/// The invocations of a workgroup take turns at the elements of their chunks: neighbours read neighbours.
const TURNS: u32 = 1;
/// A chunk is a workgroup's, which folds it as a tree.
const TREE: u32 = 2;

/// See the module.
#[derive(Debug)]
pub struct TwoPassKernel;

impl TwoPassConfig {
    fn first(self) -> Stage {
        let body = match self.share {
            TREE => Body::Tree { columns: 1 },
            TURNS => Body::Serial { neighbours: self.workgroup.into() },
            _ => Body::Serial { neighbours: 1 },
        };
        Stage {
            body,
            source: Source::Elements,
            sink: Sink::States,
            workgroup: self.workgroup,
            width: self.width,
            unroll: 4,
            chunks: self.chunks.into(),
        }
    }

    fn second(self) -> Stage {
        let (body, workgroup) = match self.finish {
            1 => (Body::Serial { neighbours: 1 }, 32),
            workgroup => (Body::Tree { columns: 1 }, workgroup),
        };
        Stage { body, source: Source::States, sink: Sink::Results, workgroup, width: 1, unroll: 1, chunks: 1 }
    }

    fn slots(self, problem: &Reduce, parts: &[Part]) -> u64 {
        let cut = parts.iter().filter(|part| part.first_outer == 0).count() as u64;
        let per_axis = if parts.iter().any(|part| part.steps < problem.len) { cut } else { 1 };
        per_axis * u64::from(self.chunks)
    }

    fn is_legal(self, problem: &Reduce, parts: &[Part], adapter: &AdapterFacts) -> bool {
        let (first, second) = (self.first(), self.second());
        let Some(&part) = parts.first() else { return false };
        let count = first.count(problem, part.steps);
        let chunks = u64::from(self.chunks);
        let steps_each = match self.share {
            TREE => count / chunks / u64::from(self.workgroup),
            _ => count / chunks,
        };
        let slots = self.slots(problem, parts);
        let scratch = problem.out_len() * slots * Fold::of(problem).state_bytes();
        // A chunk of less than four loads is not worth writing down.
        steps_each >= 4
            && (self.share != TURNS
                || (problem.inner == 1 && chunks.is_multiple_of(u64::from(self.workgroup))))
            && scratch <= adapter.max_binding.0.min(adapter.max_buffer.0)
            && first.is_legal(problem, part, adapter)
            && second.is_legal(problem, Part::whole(problem), adapter)
            && (self.finish == 1 || u64::from(self.finish) <= slots)
            && slots <= LONGEST_WALK * u64::from(self.finish)
            && reads(problem, self.width)
    }
}

/// Whether vectors of that width can be read along the axis or across neighbouring axes.
fn reads(problem: &Reduce, width: u32) -> bool {
    reads_rows(problem, width) || spans_columns(problem, width)
}

impl Variant<Gpu> for TwoPassKernel {
    type Problem = Reduce;
    type Config = TwoPassConfig;

    identity!("gpu.reduce.twopass", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        if let Some(decline) = admits(problem, device).err().or_else(|| declines_short(problem)) {
            return Some(decline);
        }
        match parts_on(problem, device, true) {
            Err(decline) => return Some(decline),
            Ok((_, parts)) if parts.len() >= MAX_STEPS => {
                let (steps, most) = (parts.len() + 1, MAX_STEPS);
                return Some(Decline::from(format!("takes up to {most} dispatches, this needs {steps}")));
            }
            Ok(_) => (),
        }
        self.configs(problem, device).is_empty().then(|| {
            let (results, len) = (problem.out_len(), problem.len);
            Decline::from(format!("no way to cut {results} axes of {len} elements fits the adapter"))
        })
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<TwoPassConfig> {
        let Ok((adapter, parts)) = parts_on(problem, device, true) else { return Vec::new() };
        let software = adapter.class == AdapterClass::Software;
        let mut configs = Vec::new();
        // Contiguous chunks and no barrier where the processor plays the GPU; neighbours that read neighbours elsewhere.
        let settings: &[(u32, u32, &[u32])] = if software && problem.inner > 1 {
            &[(ALONE, 1, &[256, 32]), (TREE, 1, &[32])]
        } else if software {
            &[(ALONE, 1, &[32, 256]), (TURNS, 1, &[32, 256]), (TREE, 1, &[32])]
        } else {
            &[(TREE, 256, &[256, 64, 1024]), (TREE, 64, &[256]), (TURNS, 256, &[64, 256]), (ALONE, 64, &[64])]
        };
        // The widest loads first, then single ones.
        let both: Vec<u32> = widths(problem.dtype)
            .iter()
            .copied()
            .filter(|&width| width == 1 || reads(problem, width))
            .collect();
        let ends = [both.first(), both.last().filter(|_| both.len() > 1)];
        for &(share, finish, workgroups) in settings {
            for &workgroup in workgroups {
                for chunks in if software { [16, 64, 1024, 4096] } else { [256, 64, 1024, 4096] } {
                    for &width in ends.into_iter().flatten() {
                        let config = TwoPassConfig { workgroup, chunks, width, share, finish };
                        // Half a workgroup would hold all chunks.
                        let lone = share == ALONE
                            && problem.out_len() * u64::from(chunks) <= u64::from(workgroup / 2);
                        let is_idle = workgroup > 64 && lone;
                        if !is_idle && config.is_legal(problem, &parts, adapter) {
                            configs.push(config);
                        }
                    }
                }
            }
        }
        if configs.is_empty() {
            // A short axis on an adapter whose first choices are large: the smallest way that fits.
            let smallest = |share| TwoPassConfig { workgroup: 32, chunks: 8, width: 1, share, finish: 1 };
            configs.extend([ALONE, TREE].map(smallest));
            configs.retain(|config| config.is_legal(problem, &parts, adapter));
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: TwoPassConfig, device: &DeviceFacts) -> Work {
        let parts = parts_on(problem, device, true).map_or_else(|_| Vec::new(), |(_, parts)| parts);
        let (first, second) = (config.first(), config.second());
        let groups = |part: &Part| first.workgroups(problem, part.outers);
        let states = problem.out_len() * config.slots(problem, &parts);
        let state_bytes = Fold::of(problem).state_bytes();
        let finish_groups = second.workgroups(problem, problem.outer);
        Work {
            flops: Flops(problem.input_len() + states),
            bytes: Bytes(operand_bytes(problem) + 2 * states * state_bytes),
            scratch: Bytes(states * state_bytes),
            launches: parts.len() as u32 + 1,
            threads: 1,
            lanes: config.width,
            barriers: parts.iter().map(groups).sum::<u64>() * first.barriers()
                + finish_groups * second.barriers(),
            invocations: parts.iter().map(groups).max().unwrap_or(0) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Reduce, config: TwoPassConfig, args: Writer<'_>) -> Launched {
        let parts = launch_parts(problem, args.adapter, true)?;
        if config.chunks == 0 || config.share > TREE || !config.is_legal(problem, &parts, args.adapter) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let chunks = config.slots(problem, &parts);
        let states = problem.out_len() * chunks;
        let scratch = args.program.scratch(states * Fold::of(problem).state_bytes());
        let mut first = 0;
        for part in parts {
            if part.first_step == 0 {
                first = 0;
            }
            let slots = Slots { chunks, first };
            args.program.push(config.first().step(problem, part, slots, Some(scratch), args.adapter)?);
            first += u64::from(config.chunks);
        }
        let (whole, slots) = (Part::whole(problem), Slots { chunks, first: 0 });
        args.program.push(config.second().step(problem, whole, slots, Some(scratch), args.adapter)?);
        Ok(())
    }
}
