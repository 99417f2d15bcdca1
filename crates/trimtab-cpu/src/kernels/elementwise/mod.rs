//! Elementwise kernels: unary and binary functions with broadcasting.
//!
//! Semantics every kernel shares: NaN wins in min and max, relu keeps NaN; integers wrap in add, sub, mul, neg, abs, pow and
//! `MIN / -1`, negative powers round toward zero, and a division by zero or a zero to a negative power fails the launch
//! with the index of the first such element. Accuracy of floats: see [`math`].

mod chunked;
mod halves;
mod layout;
pub(super) mod math;
pub(super) mod ops;
mod plain;
mod reference;
mod span;
mod vector;

use crate::kernels::{Kernels, lanes_of, shared_work};
use crate::simd::Levels;
use trimtab_core::{Bytes, DType, DeviceFacts, Elementwise, Flops, Work, erase};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let levels = Levels::detect();
    vec![
        erase(vector::VectorKernel { levels }),
        erase(chunked::ChunkedKernel { levels }),
        erase(halves::HalvesKernel { levels }),
        erase(plain::PlainKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// Thread counts worth trying: powers of two below the device's, and the device's, largest first, at most `most`; only
/// one where the work is too small to share.
pub(crate) fn thread_counts(device: &DeviceFacts, shareable: bool, most: usize) -> Vec<u32> {
    let all = device.threads.max(1);
    if !shareable || all == 1 {
        return vec![1];
    }
    let mut counts = vec![all];
    let mut power = all.next_power_of_two() / 2;
    while power > 1 && counts.len() + 1 < most {
        counts.push(power);
        power /= 2;
    }
    counts.push(1);
    counts
}

/// Bytes of the last cache of the device, if it is known.
pub(crate) fn last_cache(device: &DeviceFacts) -> Option<Bytes> {
    device.caches.iter().max_by_key(|cache| cache.level).map(|cache| cache.size)
}

/// Bytes of all operands, each element of the operands and the result counted as often as it is walked over.
fn bytes_walked(problem: &Elementwise) -> Bytes {
    let elements = problem.lhs_len().saturating_add(problem.rhs_len()).saturating_add(problem.out_len());
    Bytes(elements.saturating_mul(problem.dtype.size()))
}

/// What so many threads do with vectors of so many `f32` lanes.
fn work(problem: &Elementwise, threads: u32, lanes: u32) -> Work {
    let flops = problem.out_len().saturating_mul(ops::flops(problem.op, problem.dtype == DType::F64));
    shared_work(Flops(flops), bytes_walked(problem), threads, lanes_of(problem.dtype, lanes))
}

/// The lengths of the operands, as the launch must have them.
fn lens(problem: &Elementwise) -> [u64; 3] {
    [problem.lhs_len(), problem.rhs_len(), problem.out_len()]
}
