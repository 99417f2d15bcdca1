//! Numbers as registers hold them: integers of any width, and floating-point types Rust lacks.

/// The low `bytes` bytes.
#[inline(always)]
pub(crate) fn low(value: u64, bytes: usize) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

/// The low `bytes` bytes as a signed number.
#[inline(always)]
pub(crate) fn signed(value: u64, bytes: usize) -> i64 {
    let unused = 64 - 8 * bytes.min(8) as u32;
    ((value << unused) as i64) >> unused
}

#[inline(always)]
pub(crate) fn f32_of(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

#[inline(always)]
pub(crate) fn of_f32(value: f32) -> u64 {
    u64::from(value.to_bits())
}

/// Rounding to what a type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
    /// To nearest, ties away from zero.
    Away,
}

/// `a * b + c` in f64, rounded to odd: exact enough that rounding it once more to 24 bits or fewer gives what rounding the exact
/// value gives. The product of two numbers of at most 26 bits is exact.
pub(crate) fn fused_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: what `sum` left out.
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

/// An f64 rounded to f32.
pub(crate) fn to_f32(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || value.is_infinite() {
        return nearest;
    }
    let exact = f64::from(nearest);
    let too_large = exact > value;
    let too_small = exact < value;
    match rounding {
        Rounding::Nearest | Rounding::Away => nearest,
        Rounding::Down if too_large => nearest.next_down(),
        Rounding::Up if too_small => nearest.next_up(),
        Rounding::Zero if too_large && value > 0.0 => nearest.next_down(),
        Rounding::Zero if too_small && value < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// A floating-point format of at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    F16,
    Bf16,
}

impl Half {
    /// The value of the low 16 bits.
    pub(crate) fn value(self, bits: u64) -> f32 {
        let bits = bits as u16;
        match self {
            Self::Bf16 => f32::from_bits(u32::from(bits) << 16),
            Self::F16 => {
                let (exponent, mantissa) = (u32::from(bits >> 10) & 31, u32::from(bits) & 1023);
                let size = match exponent {
                    0 => mantissa as f32 * (-24f32).exp2(),
                    31 if mantissa == 0 => f32::INFINITY,
                    31 => f32::NAN,
                    _ => f32::from_bits((exponent + 112) << 23 | mantissa << 13),
                };
                if bits >> 15 == 1 { -size } else { size }
            }
        }
    }

    /// The nearest number of this format, or the next towards zero.
    pub(crate) fn bits(self, value: f64, rounding: Rounding) -> u64 {
        let (digits, least, most) = match self {
            Self::F16 => (11, -24, 65504.0),
            Self::Bf16 => (8, -133, f64::from(f32::from_bits(0x7f7f_0000))),
        };
        if value.is_nan() {
            return 0x7fff;
        }
        let size = value.abs();
        // One unit in the last place of numbers of this size.
        let exponent = if size == 0.0 {
            least
        } else {
            ((size.to_bits() >> 52) as i32 - 1023 - (digits - 1)).max(least)
        };
        let unit = f64::from(exponent).exp2();
        let whole = size / unit;
        let whole = match rounding {
            Rounding::Zero => whole.trunc(),
            Rounding::Away => whole.round(),
            _ => whole.round_ties_even(),
        };
        let rounded = whole * unit;
        let bits = if rounded > most {
            match (self, rounding) {
                (Self::F16, Rounding::Zero) if size.is_finite() => 0x7bff,
                (Self::Bf16, Rounding::Zero) if size.is_finite() => 0x7f7f,
                (Self::F16, _) => 0x7c00,
                (Self::Bf16, _) => 0x7f80,
            }
        } else {
            match self {
                Self::Bf16 => u64::from((rounded as f32).to_bits() >> 16),
                Self::F16 if rounded < (-14f64).exp2() => (rounded * 24f64.exp2()) as u64,
                Self::F16 => (u64::from((rounded as f32).to_bits()) - (112 << 23)) >> 13,
            }
        };
        bits | if value.is_sign_negative() { 0x8000 } else { 0 }
    }
}

/// What a tensor core makes of an f32 where tf32 is asked for: 10 bits of mantissa, the rest ignored.
pub(crate) fn tf32(bits: u64) -> f32 {
    f32::from_bits(bits as u32 & 0xffff_e000)
}

/// An f32 rounded to tf32, ties away from zero (`cvt.rna`) or to even (`cvt.rn`).
pub(crate) fn to_tf32(bits: u64, rounding: Rounding) -> u64 {
    let (bits, value) = (bits as u32, f32_of(bits));
    if value.is_nan() {
        return 0x7fff_ffff;
    }
    let half = match rounding {
        Rounding::Away => 0x1000,
        Rounding::Zero => 0,
        _ => 0xfff + (bits >> 13 & 1),
    };
    u64::from(bits.wrapping_add(half) & 0xffff_e000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_there_and_back() {
        for bits in 0..=0xffffu64 {
            for half in [Half::F16, Half::Bf16] {
                let value = half.value(bits);
                let back = half.bits(f64::from(value), Rounding::Nearest);
                assert!(
                    back == bits || value.is_nan() && back == 0x7fff,
                    "{half:?} {bits:#x} {value} {back:#x}"
                );
            }
        }
    }

    #[test]
    fn halves_round_to_even_to_zero_and_overflow_as_ieee_says() {
        let one_ulp = (-10f64).exp2();
        for (value, nearest, zero) in [
            (1.0 + one_ulp / 2.0, 0x3c00, 0x3c00),
            (1.0 + 1.5 * one_ulp, 0x3c02, 0x3c01),
            (65519.0, 0x7bff, 0x7bff),
            (65520.0, 0x7c00, 0x7bff),
            (-(-25f64).exp2(), 0x8000, 0x8000),
            (1.1 * (-25f64).exp2(), 1, 0),
            (f64::INFINITY, 0x7c00, 0x7c00),
        ] {
            assert_eq!(Half::F16.bits(value, Rounding::Nearest), nearest, "{value}");
            assert_eq!(Half::F16.bits(value, Rounding::Zero), zero, "{value}");
        }
        assert_eq!(Half::Bf16.bits(f64::from(f32::MAX), Rounding::Nearest), 0x7f80);
        assert_eq!(to_tf32(of_f32(1.0) | 0x1000, Rounding::Away), of_f32(1.0) + 0x2000);
        assert_eq!(to_tf32(of_f32(1.0) | 0x1000, Rounding::Nearest), of_f32(1.0));
    }

    #[test]
    fn directed_rounding_brackets_the_exact_value() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f32::from_bits(((state >> 33) as u32 & 0x807f_ffff) | (100 + (state >> 60) as u32 * 3) << 23)
        };
        for _ in 0..20_000 {
            let (a, b, c) = (next(), next(), next());
            let odd = fused_odd(a.into(), b.into(), c.into());
            let (down, up) = (to_f32(odd, Rounding::Down), to_f32(odd, Rounding::Up));
            let fused = a.mul_add(b, c);
            assert_eq!(to_f32(odd, Rounding::Nearest), fused, "{a} {b} {c}");
            assert!(down == fused || up == fused);
            assert!(down == up || down.next_up() == up, "{down} {up}");
            assert_eq!(to_f32(odd, Rounding::Zero), if odd > 0.0 { down } else { up });
        }
    }
}
