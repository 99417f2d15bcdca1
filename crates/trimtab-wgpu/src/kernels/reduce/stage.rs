//! One dispatch of a reduction: which part of the operand it sees, how the axis is cut up, and where its results go.

use super::fold::{Fold, Io, Sink, Source};
use crate::kernels::{adapter_with, over, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Launched, Writer, spread_groups};
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Reduce, Work,
};

/// Who folds a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// One invocation; so many neighbours take turns.
    Serial { neighbours: u64 },
    /// A workgroup of so many columns side by side.
    Tree { columns: u32 },
    /// A workgroup by its subgroups.
    Subgroup,
}

/// A dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub body: Body,
    pub source: Source,
    pub sink: Sink,
    pub workgroup: u32,
    pub width: u32,
    pub unroll: u32,
    /// Pieces an axis of this stage's part is cut into.
    pub chunks: u64,
}

impl Stage {
    /// The one dispatch, or one a part, of a kernel that folds elements to results.
    pub(super) fn only(body: Body, workgroup: u32, width: u32, unroll: u32) -> Stage {
        let (source, sink) = (Source::Elements, Sink::Results);
        Stage { body, source, sink, workgroup, width, unroll, chunks: 1 }
    }

    /// The work of such a kernel.
    pub(super) fn work(self, problem: &Reduce, device: &DeviceFacts) -> Work {
        let parts = parts_on(problem, device, false).map_or_else(|_| Vec::new(), |(_, parts)| parts);
        let groups = |part: &Part| self.workgroups(problem, part.outers);
        Work {
            flops: Flops(problem.input_len()),
            bytes: Bytes(operand_bytes(problem)),
            launches: parts.len() as u32,
            threads: 1,
            lanes: self.width,
            barriers: parts.iter().map(groups).sum::<u64>() * self.barriers(),
            invocations: parts.iter().map(groups).max().unwrap_or(0) * u64::from(self.workgroup),
            ..Work::default()
        }
    }

    /// Its launch.
    pub(super) fn launch(self, problem: &Reduce, args: Writer<'_>) -> Launched {
        for part in launch_parts(problem, args.adapter, false)? {
            let slots = Slots { chunks: 1, first: 0 };
            args.program.push(self.step(problem, part, slots, None, args.adapter)?);
        }
        Ok(())
    }
}

/// The adapter and the first part for such a kernel, from which its settings follow.
pub(super) fn first_part<'a>(problem: &Reduce, device: &'a DeviceFacts) -> Option<(&'a AdapterFacts, Part)> {
    let (adapter, parts) = parts_on(problem, device, false).ok()?;
    parts.first().map(|&part| (adapter, part))
}

/// Workgroups worth trying where one folds a result. Barriers are ruinous where the processor plays the GPU: small ones first.
pub(super) fn workgroups(adapter: &AdapterFacts) -> [u32; 6] {
    match adapter.class {
        AdapterClass::Software => [32, 64, 128, 256, 512, 1024],
        _ => [256, 128, 64, 512, 32, 1024],
    }
}

/// Some of the elements: whole slabs (`len × inner`), or some steps of the axis of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub first_outer: u64,
    pub outers: u64,
    pub first_step: u64,
    pub steps: u64,
}

impl Part {
    /// All of them.
    pub(super) fn whole(problem: &Reduce) -> Part {
        Part { first_outer: 0, outers: problem.outer, first_step: 0, steps: problem.len }
    }
}

/// Where a stage's slots lie: chunks of an axis in all, and the first one's number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    pub chunks: u64,
    pub first: u64,
}

/// The most rounds of a loop an invocation makes. Mesa's software adapters leave every loop of a shader, without an error,
/// once its loops made 65535 rounds together (a sum of 65536 elements by one invocation was short of the last ones), and
/// much longer walks look like a hang to the driver of a real GPU.
pub(crate) const LONGEST_WALK: u64 = 1 << 15;

/// What the adapter told, or why it cannot hold the problem.
pub(super) fn admits<'a>(problem: &Reduce, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    let adapter = adapter_with(Fold::of(problem).needs(), device)?;
    let (buffer, binding) = (adapter.max_buffer.0, adapter.max_binding.0.min(adapter.max_buffer.0));
    let (len, out_len) = (problem.input_len(), problem.out_len());
    // Elements are counted in 32 bits, with room for a last stride.
    let too_many = || Decline::from(format!("takes operands up to 2147483648 elements, this has {len}"));
    let decline = over([("the operand", len)], problem.dtype, buffer, "buffers")
        .or_else(|| over([("the result", out_len)], problem.dtype, binding, "bindings"))
        .or_else(|| (len > 1 << 31).then(too_many));
    decline.map_or(Ok(adapter), Err)
}

/// The same, and the parts the operand is seen in.
pub(super) fn parts_on<'a>(
    problem: &Reduce,
    device: &'a DeviceFacts,
    may_cut: bool,
) -> Result<(&'a AdapterFacts, Vec<Part>), Decline> {
    let adapter = admits(problem, device)?;
    Ok((adapter, parts(problem, adapter, may_cut)?))
}

/// Where a part of a buffer may begin, in bytes: also a multiple of every vector.
fn alignment(adapter: &AdapterFacts) -> u64 {
    u64::from(adapter.offset_alignment).max(64)
}

/// The parts the operand is seen in, each within a binding: whole slabs, or steps where one slab is too large and the
/// kernel can put axes together again.
fn parts(problem: &Reduce, adapter: &AdapterFacts, may_cut: bool) -> Result<Vec<Part>, Decline> {
    let size = problem.dtype.size();
    let whole = Part::whole(problem);
    if problem.input_len() * size <= adapter.max_binding.0 {
        return Ok(vec![whole]);
    }
    let room = adapter.max_binding.0 - alignment(adapter);
    let slab = problem.len * problem.inner * size;
    if slab <= room {
        let most = room / slab;
        let outers = (0..problem.outer).step_by(most as usize);
        return Ok(outers
            .map(|first| Part { first_outer: first, outers: most.min(problem.outer - first), ..whole })
            .collect());
    }
    let step = problem.inner * size;
    // A multiple of every vector.
    let most = room / step / 1024 * 1024;
    if !may_cut || most == 0 {
        let binding = adapter.max_binding.0;
        let (what, bytes) = if may_cut { ("1024 steps of one", 1024 * step) } else { ("one", slab) };
        let reason = format!("takes bindings up to {binding} bytes, {what} of the axes has {bytes}");
        return Err(Decline::from(reason));
    }
    let mut all = Vec::new();
    for outer in 0..problem.outer {
        for first in (0..problem.len).step_by(most as usize) {
            let steps = most.min(problem.len - first);
            all.push(Part { first_outer: outer, outers: 1, first_step: first, steps });
        }
    }
    Ok(all)
}

/// Whether rows of vectors of that width can be read: an axis without stride whose rows begin at whole vectors.
pub(super) fn reads_rows(problem: &Reduce, width: u32) -> bool {
    let width = u64::from(width);
    let fits = width <= u64::from(Fold::of(problem).widest()) && width <= problem.len;
    width == 1 || (fits && problem.inner == 1 && (problem.outer == 1 || problem.len.is_multiple_of(width)))
}

/// Whether vectors of that width span neighbouring axes.
pub(super) fn spans_columns(problem: &Reduce, width: u32) -> bool {
    let fits = width <= Fold::of(problem).widest();
    width > 1 && fits && problem.inner > 1 && problem.inner.is_multiple_of(u64::from(width))
}

impl Stage {
    /// Whether the lanes of a vector are neighbouring axes and not elements of one.
    fn by_columns(&self, problem: &Reduce) -> bool {
        self.width > 1 && problem.inner > 1
    }

    /// Neighbouring axes in units of vectors.
    fn columns(&self, problem: &Reduce) -> u64 {
        if self.by_columns(problem) { problem.inner / u64::from(self.width) } else { problem.inner }
    }

    /// Steps of an axis of a part in units of vectors.
    pub(super) fn count(&self, problem: &Reduce, steps: u64) -> u64 {
        if self.by_columns(problem) { steps } else { steps / u64::from(self.width) }
    }

    /// Workgroups of the dispatch.
    pub(super) fn workgroups(&self, problem: &Reduce, outers: u64) -> u64 {
        let columns = self.columns(problem);
        match self.body {
            Body::Serial { .. } => (outers * self.chunks * columns).div_ceil(self.workgroup.into()),
            Body::Tree { columns: side } => outers * self.chunks * columns.div_ceil(side.into()),
            Body::Subgroup => outers,
        }
    }

    /// Times a workgroup waits.
    pub(super) fn barriers(&self) -> u64 {
        match self.body {
            Body::Serial { .. } => 0,
            Body::Tree { columns } => (self.workgroup / columns.max(1)).max(1).ilog2().into(),
            Body::Subgroup => 2,
        }
    }

    /// Bytes of workgroup memory.
    pub(super) fn workgroup_bytes(&self, fold: Fold, adapter: &AdapterFacts) -> u64 {
        let places = match self.body {
            Body::Serial { .. } => 0,
            Body::Tree { .. } => self.workgroup,
            Body::Subgroup => self.workgroup.div_ceil(least(adapter)),
        };
        u64::from(places) * fold.state_bytes()
    }

    /// Rounds the longest loop of an invocation makes over an axis of so many steps.
    fn rounds(&self, problem: &Reduce, steps: u64) -> u64 {
        let shared = match self.body {
            Body::Serial { .. } => self.chunks,
            Body::Tree { columns } => self.chunks * u64::from(self.workgroup / columns.max(1)),
            Body::Subgroup => self.workgroup.into(),
        };
        self.count(problem, steps).div_ceil(shared.max(1)).div_ceil(self.unroll.max(1).into())
    }

    /// Whether the adapter takes the stage.
    pub(super) fn is_legal(&self, problem: &Reduce, part: Part, adapter: &AdapterFacts) -> bool {
        let fold = Fold::of(problem);
        // States are as many as chunks, which the caller looks at.
        if self.source == Source::Elements && self.rounds(problem, part.steps) > LONGEST_WALK {
            return false;
        }
        self.workgroup <= adapter.max_invocations.min(adapter.max_workgroup[0])
            && self.workgroup_bytes(fold, adapter) <= adapter.workgroup_memory.0
            && spread_groups(self.workgroups(problem, part.outers), adapter).is_some()
    }

    fn text(&self, fold: Fold, io: Io, by_columns: bool) -> String {
        let unroll = self.unroll.max(1);
        let mut walk = include_str!("walk.wgsl").replace("$UNROLL", &format!("{unroll}u"));
        let (mut begin, mut step, mut end) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..unroll {
            begin.push(format!("            var run_{run} = empty_many();"));
            let at = if run == 0 { "at".to_string() } else { format!("at + {run}u * by") };
            step.push(format!("                run_{run} = fetch(run_{run}, base, {at}, stride);"));
            end.push(format!("            middle = merge_many(middle, run_{run});"));
        }
        for (mark, lines) in [("$BEGIN", begin), ("$STEP", step), ("$END", end)] {
            walk = walk.replace(mark, &lines.join("\n"));
        }
        let body = match self.body {
            Body::Serial { .. } => include_str!("serial.wgsl"),
            Body::Tree { .. } => include_str!("tree.wgsl"),
            Body::Subgroup => include_str!("subgroup.wgsl"),
        };
        let mut write = String::new();
        if by_columns {
            for lane in 0..self.width {
                write += &format!("    store(slot + {lane}u, lane_{lane}(state));\n");
            }
        } else {
            write += "    var one = together(state);\n";
            if io.tail {
                write += "    if (chunk + 1u == chunks) {
        for (var left = 0u; left < params[2].x; left++) {
            one = take_one(one, tail[params[2].y + left]);
        }
    }\n";
            }
            write += "    store(slot, one);";
        }
        let last = if matches!(self.body, Body::Tree { .. }) { "chunk + 1u == chunks && " } else { "" };
        let tail = format!(
            "        if ({last}invocation < params[2].x) {{
            state = take_one(state, tail[params[2].y + invocation]);
        }}"
        );
        let body = with_main(body)
            .replace("$WRITE", &write)
            .replace("$TAIL", if io.tail { &tail } else { "" })
            .replace("$SIDE", &format!("{}u", if by_columns { self.width } else { 1 }))
            .replace("$WIDTH", &self.width.to_string());
        fold.text(io) + &walk + &body
    }

    /// The dispatch over a part. Elements come from the operand, states from `scratch`; results go to the result, states to
    /// `scratch`.
    pub(super) fn step(
        &self,
        problem: &Reduce,
        part: Part,
        slots: Slots,
        scratch: Option<BindTarget>,
        adapter: &AdapterFacts,
    ) -> Result<Dispatch, LaunchError> {
        let illegal = || LaunchError::Point(format!("{self:?}"));
        if self.chunks == 0 || !self.is_legal(problem, part, adapter) {
            return Err(illegal());
        }
        let fold = Fold::of(problem);
        let (size, width) = (problem.dtype.size(), u64::from(self.width.max(1)));
        let from_elements = self.source == Source::Elements;
        let by_columns = self.by_columns(problem);
        let io = Io {
            source: self.source,
            sink: self.sink,
            width: self.width,
            tail: from_elements && !by_columns && !problem.len.is_multiple_of(width),
            subgroups: self.body == Body::Subgroup,
        };
        let count = self.count(problem, part.steps);
        let columns = self.columns(problem);
        let groups = spread_groups(self.workgroups(problem, part.outers), adapter).ok_or_else(illegal)?;
        // The elements the part has, from the first to one past the last.
        let first = (part.first_outer * problem.len + part.first_step) * problem.inner;
        let steps_apart = if part.steps == problem.len { problem.len } else { part.steps };
        let end = first + part.outers * steps_apart * problem.inner;
        let is_whole = first == 0 && end == problem.input_len();
        let (binding, shift) = if is_whole || !from_elements {
            (Binding::read(BindTarget::Input(0)), 0)
        } else {
            let begin = first * size / alignment(adapter) * alignment(adapter);
            let bytes = (end * size - begin).next_multiple_of(4);
            (Binding::read(BindTarget::Input(0)).part(begin, bytes), first - begin / size)
        };
        let states = || scratch.ok_or_else(illegal);
        let mut bindings = vec![if from_elements { binding } else { Binding::read(states()?) }];
        if io.tail {
            bindings.push(binding);
        }
        bindings.push(match self.sink {
            Sink::Results => Binding::write(BindTarget::Out),
            Sink::States => Binding::write(states()?),
        });
        if self.sink == Sink::Results && fold.has_status() {
            bindings.push(Binding::write(BindTarget::Status));
        }
        let (total, tiles, neighbours) = match self.body {
            Body::Serial { neighbours } => (part.outers * self.chunks * columns, 1, neighbours.max(1)),
            Body::Tree { columns: side } => {
                let tiles = columns.div_ceil(side.into());
                (part.outers * self.chunks * tiles, tiles, 1)
            }
            Body::Subgroup => (part.outers, 1, 1),
        };
        let slot = (part.first_outer * slots.chunks + slots.first) * problem.inner;
        let tail = if io.tail { part.steps % width } else { 0 };
        let tail_first = shift + part.steps - tail;
        let words = [
            count,
            if by_columns { columns } else { problem.inner },
            count.div_ceil(self.chunks),
            self.chunks,
            columns,
            if by_columns { problem.len * columns } else { problem.len * problem.inner / width },
            shift / width,
            total,
            tail,
            tail_first,
            problem.len,
            slot,
            slots.chunks,
            neighbours,
            tiles,
        ];
        let mut words = words.map(|word| word as u32).to_vec();
        if self.source == Source::States {
            // The axis is that of the chunks: one state for each of them.
            (words[0], words[2]) = (slots.chunks as u32, slots.chunks as u32);
            words[5] = (slots.chunks * problem.inner) as u32;
            (words[11], words[12]) = ((part.first_outer * problem.inner) as u32, 1);
        }
        let mut constants = vec![("WORKGROUP", f64::from(self.workgroup))];
        match self.body {
            Body::Tree { columns } => constants.push(("COLUMNS", columns.into())),
            Body::Subgroup => constants.push(("LEAST", least(adapter).into())),
            Body::Serial { .. } => (),
        }
        let mut needs = fold.needs();
        needs.subgroups = self.body == Body::Subgroup;
        Ok(Dispatch {
            text: self.text(fold, io, by_columns).into(),
            constants,
            needs,
            workgroup: [self.workgroup, 1, 1],
            workgroup_bytes: self.workgroup_bytes(fold, adapter) as u32,
            groups,
            bindings,
            params: words,
        })
    }
}

/// Why a kernel without a legal setting has none.
pub(super) fn declines_long(problem: &Reduce) -> Decline {
    let len = problem.len;
    Decline::from(format!("an invocation makes up to {LONGEST_WALK} rounds, the axis has {len} elements"))
}

/// The smallest subgroup the adapter may form.
fn least(adapter: &AdapterFacts) -> u32 {
    adapter.subgroup.map_or(1, |(least, _)| least.max(1))
}

/// Bytes read and written once: the operand and the result.
pub(super) fn operand_bytes(problem: &Reduce) -> u64 {
    (problem.input_len() + problem.out_len()) * problem.dtype.size()
}

/// Widths worth considering for elements of that type, widest first.
pub(super) fn widths(dtype: DType) -> &'static [u32] {
    if dtype == DType::F64 { &[2, 1] } else { &[4, 2, 1] }
}

/// The parts for a launch, where a decline is an error.
pub(super) fn launch_parts(
    problem: &Reduce,
    adapter: &AdapterFacts,
    may_cut: bool,
) -> Result<Vec<Part>, LaunchError> {
    parts(problem, adapter, may_cut).map_err(|decline| LaunchError::Kernel(decline.to_string()))
}
