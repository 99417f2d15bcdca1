//! What a GPU kernel writes when it is launched: the steps that compute a problem, as data. Nothing here talks to a GPU, so
//! programs can be written, validated and translated on a machine without one.

use std::borrow::Cow;
use trimtab_core::{AdapterFacts, AnyKernel, Context, DType, LaunchError, Point, Problem};

/// The most words of parameters a step has.
pub const MAX_PARAMS: usize = 64;
/// The most steps of a program.
pub const MAX_STEPS: usize = 256;
/// The most buffers of its own a program has.
pub const MAX_SCRATCH: usize = 4;
/// Binding number of the parameters. The first four storage buffers lie before it, others after it.
pub const PARAMS_BINDING: u32 = 4;
/// The most storage buffers of a step: as many as every adapter offers.
pub const MAX_BINDINGS: usize = 8;

/// The binding number of a step's storage buffer by its position.
pub const fn binding_number(at: usize) -> u32 {
    if at < PARAMS_BINDING as usize { at as u32 } else { at as u32 + 1 }
}

/// A GPU as a kernel context: a launch writes a program, which the device builds once, keeps, and runs as often as asked.
#[derive(Debug)]
pub struct Gpu;

/// What becomes of a launch.
pub type Launched = Result<(), LaunchError>;

impl Context for Gpu {
    type Args<'a> = Writer<'a>;
}

/// What a launch is given: the limits to keep and the program to write.
#[derive(Debug)]
pub struct Writer<'a> {
    /// The adapter the program is for.
    pub adapter: &'a AdapterFacts,
    /// Where the steps go.
    pub program: &'a mut Program,
}

/// The buffers a step can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindTarget {
    /// An input, by its place among the problem's operands.
    Input(u8),
    /// The result.
    Out,
    /// A buffer of the program's own, by number.
    Scratch(u8),
    /// One `u32` that is zero before the first step; anything else after the last is an error of the operands:
    /// [`STATUS_DIVISION`], [`STATUS_OVERFLOW`], or [`STATUS_INDEX`] and above.
    Status,
}

/// An integer was divided by zero.
pub const STATUS_DIVISION: u32 = 1;
/// An exact integer result does not fit.
pub const STATUS_OVERFLOW: u32 = 2;

/// An index is not there: as many below the largest number as its number among the indices, so that the first of them is the largest status.
pub const STATUS_INDEX: u32 = 1 << 31;

/// A storage buffer of a step, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Which buffer.
    pub place: BindTarget,
    /// First byte and number of bytes; all of it if absent. The first is a multiple of the adapter's offset alignment.
    pub part: Option<(u64, u64)>,
    /// Whether the shader declares it `read_write`; else it is `read`.
    pub writes: bool,
}

impl Binding {
    /// All of a buffer, read only.
    pub const fn read(place: BindTarget) -> Binding {
        Binding { place, part: None, writes: false }
    }

    /// All of a buffer, to be written.
    pub const fn write(place: BindTarget) -> Binding {
        Binding { place, part: None, writes: true }
    }

    /// A part of the buffer.
    pub const fn part(self, first_byte: u64, bytes: u64) -> Binding {
        Binding { part: Some((first_byte, bytes)), ..self }
    }
}

/// One dispatch.
///
/// The text has one entry point `main`; `@group(0)` holds the bindings in their order ([`binding_number`]), and at
/// `@binding(4)` the parameters as `var<uniform> params: array<vec4<u32>, N>` where there are any. Pipelines are kept by
/// text and constants: put sizes into parameters, and only what shapes the code into text and constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// The shader's text without `enable` lines; those follow from `needs`.
    pub text: Cow<'static, str>,
    /// Values of the text's `override` constants.
    pub constants: Vec<(&'static str, f64)>,
    /// What of an adapter the text needs.
    pub needs: Needs,
    /// Invocations of a workgroup, as the text declares them.
    pub workgroup: [u32; 3],
    /// Bytes of workgroup memory the text declares.
    pub workgroup_bytes: u32,
    /// Workgroups.
    pub groups: [u32; 3],
    /// The storage buffers, at most [`MAX_BINDINGS`].
    pub bindings: Vec<Binding>,
    /// The parameters; filled up with zeros to a multiple of four words.
    pub params: Vec<u32>,
}

/// What of an adapter a shader needs beside the core of WGSL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// 16-bit floats.
    pub f16: bool,
    /// 64-bit floats, which no browser has.
    pub f64: bool,
    /// Subgroup operations.
    pub subgroups: bool,
}

impl Needs {
    /// What elements of that type need.
    pub const fn of(dtype: DType) -> Needs {
        Needs { f16: matches!(dtype, DType::F16), f64: matches!(dtype, DType::F64), subgroups: false }
    }

    /// The first of them an adapter does not have.
    pub fn missing_on(self, adapter: &AdapterFacts) -> Option<&'static str> {
        let missing = [
            (self.f16 && !adapter.f16, "16-bit floats"),
            (self.f64 && !adapter.f64, "64-bit floats"),
            (self.subgroups && adapter.subgroup.is_none(), "subgroups"),
        ];
        missing.into_iter().find_map(|(is, what)| is.then_some(what))
    }
}

/// The steps that compute a problem, in order; a step sees what the ones before it wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The dispatches.
    pub steps: Vec<Dispatch>,
    /// Bytes of each buffer of the program's own; numbered from zero.
    pub scratch: Vec<u64>,
}

impl Program {
    /// What a kernel writes for a problem.
    pub fn of(
        kernel: &dyn AnyKernel<Gpu>,
        problem: &Problem,
        point: &Point,
        adapter: &AdapterFacts,
    ) -> Result<Program, LaunchError> {
        let mut program = Program::default();
        kernel.launch(problem, point, Writer { adapter, program: &mut program })?;
        Ok(program)
    }

    /// Adds a dispatch.
    pub fn push(&mut self, step: Dispatch) {
        self.steps.push(step);
    }

    /// A buffer of the program's own.
    pub fn scratch(&mut self, bytes: u64) -> BindTarget {
        self.scratch.push(bytes.next_multiple_of(4));
        BindTarget::Scratch((self.scratch.len() - 1) as u8)
    }

    /// Whether any step reports an error of the operands.
    pub fn has_status(&self) -> bool {
        self.steps.iter().flat_map(|step| &step.bindings).any(|binding| binding.place == BindTarget::Status)
    }

    /// The first limit of the adapter this program breaks: Vulkan drivers do not refuse such a kernel, they crash or
    /// write nothing.
    pub fn check(&self, adapter: &AdapterFacts) -> Result<(), LaunchError> {
        let most_scratch = adapter.max_buffer.0.min(adapter.max_binding.0);
        let mut measures = vec![
            ("the number of steps", self.steps.len() as u64, MAX_STEPS as u64),
            ("the number of scratch buffers", self.scratch.len() as u64, MAX_SCRATCH as u64),
        ];
        measures.extend(self.scratch.iter().map(|&bytes| ("a scratch buffer", bytes, most_scratch)));
        for step in &self.steps {
            let invocations = step.workgroup.iter().map(|&size| u64::from(size)).product();
            measures.push(("a workgroup", invocations, adapter.max_invocations.into()));
            for axis in 0..3 {
                let (side, limit) = (step.workgroup[axis], adapter.max_workgroup[axis]);
                measures.push(("a side of a workgroup", side.into(), limit.into()));
                let (groups, limit) = (step.groups[axis], adapter.max_groups);
                measures.push(("the number of workgroups", groups.into(), limit.into()));
            }
            let parts = step.bindings.iter().filter_map(|binding| binding.part);
            let part = |(_, bytes)| ("a part of a buffer in bytes", bytes, adapter.max_binding.0);
            measures.extend([
                ("workgroup memory in bytes", step.workgroup_bytes.into(), adapter.workgroup_memory.0),
                ("the number of parameters", step.params.len() as u64, MAX_PARAMS as u64),
                ("the number of buffers", step.bindings.len() as u64, MAX_BINDINGS as u64),
            ]);
            measures.extend(parts.clone().map(part));
            let alignment = adapter.offset_alignment;
            if let Some((first, _)) =
                parts.clone().find(|(first, _)| first % u64::from(alignment.max(1)) != 0)
            {
                return Err(LaunchError::Kernel(format!("byte {first} is not a multiple of {alignment}")));
            }
            if let Some(what) = step.needs.missing_on(adapter) {
                return Err(LaunchError::Kernel(format!("the adapter has no {what}")));
            }
        }
        match measures.into_iter().find(|(_, found, limit)| found > limit) {
            None => Ok(()),
            Some((what, found, limit)) => {
                Err(LaunchError::Kernel(format!("{what} is {found}, the adapter's limit is {limit}")))
            }
        }
    }
}

/// Spreads that many workgroups over two axes where one axis does not hold them; a kernel finds its number as
/// `group.y * groups.x + group.x` and does nothing beyond the last. `None` if two axes do not hold them either.
pub fn spread_groups(count: u64, adapter: &AdapterFacts) -> Option<[u32; 3]> {
    let most = u64::from(adapter.max_groups.max(1));
    let rows = count.div_ceil(most).max(1);
    let columns = count.div_ceil(rows);
    (rows <= most).then_some([columns as u32, rows as u32, 1])
}
