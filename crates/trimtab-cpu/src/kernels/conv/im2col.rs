//! Windows written out as columns, some places at a time, and multiplied with the weights.

use super::ending::{Bias, end, end_places};
use super::pointwise::{Strided, multiplied};
use super::{Float, Given, along, count, given, place_of, threads, work};
use crate::args::{Args, Cpu, Launched};
use crate::disjoint::Disjoint;
use crate::kernels::room::{MOST_ROOM, with_room};
use crate::simd::Level;
use trimtab_core::{Channels, Conv, Decline, DeviceFacts, LaunchError, Variant, Work};

trimtab_core::config! {
    /// Threads, and places of the result whose windows are written out at once.
    pub struct Im2ColConfig { threads, places }
}

/// Places whose windows are written out at once.
const PLACES: [u32; 3] = [512, 128, 2048];

/// See the module.
#[derive(Debug)]
pub struct Im2ColKernel {
    pub(super) level: Level,
}

impl Im2ColKernel {
    fn room(problem: &Conv, places: u32) -> u64 {
        problem.depth().saturating_mul(u64::from(places).min(count(problem.window.out()) as u64))
    }
}

impl Variant<Cpu> for Im2ColKernel {
    type Problem = Conv;
    type Config = Im2ColConfig;

    identity!("cpu.conv.im2col", Library);

    fn declines(&self, problem: &Conv, _: &DeviceFacts) -> Option<Decline> {
        let depth = problem.depth();
        let deep = || Decline::from(format!("windows of {depth} elements do not fit into the room there is"));
        crate::kernels::not_of_type(problem.dtype)
            .or_else(|| (Im2ColKernel::room(problem, PLACES[1]) > MOST_ROOM as u64).then(deep))
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<Im2ColConfig> {
        let all = count(problem.window.out()) as u64;
        let fits = |places: &u32| {
            Im2ColKernel::room(problem, *places) <= MOST_ROOM as u64
                && (u64::from(*places) < 4 * all || *places == PLACES[1])
        };
        let with = |threads: u32| {
            PLACES.into_iter().filter(fits).map(move |places| Im2ColConfig { threads, places })
        };
        threads(problem, device).into_iter().flat_map(with).collect()
    }

    fn work(&self, problem: &Conv, config: Im2ColConfig, device: &DeviceFacts) -> Work {
        let places = count(problem.window.out()) as u64;
        // Columns are written and read once for each group.
        let columns = (problem.batch() as u64).saturating_mul(places).saturating_mul(problem.depth());
        let moved = columns.saturating_mul(3).saturating_mul(problem.groups() as u64);
        let room = Im2ColKernel::room(problem, config.places).saturating_mul(config.threads.into());
        let product = [problem.group_outputs() as u64, places.min(config.places.into()), problem.depth()];
        multiplied(work(problem, moved, room, config.threads), device, product, problem.dtype)
    }

    fn launch(&self, problem: &Conv, config: Im2ColConfig, args: Args<'_>) -> Launched {
        if config.places == 0 || Im2ColKernel::room(problem, config.places) > MOST_ROOM as u64 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        by_float!(problem, T => {
            products(problem, self.level, config, given::<T>(problem, args)?);
            Ok(())
        })
    }
}

fn products<T: Float>(p: &Conv, level: Level, config: Im2ColConfig, given: Given<'_, T>) {
    let Given { operand, weights, bias, out, pool } = given;
    let (places, depth, outputs) = (count(p.window.out()), p.depth() as usize, p.group_outputs());
    if places == 0 || out.is_empty() {
        return;
    }
    let each = (config.places as usize).min(places);
    let tiles = places.div_ceil(each);
    let whole = Disjoint::new(out);
    pool.run(config.threads, p.batch() * p.groups() * tiles, &|task| {
        let (batch, rest) = (task / (p.groups() * tiles), task % (p.groups() * tiles));
        let (group, first) = (rest / tiles, rest % tiles * each);
        let count = each.min(places - first);
        let weights = &weights[group * outputs * depth..(group + 1) * outputs * depth];
        let output = group * outputs;
        with_room(depth * count, |columns: &mut [T]| match p.channels {
            Channels::First => {
                write_rows(p, operand, (batch, group, first), count, columns);
                let start = (batch * p.outputs() + output) * places + first;
                let product = Strided {
                    sizes: [outputs, count, depth],
                    lhs: (weights.as_ptr(), depth, 1),
                    rhs: (columns.as_ptr(), count, 1),
                    out: (whole.as_mut_ptr().wrapping_add(start), places, 1),
                };
                // SAFETY: the columns are `depth` rows of `count`; every task has its own channels and places of the result.
                unsafe { product.multiply() };
                for channel in 0..outputs {
                    let start = start + channel * places;
                    // SAFETY: every task has its own channels and places.
                    let row = unsafe { whole.part(start..start + count) };
                    end(p, level, bias.map_or(Bias::None, |bias| Bias::One(bias[output + channel])), row);
                }
            }
            Channels::Last => {
                write_windows(p, operand, (batch, group, first), count, columns);
                let start = (batch * places + first) * p.outputs() + output;
                let product = Strided {
                    sizes: [count, outputs, depth],
                    lhs: (columns.as_ptr(), depth, 1),
                    rhs: (weights.as_ptr(), 1, depth),
                    out: (whole.as_mut_ptr().wrapping_add(start), p.outputs(), 1),
                };
                // SAFETY: the windows are `count` rows of `depth`; every task has its own places and channels of the result.
                unsafe { product.multiply() };
                let (channels, first) = (output..output + outputs, batch * places + first);
                // SAFETY: every task has its own places and channels.
                unsafe { end_places(p, level, bias, &whole, channels, first..first + count) };
            }
        });
    });
}

/// Writes a row for every channel and element of the window, with a column for each place.
fn write_rows<T: Float>(
    p: &Conv,
    operand: &[T],
    (batch, group, first): (usize, usize, usize),
    columns: usize,
    to: &mut [T],
) {
    let (window, out, size, kernel) = (&p.window, p.window.out(), p.window.size(), p.window.kernel());
    let (stride, pad, dilation, taps) = (window.stride(), window.pad(), window.dilation(), count(kernel));
    for (nth, row) in to.chunks_mut(columns).enumerate() {
        let (channel, tap) = (group * p.group_inputs() + nth / taps, place_of(kernel, nth % taps));
        let plane = &operand[(batch * p.inputs() + channel) * count(size)..][..count(size)];
        let mut done = 0;
        // A run of places in one row of the result at a time.
        while done < columns {
            let [z, y, x] = place_of(out, first + done);
            let run = (out[2] - x).min(columns - done);
            let to = &mut row[done..done + run];
            let line = along(z, stride[0], tap[0], dilation[0], pad[0], size[0]).zip(along(
                y,
                stride[1],
                tap[1],
                dilation[1],
                pad[1],
                size[1],
            ));
            match line {
                None => to.fill(T::ZERO),
                Some((z, y)) => {
                    let line = &plane[(z * size[1] + y) * size[2]..][..size[2]];
                    copy_line(line, to, x * stride[2] + tap[2] * dilation[2], pad[2], stride[2]);
                }
            }
            done += run;
        }
    }
}

/// Copies elements `step` apart from `start - pad` on; what lies outside is zero.
pub(super) fn copy_line<T: Float>(line: &[T], to: &mut [T], start: usize, pad: usize, step: usize) {
    // Places before the line, and the last one within.
    let before = pad.saturating_sub(start).div_ceil(step).min(to.len());
    let within = (line.len() + pad).saturating_sub(start).div_ceil(step).clamp(before, to.len());
    to[..before].fill(T::ZERO);
    to[within..].fill(T::ZERO);
    if before == within {
        return;
    }
    let from = start + before * step - pad;
    if step == 1 {
        to[before..within].copy_from_slice(&line[from..from + within - before]);
    } else {
        let elements = line[from..].iter().step_by(step);
        to[before..within].iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
    }
}

/// Writes the window of every place, channels innermost.
fn write_windows<T: Float>(
    p: &Conv,
    operand: &[T],
    (batch, group, first): (usize, usize, usize),
    places: usize,
    to: &mut [T],
) {
    let (window, out, size, kernel) = (&p.window, p.window.out(), p.window.size(), p.window.kernel());
    let (stride, pad, dilation) = (window.stride(), window.pad(), window.dilation());
    let (depth, channels) = (p.depth() as usize, p.group_inputs());
    for (place, row) in (first..first + places).zip(to.chunks_mut(depth.max(1))) {
        let place = place_of(out, place);
        for (tap, to) in row.chunks_mut(channels.max(1)).enumerate() {
            let of = place_of(kernel, tap);
            let axis = |axis: usize| {
                along(place[axis], stride[axis], of[axis], dilation[axis], pad[axis], size[axis])
            };
            match (axis(0), axis(1), axis(2)) {
                (Some(z), Some(y), Some(x)) => {
                    let at = (batch * size[0] + z) * size[1] * size[2] + y * size[2] + x;
                    let start = at * p.inputs() + group * channels;
                    to.copy_from_slice(&operand[start..start + channels]);
                }
                _ => to.fill(T::ZERO),
            }
        }
    }
}
