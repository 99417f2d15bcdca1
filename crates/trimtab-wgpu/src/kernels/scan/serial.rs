//! One invocation a line, from its first element to its last: no barriers, good where there are many lines; neighbours read neighbours
//! where lines lie side by side.

use super::state::{Carries, ELEMENTS, admits, counted, lines, params};
use crate::kernels::lines::{alone, fits};
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Decline, DeviceFacts, LaunchError, Scan, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup.
    pub struct SerialConfig { workgroup }
}

/// See the module.
#[derive(Debug)]
pub struct SerialKernel;

impl SerialConfig {
    fn groups(self, problem: &Scan) -> u64 {
        lines(problem).count().div_ceil(self.workgroup.max(1).into())
    }

    fn is_legal(self, problem: &Scan, adapter: &AdapterFacts) -> bool {
        problem.len <= LONGEST_WALK && fits(self.workgroup, 0, self.groups(problem), adapter)
    }
}

impl Variant<Gpu> for SerialKernel {
    type Problem = Scan;
    type Config = SerialConfig;

    identity!("gpu.scan.serial", Vectorized);

    fn declines(&self, problem: &Scan, device: &DeviceFacts) -> Option<Decline> {
        let len = problem.len;
        let long =
            || Decline::from(format!("an invocation makes up to {LONGEST_WALK} steps, lines have {len}"));
        let declined = admits(problem, device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Scan, device: &DeviceFacts) -> Vec<SerialConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let configs = alone(lines(problem).count()).map(|workgroup| SerialConfig { workgroup });
        configs.filter(|config| config.is_legal(problem, adapter)).collect()
    }

    fn work(&self, problem: &Scan, config: SerialConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem, 1);
        let invocations = config.groups(problem) * u64::from(config.workgroup);
        Work { flops, bytes, launches: 1, threads: 1, lanes: 1, invocations, ..Work::default() }
    }

    fn launch(&self, problem: &Scan, config: SerialConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let carries = Carries::of(problem);
        let main = with_main(include_str!("serial.wgsl")).replace("$EMIT", carries.emit());
        let text = carries.text() + ELEMENTS + &main;
        let groups = spread_groups(config.groups(problem), args.adapter).ok_or_else(illegal)?;
        let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        let params = params(&[lines(problem).count(), problem.len, problem.inner]);
        args.program.push(in_a_row(text.into(), config.workgroup, groups, carries.needs(), bindings, params));
        Ok(())
    }
}
