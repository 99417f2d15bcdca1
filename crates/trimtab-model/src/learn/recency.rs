//! How much what was measured some time ago still counts.

/// After so long a measurement counts half: seven days.
pub const HALF_LIFE_S: f64 = 7.0 * 24.0 * 3600.0;

/// The weight of a measurement of that age in seconds: one when fresh, half after [`HALF_LIFE_S`], a quarter after twice that. A
/// measurement from the future, as after a clock was set back, is fresh.
pub fn recency(age_s: f64) -> f64 {
    if age_s > 0.0 { (-age_s / HALF_LIFE_S).exp2() } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_halves_and_a_fortnight_quarters() {
        let day = 24.0 * 3600.0;
        assert_eq!(recency(0.0), 1.0);
        assert_eq!(recency(-5.0), 1.0);
        assert_eq!(recency(f64::NAN), 1.0);
        assert_eq!(recency(7.0 * day), 0.5);
        assert_eq!(recency(14.0 * day), 0.25);
        // Whatever its age, a week later it counts half as much.
        for age in [0.5, 3.0, 20.0] {
            let ratio = recency((age + 7.0) * day) / recency(age * day);
            assert!((ratio - 0.5).abs() < 1e-12);
        }
    }
}
