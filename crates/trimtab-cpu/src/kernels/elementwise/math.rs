//! Exponential, logarithm and what is made of them, for vectors of `f32` and `f64`, without branches or tables.
//!
//! Measured over the whole range against the standard library (see the tests; with and without fused multiply-add): exp and
//! log 1 ulp, sigmoid 2, tanh 2 (`f32`) and 3 (`f64`), `f32` pow 1; the stated tolerance is 4 ulp. gelu is
//! `x · sigmoid(2u)`; a relative error of u is multiplied by 2u there, so its bound is `4 + 3·|2u|` ulp. Zeros,
//! infinities, NaN and subnormals give what the standard library gives.

use crate::simd::{FloatVector, Simd};

/// The numbers that differ between the two float types.
pub(in crate::kernels) trait Real: Copy + Sized + 'static {
    /// A number of this type.
    fn of(value: f64) -> Self;
    /// 1.5 · 2^mantissa bits: adding it leaves the nearest integer in the low bits.
    const MAGIC: f64;
    /// 2^mantissa bits.
    const SHIFT: f64;
    /// Exponent bias.
    const BIAS: f64;
    /// Upper bits of ln 2, short enough that products with exponents are exact.
    const LN2_UPPER: f64;
    /// The rest of ln 2.
    const LN2_LOWER: f64;
    /// Arguments of exp below give zero, above infinity.
    const EXP_RANGE: (f64, f64);
    /// 2·x from which tanh x rounds to one.
    const TANH_END: f64;
    /// The smallest normal number.
    const MIN_NORMAL: f64;
    /// log2 of the factor that makes subnormal numbers normal.
    const NORMALIZE: f64;
    /// All bits of the mantissa set, nothing else.
    const MANTISSA: Self;
    /// 1/2!, 1/3!, …: (e^r - 1 - r) / r² for |r| ≤ ln2/2. The first term left out is below a quarter ulp.
    const EXP_SERIES: &'static [Self];
    /// 2/3, 2/5, …: the logarithm's series in s² for |s| ≤ 0.172. The first term left out is below a quarter ulp.
    const LOG_SERIES: &'static [Self];
}

/// So many coefficients of a series, each by its number.
macro_rules! series {
    ($type:ty, $count:literal, |$nth:ident| $coefficient:expr) => {{
        const ALL: [$type; $count] = {
            let (mut all, mut $nth) = ([0.0; $count], 0);
            while $nth < $count {
                all[$nth] = $coefficient;
                $nth += 1;
            }
            all
        };
        &ALL
    }};
}

const fn factorial(n: usize) -> u64 {
    if n == 0 { 1 } else { n as u64 * factorial(n - 1) }
}

impl Real for f32 {
    #[inline(always)]
    fn of(value: f64) -> f32 {
        value as f32
    }
    const MAGIC: f64 = 12_582_912.0;
    const SHIFT: f64 = 8_388_608.0;
    const BIAS: f64 = 127.0;
    const LN2_UPPER: f64 = f32::from_bits(0x3f31_7180) as f64;
    const LN2_LOWER: f64 = 9.058_001_351_559_417e-6;
    const EXP_RANGE: (f64, f64) = (-104.0, 89.0);
    const TANH_END: f64 = 20.0;
    const MIN_NORMAL: f64 = f32::MIN_POSITIVE as f64;
    const NORMALIZE: f64 = 23.0;
    const MANTISSA: f32 = f32::from_bits(0x007f_ffff);
    const EXP_SERIES: &'static [f32] = series!(f32, 7, |nth| 1.0 / factorial(nth + 2) as f32);
    const LOG_SERIES: &'static [f32] = series!(f32, 5, |nth| 2.0 / (2 * nth + 3) as f32);
}

impl Real for f64 {
    #[inline(always)]
    fn of(value: f64) -> f64 {
        value
    }
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    const BIAS: f64 = 1023.0;
    const LN2_UPPER: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LOWER: f64 = 1.908_214_929_270_587_7e-10;
    const EXP_RANGE: (f64, f64) = (-746.0, 710.0);
    const TANH_END: f64 = 44.0;
    const MIN_NORMAL: f64 = f64::MIN_POSITIVE;
    const NORMALIZE: f64 = 52.0;
    const MANTISSA: f64 = f64::from_bits(0x000f_ffff_ffff_ffff);
    const EXP_SERIES: &'static [f64] = series!(f64, 13, |nth| 1.0 / factorial(nth + 2) as f64);
    const LOG_SERIES: &'static [f64] = series!(f64, 11, |nth| 2.0 / (2 * nth + 3) as f64);
}

/// All lanes the same. A function and not a closure: closures are compiled without the instruction set of the function
/// they stand in, and calls that are not inlined made exp 40 times slower.
#[inline(always)]
fn number<T: Real, V: FloatVector<T>>(like: V, value: f64) -> V {
    like.set(T::of(value))
}

#[inline(always)]
fn horner<T: Real, V: FloatVector<T>>(x: V, series: &'static [T]) -> V {
    let mut sum = x.set(T::of(0.0));
    for &coefficient in series.iter().rev() {
        sum = sum.fma(x, x.set(coefficient));
    }
    sum
}

/// 2^n for an integer n with a normal result.
#[inline(always)]
fn power_of_two<T: Real, V: FloatVector<T>>(n: V) -> V {
    n.add(n.set(T::of(T::MAGIC + T::BIAS))).exponent_up()
}

/// `(n, e^r - 1)` with `x = n·ln 2 + r` and |r| ≤ ln2/2.
#[inline(always)]
fn reduced_expm1<T: Real, V: FloatVector<T>>(x: V) -> (V, V) {
    let magic = x.set(T::of(T::MAGIC));
    let n = x.fma(x.set(T::of(std::f64::consts::LOG2_E)), magic).sub(magic);
    let r = n.fma(x.set(T::of(-T::LN2_UPPER)), x);
    let r = n.fma(x.set(T::of(-T::LN2_LOWER)), r);
    (n, r.mul(r).fma(horner(r, T::EXP_SERIES), r))
}

/// e to the power of x.
#[inline(always)]
pub(in crate::kernels) fn exp<T: Real, V: FloatVector<T>>(x: V) -> V {
    // The bound comes first in each: the second is kept where a lane is not a number.
    let x = x.set(T::of(T::EXP_RANGE.1)).lower(x);
    let x = x.set(T::of(T::EXP_RANGE.0)).upper(x);
    let (n, p) = reduced_expm1(x);
    // Two steps, because 2^n itself is not normal at both ends; the first step is exact.
    let magic = x.set(T::of(T::MAGIC));
    let half = n.fma(x.set(T::of(0.5)), magic).sub(magic);
    p.add(x.set(T::of(1.0))).mul(power_of_two(half)).mul(power_of_two(n.sub(half)))
}

/// Natural logarithm.
#[inline(always)]
pub(in crate::kernels) fn log<T: Real, V: FloatVector<T>>(x: V) -> V {
    let (one, tiny) = (number(x, 1.0), number(x, T::MIN_NORMAL));
    let scaled = x.where_less(tiny, x.mul(number(x, T::NORMALIZE.exp2())), x);
    let bias = x.where_less(tiny, number(x, T::BIAS + T::NORMALIZE), number(x, T::BIAS));
    let exponent = scaled.exponent_down().or(number(x, T::SHIFT)).sub(number(x, T::SHIFT)).sub(bias);
    let mantissa = scaled.and(x.set(T::MANTISSA)).or(one);
    // Into [√½, √2], so that f is small on both sides.
    let large = number(x, std::f64::consts::SQRT_2);
    let k = large.where_less(mantissa, exponent.add(one), exponent);
    let mantissa = large.where_less(mantissa, mantissa.mul(number(x, 0.5)), mantissa);
    let f = mantissa.sub(one);
    let s = f.div(f.add(number(x, 2.0)));
    let z = s.mul(s);
    let half_square = f.mul(f).mul(number(x, 0.5));
    let tail = s.mul(half_square.add(z.mul(horner(z, T::LOG_SERIES))));
    let tail = k.fma(number(x, T::LN2_LOWER), tail);
    let result = k.mul(number(x, T::LN2_UPPER)).sub(half_square.sub(tail).sub(f));
    let infinity = number(x, f64::INFINITY);
    let result = x.where_equal(infinity, infinity, result);
    let result = x.where_equal(number(x, 0.0), number(x, f64::NEG_INFINITY), result);
    let result = x.where_less(number(x, 0.0), number(x, f64::NAN), result);
    x.where_equal(x, result, x)
}

/// Hyperbolic tangent: `m / (m + 2)` with `m = e^(2|x|) - 1`.
#[inline(always)]
pub(in crate::kernels) fn tanh<T: Real, V: FloatVector<T>>(x: V) -> V {
    let size = x.abs();
    let (n, p) = reduced_expm1(x.set(T::of(T::TANH_END)).lower(size.add(size)));
    let scale = power_of_two(n);
    let m = scale.fma(p, scale.sub(x.set(T::of(1.0))));
    m.div(m.add(x.set(T::of(2.0)))).or(x.and(x.set(T::of(-0.0))))
}

/// `1 / (1 + e^-x)`, by e^-|x| so that neither side loses its digits.
#[inline(always)]
pub(in crate::kernels) fn sigmoid<T: Real, V: FloatVector<T>>(x: V) -> V {
    let one = x.set(T::of(1.0));
    let e = exp(x.abs().neg());
    x.where_less(x.set(T::of(0.0)), e, one).div(e.add(one))
}

/// 2·√(2/π), and the same times 0.044715.
pub(super) const GELU: (f64, f64) = (1.595_769_121_605_730_9, 0.071_354_816_272_600_24);
/// Below, gelu is zero; keeps the infinity out of a product with zero.
pub(super) const GELU_LOW: f64 = -1e4;

/// `x · (1 + tanh u) / 2` as `x · sigmoid(2u)`, which does not cancel for negative x.
#[inline(always)]
pub(in crate::kernels) fn gelu<T: Real, V: FloatVector<T>>(x: V) -> V {
    let cubic = x.mul(x).fma(x.set(T::of(GELU.1)), x.set(T::of(GELU.0)));
    x.set(T::of(GELU_LOW)).upper(x).mul(sigmoid(x.mul(cubic)))
}

/// The nearest integer. From 2^50 on every float here (a widened `f32`) is one, and adding the magic number would not find it.
#[inline(always)]
fn whole<V: FloatVector<f64>>(x: V) -> V {
    let magic = x.set(f64::MAGIC);
    x.set(f64::SHIFT / 4.0).where_less(x.abs(), x, x.add(magic).sub(magic))
}

/// `x` to the power of `y`, both exactly `f32`s widened; computed in `f64` where 29 spare bits hide the error.
#[inline(always)]
fn pow_widened<V: FloatVector<f64>>(x: V, y: V) -> V {
    let (zero, one, size) = (number(x, 0.0), number(x, 1.0), x.abs());
    let power = exp(y.mul(log(size)));
    let power = y.where_equal(zero, one, size.where_equal(one, one, power));
    let half = y.mul(number(x, 0.5));
    // An odd y takes over the sign of x; a y that is not whole gives NaN for finite negative x.
    let sign = whole(half).where_equal(half, zero, x.and(number(x, -0.0)));
    let sign = whole(y).where_equal(y, sign, zero);
    let undefined = whole(y).where_equal(y, power, number(x, f64::NAN));
    let undefined = x.where_equal(number(x, f64::NEG_INFINITY), power, undefined);
    x.where_less(zero, undefined, power).or(sign)
}

/// `x` to the power of `y`.
#[inline(always)]
pub(super) fn pow_f32<S: Simd>(simd: S, x: S::F32, y: S::F32) -> S::F32 {
    let ((x_lower, x_upper), (y_lower, y_upper)) = (simd.widen(x), simd.widen(y));
    simd.narrow(pow_widened(x_lower, y_lower), pow_widened(x_upper, y_upper))
}
