//! Pass by pass over all lines in memory: lines may be as long as they like.

use super::{Along, RADICES, Step, Transforms, declines, has_grid, macros, real, source, work, write};
use crate::kernels::walked::sizes;
use crate::program::{Cuda, Program, fits};
use trimtab_core::{Decline, DeviceFacts, Fft, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads of a block, and the largest radix of a pass.
    pub struct PassesConfig { width, radix }
}

/// See the module.
#[derive(Debug)]
pub struct PassesKernel;

impl PassesConfig {
    /// Radices of the passes over lines of so many numbers, the largest first.
    fn radices(self, len: u64) -> Vec<u64> {
        let (mut rest, mut found) = (len, Vec::new());
        while rest > 1 {
            let fits = |radix: &u32| *radix <= self.radix && rest.is_multiple_of(u64::from(*radix));
            let radix = RADICES.into_iter().find(fits).unwrap_or(2);
            found.push(radix.into());
            rest /= u64::from(radix);
        }
        found
    }
}

impl Transforms for PassesConfig {
    fn width(&self) -> u32 {
        self.width
    }

    fn lines(&self, problem: &Fft, axis: Along, scale: f64) -> Vec<Step> {
        let (radices, mut done, mut steps) = (self.radices(axis.len), 1, Vec::new());
        for (nth, radix) in radices.iter().copied().enumerate() {
            let (items, rest) = (axis.numbers / radix, axis.len / done);
            let scale = if nth + 1 == radices.len() { scale } else { 1.0 };
            let sizes = sizes([items, axis.len, axis.inner, done, rest]);
            steps.push(Step {
                source: source(include_str!("pass.cu")),
                entry: "fft_pass",
                macros: macros(problem, &[("WIDTH", self.width.into()), ("RADIX", radix)]),
                blocks: items.div_ceil(self.width.max(1).into()),
                width: self.width,
                given: sizes.chain([real(problem, scale)]).collect(),
            });
            done *= radix;
        }
        steps
    }

    fn launches(&self, axis: Along) -> u32 {
        self.radices(axis.len).len() as u32
    }

    fn barriers(&self, _: Along) -> u64 {
        0
    }
}

impl Variant<Cuda> for PassesKernel {
    type Problem = Fft;
    type Config = PassesConfig;

    identity!("cuda.fft.passes", Parallel);

    fn declines(&self, problem: &Fft, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<PassesConfig> {
        if declines(problem, device).is_some() {
            return Vec::new();
        }
        let all = [[128, 8], [128, 4], [256, 2]].map(|[width, radix]| PassesConfig { width, radix });
        let legal = |config: &PassesConfig| fits(device, config.width, 0) && has_grid(config, problem);
        all.into_iter().filter(legal).collect()
    }

    fn work(&self, problem: &Fft, config: PassesConfig, _: &DeviceFacts) -> Work {
        work(&config, problem)
    }

    fn launch(&self, problem: &Fft, config: PassesConfig, program: &mut Program) -> Result<(), LaunchError> {
        if !(1..=1024).contains(&config.width) || !RADICES.contains(&config.radix) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        write(&config, problem, program)
    }
}
