//! Loops that do nothing but multiply and add, as wide as the processor allows. They measure; they compute nothing.

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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHAINS;
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};
    use std::hint::black_box;

    pub(super) fn checked_avx512(rounds: u32) {
        // SAFETY: `FmaLoop::widest` hands this function out only after avx512f was detected.
        unsafe { avx512(rounds) }
    }

    pub(super) fn checked_avx2(rounds: u32) {
        // SAFETY: `FmaLoop::widest` hands this function out only after avx2 and fma were detected.
        unsafe { avx2(rounds) }
    }

    #[target_feature(enable = "avx512f")]
    fn avx512(rounds: u32) {
        let (factor, step) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums = [_mm512_set1_ps(black_box(0.0)); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, step);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    fn avx2(rounds: u32) {
        let (factor, step) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums = [_mm256_set1_ps(black_box(0.0)); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, step);
            }
        }
        black_box(sums);
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::CHAINS;
    use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};
    use std::hint::black_box;

    pub(super) fn checked_neon(rounds: u32) {
        // SAFETY: `FmaLoop::widest` hands this function out only after neon was detected.
        unsafe { neon(rounds) }
    }

    #[target_feature(enable = "neon")]
    fn neon(rounds: u32) {
        let (factor, step) = (vdupq_n_f32(black_box(0.999)), vdupq_n_f32(black_box(0.001)));
        let mut sums = [vdupq_n_f32(black_box(0.0)); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = vfmaq_f32(step, *sum, factor);
            }
        }
        black_box(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_loop_and_the_scalar_loop_run_here() {
        let widest = FmaLoop::widest();
        widest.run(10);
        scalar(10);
        assert_eq!(widest.flops(10), 2.0 * f64::from(widest.lanes) * 12.0 * 10.0);
    }
}
