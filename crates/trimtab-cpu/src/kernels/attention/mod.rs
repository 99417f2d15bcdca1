//! Attention kernels: for each query the average of all values, weighted by how well their keys fit.
//!
//! Semantics every kernel shares: what is not a number in a query makes its result so; keys a query does not see, and their values, do
//! not reach it unless they are not finite; weights are of distances from the largest score, so that none overflows.

mod apart;
mod online;
mod reference;
mod single;

use crate::args::{Args, Inputs};
use crate::kernels::conv::Float;
use crate::kernels::{Kernels, shared_work};
use crate::simd::{Levels, Simd, Task};
use trimtab_core::{Attention, Bytes, Decline, DeviceFacts, Flops, LaunchError, Problem, Work, erase};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let (level, lanes) = Levels::detect().widest();
    vec![
        erase(online::OnlineKernel { level, lanes }),
        erase(apart::ApartKernel { level, lanes }),
        erase(single::SingleKernel { level, lanes }),
        erase(reference::ReferenceKernel),
    ]
}

/// Least operations a thread is woken for.
const FLOPS_PER_THREAD: u64 = 250_000;

/// Thread counts worth trying, the default first.
fn threads(problem: &Attention, device: &DeviceFacts) -> Vec<u32> {
    let all = device.threads.max(1);
    let mut counts = vec![all, 1];
    counts.retain(|&count| count == 1 || problem.flops() / u64::from(count) >= FLOPS_PER_THREAD);
    counts.dedup();
    counts
}

/// Why kernels of f32 and f64 do not take others.
fn declines(problem: &Attention) -> Option<Decline> {
    crate::kernels::not_of_type(problem.dtype)
}

/// What a kernel does that walks over keys and values so often, and needs so much room.
fn work(problem: &Attention, times: u64, room: u64, threads: u32, lanes: u32) -> Work {
    let [queries, keys, values] = problem.input_lens();
    let elements = queries.saturating_add(keys.saturating_add(values).saturating_mul(times));
    let size = problem.dtype.size();
    let bytes = Bytes(elements.saturating_add(problem.out_len()).saturating_mul(size));
    // A function takes about twenty operations.
    let flops = Flops(problem.flops().saturating_add(problem.pairs().saturating_mul(20)));
    let lanes = crate::kernels::lanes_of(problem.dtype, lanes);
    Work { scratch: Bytes(room.saturating_mul(size)), ..shared_work(flops, bytes, threads, lanes) }
}

/// The same with what the crate `gemm` keeps for each thread.
fn with_slabs(work: Work, device: &DeviceFacts) -> Work {
    let slabs = crate::kernels::matmul::gemm::slabs(device, work.threads);
    Work { scratch: Bytes(work.scratch.0.saturating_add(slabs)), ..work }
}

/// The operands of a launch.
struct Heads<'a, T> {
    queries: &'a [T],
    keys: &'a [T],
    values: &'a [T],
    out: &'a mut [T],
    pool: &'a crate::pool::Pool,
}

fn given<'a, T: Element>(problem: &Attention, args: Args<'a>) -> Result<Heads<'a, T>, LaunchError> {
    // Made by hand: a query would see more keys than there are.
    if problem.causal && problem.queries > problem.keys {
        return Err(LaunchError::Kernel(format!("{problem} has queries that see no key")));
    }
    let Inputs { inputs, out, pool } = args.of::<T>(&Problem::from(*problem), false)?;
    Ok(Heads { queries: inputs[0], keys: inputs[1], values: inputs[2], out, pool })
}

/// What scores are multiplied by.
fn factor(problem: &Attention) -> f64 {
    1.0 / (problem.depth.max(1) as f64).sqrt()
}

/// Turns scores into weights: the largest of a row so far and what its weights add up to go in and out. Answers by what earlier results
/// of the row are to be multiplied.
struct Weigh<'a, T> {
    scores: &'a mut [T],
    most: &'a mut f64,
    sum: &'a mut f64,
}

impl<T: Float> Task for Weigh<'_, T> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let largest = crate::kernels::rows::OfRow { simd, elements: &*self.scores }.largest();
        // Nothing but minus infinity so far: there is nothing to weigh.
        if largest == f64::NEG_INFINITY && *self.most == f64::NEG_INFINITY {
            self.scores.fill(T::default());
            return 1.0;
        }
        let new = if largest.is_nan() || self.most.is_nan() { f64::NAN } else { largest.max(*self.most) };
        let before = if *self.most == f64::NEG_INFINITY { 0.0 } else { (*self.most - new).exp() };
        let sum = crate::kernels::rows::exps_in_place(simd, self.scores, new);
        (*self.most, *self.sum) = (new, before * *self.sum + sum);
        before
    }
}

/// Multiplies a row.
struct Multiply<'a, T>(&'a mut [T], f64);

impl<T: Float> Task for Multiply<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        crate::kernels::rows::multiply(simd, self.0, self.1);
    }
}
