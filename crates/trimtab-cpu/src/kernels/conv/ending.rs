//! What ends a convolution: a bias and a function, on results that were just written.

use super::Float;
use crate::disjoint::Disjoint;
use crate::kernels::elementwise::math::{gelu, sigmoid, tanh};
use crate::simd::{Level, MAX_LANES, Simd, Task, Vector};
use std::ops::Range;
use trimtab_core::{Conv, UnaryOp};

/// The bias of results in a row.
#[derive(Clone, Copy)]
pub(super) enum Bias<'a, T> {
    /// There is none.
    None,
    /// One channel's.
    One(T),
    /// Each of so many channels has its own, place after place.
    Each(&'a [T]),
}

/// Adds the bias and applies the function to results in a row.
pub(super) fn end<T: Float>(problem: &Conv, level: Level, bias: Bias<'_, T>, out: &mut [T]) {
    if problem.act.is_some() || !matches!(bias, Bias::None) {
        level.vectorize(Ending { act: problem.act, bias, out });
    }
}

/// Ends the results of some channels at some places, where channels lie behind the space.
///
/// # Safety
/// Nobody else may use these results.
pub(super) unsafe fn end_places<T: Float>(
    problem: &Conv,
    level: Level,
    bias: Option<&[T]>,
    out: &Disjoint<'_, T>,
    channels: Range<usize>,
    places: Range<usize>,
) {
    let (all, own) = (problem.outputs(), bias.map_or(Bias::None, |bias| Bias::Each(&bias[channels.clone()])));
    if channels.len() == all {
        // SAFETY: as promised by the caller.
        return end(problem, level, own, unsafe { out.part(places.start * all..places.end * all) });
    }
    for place in places {
        // SAFETY: as promised by the caller.
        let place = unsafe { out.part(place * all + channels.start..place * all + channels.end) };
        end(problem, level, own, place);
    }
}

struct Ending<'a, T> {
    act: Option<UnaryOp>,
    bias: Bias<'a, T>,
    out: &'a mut [T],
}

impl<T: Float> Task for Ending<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Ending { act, bias, out } = self;
        let lanes = <T::V<S> as Vector<T>>::LANES;
        let each = if let Bias::Each(all) = bias { all.len().max(1) } else { out.len().max(1) };
        let parts = out.chunks_mut(each).flat_map(|place| place.chunks_mut(lanes));
        let mut at = 0;
        for part in parts {
            let (mut whole, mut whole_bias) = ([T::ZERO; MAX_LANES], [T::ZERO; MAX_LANES]);
            let is_whole = part.len() == lanes;
            let mut value = match is_whole {
                // SAFETY: that many elements are there.
                true => unsafe { T::V::<S>::load(simd, part.as_ptr()) },
                false => {
                    whole[..part.len()].copy_from_slice(part);
                    // SAFETY: no vector has more lanes than there are places.
                    unsafe { T::V::<S>::load(simd, whole.as_ptr()) }
                }
            };
            match bias {
                Bias::None => (),
                Bias::One(bias) => value = value.add(T::V::<S>::splat(simd, bias)),
                Bias::Each(all) => {
                    let own = &all[at..][..part.len()];
                    whole_bias[..own.len()].copy_from_slice(own);
                    // SAFETY: no vector has more lanes than there are places.
                    value = value.add(unsafe { T::V::<S>::load(simd, whole_bias.as_ptr()) });
                }
            }
            value = match act {
                None => value,
                Some(UnaryOp::Tanh) => tanh(value),
                Some(UnaryOp::Sigmoid) => sigmoid(value),
                Some(UnaryOp::Gelu) => gelu(value),
                // Relu: a NaN stays.
                Some(_) => value.max(T::V::<S>::splat(simd, T::ZERO)),
            };
            match is_whole {
                // SAFETY: that many places are there.
                true => unsafe { value.store(part.as_mut_ptr()) },
                false => {
                    // SAFETY: no vector has more lanes than there are places.
                    unsafe { value.store(whole.as_mut_ptr()) };
                    part.copy_from_slice(&whole[..part.len()]);
                }
            }
            at = if at + part.len() == each { 0 } else { at + part.len() };
        }
    }
}
