//! Twiddle factors: numbers of size one, each computed in `f64` from an angle of at most an eighth of a turn.

use super::Real;
use trimtab_operands::Complex;

/// `e^(-2πi·part/whole)`.
pub(super) fn turn(part: u64, whole: u64) -> Complex<f64> {
    let whole = whole.max(1);
    // In eighths of a turn, without rounding: products of lengths fit 128 bits.
    let eighths = u128::from(part % whole) * 8;
    let octant = eighths / u128::from(whole);
    let within = (eighths % u128::from(whole)) as f64 / whole as f64;
    let angle = |eighth: f64| eighth * std::f64::consts::FRAC_PI_4;
    // From the nearer end of the octant, so that sine and cosine trade places at the diagonals.
    let (sin, cos) = if octant % 2 == 0 { angle(within).sin_cos() } else { angle(1.0 - within).sin_cos() };
    let (re, im) = match octant {
        0 => (cos, sin),
        1 => (sin, cos),
        2 => (-sin, cos),
        3 => (-cos, sin),
        4 => (-cos, -sin),
        5 => (-sin, -cos),
        6 => (sin, -cos),
        _ => (cos, -sin),
    };
    Complex::new(re, -im)
}

/// The same, rounded.
pub(super) fn turn_of<T: Real>(part: u64, whole: u64) -> Complex<T> {
    let turn = turn(part, whole);
    Complex::new(T::of(turn.re), T::of(turn.im))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_those_of_the_circle_and_exact_at_its_corners() {
        for whole in [1u64, 2, 3, 4, 5, 7, 8, 12, 100, 1024, 99_991] {
            for part in (0..whole).step_by((whole / 97).max(1) as usize) {
                let angle = -2.0 * std::f64::consts::PI * part as f64 / whole as f64;
                let turn = turn(part, whole);
                assert!((turn.re - angle.cos()).abs() < 1e-15, "{part} of {whole}: {turn}");
                assert!((turn.im - angle.sin()).abs() < 1e-15, "{part} of {whole}: {turn}");
            }
        }
        assert_eq!(
            [turn(1, 4), turn(2, 4), turn(3, 4)].map(|turn| (turn.re, turn.im)),
            [(0.0, -1.0), (-1.0, 0.0), (0.0, 1.0)]
        );
        assert!((turn(1, 8).re + turn(1, 8).im).abs() <= f64::EPSILON);
    }
}
