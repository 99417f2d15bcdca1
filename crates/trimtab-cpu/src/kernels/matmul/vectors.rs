//! The vectors of each instruction set, a module each with the same names, for the bodies of register tiles and of lines,
//! which are compiled once for each set. `masked_load` and `masked_store` take the mask `mask` makes of a number of columns.

/// `$bodies!` for each instruction set, in a module named like that of its vectors.
macro_rules! for_each_set {
    ($bodies:ident) => {
        #[cfg(target_arch = "x86_64")]
        pub(super) mod avx512_f32 {
            $bodies!(avx512, avx512_f32, f32, #[target_feature(enable = "avx512f")]);
        }
        #[cfg(target_arch = "x86_64")]
        pub(super) mod avx512_f64 {
            $bodies!(avx512, avx512_f64, f64, #[target_feature(enable = "avx512f")]);
        }
        #[cfg(target_arch = "x86_64")]
        pub(super) mod avx2_f32 {
            $bodies!(avx2, avx2_f32, f32, #[target_feature(enable = "avx2,fma")]);
        }
        #[cfg(target_arch = "x86_64")]
        pub(super) mod avx2_f64 {
            $bodies!(avx2, avx2_f64, f64, #[target_feature(enable = "avx2,fma")]);
        }
        pub(super) mod portable_f32 {
            $bodies!(portable, portable_f32, f32,);
        }
        pub(super) mod portable_f64 {
            $bodies!(portable, portable_f64, f64,);
        }
    };
}
pub(super) use for_each_set;

/// What those modules of `$of` declare as `$name` for vectors of that many bits, if this processor has them.
macro_rules! of_width {
    ($bits:expr, $of:ident::$name:ident, ($widest:ident $wide:ident $portable:ident)) => {
        match $bits {
            #[cfg(target_arch = "x86_64")]
            512 if std::arch::is_x86_feature_detected!("avx512f") => Some(&super::$of::$widest::$name),
            #[cfg(target_arch = "x86_64")]
            256 if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma") =>
            {
                Some(&super::$of::$wide::$name)
            }
            128 => Some(&super::$of::$portable::$name),
            _ => None,
        }
    };
}
pub(super) use of_width;

#[cfg(target_arch = "x86_64")]
macro_rules! x86 {
    ($(
        $name:ident, $T:ident, $L:literal, $feature:literal, $V:ident, $Mask:ident, |$columns:ident| $mask:expr,
        |$at:ident, $by:ident| $masked_load:expr,
        $zero:ident $splat:ident $load:ident $store:ident $fma:ident $add:ident $masked_store:ident;
    )*) => {
        $(pub(super) mod $name {
            use std::arch::x86_64::*;
            pub(in crate::kernels::matmul) use std::arch::x86_64::{
                $add as add, $fma as fma, $load as load, $masked_store as masked_store, $splat as splat,
                $store as store, $zero as zero,
            };
            pub(in crate::kernels::matmul) const LANES: usize = $L;

            #[target_feature(enable = $feature)]
            #[inline]
            pub(in crate::kernels::matmul) fn mask($columns: usize) -> $Mask {
                $mask
            }
            #[target_feature(enable = $feature)]
            #[inline]
            pub(in crate::kernels::matmul) unsafe fn masked_load($at: *const $T, $by: $Mask) -> $V {
                // SAFETY: the caller promises that the elements in the mask are readable.
                unsafe { $masked_load }
            }
        })*
    };
}
#[cfg(target_arch = "x86_64")]
x86! {
    avx512_f32, f32, 16, "avx512f", __m512, __mmask16, |columns| (u32::MAX >> (32 - columns.min(16)).min(31)) as __mmask16,
    |at, mask| _mm512_maskz_loadu_ps(mask, at),
    _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps _mm512_mask_storeu_ps;
    avx512_f64, f64, 8, "avx512f", __m512d, __mmask8, |columns| (u32::MAX >> (32 - columns.min(8)).min(31)) as __mmask8,
    |at, mask| _mm512_maskz_loadu_pd(mask, at),
    _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_add_pd _mm512_mask_storeu_pd;
    avx2_f32, f32, 8, "avx2,fma", __m256, __m256i,
    |columns| _mm256_cmpgt_epi32(_mm256_set1_epi32(columns as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
    |at, mask| _mm256_maskload_ps(at, mask),
    _mm256_setzero_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps _mm256_maskstore_ps;
    avx2_f64, f64, 4, "avx2,fma", __m256d, __m256i,
    |columns| _mm256_cmpgt_epi64(_mm256_set1_epi64x(columns as i64), _mm256_setr_epi64x(0, 1, 2, 3)),
    |at, mask| _mm256_maskload_pd(at, mask),
    _mm256_setzero_pd _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_add_pd _mm256_maskstore_pd;
}

/// Plain code over short arrays, which compilers turn into 128-bit vectors.
macro_rules! portable {
    ($name:ident, $T:ident, $L:literal) => {
        portable! { $name, $T, $L
            fn zero() -> Vector = [0.0; $L];
            fn splat(value: $T) -> Vector = [value; $L];
            // Not `mul_add`: without the instruction that is a call into the C library.
            fn fma(a: Vector, b: Vector, sum: Vector) -> Vector = std::array::from_fn(|lane| a[lane] * b[lane] + sum[lane]);
            fn add(a: Vector, b: Vector) -> Vector = std::array::from_fn(|lane| a[lane] + b[lane]);
            fn mask(columns: usize) -> usize = columns;
            unsafe fn load(at: *const $T) -> Vector = at.cast::<Vector>().read();
            unsafe fn store(at: *mut $T, vector: Vector) -> () = at.cast::<Vector>().write(vector);
            unsafe fn masked_load(at: *const $T, columns: usize) -> Vector =
                std::array::from_fn(|lane| if lane < columns { *at.add(lane) } else { 0.0 });
            unsafe fn masked_store(at: *mut $T, columns: usize, vector: Vector) -> () =
                for (lane, value) in vector.into_iter().enumerate().take(columns) { *at.add(lane) = value };
        }
    };
    ($name:ident, $T:ident, $L:literal
        $(fn $f:ident($($a:ident: $A:ty),*) -> $Out:ty = $body:expr;)*
        $(unsafe fn $u:ident($($b:ident: $B:ty),*) -> $Of:ty = $moves:expr;)*
    ) => {
        pub(super) mod $name {
            pub(in crate::kernels::matmul) const LANES: usize = $L;
            type Vector = [$T; $L];
            $(#[inline(always)]
            pub(in crate::kernels::matmul) fn $f($($a: $A),*) -> $Out {
                $body
            })*
            $(#[inline(always)]
            pub(in crate::kernels::matmul) unsafe fn $u($($b: $B),*) -> $Of {
                // SAFETY: the caller promises that a whole vector, or the elements in the mask, are readable or writable; an
                // array needs no more alignment than its elements.
                unsafe { $moves }
            })*
        }
    };
}
portable!(portable_f32, f32, 4);
portable!(portable_f64, f64, 2);
