//! What is common to the shaders of rows: types, buffers, what a row amounts to, and what becomes of its elements.

use crate::kernels::lines::Lines;
use crate::program::{BindTarget, Binding, Needs, binding_number};
use trimtab_core::{AdapterFacts, Bytes, DType, Decline, DeviceFacts, Flops, Rows, RowsOp};

/// What must be known of a row before its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// The largest, and the sum of exponentials.
    Exponentials,
    /// The mean, and the sum of squared distances from it.
    Moments,
    /// The sum of squares.
    Squares,
}

impl Family {
    pub(super) fn of(op: RowsOp) -> Family {
        match op {
            RowsOp::Softmax | RowsOp::LogSoftmax | RowsOp::LogSumExp => Family::Exponentials,
            RowsOp::Variance | RowsOp::LayerNorm => Family::Moments,
            RowsOp::RmsNorm => Family::Squares,
        }
    }
}

/// How a shader sees a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsView {
    pub problem: Rows,
    /// Elements loaded at once.
    pub width: u32,
}

impl RowsView {
    pub(super) fn lines(self) -> Lines {
        let Rows { dtype, outer, len, inner, .. } = self.problem;
        Lines { dtype, outer, len, inner }
    }

    /// Whether the elements of a vector are of neighbouring rows and not of one.
    pub(super) fn is_aside(self) -> bool {
        self.width > 1 && self.problem.inner > 1
    }

    /// Whether vectors of that width can be read.
    pub(super) fn is_readable(self) -> bool {
        let (width, along) = (u64::from(self.width), self.problem.inner == 1);
        let divided = if along { self.problem.len } else { self.problem.inner };
        width == 1 || (width == 4 && self.problem.dtype != DType::F64 && divided.is_multiple_of(width))
    }

    /// Steps of a row, in units of vectors.
    pub(super) fn steps(self) -> u64 {
        if self.is_aside() { self.problem.len } else { self.problem.len / u64::from(self.width) }
    }

    /// Rows, or vectors of them.
    pub(super) fn units(self) -> u64 {
        if self.is_aside() { self.lines().count() / u64::from(self.width) } else { self.lines().count() }
    }

    pub(super) fn params(self) -> Vec<u32> {
        let stride =
            if self.is_aside() { self.problem.inner / u64::from(self.width) } else { self.problem.inner };
        [self.units(), self.steps(), stride, self.problem.len].map(|word| word as u32).to_vec()
    }

    /// The operands and the result, as the text declares them.
    pub(super) fn bindings(self) -> Vec<Binding> {
        let Rows { op, scaled, shifted, .. } = self.problem;
        let more = u8::from(scaled) + u8::from(shifted) + u8::from(op.is_norm());
        let inputs = (0..=more).map(|place| Binding::read(BindTarget::Input(place)));
        inputs.chain([Binding::write(BindTarget::Out)]).collect()
    }

    /// Types, buffers and what becomes of elements. `conclude` makes a `Row` of what is known of a row.
    pub(super) fn text(self) -> String {
        let Rows { op, dtype, scaled, shifted, .. } = self.problem;
        let (stored, computed) = match dtype {
            DType::F16 => ("f16", "f32"),
            DType::F64 => ("f64", "f64"),
            _ => ("f32", "f32"),
        };
        let of = |scalar: &str| match self.width {
            1 => scalar.to_string(),
            width => format!("vec{width}<{scalar}>"),
        };
        let mut text = format!(
            "alias T = {stored};\nalias A = {computed};\nalias S = {};\nalias V = {};\nalias U = {};\n",
            of(stored),
            of(computed),
            of("u32"),
        );
        // Scales and shifts are by step: a vector of them, or one for all rows of a vector.
        let by_step = if self.is_aside() { "T" } else { "S" };
        let result = if op.reduces() && !self.is_aside() { "T" } else { "S" };
        let buffers = [
            (true, "read", "input", "S"),
            (scaled, "read", "scale", by_step),
            (shifted, "read", "shift", by_step),
            (op.is_norm(), "read", "epsilon", "T"),
            (true, "read_write", "output", result),
        ];
        for (at, (_, access, name, of)) in buffers.iter().filter(|buffer| buffer.0).enumerate() {
            let number = binding_number(at);
            text += &format!("@group(0) @binding({number}) var<storage, {access}> {name}: array<{of}>;\n");
        }
        text += "@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;\n";
        text += &self.together();
        let read = |name: &str| match self.is_aside() {
            true => format!("V(A({name}[at]))"),
            false => format!("V({name}[at])"),
        };
        let mut value = match op {
            RowsOp::RmsNorm => "x * row.by".to_string(),
            _ => "(x - row.less) * row.by".to_string(),
        };
        if scaled {
            value += &format!(" * {}", read("scale"));
        }
        if shifted {
            value += &format!(" + {}", read("shift"));
        }
        text += &match Family::of(op) {
            Family::Exponentials => include_str!("exponentials.wgsl")
                .replace("$BY", if op == RowsOp::Softmax { "V(1.0) / there" } else { "log(there)" }),
            Family::Moments | Family::Squares => include_str!("moments.wgsl").replace(
                "$BY",
                if op == RowsOp::Variance {
                    "variance"
                } else {
                    "V(1.0) / sqrt(variance + V(A(epsilon[0])))"
                },
            ),
        };
        match op {
            RowsOp::LogSumExp => text += include_str!("logsumexp.wgsl"),
            RowsOp::Softmax => text += include_str!("softmax.wgsl"),
            RowsOp::LogSoftmax => text += include_str!("log_softmax.wgsl"),
            RowsOp::Variance => text += "fn result(row: Row) -> V {\n    return row.by;\n}\n",
            RowsOp::LayerNorm | RowsOp::RmsNorm => {
                text += &format!("fn value(row: Row, x: V, at: u32) -> V {{\n    return {value};\n}}\n");
            }
        }
        text
    }

    /// All lanes of a vector, where they are of one row.
    fn together(self) -> String {
        if self.width == 1 || self.is_aside() {
            return "fn lanes_sum(v: V) -> V { return v; }
fn lanes_max(v: V) -> V { return v; }
fn lanes_or(v: U) -> U { return v; }\n"
                .to_string();
        }
        "fn lanes_sum(v: V) -> V { return V((v.x + v.y) + (v.z + v.w)); }
fn lanes_max(v: V) -> V { return V(max(max(v.x, v.y), max(v.z, v.w))); }
fn lanes_or(v: U) -> U { return U((v.x | v.y) | (v.z | v.w)); }\n"
            .to_string()
    }

    /// How a row's one result is written at `id`.
    pub(super) fn write_one(self) -> &'static str {
        if self.width == 1 || self.is_aside() {
            "output[id] = S(result(row));"
        } else {
            "output[id] = T(result(row).x);"
        }
    }
}

/// What the adapter told, or why no kernel takes the problem there.
pub(super) fn admits<'a>(problem: &Rows, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    if problem.dtype == DType::F64 && problem.op != RowsOp::Variance {
        return Err(Decline::because("WGSL has no functions of 64-bit floats"));
    }
    RowsView { problem: *problem, width: 1 }.lines().admits(Needs::of(problem.dtype), device)
}

/// What a kernel does that reads each element so many times and writes each result once.
pub(super) fn counted(problem: &Rows, reads: u64) -> (Flops, Bytes) {
    let elements = problem.input_len().saturating_mul(reads).saturating_add(problem.out_len());
    // A function takes about twenty operations.
    let functions = if Family::of(problem.op) == Family::Exponentials { 20 } else { 0 };
    let flops = problem.flops().saturating_add(problem.input_len().saturating_mul(functions));
    (Flops(flops), Bytes(elements.saturating_mul(problem.dtype.size())))
}
