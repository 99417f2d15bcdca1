//! Floating-point functions of lanes.

use super::Lanes;
use super::compute::each;
use crate::number::{Half, Rounding, f32_of, fused_odd, of_f32, to_f32};
use crate::op::{Float, Style};

/// Zero for a subnormal number, where that is asked for.
#[inline(always)]
pub(super) fn flushed(value: f32, flush: bool) -> f32 {
    if flush && value.is_subnormal() { 0f32.copysign(value) } else { value }
}

pub(super) fn single(function: Float, style: Style, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let Style { rounding, flush, saturate } = style;
    let plain = !flush && !saturate && rounding == Rounding::Nearest;
    // What kernels do most, without a question for each lane.
    match function {
        Float::Fused if plain => return each(|l| of_f32(f32_of(a[l]).mul_add(f32_of(b[l]), f32_of(c[l])))),
        Float::Add if plain => return each(|l| of_f32(f32_of(a[l]) + f32_of(b[l]))),
        Float::Multiply if plain => return each(|l| of_f32(f32_of(a[l]) * f32_of(b[l]))),
        _ => {}
    }
    each(|l| {
        let [x, y, z] = [a[l], b[l], c[l]].map(|value| flushed(f32_of(value), flush));
        if let Some(yes) = test(function, f64::from(x), x.is_normal(), x.is_subnormal()) {
            return u64::from(yes);
        }
        let value = match (function, rounding) {
            (Float::Add, Rounding::Nearest) => x + y,
            (Float::Subtract, Rounding::Nearest) => x - y,
            (Float::Multiply, Rounding::Nearest) => x * y,
            (Float::Fused, Rounding::Nearest) => x.mul_add(y, z),
            (Float::Add, _) => to_f32(fused_odd(x.into(), 1.0, y.into()), rounding),
            (Float::Subtract, _) => to_f32(fused_odd(x.into(), 1.0, (-y).into()), rounding),
            (Float::Multiply, _) => to_f32(f64::from(x) * f64::from(y), rounding),
            (Float::Fused, _) => to_f32(fused_odd(x.into(), y.into(), z.into()), rounding),
            (Float::Divide, _) => x / y,
            (Float::Root, _) => x.sqrt(),
            (Float::Negate, _) => -x,
            (Float::Absolute, _) => x.abs(),
            (Float::CopySign, _) => y.copysign(x),
            (Float::Min | Float::Max | Float::MinNan | Float::MaxNan, _) => {
                extreme(function, x.into(), y.into()) as f32
            }
            _ => transcendental(function, f64::from(x)) as f32,
        };
        let value = if saturate { if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) } } else { value };
        of_f32(flushed(value, flush))
    })
}

pub(super) fn double(function: Float, style: Style, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    each(|l| {
        let [x, y, z] = [a[l], b[l], c[l]].map(f64::from_bits);
        if let Some(yes) = test(function, x, x.is_normal(), x.is_subnormal()) {
            return u64::from(yes);
        }
        let value = match function {
            Float::Add => x + y,
            Float::Subtract => x - y,
            Float::Multiply => x * y,
            Float::Fused => x.mul_add(y, z),
            Float::Divide => x / y,
            Float::Negate => -x,
            Float::Absolute => x.abs(),
            Float::CopySign => y.copysign(x),
            Float::Min | Float::Max | Float::MinNan | Float::MaxNan => extreme(function, x, y),
            _ => transcendental(function, x),
        };
        // `rcp.approx.ftz.f64` gives the upper half of the result only.
        let approximate = style.flush && matches!(function, Float::Reciprocal | Float::ReciprocalRoot);
        if approximate { value.to_bits() & !0xffff_ffff } else { value.to_bits() }
    })
}

pub(super) fn halves(function: Float, half: Half, packed: bool, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let one = |a: u64, b: u64, c: u64| -> u64 {
        match function {
            // Signs are bits, also of what is no number.
            Float::Negate => return a & 0xffff ^ 0x8000,
            Float::Absolute => return a & 0x7fff,
            _ => {}
        }
        let [x, y, z] = [a, b, c].map(|bits| f64::from(half.value(bits)));
        let value = match function {
            Float::Add => fused_odd(x, 1.0, y),
            Float::Subtract => fused_odd(x, 1.0, -y),
            Float::Multiply => x * y,
            Float::Fused => fused_odd(x, y, z),
            _ => extreme(function, x, y),
        };
        half.bits(value, Rounding::Nearest)
    };
    each(|l| {
        let low = one(a[l], b[l], c[l]);
        if packed { low | one(a[l] >> 16, b[l] >> 16, c[l] >> 16) << 16 } else { low }
    })
}

/// The smaller or larger; -0 is smaller than +0.
fn extreme(function: Float, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return match function {
            Float::MinNan | Float::MaxNan => f64::NAN,
            _ if x.is_nan() => y,
            _ => x,
        };
    }
    let less = x.total_cmp(&y).is_lt();
    if less == matches!(function, Float::Min | Float::MinNan) { x } else { y }
}

/// What the hardware approximates, computed in f64: nearer to the truth than the hardware is.
fn transcendental(function: Float, x: f64) -> f64 {
    match function {
        Float::Reciprocal => 1.0 / x,
        Float::Root => x.sqrt(),
        Float::ReciprocalRoot => 1.0 / x.sqrt(),
        Float::Exp2 => x.exp2(),
        Float::Log2 => x.log2(),
        Float::Sine => x.sin(),
        Float::Cosine => x.cos(),
        Float::Tanh => x.tanh(),
        // The others are answered above.
        _ => f64::NAN,
    }
}

fn test(function: Float, x: f64, normal: bool, subnormal: bool) -> Option<bool> {
    Some(match function {
        Float::IsFinite => x.is_finite(),
        Float::IsInfinite => x.is_infinite(),
        Float::IsNan => x.is_nan(),
        Float::IsNumber => !x.is_nan(),
        Float::IsNormal => normal,
        Float::IsSubnormal => subnormal,
        _ => return None,
    })
}
