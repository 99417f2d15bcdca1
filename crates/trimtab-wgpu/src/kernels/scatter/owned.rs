//! Every invocation has an element of the result, looks at all indices of its line in order and adds what is its own: no atomics, the same
//! bits every time, good where there are few indices.

use crate::kernels::indices::{self, admits, groups};
use crate::kernels::lines::{alone, fits};
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{
    AdapterFacts, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Problem, Scatter, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup.
    pub struct OwnedConfig { workgroup }
}

/// See the module.
#[derive(Debug)]
pub struct OwnedKernel;

impl OwnedConfig {
    fn groups(self, problem: &Scatter) -> u64 {
        groups(problem.input_len(), self.workgroup, 1)
    }

    fn is_legal(self, problem: &Scatter, adapter: &AdapterFacts) -> bool {
        problem.count <= LONGEST_WALK && fits(self.workgroup, 0, self.groups(problem), adapter)
    }
}

impl Variant<Gpu> for OwnedKernel {
    type Problem = Scatter;
    type Config = OwnedConfig;

    identity!("gpu.scatter.owned", Vectorized);

    fn declines(&self, problem: &Scatter, device: &DeviceFacts) -> Option<Decline> {
        let count = problem.count;
        let long = || {
            Decline::from(format!(
                "an invocation makes up to {LONGEST_WALK} steps, there are {count} indices"
            ))
        };
        let declined = admits(&Problem::from(*problem), problem.len, Needs::of(problem.dtype), device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Scatter, device: &DeviceFacts) -> Vec<OwnedConfig> {
        let admitted = admits(&Problem::from(*problem), problem.len, Needs::of(problem.dtype), device);
        let Ok(adapter) = admitted else { return Vec::new() };
        let configs = alone(problem.input_len()).map(|workgroup| OwnedConfig { workgroup });
        configs.filter(|config| config.is_legal(problem, adapter)).collect()
    }

    fn work(&self, problem: &Scatter, config: OwnedConfig, _: &DeviceFacts) -> Work {
        let whole = problem.input_len();
        let looks = whole.saturating_mul(problem.count);
        Work {
            flops: Flops(looks.saturating_mul(3)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: config.groups(problem) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Scatter, config: OwnedConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let groups = spread_groups(config.groups(problem), args.adapter).ok_or_else(illegal)?;
        // Halves are added up as f32 and rounded once.
        let (element, sum) = match problem.dtype {
            DType::F16 => ("f16", "f32"),
            DType::F64 => ("f64", "f64"),
            DType::I32 => ("i32", "i32"),
            _ => ("f32", "f32"),
        };
        let nth = if problem.each { "source" } else { "nth" };
        let main = with_main(include_str!("owned.wgsl")).replace("$NTH", nth);
        let text = format!("alias T = {element};\nalias S = {sum};\n{}{main}", indices::text(problem.index));
        let params =
            [problem.input_len(), problem.inner, problem.count, problem.len].map(|word| word as u32).to_vec();
        let bindings = vec![
            Binding::read(BindTarget::Input(0)),
            Binding::read(BindTarget::Input(1)),
            Binding::write(BindTarget::Out),
            Binding::write(BindTarget::Status),
            Binding::read(BindTarget::Input(2)),
        ];
        let needs = Needs::of(problem.dtype);
        args.program.push(in_a_row(text.into(), config.workgroup, groups, needs, bindings, params));
        Ok(())
    }
}
