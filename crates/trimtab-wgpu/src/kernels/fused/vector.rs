//! Recipes of elementwise steps alone: one pass, loads of up to four elements, nothing between the steps is stored.

use super::recipe::{self, At};
use crate::kernels::elementwise::shader::most_bytes;
use crate::kernels::elementwise::walk::{self, Walk, WalkConfig, choices};
use crate::program::{BindTarget, Binding, Gpu, Launched, MAX_STEPS, Writer, binding_number};
use std::borrow::Cow;
use trimtab_core::{AdapterFacts, Bytes, Decline, DeviceFacts, Flops, Fused, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct VectorKernel;

impl Variant<Gpu> for VectorKernel {
    type Problem = Fused;
    type Config = WalkConfig;

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

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<WalkConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let Ok(parts) = Parts::new(problem, adapter) else { return Vec::new() };
        let of_vectors = |vector| choices(parts.largest() / u64::from(vector), vector, adapter);
        recipe::elements(problem).vector_sizes(problem.inner()).into_iter().flat_map(of_vectors).collect()
    }

    fn work(&self, problem: &Fused, config: WalkConfig, device: &DeviceFacts) -> Work {
        let parts = device.adapter.as_deref().and_then(|adapter| Parts::new(problem, adapter).ok());
        let Some(parts) = parts else { return Work::default() };
        let len = problem.len();
        // Per vector the digits of row and column: three operations each.
        let index = if problem.outer() > 1 { 6 * len / u64::from(config.vector.max(1)) } else { 0 };
        let work = Work {
            flops: Flops(index),
            bytes: Bytes(len.saturating_mul(problem.dtype.size())),
            launches: parts.units.div_ceil(parts.most) as u32,
            threads: 1,
            lanes: config.vector,
            invocations: config.invocations(parts.largest()),
            ..Work::default()
        };
        recipe::with_steps(problem, work, 0)
    }

    fn launch(&self, problem: &Fused, config: WalkConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let plain = problem.end().is_none() && problem.product().is_none();
        let known = recipe::elements(problem).vector_sizes(problem.inner()).contains(&config.vector);
        if !plain || !known {
            return Err(wrong());
        }
        let parts = Parts::new(problem, writer.adapter)
            .map_err(|decline| LaunchError::Kernel(decline.to_string()))?;
        let text: Cow<'static, str> = Cow::Owned(text(problem, config.vector));
        let mut first = 0;
        while first < parts.units && !problem.is_empty() {
            let units = parts.most.min(parts.units - first);
            let count = units * parts.unit / u64::from(config.vector);
            let walk = Walk::new(count, config, writer.adapter).ok_or_else(wrong)?;
            let axes = [[units, 0, 0], [problem.inner() / u64::from(config.vector), 0, 0]];
            let (needs, bindings) =
                (recipe::elements(problem).needs(), parts.bindings(problem, first, units));
            writer.program.push(walk.dispatch(text.clone(), needs, bindings, &axes[..digits_of(problem)]));
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

    /// Elements of the largest part.
    fn largest(&self) -> u64 {
        self.most.min(self.units) * self.unit
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

/// Digits of a position: row and column, where inputs may be found by them.
fn digits_of(problem: &Fused) -> usize {
    if problem.outer() > 1 { 2 } else { 0 }
}

fn text(problem: &Fused, vector: u32) -> String {
    let at = At { all: "at", row: "digit0", column: "digit1" };
    let each = format!("result[at] = {}", recipe::call(problem, None, &at));
    let main = walk::text(digits_of(problem), &recipe::read_once(problem), &each);
    let declared = recipe::declared(problem, |at| at);
    let number = binding_number(recipe::bindings(problem).len());
    let result = format!("@group(0) @binding({number}) var<storage, read_write> result: array<V>;\n");
    [recipe::elements(problem).types(vector), declared, result, recipe::functions(problem, vector), main]
        .concat()
}
