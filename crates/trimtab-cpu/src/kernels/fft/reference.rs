//! Transforms in `f64`, a factor of the length at a time: the yardstick of accuracy. Short prime lengths are added up term by term,
//! long ones are convolutions (Bluestein), so that no length takes more than `n·log n`.

use super::turns::turn;
use super::{Real, by_part, counted, scale};
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{DType, Decline, DeviceFacts, Fft, FftOp, Variant, Work};
use trimtab_operands::Complex;

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

/// The longest prime length that is added up term by term.
const LONGEST_SUM: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct ReferenceKernel;

impl Variant<Cpu> for ReferenceKernel {
    type Problem = Fft;
    type Config = ReferenceConfig;

    identity!("cpu.fft.reference", Reference);

    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64) || dtype.is_complex()
    }

    fn declines(&self, _: &Fft, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Fft, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Fft, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        let (flops, bytes) = counted(problem);
        // Always computed in f64, whole transforms at a time: these, factors, a line and what becomes of it; where a length has a prime
        // above those that are computed plainly, a dozen arrays of up to four times as many numbers besides.
        let long = problem.sizes().iter().copied().filter(|&size| has_large_prime(size)).max().unwrap_or(0);
        let scratch = problem.points().saturating_mul(96).saturating_add(long.saturating_mul(12 * 4 * 16));
        let scratch = trimtab_core::Bytes(scratch);
        Work { flops, bytes, scratch, threads: 1, lanes: 1, ..Work::default() }
    }

    fn launch(&self, problem: &Fft, _: ReferenceConfig, args: Args<'_>) -> Launched {
        by_part!(problem, T => run::<T>(problem, args))
    }
}

/// Whether a prime factor of a length is larger than those that are computed plainly.
fn has_large_prime(mut len: u64) -> bool {
    for factor in 2..=LONGEST_SUM as u64 {
        while len > 0 && len.is_multiple_of(factor) {
            len /= factor;
        }
    }
    len > 1
}

fn run<T: Real>(problem: &Fft, args: Args<'_>) -> Launched {
    let (input, out, _) = T::sides(problem, args)?;
    if problem.batch == 0 {
        return Ok(());
    }
    let sizes: Vec<usize> = problem.sizes().iter().map(|&size| size as usize).collect();
    let (last, bins) = (problem.last() as usize, problem.bins() as usize);
    let transform = Transform::new(problem.op.is_inverse(), &sizes);
    let batch = problem.batch as usize;
    let rows = problem.points() as usize / last;
    let (given, made) = (input.len() / batch, out.len() / batch);
    for (input, out) in input.chunks(given.max(1)).zip(out.chunks_mut(made.max(1))) {
        // A spectrum of all bins: where one side is real, the other half is what follows from the first.
        let mut all: Vec<Complex<f64>> = match problem.op {
            FftOp::Real => input.iter().map(|x| Complex::new(x.to_f64(), 0.0)).collect(),
            _ => input.chunks(2).map(|x| Complex::new(x[0].to_f64(), x[1].to_f64())).collect(),
        };
        if problem.op == FftOp::InverseReal {
            // The other axes first, of the half that is there; then what real numbers need of the last.
            transform.axes(&mut all, bins, 0..sizes.len() - 1);
            all = all.chunks(bins).flat_map(|half| whole(half, last)).collect();
            transform.axes(&mut all, last, sizes.len() - 1..sizes.len());
        } else {
            transform.axes(&mut all, last, 0..sizes.len());
        }
        let scale = scale(problem);
        match problem.op {
            FftOp::InverseReal => {
                out.iter_mut().zip(all).for_each(|(out, value)| *out = T::of(value.re * scale));
            }
            _ => {
                let kept = (0..rows).flat_map(|row| row * last..row * last + bins);
                for (out, at) in out.chunks_mut(2).zip(kept) {
                    out.copy_from_slice(&[T::of(all[at].re * scale), T::of(all[at].im * scale)]);
                }
            }
        }
    }
    Ok(())
}

/// The spectrum of real numbers, from its first half. Imaginary parts that it cannot have are not looked at.
fn whole(half: &[Complex<f64>], len: usize) -> impl Iterator<Item = Complex<f64>> + '_ {
    (0..len).map(move |bin| match (bin, len - bin) {
        (0, _) => Complex::new(half[0].re, 0.0),
        (bin, other) if bin == other => Complex::new(half[bin].re, 0.0),
        (bin, other) if bin < other => half[bin],
        (_, other) => half[other].conj(),
    })
}

/// The tables for lines of every axis.
struct Transform {
    sizes: Vec<usize>,
    lines: Vec<Turns>,
}

impl Transform {
    fn new(inverse: bool, sizes: &[usize]) -> Transform {
        Transform {
            sizes: sizes.to_vec(),
            lines: sizes.iter().map(|&len| Turns::new(len, inverse)).collect(),
        }
    }

    /// Transforms along some axes, where the last has that many numbers.
    fn axes(&self, all: &mut [Complex<f64>], last: usize, axes: std::ops::Range<usize>) {
        for axis in axes {
            let inner: usize = match self.sizes.get(axis + 1..) {
                Some([]) | None => 1,
                Some([between @ .., _]) => between.iter().product::<usize>() * last,
            };
            let len = if axis + 1 == self.sizes.len() { last } else { self.sizes[axis] };
            let mut line = vec![Complex::default(); len];
            for block in all.chunks_mut((len * inner).max(1)) {
                for first in 0..inner {
                    line.iter_mut().enumerate().for_each(|(at, x)| *x = block[first + at * inner]);
                    let made = self.lines[axis].of(&line);
                    made.into_iter().enumerate().for_each(|(at, x)| block[first + at * inner] = x);
                }
            }
        }
    }
}

/// Twiddle factors of a length.
struct Turns {
    turns: Vec<Complex<f64>>,
}

impl Turns {
    fn new(len: usize, inverse: bool) -> Turns {
        let way = |turn: Complex<f64>| if inverse { turn.conj() } else { turn };
        Turns { turns: (0..len as u64).map(|at| way(turn(at, len as u64))).collect() }
    }

    fn of(&self, line: &[Complex<f64>]) -> Vec<Complex<f64>> {
        self.part(line.to_vec(), 1)
    }

    /// The transform of a part: `step` is how many times shorter it is than the line.
    fn part(&self, line: Vec<Complex<f64>>, step: usize) -> Vec<Complex<f64>> {
        let len = line.len();
        let turn = |at: usize| self.turns[at % len * step];
        let factor = smallest_factor(len);
        if factor == len {
            return match len {
                0 | 1 => line,
                2..=LONGEST_SUM => {
                    let bin = |bin: usize| line.iter().enumerate().map(|(at, x)| x * turn(at * bin)).sum();
                    (0..len).map(bin).collect()
                }
                _ => self.convolved(&line, step),
            };
        }
        let short = len / factor;
        let parts: Vec<Vec<Complex<f64>>> = (0..factor)
            .map(|first| self.part(line.iter().skip(first).step_by(factor).copied().collect(), step * factor))
            .collect();
        let bin = |bin: usize| {
            parts
                .iter()
                .enumerate()
                .map(|(at, part)| part[bin % short] * turn(at * bin))
                .sum::<Complex<f64>>()
        };
        (0..len).map(bin).collect()
    }

    /// `x[j]·w^(jk) = w^(k²/2) · Σ (x[j]·w^(j²/2)) · w^(-(k-j)²/2)`: a convolution, by transforms of a power of two.
    fn convolved(&self, line: &[Complex<f64>], step: usize) -> Vec<Complex<f64>> {
        let len = line.len();
        let inverse = self.turns.get(step).is_some_and(|turn| turn.im > 0.0);
        let chirp: Vec<Complex<f64>> = (0..len as u64)
            .map(|at| {
                let turn = turn((u128::from(at) * u128::from(at) % (2 * len as u128)) as u64, 2 * len as u64);
                if inverse { turn.conj() } else { turn }
            })
            .collect();
        let long = (2 * len - 1).next_power_of_two();
        let forward = Turns::new(long, false);
        let padded = |at: usize, value: Complex<f64>, all: &mut Vec<Complex<f64>>| all[at] = value;
        let (mut a, mut b) = (vec![Complex::default(); long], vec![Complex::default(); long]);
        for at in 0..len {
            padded(at, line[at] * chirp[at], &mut a);
            padded(at, chirp[at].conj(), &mut b);
            if at > 0 {
                padded(long - at, chirp[at].conj(), &mut b);
            }
        }
        let (a, b) = (forward.of(&a), forward.of(&b));
        let product = a.iter().zip(&b).map(|(a, b)| (a * b).conj()).collect::<Vec<_>>();
        let back = forward.of(&product);
        (0..len).map(|bin| back[bin].conj() * chirp[bin] / long as f64).collect()
    }
}

fn smallest_factor(len: usize) -> usize {
    let mut factor = 2;
    while factor * factor <= len {
        if len.is_multiple_of(factor) {
            return factor;
        }
        factor += 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Term by term, whatever the length.
    fn summed(line: &[Complex<f64>], inverse: bool) -> Vec<Complex<f64>> {
        let len = line.len() as u64;
        let way = |turn: Complex<f64>| if inverse { turn.conj() } else { turn };
        let bin = |bin: u64| (0..len).zip(line).map(|(at, x)| x * way(turn(at * bin % len, len))).sum();
        (0..len).map(bin).collect()
    }

    #[test]
    fn factors_and_convolutions_give_what_term_by_term_sums_do() {
        for len in [1usize, 2, 3, 4, 6, 8, 12, 30, 61, 64, 67, 97, 134, 210, 251, 256, 999, 1000, 1009] {
            let line: Vec<Complex<f64>> = (0..len)
                .map(|at| Complex::new(((at * 7919) % 23) as f64 - 11.0, ((at * 104_729) % 17) as f64 - 8.0))
                .collect();
            for inverse in [false, true] {
                let (made, wanted) = (Turns::new(len, inverse).of(&line), summed(&line, inverse));
                let norm: f64 = wanted.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
                let off: f64 = made.iter().zip(&wanted).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>().sqrt();
                assert!(off <= 1e-14 * norm, "{len}: off by {off:e} of {norm:e}");
            }
        }
    }
}
