//! The vectors of x86-64: 512 bits with AVX-512 (F, DQ, BW, VL), 256 bits with AVX2 and FMA.

use super::{FloatVector, Simd, Task, Vector, Woven};
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
macro_rules! intrinsics {
    ($($name:ident($self:ident $(, $arg:ident: $type:ty)*) -> $out:ty = $body:expr;)*) => {
        methods! {
            // SAFETY: a value of this type exists only where a token does, and a token only where the processor has the
            // instructions.
            $($name($self $(, $arg: $type)*) -> $out = unsafe { $body };)*
        }
    };
}

macro_rules! vector {
    (
        $(#[$doc:meta])* $name:ident($raw:ty), $token:ident, $item:ty, $lanes:literal, $pointer:ty,
        $load:ident $store:ident $stream:ident $set:ident $add:ident $sub:ident $mul:ident $lower:ident $upper:ident
        { $($methods:tt)* }
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
            intrinsics! {
                set(self, value: $item) -> Self = $name($set(value));
                add(self, other: Self) -> Self = $name($add(self.0, other.0));
                sub(self, other: Self) -> Self = $name($sub(self.0, other.0));
                mul(self, other: Self) -> Self = $name($mul(self.0, other.0));
                lower(self, other: Self) -> Self = $name($lower(self.0, other.0));
                upper(self, other: Self) -> Self = $name($upper(self.0, other.0));
                $($methods)*
            }
        }
    };
}

/// A vector of floats: what differs in names only. The choice between lanes is the instruction set's own.
macro_rules! floats {
    (
        $(#[$doc:meta])* $name:ident(
            $raw:ty, $token:ident, $item:ident, $lanes:literal, $load:ident $store:ident $stream:ident $set:ident
            $add:ident $sub:ident $mul:ident $lower:ident $upper:ident $xor:ident $div:ident $sqrt:ident
            $fma:ident $and:ident $or:ident, $mantissa:literal $down:ident $up:ident $bits:ident $of_bits:ident
        ) { $($of_vectors:tt)* } { $($of_floats:tt)* }
    ) => {
        vector! {
            $(#[$doc])* $name($raw), $token, $item, $lanes, $item,
            $load $store $stream $set $add $sub $mul $lower $upper {
                neg(self) -> Self = $name($xor(self.0, $set(-0.0)));
                $($of_vectors)*
            }
        }
        impl FloatVector<$item> for $name {
            intrinsics! {
                div(self, other: Self) -> Self = $name($div(self.0, other.0));
                sqrt(self) -> Self = $name($sqrt(self.0));
                fma(self, factor: Self, term: Self) -> Self = $name($fma(self.0, factor.0, term.0));
                and(self, other: Self) -> Self = $name($and(self.0, other.0));
                or(self, other: Self) -> Self = $name($or(self.0, other.0));
                exponent_down(self) -> Self = $name($of_bits($down::<$mantissa>($bits(self.0))));
                exponent_up(self) -> Self = $name($of_bits($up::<$mantissa>($bits(self.0))));
                $($of_floats)*
            }
        }
    };
}

/// Lanes chosen by masks in registers of their own.
macro_rules! masked_floats {
    (
        $(#[$doc:meta])* $name:ident $shared:tt,
        $compare:ident $blend:ident $min:ident $max:ident $abs:ident
    ) => {
        floats! { $(#[$doc])* $name $shared {
            min(self, other: Self) -> Self =
                $name($min(self.0, $compare::<_CMP_ORD_Q>(self.0, self.0), self.0, other.0));
            max(self, other: Self) -> Self =
                $name($max(self.0, $compare::<_CMP_ORD_Q>(self.0, self.0), self.0, other.0));
            abs(self) -> Self = $name($abs(self.0));
        } {
            where_less(self, other: Self, yes: Self, no: Self) -> Self =
                $name($blend($compare::<_CMP_LT_OQ>(self.0, other.0), no.0, yes.0));
            where_equal(self, other: Self, yes: Self, no: Self) -> Self =
                $name($blend($compare::<_CMP_EQ_OQ>(self.0, other.0), no.0, yes.0));
        } }
    };
}

/// Lanes chosen by the signs of another vector.
macro_rules! blended_floats {
    (
        $(#[$doc:meta])* $name:ident $shared:tt,
        $compare:ident $blend:ident $min:ident $max:ident $and_not:ident $set:ident
    ) => {
        floats! { $(#[$doc])* $name $shared {
            min(self, other: Self) -> Self =
                $name($blend($min(self.0, other.0), self.0, $compare::<_CMP_UNORD_Q>(self.0, self.0)));
            max(self, other: Self) -> Self =
                $name($blend($max(self.0, other.0), self.0, $compare::<_CMP_UNORD_Q>(self.0, self.0)));
            abs(self) -> Self = $name($and_not($set(-0.0), self.0));
        } {
            where_less(self, other: Self, yes: Self, no: Self) -> Self =
                $name($blend(no.0, yes.0, $compare::<_CMP_LT_OQ>(self.0, other.0)));
            where_equal(self, other: Self, yes: Self, no: Self) -> Self =
                $name($blend(no.0, yes.0, $compare::<_CMP_EQ_OQ>(self.0, other.0)));
        } }
    };
}

masked_floats! {
    /// Sixteen `f32`.
    F32x16(
        __m512, Avx512, f32, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_set1_ps
        _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_min_ps _mm512_max_ps _mm512_xor_ps _mm512_div_ps _mm512_sqrt_ps
        _mm512_fmadd_ps _mm512_and_ps _mm512_or_ps, 23 _mm512_srli_epi32 _mm512_slli_epi32
        _mm512_castps_si512 _mm512_castsi512_ps
    ),
    _mm512_cmp_ps_mask _mm512_mask_blend_ps _mm512_mask_min_ps _mm512_mask_max_ps _mm512_abs_ps
}
masked_floats! {
    /// Eight `f64`.
    F64x8(
        __m512d, Avx512, f64, 8, _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd _mm512_set1_pd
        _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_min_pd _mm512_max_pd _mm512_xor_pd _mm512_div_pd _mm512_sqrt_pd
        _mm512_fmadd_pd _mm512_and_pd _mm512_or_pd, 52 _mm512_srli_epi64 _mm512_slli_epi64
        _mm512_castpd_si512 _mm512_castsi512_pd
    ),
    _mm512_cmp_pd_mask _mm512_mask_blend_pd _mm512_mask_min_pd _mm512_mask_max_pd _mm512_abs_pd
}
blended_floats! {
    /// Eight `f32`.
    F32x8(
        __m256, Avx2, f32, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_set1_ps
        _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_min_ps _mm256_max_ps _mm256_xor_ps _mm256_div_ps _mm256_sqrt_ps
        _mm256_fmadd_ps _mm256_and_ps _mm256_or_ps, 23 _mm256_srli_epi32 _mm256_slli_epi32
        _mm256_castps_si256 _mm256_castsi256_ps
    ),
    _mm256_cmp_ps _mm256_blendv_ps _mm256_min_ps _mm256_max_ps _mm256_andnot_ps _mm256_set1_ps
}
blended_floats! {
    /// Four `f64`.
    F64x4(
        __m256d, Avx2, f64, 4, _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd _mm256_set1_pd
        _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_min_pd _mm256_max_pd _mm256_xor_pd _mm256_div_pd _mm256_sqrt_pd
        _mm256_fmadd_pd _mm256_and_pd _mm256_or_pd, 52 _mm256_srli_epi64 _mm256_slli_epi64
        _mm256_castpd_si256 _mm256_castsi256_pd
    ),
    _mm256_cmp_pd _mm256_blendv_pd _mm256_min_pd _mm256_max_pd _mm256_andnot_pd _mm256_set1_pd
}
vector! {
    /// Sixteen `i32`.
    I32x16(__m512i), Avx512, i32, 16, i32, _mm512_loadu_epi32 _mm512_storeu_epi32 stream_512 _mm512_set1_epi32
    _mm512_add_epi32 _mm512_sub_epi32 _mm512_mullo_epi32 _mm512_min_epi32 _mm512_max_epi32 {
        min(self, other: Self) -> Self = I32x16(_mm512_min_epi32(self.0, other.0));
        max(self, other: Self) -> Self = I32x16(_mm512_max_epi32(self.0, other.0));
        abs(self) -> Self = I32x16(_mm512_abs_epi32(self.0));
        neg(self) -> Self = I32x16(_mm512_sub_epi32(_mm512_setzero_si512(), self.0));
    }
}
vector! {
    /// Eight `i32`.
    I32x8(__m256i), Avx2, i32, 8, __m256i, _mm256_loadu_si256 _mm256_storeu_si256 _mm256_stream_si256 _mm256_set1_epi32
    _mm256_add_epi32 _mm256_sub_epi32 _mm256_mullo_epi32 _mm256_min_epi32 _mm256_max_epi32 {
        min(self, other: Self) -> Self = I32x8(_mm256_min_epi32(self.0, other.0));
        max(self, other: Self) -> Self = I32x8(_mm256_max_epi32(self.0, other.0));
        abs(self) -> Self = I32x8(_mm256_abs_epi32(self.0));
        neg(self) -> Self = I32x8(_mm256_sub_epi32(_mm256_setzero_si256(), self.0));
    }
}

macro_rules! woven {
    ($($name:ident, |$a:ident, $b:ident| $weave:expr, $part:expr;)*) => {
        $(impl Woven for $name {
            intrinsics! {
                weave(self, other: Self) -> (Self, Self) = {
                    let ($a, $b) = (self.0, other.0);
                    let (first, second) = $weave;
                    ($name(first), $name(second))
                };
                part(self, other: Self) -> (Self, Self) = {
                    let ($a, $b) = (self.0, other.0);
                    let (first, second) = $part;
                    ($name(first), $name(second))
                };
            }
        })*
    };
}
woven! {
    F32x8, |a, b| {
        // Within halves, then the halves.
        let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
    }, {
        let (first, second) = (_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b));
        (
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(first))),
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(second))),
        )
    };
    F64x4, |a, b| {
        let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        (_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high))
    }, {
        let (first, second) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        (_mm256_permute4x64_pd::<0xd8>(first), _mm256_permute4x64_pd::<0xd8>(second))
    };
    F32x16, |a, b| {
        let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b))
    }, {
        let first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let second = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b))
    };
    F64x8, |a, b| {
        let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        (_mm512_permutex2var_pd(a, first, b), _mm512_permutex2var_pd(a, second, b))
    }, {
        let first = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        let second = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        (_mm512_permutex2var_pd(a, first, b), _mm512_permutex2var_pd(a, second, b))
    };
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

macro_rules! instruction_set {
    (
        $name:ident, $f32:ident $f64:ident $i32:ident, $registers:literal registers, $features:literal,
        |$value:ident| $widen:expr, |$lower:ident, $upper:ident| $narrow:expr
    ) => {
        impl Simd for $name {
            type F32 = $f32;
            type F64 = $f64;
            type I32 = $i32;
            const REGISTERS: usize = $registers;
            #[inline]
            fn vectorize<K: Task>(self, task: K) -> K::Out {
                #[target_feature(enable = $features)]
                fn compiled<K: Task>(simd: $name, task: K) -> K::Out {
                    task.run(simd)
                }
                // SAFETY: the token proves the features.
                unsafe { compiled(self, task) }
            }
            intrinsics! {
                widen(self, $value: $f32) -> ($f64, $f64) = $widen;
                narrow(self, $lower: $f64, $upper: $f64) -> $f32 = $narrow;
                fence(self) -> () = _mm_sfence();
            }
        }
    };
}
instruction_set! {
    Avx512, F32x16 F64x8 I32x16, 32 registers, "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma",
    |value| {
        let upper = _mm512_extractf32x8_ps::<1>(value.0);
        (F64x8(_mm512_cvtps_pd(_mm512_castps512_ps256(value.0))), F64x8(_mm512_cvtps_pd(upper)))
    },
    |lower, upper| {
        let lower = _mm512_castps256_ps512(_mm512_cvtpd_ps(lower.0));
        F32x16(_mm512_insertf32x8::<1>(lower, _mm512_cvtpd_ps(upper.0)))
    }
}
instruction_set! {
    Avx2, F32x8 F64x4 I32x8, 16 registers, "avx2,fma",
    |value| {
        let upper = _mm256_extractf128_ps::<1>(value.0);
        (F64x4(_mm256_cvtps_pd(_mm256_castps256_ps128(value.0))), F64x4(_mm256_cvtps_pd(upper)))
    },
    |lower, upper| F32x8(_mm256_set_m128(_mm256_cvtpd_ps(upper.0), _mm256_cvtpd_ps(lower.0)))
}
