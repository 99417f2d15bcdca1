//! What measuring speeds needs: multiply-adds and copies as wide as the processor allows, and emptying the caches of a
//! buffer. Nothing here computes a result.

use std::hint::black_box;

/// Chains that do not wait for each other: latency (4 cycles) times throughput (2 a cycle), with room to spare.
const CHAINS: usize = 12;

/// A loop of multiply-adds and how many f32 lanes it works on.
#[derive(Clone, Copy)]
pub(super) struct FmaLoop {
    /// f32 lanes of one instruction.
    pub(super) lanes: u32,
    run: fn(u32),
}

impl FmaLoop {
    /// The widest loop this processor can run.
    pub(super) fn widest() -> FmaLoop {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return FmaLoop { lanes: 16, run: x86::checked_avx512 };
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                return FmaLoop { lanes: 8, run: x86::checked_avx2 };
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return FmaLoop { lanes: 4, run: arm::checked_neon };
        }
        FmaLoop { lanes: 1, run: scalar }
    }

    /// Runs that many rounds.
    pub(super) fn run(self, rounds: u32) {
        (self.run)(rounds);
    }

    /// Operations of that many rounds: a multiply and an add per lane and chain.
    pub(super) fn flops(self, rounds: u32) -> f64 {
        2.0 * f64::from(self.lanes) * CHAINS as f64 * f64::from(rounds)
    }
}

/// Separate multiplies and adds of single numbers, for processors without a loop of their own.
fn scalar(rounds: u32) {
    let mut sums = [black_box(0.0f32); CHAINS];
    let (factor, step) = (black_box(0.999f32), black_box(0.001f32));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = *sum * factor + step;
        }
        // Keeps the compiler from making vectors of the chains.
        sums[0] = black_box(sums[0]);
    }
    black_box(sums);
}

/// Copies as kernels do, by loads and stores of the widest vectors. The library's `memcpy` would measure itself: in the first
/// measurement of a process it moved 41 GB/s here and in later ones 17, where this moves 36–43 every time.
/// Copies as much as both have; a remainder of less than a vector is left.
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: avx512f was detected.
            return unsafe { x86::copy_avx512(from, to) };
        }
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: avx was detected.
            return unsafe { x86::copy_avx(from, to) };
        }
    }
    let both = from.len().min(to.len());
    to[..both].copy_from_slice(&from[..both]);
}

/// Whether [`flush`] does anything here.
pub(super) const fn can_flush() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Moves a buffer out of all caches, where a program may do that.
pub(super) fn flush(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        // Lines are 64 bytes on every x86-64 processor; smaller ones would only leave some lines cached.
        for line in bytes.chunks(64) {
            // SAFETY: the address is inside a live slice, and clflush (SSE2, part of x86-64) changes no contents.
            unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr()) };
        }
        // SAFETY: a fence, part of x86-64; orders the flushes before what follows.
        unsafe { std::arch::x86_64::_mm_mfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// A loop of multiply-adds with the vectors of an instruction set, for who found it there.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! fma_loop {
    ($checked:ident, $features:literal, $set:ident, |$sum:ident, $factor:ident, $step:ident| $fma:expr) => {
        pub(super) fn $checked(rounds: u32) {
            #[target_feature(enable = $features)]
            fn compiled(rounds: u32) {
                let ($factor, $step) = ($set(black_box(0.999)), $set(black_box(0.001)));
                let mut sums = [$set(black_box(0.0)); CHAINS];
                for _ in 0..rounds {
                    for $sum in &mut sums {
                        *$sum = $fma;
                    }
                }
                black_box(sums);
            }
            // SAFETY: `FmaLoop::widest` hands this function out only after the features were detected.
            unsafe { compiled(rounds) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHAINS;
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_set1_ps, _mm512_storeu_ps,
    };
    use std::hint::black_box;

    fma_loop!(checked_avx512, "avx512f", _mm512_set1_ps, |sum, factor, step| _mm512_fmadd_ps(
        *sum, factor, step
    ));
    fma_loop!(checked_avx2, "avx2,fma", _mm256_set1_ps, |sum, factor, step| _mm256_fmadd_ps(
        *sum, factor, step
    ));

    #[target_feature(enable = "avx512f")]
    pub(super) fn copy_avx512(from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks_exact(64).zip(to.chunks_exact_mut(64)) {
            // SAFETY: both pieces are 64 bytes long, and these instructions take any alignment.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast(), _mm512_loadu_ps(from.as_ptr().cast())) };
        }
    }

    #[target_feature(enable = "avx")]
    pub(super) fn copy_avx(from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks_exact(32).zip(to.chunks_exact_mut(32)) {
            // SAFETY: both pieces are 32 bytes long, and these instructions take any alignment.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().cast(), _mm256_loadu_ps(from.as_ptr().cast())) };
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::CHAINS;
    use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};
    use std::hint::black_box;

    fma_loop!(checked_neon, "neon", vdupq_n_f32, |sum, factor, step| vfmaq_f32(step, *sum, factor));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushing_changes_nothing_but_speed() {
        let bytes: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        flush(&bytes[3..]);
        flush(&[]);
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == i as u8));
    }

    #[test]
    fn a_copy_is_a_copy_but_for_a_remainder() {
        let from: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        let mut to = vec![0; 980];
        copy(&from[1..], &mut to);
        assert_eq!(to[..960], from[1..961]);
    }

    #[test]
    fn the_widest_loop_and_the_scalar_loop_run_here() {
        let widest = FmaLoop::widest();
        widest.run(10);
        scalar(10);
        assert_eq!(widest.flops(10), 2.0 * f64::from(widest.lanes) * 12.0 * 10.0);
    }
}
