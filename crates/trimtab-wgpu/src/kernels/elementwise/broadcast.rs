//! Operands with repeated axes: an invocation finds the position of its first item by division and goes on by adding the
//! digits of its step, so that further items cost no division.

use super::digits::{advance, digits, step_digits};
use super::shader::{self, Load};
use super::walk::{Walk, choices};
use crate::program::{Dispatch, Gpu, Launched, Writer};
use std::borrow::Cow;
use trimtab_core::{Bytes, Decline, DeviceFacts, Elementwise, Flops, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, vectors an invocation handles, elements of a vector, and the order of the items:
    /// 0 the grid apart, 1 one after the other.
    pub struct BroadcastConfig { workgroup, items, vector, order }
}

/// See the module.
#[derive(Debug)]
pub struct BroadcastKernel;

impl Variant<Gpu> for BroadcastKernel {
    type Problem = Elementwise;
    type Config = BroadcastConfig;

    identity!("gpu.elementwise.broadcast", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if problem.dims().len() < 2 {
            return Some(Decline::because("takes operands with repeated axes, these have none"));
        }
        let adapter = device.adapter.as_deref();
        shader::declines(problem, device).or_else(|| {
            adapter.and_then(|adapter| shader::over(problem, shader::most_bytes(adapter), "bindings"))
        })
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<BroadcastConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let mut configs = Vec::new();
        for vector in shader::vector_sizes(problem, |size| fits(problem, size)) {
            let choices = choices(problem.out_len() / u64::from(vector), adapter).into_iter();
            configs.extend(choices.map(|choice| BroadcastConfig {
                workgroup: choice.workgroup,
                items: choice.items,
                vector,
                order: choice.order,
            }));
        }
        configs
    }

    fn work(&self, problem: &Elementwise, config: BroadcastConfig, _: &DeviceFacts) -> Work {
        let (len, size) = (problem.out_len(), problem.dtype.size());
        // A vector reads a vector or one element of each operand, from the cache where it is repeated.
        let loads = |varies: bool| if varies { len } else { len / u64::from(config.vector.max(1)) };
        let last = problem.dims().len().saturating_sub(1);
        let elements = len + loads(problem.lhs_varies(last)) + loads(problem.rhs_varies(last));
        let per_group = u64::from(config.workgroup) * u64::from(config.items) * u64::from(config.vector);
        // Per vector the digits (three operations an axis) and both offsets (two operations an axis each).
        let vectors = len / u64::from(config.vector.max(1));
        let index = vectors.saturating_mul(7 * problem.dims().len() as u64);
        Work {
            flops: Flops(len.saturating_mul(shader::flops(problem.op)).saturating_add(index)),
            bytes: Bytes(elements.saturating_mul(size)),
            launches: u32::from(len > 0),
            threads: 1,
            lanes: config.vector,
            invocations: len.div_ceil(per_group.max(1)) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Elementwise, config: BroadcastConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let known = shader::vector_sizes(problem, |size| fits(problem, size)).contains(&config.vector);
        if problem.dims().len() < 2 || config.workgroup == 0 || config.items == 0 || !known {
            return Err(wrong());
        }
        let count = problem.out_len() / u64::from(config.vector);
        if count == 0 {
            return Ok(());
        }
        let walk = Walk::new(count, config.workgroup, config.items, config.order, writer.adapter);
        let walk = walk.ok_or_else(wrong)?;
        let last = problem.dims().len() - 1;
        let load = |varies: bool| if varies { Load::Vector } else { Load::Repeated };
        let (lhs, rhs) = (load(problem.lhs_varies(last)), load(problem.rhs_varies(last)));
        let mut params = walk.params(count as u32);
        params.extend(axes(problem, u64::from(config.vector), walk.step));
        writer.program.push(Dispatch {
            text: Cow::Owned(shader::text(problem, config.vector, lhs, rhs, &main(last + 1))),
            constants: vec![("WIDTH", f64::from(config.workgroup))],
            needs: shader::needs(problem),
            workgroup: [config.workgroup, 1, 1],
            workgroup_bytes: 0,
            groups: walk.groups,
            bindings: shader::bindings(problem),
            params,
        });
        Ok(())
    }
}

/// Whether rows are whole vectors.
fn fits(problem: &Elementwise, vector: u32) -> bool {
    problem.dims().last().is_some_and(|last| last % u64::from(vector) == 0)
}

/// Four words an axis: its size, both strides, and the step's digit; the last axis counted in vectors, and so the strides
/// of an operand that varies along it.
fn axes(problem: &Elementwise, vector: u64, step: u32) -> Vec<u32> {
    let mut sizes = problem.dims().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last /= vector;
    }
    let digits = step_digits(&sizes, step);
    let mut words = vec![0; 4 * sizes.len()];
    let (mut left, mut right) = (1u64, 1u64);
    for (axis, &size) in sizes.iter().enumerate().rev() {
        words[4 * axis] = size as u32;
        if problem.lhs_varies(axis) {
            words[4 * axis + 1] = left as u32;
            left *= size;
        }
        if problem.rhs_varies(axis) {
            words[4 * axis + 2] = right as u32;
            right *= size;
        }
        words[4 * axis + 3] = digits[axis];
    }
    words
}

/// The text for that many axes.
fn main(rank: usize) -> String {
    let sum = |part: &str| {
        let terms: Vec<String> =
            (0..rank).map(|axis| format!("digit{axis} * params[{}].{part}", axis + 2)).collect();
        terms.join(" + ")
    };
    include_str!("broadcast.wgsl")
        .replace("ROWS", &(rank + 2).to_string())
        .replace("DIGITS", &digits(rank))
        .replace("ADVANCE", &advance(rank))
        .replace("LHS_OFFSET", &sum("y"))
        .replace("RHS_OFFSET", &sum("z"))
}
