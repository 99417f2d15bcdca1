//! The smallest or largest of each line: an invocation a line, a workgroup a line, or several workgroups that leave one element each to a
//! second pass.

use super::is_extreme;
use crate::kernels::lines::{Lines, alone, fits, workgroups};
use crate::kernels::sort::keys::Keys;
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{
    AdapterFacts, Arg, ArgOp, Bytes, Decline, DeviceFacts, Flops, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and workgroups of a line; none where an invocation takes a line alone.
    pub struct ExtremeConfig { workgroup, parts }
}

/// A part of a line has at least so many elements for an invocation.
const LEAST: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct ExtremeKernel;

fn lines(problem: &Arg) -> Lines {
    let Arg { dtype, outer, len, inner, .. } = *problem;
    Lines { dtype, outer, len, inner }
}

fn keys(problem: &Arg) -> Keys {
    Keys { dtype: problem.dtype, descending: problem.op == ArgOp::Max, indices: true }
}

impl ExtremeConfig {
    fn groups(self, problem: &Arg) -> u64 {
        match self.parts {
            0 => lines(problem).count().div_ceil(self.workgroup.max(1).into()),
            parts => lines(problem).count().saturating_mul(parts.into()),
        }
    }

    fn workgroup_bytes(self, problem: &Arg) -> u64 {
        if self.parts == 0 { 0 } else { u64::from(self.workgroup) * keys(problem).entry_bytes() }
    }

    fn is_legal(self, problem: &Arg, adapter: &AdapterFacts) -> bool {
        let entries = lines(problem).count().saturating_mul(self.parts.into());
        let limit = adapter.max_binding.0.min(adapter.max_buffer.0);
        self.workgroup.is_power_of_two()
            && fits(self.workgroup, self.workgroup_bytes(problem), self.groups(problem), adapter)
            && lines(problem).count().saturating_mul(8) <= limit
            && (self.parts < 2
                || (entries <= 1 << 31 && entries.saturating_mul(keys(problem).entry_bytes()) <= limit))
    }
}

impl Variant<Gpu> for ExtremeKernel {
    type Problem = Arg;
    type Config = ExtremeConfig;

    identity!("gpu.arg.extreme", Parallel);

    fn declines(&self, problem: &Arg, device: &DeviceFacts) -> Option<Decline> {
        let order = || Decline::because("gives one index a line");
        let none = || Decline::because("the adapter does not take so many workgroups");
        let declined = (!is_extreme(problem)).then(order);
        let declined = declined.or_else(|| lines(problem).admits(keys(problem).needs(), device).err());
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Arg, device: &DeviceFacts) -> Vec<ExtremeConfig> {
        let admitted = lines(problem).admits(keys(problem).needs(), device);
        let (true, Ok(adapter)) = (is_extreme(problem), admitted) else { return Vec::new() };
        let mut configs: Vec<ExtremeConfig> =
            alone(lines(problem).count()).map(|workgroup| ExtremeConfig { workgroup, parts: 0 }).collect();
        for workgroup in workgroups(adapter) {
            for parts in [1, 8, 64] {
                let least = u64::from(workgroup) * u64::from(parts) * if parts > 1 { LEAST } else { 1 };
                // A workgroup of which half would do is no other choice.
                if problem.len * 2 > least {
                    configs.push(ExtremeConfig { workgroup, parts });
                }
            }
        }
        configs.retain(|config| config.is_legal(problem, adapter));
        configs
    }

    fn work(&self, problem: &Arg, config: ExtremeConfig, _: &DeviceFacts) -> Work {
        let (lines, entry) = (lines(problem), keys(problem).entry_bytes());
        let entries = lines.count().saturating_mul(config.parts.into());
        let left = if config.parts > 1 { entries.saturating_mul(entry) } else { 0 };
        let rounds = if config.parts > 0 { u64::from(config.workgroup.max(2).ilog2()) } else { 0 };
        let read = lines.elements().saturating_mul(problem.dtype.size());
        Work {
            flops: Flops(lines.elements().saturating_mul(4)),
            bytes: Bytes(read.saturating_add(lines.count() * 8).saturating_add(2 * left)),
            scratch: Bytes(left),
            launches: if config.parts > 1 { 2 } else { 1 },
            threads: 1,
            lanes: 1,
            barriers: config.groups(problem).saturating_mul(rounds),
            invocations: config.groups(problem).saturating_mul(config.workgroup.into()),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Arg, config: ExtremeConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !is_extreme(problem) || !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let (lines, keys) = (lines(problem), keys(problem));
        let words = [lines.count(), lines.len, lines.inner, u64::from(config.parts.max(1))];
        let words = words.map(|word| word as u32).to_vec();
        let adapter = args.adapter;
        let groups = |groups: u64| spread_groups(groups, adapter).ok_or_else(illegal);
        if config.parts == 0 {
            let text = keys.extremes() + &with_main(include_str!("each.wgsl"));
            let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
            let groups = groups(config.groups(problem))?;
            args.program.push(in_a_row(text.into(), config.workgroup, groups, keys.needs(), bindings, words));
            return Ok(());
        }
        let step = |from: Option<BindTarget>, to: Option<BindTarget>, parts: u64, len: u64, inner: u64| {
            let (of, entry) = match from {
                None => ("T", "entry_of(input[place], at)"),
                Some(_) => ("E", "input[place]"),
            };
            let (kept, result) = match to {
                None => ("R", "result_of(entries[0])"),
                Some(_) => ("E", "entries[0]"),
            };
            let main = with_main(include_str!("team.wgsl")).replace("$OF", of).replace("$ENTRY", entry);
            let text = keys.extremes() + &main.replace("$KEPT", kept).replace("$RESULT", result);
            let bindings = vec![
                Binding::read(from.unwrap_or(BindTarget::Input(0))),
                Binding::write(to.unwrap_or(BindTarget::Out)),
            ];
            let words = [lines.count(), len, inner, parts].map(|word| word as u32).to_vec();
            let groups = groups(lines.count() * parts)?;
            let mut step = in_a_row(text.into(), config.workgroup, groups, keys.needs(), bindings, words);
            step.workgroup_bytes = config.workgroup_bytes(problem) as u32;
            Ok::<Dispatch, LaunchError>(step)
        };
        if config.parts == 1 {
            args.program.push(step(None, None, 1, lines.len, lines.inner)?);
            return Ok(());
        }
        let parts = u64::from(config.parts);
        let left = Some(args.program.scratch(lines.count() * parts * keys.entry_bytes()));
        args.program.push(step(None, left, parts, lines.len, lines.inner)?);
        // What was left lies line by line.
        args.program.push(step(left, None, 1, parts, 1)?);
        Ok(())
    }
}
