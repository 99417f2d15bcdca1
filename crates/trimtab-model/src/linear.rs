//! Least squares on relative errors with coefficients that are not negative, for at most three terms at a time.
//!
//! With so few terms every subset is solved exactly and the best by leave-one-out is taken; no iteration, no tolerance.

/// Terms a time may be composed of: one, arithmetic, bytes, launches, the whole roofline.
pub(crate) const TERMS: usize = 5;
/// The position of the roofline's total among the terms.
pub(crate) const TOTAL: usize = 4;
/// Terms that grow with the problem; a model without any of them says nothing about larger problems.
const GROWING: u32 = 0b10110;
/// Most terms used at once.
const MOST: usize = 3;
/// A more complex model must beat a simpler one's squared error by this factor.
const WORTH: f64 = 0.9;
/// Relative size of a pivot below which terms count as the same.
const SINGULAR: f64 = 1e-9;
/// Leave-one-out predictions below this share of the truth count as this share.
const LEAST_SHARE: f64 = 1.0 / 16.0;

/// A fitted sum of terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Linear {
    pub(crate) coefficients: [f64; TERMS],
}

impl Linear {
    pub(crate) fn at(&self, terms: &[f64; TERMS]) -> f64 {
        self.coefficients.iter().zip(terms).map(|(coefficient, term)| coefficient * term).sum()
    }
}

/// The best model of `times` by `terms`, and per observation log2 of truth over the prediction made without it.
/// Times are positive and the total term is at least one; that the caller sees to.
pub(crate) fn fit(terms: &[[f64; TERMS]], times: &[f64]) -> (Linear, Vec<f64>) {
    let most = match times.len() {
        0..=2 => 1,
        3..=5 => 2,
        _ => MOST,
    };
    let rows: Vec<[f64; TERMS]> =
        terms.iter().zip(times).map(|(terms, time)| terms.map(|term| term / time)).collect();
    let (mut best, mut left_out) = scale(&rows);
    let mut error = squares(&left_out);
    if times.len() < 3 {
        return (best, left_out);
    }
    let mut masks: Vec<u32> = (1..1 << TERMS)
        .filter(|mask: &u32| mask & GROWING != 0 && mask.count_ones() as usize <= most)
        .collect();
    masks.sort_by_key(|mask| mask.count_ones());
    for mask in masks {
        if let Some((linear, residuals)) = solve(&rows, mask)
            && squares(&residuals) < WORTH * error
        {
            error = squares(&residuals);
            (best, left_out) = (linear, residuals);
        }
    }
    (best, left_out)
}

fn squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

/// The roofline times a constant: the geometric mean of truth over roofline.
fn scale(rows: &[[f64; TERMS]]) -> (Linear, Vec<f64>) {
    let logs: Vec<f64> = rows.iter().map(|row| -row[TOTAL].log2()).collect();
    let n = logs.len() as f64;
    let sum: f64 = logs.iter().sum();
    let mut coefficients = [0.0; TERMS];
    coefficients[TOTAL] = (sum / n.max(1.0)).exp2();
    let left_out =
        logs.iter().map(|log| if logs.len() > 1 { log - (sum - log) / (n - 1.0) } else { 0.0 }).collect();
    (Linear { coefficients }, left_out)
}

/// Least squares of 1 on the chosen terms; `None` if terms are alike or a coefficient is negative.
fn solve(rows: &[[f64; TERMS]], mask: u32) -> Option<(Linear, Vec<f64>)> {
    let mut chosen = [0usize; MOST];
    let mut count = 0;
    for term in (0..TERMS).filter(|term| mask & (1 << term) != 0).take(MOST) {
        chosen[count] = term;
        count += 1;
    }
    let chosen = &chosen[..count];
    let mut gram = [[0.0; MOST]; MOST];
    let mut right = [0.0; MOST];
    for row in rows {
        for (i, &a) in chosen.iter().enumerate() {
            right[i] += row[a];
            for (j, &b) in chosen.iter().enumerate() {
                gram[i][j] += row[a] * row[b];
            }
        }
    }
    let inverse = invert(&gram, count)?;
    let mut coefficients = [0.0; TERMS];
    for (i, &term) in chosen.iter().enumerate() {
        let value: f64 = (0..count).map(|j| inverse[i][j] * right[j]).sum();
        if !value.is_finite() || value < 0.0 {
            return None;
        }
        coefficients[term] = value;
    }
    let linear = Linear { coefficients };
    let residuals = rows.iter().map(|row| {
        let mut leverage = 0.0;
        for (i, &a) in chosen.iter().enumerate() {
            for (j, &b) in chosen.iter().enumerate() {
                leverage += row[a] * inverse[i][j] * row[b];
            }
        }
        // The prediction without this observation, from the one with it.
        let missed = (1.0 - linear.at(row)) / (1.0 - leverage.min(1.0)).max(1e-3);
        -(1.0 - missed).max(LEAST_SHARE).log2()
    });
    Some((linear, residuals.collect()))
}

/// The inverse of a symmetric positive matrix, after scaling its diagonal to one.
fn invert(matrix: &[[f64; MOST]; MOST], n: usize) -> Option<[[f64; MOST]; MOST]> {
    let scale = |i: usize| 1.0 / matrix[i][i].sqrt();
    let mut lower: Vec<f64> =
        (0..n * n).map(|at| matrix[at / n][at % n] * scale(at / n) * scale(at % n)).collect();
    if !factor(&mut lower, n, SINGULAR) {
        return None;
    }
    let mut inverse = [[0.0; MOST]; MOST];
    for (i, row) in inverse.iter_mut().enumerate().take(n) {
        row[i] = 1.0;
        substitute(&lower, n, &mut row[..n]);
        row.iter_mut().enumerate().take(n).for_each(|(j, value)| *value *= scale(i) * scale(j));
    }
    Some(inverse)
}

/// The lower triangular factor of a symmetric matrix given by its lower half, in place; false if a pivot is below the least, or none.
pub(crate) fn factor(matrix: &mut [f64], n: usize, least: f64) -> bool {
    for i in 0..n {
        for j in 0..=i {
            let (head, tail) = matrix.split_at(i * n);
            let row_j = if i == j { &tail[..j] } else { &head[j * n..j * n + j] };
            let sum: f64 = tail[..j].iter().zip(row_j).map(|(a, b)| a * b).sum();
            let rest = matrix[i * n + j] - sum;
            if i == j {
                if rest <= least || !rest.is_finite() {
                    return false;
                }
                matrix[i * n + i] = rest.sqrt();
            } else {
                matrix[i * n + j] = rest / matrix[j * n + j];
            }
        }
    }
    true
}

/// Solves with the factor and its transpose, in place.
pub(crate) fn substitute(lower: &[f64], n: usize, x: &mut [f64]) {
    for i in 0..n {
        let sum: f64 = lower[i * n..i * n + i].iter().zip(x.iter()).map(|(a, b)| a * b).sum();
        x[i] = (x[i] - sum) / lower[i * n + i];
    }
    for i in (0..n).rev() {
        x[i] /= lower[i * n + i];
        for k in 0..i {
            x[k] -= lower[i * n + k] * x[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms of a made-up kernel: constant, arithmetic, bytes, launches, roofline.
    fn terms(flop: f64, byte: f64, launch: f64) -> [f64; TERMS] {
        [1.0, flop, byte, launch, (flop.max(byte) + launch).max(1.0)]
    }

    fn grid() -> Vec<[f64; TERMS]> {
        let mut all = Vec::new();
        for i in 0..6 {
            for j in 0..4 {
                all.push(terms(100.0 * 4f64.powi(i), 50.0 * 5f64.powi(j), 0.0));
            }
        }
        all
    }

    #[test]
    fn known_coefficients_are_recovered() {
        let terms = grid();
        let times: Vec<f64> = terms.iter().map(|t| 500.0 + 1.5 * t[1] + 0.75 * t[2]).collect();
        let (linear, left_out) = fit(&terms, &times);
        for (found, known) in linear.coefficients.iter().zip([500.0, 1.5, 0.75, 0.0, 0.0]) {
            assert!((found - known).abs() <= 1e-6 * known.max(1.0), "{:?}", linear.coefficients);
        }
        assert!(left_out.iter().all(|residual| residual.abs() < 1e-6));
    }

    #[test]
    fn a_slope_that_would_be_negative_is_left_out() {
        let terms: Vec<_> =
            (1..10).map(|i| terms(100.0 * f64::from(i), 1000.0 / f64::from(i), 0.0)).collect();
        let times: Vec<f64> = terms.iter().map(|t| 10_000.0 - t[1] * 5.0 + t[2]).collect();
        let (linear, _) = fit(&terms, &times);
        assert!(linear.coefficients.iter().all(|coefficient| *coefficient >= 0.0), "{linear:?}");
    }

    #[test]
    fn one_observation_scales_the_roofline() {
        let (linear, left_out) = fit(&[terms(100.0, 10.0, 0.0)], &[300.0]);
        assert_eq!(linear.coefficients[..TOTAL], [0.0; TOTAL]);
        assert!((linear.coefficients[TOTAL] - 3.0).abs() < 1e-9);
        assert_eq!(left_out, [0.0]);
    }

    #[test]
    fn equal_problems_scale_the_roofline_too() {
        let (linear, _) = fit(&[terms(100.0, 10.0, 0.0); 8], &[200.0; 8]);
        assert!((linear.coefficients[TOTAL] - 2.0).abs() < 1e-9, "{linear:?}");
    }
}
