//! One workgroup a result by subgroup operations: each invocation folds its share, each subgroup its invocations.

use super::fold::Fold;
use super::stage::{
    Body, Stage, admits, declines_long, first_part, parts_on, reads_rows, widths, workgroups,
};
use super::tree::declines_short;
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Decline, DeviceFacts, Reduce, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements loaded at once, and loads in flight.
    pub struct SubgroupConfig { workgroup, width, unroll }
}

/// See the module.
#[derive(Debug)]
pub struct SubgroupKernel;

impl SubgroupConfig {
    fn stage(self) -> Stage {
        Stage::only(Body::Subgroup, self.workgroup, self.width, self.unroll)
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
            .or_else(|| parts_on(problem, device, false).err())
            .or_else(|| self.configs(problem, device).is_empty().then(|| declines_long(problem)))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<SubgroupConfig> {
        let Some((adapter, part)) = first_part(problem, device) else { return Vec::new() };
        let mut configs = Vec::new();
        for workgroup in workgroups(adapter) {
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
        config.stage().work(problem, device)
    }

    fn launch(&self, problem: &Reduce, config: SubgroupConfig, args: Writer<'_>) -> Launched {
        config.stage().launch(problem, args)
    }
}
