//! Pass by pass: every one reads and writes all numbers, an invocation a butterfly. Lines of any length.

use super::{Along, Direction, RADICES, Transforms, admits, each, is_legal, longest, work, write};
use crate::kernels::lines::fits;
use crate::program::{Dispatch, Gpu, Launched, Writer};
use trimtab_core::{AdapterFacts, Decline, DeviceFacts, Fft, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and the largest radix of a pass.
    pub struct PassesConfig { workgroup, radix }
}

/// See the module.
#[derive(Debug)]
pub struct PassesKernel;

impl PassesConfig {
    /// The radices of the passes of a line.
    fn radices(self, len: u64) -> Vec<u64> {
        let (mut rest, mut all) = (len, Vec::new());
        while rest > 1 {
            let next = u64::from(self.radix.max(2)).min(rest);
            all.push(next);
            rest /= next;
        }
        all
    }
}

impl Transforms for PassesConfig {
    fn workgroup(&self) -> u32 {
        self.workgroup
    }

    fn takes(&self, axis: Along, adapter: &AdapterFacts) -> bool {
        RADICES.contains(&self.radix)
            && fits(self.workgroup, 0, (axis.numbers / 2).div_ceil(self.workgroup.max(1).into()), adapter)
    }

    fn dispatches(&self, axis: Along) -> u32 {
        self.radices(axis.len).len() as u32
    }

    fn barriers(&self, _: Along) -> u64 {
        0
    }

    fn lines(&self, axis: Along, direction: Direction, adapter: &AdapterFacts) -> Option<Vec<Dispatch>> {
        let (mut rest, mut done) = (axis.len, 1);
        let step = |radix: u64| {
            let is_last = rest == radix;
            let scale = if is_last { direction.scale } else { 1.0 };
            let words = [
                axis.len as u32,
                axis.inner as u32,
                done as u32,
                rest.ilog2(),
                direction.inverse.into(),
                scale.to_bits(),
                0,
            ];
            let text = include_str!("pass.wgsl").replace("$RADIX", &radix.to_string());
            rest /= radix;
            done *= radix;
            each(&text, self.workgroup, axis.numbers / radix, words, adapter)
        };
        self.radices(axis.len).into_iter().map(step).collect()
    }
}

impl Variant<Gpu> for PassesKernel {
    type Problem = Fft;
    type Config = PassesConfig;

    identity!("gpu.fft.passes", Vectorized);

    fn declines(&self, problem: &Fft, device: &DeviceFacts) -> Option<Decline> {
        let large = || Decline::from(format!("{problem} needs more workgroups than the adapter takes"));
        let declined = admits(problem, device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(large))
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<PassesConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let longest = longest(problem);
        let mut configs = Vec::new();
        for workgroup in [64, 256, 32] {
            for radix in RADICES {
                // A radix as long as the line, and no longer.
                let idle = radix > 2 && u64::from(radix / 2) >= longest;
                let config = PassesConfig { workgroup, radix };
                if !idle && is_legal(&config, problem, adapter) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Fft, config: PassesConfig, _: &DeviceFacts) -> Work {
        work(&config, problem)
    }

    fn launch(&self, problem: &Fft, config: PassesConfig, mut args: Writer<'_>) -> Launched {
        if !is_legal(&config, problem, args.adapter) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        write(&config, problem, &mut args)
    }
}
