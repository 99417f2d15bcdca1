//! Floating-point functions of lanes.

use super::Lanes;
use super::compute::each;
use crate::number::{Half, Rounding, f32_of, fused_odd, of_f32, to_f32};
use crate::op::{FloatOp, Style};

/// Zero for a subnormal number, where that is asked for.
#[inline(always)]
pub(super) fn flushed(value: f32, flush: bool) -> f32 {
    if flush && value.is_subnormal() { 0f32.copysign(value) } else { value }
}

pub(super) fn single(function: FloatOp, style: Style, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let Style { rounding, flush, saturate } = style;
    let plain = !flush && !saturate && rounding == Rounding::Nearest;
    // What kernels do most, without a question for each lane.
    match function {
        FloatOp::Fused if plain => return each(|l| of_f32(f32_of(a[l]).mul_add(f32_of(b[l]), f32_of(c[l])))),
        FloatOp::Add if plain => return each(|l| of_f32(f32_of(a[l]) + f32_of(b[l]))),
        FloatOp::Multiply if plain => return each(|l| of_f32(f32_of(a[l]) * f32_of(b[l]))),
        _ => {}
    }
    each(|l| {
        let [x, y, z] = [a[l], b[l], c[l]].map(|value| flushed(f32_of(value), flush));
        if let Some(yes) = test(function, f64::from(x), x.is_normal(), x.is_subnormal()) {
            return u64::from(yes);
        }
        let value = match (function, rounding) {
            (FloatOp::Add, Rounding::Nearest) => x + y,
            (FloatOp::Subtract, Rounding::Nearest) => x - y,
            (FloatOp::Multiply, Rounding::Nearest) => x * y,
            (FloatOp::Fused, Rounding::Nearest) => x.mul_add(y, z),
            (FloatOp::Add, _) => to_f32(fused_odd(x.into(), 1.0, y.into()), rounding),
            (FloatOp::Subtract, _) => to_f32(fused_odd(x.into(), 1.0, (-y).into()), rounding),
            (FloatOp::Multiply, _) => to_f32(f64::from(x) * f64::from(y), rounding),
            (FloatOp::Fused, _) => to_f32(fused_odd(x.into(), y.into(), z.into()), rounding),
            (FloatOp::Divide, _) => x / y,
            (FloatOp::Root, _) => x.sqrt(),
            (FloatOp::Negate, _) => -x,
            (FloatOp::Absolute, _) => x.abs(),
            (FloatOp::CopySign, _) => y.copysign(x),
            (FloatOp::Min | FloatOp::Max | FloatOp::MinNan | FloatOp::MaxNan, _) => {
                extreme(function, x.into(), y.into()) as f32
            }
            _ => transcendental(function, f64::from(x)) as f32,
        };
        let value = if saturate { if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) } } else { value };
        of_f32(flushed(value, flush))
    })
}

pub(super) fn double(function: FloatOp, style: Style, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    each(|l| {
        let [x, y, z] = [a[l], b[l], c[l]].map(f64::from_bits);
        if let Some(yes) = test(function, x, x.is_normal(), x.is_subnormal()) {
            return u64::from(yes);
        }
        let value = match function {
            FloatOp::Add => x + y,
            FloatOp::Subtract => x - y,
            FloatOp::Multiply => x * y,
            FloatOp::Fused => x.mul_add(y, z),
            FloatOp::Divide => x / y,
            FloatOp::Negate => -x,
            FloatOp::Absolute => x.abs(),
            FloatOp::CopySign => y.copysign(x),
            FloatOp::Min | FloatOp::Max | FloatOp::MinNan | FloatOp::MaxNan => extreme(function, x, y),
            _ => transcendental(function, x),
        };
        // `rcp.approx.ftz.f64` gives the upper half of the result only.
        let approximate = style.flush && matches!(function, FloatOp::Reciprocal | FloatOp::ReciprocalRoot);
        if approximate { value.to_bits() & !0xffff_ffff } else { value.to_bits() }
    })
}

pub(super) fn halves(function: FloatOp, half: Half, packed: bool, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let one = |a: u64, b: u64, c: u64| -> u64 {
        match function {
            // Signs are bits, also of what is no number.
            FloatOp::Negate => return a & 0xffff ^ 0x8000,
            FloatOp::Absolute => return a & 0x7fff,
            _ => {}
        }
        let [x, y, z] = [a, b, c].map(|bits| f64::from(half.value(bits)));
        let value = match function {
            FloatOp::Add => fused_odd(x, 1.0, y),
            FloatOp::Subtract => fused_odd(x, 1.0, -y),
            FloatOp::Multiply => x * y,
            FloatOp::Fused => fused_odd(x, y, z),
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
fn extreme(function: FloatOp, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return match function {
            FloatOp::MinNan | FloatOp::MaxNan => f64::NAN,
            _ if x.is_nan() => y,
            _ => x,
        };
    }
    let less = x.total_cmp(&y).is_lt();
    if less == matches!(function, FloatOp::Min | FloatOp::MinNan) { x } else { y }
}

/// What the hardware approximates, computed in f64: nearer to the truth than the hardware is.
fn transcendental(function: FloatOp, x: f64) -> f64 {
    match function {
        FloatOp::Reciprocal => 1.0 / x,
        FloatOp::Root => x.sqrt(),
        FloatOp::ReciprocalRoot => 1.0 / x.sqrt(),
        FloatOp::Exp2 => x.exp2(),
        FloatOp::Log2 => x.log2(),
        FloatOp::Sine => x.sin(),
        FloatOp::Cosine => x.cos(),
        FloatOp::Tanh => x.tanh(),
        // The others are answered above.
        _ => f64::NAN,
    }
}

fn test(function: FloatOp, x: f64, normal: bool, subnormal: bool) -> Option<bool> {
    Some(match function {
        FloatOp::IsFinite => x.is_finite(),
        FloatOp::IsInfinite => x.is_infinite(),
        FloatOp::IsNan => x.is_nan(),
        FloatOp::IsNumber => !x.is_nan(),
        FloatOp::IsNormal => normal,
        FloatOp::IsSubnormal => subnormal,
        _ => return None,
    })
}
