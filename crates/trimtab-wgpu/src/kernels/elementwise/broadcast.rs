//! Operands with repeated axes: an invocation finds the position of its first item by division and goes on by adding the
//! digits of its step, so that further items cost no division.

use super::digits::offset;
use super::shader::{self, Elements, Load};
use super::walk::{self, Walk, WalkConfig, choices};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Bytes, Decline, DeviceFacts, Elementwise, Flops, LaunchError, Variant, Work};

/// See the module.
#[derive(Debug)]
pub struct BroadcastKernel;

impl Variant<Gpu> for BroadcastKernel {
    type Problem = Elementwise;
    type Config = WalkConfig;

    identity!("gpu.elementwise.broadcast", Parallel);

    fn declines(&self, problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
        if problem.dims().len() < 2 {
            return Some(Decline::because("takes operands with repeated axes, these have none"));
        }
        match shader::admits(problem, device) {
            Ok(adapter) => shader::too_large(problem, shader::most_bytes(adapter), "bindings"),
            Err(decline) => Some(decline),
        }
    }

    fn configs(&self, problem: &Elementwise, device: &DeviceFacts) -> Vec<WalkConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let of_vectors = |vector| choices(problem.out_len() / u64::from(vector), vector, adapter);
        Elements::of(problem).vector_sizes(row(problem)).into_iter().flat_map(of_vectors).collect()
    }

    fn work(&self, problem: &Elementwise, config: WalkConfig, _: &DeviceFacts) -> Work {
        let (len, size) = (problem.out_len(), problem.dtype.size());
        // A vector reads a vector or one element of each operand, from the cache where it is repeated.
        let loads = |varies: bool| if varies { len } else { len / u64::from(config.vector.max(1)) };
        let last = problem.dims().len().saturating_sub(1);
        let elements = len + loads(problem.lhs_varies(last)) + loads(problem.rhs_varies(last));
        // Per vector the digits (three operations an axis) and both offsets (two operations an axis each).
        let vectors = len / u64::from(config.vector.max(1));
        let index = vectors.saturating_mul(7 * problem.dims().len() as u64);
        Work {
            flops: Flops(len.saturating_mul(shader::flops(problem.op)).saturating_add(index)),
            bytes: Bytes(elements.saturating_mul(size)),
            launches: u32::from(len > 0),
            threads: 1,
            lanes: config.vector,
            invocations: config.invocations(len),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Elementwise, config: WalkConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let elements = Elements::of(problem);
        let known = elements.vector_sizes(row(problem)).contains(&config.vector);
        if problem.dims().len() < 2 || !known {
            return Err(wrong());
        }
        let count = problem.out_len() / u64::from(config.vector);
        if count == 0 {
            return Ok(());
        }
        let walk = Walk::new(count, config, writer.adapter).ok_or_else(wrong)?;
        let (rank, last) = (problem.dims().len(), problem.dims().len() - 1);
        let (lhs, rhs) = (Load::of(problem.lhs_varies(last)), Load::of(problem.rhs_varies(last)));
        let each = format!("result[at] = each(lhs[{}], rhs[{}])", offset(rank, "y"), offset(rank, "z"));
        let text = shader::text(problem, config.vector, lhs, rhs, &walk::text(rank, "", &each));
        let (bindings, axes) = (shader::bindings(problem), axes(problem, config.vector.into()));
        writer.program.push(walk.dispatch(text.into(), elements.needs(), bindings, &axes));
        Ok(())
    }
}

/// Elements of a row.
fn row(problem: &Elementwise) -> u64 {
    problem.dims().last().copied().unwrap_or(1)
}

/// For each axis its size and both strides; the last axis counted in vectors, and so the strides of an operand that varies
/// along it.
fn axes(problem: &Elementwise, vector: u64) -> Vec<[u64; 3]> {
    let mut axes: Vec<[u64; 3]> = problem.dims().iter().map(|&size| [size, 0, 0]).collect();
    if let Some([last, ..]) = axes.last_mut() {
        *last /= vector;
    }
    let (mut left, mut right) = (1, 1);
    for (number, [size, lhs, rhs]) in axes.iter_mut().enumerate().rev() {
        if problem.lhs_varies(number) {
            *lhs = left;
            left *= *size;
        }
        if problem.rhs_varies(number) {
            *rhs = right;
            right *= *size;
        }
    }
    axes
}
