//! Conversions between types (`cvt`).

use super::Lanes;
use super::compute::each;
use super::float::flushed;
use crate::number::{Half, Rounding, f32_of, low, of_f32, signed, to_f32, to_tf32};
use crate::op::Conversion;
use crate::scalar::Scalar;

pub(super) fn convert(conversion: &Conversion, a: &Lanes, b: &Lanes) -> Lanes {
    let Conversion { to, from, rounding, flush, .. } = *conversion;
    match to {
        // The first operand is the upper half.
        Scalar::F16x2 => each(|l| pack(Half::F16, a[l], b[l], rounding)),
        Scalar::Bf16x2 => each(|l| pack(Half::Bf16, a[l], b[l], rounding)),
        Scalar::Tf32 => each(|l| to_tf32(a[l], rounding)),
        _ if from.is_float() => each(|l| {
            let value = match from {
                Scalar::F16 => f64::from(Half::F16.value(a[l])),
                Scalar::Bf16 => f64::from(Half::Bf16.value(a[l])),
                Scalar::F32 => f64::from(flushed(f32_of(a[l]), flush)),
                _ => f64::from_bits(a[l]),
            };
            of_float(conversion, value)
        }),
        _ => each(|l| of_whole(conversion, a[l])),
    }
}

fn pack(half: Half, high: u64, low: u64, rounding: Rounding) -> u64 {
    half.bits(f64::from(f32_of(high)), rounding) << 16 | half.bits(f64::from(f32_of(low)), rounding)
}

fn of_float(conversion: &Conversion, value: f64) -> u64 {
    let Conversion { to, rounding, to_whole, saturate, flush, .. } = *conversion;
    let value = match (to_whole, rounding) {
        (false, _) => value,
        (_, Rounding::Zero) => value.trunc(),
        (_, Rounding::Down) => value.floor(),
        (_, Rounding::Up) => value.ceil(),
        _ => value.round_ties_even(),
    };
    let value = if saturate && to.is_float() {
        if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
    } else {
        value
    };
    let nearest = if to_whole { Rounding::Nearest } else { rounding };
    match to {
        Scalar::F16 => Half::F16.bits(value, nearest),
        Scalar::Bf16 => Half::Bf16.bits(value, nearest),
        Scalar::F32 => of_f32(flushed(to_f32(value, nearest), flush)),
        Scalar::F64 => value.to_bits(),
        // Out of range means the nearest there is; what is no number is zero, of 64 bits the highest bit.
        Scalar::S64 if value.is_nan() => 1 << 63,
        Scalar::U64 if value.is_nan() => 1 << 63,
        _ => {
            let bits = 8 * to.bytes() as u32;
            let whole = value as i128;
            let (least, most) = match to.is_signed() {
                true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                false => (0, (1i128 << bits) - 1),
            };
            whole.clamp(least, most) as u64
        }
    }
}

fn of_whole(conversion: &Conversion, bits: u64) -> u64 {
    let Conversion { to, from, rounding, saturate, .. } = *conversion;
    let value = match from.is_signed() {
        true => i128::from(signed(bits, from.bytes())),
        false => i128::from(low(bits, from.bytes())),
    };
    match to {
        Scalar::F16 => Half::F16.bits(value as f64, rounding),
        Scalar::Bf16 => Half::Bf16.bits(value as f64, rounding),
        Scalar::F32 => of_f32(whole_to_f32(value, rounding)),
        Scalar::F64 => (value as f64).to_bits(),
        _ => {
            let (bytes, width) = (to.bytes(), 8 * to.bytes() as u32);
            let (least, most) = match to.is_signed() {
                true => (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1),
                false => (0, (1i128 << width) - 1),
            };
            let value = if saturate { value.clamp(least, most) } else { value } as u64;
            // A register wider than the type is filled with the sign.
            if to.is_signed() { signed(value, bytes) as u64 } else { low(value, bytes) }
        }
    }
}

/// A whole number of up to 64 bits rounded to f32.
fn whole_to_f32(value: i128, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    // Exact: an f32 of that size is a whole number.
    let exact = nearest as i128;
    let down = exact > value && (rounding == Rounding::Down || rounding == Rounding::Zero && value > 0);
    let up = exact < value && (rounding == Rounding::Up || rounding == Rounding::Zero && value < 0);
    match (down, up) {
        (true, _) => nearest.next_down(),
        (_, true) => nearest.next_up(),
        _ => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::LANES;

    #[test]
    fn conversions_are_as_ptx_says() {
        let f = |value: f32| of_f32(value);
        let nearest = |to, from| Conversion {
            to,
            from,
            rounding: Rounding::Nearest,
            to_whole: false,
            saturate: false,
            flush: false,
        };
        let directed = |to, from, rounding| Conversion { rounding, ..nearest(to, from) };
        let whole = |to, from, rounding| Conversion { rounding, to_whole: true, ..nearest(to, from) };
        for (conversion, bits, expected) in [
            (nearest(Scalar::S64, Scalar::S32), 0xffff_ffff, u64::MAX),
            (nearest(Scalar::U64, Scalar::U32), 0xffff_ffff, 0xffff_ffff),
            (nearest(Scalar::U16, Scalar::S32), 0x1_fffe, 0xfffe),
            (nearest(Scalar::S32, Scalar::S8), 0x80, (-128i64) as u64),
            (nearest(Scalar::F32, Scalar::S32), 0xffff_ffff, f(-1.0)),
            (nearest(Scalar::F32, Scalar::U64), u64::MAX, f(18446744073709551616.0)),
            (directed(Scalar::F32, Scalar::S32, Rounding::Zero), 0x7fff_ffff, f(2147483520.0)),
            (directed(Scalar::F32, Scalar::S32, Rounding::Zero), 0x8000_0001, f(-2147483520.0)),
            (directed(Scalar::F32, Scalar::U64, Rounding::Zero), u64::MAX, f(18446742974197923840.0)),
            (directed(Scalar::F32, Scalar::U64, Rounding::Up), (1 << 40) + 1, f(1099511758848.0)),
            (directed(Scalar::F32, Scalar::S64, Rounding::Down), (1 << 40) + 1, f(1099511627776.0)),
            (whole(Scalar::S32, Scalar::F32, Rounding::Zero), f(-2.7), (-2i64) as u64),
            (whole(Scalar::S32, Scalar::F32, Rounding::Nearest), f(2.5), 2),
            (whole(Scalar::S32, Scalar::F32, Rounding::Zero), f(3e9), 0x7fff_ffff),
            (whole(Scalar::S32, Scalar::F32, Rounding::Zero), f(f32::NAN), 0),
            (whole(Scalar::U32, Scalar::F32, Rounding::Up), f(-0.5), 0),
            (whole(Scalar::F32, Scalar::F32, Rounding::Down), f(-0.5), f(-1.0)),
            (nearest(Scalar::F16, Scalar::F32), f(1.0), 0x3c00),
            (nearest(Scalar::F32, Scalar::Bf16), 0x3f80, f(1.0)),
            (Conversion { saturate: true, ..nearest(Scalar::F32, Scalar::F32) }, f(7.0), f(1.0)),
            (
                Conversion { rounding: Rounding::Away, ..nearest(Scalar::Tf32, Scalar::F32) },
                f(1.0) + 0x1000,
                f(1.0) + 0x2000,
            ),
        ] {
            assert_eq!(
                convert(&conversion, &[bits; LANES], &[0; LANES])[5],
                expected,
                "{conversion:?} of {bits:#x}"
            );
        }
        let packed = convert(&nearest(Scalar::F16x2, Scalar::F32), &[f(1.0); LANES], &[f(2.0); LANES]);
        assert_eq!(packed[0], 0x3c00_4000);
    }
}
