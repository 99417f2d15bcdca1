//! Operands that lie beside each other, or a single number on one side: no index arithmetic, loads of up to four elements.

use super::shader::{self, Elements, Load};
use super::walk::{self, Walk, WalkConfig, choices};
use crate::program::{Gpu, Launched, Writer};
use std::borrow::Cow;
use trimtab_core::{
    AdapterFacts, Bytes, Decline, DeviceFacts, Elementwise, ElementwiseOp, Flops, LaunchError, Variant, Work,
};

/// See the module.
#[derive(Debug)]
pub struct VectorKernel;

impl Variant<Gpu> for VectorKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("gpu.elementwise.vector", Vectorized);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if problem.dims().len() > 1 {
            let rank = problem.dims().len();
            return Some(Decline::from(format!(
                "takes operands without repeated axes, these have {rank} after merging"
            )));
        }
        shader::admits(problem, device).err()
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let mut configs = Vec::new();
        let len = problem.out_len();
        for vector in Elements::of(problem).vector_sizes(len) {
            let count = part_len(problem, adapter).min(len) / u64::from(vector);
            configs.extend(choices(count, vector, adapter));
        }
        configs
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, device: &DeviceFacts) -> Work {
        let (len, size) = (problem.out_len(), problem.dtype.size());
        let part = device.adapter.as_deref().map_or(len, |adapter| part_len(problem, adapter)).max(1);
        let bytes = (problem.lhs_len() + problem.rhs_len() + len).saturating_mul(size);
        Work {
            flops: Flops(len.saturating_mul(shader::flops(problem.op))),
            bytes: Bytes(bytes),
            launches: len.div_ceil(part) as u32,
            threads: 1,
            lanes: config.vector,
            invocations: config.invocations(len.min(part)),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Elementwise, config: WalkConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let (len, size, elements) = (problem.out_len(), problem.dtype.size(), Elements::of(problem));
        if problem.dims().len() > 1 || !elements.vector_sizes(len).contains(&config.vector) {
            return Err(wrong());
        }
        let (lhs, rhs) = loads(problem);
        let text: Cow<'static, str> = shader::text(problem, config.vector, lhs, rhs, &main(lhs, rhs)).into();
        let part = part_len(problem, writer.adapter);
        let mut first = 0;
        while first < len {
            let some = part.min(len - first);
            let count = some / u64::from(config.vector);
            let walk = Walk::new(count, config, writer.adapter).ok_or_else(wrong)?;
            let mut bindings = shader::bindings(problem);
            if some < len {
                let whole = [(0, lhs == Load::Vector), (1, rhs == Load::Vector), (bindings_out(rhs), true)];
                for (number, _) in whole.into_iter().filter(|(_, split)| *split) {
                    let bytes = (some * size).next_multiple_of(4);
                    bindings[number] = bindings[number].part(first * size, bytes);
                }
            }
            writer.program.push(walk.dispatch(text.clone(), elements.needs(), bindings, &[]));
            first += some;
        }
        Ok(())
    }
}

/// How both operands are read.
fn loads(problem: &Elementwise) -> (Load, Load) {
    match problem.op {
        ElementwiseOp::Unary(_) => (Load::Vector, Load::Nothing),
        ElementwiseOp::Binary(_) => (Load::of(problem.lhs_varies(0)), Load::of(problem.rhs_varies(0))),
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
                once.push_str(&format!("    let {name}_number = {name}[0];\n"));
                loads.push(format!("{name}_number"));
            }
        }
    }
    walk::text(0, &once, &format!("result[at] = each({})", loads.join(", ")))
}

/// Elements one step handles: whole vectors, and the next part begins where a binding may.
fn part_len(problem: &Elementwise, adapter: &AdapterFacts) -> u64 {
    let most = shader::most_bytes(adapter);
    let aligned = u64::from(adapter.offset_alignment.max(64));
    (most / aligned * aligned / problem.dtype.size()).max(1)
}
