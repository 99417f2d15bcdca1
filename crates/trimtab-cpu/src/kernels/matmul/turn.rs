//! Transposing while packing: lines of neighbouring elements become columns.

use super::float::Float;

/// Transposes `lines` lines of `depth` neighbouring elements, `line_step` apart: element p of line i goes to
/// `to[p * width + i]`. A `to` that is too short is a mistake of ours and left as it is.
///
/// # Safety
/// The lines must be readable.
#[inline]
pub(super) unsafe fn turn<T: Float>(
    from: *const T,
    line_step: usize,
    lines: usize,
    depth: usize,
    width: usize,
    to: &mut [T],
) {
    if lines == 0 || depth == 0 {
        return;
    }
    let fits = lines <= width && (depth - 1) * width + lines <= to.len();
    debug_assert!(fits, "scratch of {} elements for {depth} x {width}", to.len());
    if !fits {
        return;
    }
    let (to, squares) = (to.as_mut_ptr(), depth / 4 * 4);
    for first in (0..lines).step_by(4) {
        // SAFETY: lines from `first` on are among those the caller promises, and every element goes to
        // p * width + i <= (depth - 1) * width + lines - 1, which was checked to be within `to`.
        unsafe {
            let (from, to) = (from.add(first * line_step), to.add(first));
            let count = (lines - first).min(4);
            let start = if count == 4 { squares } else { 0 };
            for p in (0..start).step_by(4) {
                T::turn_square(from.add(p), line_step, to.add(p * width), width);
            }
            for p in start..depth {
                for line in 0..count {
                    *to.add(p * width + line) = *from.add(line * line_step + p);
                }
            }
        }
    }
}

/// Transposes 4 × 4 elements, rows `from_step` and `to_step` apart. SSE2 is part of x86-64; left to the compiler this took
/// 2 cycles an element, 10 % of a 256³ product.
///
/// # Safety
/// The elements must be readable at `from` and writable at `to`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn square_f32(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        use std::arch::x86_64::{
            _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
        };
        let (a, b) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(from_step)));
        let (c, d) = (_mm_loadu_ps(from.add(2 * from_step)), _mm_loadu_ps(from.add(3 * from_step)));
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(ab_low, cd_low));
        _mm_storeu_ps(to.add(to_step), _mm_movehl_ps(cd_low, ab_low));
        _mm_storeu_ps(to.add(2 * to_step), _mm_movelh_ps(ab_high, cd_high));
        _mm_storeu_ps(to.add(3 * to_step), _mm_movehl_ps(cd_high, ab_high));
    }
}

/// As [`square_f32`].
///
/// # Safety
/// The elements must be readable at `from` and writable at `to`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn square_f64(from: *const f64, from_step: usize, to: *mut f64, to_step: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        use std::arch::x86_64::{_mm_loadu_pd, _mm_storeu_pd, _mm_unpackhi_pd, _mm_unpacklo_pd};
        for (i, p) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
            let a = _mm_loadu_pd(from.add(i * from_step + p));
            let b = _mm_loadu_pd(from.add((i + 1) * from_step + p));
            _mm_storeu_pd(to.add(p * to_step + i), _mm_unpacklo_pd(a, b));
            _mm_storeu_pd(to.add((p + 1) * to_step + i), _mm_unpackhi_pd(a, b));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use self::{square as square_f32, square as square_f64};

/// As [`square_f32`], by plain code.
///
/// # Safety
/// The elements must be readable at `from` and writable at `to`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) unsafe fn square<T: Copy>(from: *const T, from_step: usize, to: *mut T, to_step: usize) {
    for i in 0..4 {
        for p in 0..4 {
            // SAFETY: as promised by the caller.
            unsafe { *to.add(p * to_step + i) = *from.add(i * from_step + p) };
        }
    }
}
