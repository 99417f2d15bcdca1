//! Recipes of elementwise steps alone: one pass, loads of up to four elements, nothing between the steps is stored.

use super::recipe::{self, At};
use crate::kernels::elementwise::digits::{advance, digits, step_digits};
use crate::kernels::elementwise::shader::most_bytes;
use crate::kernels::elementwise::walk::{Walk, choices};
use crate::program::{
    BindTarget, Binding, Dispatch, Gpu, Launched, MAX_STEPS, PARAMS_BINDING, Writer, binding_number,
};
use std::borrow::Cow;
use trimtab_core::{AdapterFacts, Bytes, Decline, DeviceFacts, Flops, Fused, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, vectors an invocation handles, elements of a vector, and the order of the items:
    /// 0 the grid apart, 1 one after the other.
    pub struct VectorConfig { workgroup, items, vector, order }
}

/// See the module.
#[derive(Debug)]
pub struct VectorKernel;

impl Variant<Gpu> for VectorKernel {
    type Problem = Fused;
    type Config = VectorConfig;

    identity!("gpu.fused.vector", Vectorized);

    fn declines(&self, problem: &Fused, device: &DeviceFacts) -> Option<Decline> {
        if let Some((op, _)) = problem.end() {
            return Some(Decline::from(format!("takes elementwise steps, these end in {}", op.name())));
        }
        if problem.product().is_some() {
            return Some(Decline::because("takes elementwise steps, these begin with a product"));
        }
        match recipe::admits(problem, device) {
            Ok(adapter) => Parts::new(problem, adapter).err(),
            Err(decline) => Some(decline),
        }
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<VectorConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let Ok(parts) = Parts::new(problem, adapter) else { return Vec::new() };
        let mut configs = Vec::new();
        for vector in recipe::vector_sizes(problem) {
            let count = parts.most.min(parts.units) * parts.unit / u64::from(vector);
            configs.extend(choices(count, adapter).into_iter().map(|choice| VectorConfig {
                workgroup: choice.workgroup,
                items: choice.items,
                vector,
                order: choice.order,
            }));
        }
        configs
    }

    fn work(&self, problem: &Fused, config: VectorConfig, device: &DeviceFacts) -> Work {
        let parts = device.adapter.as_deref().and_then(|adapter| Parts::new(problem, adapter).ok());
        let Some(parts) = parts else { return Work::default() };
        let len = problem.len();
        let per_group = u64::from(config.workgroup) * u64::from(config.items) * u64::from(config.vector);
        let groups = (parts.most.min(parts.units) * parts.unit).div_ceil(per_group.max(1));
        // Per vector the digits of row and column: three operations each.
        let index = if problem.outer() > 1 { 6 * len / u64::from(config.vector.max(1)) } else { 0 };
        let work = Work {
            flops: Flops(index),
            bytes: Bytes(len.saturating_mul(problem.dtype.size())),
            scratch: Bytes(0),
            launches: parts.units.div_ceil(parts.most) as u32,
            threads: 1,
            lanes: config.vector,
            barriers: 0,
            invocations: groups * u64::from(config.workgroup),
        };
        recipe::with_steps(problem, work, 0)
    }

    fn launch(&self, problem: &Fused, config: VectorConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let plain = problem.end().is_none() && problem.product().is_none();
        let known = recipe::vector_sizes(problem).contains(&config.vector);
        if !plain || config.workgroup == 0 || config.items == 0 || !known {
            return Err(wrong());
        }
        let parts = Parts::new(problem, writer.adapter)
            .map_err(|decline| LaunchError::Kernel(decline.to_string()))?;
        let text: Cow<'static, str> = Cow::Owned(text(problem, config.vector));
        let mut first = 0;
        while first < parts.units && !problem.is_empty() {
            let units = parts.most.min(parts.units - first);
            let count = units * parts.unit / u64::from(config.vector);
            let walk = Walk::new(count, config.workgroup, config.items, config.order, writer.adapter)
                .ok_or_else(wrong)?;
            let mut params = walk.params(count as u32);
            if problem.outer() > 1 {
                let sizes = [units, problem.inner() / u64::from(config.vector)];
                let digits = step_digits(&sizes, walk.step);
                for (size, digit) in sizes.into_iter().zip(digits) {
                    params.extend([size as u32, 0, 0, digit]);
                }
            }
            writer.program.push(Dispatch {
                text: text.clone(),
                constants: vec![("WIDTH", f64::from(config.workgroup))],
                needs: recipe::needs(problem),
                workgroup: [config.workgroup, 1, 1],
                workgroup_bytes: 0,
                groups: walk.groups,
                bindings: parts.bindings(problem, first, units),
                params,
            });
            first += units;
        }
        Ok(())
    }
}

/// A problem in parts that a step can see: whole rows, or elements where there is one row.
#[derive(Debug)]
struct Parts {
    /// Elements of a unit.
    unit: u64,
    units: u64,
    /// Units of a part; the next begins where a binding may.
    most: u64,
}

impl Parts {
    fn new(problem: &Fused, adapter: &AdapterFacts) -> Result<Parts, Decline> {
        let (unit, units) =
            if problem.outer() > 1 { (problem.inner(), problem.outer()) } else { (1, problem.len()) };
        let (limit, size) = (most_bytes(adapter), problem.dtype.size());
        if problem.len().saturating_mul(size) <= limit {
            return Ok(Parts { unit, units, most: units.max(1) });
        }
        // So many units begin where a binding may, whatever they are.
        let step = u64::from(adapter.offset_alignment).max(64) / size;
        let most = limit / size / unit.max(1) / step * step;
        if most == 0 {
            let bytes = unit.saturating_mul(step).saturating_mul(size);
            return Err(Decline::from(format!(
                "takes bindings up to {limit} bytes, {step} rows of the result have {bytes}"
            )));
        }
        let parts = units.div_ceil(most);
        if parts > MAX_STEPS as u64 {
            return Err(Decline::from(format!("takes up to {MAX_STEPS} dispatches, this needs {parts}")));
        }
        Ok(Parts { unit, units, most })
    }

    /// The buffers of a part, in the order of the text.
    fn bindings(&self, problem: &Fused, first: u64, units: u64) -> Vec<Binding> {
        let size = problem.dtype.size();
        let mut bindings = recipe::bindings(problem);
        bindings.push(Binding::write(BindTarget::Out));
        if units == self.units {
            return bindings;
        }
        for binding in &mut bindings {
            let len = match binding.place {
                BindTarget::Input(input) if usize::from(input) < problem.inputs() => {
                    problem.input_len(usize::from(input))
                }
                BindTarget::Out => problem.len(),
                _ => continue,
            };
            // What has elements for every unit is cut as they are.
            let cut = match (problem.outer() > 1, binding.place) {
                (_, BindTarget::Out) => true,
                (true, BindTarget::Input(input)) => problem.varies(usize::from(input)).outer(),
                _ => len == problem.len(),
            };
            if cut {
                let each = len / self.units * size;
                *binding = binding.part(first * each, (units * each).next_multiple_of(4));
            }
        }
        bindings
    }
}

fn text(problem: &Fused, vector: u32) -> String {
    let by_place = problem.outer() > 1;
    let result = recipe::bindings(problem).len();
    let at = At { all: "at", row: "digit0", column: "digit1" };
    let main = include_str!("vector.wgsl")
        .replace("PARAMS", &PARAMS_BINDING.to_string())
        .replace("ROWS", if by_place { "4" } else { "2" })
        .replace("ONCE", &recipe::read_once(problem))
        .replace("DIGITS", &if by_place { digits(2) } else { String::new() })
        .replace("ADVANCE", &if by_place { advance(2) } else { String::new() })
        .replace("EACH", &recipe::call(problem, None, &at));
    let declared = recipe::declared(problem, |at| at);
    let number = binding_number(result);
    let result = format!("@group(0) @binding({number}) var<storage, read_write> result: array<V>;\n");
    [recipe::types(problem, vector), declared, result, recipe::functions(problem, vector), main].concat()
}
