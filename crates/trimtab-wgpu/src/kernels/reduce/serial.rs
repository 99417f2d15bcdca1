//! One invocation a result walks the axis: no barriers, good where there are many results.

use super::stage::{Body, Stage, declines_long, first_part, parts_on, reads_rows, spans_columns, widths};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Decline, DeviceFacts, Reduce, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements loaded at once, and loads in flight.
    pub struct SerialConfig { workgroup, width, unroll }
}

/// See the module.
#[derive(Debug)]
pub struct SerialKernel;

impl SerialConfig {
    fn stage(self) -> Stage {
        Stage::only(Body::Serial { neighbours: 1 }, self.workgroup, self.width, self.unroll)
    }
}

impl Variant<Gpu> for SerialKernel {
    type Problem = Reduce;
    type Config = SerialConfig;

    identity!("gpu.reduce.serial", Vectorized);

    fn declines(&self, problem: &Reduce, device: &DeviceFacts) -> Option<Decline> {
        let long = || self.configs(problem, device).is_empty().then(|| declines_long(problem));
        parts_on(problem, device, false).err().or_else(long)
    }

    fn configs(&self, problem: &Reduce, device: &DeviceFacts) -> Vec<SerialConfig> {
        let Some((adapter, part)) = first_part(problem, device) else { return Vec::new() };
        let mut widths = widths(problem.dtype).to_vec();
        if problem.inner > 1 {
            // Wide loads across axes leave fewer invocations: 1024 axes by twos took half the time of by fours, 4096 axes
            // three quarters of the time by fours.
            widths.sort_by_key(|&width| problem.out_len() / u64::from(width) < 512);
        }
        let mut configs = Vec::new();
        for workgroup in [64, 32, 128, 256] {
            for &width in &widths {
                if !reads_rows(problem, width) && !spans_columns(problem, width) {
                    continue;
                }
                for unroll in [4, 1] {
                    let config = SerialConfig { workgroup, width, unroll };
                    let stage = config.stage();
                    let invocations = part.outers * problem.inner;
                    let is_short = unroll > 1 && stage.count(problem, part.steps) < u64::from(unroll);
                    // Half of it would hold all results.
                    let is_idle = workgroup > 32 && u64::from(workgroup / 2) >= invocations;
                    if !is_short && !is_idle && stage.is_legal(problem, part, adapter) {
                        configs.push(config);
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Reduce, config: SerialConfig, device: &DeviceFacts) -> Work {
        config.stage().work(problem, device)
    }

    fn launch(&self, problem: &Reduce, config: SerialConfig, args: Writer<'_>) -> Launched {
        if problem.out_len() == 0 {
            return Ok(());
        }
        config.stage().launch(problem, args)
    }
}
