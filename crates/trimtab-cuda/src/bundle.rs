//! PTX that is compiled already: some settings of the most common kernels, for machines with a driver and no NVRTC.
//!
//! `cargo xtask cuda --bundle` writes it with NVRTC 11.8, for sm_75 and up: drivers from CUDA 11.8 on take its text. Sizes are parameters of our
//! kernels, so that an entry serves every shape.

use crate::build_id::BuildId;
use crate::driver::DeviceInfo;
use crate::kernels;
use crate::program::{LaunchStep, Program};
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use trimtab_core::{BinaryOp, Problem, UnaryOp};

/// The oldest architecture the bundle is for.
pub const BUNDLED_FOR: u32 = 75;

/// Problems whose kernels are in the bundle, each at its first setting. Sizes do not matter beyond what shapes the code.
const PROBLEMS: [&str; 25] = [
    "matmul:f32:64x64x64",
    "matmul:f64:64x64x64",
    "matmul:f16:64x64x64",
    "matmul:f32:1x64x64",
    "matmul:f32:64x1x64",
    "matmul:f32:64x64x512",
    "elementwise.add:f32:64x1,1x64",
    "elementwise.sub:f32:64x64,1x64",
    "elementwise.mul:f32:64x64,1x64",
    "elementwise.div:f32:64x64,64x1",
    "reduce.sum:f32:4096",
    "reduce.sum:f32:64x64:axis1",
    "reduce.mean:f32:64x64:axis1",
    "reduce.min:f32:64x64:axis1",
    "reduce.max:f32:64x64:axis1",
    "reduce.sum:f32:64x64:axis0",
    "reduce.mean:f32:64x64:axis0",
    "reduce.max:f32:64x64:axis0",
    "transpose:f64:64x64",
    "transpose:f32:64x64",
    "transpose:f16:64x64",
    "rows.softmax:f32:64x64",
    "gather:f32:64x64:axis0,count64",
    "cast:f32:64:f16",
    "cast:f16:64:f32",
];

/// Entries one behind the other, each behind a line with its number.
const TEXT: &str = include_str!("bundle.ptx");
/// What such a line begins with.
const MARK: &str = "//@ ";

fn entries(text: &'static str) -> HashMap<BuildId, &'static str> {
    let entries = text.split(MARK).filter_map(|entry| {
        let (number, ptx) = entry.split_once('\n')?;
        Some((BuildId(u128::from_str_radix(number.trim(), 16).ok()?), ptx))
    });
    entries.collect()
}

fn all() -> &'static HashMap<BuildId, &'static str> {
    static ALL: OnceLock<HashMap<BuildId, &'static str>> = OnceLock::new();
    ALL.get_or_init(|| entries(TEXT))
}

/// The PTX of a step, where it is in the bundle.
pub fn bundled(step: &LaunchStep) -> Option<&'static str> {
    all().get(&BuildId::of(step)).copied()
}

/// How many entries there are.
pub fn bundled_count() -> usize {
    all().len()
}

/// An entry as the bundle has it.
pub fn bundle_entry(step: &LaunchStep, ptx: &str) -> String {
    // Comments and blank lines are a third of what NVRTC writes.
    let lines = ptx.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    format!("{MARK}{}\n{}\n", BuildId::of(step), lines.collect::<Vec<_>>().join("\n"))
}

/// The steps the bundle is made of, each once.
pub fn bundle_steps() -> Vec<LaunchStep> {
    let Some(info) = DeviceInfo::typical(BUNDLED_FOR) else { return Vec::new() };
    let facts = info.facts(crate::LEAST_VERSION);
    let unary = UnaryOp::ALL.iter().map(|op| op.name());
    let names = unary.chain(BinaryOp::ALL.iter().map(|op| op.name()));
    let texts = names.map(|name| format!("elementwise.{name}:f32:64"));
    let texts = texts.chain(PROBLEMS.map(String::from));
    let mut steps = BTreeMap::new();
    for problem in texts.filter_map(|text| text.parse::<Problem>().ok()) {
        for kernel in kernels::all() {
            let space = kernel.space(&problem, &facts);
            let point = space.points().first();
            let program = point.and_then(|point| Program::of(kernel.as_ref(), &problem, point).ok());
            let found = program.into_iter().flat_map(|program| program.steps);
            steps.extend(found.map(|step| (BuildId::of(&step), step)));
        }
    }
    steps.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_that_of_these_kernels() {
        for text in PROBLEMS {
            assert!(text.parse::<Problem>().is_ok(), "{text}");
        }
        let steps = bundle_steps();
        let missing: Vec<&str> =
            steps.iter().filter(|step| bundled(step).is_none()).map(|step| step.entry).collect();
        assert!(missing.is_empty(), "run `cargo xtask cuda --bundle`: {missing:?} are not in it");
        assert_eq!(bundled_count(), steps.len(), "run `cargo xtask cuda --bundle`: it has others");
    }

    #[test]
    fn what_is_no_entry_is_left_out() {
        assert_eq!(entries("").len(), 0);
        assert_eq!(entries("//@ xyz\n.version 7.8\n").len(), 0);
        assert_eq!(entries("//@ 1f\n.version 7.8\n//@").get(&BuildId(31)), Some(&".version 7.8\n//@"));
    }
}
