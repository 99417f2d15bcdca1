//! The vectors of x86-64: 512 bits with AVX-512 (F, DQ, BW, VL), 256 bits with AVX2 and FMA.

use super::{FloatVector, Simd, Task, Vector};
use std::arch::x86_64::*;

/// Proof that the processor has AVX-512 F, DQ, BW and VL besides AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx512 {
    /// The proof, if it can be given.
    pub(crate) fn detect() -> Option<Avx512> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        (found && Avx2::detect().is_some()).then_some(Avx512(()))
    }
}

impl Avx2 {
    /// The proof, if it can be given.
    pub(crate) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }
}

/// Methods that are one expression of intrinsics each.
macro_rules! methods {
    ($($name:ident($self:ident $(, $arg:ident: $type:ty)*) -> $out:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name($self $(, $arg: $type)*) -> $out {
                // SAFETY: a value of this type exists only where a token does, and a token only where the processor
                // has the instructions.
                unsafe { $body }
            }
        )*
    };
}

macro_rules! vector {
    (
        $(#[$doc:meta])* $name:ident($raw:ty), $token:ident, $item:ty, $lanes:literal, $pointer:ty,
        $load:ident, $store:ident, $stream:ident, $set:ident { $($methods:tt)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name($raw);
        impl Vector<$item> for $name {
            type Token = $token;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn splat(_: $token, value: $item) -> Self {
                // SAFETY: the token proves the instructions.
                unsafe { $name($set(value)) }
            }
            #[inline(always)]
            unsafe fn load(_: $token, from: *const $item) -> Self {
                // SAFETY: the token proves the instructions, the caller that the elements are readable.
                unsafe { $name($load(from.cast::<$pointer>())) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $item) {
                // SAFETY: the value proves the instructions, the caller that the elements are writable.
                unsafe { $store(to.cast::<$pointer>(), self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut $item) {
                // SAFETY: as `store`; the caller also promises the alignment.
                unsafe { $stream(to.cast::<$pointer>(), self.0) }
            }
            methods! {
                set(self, value: $item) -> Self = $name($set(value));
                $($methods)*
            }
        }
    };
}

vector! {
    /// Sixteen `f32`.
    F32x16(__m512), Avx512, f32, 16, f32, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_set1_ps {
        add(self, other: Self) -> Self = F32x16(_mm512_add_ps(self.0, other.0));
        sub(self, other: Self) -> Self = F32x16(_mm512_sub_ps(self.0, other.0));
        mul(self, other: Self) -> Self = F32x16(_mm512_mul_ps(self.0, other.0));
        lower(self, other: Self) -> Self = F32x16(_mm512_min_ps(self.0, other.0));
        upper(self, other: Self) -> Self = F32x16(_mm512_max_ps(self.0, other.0));
        min(self, other: Self) -> Self = {
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
            F32x16(_mm512_mask_min_ps(self.0, number, self.0, other.0))
        };
        max(self, other: Self) -> Self = {
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
            F32x16(_mm512_mask_max_ps(self.0, number, self.0, other.0))
        };
        abs(self) -> Self = F32x16(_mm512_abs_ps(self.0));
        neg(self) -> Self = F32x16(_mm512_xor_ps(self.0, _mm512_set1_ps(-0.0)));
    }
}

impl FloatVector<f32> for F32x16 {
    methods! {
        div(self, other: Self) -> Self = F32x16(_mm512_div_ps(self.0, other.0));
        sqrt(self) -> Self = F32x16(_mm512_sqrt_ps(self.0));
        fma(self, factor: Self, term: Self) -> Self = F32x16(_mm512_fmadd_ps(self.0, factor.0, term.0));
        and(self, other: Self) -> Self = F32x16(_mm512_and_ps(self.0, other.0));
        or(self, other: Self) -> Self = F32x16(_mm512_or_ps(self.0, other.0));
        exponent_down(self) -> Self =
            F32x16(_mm512_castsi512_ps(_mm512_srli_epi32::<23>(_mm512_castps_si512(self.0))));
        exponent_up(self) -> Self =
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(self.0))));
        where_less(self, other: Self, yes: Self, no: Self) -> Self = {
            let mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0);
            F32x16(_mm512_mask_blend_ps(mask, no.0, yes.0))
        };
        where_equal(self, other: Self, yes: Self, no: Self) -> Self = {
            let mask = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0);
            F32x16(_mm512_mask_blend_ps(mask, no.0, yes.0))
        };
    }
}

vector! {
    /// Eight `f64`.
    F64x8(__m512d), Avx512, f64, 8, f64, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd, _mm512_set1_pd {
        add(self, other: Self) -> Self = F64x8(_mm512_add_pd(self.0, other.0));
        sub(self, other: Self) -> Self = F64x8(_mm512_sub_pd(self.0, other.0));
        mul(self, other: Self) -> Self = F64x8(_mm512_mul_pd(self.0, other.0));
        lower(self, other: Self) -> Self = F64x8(_mm512_min_pd(self.0, other.0));
        upper(self, other: Self) -> Self = F64x8(_mm512_max_pd(self.0, other.0));
        min(self, other: Self) -> Self = {
            let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(self.0, self.0);
            F64x8(_mm512_mask_min_pd(self.0, number, self.0, other.0))
        };
        max(self, other: Self) -> Self = {
            let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(self.0, self.0);
            F64x8(_mm512_mask_max_pd(self.0, number, self.0, other.0))
        };
        abs(self) -> Self = F64x8(_mm512_abs_pd(self.0));
        neg(self) -> Self = F64x8(_mm512_xor_pd(self.0, _mm512_set1_pd(-0.0)));
    }
}

impl FloatVector<f64> for F64x8 {
    methods! {
        div(self, other: Self) -> Self = F64x8(_mm512_div_pd(self.0, other.0));
        sqrt(self) -> Self = F64x8(_mm512_sqrt_pd(self.0));
        fma(self, factor: Self, term: Self) -> Self = F64x8(_mm512_fmadd_pd(self.0, factor.0, term.0));
        and(self, other: Self) -> Self = F64x8(_mm512_and_pd(self.0, other.0));
        or(self, other: Self) -> Self = F64x8(_mm512_or_pd(self.0, other.0));
        exponent_down(self) -> Self =
            F64x8(_mm512_castsi512_pd(_mm512_srli_epi64::<52>(_mm512_castpd_si512(self.0))));
        exponent_up(self) -> Self =
            F64x8(_mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_castpd_si512(self.0))));
        where_less(self, other: Self, yes: Self, no: Self) -> Self = {
            let mask = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, other.0);
            F64x8(_mm512_mask_blend_pd(mask, no.0, yes.0))
        };
        where_equal(self, other: Self, yes: Self, no: Self) -> Self = {
            let mask = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self.0, other.0);
            F64x8(_mm512_mask_blend_pd(mask, no.0, yes.0))
        };
    }
}

vector! {
    /// Sixteen `i32`.
    I32x16(__m512i), Avx512, i32, 16, i32, _mm512_loadu_epi32, _mm512_storeu_epi32, stream_512, _mm512_set1_epi32 {
        add(self, other: Self) -> Self = I32x16(_mm512_add_epi32(self.0, other.0));
        sub(self, other: Self) -> Self = I32x16(_mm512_sub_epi32(self.0, other.0));
        mul(self, other: Self) -> Self = I32x16(_mm512_mullo_epi32(self.0, other.0));
        lower(self, other: Self) -> Self = I32x16(_mm512_min_epi32(self.0, other.0));
        upper(self, other: Self) -> Self = I32x16(_mm512_max_epi32(self.0, other.0));
        min(self, other: Self) -> Self = I32x16(_mm512_min_epi32(self.0, other.0));
        max(self, other: Self) -> Self = I32x16(_mm512_max_epi32(self.0, other.0));
        abs(self) -> Self = I32x16(_mm512_abs_epi32(self.0));
        neg(self) -> Self = I32x16(_mm512_sub_epi32(_mm512_setzero_si512(), self.0));
    }
}

/// The integer streaming store takes a pointer to vectors.
///
/// # Safety
/// As `_mm512_stream_si512`: AVX-512 F, and 64 writable bytes aligned to 64.
#[inline(always)]
unsafe fn stream_512(to: *mut i32, value: __m512i) {
    // SAFETY: the caller's promise.
    unsafe { _mm512_stream_si512(to.cast::<__m512i>(), value) }
}

impl Simd for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
    type I32 = I32x16;
    const REGISTERS: usize = 32;
    #[inline]
    fn vectorize<K: Task>(self, task: K) -> K::Out {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
        fn compiled<K: Task>(simd: Avx512, task: K) -> K::Out {
            task.run(simd)
        }
        // SAFETY: the token proves the features.
        unsafe { compiled(self, task) }
    }
    #[inline(always)]
    fn widen(self, value: F32x16) -> (F64x8, F64x8) {
        // SAFETY: the token proves the instructions.
        unsafe {
            let upper = _mm512_extractf32x8_ps::<1>(value.0);
            (F64x8(_mm512_cvtps_pd(_mm512_castps512_ps256(value.0))), F64x8(_mm512_cvtps_pd(upper)))
        }
    }
    #[inline(always)]
    fn narrow(self, lower: F64x8, upper: F64x8) -> F32x16 {
        // SAFETY: the token proves the instructions.
        unsafe {
            let lower = _mm512_castps256_ps512(_mm512_cvtpd_ps(lower.0));
            F32x16(_mm512_insertf32x8::<1>(lower, _mm512_cvtpd_ps(upper.0)))
        }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_sfence() }
    }
}

vector! {
    /// Eight `f32`.
    F32x8(__m256), Avx2, f32, 8, f32, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_set1_ps {
        add(self, other: Self) -> Self = F32x8(_mm256_add_ps(self.0, other.0));
        sub(self, other: Self) -> Self = F32x8(_mm256_sub_ps(self.0, other.0));
        mul(self, other: Self) -> Self = F32x8(_mm256_mul_ps(self.0, other.0));
        lower(self, other: Self) -> Self = F32x8(_mm256_min_ps(self.0, other.0));
        upper(self, other: Self) -> Self = F32x8(_mm256_max_ps(self.0, other.0));
        min(self, other: Self) -> Self = {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
            F32x8(_mm256_blendv_ps(_mm256_min_ps(self.0, other.0), self.0, nan))
        };
        max(self, other: Self) -> Self = {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
            F32x8(_mm256_blendv_ps(_mm256_max_ps(self.0, other.0), self.0, nan))
        };
        abs(self) -> Self = F32x8(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0));
        neg(self) -> Self = F32x8(_mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)));
    }
}

impl FloatVector<f32> for F32x8 {
    methods! {
        div(self, other: Self) -> Self = F32x8(_mm256_div_ps(self.0, other.0));
        sqrt(self) -> Self = F32x8(_mm256_sqrt_ps(self.0));
        fma(self, factor: Self, term: Self) -> Self = F32x8(_mm256_fmadd_ps(self.0, factor.0, term.0));
        and(self, other: Self) -> Self = F32x8(_mm256_and_ps(self.0, other.0));
        or(self, other: Self) -> Self = F32x8(_mm256_or_ps(self.0, other.0));
        exponent_down(self) -> Self =
            F32x8(_mm256_castsi256_ps(_mm256_srli_epi32::<23>(_mm256_castps_si256(self.0))));
        exponent_up(self) -> Self =
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(self.0))));
        where_less(self, other: Self, yes: Self, no: Self) -> Self =
            F32x8(_mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)));
        where_equal(self, other: Self, yes: Self, no: Self) -> Self =
            F32x8(_mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0)));
    }
}

vector! {
    /// Four `f64`.
    F64x4(__m256d), Avx2, f64, 4, f64, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_set1_pd {
        add(self, other: Self) -> Self = F64x4(_mm256_add_pd(self.0, other.0));
        sub(self, other: Self) -> Self = F64x4(_mm256_sub_pd(self.0, other.0));
        mul(self, other: Self) -> Self = F64x4(_mm256_mul_pd(self.0, other.0));
        lower(self, other: Self) -> Self = F64x4(_mm256_min_pd(self.0, other.0));
        upper(self, other: Self) -> Self = F64x4(_mm256_max_pd(self.0, other.0));
        min(self, other: Self) -> Self = {
            let nan = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0);
            F64x4(_mm256_blendv_pd(_mm256_min_pd(self.0, other.0), self.0, nan))
        };
        max(self, other: Self) -> Self = {
            let nan = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0);
            F64x4(_mm256_blendv_pd(_mm256_max_pd(self.0, other.0), self.0, nan))
        };
        abs(self) -> Self = F64x4(_mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0));
        neg(self) -> Self = F64x4(_mm256_xor_pd(self.0, _mm256_set1_pd(-0.0)));
    }
}

impl FloatVector<f64> for F64x4 {
    methods! {
        div(self, other: Self) -> Self = F64x4(_mm256_div_pd(self.0, other.0));
        sqrt(self) -> Self = F64x4(_mm256_sqrt_pd(self.0));
        fma(self, factor: Self, term: Self) -> Self = F64x4(_mm256_fmadd_pd(self.0, factor.0, term.0));
        and(self, other: Self) -> Self = F64x4(_mm256_and_pd(self.0, other.0));
        or(self, other: Self) -> Self = F64x4(_mm256_or_pd(self.0, other.0));
        exponent_down(self) -> Self =
            F64x4(_mm256_castsi256_pd(_mm256_srli_epi64::<52>(_mm256_castpd_si256(self.0))));
        exponent_up(self) -> Self =
            F64x4(_mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(self.0))));
        where_less(self, other: Self, yes: Self, no: Self) -> Self =
            F64x4(_mm256_blendv_pd(no.0, yes.0, _mm256_cmp_pd::<_CMP_LT_OQ>(self.0, other.0)));
        where_equal(self, other: Self, yes: Self, no: Self) -> Self =
            F64x4(_mm256_blendv_pd(no.0, yes.0, _mm256_cmp_pd::<_CMP_EQ_OQ>(self.0, other.0)));
    }
}

vector! {
    /// Eight `i32`.
    I32x8(__m256i), Avx2, i32, 8, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
    _mm256_set1_epi32 {
        add(self, other: Self) -> Self = I32x8(_mm256_add_epi32(self.0, other.0));
        sub(self, other: Self) -> Self = I32x8(_mm256_sub_epi32(self.0, other.0));
        mul(self, other: Self) -> Self = I32x8(_mm256_mullo_epi32(self.0, other.0));
        lower(self, other: Self) -> Self = I32x8(_mm256_min_epi32(self.0, other.0));
        upper(self, other: Self) -> Self = I32x8(_mm256_max_epi32(self.0, other.0));
        min(self, other: Self) -> Self = I32x8(_mm256_min_epi32(self.0, other.0));
        max(self, other: Self) -> Self = I32x8(_mm256_max_epi32(self.0, other.0));
        abs(self) -> Self = I32x8(_mm256_abs_epi32(self.0));
        neg(self) -> Self = I32x8(_mm256_sub_epi32(_mm256_setzero_si256(), self.0));
    }
}

impl Simd for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
    type I32 = I32x8;
    const REGISTERS: usize = 16;
    #[inline]
    fn vectorize<K: Task>(self, task: K) -> K::Out {
        #[target_feature(enable = "avx2,fma")]
        fn compiled<K: Task>(simd: Avx2, task: K) -> K::Out {
            task.run(simd)
        }
        // SAFETY: the token proves the features.
        unsafe { compiled(self, task) }
    }
    #[inline(always)]
    fn widen(self, value: F32x8) -> (F64x4, F64x4) {
        // SAFETY: the token proves the instructions.
        unsafe {
            let upper = _mm256_extractf128_ps::<1>(value.0);
            (F64x4(_mm256_cvtps_pd(_mm256_castps256_ps128(value.0))), F64x4(_mm256_cvtps_pd(upper)))
        }
    }
    #[inline(always)]
    fn narrow(self, lower: F64x4, upper: F64x4) -> F32x8 {
        // SAFETY: the token proves the instructions.
        unsafe { F32x8(_mm256_set_m128(_mm256_cvtpd_ps(upper.0), _mm256_cvtpd_ps(lower.0))) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_sfence() }
    }
}
