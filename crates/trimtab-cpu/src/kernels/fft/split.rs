//! A long line as a square of two shorter ones (four steps): its columns, twiddle factors, its rows, and rows written as columns. Several
//! threads share what is one transform, and caches hold the parts.

use super::lines::Lines;
use super::turns::turn_of;
use super::{Real, plans, scale};
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::thread_counts;
use crate::kernels::room::with_room;
use crate::pool::Pool;
use trimtab_core::{DeviceFacts, Fft, FftOp};
use trimtab_operands::Complex;

/// The shortest line worth splitting.
const SHORTEST: u64 = 1 << 13;
/// Rows that are written side by side.
const SIDE_BY_SIDE: usize = 16;

/// A length as the product of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub tall: usize,
    pub wide: usize,
}

/// The twiddle factors between columns and rows.
struct Between<T>(Vec<Complex<T>>);

impl Split {
    /// Of complex lines alone: two lengths as near to each other as there are, the shorter at least an eighth of the longer.
    pub(super) fn of(problem: &Fft) -> Option<Split> {
        let complex = matches!(problem.op, FftOp::Forward | FftOp::Inverse);
        let len = problem.last();
        if !complex || problem.sizes().len() > 1 || len < SHORTEST {
            return None;
        }
        let root = len.isqrt();
        let tall = (root / 3..=root).rev().find(|&tall| tall > 1 && len.is_multiple_of(tall))?;
        Some(Split { tall: tall as usize, wide: (len / tall) as usize })
    }

    /// Threads worth trying.
    pub(super) fn threads(self, device: &DeviceFacts) -> Vec<u32> {
        thread_counts(device, true, 3)
    }

    /// Every line of the problem, by who transforms columns, so many side by side, and rows.
    pub(super) fn run<T: Real>(
        self,
        problem: &Fft,
        (columns, abreast): (&dyn Lines<T>, usize),
        rows: &dyn Lines<T>,
        threads: u32,
        (input, out): (&[Complex<T>], &mut [Complex<T>]),
        pool: &Pool,
    ) {
        let Split { tall, wide } = self;
        let (len, inverse) = (tall * wide, problem.op.is_inverse());
        let turns = plans::plan([len as u64, inverse.into(), 0, 0], len * size_of::<Complex<T>>(), || {
            let turn = |at: usize| {
                let turn = turn_of::<T>((at / wide * (at % wide)) as u64, len as u64);
                if inverse { turn.conj() } else { turn }
            };
            Between((0..len).map(turn).collect())
        });
        let scale = T::of(scale(problem));
        with_room::<Complex<T>>(len, |between| {
            for (input, out) in input.chunks_exact(len).zip(out.chunks_exact_mut(len)) {
                let parts = Disjoint::new(&mut *between);
                pool.run(threads, wide.div_ceil(abreast), &|task| {
                    let first = task * abreast;
                    let count = abreast.min(wide - first);
                    with_room::<Complex<T>>(columns.columns_room(count), |room| {
                        // SAFETY: every task has columns of its own, `tall` rows of `wide` apart.
                        unsafe {
                            let (from, to) = (input.as_ptr().add(first), parts.as_mut_ptr().add(first));
                            columns.columns((from, wide), (to, wide), count, room, T::of(1.0));
                        }
                    });
                    for row in 0..tall {
                        let at = row * wide + first;
                        // SAFETY: the same columns.
                        let made = unsafe { parts.part(at..at + count) };
                        made.iter_mut()
                            .zip(&turns.0[at..])
                            .for_each(|(number, turn)| *number = *number * *turn);
                    }
                });
                let (between, parts) = (&*between, Disjoint::new(out));
                pool.run(threads, tall.div_ceil(SIDE_BY_SIDE), &|task| {
                    let first = task * SIDE_BY_SIDE;
                    let count = SIDE_BY_SIDE.min(tall - first);
                    with_room::<Complex<T>>(count * wide + rows.room(), |room| {
                        let (made, room) = room.split_at_mut(count * wide);
                        for (nth, made) in made.chunks_exact_mut(wide).enumerate() {
                            let row = (first + nth) * wide;
                            rows.row(&between[row..row + wide], made, room, scale);
                        }
                        for at in 0..wide {
                            let to = at * tall + first;
                            // SAFETY: every task has columns of its own.
                            let to = unsafe { parts.part(to..to + count) };
                            to.iter_mut().enumerate().for_each(|(nth, to)| *to = made[nth * wide + at]);
                        }
                    });
                });
            }
        });
    }
}
