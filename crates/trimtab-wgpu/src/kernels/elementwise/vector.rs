//! Operands that lie beside each other, or a single number on one side: no index arithmetic, loads of up to four elements.

use super::shader::{self, Load};
use super::walk::{Walk, choices};
use crate::program::{Dispatch, Gpu, Launched, Writer};
use std::borrow::Cow;
use trimtab_core::{
    AdapterFacts, Bytes, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, vectors an invocation handles, elements of a vector, and the order of the items:
    /// 0 the grid apart, 1 one after the other.
    pub struct VectorConfig { workgroup, items, vector, order }
}

/// See the module.
#[derive(Debug)]
pub struct VectorKernel;

impl Variant<Gpu> for VectorKernel {
    type Problem = Elementwise;
    type Config = VectorConfig;

    identity!("gpu.elementwise.vector", Vectorized);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if problem.dims().len() > 1 {
            let rank = problem.dims().len();
            return Some(Decline::from(format!(
                "takes operands without repeated axes, these have {rank} after merging"
            )));
        }
        shader::declines(problem, device)
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<VectorConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let mut configs = Vec::new();
        let len = problem.out_len();
        for vector in shader::vector_sizes(problem, |size| len.is_multiple_of(u64::from(size))) {
            let count = part_len(problem, adapter).min(len) / u64::from(vector);
            let choices = choices(count, adapter).into_iter();
            configs.extend(choices.map(|choice| VectorConfig {
                workgroup: choice.workgroup,
                items: choice.items,
                vector,
                order: choice.order,
            }));
        }
        configs
    }

    fn work(&self, problem: &Elementwise, config: VectorConfig, device: &DeviceFacts) -> Work {
        let (len, size) = (problem.out_len(), problem.dtype.size());
        let part = device.adapter.as_deref().map_or(len, |adapter| part_len(problem, adapter)).max(1);
        let bytes = (problem.lhs_len() + problem.rhs_len() + len).saturating_mul(size);
        let per_group = u64::from(config.workgroup) * u64::from(config.items) * u64::from(config.vector);
        let groups = len.min(part).div_ceil(per_group.max(1));
        Work {
            flops: Flops(len.saturating_mul(shader::flops(problem.op))),
            bytes: Bytes(bytes),
            launches: len.div_ceil(part) as u32,
            threads: 1,
            lanes: config.vector,
            invocations: groups * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Elementwise, config: VectorConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let (len, size, vector) = (problem.out_len(), problem.dtype.size(), u64::from(config.vector));
        let fits = |size: u32| len.is_multiple_of(u64::from(size));
        let known = shader::vector_sizes(problem, fits).contains(&config.vector);
        if problem.dims().len() > 1 || config.workgroup == 0 || config.items == 0 || !known {
            return Err(wrong());
        }
        let (lhs, rhs) = loads(problem);
        let text: Cow<'static, str> =
            Cow::Owned(shader::text(problem, config.vector, lhs, rhs, &main(lhs, rhs)));
        let part = part_len(problem, writer.adapter);
        let mut first = 0;
        while first < len {
            let elements = part.min(len - first);
            let count = elements / vector;
            let walk = Walk::new(count, config.workgroup, config.items, config.order, writer.adapter)
                .ok_or_else(wrong)?;
            let mut bindings = shader::bindings(problem);
            if elements < len {
                let whole = [(0, lhs == Load::Vector), (1, rhs == Load::Vector), (bindings_out(rhs), true)];
                for (number, _) in whole.into_iter().filter(|(_, split)| *split) {
                    let bytes = (elements * size).next_multiple_of(4);
                    bindings[number] = bindings[number].part(first * size, bytes);
                }
            }
            writer.program.push(Dispatch {
                text: text.clone(),
                constants: vec![("WIDTH", f64::from(config.workgroup))],
                needs: shader::needs(problem),
                workgroup: [config.workgroup, 1, 1],
                workgroup_bytes: 0,
                groups: walk.groups,
                bindings,
                params: walk.params(count as u32),
            });
            first += elements;
        }
        Ok(())
    }
}

/// How both operands are read.
fn loads(problem: &Elementwise) -> (Load, Load) {
    let load = |varies: bool| if varies { Load::Vector } else { Load::Repeated };
    match problem.op {
        ElementwiseOp::Unary(_) => (Load::Vector, Load::Nothing),
        ElementwiseOp::Binary(_) => (load(problem.lhs_varies(0)), load(problem.rhs_varies(0))),
    }
}

/// The number of the result's binding.
fn bindings_out(rhs: Load) -> usize {
    if rhs == Load::Nothing { 1 } else { 2 }
}

/// The text with its loads: a single number is read once, before the loop.
fn main(lhs: Load, rhs: Load) -> String {
    let mut once = String::new();
    let mut loads = Vec::new();
    for (name, load) in [("lhs", lhs), ("rhs", rhs)] {
        match load {
            Load::Nothing => (),
            Load::Vector => loads.push(format!("{name}[at]")),
            Load::Repeated => {
                once.push_str(&format!("let {name}_number = {name}[0];\n"));
                loads.push(format!("{name}_number"));
            }
        }
    }
    include_str!("vector.wgsl").replace("SCALAR_LOADS", &once).replace("LOADS", &loads.join(", "))
}

/// Elements one step handles: whole vectors, and the next part begins where a binding may.
fn part_len(problem: &Elementwise, adapter: &AdapterFacts) -> u64 {
    let most = shader::most_bytes(adapter);
    let aligned = u64::from(adapter.offset_alignment.max(64));
    (most / aligned * aligned / problem.dtype.size()).max(1)
}
