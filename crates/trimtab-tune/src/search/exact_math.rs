//! Logarithm, power and the normal distribution from additions and multiplications alone.
//!
//! The platform's functions differ in the last bit between machines, and a search that orders points by them would not
//! be the same everywhere. These are made of operations that IEEE 754 rounds the same way on every machine.

const LN_2: f64 = std::f64::consts::LN_2;
const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i64 = 1023;

/// The binary logarithm of a positive normal number, to about 1e-13; very negative for anything else.
pub(crate) fn log2(value: f64) -> f64 {
    if !value.is_normal() || value < 0.0 {
        return if value == f64::INFINITY { 1024.0 } else { -1075.0 };
    }
    let bits = value.to_bits();
    let mut exponent = ((bits >> MANTISSA_BITS) as i64) - EXPONENT_BIAS;
    let mut mantissa =
        f64::from_bits((bits & ((1 << MANTISSA_BITS) - 1)) | ((EXPONENT_BIAS as u64) << MANTISSA_BITS));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh((m - 1) / (m + 1)), whose argument is at most 0.172.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut sum = 0.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    exponent as f64 + 2.0 * ratio * sum / LN_2
}

/// e to the power of a number, to about 1e-9 relative; zero below -700, capped above 700.
#[inline]
pub(crate) fn exp(value: f64) -> f64 {
    if value < -700.0 {
        return 0.0;
    }
    let scaled = value.min(700.0) * (1.0 / LN_2);
    let whole = (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i64;
    let rest = (scaled - whole as f64) * LN_2;
    let mut sum = 1.0 / 40320.0;
    for divisor in [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + divisor;
    }
    sum * f64::from_bits(((whole + EXPONENT_BIAS) as u64) << MANTISSA_BITS)
}

/// The density of the standard normal distribution.
pub(crate) fn normal_density(value: f64) -> f64 {
    0.398_942_280_401_432_7 * exp(-0.5 * value * value)
}

/// The share of the standard normal distribution below a value, to about 1e-7 (Abramowitz and Stegun 26.2.17).
pub(crate) fn normal_share_below(value: f64) -> f64 {
    let steps = 1.0 / (1.0 + 0.231_641_9 * value.abs());
    let mut sum = 0.0;
    for factor in [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530] {
        sum = (sum + factor) * steps;
    }
    let tail = normal_density(value) * sum;
    if value < 0.0 { tail } else { 1.0 - tail }
}

/// How much below `best` a value of this mean and deviation is expected to be, counting nothing when above.
pub(crate) fn expected_improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let gap = best - mean;
    if deviation <= 1e-12 {
        return gap.max(0.0);
    }
    let scaled = gap / deviation;
    (gap * normal_share_below(scaled) + deviation * normal_density(scaled)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_agree_with_the_platform() {
        for value in [1e-300, 1e-9, 0.5, 0.7, 1.0, 1.41, 1.5, 2.0, 3.0, 1e3, 1e18, 1e300] {
            assert!(
                (log2(value) - f64::log2(value)).abs() < 1e-12 * f64::log2(value).abs().max(1.0),
                "{value}"
            );
        }
        for value in [-699.0, -30.0, -1.0, -0.3, 0.0, 0.2, 1.0, 5.5, 100.0] {
            assert!((exp(value) / f64::exp(value) - 1.0).abs() < 1e-8, "{value}: {}", exp(value));
        }
        assert_eq!((exp(-1e9), log2(0.0), log2(f64::NAN), log2(-1.0)), (0.0, -1075.0, -1075.0, -1075.0));
        assert_eq!((log2(1.0), log2(8.0), exp(0.0)), (0.0, 3.0, 1.0));
    }

    #[test]
    fn the_normal_distribution_agrees_with_tables() {
        for (value, share) in [(-3.0, 0.001_349_9), (-1.0, 0.158_655_3), (0.0, 0.5), (1.96, 0.975_002_1)] {
            assert!((normal_share_below(value) - share).abs() < 2e-7, "{value}");
        }
        assert!((expected_improvement(0.0, 0.0, 1.0) - 0.398_942).abs() < 1e-5);
        assert_eq!(expected_improvement(1.0, 0.25, 0.0), 0.75);
        assert_eq!(expected_improvement(0.0, 1.0, 0.0), 0.0);
    }
}
