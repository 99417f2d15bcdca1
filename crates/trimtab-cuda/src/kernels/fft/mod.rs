//! Fourier transforms of powers of two, of f32 and f64: whole lines in shared memory, or pass by pass over all of them.
//!
//! Twiddle factors are computed where they are needed, each by itself. Real numbers are half as many complex ones, whose spectrum is untangled; the axes before
//! the last follow, lines apart. Every step reads what the one before it wrote.

mod local;
mod passes;

use super::{CompilerMacros, CudaKernels, walked};
use crate::program::{MAX_GRID, Program, StepArgument};
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Fft, FftOp, Flops, LaunchError, Work, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
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

/// Lines of all stages.
fn all_lines(problem: &Fft) -> Vec<Along> {
    let along = |stage: &Stage| match stage {
        Stage::Lines(axis) => Some(*axis),
        _ => None,
    };
    stages(problem).iter().filter_map(along).collect()
}

/// Why no kernel here takes a problem.
fn declines(problem: &Fft, device: &DeviceFacts) -> Option<Decline> {
    if let Some(decline) = walked::declines(&(*problem).into(), device) {
        return Some(decline);
    }
    let other = |size: &&u64| !size.is_power_of_two() || **size > LONGEST;
    if let Some(size) = problem.sizes().iter().find(other) {
        return Some(Decline::from(format!("takes powers of two up to {LONGEST}, this is {size}")));
    }
    (problem.last() < 2).then_some(Decline::because("a single number is its own transform"))
}

/// Whether numbers are pairs of doubles.
fn is_wide(problem: &Fft) -> bool {
    matches!(problem.dtype, DType::F64 | DType::Complex128)
}

/// Bytes of a complex number.
fn number_bytes(problem: &Fft) -> u64 {
    if is_wide(problem) { 16 } else { 8 }
}

/// A launch without what it reads and writes.
struct Step {
    source: String,
    entry: &'static str,
    macros: CompilerMacros,
    blocks: u64,
    width: u32,
    /// Behind both addresses.
    given: Vec<StepArgument>,
}

/// How lines are transformed.
trait Transforms {
    /// Threads of a block.
    fn width(&self) -> u32;
    /// The launches for lines, each with what it multiplies by at its end.
    fn lines(&self, problem: &Fft, axis: Along, scale: f64) -> Vec<Step>;
    /// How many those are.
    fn launches(&self, axis: Along) -> u32;
    /// Barriers of all blocks.
    fn barriers(&self, axis: Along) -> u64;
}

/// A number of the problem's type as a parameter.
fn real(problem: &Fft, value: f64) -> StepArgument {
    if is_wide(problem) { StepArgument::F64(value) } else { StepArgument::F32(value as f32) }
}

/// The macros all sources have.
fn macros(problem: &Fft, own: &[(&'static str, u64)]) -> CompilerMacros {
    let flags = [("NUMBER", !is_wide(problem)), ("INVERSE", problem.op.is_inverse())];
    let mut macros: CompilerMacros = flags.map(|(name, is)| (name, u32::from(is).to_string())).to_vec();
    macros.extend(own.iter().map(|(name, value)| (*name, value.to_string())));
    macros
}

/// A source behind numbers.
fn source(own: &str) -> String {
    [include_str!("numbers.cu"), own].concat()
}

/// A launch of a thread a number.
fn each(
    problem: &Fft,
    (text, entry): (&str, &'static str),
    width: u32,
    [count, half]: [u64; 2],
    more: Option<StepArgument>,
) -> Step {
    let macros = macros(problem, &[("WIDTH", width.into())]);
    let blocks = count.div_ceil(width.max(1).into());
    let given = walked::sizes([count, half]).chain(more).collect();
    Step { source: source(text), entry, macros, blocks, width, given }
}

/// Everything a problem needs, in order.
fn steps(by: &impl Transforms, problem: &Fft) -> Vec<Step> {
    let stages = stages(problem);
    // The last stage of lines scales.
    let last = stages.iter().rposition(|stage| matches!(stage, Stage::Lines(_)));
    let whole = if problem.op.is_inverse() { 1.0 / problem.points().max(1) as f64 } else { 1.0 };
    let mut steps = Vec::new();
    for (nth, stage) in stages.into_iter().enumerate() {
        match stage {
            Stage::Lines(axis) => {
                let scale = if Some(nth) == last { whole } else { 1.0 };
                steps.extend(by.lines(problem, axis, scale));
            }
            Stage::Untangle { rows, half } => {
                let text = (include_str!("untangle.cu"), "fft_untangle");
                steps.push(each(problem, text, by.width(), [rows * (half + 1), half], None));
            }
            Stage::Tangle { rows, half } => {
                // Where no lines follow or went before, nobody else scales.
                let scale = real(problem, if last.is_none() { whole } else { 1.0 });
                let text = (include_str!("tangle.cu"), "fft_tangle");
                steps.push(each(problem, text, by.width(), [rows * half, half], Some(scale)));
            }
        }
    }
    steps
}

/// Bytes of what is between two steps: the larger of the spectrum and the rest.
fn between(problem: &Fft) -> u64 {
    let most =
        problem.input_len().max(problem.out_len()).max(problem.batch.saturating_mul(problem.spectrum()));
    most.saturating_mul(number_bytes(problem)).next_multiple_of(256)
}

/// Bytes of memory: what is between steps, twice where there are several.
fn scratch(launches: u64, problem: &Fft) -> u64 {
    between(problem).saturating_mul(launches.saturating_sub(1).min(2))
}

/// Writes everything a problem needs: each step reads what the one before it wrote.
fn write(by: &impl Transforms, problem: &Fft, program: &mut Program) -> Result<(), LaunchError> {
    let steps = steps(by, problem);
    program.scratch = scratch(steps.len() as u64, problem);
    let last = steps.len().saturating_sub(1);
    let mut from = StepArgument::Input(0);
    for (nth, Step { source, entry, macros, blocks, width, given }) in steps.into_iter().enumerate() {
        let to = match nth {
            nth if nth == last => StepArgument::Out,
            nth if nth % 2 == 0 => StepArgument::Scratch,
            _ => StepArgument::ScratchAt(between(problem)),
        };
        let given = [from, to].into_iter().chain(given).collect();
        program.push(source, entry, macros, [blocks, 1, 1], [width, 1, 1], given)?;
        from = to;
    }
    Ok(())
}

/// Whether all launches fit a grid.
fn has_grid(by: &impl Transforms, problem: &Fft) -> bool {
    steps(by, problem).iter().all(|step| (1..=MAX_GRID[0]).contains(&step.blocks))
}

fn work(by: &impl Transforms, problem: &Fft) -> Work {
    let lines = all_lines(problem);
    let others = stages(problem).len() as u64 - lines.len() as u64;
    let launches = lines.iter().map(|axis| u64::from(by.launches(*axis))).sum::<u64>() + others;
    let numbers = problem.batch.saturating_mul(problem.spectrum());
    let scratch = scratch(launches, problem);
    Work {
        // A twiddle factor is two functions.
        flops: Flops(problem.flops().saturating_mul(3)),
        bytes: Bytes(numbers.saturating_mul(2 * number_bytes(problem)).saturating_mul(launches)),
        scratch: Bytes(scratch),
        launches: launches as u32,
        threads: 1,
        lanes: 1,
        invocations: numbers.div_ceil(4),
        barriers: lines.iter().map(|axis| by.barriers(*axis)).fold(0, u64::saturating_add),
        ..Work::default()
    }
}
