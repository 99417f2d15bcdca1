//! From a model's own doubt to the loss that was seen where it doubted as much.

/// Pairs a step of the curve is made of at least, and steps at most.
const PAIRS_A_STEP: usize = 20;
const MOST_STEPS: usize = 8;
/// So many pairs of the overall loss are mixed into each step: a few pairs without a loss do not promise that there is none.
const CAUTION: f64 = 4.0;

/// Beyond the last step the loss grows with the doubt, at most so many times.
const MOST_BEYOND: f64 = 2.0;

/// A rising curve from doubt to expected loss, both in doublings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// (doubt, loss) in rising order of both.
    steps: Vec<(f64, f64)>,
}

impl Calibration {
    /// From pairs of a doubt and the loss that was seen. Pairs are put into steps of equal number by doubt, and steps that fall
    /// are put together.
    pub fn new(mut pairs: Vec<(f64, f64)>) -> Calibration {
        pairs.retain(|pair| pair.0.is_finite() && pair.1.is_finite());
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let count = (pairs.len() / PAIRS_A_STEP).clamp(1, MOST_STEPS);
        let overall = pairs.iter().map(|pair| pair.1).sum::<f64>() / pairs.len().max(1) as f64;
        // (sum of doubts, sum of losses, pairs)
        let mut steps: Vec<(f64, f64, f64)> = Vec::new();
        for step in 0..count {
            let part = &pairs[step * pairs.len() / count..(step + 1) * pairs.len() / count];
            if part.is_empty() {
                continue;
            }
            let sum = part.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            let mut next = (sum.0, sum.1, part.len() as f64);
            while let Some(last) = steps.last().filter(|last| last.1 * next.2 >= next.1 * last.2) {
                next = (next.0 + last.0, next.1 + last.1, next.2 + last.2);
                steps.pop();
            }
            steps.push(next);
        }
        let step =
            |(doubt, loss, n): (f64, f64, f64)| (doubt / n, (loss + CAUTION * overall) / (n + CAUTION));
        Calibration { steps: steps.into_iter().map(step).collect() }
    }

    /// The loss to expect at that doubt: between the steps in a straight line, below the first as there, beyond the last in
    /// proportion.
    pub fn expected(&self, doubt: f64) -> f64 {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return 0.0 };
        if doubt <= first.0 {
            return first.1;
        }
        if doubt >= last.0 {
            return if last.0 > 0.0 { last.1 * (doubt / last.0).min(MOST_BEYOND) } else { last.1 };
        }
        let above = self.steps.iter().position(|step| step.0 > doubt).unwrap_or(self.steps.len() - 1).max(1);
        let (low, high) = (self.steps[above - 1], self.steps[above]);
        low.1 + (high.1 - low.1) * (doubt - low.0) / (high.0 - low.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_that_are_too_large_by_half_are_put_right_and_never_fall() {
        let pairs: Vec<(f64, f64)> = (0..400).map(|n| (n as f64 / 100.0, n as f64 / 200.0)).collect();
        let calibration = Calibration::new(pairs);
        for doubt in [0.5, 1.0, 2.0, 3.5, 6.0] {
            let expected = calibration.expected(doubt);
            assert!((expected / (doubt / 2.0) - 1.0).abs() < 0.25, "{doubt} {expected}");
        }
        let falling = Calibration::new((0..100).map(|n| (n as f64, 100.0 - n as f64)).collect());
        assert_eq!(falling.steps.len(), 1);
        assert_eq!(Calibration::new(Vec::new()).expected(1.0), 0.0);
    }
}
