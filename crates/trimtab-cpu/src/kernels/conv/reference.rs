//! Convolution element by element, added up in `f64`: the yardstick of accuracy.

use super::{along, count, given, place_of};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Channels, Conv, Flops, UnaryOp};
use trimtab_operands::Element;

reference!("cpu.conv.reference", Conv);

fn counted(problem: &Conv) -> (Flops, Bytes) {
    let elements = problem.out_len().saturating_mul(problem.depth().saturating_mul(2));
    (Flops(problem.flops()), Bytes(elements.saturating_mul(problem.dtype.size())))
}

fn run<T: Element>(problem: &Conv, args: Args<'_>) -> Launched {
    let p = problem;
    let given = given::<T>(p, args)?;
    let (out, size, kernel) = (p.window.out(), p.window.size(), p.window.kernel());
    let (stride, pad, dilation) = (p.window.stride(), p.window.pad(), p.window.dilation());
    let (places, elements, taps) = (count(out), count(size), count(kernel));
    for (index, result) in given.out.iter_mut().enumerate() {
        let (batch, output, place) = match p.channels {
            Channels::First => (index / places / p.outputs(), index / places % p.outputs(), index % places),
            Channels::Last => {
                (index / p.outputs() / places, index % p.outputs(), index / p.outputs() % places)
            }
        };
        let (place, group) = (place_of(out, place), output / p.group_outputs().max(1));
        let mut sum = 0.0;
        for tap in 0..taps {
            let of = place_of(kernel, tap);
            let axis = |axis: usize| {
                along(place[axis], stride[axis], of[axis], dilation[axis], pad[axis], size[axis])
            };
            let (Some(z), Some(y), Some(x)) = (axis(0), axis(1), axis(2)) else { continue };
            let at = (z * size[1] + y) * size[2] + x;
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
                sum += given.operand[operand].to_f64() * given.weights[weight].to_f64();
            }
        }
        sum += given.bias.map_or(0.0, |bias| bias[output].to_f64());
        *result = T::from_f64(match p.act {
            None => sum,
            Some(UnaryOp::Relu) if sum.is_nan() => sum,
            Some(UnaryOp::Relu) => sum.max(0.0),
            Some(UnaryOp::Tanh) => sum.tanh(),
            Some(UnaryOp::Sigmoid) => 1.0 / (1.0 + (-sum).exp()),
            Some(_) => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (sum + 0.044715 * sum * sum * sum);
                sum * (1.0 + inner.tanh()) / 2.0
            }
        });
    }
    Ok(())
}
