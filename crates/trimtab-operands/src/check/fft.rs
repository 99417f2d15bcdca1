//! How far spectra may be off: a transform mixes all numbers, so that errors are measured by the norm of all of them, not by each.

use crate::element::Element;
use crate::slice::Data;
use trimtab_core::{Fft, FftOp};

/// Units in the last place a transform may be off beside one for every doubling of its length. The worst seen of kernels that are
/// right is 3.7 units in all, of 61 numbers.
const UNITS: f64 = 2.0;
/// Nanoseconds the reference takes for a number and a doubling, about; lengths with large prime factors take longer.
const REFERENCE_NS: f64 = 25.0;
const PRIME_NS: f64 = 150.0;

/// Relative to the norm of a transform: errors of roundings grow with the doublings of the length. Those of twiddle factors that are
/// made from each other in single precision grow with the length itself.
pub(super) fn tolerance(p: &Fft) -> f64 {
    p.out_dtype().epsilon() * (UNITS + (p.points().max(1) as f64).log2())
}

/// Elements of the result of one transform.
pub(super) fn row(p: &Fft) -> usize {
    if p.op == FftOp::InverseReal { p.points() as usize } else { p.spectrum() as usize }
}

/// What a single number of the result may be measured by: in the worst case all of the error is in one.
pub(super) fn slack(p: &Fft, values: &Data) -> Vec<f32> {
    let row = (row(p) * values.dtype().map_or(1, |dtype| dtype.numbers())).max(1);
    let mut slack = Vec::with_capacity(values.numbers());
    let mut first = 0;
    while first < values.numbers() {
        let end = values.numbers().min(first + row);
        let squares: f64 =
            (first..end).filter_map(|at| values.at(at)).filter(|x| x.is_finite()).map(|x| x * x).sum();
        slack.resize(end, squares.sqrt() as f32);
        first = end;
    }
    slack
}

/// Whether the errors of each row of that many elements, taken together, are small beside the row; rows of nothing always are.
/// What is not finite is compared one by one, elsewhere.
pub(super) fn norms<T: Element>(found: &[T], wanted: &[T], row: usize, tolerance: f64) -> Result<(), String> {
    if row == 0 {
        return Ok(());
    }
    for (nth, (found, wanted)) in found.chunks(row).zip(wanted.chunks(row)).enumerate() {
        let (mut off, mut all) = (0.0, 0.0);
        for (found, wanted) in found.iter().zip(wanted) {
            for (found, wanted) in found.numbers().into_iter().zip(wanted.numbers()) {
                if wanted.is_finite() {
                    off += (found - wanted) * (found - wanted);
                    all += wanted * wanted;
                }
            }
        }
        let (off, all) = (f64::sqrt(off), f64::sqrt(all));
        if off > tolerance * all || off.is_nan() {
            return Err(format!(
                "transform {nth} is off by {off:.1e} in all, its norm is {all:.1e}, allowed difference {:.1e}",
                tolerance * all
            ));
        }
    }
    Ok(())
}

/// Time of the reference.
pub(crate) fn takes_ns(p: &Fft) -> f64 {
    let has_large_factor = p.sizes().iter().any(|&size| largest_prime(size) > 64);
    let each = if has_large_factor { PRIME_NS } else { REFERENCE_NS };
    each * p.batch as f64 * p.points() as f64 * (p.points().max(2) as f64).log2()
}

fn largest_prime(mut size: u64) -> u64 {
    let mut factor = 2;
    while factor * factor <= size && factor <= 64 {
        if size.is_multiple_of(factor) { size /= factor } else { factor += 1 }
    }
    size
}
