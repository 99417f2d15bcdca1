//! Whole lines in workgroup memory, several to a workgroup: every number is read and written once for each axis.

use super::{Along, Direction, RADICES, Transforms, admits, is_legal, longest, work, write};
use crate::kernels::lines::{fits, workgroups};
use crate::kernels::{in_a_row, with_main};
use crate::program::{Dispatch, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Decline, DeviceFacts, Fft, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, the largest radix of a pass, and lines of a workgroup.
    pub struct LocalConfig { workgroup, radix, lines }
}

/// Lines of a workgroup worth trying.
const LINES: [u32; 3] = [1, 4, 16];
/// Bytes of a number.
const BYTES: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct LocalKernel;

impl LocalConfig {
    /// Bytes of workgroup memory: the lines twice.
    fn bytes(self, axis: Along) -> u64 {
        2 * BYTES * axis.len * u64::from(self.lines)
    }

    fn groups(self, axis: Along) -> u64 {
        (axis.numbers / axis.len.max(1)).div_ceil(self.lines.max(1).into())
    }
}

impl Transforms for LocalConfig {
    fn workgroup(&self) -> u32 {
        self.workgroup
    }

    fn takes(&self, axis: Along, adapter: &AdapterFacts) -> bool {
        RADICES.contains(&self.radix)
            && self.lines > 0
            && fits(self.workgroup, self.bytes(axis), self.groups(axis), adapter)
    }

    fn dispatches(&self, _: Along) -> u32 {
        1
    }

    fn barriers(&self, axis: Along) -> u64 {
        let doublings = axis.len.max(2).ilog2();
        self.groups(axis) * u64::from(doublings.div_ceil(self.radix.max(2).ilog2()) + 1)
    }

    fn lines(&self, axis: Along, direction: Direction, adapter: &AdapterFacts) -> Option<Vec<Dispatch>> {
        // A shader that divides the length of a shorter line by a radix divides by zero later, which validation refuses.
        let fits = |radix: &u32| *radix <= self.radix && u64::from(*radix) <= axis.len.max(2);
        let radices: Vec<u32> = RADICES.into_iter().filter(fits).collect();
        let step = |radix: &u32| include_str!("step.wgsl").replace("$RADIX", &radix.to_string());
        let steps: String = radices.iter().map(step).collect();
        let pass = |radix: &u32| {
            format!(
                "if (rest % {radix}u == 0u) {{ step{radix}(invocation, here, there, rest, done); rest = rest / {radix}u; \
                 done = done * {radix}u; }}"
            )
        };
        let pass = radices.iter().map(pass).collect::<Vec<_>>().join(" else ");
        let main = with_main(include_str!("local.wgsl")).replace("$STEPS", &steps).replace("$PASS", &pass);
        let text = format!("{}\n{main}", include_str!("numbers.wgsl"));
        let groups = spread_groups(self.groups(axis), adapter)?;
        let params = vec![
            (axis.numbers / axis.len.max(1)) as u32,
            axis.len as u32,
            axis.inner as u32,
            0,
            0,
            direction.inverse.into(),
            direction.scale.to_bits(),
            0,
        ];
        let mut step = in_a_row(text.into(), self.workgroup, groups, Needs::default(), vec![], params);
        step.constants.extend([("LEN", axis.len as f64), ("LINES", f64::from(self.lines))]);
        step.workgroup_bytes = self.bytes(axis) as u32;
        Some(vec![step])
    }
}

impl Variant<Gpu> for LocalKernel {
    type Problem = Fft;
    type Config = LocalConfig;

    identity!("gpu.fft.local", Parallel);

    fn declines(&self, problem: &Fft, device: &DeviceFacts) -> Option<Decline> {
        let longest = longest(problem);
        let large = || {
            let room = device.adapter.as_ref().map_or(0, |adapter| adapter.workgroup_memory.0);
            Decline::from(format!(
                "twice a line of {longest} numbers does not fit {room} bytes of workgroup memory"
            ))
        };
        let declined = admits(problem, device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(large))
    }

    fn configs(&self, problem: &Fft, device: &DeviceFacts) -> Vec<LocalConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let longest = longest(problem);
        let lines_there = problem.batch.saturating_mul(problem.points() / problem.last().max(1));
        let mut configs = Vec::new();
        for lines in LINES
            .into_iter()
            .filter(|&lines| lines == 1 || (longest > 1 && u64::from(lines / 2) < lines_there))
        {
            for workgroup in workgroups(adapter) {
                for radix in RADICES {
                    let config = LocalConfig { workgroup, radix, lines };
                    let idle = radix > 2 && u64::from(radix / 2) >= longest;
                    // Half of them would have nothing to do.
                    let few = workgroup > 32
                        && longest * u64::from(lines) / u64::from(radix) < u64::from(workgroup);
                    if !idle && !few && is_legal(&config, problem, adapter) {
                        configs.push(config);
                    }
                }
            }
        }
        configs
    }

    fn work(&self, problem: &Fft, config: LocalConfig, _: &DeviceFacts) -> Work {
        work(&config, problem)
    }

    fn launch(&self, problem: &Fft, config: LocalConfig, mut args: Writer<'_>) -> Launched {
        if !is_legal(&config, problem, args.adapter) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        write(&config, problem, &mut args)
    }
}
