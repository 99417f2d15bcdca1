//! Attention query by query in `f64`: the yardstick of accuracy.

use super::{factor, given};
use crate::args::{Args, Launched};
use trimtab_core::{Attention, Bytes, Flops};
use trimtab_operands::Element;

reference!("cpu.attention.reference", Attention);

fn counted(problem: &Attention) -> (Flops, Bytes) {
    let elements = problem.pairs().saturating_mul(problem.depth.saturating_add(problem.width));
    (Flops(problem.flops()), Bytes(elements.saturating_mul(problem.dtype.size())))
}

fn run<T: Element>(problem: &Attention, args: Args<'_>) -> Launched {
    let given = given::<T>(problem, args)?;
    let [queries, keys, depth, width] =
        [problem.queries, problem.keys, problem.depth, problem.width].map(|size| size as usize);
    if given.out.is_empty() {
        return Ok(());
    }
    let mut weights = vec![0.0f64; keys];
    for (nth, out) in given.out.chunks_exact_mut(width).enumerate() {
        let (head, query) = (nth / queries, nth % queries);
        let seen = problem.seen(query as u64) as usize;
        let query = &given.queries[nth * depth..][..depth];
        for (key, weight) in weights[..seen].iter_mut().enumerate() {
            let key = &given.keys[(head * keys + key) * depth..][..depth];
            *weight =
                query.iter().zip(key).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>() * factor(problem);
        }
        let larger = |most: f64, score: &f64| {
            if most.is_nan() || score.is_nan() { f64::NAN } else { most.max(*score) }
        };
        let most = weights[..seen].iter().fold(f64::NEG_INFINITY, larger);
        weights[..seen].iter_mut().for_each(|weight| *weight = (*weight - most).exp());
        let sum: f64 = weights[..seen].iter().sum();
        for (column, out) in out.iter_mut().enumerate() {
            let value = |key: usize| given.values[(head * keys + key) * width + column].to_f64();
            *out = T::from_f64((0..seen).map(|key| weights[key] * value(key)).sum::<f64>() / sum);
        }
    }
    Ok(())
}
