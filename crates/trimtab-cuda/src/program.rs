//! What a CUDA kernel writes when it is launched: the steps that compute a problem, as data. Nothing here talks to a GPU, so every kernel
//! can be compiled, assembled and interpreted on a machine without one.

use crate::cublas::LibraryProduct;
use std::borrow::Cow;
use trimtab_core::{AdapterFacts, AnyKernel, Context, DeviceFacts, LaunchError, Point, Problem};

/// Blocks of a grid along x at most, and along y and z: of every device since sm_30.
pub const MAX_GRID: [u64; 3] = [i32::MAX as u64, 65_535, 65_535];

/// A device of CUDA as a kernel context: a launch writes a program, which is compiled once and run as often as asked.
#[derive(Debug)]
pub struct Cuda;

impl Context for Cuda {
    type Args<'a> = &'a mut Program;
}

/// A value a step gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepArgument {
    /// The address of an input, by its place among the problem's operands.
    Input(u8),
    /// The address of the result.
    Out,
    /// The address of memory that lives as long as the program runs, for what steps leave to each other.
    Scratch,
    /// An address so many bytes behind its beginning.
    ScratchAt(u64),
    /// The address of a word, zero at first, where a kernel tells that there is no answer: see [`mod@crate::kernels`].
    Status,
    /// An integer of 32 bits.
    U32(u32),
    /// An integer of 64 bits.
    U64(u64),
    /// A number.
    F32(f32),
    /// A number.
    F64(f64),
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchStep {
    /// CUDA C without any header.
    pub source: Cow<'static, str>,
    /// The name of the kernel in it.
    pub entry: &'static str,
    /// Macros the source is compiled with. Put sizes into parameters, and only what shapes the code here.
    pub macros: Vec<(&'static str, String)>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// The parameters, in order.
    pub given: Vec<StepArgument>,
}

impl LaunchStep {
    /// What the compiler is told, beside the architecture.
    pub fn options(&self) -> Vec<String> {
        let macros = self.macros.iter().map(|(name, value)| format!("-D{name}={value}"));
        // Results must not depend on what the compiler thinks fast enough.
        ["--std=c++17", "--fmad=true", "--prec-div=true", "--prec-sqrt=true", "--ftz=false"]
            .map(String::from)
            .into_iter()
            .chain(macros)
            .collect()
    }
}

/// The steps that compute a problem, in order; a step sees what the ones before it wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The launches.
    pub steps: Vec<LaunchStep>,
    /// Bytes of [`StepArgument::Scratch`].
    pub scratch: u64,
    /// A product a library makes instead of launches of ours.
    pub product: Option<LibraryProduct>,
}

impl Program {
    /// What a kernel writes for a problem.
    pub fn of(
        kernel: &dyn AnyKernel<Cuda>,
        problem: &Problem,
        point: &Point,
    ) -> Result<Program, LaunchError> {
        let mut program = Program::default();
        kernel.launch(problem, point, &mut program)?;
        Ok(program)
    }

    /// Whether a step may tell that there is no answer.
    pub fn has_status(&self) -> bool {
        self.steps.iter().flat_map(|step| &step.given).any(|given| *given == StepArgument::Status)
    }

    /// Adds a launch, if a grid can be that large.
    pub(crate) fn push(
        &mut self,
        source: impl Into<Cow<'static, str>>,
        entry: &'static str,
        macros: Vec<(&'static str, String)>,
        grid: [u64; 3],
        block: [u32; 3],
        given: Vec<StepArgument>,
    ) -> Result<(), LaunchError> {
        if grid.iter().zip(MAX_GRID).any(|(size, most)| *size == 0 || *size > most) {
            return Err(LaunchError::Kernel(format!("a grid of {grid:?} blocks, {MAX_GRID:?} are the most")));
        }
        let grid = grid.map(|size| size as u32);
        self.steps.push(LaunchStep { source: source.into(), entry, macros, grid, block, given });
        Ok(())
    }
}

/// The compute capability, which the facts have as a feature.
pub(crate) fn capability(device: &DeviceFacts) -> u32 {
    let known = device.features.iter().filter_map(|feature| feature.strip_prefix("sm_")?.parse().ok());
    known.max().unwrap_or(0)
}

/// What the device told, where it is one.
pub(crate) fn adapter(device: &DeviceFacts) -> Option<&AdapterFacts> {
    device.adapter.as_deref()
}

/// Whether a block fits a device.
pub(crate) fn fits(device: &DeviceFacts, threads: u32, shared_bytes: u32) -> bool {
    adapter(device).is_some_and(|adapter| {
        threads <= adapter.max_invocations && u64::from(shared_bytes) <= adapter.workgroup_memory.0
    })
}
