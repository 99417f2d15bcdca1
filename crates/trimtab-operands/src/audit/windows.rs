//! Audits of what moves over space: some places of the result, each with the elements its window sees, as a batch of their own.

use super::{Audit, Share};
use crate::element::Element;
use crate::operands::Operands;
use crate::slice::Slice;
use crate::windows::{inside, place_of};
use trimtab_core::{Channels, Conv, MAX_SPACE, Moves, Pool, PoolOp, Problem, RandomNumbers, Window};

/// Places that are looked at, at most.
const MOST_PLACES: usize = 16;
/// Channels of the result that are.
const MOST_CHANNELS: usize = 8;

/// The window itself as an operand's space, in the dimensions there are.
fn alone(window: &Window) -> (Vec<u64>, Vec<u64>) {
    let kernel: Vec<u64> =
        window.kernel()[MAX_SPACE - window.rank()..].iter().map(|&size| size as u64).collect();
    (kernel.clone(), kernel)
}

/// A batch and channels before a space.
fn shape(batch: usize, channels: usize, space: &[u64]) -> Vec<u64> {
    [&[batch as u64, channels as u64], space].concat()
}

/// Where an element lies among a batch of channels of a space.
fn index(channels: Channels, batch: usize, channel: usize, count: usize, space: usize, at: usize) -> usize {
    match channels {
        Channels::First => (batch * count + channel) * space + at,
        Channels::Last => (batch * space + at) * count + channel,
    }
}

fn product(space: [usize; MAX_SPACE]) -> usize {
    space.iter().product()
}

/// Some of so many, one after the other from a random one on, around the end.
fn some(all: usize, most: usize, random: &mut RandomNumbers) -> Vec<usize> {
    let first = random.below(all.max(1));
    (0..all.min(most)).map(|nth| (first + nth) % all).collect()
}

pub(super) fn conv(
    p: &Conv,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let depth = (p.depth() as usize).max(1);
    let (taps, elements, places) =
        (product(p.window.kernel()), product(p.window.size()), product(p.window.out()));
    if places == 0 || p.batch() == 0 || p.outputs() == 0 {
        return None;
    }
    // One group, and of its channels some.
    let group = random.below(p.groups());
    let outputs = some(p.group_outputs(), MOST_CHANNELS.min(most.taken / (2 * depth)), random);
    let count = MOST_PLACES.min(most.taken / (2 * depth)).min(most.computed / (depth * outputs.len().max(1)));
    if outputs.is_empty() || count == 0 {
        return None;
    }
    let spots: Vec<(usize, usize)> =
        (0..count).map(|_| (random.below(p.batch()), random.below(places))).collect();
    let (space, kernel) = alone(&p.window);
    let (operand, weights) =
        (shape(count, p.group_inputs(), &space), shape(outputs.len(), p.group_inputs(), &kernel));
    let small = Conv::new(p.dtype, Channels::First, &operand, &weights, Moves::default(), 1).ok()?;
    let small = small.ending(p.bias, p.act).ok()?;
    fn take<T: Element>(from: &Slice<'_>, at: Option<usize>) -> Option<T> {
        match at {
            Some(at) => T::slice(*from)?.get(at).copied(),
            // Padding.
            None => Some(T::default()),
        }
    }
    let part = crate::by_dtype!(p.dtype, T => {
        let (mut seen, mut found) = (Vec::new(), Vec::new());
        for &(batch, place) in &spots {
            for channel in 0..p.group_inputs() {
                let channel = group * p.group_inputs() + channel;
                for tap in 0..taps {
                    let at = inside(&p.window, place_of(p.window.out(), place), place_of(p.window.kernel(), tap));
                    let at = at.map(|at| index(p.channels, batch, channel, p.inputs(), elements, at));
                    seen.push(take::<T>(inputs.first()?, at)?);
                }
            }
            for &output in &outputs {
                let output = group * p.group_outputs() + output;
                found.push(take::<T>(out, Some(index(p.channels, batch, output, p.outputs(), places, place)))?);
            }
        }
        let mut kernels = Vec::new();
        for &output in &outputs {
            let output = group * p.group_outputs() + output;
            for channel in 0..p.group_inputs() {
                for tap in 0..taps {
                    let at = index(p.channels, output, channel, p.group_inputs(), taps, tap);
                    kernels.push(take::<T>(inputs.get(1)?, Some(at))?);
                }
            }
        }
        let mut all = vec![T::own(seen), T::own(kernels)];
        if p.bias {
            let bias = outputs.iter().map(|output| take::<T>(inputs.get(2)?, Some(group * p.group_outputs() + output)));
            all.push(T::own(bias.collect::<Option<Vec<T>>>()?));
        }
        Operands { inputs: all, out: T::own(found) }
    });
    Some(Audit { problem: Problem::from(small), part, bins: vec![] })
}

pub(super) fn pool(
    p: &Pool,
    inputs: &[Slice<'_>],
    out: &Slice<'_>,
    most: Share,
    random: &mut RandomNumbers,
) -> Option<Audit> {
    let (taps, elements, places) =
        (product(p.window.kernel()), product(p.window.size()), product(p.window.out()));
    if places == 0 || p.batch() == 0 || p.count() == 0 {
        return None;
    }
    let channels = some(p.count(), MOST_CHANNELS, random);
    let count = MOST_PLACES.min(most.taken / (2 * taps * channels.len()));
    let seen_at = |place: usize, tap: usize| {
        inside(&p.window, place_of(p.window.out(), place), place_of(p.window.kernel(), tap))
    };
    let drawn: Vec<(usize, usize)> =
        (0..count).map(|_| (random.below(p.batch()), random.below(places))).collect();
    // A mean leaves padding out: only windows that see none can stand alone.
    let whole = |place: usize| p.op == PoolOp::Max || (0..taps).all(|tap| seen_at(place, tap).is_some());
    let spots: Vec<(usize, usize)> = drawn.into_iter().filter(|&(_, place)| whole(place)).collect();
    if spots.is_empty() {
        return None;
    }
    let (space, window) = alone(&p.window);
    let operand = shape(spots.len(), channels.len(), &space);
    let small = Pool::new(p.op, p.dtype, Channels::First, &operand, &window, Moves::default()).ok()?;
    fn take<T: Element>(from: &Slice<'_>, at: usize) -> Option<T> {
        T::slice(*from)?.get(at).copied()
    }
    let part = crate::by_dtype!(p.dtype, T => {
        let (mut seen, mut found): (Vec<T>, Vec<T>) = (Vec::new(), Vec::new());
        for &(batch, place) in &spots {
            for &channel in &channels {
                let of = |at: usize| index(p.channels, batch, channel, p.count(), elements, at);
                // Padding is as if the first that is none stood there again: the largest stays the same.
                let first = (0..taps).find_map(|tap| seen_at(place, tap))?;
                for tap in 0..taps {
                    seen.push(take::<T>(inputs.first()?, of(seen_at(place, tap).unwrap_or(first)))?);
                }
                found.push(take::<T>(out, index(p.channels, batch, channel, p.count(), places, place))?);
            }
        }
        Operands { inputs: vec![T::own(seen)], out: T::own(found) }
    });
    Some(Audit { problem: Problem::from(small), part, bins: vec![] })
}
