//! How long a kernel takes on a problem nobody has measured, in nanoseconds: for placing and for telling, not for ranking.
//!
//! A start, corrected by what smoothly surrounds the problem. Starts are a sum of arithmetic and memory time, and, where the same problem was
//! measured on another machine, that time at a constant proportion. The correction is Gaussian-process regression on log2 of
//! truth over start; how far it reaches, and whether steps by tile sizes matter, is what would have predicted each measurement best from all others.
//! Measurements that no smooth curve explains count less, so that a few kernels that went wrong do not spoil their surroundings.

use trimtab::advanced::core::{Matmul, Work};
use trimtab_model::{FEATURES, Fit, Observation, Roofline};

/// The longest time that is believed, in nanoseconds.
const LONGEST_NS: f64 = 1e18;

/// Most measurements used, the last ones: what fitting takes grows with the third power.
const MOST: usize = 200;
/// Fewer measurements than this are corrected by nothing.
const FEWEST: usize = 5;
/// Doublings within which problems are alike, the part of the variance that is noise, and steps of fine numbers that make problems unlike.
const LENGTHS: [f64; 3] = [1.5, 3.0, 6.0];
const NOISES: [f64; 3] = [0.02, 0.1, 0.5];
const STEPS: [f64; 3] = [0.5, 1.5, f64::INFINITY];
/// Errors count in full up to about this many doublings: what is off by two is as bad as what is off by ten.
const SATURATED: f64 = 0.15;
/// Errors beyond so many typical ones make a measurement count less.
const TYPICAL: f64 = 2.0;
/// A start that is worse by a tenth counts less by 1.1 to the power of one in so many measurements.
const TRUST_ONE_IN: f64 = 6.0;

/// A measured problem, or one to predict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// What it takes by the device's rates.
    pub(crate) roofline: Roofline,
    /// Where it lies: see [`tiles`].
    pub(crate) at: Vec<f64>,
    /// What the same problem took on another machine; not a number where nobody knows.
    pub(crate) elsewhere_ns: f64,
    /// What it took; not looked at when predicting.
    pub(crate) ns: f64,
}

/// Coordinates of [`tiles`] that are sizes; those after them are fine.
const SIZES: usize = 5;

/// A product as [`Sample::at`] has it: its sizes and layouts, and how much of the last tile of usual sizes is wasted.
pub(crate) fn tiles(product: &Matmul) -> Vec<f64> {
    let [m, n, k] = [product.m, product.n, product.k].map(|size| size.max(1) as f64);
    let wasted = |size: f64, tile: f64| ((size / tile).ceil() * tile / size).log2();
    let layout = |transposed: bool| if transposed { 2.0 } else { 0.0 };
    let mut at =
        vec![m.log2(), n.log2(), k.log2(), layout(product.lhs.transposed), layout(product.rhs.transposed)];
    for tile in [32.0, 64.0, 128.0] {
        at.extend([wasted(m, tile), wasted(n, tile)]);
    }
    // Waves of tiles matter less than tiles, a ragged inner size more.
    at.extend([4.0 * wasted(k, 16.0), 0.3 * ((m / 128.0).ceil() * (n / 64.0).ceil()).log2()]);
    at
}

/// A fitted cost model of one kernel on one device.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    starts: Vec<(Start, Smooth)>,
}

#[derive(Clone, Debug)]
enum Start {
    Sum(Fit),
    /// log2 of the time here over the time elsewhere.
    Elsewhere(f64),
}

impl Start {
    fn log2(&self, sample: &Sample) -> Option<f64> {
        let log2 = match self {
            Start::Sum(fit) => fit.sum_ns(&sample.roofline).log2(),
            Start::Elsewhere(proportion) => sample.elsewhere_ns.log2() + proportion,
        };
        log2.is_finite().then_some(log2)
    }
}

impl Cost {
    /// From these measurements; `None` without a usable one. What is not a positive time, or lies elsewhere than the first by the number of its
    /// coordinates, is left out.
    pub(crate) fn fit(samples: &[Sample]) -> Option<Cost> {
        let width = samples.first()?.at.len();
        let usable = |sample: &&Sample| {
            let finite = sample.at.len() == width && sample.at.iter().all(|value| value.is_finite());
            finite && sample.ns > 0.0 && sample.ns <= LONGEST_NS
        };
        let used: Vec<&Sample> = samples.iter().filter(usable).collect();
        let used = &used[used.len().saturating_sub(MOST)..];
        let observed = |sample: &&Sample| Observation {
            work: Work::default(),
            roofline: sample.roofline,
            measured_ns: sample.ns,
            sizes: [0.0; FEATURES],
        };
        let sum = Fit::new(&used.iter().map(observed).collect::<Vec<_>>())?;
        let mut proportions: Vec<f64> = used
            .iter()
            .map(|sample| (sample.ns / sample.elsewhere_ns).log2())
            .filter(|proportion| proportion.is_finite())
            .collect();
        let mut starts = vec![Start::Sum(sum)];
        if proportions.len() >= FEWEST {
            starts.push(Start::Elsewhere(middle(&mut proportions)));
        }
        let corrected = |start: Start| {
            let known = used.iter().filter_map(|sample| {
                start.log2(sample).map(|log2| (sample.at.as_slice(), sample.ns.log2() - log2))
            });
            Smooth::fit(known).map(|smooth| (start, smooth))
        };
        let starts: Vec<(Start, Smooth)> = starts.into_iter().filter_map(corrected).collect();
        (!starts.is_empty()).then_some(Cost { starts })
    }

    /// What a problem is expected to take, in nanoseconds; `None` for one whose numbers make no sense.
    pub(crate) fn predict(&self, sample: &Sample) -> Option<f64> {
        let (mut weights, mut sum) = (0.0, 0.0);
        let least = self.starts.iter().fold(f64::INFINITY, |least, (_, smooth)| least.min(smooth.error));
        for (start, smooth) in &self.starts {
            if let Some(log2) = start.log2(sample) {
                let weight = (least / smooth.error).powf(smooth.at.len() as f64 / TRUST_ONE_IN);
                weights += weight;
                sum += weight * (log2 + smooth.at(&sample.at));
            }
        }
        let ns = (sum / weights).exp2();
        (weights > 0.0 && ns.is_finite()).then_some(ns.min(LONGEST_NS))
    }
}

/// Gaussian-process regression with its reach chosen by leaving each measurement out.
#[derive(Clone, Debug)]
struct Smooth {
    at: Vec<Vec<f64>>,
    weights: Vec<f64>,
    reach: Reach,
    error: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    variance: f64,
    noise: f64,
    length: f64,
    step: f64,
}

impl Reach {
    /// How much two problems have in common; all share a level.
    fn common(&self, a: &[f64], b: &[f64]) -> f64 {
        let square = |(a, b): (&f64, &f64)| (a - b) * (a - b);
        let sizes: f64 = a.iter().zip(b).take(SIZES).map(square).sum();
        let fine: f64 = a.iter().zip(b).skip(SIZES).map(square).sum();
        let apart = (sizes / (self.length * self.length) + fine / (self.step * self.step)).sqrt();
        self.variance * (1.0 + (1.0 + apart) * (-apart).exp())
    }
}

impl Smooth {
    fn fit<'a>(known: impl Iterator<Item = (&'a [f64], f64)>) -> Option<Smooth> {
        let (at, told): (Vec<&[f64]>, Vec<f64>) = known.unzip();
        let typical = middle(&mut told.iter().map(|value| value.abs()).collect::<Vec<f64>>()).max(0.02);
        let mut best =
            Smooth { at: Vec::new(), weights: Vec::new(), reach: Reach::default(), error: f64::INFINITY };
        if told.is_empty() {
            return None;
        }
        if told.len() < FEWEST {
            return Some(Smooth { error: typical, ..best });
        }
        let variance = 4.0 * typical * typical;
        for (length, noise, step) in LENGTHS.into_iter().flat_map(|length| {
            NOISES.into_iter().flat_map(move |noise| STEPS.map(|step| (length, noise, step)))
        }) {
            let reach = Reach { variance, noise: noise * variance, length, step };
            let mut doubted = vec![1.0; told.len()];
            // Twice: what the first finds odd counts less in the second.
            let Some((_, errors)) = solve(&at, &told, &reach, &doubted) else { continue };
            let usual = middle(&mut errors.clone()).max(0.01);
            for (doubted, error) in doubted.iter_mut().zip(&errors) {
                *doubted = (error / (TYPICAL * usual)).powi(2).clamp(1.0, 100.0);
            }
            let Some((weights, errors)) = solve(&at, &told, &reach, &doubted) else { continue };
            let saturated = errors.iter().map(|error| SATURATED * error / (error + SATURATED));
            let error = saturated.sum::<f64>() / errors.len() as f64;
            if error < best.error {
                best = Smooth { at: Vec::new(), weights, reach, error: error.max(1e-6) };
            }
        }
        best.at = at.iter().map(|at| at.to_vec()).collect();
        best.error.is_finite().then_some(best)
    }

    fn at(&self, at: &[f64]) -> f64 {
        self.at.iter().zip(&self.weights).map(|(other, weight)| weight * self.reach.common(at, other)).sum()
    }
}

/// The middle one; zero of none.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Weights of the regression, and how far off each value would be predicted from all others; `None` where problems are too much alike.
fn solve(at: &[&[f64]], told: &[f64], reach: &Reach, doubted: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let n = told.len();
    // The lower triangle becomes the Cholesky factor.
    let mut factor = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..=row {
            let noise = if row == column { reach.noise * doubted[row] } else { 0.0 };
            let (before, here) = factor.split_at(row * n);
            let upper: &[f64] =
                if column < row { &before[column * n..column * n + column] } else { &here[..column] };
            let dot: f64 = here[..column].iter().zip(upper).map(|(a, b)| a * b).sum();
            let rest = reach.common(at[row], at[column]) + noise - dot;
            if row == column && (rest.is_nan() || rest <= 0.0) {
                return None;
            }
            factor[row * n + column] =
                if row == column { rest.sqrt() } else { rest / factor[column * n + column] };
        }
    }
    // Columns of the factor's inverse, each a row here: their products are the inverse of the whole.
    let mut inverse = vec![0.0; n * n];
    for column in 0..n {
        inverse[column * n + column] = 1.0 / factor[column * n + column];
        for row in column + 1..n {
            let known = &inverse[column * n + column..column * n + row];
            let dot: f64 =
                factor[row * n + column..row * n + row].iter().zip(known).map(|(a, b)| a * b).sum();
            inverse[column * n + row] = -dot / factor[row * n + row];
        }
    }
    let half: Vec<f64> =
        (0..n).map(|row| (0..=row).map(|column| inverse[column * n + row] * told[column]).sum()).collect();
    let (mut weights, mut errors) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for own in inverse.chunks_exact(n) {
        let weight: f64 = own.iter().zip(&half).map(|(a, b)| a * b).sum();
        let diagonal: f64 = own.iter().map(|value| value * value).sum();
        weights.push(weight);
        errors.push((weight / diagonal).abs());
    }
    Some((weights, errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab::advanced::core::{DType, RandomNumbers};

    fn sample(m: u64, ns: f64) -> Sample {
        let product = Matmul::new(DType::F32, m, 64, 64).unwrap();
        let roofline = Roofline { flop_ns: m as f64, byte_ns: 0.0, launch_ns: 0.0 };
        Sample { roofline, at: tiles(&product), elsewhere_ns: f64::NAN, ns }
    }

    #[test]
    fn a_bend_the_sum_does_not_know_is_learned_and_one_wild_measurement_does_not_spoil_it() {
        // Twice as slow in the middle of the range.
        let truth = |m: u64| m as f64 * if (64..512).contains(&m) { 2.0 } else { 1.0 };
        let mut samples: Vec<Sample> =
            (4..60).map(|nth| 2 * nth * nth).map(|m| sample(m, truth(m))).collect();
        samples[20].ns *= 30.0;
        let cost = Cost::fit(&samples).unwrap();
        for m in [129, 301, 2999] {
            let expected = cost.predict(&sample(m, f64::NAN)).unwrap();
            assert!((expected / truth(m)).log2().abs() < 0.2, "{m} {expected}");
        }
    }

    #[test]
    fn what_another_machine_took_helps_where_the_sum_is_blind_and_its_absence_is_borne() {
        let mut dice = RandomNumbers::new(4);
        let mut wild = |m: u64| {
            let ns = 100.0 * (1.0 + 30.0 * dice.unit());
            Sample { elsewhere_ns: 3.0 * ns, ..sample(m, ns) }
        };
        let samples: Vec<Sample> = (1..40).map(|nth| wild(37 * nth)).collect();
        let cost = Cost::fit(&samples).unwrap();
        let known = cost.predict(&Sample { elsewhere_ns: 6000.0, ..sample(333, f64::NAN) }).unwrap();
        assert!((known / 2000.0).log2().abs() < 0.3, "{known}");
        assert!(cost.predict(&sample(333, f64::NAN)).is_some());
        assert!(Cost::fit(&[]).is_none() && Cost::fit(&[sample(4, f64::NAN)]).is_none());
        assert!(Cost::fit(&samples[..1]).unwrap().predict(&samples[0]).is_some());
    }
}
