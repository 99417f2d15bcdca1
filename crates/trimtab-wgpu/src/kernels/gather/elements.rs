//! Every invocation takes some elements, the grid apart, or vectors of four where rows are made of such: neighbours read neighbours
//! where rows are long.

use crate::kernels::indices::{self, admits, choices, groups, moved};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, Gather, LaunchError, Problem, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, items an invocation moves, and elements of an item.
    pub struct ElementsConfig { workgroup, items, vector }
}

/// See the module.
#[derive(Debug)]
pub struct GatherElements;

fn needs(problem: &Gather) -> Needs {
    Needs { f64: false, ..Needs::of(problem.dtype) }
}

/// Elements that may be moved at once.
fn vectors(problem: &Gather) -> &'static [u32] {
    match !problem.each && problem.inner.is_multiple_of(4) && problem.dtype.size() == 4 {
        true => &[4, 1],
        false => &[1],
    }
}

impl Variant<Gpu> for GatherElements {
    type Problem = Gather;
    type Config = ElementsConfig;

    identity!("gpu.gather.elements", Vectorized);

    fn declines(&self, problem: &Gather, device: &DeviceFacts) -> Option<Decline> {
        let declined = admits(&Problem::from(*problem), problem.len, needs(problem), device).err();
        let none = || Decline::because("the adapter does not take so many workgroups");
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Gather, device: &DeviceFacts) -> Vec<ElementsConfig> {
        let problem_of = Problem::from(*problem);
        let Ok(adapter) = admits(&problem_of, problem.len, needs(problem), device) else { return Vec::new() };
        let mut configs = Vec::new();
        for &vector in vectors(problem) {
            let choices = choices(problem.along_count() / u64::from(vector), adapter).into_iter();
            configs.extend(choices.map(|[workgroup, items]| ElementsConfig { workgroup, items, vector }));
        }
        configs
    }

    fn work(&self, problem: &Gather, config: ElementsConfig, _: &DeviceFacts) -> Work {
        let taken = problem.along_count();
        let items = taken / u64::from(config.vector.max(1));
        let bytes = taken.saturating_mul(2 * problem.dtype.size());
        Work {
            // Two divisions and the place.
            flops: Flops(items.saturating_mul(16)),
            bytes: Bytes(bytes.saturating_add(items.saturating_mul(problem.index.size()))),
            launches: 1,
            threads: 1,
            lanes: config.vector,
            invocations: groups(items, config.workgroup, config.items) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Gather, config: ElementsConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !vectors(problem).contains(&config.vector) {
            return Err(illegal());
        }
        let items = problem.along_count() / u64::from(config.vector);
        if !choices(items, args.adapter).contains(&[config.workgroup, config.items]) {
            return Err(illegal());
        }
        let groups =
            spread_groups(groups(items, config.workgroup, config.items), args.adapter).ok_or_else(illegal)?;
        let element = moved(problem.dtype);
        let of = if config.vector == 1 { element.to_string() } else { format!("vec4<{element}>") };
        let nth = if problem.each { "at" } else { "row % count" };
        let main = with_main(include_str!("elements.wgsl")).replace("$NTH", nth);
        let text = format!("alias V = {of};\n{}{main}", indices::text(problem.index));
        let invocations = groups[0] * groups[1] * config.workgroup;
        let inner = problem.inner / u64::from(config.vector);
        let params = [items, inner, problem.count, problem.len].map(|word| word as u32).into_iter();
        let bindings = vec![
            Binding::read(BindTarget::Input(0)),
            Binding::read(BindTarget::Input(1)),
            Binding::write(BindTarget::Out),
            Binding::write(BindTarget::Status),
        ];
        let params = params.chain([invocations]).collect();
        args.program.push(in_a_row(text.into(), config.workgroup, groups, needs(problem), bindings, params));
        Ok(())
    }
}
