//! Convolutions element by element in `f64`: what sampled elements of a large one, and all of a small one, are compared with.

use crate::operands::Operands;
use trimtab_core::{Channels, Conv, MAX_SPACE, UnaryOp, Window};

/// Where an element of a window lies in the operand's space, if it is not padding.
pub(crate) fn inside(window: &Window, place: [usize; MAX_SPACE], of: [usize; MAX_SPACE]) -> Option<usize> {
    let (size, stride, pad, dilation) = (window.size(), window.stride(), window.pad(), window.dilation());
    let mut index = 0;
    for axis in 0..MAX_SPACE {
        let at = (place[axis] * stride[axis] + of[axis] * dilation[axis]).checked_sub(pad[axis])?;
        if at >= size[axis] {
            return None;
        }
        index = index * size[axis] + at;
    }
    Some(index)
}

/// A place in space by its number.
pub(crate) fn place_of(space: [usize; MAX_SPACE], nth: usize) -> [usize; MAX_SPACE] {
    [nth / (space[1] * space[2]), nth / space[2] % space[1], nth % space[2]]
}

/// A convolution whose elements are computed one at a time.
pub(crate) struct Elements<'a> {
    conv: &'a Conv,
    operands: &'a Operands,
}

impl<'a> Elements<'a> {
    pub(crate) fn new(conv: &'a Conv, operands: &'a Operands) -> Elements<'a> {
        Elements { conv, operands }
    }

    fn input(&self, operand: usize, at: usize) -> f64 {
        self.operands.inputs.get(operand).and_then(|data| data.at(at)).unwrap_or(f64::NAN)
    }

    /// The element at a position of the result, and the sum of the sizes of what it is made of.
    pub(crate) fn at(&self, index: usize) -> (f64, f64) {
        let p = self.conv;
        let (out, size, kernel) = (p.window.out(), p.window.size(), p.window.kernel());
        let count = |space: [usize; MAX_SPACE]| space.iter().product::<usize>();
        let (places, elements, taps) = (count(out), count(size), count(kernel));
        let (batch, output, place) = match p.channels {
            Channels::First => (index / places / p.outputs(), index / places % p.outputs(), index % places),
            Channels::Last => {
                (index / p.outputs() / places, index % p.outputs(), index / p.outputs() % places)
            }
        };
        let group = output / p.group_outputs().max(1);
        let (mut sum, mut sizes) = (0.0, 0.0);
        for tap in 0..taps {
            let Some(at) = inside(&p.window, place_of(out, place), place_of(kernel, tap)) else { continue };
            for channel in 0..p.group_inputs() {
                let input = group * p.group_inputs() + channel;
                let (operand, weight) = match p.channels {
                    Channels::First => (
                        (batch * p.inputs() + input) * elements + at,
                        (output * p.group_inputs() + channel) * taps + tap,
                    ),
                    Channels::Last => (
                        (batch * elements + at) * p.inputs() + input,
                        (output * taps + tap) * p.group_inputs() + channel,
                    ),
                };
                let term = self.input(0, operand) * self.input(1, weight);
                sum += term;
                sizes += term.abs();
            }
        }
        if p.bias {
            let bias = self.input(2, output);
            sum += bias;
            sizes += bias.abs();
        }
        (p.act.map_or(sum, |act| apply(act, sum)), sizes)
    }
}

/// What may end a convolution.
fn apply(act: UnaryOp, x: f64) -> f64 {
    match act {
        UnaryOp::Relu if x.is_nan() => x,
        UnaryOp::Relu => x.max(0.0),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x * (1.0 + inner.tanh()) / 2.0
        }
        _ => f64::NAN,
    }
}
