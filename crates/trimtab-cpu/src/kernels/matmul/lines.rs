//! The two inner loops of a matrix times a vector: dot products of rows that lie together, and sums of scaled rows. One
//! body each, instantiated for each instruction set; reachable only through [`Lines`].

/// Several rows of a matrix that lie together in memory, and the vector that goes with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<T> {
    /// First element and elements from row to row.
    pub(super) start: *const T,
    pub(super) step: usize,
    /// Elements of a row.
    pub(super) len: usize,
    /// Dot products: the other factor, `len` elements. Scaled sums: one factor a row.
    pub(super) vector: *const T,
    /// Dot products: one result a row. Scaled sums: `len` results.
    pub(super) out: *mut T,
    /// Scaled sums: whether to add to `out` instead of overwriting it.
    pub(super) add: bool,
}

/// Computes as many rows as the function is made for.
///
/// # Safety
/// Everything [`Rows`] describes must be readable, and `out` writable and unshared, for as many rows as the function is made
/// for. The instruction set must be present, which holding the [`Lines`] the function came from proves.
pub(super) type RowsFn<T> = unsafe fn(&Rows<T>);

/// The loops of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Lines<T: 'static> {
    dot: [RowsFn<T>; 3],
    scaled: [RowsFn<T>; 4],
}

impl<T> Lines<T> {
    /// Rows the dot-product loops are made for.
    pub(super) const DOT_ROWS: [usize; 3] = [1, 2, 4];
    /// Rows the scaled-sum loops are made for.
    pub(super) const SCALED_ROWS: [usize; 4] = [1, 2, 4, 8];

    /// Dot products of the largest number of rows that is at most `rows` (at least 1): (rows, function).
    #[inline]
    pub(super) fn dot(&self, rows: usize) -> (usize, RowsFn<T>) {
        let at = Self::DOT_ROWS.iter().rposition(|&made_for| made_for <= rows).unwrap_or(0);
        (Self::DOT_ROWS[at], self.dot[at])
    }

    /// The scaled sum of the largest number of rows that is at most `rows` (at least 1): (rows, function).
    #[inline]
    pub(super) fn scaled(&self, rows: usize) -> (usize, RowsFn<T>) {
        let at = Self::SCALED_ROWS.iter().rposition(|&made_for| made_for <= rows).unwrap_or(0);
        (Self::SCALED_ROWS[at], self.scaled[at])
    }
}

macro_rules! line_bodies {
    ($(#[$feature:meta])? $T:ty, $V:ty, $L:expr, $zero:path, $splat:path, $load:path, $store:path, $fma:path) => {
        /// `R` rows that share the loads of the vector, `S` sums a row against the latency of the additions.
        $(#[$feature])?
        unsafe fn dot<const R: usize, const S: usize>(rows: &Rows<$T>) {
            let Rows { start, step, len, vector, out, .. } = *rows;
            let mut sums = [[$zero(); S]; R];
            let mut at = 0;
            // SAFETY: all elements read are below `len` in one of the `R` rows or in the vector.
            unsafe {
                while at + S * $L <= len {
                    for s in 0..S {
                        let factor = $load(vector.add(at + s * $L));
                        for r in 0..R {
                            sums[r][s] = $fma($load(start.add(r * step + at + s * $L)), factor, sums[r][s]);
                        }
                    }
                    at += S * $L;
                }
                while at + $L <= len {
                    let factor = $load(vector.add(at));
                    for r in 0..R {
                        sums[r][0] = $fma($load(start.add(r * step + at)), factor, sums[r][0]);
                    }
                    at += $L;
                }
            }
            for r in 0..R {
                let mut lanes = [[0.0; $L]; S];
                for s in 0..S {
                    // SAFETY: the array has the size of a vector.
                    unsafe { $store(lanes[s].as_mut_ptr(), sums[r][s]) };
                }
                let mut total: [$T; $L] = std::array::from_fn(|lane| lanes.iter().map(|lanes| lanes[lane]).sum());
                let mut half = $L / 2;
                while half > 0 {
                    for lane in 0..half {
                        total[lane] += total[lane + half];
                    }
                    half /= 2;
                }
                let mut sum = total[0];
                for tail in at..len {
                    // SAFETY: tail < len.
                    sum += unsafe { *start.add(r * step + tail) * *vector.add(tail) };
                }
                // SAFETY: there is a result for each of the `R` rows.
                unsafe { *out.add(r) = sum };
            }
        }

        $(#[$feature])?
        unsafe fn scaled<const R: usize>(rows: &Rows<$T>) {
            let Rows { start, step, len, vector, out, add } = *rows;
            // SAFETY: there is a factor for each of the `R` rows.
            let factors: [$T; R] = std::array::from_fn(|r| unsafe { *vector.add(r) });
            let mut wide = [$zero(); R];
            for r in 0..R {
                wide[r] = $splat(factors[r]);
            }
            let mut at = 0;
            // SAFETY: all elements touched are below `len` in one of the `R` rows or in the result.
            unsafe {
                while at + $L <= len {
                    let mut sum = if add { $load(out.add(at)) } else { $zero() };
                    for r in 0..R {
                        sum = $fma($load(start.add(r * step + at)), wide[r], sum);
                    }
                    $store(out.add(at), sum);
                    at += $L;
                }
                for tail in at..len {
                    let mut sum = if add { *out.add(tail) } else { 0.0 };
                    for r in 0..R {
                        sum += *start.add(r * step + tail) * factors[r];
                    }
                    *out.add(tail) = sum;
                }
            }
        }

        pub(in super::super) static LINES: Lines<$T> = Lines {
            dot: [dot::<1, 4>, dot::<2, 4>, dot::<4, 2>],
            scaled: [scaled::<1>, scaled::<2>, scaled::<4>, scaled::<8>],
        };
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    pub(super) mod f32 {
        use super::super::{Lines, Rows};
        use std::arch::x86_64::*;
        line_bodies!(
            #[target_feature(enable = "avx512f")]
            f32,
            __m512,
            16,
            _mm512_setzero_ps,
            _mm512_set1_ps,
            _mm512_loadu_ps,
            _mm512_storeu_ps,
            _mm512_fmadd_ps
        );
    }
    pub(super) mod f64 {
        use super::super::{Lines, Rows};
        use std::arch::x86_64::*;
        line_bodies!(
            #[target_feature(enable = "avx512f")]
            f64,
            __m512d,
            8,
            _mm512_setzero_pd,
            _mm512_set1_pd,
            _mm512_loadu_pd,
            _mm512_storeu_pd,
            _mm512_fmadd_pd
        );
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    pub(super) mod f32 {
        use super::super::{Lines, Rows};
        use std::arch::x86_64::*;
        line_bodies!(
            #[target_feature(enable = "avx2,fma")]
            f32,
            __m256,
            8,
            _mm256_setzero_ps,
            _mm256_set1_ps,
            _mm256_loadu_ps,
            _mm256_storeu_ps,
            _mm256_fmadd_ps
        );
    }
    pub(super) mod f64 {
        use super::super::{Lines, Rows};
        use std::arch::x86_64::*;
        line_bodies!(
            #[target_feature(enable = "avx2,fma")]
            f64,
            __m256d,
            4,
            _mm256_setzero_pd,
            _mm256_set1_pd,
            _mm256_loadu_pd,
            _mm256_storeu_pd,
            _mm256_fmadd_pd
        );
    }
}

/// Plain code over short arrays, which compilers turn into 128-bit vectors.
mod portable {
    macro_rules! portable {
        ($T:ident, $L:expr) => {
            pub(super) mod $T {
                use super::super::{Lines, Rows};

                type Vector = [$T; $L];

                #[inline(always)]
                fn zero() -> Vector {
                    [0.0; $L]
                }
                #[inline(always)]
                fn splat(value: $T) -> Vector {
                    [value; $L]
                }
                #[inline(always)]
                unsafe fn load(at: *const $T) -> Vector {
                    // SAFETY: the caller promises that a whole vector is readable.
                    unsafe { at.cast::<Vector>().read() }
                }
                #[inline(always)]
                unsafe fn store(at: *mut $T, vector: Vector) {
                    // SAFETY: the caller promises that a whole vector is writable.
                    unsafe { at.cast::<Vector>().write(vector) }
                }
                #[inline(always)]
                fn multiply_add(a: Vector, b: Vector, sum: Vector) -> Vector {
                    std::array::from_fn(|lane| a[lane] * b[lane] + sum[lane])
                }
                line_bodies!($T, Vector, $L, zero, splat, load, store, multiply_add);
            }
        };
    }
    portable!(f32, 4);
    portable!(f64, 2);
}

macro_rules! constructor {
    ($T:ident) => {
        /// The loops with vectors of that many bits, if this processor has them.
        #[inline]
        pub(super) fn $T(bits: u32) -> Option<&'static Lines<$T>> {
            match bits {
                #[cfg(target_arch = "x86_64")]
                512 if std::arch::is_x86_feature_detected!("avx512f") => Some(&avx512::$T::LINES),
                #[cfg(target_arch = "x86_64")]
                256 if std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma") =>
                {
                    Some(&avx2::$T::LINES)
                }
                128 => Some(&portable::$T::LINES),
                _ => None,
            }
        }
    };
}
constructor!(f32);
constructor!(f64);
