//! From a model's own doubt to the loss that was seen where it doubted as much.

/// Offsets tried, as shares of the mean doubt, and powers.
const OFFSETS: [f64; 7] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0];
const POWERS: [f64; 5] = [0.5, 0.75, 1.0, 1.25, 1.5];

/// Before anything was seen, a loss is expected to be this share of the doubt; that counts as much as so many pairs. Of three
/// tables of times the share was 0.77, 0.90 and 0.93 once 400 problems had been seen.
const PRIOR: (f64, f64) = (0.9, 30.0);

/// A rising curve from doubt to expected loss, both in doublings: `least + scale · (offset + doubt)^power`.
///
/// Losses are many small ones and a few large ones; of all curves the one is taken under which the losses that were seen,
/// thought of as exponentially distributed around it, are likeliest. So small expectations are fitted as carefully as large
/// ones, and what is learned from all pairs is not at the mercy of the few in one corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    scale: f64,
    offset: f64,
    power: f64,
    /// The least loss that is expected: with few pairs, part of the mean, for a model that never doubts may not know better.
    least: f64,
}

impl Calibration {
    /// From pairs of a doubt and the loss that was seen.
    pub fn new(pairs: &[(f64, f64)]) -> Calibration {
        let usable =
            |pair: &&(f64, f64)| pair.0 >= 0.0 && pair.0.is_finite() && pair.1 >= 0.0 && pair.1.is_finite();
        let count = pairs.iter().filter(usable).count() as f64;
        let seen = count / (count + PRIOR.1);
        let mixed = |(doubt, loss): &(f64, f64)| (*doubt, seen * loss + (1.0 - seen) * PRIOR.0 * doubt);
        let pairs: Vec<(f64, f64)> = pairs.iter().filter(usable).map(mixed).collect();
        let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / count.max(1.0);
        let mut best = (f64::INFINITY, Calibration { scale: PRIOR.0, offset: 0.0, power: 1.0, least: 0.0 });
        if pairs.is_empty() {
            return best.1;
        }
        let least = (1.0 - seen) * pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        for offset in OFFSETS.map(|share| share * mean.max(1e-6)) {
            for power in POWERS {
                // The likeliest scale of a shape is the mean of losses over it.
                let (mut sum, mut logs) = (0.0, 0.0);
                for (doubt, loss) in &pairs {
                    let shape = (offset + doubt).powf(power);
                    sum += loss / shape;
                    logs += shape.ln();
                }
                let scale = sum / count.max(1.0);
                let unlikely = logs / count.max(1.0) + scale.max(1e-12).ln();
                if unlikely < best.0 {
                    best = (unlikely, Calibration { scale: seen * scale, offset, power, least });
                }
            }
        }
        best.1
    }

    /// The loss to expect at that doubt.
    pub fn expected(&self, doubt: f64) -> f64 {
        self.least + self.scale * (self.offset + doubt.max(0.0)).powf(self.power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::RandomNumbers;

    #[test]
    fn doubts_that_are_too_large_by_half_are_put_right() {
        let mut dice = RandomNumbers::new(1);
        let mut pair = || {
            let doubt = dice.unit();
            (doubt, -0.5 * doubt * (1.0 - dice.unit()).ln())
        };
        let pairs: Vec<(f64, f64)> = (0..400).map(|_| pair()).collect();
        let calibration = Calibration::new(&pairs);
        for doubt in [0.2, 0.5, 1.0] {
            let expected = calibration.expected(doubt);
            assert!((expected / (0.5 * doubt) - 1.0).abs() < 0.4, "{doubt} {expected}");
        }
    }

    #[test]
    fn before_anything_is_seen_most_of_the_doubt_is_expected_and_after_no_loss_little() {
        assert_eq!(Calibration::new(&[]).expected(1.0), PRIOR.0);
        assert_eq!(Calibration::new(&[(f64::NAN, 1.0)]).expected(1.0), PRIOR.0);
        let few = Calibration::new(&[(0.1, 0.0); 5]).expected(0.1);
        let many = Calibration::new(&[(0.1, 0.0); 500]).expected(0.1);
        assert!(many < 0.01 && many < few && few < PRIOR.0 * 0.1, "{few} {many}");
        assert!(Calibration::new(&[(0.0, 0.1); 50]).expected(0.0) > 0.05);
    }
}
