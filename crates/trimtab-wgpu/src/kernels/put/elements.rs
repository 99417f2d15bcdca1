//! Every invocation has some elements of the result, the grid apart, and reads the block or what is around it.

use crate::kernels::indices::{admits, choices, groups, moved};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{
    Bytes, Decline, DeviceFacts, Flops, LaunchError, MAX_PUT_RANK, Problem, Put, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements an invocation moves.
    pub struct ElementsConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct PutElements;

fn needs(problem: &Put) -> Needs {
    Needs { f64: false, ..Needs::of(problem.dtype) }
}

impl Variant<Gpu> for PutElements {
    type Problem = Put;
    type Config = ElementsConfig;

    identity!("gpu.put.elements", Vectorized);

    fn declines(&self, problem: &Put, device: &DeviceFacts) -> Option<Decline> {
        let declined = admits(&Problem::from(*problem), 0, needs(problem), device).err();
        let none = || Decline::because("the adapter does not take so many workgroups");
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Put, device: &DeviceFacts) -> Vec<ElementsConfig> {
        let Ok(adapter) = admits(&Problem::from(*problem), 0, needs(problem), device) else {
            return Vec::new();
        };
        let choices = choices(problem.out_len(), adapter).into_iter();
        choices.map(|[workgroup, items]| ElementsConfig { workgroup, items }).collect()
    }

    fn work(&self, problem: &Put, config: ElementsConfig, _: &DeviceFacts) -> Work {
        let size = problem.dtype.size();
        Work {
            flops: Flops(problem.out_len().saturating_mul(8 * problem.dims().len() as u64)),
            bytes: Bytes(problem.out_len().saturating_mul(2 * size)),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: groups(problem.out_len(), config.workgroup, config.items)
                * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Put, config: ElementsConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        let all = problem.out_len();
        if !choices(all, args.adapter).contains(&[config.workgroup, config.items]) {
            return Err(illegal());
        }
        let groups =
            spread_groups(groups(all, config.workgroup, config.items), args.adapter).ok_or_else(illegal)?;
        let around = if problem.fill { "0u" } else { "at" };
        let main = with_main(include_str!("elements.wgsl")).replace("$AROUND", around);
        let text = format!("alias T = {};\n{main}", moved(problem.dtype));
        let mut params =
            vec![all as u32, groups[0] * groups[1] * config.workgroup, problem.dims().len() as u32, 0];
        for axis in (0..problem.dims().len()).rev() {
            params.extend([problem.dims()[axis], problem.first()[axis], problem.size()[axis], 0]);
        }
        params.resize(4 + 4 * MAX_PUT_RANK, 0);
        let bindings = vec![
            Binding::read(BindTarget::Input(0)),
            Binding::read(BindTarget::Input(1)),
            Binding::write(BindTarget::Out),
        ];
        args.program.push(in_a_row(text.into(), config.workgroup, groups, needs(problem), bindings, params));
        Ok(())
    }
}
