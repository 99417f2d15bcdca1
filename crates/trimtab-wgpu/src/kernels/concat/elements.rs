//! An operand after the other, each a step: every invocation moves some of its elements, the grid apart.

use crate::kernels::indices::{admits, choices, groups, moved};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{Bytes, Concat, Decline, DeviceFacts, Flops, LaunchError, Problem, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, and elements an invocation moves.
    pub struct ElementsConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct ConcatElements;

fn needs(problem: &Concat) -> Needs {
    Needs { f64: false, ..Needs::of(problem.dtype) }
}

/// Elements of the largest operand.
fn largest(problem: &Concat) -> u64 {
    problem.parts().iter().copied().max().unwrap_or(0).saturating_mul(problem.outer())
}

fn admitted<'a>(
    problem: &Concat,
    device: &'a DeviceFacts,
) -> Result<&'a trimtab_core::AdapterFacts, Decline> {
    if problem.parts().contains(&0) {
        return Err(Decline::because("one of the operands has no elements"));
    }
    admits(&Problem::from(*problem), 0, needs(problem), device)
}

impl Variant<Gpu> for ConcatElements {
    type Problem = Concat;
    type Config = ElementsConfig;

    identity!("gpu.concat.elements", Vectorized);

    fn declines(&self, problem: &Concat, device: &DeviceFacts) -> Option<Decline> {
        let none = || Decline::because("the adapter does not take so many workgroups");
        admitted(problem, device).err().or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Concat, device: &DeviceFacts) -> Vec<ElementsConfig> {
        let Ok(adapter) = admitted(problem, device) else { return Vec::new() };
        let choices = choices(largest(problem), adapter).into_iter();
        choices.map(|[workgroup, items]| ElementsConfig { workgroup, items }).collect()
    }

    fn work(&self, problem: &Concat, config: ElementsConfig, _: &DeviceFacts) -> Work {
        Work {
            flops: Flops(problem.out_len().saturating_mul(8)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0),
            launches: problem.parts().len() as u32,
            threads: 1,
            lanes: 1,
            invocations: groups(largest(problem), config.workgroup, config.items)
                * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Concat, config: ElementsConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !choices(largest(problem), args.adapter).contains(&[config.workgroup, config.items]) {
            return Err(illegal());
        }
        let mut first = 0u64;
        for (place, &part) in problem.parts().iter().enumerate() {
            let all = part.saturating_mul(problem.outer());
            let groups = spread_groups(groups(all, config.workgroup, config.items), args.adapter)
                .ok_or_else(illegal)?;
            let text =
                format!("alias T = {};\n{}", moved(problem.dtype), with_main(include_str!("elements.wgsl")));
            let invocations = groups[0] * groups[1] * config.workgroup;
            let params = [all, part, problem.row(), first].map(|word| word as u32).into_iter();
            let bindings =
                vec![Binding::read(BindTarget::Input(place as u8)), Binding::write(BindTarget::Out)];
            let params = params.chain([invocations]).collect();
            args.program.push(in_a_row(
                text.into(),
                config.workgroup,
                groups,
                needs(problem),
                bindings,
                params,
            ));
            first += part;
        }
        Ok(())
    }
}
