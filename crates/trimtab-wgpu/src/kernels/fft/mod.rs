//! Fourier transforms on a GPU, of powers of two: whole lines in workgroup memory, or pass by pass over all of them.
//!
//! Twiddle factors are computed where they are needed, each by itself. Real numbers are half as many complex ones, whose spectrum is
//! untangled; the axes before the last follow, lines apart. Every step reads what the one before it wrote.

mod local;
mod passes;

use super::lines::fits;
use super::{Kernels, adapter_with, in_a_row, over, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Needs, Writer, spread_groups};
use trimtab_core::{
    AdapterFacts, Bytes, DType, Decline, DeviceFacts, Fft, FftOp, Flops, LaunchError, Work, erase,
};

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(local::LocalKernel), erase(passes::PassesKernel)]
}

/// The longest line: parts of a turn are counted exactly in 24 bits.
const LONGEST: u64 = 1 << 24;
/// Radices of passes.
const RADICES: [u32; 3] = [8, 4, 2];

/// Lines of one axis: how many numbers each, how far these are apart, and how many there are of all lines.
#[derive(Clone, Copy, Debug)]
struct Along {
    len: u64,
    inner: u64,
    numbers: u64,
}

/// What is done one after the other, whoever does it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Lines are transformed.
    Lines(Along),
    /// Spectra of half as many complex numbers become those of real ones: rows, and numbers of each before.
    Untangle { rows: u64, half: u64 },
    /// And back.
    Tangle { rows: u64, half: u64 },
}

/// What is to be done.
fn stages(problem: &Fft) -> Vec<Stage> {
    let (sizes, bins, last) = (problem.sizes(), problem.bins(), problem.last());
    let spectrum = problem.batch * problem.spectrum();
    let rows = spectrum / bins.max(1);
    let before = (0..sizes.len() - 1).rev().map(|axis| {
        let inner = sizes[axis + 1..sizes.len() - 1].iter().product::<u64>() * bins;
        Stage::Lines(Along { len: sizes[axis], inner, numbers: spectrum })
    });
    let row = |len: u64| (len > 1).then_some(Stage::Lines(Along { len, inner: 1, numbers: rows * len }));
    match problem.op {
        FftOp::Forward | FftOp::Inverse => row(last).into_iter().chain(before).collect(),
        FftOp::Real => {
            let untangle = Stage::Untangle { rows, half: last / 2 };
            row(last / 2).into_iter().chain([untangle]).chain(before).collect()
        }
        FftOp::InverseReal => {
            let tangle = Stage::Tangle { rows, half: last / 2 };
            before.chain([tangle]).chain(row(last / 2)).collect()
        }
    }
}

/// Numbers of the longest line.
fn longest(problem: &Fft) -> u64 {
    let len = |stage: Stage| if let Stage::Lines(axis) = stage { axis.len } else { 1 };
    stages(problem).into_iter().map(len).max().unwrap_or(1)
}

/// What the adapter told, or why no kernel here takes a problem.
fn admits<'a>(problem: &Fft, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    if !matches!(problem.dtype, DType::F32 | DType::Complex64) {
        return Err(Decline::from(format!("transforms pairs of f32, not {}", problem.dtype)));
    }
    let adapter = adapter_with(Needs::default(), device)?;
    let len = problem.input_len().max(problem.out_len());
    if len == 0 {
        return Err(Decline::because("there are no elements"));
    }
    let other = |size: &&u64| !size.is_power_of_two() || **size > LONGEST;
    if let Some(size) = problem.sizes().iter().find(other) {
        return Err(Decline::from(format!("takes powers of two up to {LONGEST}, this is {size}")));
    }
    if problem.last() < 2 {
        return Err(Decline::because("a single number is its own transform"));
    }
    let binding = adapter.max_binding.0.min(adapter.max_buffer.0);
    let sides = [("the operand", problem.input_len()), ("the result", problem.out_len())];
    let decline = over(sides, DType::Complex64, binding, "bindings").or_else(|| {
        (len > 1 << 28).then(|| Decline::from(format!("takes up to 268435456 numbers, this has {len}")))
    });
    decline.map_or(Ok(adapter), Err)
}

/// A dispatch of lines, without bindings, for each of those a kernel needs.
trait Transforms {
    /// Invocations of a workgroup.
    fn workgroup(&self) -> u32;
    /// Whether the adapter takes lines so.
    fn takes(&self, axis: Along, adapter: &AdapterFacts) -> bool;
    /// How many dispatches it needs.
    fn dispatches(&self, axis: Along) -> u32;
    /// Barriers of all workgroups.
    fn barriers(&self, axis: Along) -> u64;
    /// Those dispatches.
    fn lines(&self, axis: Along, direction: Direction, adapter: &AdapterFacts) -> Option<Vec<Dispatch>>;
}

/// Which way, and what the result is multiplied with at the end.
#[derive(Clone, Copy, Debug)]
struct Direction {
    inverse: bool,
    scale: f32,
}

/// Whether all of a problem can be done so.
fn is_legal(by: &impl Transforms, problem: &Fft, adapter: &AdapterFacts) -> bool {
    stages(problem).into_iter().all(|stage| match stage {
        Stage::Lines(axis) => by.takes(axis, adapter),
        Stage::Untangle { rows, half } | Stage::Tangle { rows, half } => {
            fits(by.workgroup(), 0, (rows * (half + 1)).div_ceil(by.workgroup().max(1).into()), adapter)
        }
    })
}

/// A dispatch of an invocation a number.
fn each(text: &str, workgroup: u32, count: u64, words: [u32; 7], adapter: &AdapterFacts) -> Option<Dispatch> {
    let groups = spread_groups(count.div_ceil(workgroup.into()), adapter)?;
    let text = format!("{}\n{}", include_str!("numbers.wgsl"), with_main(text));
    let params = [count as u32].into_iter().chain(words).collect();
    Some(in_a_row(text.into(), workgroup, groups, Needs::default(), vec![], params))
}

/// Writes everything a problem needs.
fn write(by: &impl Transforms, problem: &Fft, args: &mut Writer<'_>) -> Result<(), LaunchError> {
    let large = || LaunchError::Kernel("the adapter does not take as many workgroups".to_string());
    let stages = stages(problem);
    let mut steps: Vec<Dispatch> = Vec::new();
    // The last stage of lines scales.
    let last = stages.iter().rposition(|stage| matches!(stage, Stage::Lines(_)));
    let whole = if problem.op.is_inverse() { 1.0 / problem.points().max(1) as f32 } else { 1.0 };
    for (nth, stage) in stages.iter().enumerate() {
        let scale = if Some(nth) == last { whole } else { 1.0 };
        let direction = Direction { inverse: problem.op.is_inverse(), scale };
        let workgroup = by.workgroup();
        match *stage {
            Stage::Lines(axis) => steps.extend(by.lines(axis, direction, args.adapter).ok_or_else(large)?),
            Stage::Untangle { rows, half } => {
                let words = [half as u32, 0, 0, (2 * half).ilog2(), 0, 0, 0];
                let text = include_str!("untangle.wgsl");
                steps.push(each(text, workgroup, rows * (half + 1), words, args.adapter).ok_or_else(large)?);
            }
            Stage::Tangle { rows, half } => {
                // Where no lines follow or went before, nobody else scales.
                let scale = if last.is_none() { whole } else { 1.0 };
                let words = [half as u32, 0, 0, (2 * half).ilog2(), 0, scale.to_bits(), 0];
                let text = include_str!("tangle.wgsl");
                steps.push(each(text, workgroup, rows * half, words, args.adapter).ok_or_else(large)?);
            }
        }
    }
    let bytes = problem.input_len().max(problem.out_len()).saturating_mul(DType::Complex64.size());
    let count = steps.len();
    let places: Vec<BindTarget> =
        (0..count.saturating_sub(1).min(2)).map(|_| args.program.scratch(bytes)).collect();
    let mut from = BindTarget::Input(0);
    for (nth, mut step) in steps.into_iter().enumerate() {
        let to = if nth + 1 == count { BindTarget::Out } else { places[nth % 2] };
        step.bindings = vec![Binding::read(from), Binding::write(to)];
        args.program.push(step);
        from = to;
    }
    Ok(())
}

/// What is done in all.
fn work(by: &impl Transforms, problem: &Fft) -> Work {
    let stages = stages(problem);
    let axes =
        || stages.iter().filter_map(|stage| if let Stage::Lines(axis) = stage { Some(*axis) } else { None });
    let launches: u32 =
        axes().map(|axis| by.dispatches(axis)).sum::<u32>() + (stages.len() - axes().count()) as u32;
    let numbers = problem.batch.saturating_mul(problem.spectrum());
    Work {
        flops: Flops(problem.flops()),
        bytes: Bytes(numbers.saturating_mul(16).saturating_mul(launches.into())),
        scratch: Bytes(numbers.saturating_mul(8).saturating_mul(launches.saturating_sub(1).min(2).into())),
        launches,
        threads: 1,
        lanes: 1,
        barriers: axes().map(|axis| by.barriers(axis)).sum(),
        invocations: numbers.div_ceil(4),
        ..Work::default()
    }
}
