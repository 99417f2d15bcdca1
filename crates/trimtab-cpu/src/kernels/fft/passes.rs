//! The passes of a Stockham transform of a power of two, over vectors: real and imaginary parts in planes of their own, results in
//! order without a reversal of bits. A pass takes `radix` numbers `len/radix` apart, and what it leaves is `radix` times further on.
//!
//! Of lines side by side a vector holds one number of each. Of a single line the first pass holds neighbours, and weaves what they
//! become; from the second pass on, numbers that are treated alike lie side by side. The inverse transform trades real for
//! imaginary parts on the way in and out.

use super::Real;
use super::turns::turn_of;
use crate::simd::{FloatVector, Simd, Task, Vector, Woven};

/// What tells a pass from others of a line.
pub(super) struct Pass<T> {
    radix: usize,
    /// Groups of numbers that have a twiddle factor in common.
    groups: usize,
    /// Twiddle factors: of every group, or of every number of the radix a line of groups, real parts before imaginary ones.
    turns: Vec<T>,
}

impl<T: Real> Pass<T> {
    /// The passes of a line, of those radices.
    pub(super) fn all(len: usize, radices: &[usize], woven: bool) -> Vec<Pass<T>> {
        let mut rest = len;
        let pass = |(nth, &radix): (usize, &usize)| {
            let groups = rest / radix;
            let turn = |group: usize, number: usize| turn_of::<T>((group * number) as u64, rest as u64);
            let turns = if nth == 0 && woven {
                (1..radix)
                    .flat_map(|number| {
                        let parts = |re: bool| {
                            (0..groups).map(move |group| {
                                let turn = turn(group, number);
                                if re { turn.re } else { turn.im }
                            })
                        };
                        parts(true).chain(parts(false)).collect::<Vec<T>>()
                    })
                    .collect()
            } else {
                (0..groups)
                    .flat_map(|group| (1..radix).map(move |number| turn(group, number)))
                    .flat_map(|turn| [turn.re, turn.im])
                    .collect()
            };
            rest = groups;
            Pass { radix, groups, turns }
        };
        radices.iter().enumerate().map(pass).collect()
    }
}

/// Radices whose product is a power of two: one of them first where it is said, and as many large ones as there are.
pub(super) fn radices(len: usize, radix: usize, first: Option<usize>) -> Vec<usize> {
    let (mut rest, mut all) = (len, Vec::new());
    // Two passes at least.
    let radix = if first.is_none() && len <= radix { (len / 2).max(2) } else { radix };
    if let Some(first) = first {
        all.push(first);
        rest /= first;
    }
    while rest > 1 {
        // Not one of two at the end where two of four will do.
        let next = if rest == 2 * radix && radix == 8 { 4 } else { radix.min(rest) };
        all.push(next);
        rest /= next;
    }
    all
}

/// Where numbers are: parts apart.
#[derive(Clone, Copy)]
struct Planes<T> {
    re: *mut T,
    im: *mut T,
}

/// Where numbers are: parts of each side by side, rows of them so far apart.
#[derive(Clone, Copy)]
pub(super) struct Pairs<T> {
    pub at: *mut T,
    pub stride: usize,
}

/// Complex numbers, a vector of parts each.
type Numbers<V, const R: usize> = [(V, V); R];

/// Where the first pass reads and the last one writes.
#[derive(Clone, Copy)]
pub(super) struct Ends<T> {
    pub from: Pairs<T>,
    pub to: Pairs<T>,
    pub inverse: bool,
    pub scale: T,
}

/// A line, or as many as a vector has lanes, by its passes.
pub(super) struct Transform<'a, T> {
    pub passes: &'a [Pass<T>],
    pub len: usize,
    /// Whether it is a single line.
    pub woven: bool,
    pub ends: Ends<T>,
    /// As many parts as [`room`] says.
    pub room: *mut T,
}

/// Parts between planes, so that numbers of both do not meet in the same lines of a cache.
const APART: usize = 16;

/// Parts a transform needs beside it, of lines side by side.
pub(super) const fn room(len: usize, abreast: usize) -> usize {
    4 * (len * abreast + APART)
}

impl<T: Real> Task for Transform<'_, T> {
    type Out = ();

    /// At least two passes, and a single line of at least 64 numbers; numbers and room must be there: who makes a transform promises.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let lanes = T::V::<S>::LANES;
        let abreast = if self.woven { 1 } else { lanes };
        let plane = self.len * abreast + APART;
        // SAFETY: four planes fit the room.
        let planes = |nth: usize| unsafe {
            Planes { re: self.room.add(2 * nth * plane), im: self.room.add((2 * nth + 1) * plane) }
        };
        let (Some((first, rest)), ends) = (self.passes.split_first(), self.ends) else { return };
        let Some((last, between)) = rest.split_last() else { return };
        // SAFETY: the numbers are there, who made the transform promises; planes hold as many.
        unsafe {
            match (self.woven, first.radix) {
                (true, 8) => weaving::<S, T, 8>(simd, first, ends, planes(0)),
                (true, _) => weaving::<S, T, 4>(simd, first, ends, planes(0)),
                (false, 8) => entering::<S, T, 8>(simd, first, ends, planes(0)),
                (false, 4) => entering::<S, T, 4>(simd, first, ends, planes(0)),
                (false, _) => entering::<S, T, 2>(simd, first, ends, planes(0)),
            }
            let (mut width, mut here) = (first.radix * abreast, 0);
            for pass in between {
                let (from, to) = (planes(here), planes(1 - here));
                match pass.radix {
                    8 => amid::<S, T, 8>(simd, pass, width, from, to),
                    4 => amid::<S, T, 4>(simd, pass, width, from, to),
                    _ => amid::<S, T, 2>(simd, pass, width, from, to),
                }
                width *= pass.radix;
                here = 1 - here;
            }
            match last.radix {
                8 => leaving::<S, T, 8>(simd, width, abreast, planes(here), ends),
                4 => leaving::<S, T, 4>(simd, width, abreast, planes(here), ends),
                _ => leaving::<S, T, 2>(simd, width, abreast, planes(here), ends),
            }
        }
    }
}

/// A vector of numbers whose parts are side by side.
///
/// # Safety
/// They must be there.
#[inline(always)]
unsafe fn load<S: Simd, T: Real>(simd: S, at: *const T, trade: bool) -> (T::V<S>, T::V<S>) {
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (T::V::<S>::load(simd, at), T::V::<S>::load(simd, at.add(T::V::<S>::LANES))) };
    let (re, im) = a.part(b);
    if trade { (im, re) } else { (re, im) }
}

/// # Safety
/// They must be there, and nobody else's.
#[inline(always)]
unsafe fn store<S: Simd, T: Real>(to: *mut T, (re, im): (T::V<S>, T::V<S>), trade: bool) {
    let (a, b) = if trade { im.weave(re) } else { re.weave(im) };
    // SAFETY: the caller's promise.
    unsafe {
        a.store(to);
        b.store(to.add(T::V::<S>::LANES));
    }
}

/// The first pass of a single line: neighbours in a vector, what becomes of them woven.
///
/// # Safety
/// As [`Transform::run`].
#[inline(always)]
unsafe fn weaving<S: Simd, T: Real, const R: usize>(simd: S, pass: &Pass<T>, ends: Ends<T>, to: Planes<T>) {
    let (lanes, groups) = (T::V::<S>::LANES, pass.groups);
    for group in (0..groups).step_by(lanes) {
        // SAFETY: a line has `R * groups` numbers, and `groups` is a multiple of lanes.
        unsafe {
            let mut numbers = nothing::<S, T, R>(simd);
            for (number, value) in numbers.iter_mut().enumerate() {
                *value = load::<S, T>(simd, ends.from.at.add(2 * (group + number * groups)), ends.inverse);
            }
            let made = butterfly::<T, T::V<S>, R>(numbers);
            let turns = pass.turns.as_ptr().add(group);
            let (mut re, mut im) = ([made[0].0; R], [made[0].1; R]);
            for number in 1..R {
                let turns = turns.add(2 * (number - 1) * groups);
                let turn = (T::V::<S>::load(simd, turns), T::V::<S>::load(simd, turns.add(groups)));
                (re[number], im[number]) = turned(made[number], turn.0, turn.1);
            }
            let (re, im) = (woven(re), woven(im));
            for number in 0..R {
                re[number].store(to.re.add(R * group + number * lanes));
                im[number].store(to.im.add(R * group + number * lanes));
            }
        }
    }
}

/// The first numbers of all vectors, then the second ones, and so on.
#[inline(always)]
fn woven<V: Woven, const R: usize>(mut vectors: [V; R]) -> [V; R] {
    let mut count = 1;
    while count < R {
        let mut next = vectors;
        for nth in 0..R / 2 {
            (next[2 * nth], next[2 * nth + 1]) = vectors[nth].weave(vectors[nth + R / 2]);
        }
        vectors = next;
        count *= 2;
    }
    vectors
}

/// The first pass of lines side by side.
///
/// # Safety
/// As [`Transform::run`].
#[inline(always)]
unsafe fn entering<S: Simd, T: Real, const R: usize>(simd: S, pass: &Pass<T>, ends: Ends<T>, to: Planes<T>) {
    let (lanes, groups) = (T::V::<S>::LANES, pass.groups);
    for group in 0..groups {
        // SAFETY: there are `R * groups` rows, and a plane holds a vector of each.
        unsafe {
            let mut numbers = nothing::<S, T, R>(simd);
            for (number, value) in numbers.iter_mut().enumerate() {
                let row = (group + number * groups) * ends.from.stride;
                *value = load::<S, T>(simd, ends.from.at.add(2 * row), ends.inverse);
            }
            let made = turned_alike::<S, T, R>(simd, butterfly::<T, T::V<S>, R>(numbers), pass, group);
            for (number, (re, im)) in made.into_iter().enumerate() {
                re.store(to.re.add((R * group + number) * lanes));
                im.store(to.im.add((R * group + number) * lanes));
            }
        }
    }
}

/// A pass that is neither the first nor the last: `width` numbers of a group are treated alike.
///
/// # Safety
/// As [`Transform::run`].
#[inline(always)]
unsafe fn amid<S: Simd, T: Real, const R: usize>(
    simd: S,
    pass: &Pass<T>,
    width: usize,
    from: Planes<T>,
    to: Planes<T>,
) {
    let (lanes, groups) = (T::V::<S>::LANES, pass.groups);
    for group in 0..groups {
        for first in (0..width).step_by(lanes) {
            // SAFETY: a plane has `R * groups * width` parts, and `width` is a multiple of lanes.
            unsafe {
                let mut numbers = nothing::<S, T, R>(simd);
                for (number, value) in numbers.iter_mut().enumerate() {
                    let at = first + width * (group + number * groups);
                    *value = (T::V::<S>::load(simd, from.re.add(at)), T::V::<S>::load(simd, from.im.add(at)));
                }
                let made = turned_alike::<S, T, R>(simd, butterfly::<T, T::V<S>, R>(numbers), pass, group);
                for (number, (re, im)) in made.into_iter().enumerate() {
                    let at = first + width * (R * group + number);
                    re.store(to.re.add(at));
                    im.store(to.im.add(at));
                }
            }
        }
    }
}

/// The last pass: one group, no twiddle factors, and parts side by side again.
///
/// # Safety
/// As [`Transform::run`].
#[inline(always)]
unsafe fn leaving<S: Simd, T: Real, const R: usize>(
    simd: S,
    width: usize,
    abreast: usize,
    from: Planes<T>,
    ends: Ends<T>,
) {
    let lanes = T::V::<S>::LANES;
    let scale = T::V::<S>::splat(simd, ends.scale);
    for first in (0..width).step_by(lanes) {
        // SAFETY: a plane has `R * width` parts; a line as many numbers, or rows a vector each.
        unsafe {
            let mut numbers = nothing::<S, T, R>(simd);
            for (number, value) in numbers.iter_mut().enumerate() {
                let at = first + width * number;
                *value = (T::V::<S>::load(simd, from.re.add(at)), T::V::<S>::load(simd, from.im.add(at)));
            }
            let made = butterfly::<T, T::V<S>, R>(numbers);
            for (number, (re, im)) in made.into_iter().enumerate() {
                let at = first + width * number;
                let at = if abreast == 1 { at } else { at / abreast * ends.to.stride };
                store::<S, T>(ends.to.at.add(2 * at), (re.mul(scale), im.mul(scale)), ends.inverse);
            }
        }
    }
}

/// Numbers times the twiddle factors of their group.
///
/// # Safety
/// There must be such a group.
#[inline(always)]
unsafe fn turned_alike<S: Simd, T: Real, const R: usize>(
    simd: S,
    made: Numbers<T::V<S>, R>,
    pass: &Pass<T>,
    group: usize,
) -> Numbers<T::V<S>, R> {
    let mut all = made;
    for number in 1..R {
        // SAFETY: `R - 1` numbers of two parts for every group.
        let (re, im) = unsafe {
            let at = pass.turns.as_ptr().add(2 * ((R - 1) * group + number - 1));
            (T::V::<S>::splat(simd, at.read()), T::V::<S>::splat(simd, at.add(1).read()))
        };
        all[number] = turned(made[number], re, im);
    }
    all
}

/// As many zeros: closures that fill arrays are not always compiled for the instruction set, which cost a factor of four.
#[inline(always)]
fn nothing<S: Simd, T: Real, const R: usize>(simd: S) -> Numbers<T::V<S>, R> {
    let zero = T::V::<S>::splat(simd, T::of(0.0));
    [(zero, zero); R]
}

/// A product of complex numbers.
#[inline(always)]
fn turned<T: Copy, V: FloatVector<T>>((re, im): (V, V), by_re: V, by_im: V) -> (V, V) {
    (re.fma(by_re, im.mul(by_im).neg()), re.fma(by_im, im.mul(by_re)))
}

#[inline(always)]
fn sum<T: Copy, V: Vector<T>>(a: (V, V), b: (V, V)) -> (V, V) {
    (a.0.add(b.0), a.1.add(b.1))
}

#[inline(always)]
fn difference<T: Copy, V: Vector<T>>(a: (V, V), b: (V, V)) -> (V, V) {
    (a.0.sub(b.0), a.1.sub(b.1))
}

/// A transform of four: `-i·(x + iy) = y - ix`.
#[inline(always)]
fn four<T: Copy, V: Vector<T>>([a, b, c, d]: Numbers<V, 4>) -> Numbers<V, 4> {
    let (evens, apart) = (sum(a, c), difference(a, c));
    let (odds, turned) = (sum(b, d), difference(b, d));
    [
        sum(evens, odds),
        (apart.0.add(turned.1), apart.1.sub(turned.0)),
        difference(evens, odds),
        (apart.0.sub(turned.1), apart.1.add(turned.0)),
    ]
}

/// A transform of as many numbers as the radix.
#[inline(always)]
fn butterfly<T: Real, V: FloatVector<T>, const R: usize>(numbers: Numbers<V, R>) -> Numbers<V, R> {
    let mut made = numbers;
    match R {
        2 => {
            made[0] = sum(numbers[0], numbers[1]);
            made[1] = difference(numbers[0], numbers[1]);
        }
        4 => {
            let all = four([numbers[0], numbers[1], numbers[2], numbers[3]]);
            for (made, number) in made.iter_mut().zip(all) {
                *made = number;
            }
        }
        _ => {
            let evens = four([numbers[0], numbers[2], numbers[4], numbers[6]]);
            let odds = four([numbers[1], numbers[3], numbers[5], numbers[7]]);
            let half = numbers[0].0.set(T::of(std::f64::consts::FRAC_1_SQRT_2));
            let odds = [
                odds[0],
                (odds[1].0.add(odds[1].1).mul(half), odds[1].1.sub(odds[1].0).mul(half)),
                (odds[2].1, odds[2].0.neg()),
                (odds[3].1.sub(odds[3].0).mul(half), odds[3].0.add(odds[3].1).mul(half).neg()),
            ];
            for nth in 0..4 {
                made[nth] = sum(evens[nth], odds[nth]);
                made[nth + 4] = difference(evens[nth], odds[nth]);
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_multiply_to_the_length_and_few_are_two() {
        for doublings in 2..24 {
            let len = 1usize << doublings;
            for radix in [4, 8] {
                for first in [None, Some(8)] {
                    if first.is_some() && len < 64 {
                        continue;
                    }
                    let all = radices(len, radix, first);
                    assert_eq!(all.iter().product::<usize>(), len, "{all:?}");
                    // Two passes there must be, also over four elements.
                    let twos = all.iter().filter(|radix| **radix == 2).count();
                    assert!(twos <= if len == 4 { 2 } else { 1 }, "{all:?}");
                    assert!(all.len() >= 2, "{all:?}");
                }
            }
        }
    }
}
