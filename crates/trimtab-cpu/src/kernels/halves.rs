//! 16-bit floats that are computed with as f32, widened and narrowed by the widest instructions there are: of a 64 × 64 x 64 product of
//! bf16, half the time went into converting by the instructions that every x86-64 has.

use half::slice::HalfFloatSliceExt;
use trimtab_operands::{Element, bf16, f16};

/// A 16-bit float that is computed with as f32.
pub(super) trait Half: Element {
    /// Exact.
    fn to_f32(self) -> f32;
    /// Every element, exact.
    fn widen(from: &[Self], to: &mut [f32]);
    /// Every element, rounded to the nearest.
    fn narrow(from: &[f32], to: &mut [Self]);
}

/// Calls `$name` of the widest instruction set that has it, else the plain one.
macro_rules! widest {
    ($wide:ident, $narrower:ident, $plain:expr, $from:expr, $to:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the instructions are there.
            return unsafe { x86::$wide($from, $to) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions are there.
            return unsafe { x86::$narrower($from, $to) };
        }
        $plain($from, $to)
    }};
}

impl Half for f16 {
    #[inline]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    fn widen(from: &[f16], to: &mut [f32]) {
        // By F16C where the processor has that and no more.
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the instructions are there.
            return unsafe { x86::widen_f16(from, to) };
        }
        let len = from.len().min(to.len());
        from[..len].convert_to_f32_slice(&mut to[..len]);
    }
    fn narrow(from: &[f32], to: &mut [f16]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the instructions are there.
            return unsafe { x86::narrow_f16(from, to) };
        }
        let len = from.len().min(to.len());
        to[..len].convert_from_f32_slice(&from[..len]);
    }
}

impl Half for bf16 {
    #[inline]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    fn widen(from: &[bf16], to: &mut [f32]) {
        widest!(widen_bf16_512, widen_bf16_256, widen_bf16, from, to)
    }
    fn narrow(from: &[f32], to: &mut [bf16]) {
        widest!(narrow_bf16_512, narrow_bf16_256, narrow_bf16, from, to)
    }
}

#[inline(always)]
fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = Half::to_f32(*from));
}

#[inline(always)]
fn narrow_bf16(from: &[f32], to: &mut [bf16]) {
    to.iter_mut().zip(from).for_each(|(to, from)| {
        let bits = from.to_bits();
        // To the nearest, ties to even; what is not a number stays so, whatever its lower half.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        let quiet = bits | 0x0040_0000;
        let kept = if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded };
        *to = bf16::from_bits((kept >> 16) as u16);
    });
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{bf16, f16};
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_cvtph_ps, _mm512_cvtps_ph,
        _mm512_loadu_ps, _mm512_storeu_ps,
    };

    /// Elements of a vector.
    const LANES: usize = 16;

    /// The same loops with other instructions.
    macro_rules! compiled {
        ($($name:ident $feature:literal $plain:ident $from:ty => $to:ty;)*) => {
            $(#[target_feature(enable = $feature)]
            pub(super) fn $name(from: &[$from], to: &mut [$to]) {
                super::$plain(from, to);
            })*
        };
    }
    compiled! {
        widen_bf16_512 "avx512f,avx512bw" widen_bf16 bf16 => f32;
        widen_bf16_256 "avx2" widen_bf16 bf16 => f32;
        narrow_bf16_512 "avx512f,avx512bw" narrow_bf16 f32 => bf16;
        narrow_bf16_256 "avx2" narrow_bf16 f32 => bf16;
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn widen_f16(from: &[f16], to: &mut [f32]) {
        let (mut from, mut to) = (from.chunks_exact(LANES), to.chunks_exact_mut(LANES));
        for (from, to) in (&mut from).zip(&mut to) {
            // SAFETY: both have as many elements as a vector.
            unsafe {
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())));
            }
        }
        let rest = to.into_remainder().iter_mut().zip(from.remainder());
        rest.for_each(|(to, from)| *to = from.to_f32());
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn narrow_f16(from: &[f32], to: &mut [f16]) {
        let (mut from, mut to) = (from.chunks_exact(LANES), to.chunks_exact_mut(LANES));
        for (from, to) in (&mut from).zip(&mut to) {
            // SAFETY: both have as many elements as a vector.
            unsafe {
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from.as_ptr()));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
            }
        }
        let rest = to.into_remainder().iter_mut().zip(from.remainder());
        rest.for_each(|(to, from)| *to = f16::from_f32(*from));
    }
}

/// With the type of 16-bit floats.
macro_rules! by_half {
    ($dtype:expr, $type:ident => $run:expr) => {
        match $dtype {
            trimtab_core::DType::F16 => {
                type $type = trimtab_operands::f16;
                $run
            }
            trimtab_core::DType::Bf16 => {
                type $type = trimtab_operands::bf16;
                $run
            }
            dtype => Err($crate::kernels::elements::not_here(dtype)),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_and_what_lies_between_two_is_rounded_to_the_nearer_whatever_the_length() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for len in [0, 1, 15, 16, 17, 40, all.len()] {
            let f16s: Vec<f16> = all[..len].iter().map(|bits| f16::from_bits(*bits)).collect();
            let bf16s: Vec<bf16> = all[..len].iter().map(|bits| bf16::from_bits(*bits)).collect();
            let (mut wide, mut back) = (vec![0.0; len], vec![f16::ONE; len]);
            f16::widen(&f16s, &mut wide);
            assert!(
                wide.iter()
                    .zip(&f16s)
                    .all(|(wide, half)| wide.is_nan() && half.is_nan() || *wide == half.to_f32())
            );
            f16::narrow(&wide, &mut back);
            assert!(
                back.iter().zip(&f16s).all(|(back, half)| back.is_nan() && half.is_nan() || back == half)
            );
            let mut back = vec![bf16::ONE; len];
            bf16::widen(&bf16s, &mut wide);
            bf16::narrow(&wide, &mut back);
            assert!(
                back.iter().zip(&bf16s).all(|(back, half)| back.is_nan() && half.is_nan() || back == half)
            );
            // Between neighbours, a little to either side of the middle, and on it.
            let between: Vec<f32> =
                (0..len).map(|at| f32::from_bits(((at as u32) << 16) | (0x7fff + at as u32 % 3))).collect();
            bf16::narrow(&between, &mut back);
            let right = |value: f32| bf16::from_f32(value);
            assert!(
                back.iter()
                    .zip(&between)
                    .all(|(back, value)| back.is_nan() && value.is_nan() || *back == right(*value))
            );
            let mut back = vec![f16::ONE; len];
            f16::narrow(&between, &mut back);
            assert!(
                back.iter()
                    .zip(&between)
                    .all(|(back, value)| back.is_nan() && value.is_nan() || *back == f16::from_f32(*value))
            );
        }
    }
}
