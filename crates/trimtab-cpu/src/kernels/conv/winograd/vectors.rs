//! Vectors of tiles, or of channels, through the transforms.

use super::super::im2col::copy_line;
use super::super::{Float, load_some};
use super::{Block, Cut, transform};
use crate::disjoint::Disjoint;
use crate::simd::{MAX_LANES, Simd, Task, Vector};
use trimtab_core::{Channels, Conv};

/// The weights of one channel of the result.
pub(super) struct Weights<'a, T, const N: usize> {
    pub(super) p: &'a Conv,
    pub(super) weights: &'a [T],
    pub(super) output: usize,
    /// From one element of a transformed tile to the next.
    pub(super) step: usize,
    pub(super) to: &'a Disjoint<'a, T>,
}

impl<T: Float, const N: usize> Task for Weights<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Weights { p, weights, output, step, to } = self;
        let inputs = p.inputs();
        let own = &weights[output * inputs * 9..(output + 1) * inputs * 9];
        for input in 0..inputs {
            let mut g = [0.0; 9];
            for (tap, g) in g.iter_mut().enumerate() {
                *g = match p.channels {
                    Channels::First => own[input * 9 + tap],
                    Channels::Last => own[tap * inputs + input],
                }
                .to_f64();
            }
            let turned = transform::of_weights::<N>(g);
            for (element, value) in turned.iter().flatten().enumerate() {
                let at = element * step + output * inputs + input;
                // SAFETY: every task has its own channels of the result.
                unsafe { to.part(at..at + 1) }.fill(T::from_f64(*value));
            }
        }
    }
}

/// Tiles of the operand, a vector of tiles in a row at a time: channels lie before the space.
pub(super) struct ByRow<'a, T, const N: usize> {
    pub(super) block: Block<'a>,
    pub(super) operand: &'a [T],
    pub(super) apart: &'a mut [T],
    pub(super) to: &'a mut [T],
}

impl<T: Float, const N: usize> Task for ByRow<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ByRow { block, operand, apart, to } = self;
        let Block { p, cut, .. } = block;
        let (size, pad, lanes) = (p.window.size(), p.window.pad(), <T::V<S> as Vector<T>>::LANES);
        let (m, line) = (cut.m, cut.across + 1 + MAX_LANES);
        let zero = T::V::<S>::splat(simd, T::ZERO);
        let enough = apart.len() >= N * m * line && to.len() >= N * N * cut.sizes[0];
        assert!(enough && block.rows <= cut.rows && m + 2 == N);
        for channel in 0..p.inputs() {
            for nth in 0..block.rows {
                let (batch, top) = block.place(nth);
                let plane =
                    &operand[(batch * p.inputs() + channel) * size[1] * size[2]..][..size[1] * size[2]];
                for (at, to) in apart.chunks_mut(line).enumerate().take(N * m) {
                    let to = &mut to[..cut.across + 1];
                    match (top + at / m).checked_sub(pad[1]).filter(|&y| y < size[1]) {
                        Some(y) => copy_line(&plane[y * size[2]..][..size[2]], to, at % m, pad[2], m),
                        None => to.fill(T::ZERO),
                    }
                }
                let start = channel * cut.lines[0] + nth * cut.across;
                let (from, to) = (apart.as_ptr(), to.as_mut_ptr());
                for x in (0..cut.across).step_by(lanes) {
                    // SAFETY: lines of `apart` go on for `MAX_LANES` behind the one after the last tile, those of the result behind
                    // the last tile of the block; what is written there belongs to tiles that follow, or to nobody.
                    unsafe {
                        transform::inputs::<T, T::V<S>, N>(
                            zero,
                            #[inline(always)]
                            |value| T::V::<S>::splat(simd, T::from_f64(value)),
                            #[inline(always)]
                            |i, j| T::V::<S>::load(simd, from.add((i * m + j % m) * line + x + j / m)),
                            #[inline(always)]
                            |element, value| value.store(to.add(element * cut.sizes[0] + start + x)),
                        );
                    }
                }
            }
        }
    }
}

/// Tiles of the operand, a vector of channels at a time: channels lie behind the space.
pub(super) struct ByChannel<'a, T, const N: usize> {
    pub(super) block: Block<'a>,
    pub(super) operand: &'a [T],
    pub(super) to: &'a mut [T],
}

impl<T: Float, const N: usize> Task for ByChannel<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ByChannel { block, operand, to } = self;
        let Block { p, cut, .. } = block;
        let (size, pad, lanes) = (p.window.size(), p.window.pad(), <T::V<S> as Vector<T>>::LANES);
        let zero = T::V::<S>::splat(simd, T::ZERO);
        assert!(to.len() >= N * N * cut.sizes[0] && block.rows <= cut.rows && cut.m + 2 == N);
        for nth in 0..block.rows {
            let (batch, top) = block.place(nth);
            let image = &operand[batch * size[1] * size[2] * p.inputs()..][..size[1] * size[2] * p.inputs()];
            for x in 0..cut.across {
                let start = (nth * cut.across + x) * cut.lines[0];
                for channel in (0..p.inputs()).step_by(lanes) {
                    let count = lanes.min(p.inputs() - channel);
                    let to = to.as_mut_ptr();
                    transform::inputs::<T, T::V<S>, N>(
                        zero,
                        #[inline(always)]
                        |value| T::V::<S>::splat(simd, T::from_f64(value)),
                        #[inline(always)]
                        |i, j| {
                            let y = (top + i).checked_sub(pad[1]).filter(|&y| y < size[1]);
                            let x = (x * cut.m + j).checked_sub(pad[2]).filter(|&x| x < size[2]);
                            match (y, x) {
                                (Some(y), Some(x)) => {
                                    let from = &image[(y * size[2] + x) * p.inputs() + channel..][..count];
                                    // SAFETY: `count` elements are there.
                                    unsafe { load_some(simd, from.as_ptr(), count, T::ZERO) }
                                }
                                _ => zero,
                            }
                        },
                        #[inline(always)]
                        |element, value| {
                            // SAFETY: lines go on for `MAX_LANES` behind the last channel; nobody reads what is written there.
                            unsafe { value.store(to.add(element * cut.sizes[0] + start + channel)) };
                        },
                    );
                }
            }
        }
    }
}

/// The results of a row of tiles of one channel, a vector of tiles at a time, by their place in the tile.
pub(super) struct TileRows<'a, T, const N: usize> {
    pub(super) cut: Cut,
    pub(super) products: &'a [T],
    pub(super) from: usize,
    pub(super) to: &'a mut [T],
}

impl<T: Float, const N: usize> Task for TileRows<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let TileRows { cut, products, from, to } = self;
        let (lanes, line) = (<T::V<S> as Vector<T>>::LANES, cut.across + 1 + MAX_LANES);
        let zero = T::V::<S>::splat(simd, T::ZERO);
        let last = (N * N - 1) * cut.sizes[1] + from + cut.across + MAX_LANES;
        assert!(last <= products.len() && to.len() >= cut.m * cut.m * line && cut.m + 2 == N);
        let (products, to) = (products.as_ptr(), to.as_mut_ptr());
        for x in (0..cut.across).step_by(lanes) {
            // SAFETY: lines of products and of results go on for `MAX_LANES` behind the last tile.
            unsafe {
                transform::outputs::<T, T::V<S>, N>(
                    zero,
                    #[inline(always)]
                    |value| T::V::<S>::splat(simd, T::from_f64(value)),
                    #[inline(always)]
                    |element| T::V::<S>::load(simd, products.add(element * cut.sizes[1] + from + x)),
                    #[inline(always)]
                    |i, j, value| value.store(to.add((i * cut.m + j) * line + x)),
                );
            }
        }
    }
}

/// The results of a row of tiles of all channels, a vector of channels at a time.
pub(super) struct Places<'a, T, const N: usize> {
    pub(super) cut: Cut,
    pub(super) products: &'a [T],
    pub(super) out: &'a Disjoint<'a, T>,
    pub(super) sizes: [usize; 4],
}

impl<T: Float, const N: usize> Task for Places<'_, T, N> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Places { cut, products, out, sizes: [first, rows, columns, outputs] } = self;
        let (lanes, m) = (<T::V<S> as Vector<T>>::LANES, cut.m);
        let zero = T::V::<S>::splat(simd, T::ZERO);
        for x in 0..cut.across {
            for output in (0..outputs).step_by(lanes) {
                let count = lanes.min(outputs - output);
                transform::outputs::<T, T::V<S>, N>(
                    zero,
                    #[inline(always)]
                    |value| T::V::<S>::splat(simd, T::from_f64(value)),
                    #[inline(always)]
                    |element| {
                        let from = &products[element * cut.sizes[1] + x * cut.lines[1] + output..][..lanes];
                        // SAFETY: that many elements are there.
                        unsafe { T::V::<S>::load(simd, from.as_ptr()) }
                    },
                    #[inline(always)]
                    |i, j, value| {
                        if i < rows && x * m + j < columns {
                            let start = (first + i * columns + x * m + j) * outputs + output;
                            // SAFETY: every task has its own rows of tiles.
                            let to = unsafe { out.part(start..start + count) };
                            if to.len() == lanes {
                                // SAFETY: that many places are there.
                                unsafe { value.store(to.as_mut_ptr()) };
                            } else {
                                let mut all = [T::ZERO; MAX_LANES];
                                // SAFETY: no vector has more lanes than there are places.
                                unsafe { value.store(all.as_mut_ptr()) };
                                to.copy_from_slice(&all[..to.len()]);
                            }
                        }
                    },
                );
            }
        }
    }
}
