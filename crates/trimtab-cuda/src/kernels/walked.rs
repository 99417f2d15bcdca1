//! Kernels whose threads make elements of the result, each by itself: what they decline, what they count, and places by digits.

use super::elementwise::walk::WalkConfig;
use super::{CompilerMacros, MOST_ELEMENTS};
use crate::program::{Program, StepArgument, adapter};
use std::borrow::Cow;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Problem, Window, Work};

/// Why no kernel here takes a problem: there is nothing to make, or more than indices can say.
pub(super) fn declines(problem: &Problem, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    if problem.out_len() == 0 {
        return Some(Decline::because("there is nothing to compute"));
    }
    let lens = problem.input_lens();
    let most = lens.as_slice().iter().copied().fold(problem.out_len(), u64::max);
    let large = || Decline::from(format!("takes operands of up to {MOST_ELEMENTS} elements, not {most}"));
    (most > MOST_ELEMENTS).then(large)
}

/// Every operand read once and the result written, at so many operations an element.
pub(super) fn work(problem: &Problem, each: u64, config: WalkConfig) -> Work {
    Work {
        flops: Flops(problem.out_len().saturating_mul(each)),
        bytes: Bytes(problem.operand_bytes().0),
        launches: 1,
        threads: 1,
        lanes: 1,
        invocations: problem.out_len().div_ceil(config.each.max(1).into()),
        ..Work::default()
    }
}

/// Adds a launch over so many elements.
pub(super) fn push(
    program: &mut Program,
    config: WalkConfig,
    elements: u64,
    (source, entry): (impl Into<Cow<'static, str>>, &'static str),
    own: CompilerMacros,
    given: Vec<StepArgument>,
) -> Result<(), LaunchError> {
    let (mut macros, grid) = config.shape(elements)?;
    macros.extend(own);
    program.push(source, entry, macros, grid, [config.width, 1, 1], given)
}

/// The macro of elements that are moved as their bits, see `bits.cu`.
pub(super) fn of_bits(dtype: DType) -> CompilerMacros {
    vec![("BYTES", dtype.size().to_string())]
}

/// Sizes as parameters.
pub(super) fn sizes<const N: usize>(sizes: [u64; N]) -> impl Iterator<Item = StepArgument> {
    sizes.into_iter().map(|size| StepArgument::U32(size as u32))
}

/// A window as parameters, see `window.cu`.
pub(super) fn window(window: &Window) -> impl Iterator<Item = StepArgument> {
    let all =
        [window.size(), window.out(), window.kernel(), window.stride(), window.pad(), window.dilation()];
    all.into_iter().flatten().map(|size| StepArgument::U32(size as u32))
}

/// An axis of the result: its size, and how far apart neighbours along it are in some operands.
pub(super) type Digits = Vec<Vec<u64>>;

/// What stands in front of a source that finds places by digits, see `digits.cu`.
pub(super) fn with_digits(axes: &Digits, source: &str) -> String {
    let (rank, numbers) = (axes.len(), axes.first().map_or(1, Vec::len));
    let each = |of: &dyn Fn(usize) -> String| (0..rank).map(of).collect::<Vec<_>>().join(", ");
    let names = |axis: usize| (1..numbers).map(move |place| format!("d{axis}_{place}"));
    let takes = each(&|axis| {
        let all: Vec<String> = std::iter::once(format!("d{axis}")).chain(names(axis)).collect();
        all.iter().map(|name| format!("unsigned {name}")).collect::<Vec<_>>().join(", ")
    });
    let digits = each(&|axis| format!("{{d{axis}, {{{}}}}}", names(axis).collect::<Vec<_>>().join(", ")));
    let defined = format!(
        "#define RANK {rank}\n#define STEPS {}\n#define AXES {takes}\n#define DIGITS {{{digits}}}\n",
        numbers - 1
    );
    [&defined, include_str!("digits.cu"), source].concat()
}

/// The parameters of those digits.
pub(super) fn digits(axes: &Digits) -> impl Iterator<Item = StepArgument> + '_ {
    axes.iter().flatten().map(|size| StepArgument::U32(*size as u32))
}
