//! The passes over one contiguous row with vectors.

use super::Float;
use crate::kernels::elementwise::math::exp;
use crate::simd::{MAX_LANES, Simd, Vector};
use trimtab_core::RowsOp;

/// Vectors that are added up in the element type before they go to a total in `f64`: what keeps sums accurate.
const RUN: usize = 16;

/// A row, read with vectors.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct OfRow<'a, T: Float, S: Simd> {
    pub(in crate::kernels) simd: S,
    pub(in crate::kernels) elements: &'a [T],
}

/// All lanes together.
#[inline(always)]
fn lanes_of<T: Float, S: Simd>(vector: T::V<S>) -> [T; MAX_LANES] {
    let mut lanes = [T::default(); MAX_LANES];
    // SAFETY: no vector has more lanes than there are places.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    lanes
}

impl<'a, T: Float, S: Simd> OfRow<'a, T, S> {
    const LANES: usize = <T::V<S> as Vector<T>>::LANES;

    #[inline(always)]
    fn splat(&self, value: f64) -> T::V<S> {
        T::V::<S>::splat(self.simd, <T as trimtab_operands::Element>::from_f64(value))
    }

    /// The vector of elements from there on; past the end stands `fill`.
    #[inline(always)]
    fn load(&self, at: usize, fill: f64) -> T::V<S> {
        let rest = &self.elements[at..];
        if rest.len() >= Self::LANES {
            // SAFETY: that many elements are there.
            return unsafe { T::V::<S>::load(self.simd, rest.as_ptr()) };
        }
        let mut lanes = [<T as trimtab_operands::Element>::from_f64(fill); MAX_LANES];
        lanes[..rest.len()].copy_from_slice(rest);
        // SAFETY: no vector has more lanes than there are places.
        unsafe { T::V::<S>::load(self.simd, lanes.as_ptr()) }
    }

    /// The largest; a NaN wins.
    #[inline(always)]
    pub(in crate::kernels) fn largest(&self) -> f64 {
        let mut most = [self.splat(f64::NEG_INFINITY); 2];
        let mut at = 0;
        while at < self.elements.len() {
            most[0] = most[0].max(self.load(at, f64::NEG_INFINITY));
            at += Self::LANES;
            if at < self.elements.len() {
                most[1] = most[1].max(self.load(at, f64::NEG_INFINITY));
                at += Self::LANES;
            }
        }
        let lanes = lanes_of::<T, S>(most[0].max(most[1]));
        let larger = |most: f64, &lane: &T| {
            let lane = lane.to_f64();
            if most.is_nan() || lane.is_nan() { f64::NAN } else { most.max(lane) }
        };
        lanes[..Self::LANES].iter().fold(f64::NEG_INFINITY, larger)
    }

    /// The sum of what a function makes of each vector; past the end stands `fill`, of which it must make zero.
    #[inline(always)]
    fn sum(&self, fill: f64, term: impl Fn(usize, T::V<S>) -> T::V<S>) -> f64 {
        let (mut total, mut at) = (0.0, 0);
        while at < self.elements.len() {
            let end = self.elements.len().min(at + RUN * Self::LANES);
            let mut run = self.splat(0.0);
            while at < end {
                run = run.add(term(at, self.load(at, fill)));
                at += Self::LANES;
            }
            total += lanes_of::<T, S>(run)[..Self::LANES].iter().map(|lane| lane.to_f64()).sum::<f64>();
        }
        total
    }

    /// The sum of `exp(x - less)`.
    #[inline(always)]
    pub(in crate::kernels) fn exps(&self, less: f64) -> f64 {
        let less = self.splat(less);
        self.sum(
            f64::NEG_INFINITY,
            #[inline(always)]
            |_, x| exp(x.sub(less)),
        )
    }

    /// The same; what is summed is kept.
    #[inline(always)]
    pub(in crate::kernels) fn keep_exps(&self, less: f64, out: &mut [T]) -> f64 {
        let (less, to) = (self.splat(less), Out(out.as_mut_ptr(), out.len()));
        self.sum(
            f64::NEG_INFINITY,
            #[inline(always)]
            |at, x| {
                let value = exp(x.sub(less));
                to.store::<S>(at, value);
                value
            },
        )
    }

    /// The sum.
    #[inline(always)]
    pub(in crate::kernels) fn total(&self) -> f64 {
        self.sum(
            0.0,
            #[inline(always)]
            |_, x| x,
        )
    }

    /// The sum of squared distances from a number.
    #[inline(always)]
    pub(in crate::kernels) fn squares(&self, from: f64) -> f64 {
        let less = self.splat(from);
        // The places past the end are as far from it as it is from nothing.
        self.sum(
            from,
            #[inline(always)]
            |_, x| {
                let off = x.sub(less);
                off.mul(off)
            },
        )
    }

    /// Writes what a function makes of each vector.
    #[inline(always)]
    pub(in crate::kernels) fn write(&self, out: &mut [T], value: impl Fn(usize, T::V<S>) -> T::V<S>) {
        let to = Out(out.as_mut_ptr(), out.len());
        let mut at = 0;
        while at < self.elements.len() {
            to.store::<S>(at, value(at, self.load(at, 0.0)));
            at += Self::LANES;
        }
    }

    /// Writes the row's results: what is taken off, by what the rest is multiplied, or what is taken off a logarithm.
    #[inline(always)]
    pub(in crate::kernels) fn finish(
        &self,
        op: RowsOp,
        [less, by]: [f64; 2],
        scale: Option<&[T]>,
        shift: Option<&[T]>,
        out: &mut [T],
    ) {
        let (less, by) = (self.splat(less), self.splat(by));
        match op {
            RowsOp::Softmax => self.write(
                out,
                #[inline(always)]
                |_, x| exp(x.sub(less)).mul(by),
            ),
            RowsOp::LogSoftmax => self.write(
                out,
                #[inline(always)]
                |_, x| x.sub(less).sub(by),
            ),
            _ => match (scale, shift) {
                (None, None) => self.write(
                    out,
                    #[inline(always)]
                    |_, x| x.sub(less).mul(by),
                ),
                (scale, shift) => {
                    self.write(
                        out,
                        #[inline(always)]
                        |at, x| {
                            let mut value = x.sub(less).mul(by);
                            if let Some(scale) = scale {
                                value = value.mul(OfRow { simd: self.simd, elements: scale }.load(at, 1.0));
                            }
                            if let Some(shift) = shift {
                                value = value.add(OfRow { simd: self.simd, elements: shift }.load(at, 0.0));
                            }
                            value
                        },
                    );
                }
            },
        }
    }
}

/// Puts `exp(x - less)` in the place of every element; their sum.
#[inline(always)]
pub(in crate::kernels) fn exps_in_place<T: Float, S: Simd>(simd: S, elements: &mut [T], less: f64) -> f64 {
    let of = <T as trimtab_operands::Element>::from_f64;
    let lanes = <T::V<S> as Vector<T>>::LANES;
    let less = T::V::<S>::splat(simd, of(less));
    let mut total = 0.0;
    for run in elements.chunks_mut(RUN * lanes) {
        let mut sum = T::V::<S>::splat(simd, of(0.0));
        let mut whole = run.chunks_exact_mut(lanes);
        for part in &mut whole {
            // SAFETY: as many elements as a vector has, and they are ours.
            let value = exp(unsafe { T::V::<S>::load(simd, part.as_ptr()) }.sub(less));
            // SAFETY: the same elements.
            unsafe { value.store(part.as_mut_ptr()) };
            sum = sum.add(value);
        }
        let rest = whole.into_remainder();
        if !rest.is_empty() {
            let mut last = [of(f64::NEG_INFINITY); MAX_LANES];
            last[..rest.len()].copy_from_slice(rest);
            // SAFETY: no vector has more lanes than there are places.
            let value = exp(unsafe { T::V::<S>::load(simd, last.as_ptr()) }.sub(less));
            rest.copy_from_slice(&lanes_of::<T, S>(value)[..rest.len()]);
            sum = sum.add(value);
        }
        total += lanes_of::<T, S>(sum)[..lanes].iter().map(|lane| lane.to_f64()).sum::<f64>();
    }
    total
}

/// Multiplies every element.
#[inline(always)]
pub(in crate::kernels) fn multiply<T: Float, S: Simd>(simd: S, elements: &mut [T], by: f64) {
    let (to, len) = (Out(elements.as_mut_ptr(), elements.len()), elements.len());
    let factor = T::V::<S>::splat(simd, <T as trimtab_operands::Element>::from_f64(by));
    let lanes = <T::V<S> as Vector<T>>::LANES;
    for at in (0..len).step_by(lanes) {
        let value = match len - at >= lanes {
            // SAFETY: that many elements are there.
            true => unsafe { T::V::<S>::load(simd, to.0.add(at)) },
            false => {
                let mut rest = [T::default(); MAX_LANES];
                // SAFETY: `len - at` elements are there, fewer than a vector has.
                (0..len - at).for_each(|lane| rest[lane] = unsafe { *to.0.add(at + lane) });
                // SAFETY: no vector has more lanes than there are places.
                unsafe { T::V::<S>::load(simd, rest.as_ptr()) }
            }
        };
        to.store::<S>(at, value.mul(factor));
    }
}

/// Where results go.
struct Out<T>(*mut T, usize);

impl<T: Float> Out<T> {
    /// Writes a vector's lanes from there on, as far as there are places.
    #[inline(always)]
    fn store<S: Simd>(&self, at: usize, value: T::V<S>) {
        let left = self.1.saturating_sub(at);
        if left >= <T::V<S> as Vector<T>>::LANES {
            // SAFETY: that many places are left, and they are ours.
            unsafe { value.store(self.0.add(at)) };
            return;
        }
        let lanes = lanes_of::<T, S>(value);
        for (lane, value) in lanes[..left].iter().enumerate() {
            // SAFETY: there are that many places left, and they are ours.
            unsafe { *self.0.add(at + lane) = *value };
        }
    }
}
