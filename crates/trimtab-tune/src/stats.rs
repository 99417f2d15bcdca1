//! Statistics of samples. The minimum decides races; the rest is for people and for spreads.

/// A normal distribution's standard deviation over its median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.4826;

/// The smallest sample that is a number.
pub fn minimum(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().filter(|sample| !sample.is_nan()).min_by(f64::total_cmp)
}

/// The middle sample, or the mean of the two middle ones.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| !sample.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

/// The median distance from the median.
pub fn median_absolute_deviation(samples: &[f64]) -> Option<f64> {
    let middle = median(samples)?;
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    median(&distances)
}

/// One standard deviation in doublings (log2), estimated robustly; samples that are not positive are left out, and of a single one
/// there is none.
pub fn spread_log2(samples: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = samples.iter().filter(|sample| **sample > 0.0).map(|sample| sample.log2()).collect();
    let deviation = median_absolute_deviation(&logs).filter(|_| logs.len() > 1);
    deviation.map(|deviation| SIGMA_PER_MAD * deviation)
}

/// The geometric mean; absent for no values or one that is not positive.
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.log2()).sum::<f64>() / values.len() as f64).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_moves_neither_the_median_nor_the_spread() {
        let samples = [1.0, 1.0, 1.0, 1.0, 1000.0];
        assert_eq!(minimum(&samples), Some(1.0));
        assert_eq!(median(&samples), Some(1.0));
        assert_eq!(spread_log2(&samples), Some(0.0));
    }

    #[test]
    fn an_even_number_of_samples_has_its_median_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median_absolute_deviation(&[1.0, 2.0, 3.0, 4.0]), Some(1.0));
    }

    #[test]
    fn a_geometric_mean_treats_half_and_double_alike() {
        assert_eq!(geomean(&[0.5, 2.0]), Some(1.0));
        assert_eq!(geomean(&[0.5, 0.0]), None);
    }

    #[test]
    fn nothing_and_not_a_number_have_no_statistics() {
        assert_eq!(minimum(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(minimum(&[f64::NAN, 2.0]), Some(2.0));
        assert_eq!(geomean(&[]), None);
        assert_eq!(spread_log2(&[-1.0, 0.0]), None);
        assert_eq!(spread_log2(&[7.0]), None, "one sample says nothing about the next");
    }
}
