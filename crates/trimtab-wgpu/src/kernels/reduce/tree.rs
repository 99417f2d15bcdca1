//! One workgroup a result: each invocation folds its share, then halves upon halves in workgroup memory.

use super::stage::{
    Body, Stage, admits, declines_long, first_part, parts_on, reads_rows, widths, workgroups,
};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{AdapterClass, Decline, DeviceFacts, LaunchError, Reduce, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, neighbouring axes it folds side by side, elements loaded at once, and loads in flight.
    pub struct TreeConfig { workgroup, columns, width, unroll }
}

/// See the module.
#[derive(Debug)]
pub struct TreeKernel;

impl TreeConfig {
    fn stage(self) -> Stage {
        Stage::only(Body::Tree { columns: self.columns }, self.workgroup, self.width, self.unroll)
    }
}

/// Why workgroups have nothing to share.
pub(super) fn declines_short(problem: &Reduce) -> Option<Decline> {
    if problem.out_len() == 0 {
        return Some(Decline::because("the result has no elements"));
    }
    (problem.len < 32).then(|| {
        let len = problem.len;
        Decline::from(format!("a workgroup shares 32 elements or more, the axis has {len}"))
    })
}

impl Variant<Gpu> for TreeKernel {
    type Problem = Reduce;
    type Config = TreeConfig;

    identity!("gpu.reduce.tree", Parallel);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let declined = admits(problem, device).err();
        declined
            .or_else(|| declines_short(problem))
            .or_else(|| parts_on(problem, device, false).err())
            .or_else(|| self.configs(problem, device).is_empty().then(|| declines_long(problem)))
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<TreeConfig> {
        let Some((adapter, part)) = first_part(problem, device) else { return Vec::new() };
        // One accumulator was up to 1.3 times as fast as four there; elsewhere loads in flight hide latency.
        let unrolls = if adapter.class == AdapterClass::Software { [1, 4] } else { [4, 1] };
        let mut configs = Vec::new();
        for workgroup in workgroups(adapter) {
            for columns in [32, 8, 1] {
                let wanted = u64::from(columns) <= problem.inner.next_power_of_two();
                // One column of several axes side by side reads a line for every element: kept as the smallest only.
                let useful = columns > 1 || problem.inner < 32;
                if !wanted || !useful || columns >= workgroup {
                    continue;
                }
                let rows = u64::from(workgroup / columns);
                for &width in widths(problem.dtype) {
                    for unroll in unrolls {
                        let config = TreeConfig { workgroup, columns, width, unroll };
                        let stage = config.stage();
                        let count = stage.count(problem, part.steps);
                        let is_short = unroll > 1 && count < rows * u64::from(unroll);
                        let is_idle = rows > 32 && rows / 2 >= count;
                        let reads = reads_rows(problem, width) && (problem.inner == 1 || width == 1);
                        if reads && !is_short && !is_idle && stage.is_legal(problem, part, adapter) {
                            configs.push(config);
                        }
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: TreeConfig, device: &DeviceFacts) -> Work {
        config.stage().work(problem, device)
    }

    fn launch(&self, problem: &Reduce, config: TreeConfig, args: Writer<'_>) -> Launched {
        let is_whole = config.columns > 0 && config.workgroup.is_multiple_of(config.columns);
        if !is_whole || !config.workgroup.is_power_of_two() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        config.stage().launch(problem, args)
    }
}
