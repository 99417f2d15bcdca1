//! The kernels of the operation conv, of floating-point numbers. Halves are summed as f32; the bias is added, then the function applied, before a result is
//! stored.

mod direct;
mod implicit;

use super::elementwise::OPS;
use super::walked::window;
use super::{CompilerMacros, CudaKernels, NUMBER, not_float, of_number, walked};
use crate::program::StepArgument;
use trimtab_core::{Bytes, Channels, Conv, Decline, DeviceFacts, Flops, Work, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(implicit::ImplicitKernel), erase(direct::DirectKernel)]
}

fn declines(problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
    let none = || Decline::because("there is nothing to add up");
    not_float(problem.dtype)
        .or_else(|| (problem.depth() == 0).then(none))
        .or_else(|| walked::declines(&(*problem).into(), device))
}

/// The macros all sources have.
fn macros(problem: &Conv, own: &[(&'static str, u32)]) -> CompilerMacros {
    let act = problem.act.map_or(String::new(), |act| format!("op_{act}"));
    let mut macros = of_number(problem.dtype);
    let flags = [("LAST", problem.channels == Channels::Last), ("BIAS", problem.bias)];
    macros.extend(flags.map(|(name, is)| (name, u32::from(is).to_string())));
    macros.push(("ACT", act));
    macros.extend(own.iter().map(|(name, value)| (*name, value.to_string())));
    macros
}

/// A source behind numbers, operations and windows.
fn source(own: &str) -> String {
    [NUMBER, OPS, include_str!("../window.cu"), include_str!("conv.cu"), own].concat()
}

/// Operand, weights, bias and result; channels and groups; the window; then a kernel's own sizes. Without a bias the weights stand for it: nothing is read.
fn given(problem: &Conv, own: &[u64]) -> Vec<StepArgument> {
    let bias = StepArgument::Input(if problem.bias { 2 } else { 1 });
    let mut given = vec![StepArgument::Input(0), StepArgument::Input(1), bias, StepArgument::Out];
    let channels = [problem.group_inputs(), problem.group_outputs(), problem.groups()];
    given.extend(channels.map(|size| StepArgument::U32(size as u32)));
    given.extend(window(&problem.window));
    given.extend(own.iter().map(|size| StepArgument::U32(*size as u32)));
    given
}

/// What a kernel does that reads so many elements, by so many threads.
fn work(problem: &Conv, reads: u64, invocations: u64) -> Work {
    Work {
        flops: Flops(problem.flops()),
        bytes: Bytes(reads.saturating_add(problem.out_len()).saturating_mul(problem.dtype.size())),
        launches: 1,
        threads: 1,
        lanes: 1,
        invocations,
        ..Work::default()
    }
}
