//! Products of pairs by AVX512-BF16.

use super::{Cut, LANES, ROWS, WIDTH, Way, Which};
use std::arch::x86_64::{
    __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

/// By AVX512-BF16.
pub(super) struct Instruction;

impl Way for Instruction {
    unsafe fn tile(
        count: usize,
        lhs: *const u32,
        apart: usize,
        rhs: *const u32,
        sums: &mut [[f32; WIDTH]; ROWS],
    ) {
        // SAFETY: as promised by the caller.
        unsafe { tile(count, lhs, apart, rhs, sums) }
    }

    unsafe fn cut<T: Cut>(from: &[T], which: Which, to: &mut [u16]) {
        // SAFETY: as promised by the caller.
        unsafe { cut(from, which, to) }
    }

    unsafe fn cut_pairs<T: Cut>(above: &[T], below: &[T], which: Which, to: &mut [u32]) {
        // SAFETY: as promised by the caller.
        unsafe { cut_pairs(above, below, which, to) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn cut<T: Cut>(from: &[T], which: Which, to: &mut [u16]) {
    super::cut(from, which, to);
}

#[target_feature(enable = "avx512f,avx512bw")]
fn cut_pairs<T: Cut>(above: &[T], below: &[T], which: Which, to: &mut [u32]) {
    super::cut_pairs(above, below, which, to);
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile(
    count: usize,
    mut lhs: *const u32,
    apart: usize,
    mut rhs: *const u32,
    sums: &mut [[f32; WIDTH]; ROWS],
) {
    // The same bits as 32 halves.
    let halves = |pairs: __m512i| -> __m512bh {
        // SAFETY: both are 64 bytes of which every pattern is valid.
        unsafe { std::mem::transmute(pairs) }
    };
    let mut held = [[_mm512_setzero_ps(); 2]; ROWS];
    for (held, sums) in held.iter_mut().zip(sums.iter()) {
        // SAFETY: a row of sums has two vectors.
        *held = unsafe { [_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums.as_ptr().add(LANES))] };
    }
    for _ in 0..count {
        // SAFETY: step after step of what the caller promises to be readable; pointers move past the end without being read.
        unsafe {
            let right =
                [halves(_mm512_loadu_si512(rhs.cast())), halves(_mm512_loadu_si512(rhs.add(LANES).cast()))];
            for (row, held) in held.iter_mut().enumerate() {
                let left = halves(_mm512_set1_epi32(*lhs.add(row * apart) as i32));
                held[0] = _mm512_dpbf16_ps(held[0], left, right[0]);
                held[1] = _mm512_dpbf16_ps(held[1], left, right[1]);
            }
        }
        lhs = lhs.wrapping_add(1);
        rhs = rhs.wrapping_add(WIDTH);
    }
    for (held, sums) in held.iter().zip(sums.iter_mut()) {
        // SAFETY: a row of sums has two vectors.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), held[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(LANES), held[1]);
        }
    }
}
