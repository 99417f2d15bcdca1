//! Fourier transforms by their definition.

use std::f64::consts::TAU;
use trimtab_core::{Fft, FftOp};

type Complex = [f64; 2];

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// That many parts of a turn of so many.
fn turn(part: usize, parts: usize, sign: f64) -> Complex {
    let angle = sign * TAU * (part % parts) as f64 / parts as f64;
    [angle.cos(), angle.sin()]
}

/// Transforms lines of so many numbers, so far apart.
fn along(data: &mut [Complex], len: usize, inner: usize, sign: f64) {
    for line in 0..data.len() / len {
        let place = |at: usize| (line / inner * len + at) * inner + line % inner;
        let values: Vec<Complex> = (0..len).map(|at| data[place(at)]).collect();
        for bin in 0..len {
            let mut sum = [0.0; 2];
            for (at, value) in values.iter().enumerate() {
                let term = times(*value, turn(at * bin, len, sign));
                sum = [sum[0] + term[0], sum[1] + term[1]];
            }
            data[place(bin)] = sum;
        }
    }
}

/// Transforms the axes before the last.
fn before(data: &mut [Complex], p: &Fft, sign: f64) {
    let sizes: Vec<usize> = p.sizes().iter().map(|size| *size as usize).collect();
    let last = sizes.len() - 1;
    for axis in 0..last {
        let inner = sizes[axis + 1..last].iter().product::<usize>() * p.bins() as usize;
        along(data, sizes[axis], inner, sign);
    }
}

pub fn transformed(p: &Fft, input: &[f64]) -> Vec<f64> {
    let (sign, n) = (if p.op.is_inverse() { 1.0 } else { -1.0 }, p.last() as usize);
    let scale = if p.op.is_inverse() { 1.0 / p.points() as f64 } else { 1.0 };
    let pairs = |numbers: &[f64]| numbers.chunks(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>();
    let flat = |data: Vec<Complex>| data.into_iter().flatten().map(|part| part * scale).collect();
    let bins = p.bins() as usize;
    match p.op {
        FftOp::Forward | FftOp::Inverse => {
            let mut data = pairs(input);
            along(&mut data, n, 1, sign);
            before(&mut data, p, sign);
            flat(data)
        }
        FftOp::Real => {
            let mut data: Vec<Complex> = input.iter().map(|value| [*value, 0.0]).collect();
            along(&mut data, n, 1, sign);
            let mut half: Vec<Complex> = data.chunks(n).flat_map(|row| row[..bins].to_vec()).collect();
            before(&mut half, p, sign);
            flat(half)
        }
        FftOp::InverseReal => {
            let mut data = pairs(input);
            before(&mut data, p, sign);
            let mut out = Vec::new();
            for row in data.chunks(bins) {
                for at in 0..n {
                    let mut sum = row[0][0];
                    for (bin, value) in row.iter().enumerate().skip(1) {
                        let own = times(*value, turn(at * bin, n, sign))[0];
                        // The last of an even number has no conjugate beside it, and no imaginary part.
                        let alone = if at % 2 == 0 { value[0] } else { -value[0] };
                        sum += if 2 * bin == n { alone } else { 2.0 * own };
                    }
                    out.push(sum * scale);
                }
            }
            out
        }
    }
}
