//! What lanes compute for themselves: integers, comparisons, addresses. Floating point is `float`'s, conversions are `convert`'s.

use super::{LANES, LOCAL, Lanes, SHARED, WINDOW, convert, float};
use crate::number::{Half, f32_of, low, signed};
use crate::op::{Combine, Comparison, Function, Whole};
use crate::scalar::{Scalar, Space};
use std::cmp::Ordering;

/// A function of each lane's values.
#[inline(always)]
pub(super) fn each(function: impl Fn(usize) -> u64) -> Lanes {
    let mut out = [0; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        *out = function(lane);
    }
    out
}

pub(super) fn evaluate(function: Function, a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes) -> Lanes {
    match function {
        Function::Take => *a,
        Function::Select => each(|l| if c[l] != 0 { a[l] } else { b[l] }),
        Function::Whole(whole, scalar) => integer(whole, scalar, a, b, c, d),
        Function::Float(function, style) => float::single(function, style, a, b, c),
        Function::Double(function, style) => float::double(function, style, a, b, c),
        Function::Halves { float: function, half, packed } => float::halves(function, half, packed, a, b, c),
        Function::Compare { comparison, scalar, flush, combine, negated } => {
            let first = compare(comparison, scalar, flush, a, b);
            match combine {
                None => first,
                Some(combine) => each(|l| {
                    let second = u64::from((c[l] != 0) != negated);
                    match combine {
                        Combine::And => first[l] & second,
                        Combine::Or => first[l] | second,
                        Combine::Xor => first[l] ^ second,
                    }
                }),
            }
        }
        Function::Convert(conversion) => convert::convert(&conversion, a, b),
        Function::ToGeneric(Space::Shared) => each(|l| low(a[l], 4) + SHARED),
        Function::ToGeneric(Space::Local) => each(|l| low(a[l], 4) + LOCAL),
        Function::FromGeneric(Space::Shared) => each(|l| a[l].wrapping_sub(SHARED)),
        Function::FromGeneric(Space::Local) => each(|l| a[l].wrapping_sub(LOCAL)),
        Function::ToGeneric(_) | Function::FromGeneric(_) => *a,
        Function::IsIn(space) => each(|l| u64::from(space == window(a[l]))),
    }
}

/// The space a generic address lies in.
#[inline]
pub(super) fn window(address: u64) -> Space {
    match address {
        _ if address.wrapping_sub(SHARED) < WINDOW => Space::Shared,
        _ if address.wrapping_sub(LOCAL) < WINDOW => Space::Local,
        _ => Space::Global,
    }
}

fn integer(whole: Whole, scalar: Scalar, a: &Lanes, b: &Lanes, c: &Lanes, d: &Lanes) -> Lanes {
    let bytes = scalar.bytes();
    let bits = 8 * bytes as u32;
    let is_signed = scalar.is_signed();
    // Products of 64 bits do not fit into 64 bits.
    let product = |l: usize| match is_signed {
        true => i128::from(signed(a[l], bytes)) * i128::from(signed(b[l], bytes)),
        false => (u128::from(low(a[l], bytes)) * u128::from(low(b[l], bytes))) as i128,
    };
    let order = |l: usize| match is_signed {
        true => signed(a[l], bytes).cmp(&signed(b[l], bytes)),
        false => low(a[l], bytes).cmp(&low(b[l], bytes)),
    };
    match whole {
        Whole::Add => each(|l| low(a[l].wrapping_add(b[l]), bytes)),
        Whole::Subtract => each(|l| low(a[l].wrapping_sub(b[l]), bytes)),
        Whole::MultiplyLow => each(|l| low(a[l].wrapping_mul(b[l]), bytes)),
        Whole::MultiplyAddLow => each(|l| low(a[l].wrapping_mul(b[l]).wrapping_add(c[l]), bytes)),
        Whole::MultiplyHigh => each(|l| low((product(l) >> bits) as u64, bytes)),
        Whole::MultiplyAddHigh => each(|l| low(((product(l) >> bits) as u64).wrapping_add(c[l]), bytes)),
        Whole::MultiplyWide if is_signed => {
            each(|l| signed(a[l], bytes).wrapping_mul(signed(b[l], bytes)) as u64)
        }
        Whole::MultiplyWide => each(|l| low(a[l], bytes).wrapping_mul(low(b[l], bytes))),
        Whole::MultiplyAddWide => each(|l| (product(l) as u64).wrapping_add(c[l])),
        Whole::Divide | Whole::Remainder => each(|l| divide(whole, scalar, a[l], b[l])),
        Whole::Negate => each(|l| low(a[l].wrapping_neg(), bytes)),
        Whole::Absolute => each(|l| low(signed(a[l], bytes).wrapping_abs() as u64, bytes)),
        Whole::Min => each(|l| low(if order(l) == Ordering::Greater { b[l] } else { a[l] }, bytes)),
        Whole::Max => each(|l| low(if order(l) == Ordering::Less { b[l] } else { a[l] }, bytes)),
        Whole::And => each(|l| a[l] & b[l]),
        Whole::Or => each(|l| a[l] | b[l]),
        Whole::Xor => each(|l| a[l] ^ b[l]),
        Whole::Not if scalar == Scalar::Pred => each(|l| u64::from(a[l] == 0)),
        Whole::Not => each(|l| low(!a[l], bytes)),
        Whole::IsZero => each(|l| u64::from(low(a[l], bytes) == 0)),
        Whole::ShiftLeft => each(|l| match b[l] as u32 {
            by if by >= bits => 0,
            by => low(a[l] << by, bytes),
        }),
        Whole::ShiftRight if is_signed => {
            each(|l| low((signed(a[l], bytes) >> (b[l] as u32).min(63)) as u64, bytes))
        }
        Whole::ShiftRight => each(|l| match b[l] as u32 {
            by if by >= bits => 0,
            by => low(a[l], bytes) >> by,
        }),
        Whole::ExtractField => each(|l| extract(scalar, a[l], b[l] as u32 & 255, c[l] as u32 & 255)),
        Whole::InsertField => each(|l| insert(bits, a[l], b[l], c[l] as u32 & 255, d[l] as u32 & 255)),
        Whole::Reverse => each(|l| a[l].reverse_bits() >> (64 - bits)),
        Whole::LeadingZeros => each(|l| u64::from(low(a[l], bytes).leading_zeros() - (64 - bits))),
        Whole::CountOnes => each(|l| u64::from(low(a[l], bytes).count_ones())),
        Whole::FindHighest => each(|l| {
            // Of a negative number, the highest bit that is not its sign.
            let value = if is_signed && signed(a[l], bytes) < 0 { !a[l] } else { a[l] };
            let value = low(value, bytes);
            if value == 0 { 0xffff_ffff } else { u64::from(63 - value.leading_zeros()) }
        }),
        Whole::Permute => each(|l| permute(a[l], b[l], c[l])),
        Whole::FunnelLeft { wraps } => each(|l| {
            let both = low(a[l], 4) | b[l] << 32;
            low((both << funnel(wraps, c[l])) >> 32, 4)
                | if funnel(wraps, c[l]) == 32 { low(a[l], 4) } else { 0 }
        }),
        Whole::FunnelRight { wraps } => each(|l| low((low(a[l], 4) | b[l] << 32) >> funnel(wraps, c[l]), 4)),
        Whole::Logic3 => each(|l| {
            let table = d[l];
            let bit = |at: u32| {
                let index = (a[l] >> at & 1) << 2 | (b[l] >> at & 1) << 1 | (c[l] >> at & 1);
                (table >> index & 1) << at
            };
            (0..bits).fold(0, |out, at| out | bit(at))
        }),
        Whole::AbsoluteDifference => each(|l| {
            let (more, less) = if order(l) == Ordering::Less { (b[l], a[l]) } else { (a[l], b[l]) };
            low(c[l].wrapping_add(more.wrapping_sub(less)), bytes)
        }),
    }
}

fn funnel(wraps: bool, by: u64) -> u32 {
    if wraps { by as u32 & 31 } else { (by as u32).min(32) }
}

/// Lanes that are not active may divide by zero; they get all ones.
fn divide(whole: Whole, scalar: Scalar, a: u64, b: u64) -> u64 {
    let bytes = scalar.bytes();
    if low(b, bytes) == 0 {
        return low(u64::MAX, bytes);
    }
    let quotient = whole == Whole::Divide;
    let value = match scalar.is_signed() {
        true if quotient => signed(a, bytes).wrapping_div(signed(b, bytes)) as u64,
        true => signed(a, bytes).wrapping_rem(signed(b, bytes)) as u64,
        false if quotient => low(a, bytes) / low(b, bytes),
        false => low(a, bytes) % low(b, bytes),
    };
    low(value, bytes)
}

fn extract(scalar: Scalar, a: u64, position: u32, length: u32) -> u64 {
    let (bytes, bits) = (scalar.bytes(), 8 * scalar.bytes() as u32);
    let highest = bits - 1;
    let sign =
        if scalar.is_signed() && length > 0 { a >> (position + length - 1).min(highest) & 1 } else { 0 };
    let mut out = 0;
    for at in 0..bits {
        let bit = if at < length && position + at <= highest { a >> (position + at) & 1 } else { sign };
        out |= bit << at;
    }
    low(out, bytes)
}

fn insert(bits: u32, a: u64, b: u64, position: u32, length: u32) -> u64 {
    let mut out = b;
    for at in 0..length.min(bits) {
        if position + at < bits {
            out = (out & !(1 << (position + at))) | (a >> at & 1) << (position + at);
        }
    }
    out
}

/// Four bytes of eight, each picked by a digit; its highest bit repeats the sign.
fn permute(a: u64, b: u64, picks: u64) -> u64 {
    let bytes = low(a, 4) | b << 32;
    (0..4).fold(0, |out, at| {
        let pick = picks >> (4 * at);
        let byte = bytes >> (8 * (pick & 7)) & 255;
        let byte = if pick & 8 == 0 { byte } else { 255 * (byte >> 7) };
        out | byte << (8 * at)
    })
}

fn compare(comparison: Comparison, scalar: Scalar, flush: bool, a: &Lanes, b: &Lanes) -> Lanes {
    let bytes = scalar.bytes();
    let judge = |order: Option<Ordering>| -> u64 {
        let or = |yes: bool| yes || order.is_none();
        let less = order == Some(Ordering::Less);
        let equal = order == Some(Ordering::Equal);
        let greater = order == Some(Ordering::Greater);
        u64::from(match comparison {
            Comparison::Equal => equal,
            Comparison::NotEqual => less || greater,
            Comparison::Less => less,
            Comparison::LessEqual => less || equal,
            Comparison::Greater => greater,
            Comparison::GreaterEqual => greater || equal,
            Comparison::EqualOr => or(equal),
            Comparison::NotEqualOr => or(less || greater),
            Comparison::LessOr => or(less),
            Comparison::LessEqualOr => or(less || equal),
            Comparison::GreaterOr => or(greater),
            Comparison::GreaterEqualOr => or(greater || equal),
            Comparison::BothNumbers => order.is_some(),
            Comparison::NotBothNumbers => order.is_none(),
        })
    };
    match scalar {
        Scalar::F32 => each(|l| {
            let [x, y] = [a[l], b[l]].map(|value| float::flushed(f32_of(value), flush));
            judge(x.partial_cmp(&y))
        }),
        Scalar::F64 => each(|l| judge(f64::from_bits(a[l]).partial_cmp(&f64::from_bits(b[l])))),
        Scalar::F16 => each(|l| judge(Half::F16.value(a[l]).partial_cmp(&Half::F16.value(b[l])))),
        Scalar::Bf16 => each(|l| judge(Half::Bf16.value(a[l]).partial_cmp(&Half::Bf16.value(b[l])))),
        _ if scalar.is_signed() => each(|l| judge(Some(signed(a[l], bytes).cmp(&signed(b[l], bytes))))),
        _ => each(|l| judge(Some(low(a[l], bytes).cmp(&low(b[l], bytes))))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(whole: Whole, scalar: Scalar, values: [u64; 4]) -> u64 {
        let [a, b, c, d] = values.map(|value| [value; LANES]);
        let out = integer(whole, scalar, &a, &b, &c, &d);
        assert!(out.iter().all(|value| *value == out[0]));
        out[0]
    }

    #[test]
    fn integers_are_as_ptx_says() {
        let minus = |value: u64| value.wrapping_neg();
        for (whole, scalar, [a, b, c, d], expected) in [
            (Whole::MultiplyHigh, Scalar::S32, [minus(3), 5, 0, 0], 0xffff_ffff),
            (Whole::MultiplyHigh, Scalar::U64, [u64::MAX, u64::MAX, 0, 0], u64::MAX - 1),
            (Whole::MultiplyWide, Scalar::S32, [0xffff_fffd, 4, 0, 0], minus(12)),
            (Whole::MultiplyAddWide, Scalar::U32, [0xffff_ffff, 2, 5, 0], 0x2_0000_0003),
            (Whole::Divide, Scalar::S32, [0xffff_fff9, 2, 0, 0], 0xffff_fffd),
            (Whole::Remainder, Scalar::S64, [minus(7), 2, 0, 0], minus(1)),
            (Whole::Divide, Scalar::S32, [0x8000_0000, 0xffff_ffff, 0, 0], 0x8000_0000),
            (Whole::ShiftRight, Scalar::S32, [0x8000_0000, 40, 0, 0], 0xffff_ffff),
            (Whole::ShiftLeft, Scalar::B32, [1, 32, 0, 0], 0),
            (Whole::ExtractField, Scalar::S32, [0b1011_0000, 4, 4, 0], 0xffff_fffb),
            (Whole::ExtractField, Scalar::U32, [0xf000_0000, 28, 8, 0], 15),
            (Whole::InsertField, Scalar::B32, [0b101, 0xff00, 8, 3], 0xfd00),
            (Whole::LeadingZeros, Scalar::B32, [1, 0, 0, 0], 31),
            (Whole::FindHighest, Scalar::U32, [0, 0, 0, 0], 0xffff_ffff),
            (Whole::FindHighest, Scalar::S32, [0xffff_fffe, 0, 0, 0], 0),
            (Whole::Reverse, Scalar::B32, [1, 0, 0, 0], 0x8000_0000),
            (Whole::Permute, Scalar::B32, [0x4433_2211, 0x8877_6655, 0x7362, 0], 0x8844_7733),
            (Whole::Permute, Scalar::B32, [0x80, 0, 0x8888, 0], 0xffff_ffff),
            (Whole::FunnelLeft { wraps: true }, Scalar::B32, [0x8000_0000, 1, 1, 0], 3),
            (Whole::FunnelLeft { wraps: false }, Scalar::B32, [7, 1, 40, 0], 7),
            (Whole::FunnelRight { wraps: true }, Scalar::B32, [2, 1, 1, 0], 0x8000_0001),
            (Whole::Logic3, Scalar::B32, [0xf0, 0xcc, 0xaa, 0x96], 0x96),
            (Whole::AbsoluteDifference, Scalar::U32, [3, 10, 100, 0], 107),
            (Whole::Absolute, Scalar::S16, [0xfffb, 0, 0, 0], 5),
            (Whole::Min, Scalar::S32, [0xffff_ffff, 0, 0, 0], 0xffff_ffff),
            (Whole::Min, Scalar::U32, [0xffff_ffff, 0, 0, 0], 0),
        ] {
            assert_eq!(
                one(whole, scalar, [a, b, c, d]),
                expected,
                "{whole:?} {scalar:?} {a:#x} {b:#x} {c:#x}"
            );
        }
    }

    #[test]
    fn comparisons_with_what_is_no_number_are_ordered_or_not() {
        let (nan, one) = ([u64::from(f32::NAN.to_bits()); LANES], [u64::from(1f32.to_bits()); LANES]);
        for (comparison, expected) in [
            (Comparison::NotEqual, 0),
            (Comparison::NotEqualOr, 1),
            (Comparison::Less, 0),
            (Comparison::GreaterEqualOr, 1),
            (Comparison::NotBothNumbers, 1),
            (Comparison::BothNumbers, 0),
        ] {
            assert_eq!(compare(comparison, Scalar::F32, false, &nan, &one)[0], expected, "{comparison:?}");
        }
        assert_eq!(
            compare(Comparison::Less, Scalar::S32, false, &[u64::from(u32::MAX); LANES], &[0; LANES])[0],
            1
        );
    }
}
