//! One workgroup a result by subgroup operations: each invocation folds its share, each subgroup its invocations.

use super::fold::{Fold, Sink, Source};
use super::stage::{
    Body, Part, Slots, Stage, admits, declines_long, launch_parts, operand_bytes, parts, reads_rows, widths,
};
use super::tree::declines_short;
use crate::program::{Gpu, Writer};
use trimtab_core::{AdapterClass, Bytes, Decline, DeviceFacts, Flops, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements loaded at once, and loads in flight.
    pub struct SubgroupConfig { workgroup, width, unroll }
}

/// See the module.
#[derive(Debug)]
pub struct SubgroupKernel;

impl SubgroupConfig {
    fn stage(self) -> Stage {
        Stage {
            body: Body::Subgroup,
            source: Source::Elements,
            sink: Sink::Results,
            workgroup: self.workgroup,
            width: self.width,
            unroll: self.unroll,
            chunks: 1,
        }
    }
}

impl Variant<Gpu> for SubgroupKernel {
    type Problem = Reduce;
    type Config = SubgroupConfig;

    identity!("gpu.reduce.subgroup", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let adapter = match admits(problem, device) {
            Ok(adapter) => adapter,
            Err(decline) => return Some(decline),
        };
        let Some((_, most)) = adapter.subgroup else {
            return Some(Decline::because("the adapter has no subgroups"));
        };
        if problem.inner > 1 {
            let inner = problem.inner;
            return Some(Decline::from(format!(
                "folds neighbours, the axis has a stride of {inner} elements"
            )));
        }
        declines_short(problem)
            .or_else(|| Fold::of(problem).declines_subgroup(most))
            .or_else(|| parts(problem, adapter, false).err())
            .or_else(|| self.configs(problem, device).is_empty().then(|| declines_long(problem)))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<SubgroupConfig> {
        let Ok((adapter, parts)) = admits(problem, device).and_then(|a| Ok((a, parts(problem, a, false)?)))
        else {
            return Vec::new();
        };
        let Some(&part) = parts.first() else { return Vec::new() };
        let workgroups: [u32; 6] = match adapter.class {
            AdapterClass::Software => [32, 64, 128, 256, 512, 1024],
            _ => [256, 128, 64, 512, 32, 1024],
        };
        let mut configs = Vec::new();
        for workgroup in workgroups {
            for &width in widths(problem.dtype).iter().filter(|&&width| reads_rows(problem, width)) {
                for unroll in [4, 1] {
                    let config = SubgroupConfig { workgroup, width, unroll };
                    let stage = config.stage();
                    let count = stage.count(problem, part.steps);
                    let is_short = unroll > 1 && count < u64::from(workgroup * unroll);
                    let is_idle = workgroup > 32 && u64::from(workgroup / 2) >= count;
                    if !is_short && !is_idle && stage.is_legal(problem, part, adapter) {
                        configs.push(config);
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: SubgroupConfig, device: &DeviceFacts) -> Work {
        let parts = admits(problem, device).and_then(|adapter| parts(problem, adapter, false));
        let parts: Vec<Part> = parts.unwrap_or_default();
        let stage = config.stage();
        let groups = |part: &Part| stage.workgroups(problem, part.outers);
        Work {
            flops: Flops(problem.input_len()),
            bytes: Bytes(operand_bytes(problem)),
            scratch: Bytes(0),
            launches: parts.len() as u32,
            threads: 1,
            lanes: config.width,
            barriers: parts.iter().map(groups).sum::<u64>() * stage.barriers(),
            invocations: parts.iter().map(groups).max().unwrap_or(0) * u64::from(config.workgroup),
        }
    }

    fn launch(&self, problem: &Reduce, config: SubgroupConfig, args: Writer<'_>) -> Result<(), LaunchError> {
        for part in launch_parts(problem, args.adapter, false)? {
            let slots = Slots { chunks: 1, first: 0 };
            args.program.push(config.stage().step(problem, part, slots, None, args.adapter)?);
        }
        Ok(())
    }
}
