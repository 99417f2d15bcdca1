//! Audits of transforms: some whole ones, or of a long one some elements, each added up term by term.

use super::{Audit, Share, lines};
use crate::operands::Operands;
use crate::slice::Slice;
use trimtab_core::{Fft, FftOp, Problem, RandomNumbers};

/// Elements of a long transform that are computed again.
const BINS: usize = 4;
/// Numbers of a transform for one of the share from which not all of it is computed again.
const LONG: usize = 4;

/// Some transforms of a batch.
pub(super) fn fft(
    p: &Fft,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let (given, made) = (p.input_len() / p.batch.max(1), p.out_len() / p.batch.max(1));
    if p.batch == 0 {
        return None;
    }
    if given.max(made) as usize <= most.computed / LONG {
        let small = |shape: &[u64]| alone(p, shape[0]).map(Problem::from);
        return lines([p.batch, given, 1], made, small, inputs, out, most, random);
    }
    let (given, made) = (given as usize, made as usize);
    let nth = random.below(p.batch as usize);
    let mut bins: Vec<usize> = (0..BINS).map(|_| random.below(made)).collect();
    bins.extend([0, made - 1]);
    bins.sort_unstable();
    bins.dedup();
    let input = inputs.first().filter(|_| given <= most.taken)?;
    let input = input.part(nth * given..(nth + 1) * given).to_data();
    let at = |bin: &usize| out.part(nth * made + bin..nth * made + bin + 1).to_data();
    let found: Vec<f64> = bins
        .iter()
        .flat_map(|bin| {
            let element = at(bin);
            (0..element.numbers()).filter_map(move |part| element.at(part)).collect::<Vec<_>>()
        })
        .collect();
    // Parts one by one, as many as there are of an element.
    let part = Operands { inputs: vec![input], out: crate::slice::Data::F64(found) };
    Some(Audit { problem: alone(p, 1)?.into(), part, bins })
}

/// The same transform, so many of it.
fn alone(p: &Fft, batch: u64) -> Option<Fft> {
    let shape: Vec<u64> = [batch].into_iter().chain(p.sizes().iter().copied()).collect();
    Fft::new(p.op, p.dtype, &shape, p.sizes().len()).ok()
}

/// Whether elements of one transform are right: each may be off by what all of it may be, in the worst case.
pub(super) fn check(p: &Fft, part: &Operands, bins: &[usize], within: Option<f64>) -> Result<(), String> {
    let Some(input) = part.inputs.first() else { return Ok(()) };
    let squares: f64 = (0..input.numbers()).filter_map(|at| input.at(at)).map(|x| x * x).sum();
    let points = p.points() as f64;
    // By Parseval; of half a spectrum the other half counts as well.
    let norm = if p.op.is_inverse() { (2.0 * squares / points).sqrt() } else { (squares * points).sqrt() };
    let allowed = within.unwrap_or_else(|| crate::tolerance(&Problem::from(*p))) * norm;
    for (nth, &bin) in bins.iter().enumerate() {
        let wanted = element(p, input, bin);
        let each = p.out_dtype().numbers();
        for (which, wanted) in wanted.into_iter().take(each).enumerate() {
            let found = part.out.at(nth * each + which).unwrap_or(f64::NAN);
            let off = (found - wanted).abs();
            if off > allowed || off.is_nan() {
                return Err(format!(
                    "element {bin} is {found:e}, added up {wanted:e}, allowed difference {allowed:.1e}"
                ));
            }
        }
    }
    Ok(())
}

/// An element of a transform, term by term: real and imaginary part.
fn element(p: &Fft, input: &crate::slice::Data, bin: usize) -> [f64; 2] {
    let sizes = p.sizes();
    let last = sizes.len() - 1;
    let (given, made) = match p.op {
        FftOp::Forward | FftOp::Inverse => (p.last(), p.last()),
        FftOp::Real => (p.last(), p.bins()),
        FftOp::InverseReal => (p.bins(), p.last()),
    };
    // Indices along every axis, of numbers where the last has that many.
    let along = |mut at: u64, wide: u64| {
        let mut indices = [0u64; trimtab_core::MAX_FFT_RANK];
        for axis in (0..sizes.len()).rev() {
            let size = if axis == last { wide } else { sizes[axis] };
            indices[axis] = at % size;
            at /= size;
        }
        indices
    };
    let to = along(bin as u64, made);
    let sign = if p.op.is_inverse() { 1.0 } else { -1.0 };
    let count = input.len();
    let complex = input.numbers() > count;
    let mut sum = [0.0f64; 2];
    for at in 0..count {
        let from = along(at as u64, given);
        // Of a turn, each axis exact.
        let turns: f64 = (0..sizes.len())
            .map(|axis| {
                (u128::from(from[axis]) * u128::from(to[axis]) % u128::from(sizes[axis])) as f64
                    / sizes[axis] as f64
            })
            .sum();
        let (sin, cos) = (sign * 2.0 * std::f64::consts::PI * turns.fract()).sin_cos();
        let number = |part: usize| input.at(part).unwrap_or(f64::NAN);
        let (re, im) = if complex { (number(2 * at), number(2 * at + 1)) } else { (number(at), 0.0) };
        // Bins that stand for their conjugates as well count twice.
        let is_single = from[last] == 0 || 2 * from[last] == p.last();
        let weight = if p.op == FftOp::InverseReal && !is_single { 2.0 } else { 1.0 };
        sum[0] += weight * (re * cos - im * sin);
        sum[1] += weight * (re * sin + im * cos);
    }
    let scale = if p.op.is_inverse() { 1.0 / p.points() as f64 } else { 1.0 };
    sum.map(|part| part * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Data;
    use num_complex::Complex;
    use trimtab_core::Failure;

    type C = Complex<f64>;

    /// Along one axis of rows, term by term.
    fn summed(line: &[C], inverse: bool) -> Vec<C> {
        let len = line.len();
        let way = if inverse { 1.0 } else { -1.0 };
        let turn =
            |at: usize| C::from_polar(1.0, way * 2.0 * std::f64::consts::PI * (at % len) as f64 / len as f64);
        let scale = if inverse { 1.0 / len as f64 } else { 1.0 };
        let bin = |bin: usize| line.iter().enumerate().map(|(at, x)| x * turn(at * bin)).sum::<C>() * scale;
        (0..len).map(bin).collect()
    }

    fn numbers(data: &Data) -> Vec<C> {
        let each = data.numbers() / data.len();
        let part = |at: usize| data.at(at).unwrap_or(f64::NAN);
        (0..data.len())
            .map(|at| C::new(part(each * at), if each == 2 { part(2 * at + 1) } else { 0.0 }))
            .collect()
    }

    /// A batch of one axis and its right result.
    fn call(text: &str) -> (Problem, Operands) {
        let problem: Problem = text.parse().unwrap();
        let Problem::Fft(p) = problem else { panic!("{text}") };
        let mut operands = Operands::of(&problem, crate::Numbers::Whole);
        let (given, len, bins) = (numbers(&operands.inputs[0]), p.last() as usize, p.bins() as usize);
        let made: Vec<C> = match p.op {
            FftOp::Forward => given.chunks(len).flat_map(|line| summed(line, false)).collect(),
            FftOp::Inverse => given.chunks(len).flat_map(|line| summed(line, true)).collect(),
            FftOp::Real => given.chunks(len).flat_map(|line| summed(line, false)[..bins].to_vec()).collect(),
            FftOp::InverseReal => {
                let whole = |half: &[C]| -> Vec<C> {
                    (0..len).map(|at| if at < bins { half[at] } else { half[len - at].conj() }).collect()
                };
                let real = |half: &[C]| {
                    let mut all = whole(half);
                    all[0].im = 0.0;
                    if len.is_multiple_of(2) {
                        all[len / 2].im = 0.0;
                    }
                    summed(&all, true)
                };
                given.chunks(bins).flat_map(real).collect()
            }
        };
        let each = p.out_dtype().numbers();
        let parts: Vec<f64> = made.iter().flat_map(|x| [x.re, x.im].into_iter().take(each)).collect();
        operands.out = Data::of_numbers(p.out_dtype(), &parts);
        (problem, operands)
    }

    /// Nobody computes: elements are added up by the audit itself.
    struct Nobody;

    impl crate::Reference for Nobody {
        fn compute(
            &self,
            _: &Problem,
            _: &[Slice<'_>],
            _: crate::SliceMut<'_>,
        ) -> Result<(), trimtab_core::LaunchError> {
            unreachable!("all of a long transform was to be computed")
        }
    }

    fn audited(problem: &Problem, operands: &Operands) -> Result<(), Failure> {
        let share = Share { taken: 1 << 12, computed: 1 << 9 };
        let audit = Audit::of(problem, &operands.slices(), &operands.out.slice(), share).unwrap();
        audit.check(&Nobody, None)
    }

    #[test]
    fn elements_of_long_transforms_are_added_up_and_wrong_ones_are_found() {
        for text in [
            "fft.forward:complex64:3x512",
            "fft.inverse:complex128:500",
            "fft.real:f32:2x501",
            "fft.real:f64:512",
            "fft.inverse_real:complex64:2x512",
            "fft.inverse_real:complex128:333",
        ] {
            let (problem, mut operands) = call(text);
            for _ in 0..8 {
                assert_eq!(audited(&problem, &operands), Ok(()), "{text}");
            }
            // Twice too large, as an inverse with another scale is.
            let doubled: Vec<f64> =
                (0..operands.out.numbers()).filter_map(|at| operands.out.at(at)).map(|x| 2.0 * x).collect();
            operands.out = Data::of_numbers(problem.out_dtype().unwrap(), &doubled);
            let found = (0..8).any(|_| audited(&problem, &operands).is_err());
            assert!(found, "{text}");
        }
    }

    #[test]
    fn axes_of_an_element_are_those_of_the_problem() {
        let Ok(Problem::Fft(p)) = "fft.forward:complex128:4x3x5:3d".parse() else { panic!() };
        // A single one at the second place of every axis turns by each.
        let mut input = vec![0.0; 2 * 60];
        input[2 * (15 + 5 + 1)] = 1.0;
        let input = Data::of_numbers(p.dtype, &input);
        let [re, im] = element(&p, &input, 2 * 15 + 5 + 4);
        let turns = 2.0 / 4.0 + 1.0 / 3.0 + 4.0 / 5.0;
        let wanted = C::from_polar(1.0, -2.0 * std::f64::consts::PI * turns);
        assert!((C::new(re, im) - wanted).norm() < 1e-14, "{re} {im}");
    }
}
