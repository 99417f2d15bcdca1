//! What is common to the elementwise shaders: types, operations, bindings, and which problems they can take at all.

use crate::kernels::{adapter_with, over};
use crate::program::{BindTarget, Binding, Needs};
use trimtab_core::{
    AdapterFacts, BinaryOp, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, UnaryOp,
};

/// How an operand lies beside the vectors of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// There is no such operand.
    Nothing,
    /// A vector for each vector of the result.
    Vector,
    /// One element for all of a vector.
    Repeated,
}

impl Load {
    pub(super) fn of(varies: bool) -> Load {
        if varies { Load::Vector } else { Load::Repeated }
    }
}

/// Whether doubles are handled as their bits: signs and comparisons.
pub(crate) fn by_bits(op: ElementwiseOp) -> bool {
    use {BinaryOp::*, UnaryOp::*};
    matches!(op, ElementwiseOp::Unary(Neg | Abs | Relu) | ElementwiseOp::Binary(Min | Max))
}

/// Whether there are integers for which the operation has no answer.
pub(super) fn is_undefined_somewhere(problem: &Elementwise) -> bool {
    let op = ElementwiseOp::Binary(BinaryOp::Div);
    let pow = ElementwiseOp::Binary(BinaryOp::Pow);
    problem.dtype == DType::I32 && (problem.op == op || problem.op == pow)
}

/// Elements as shaders see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    pub dtype: DType,
    /// Doubles go as their bits.
    pub by_bits: bool,
}

impl Elements {
    pub(super) fn of(problem: &Elementwise) -> Elements {
        Elements { dtype: problem.dtype, by_bits: by_bits(problem.op) }
    }

    /// Elements of a vector: the widest that fits, and single ones.
    ///
    /// Vectors of two are between the two others (2^20 additions on lavapipe: 1.3, 1.6, 2.6 ms), so they are only for rows
    /// that four do not divide.
    pub(crate) fn vector_sizes(self, row: u64) -> Vec<u32> {
        let most: &[u32] = match self.dtype {
            DType::F64 if self.by_bits => &[],
            DType::F64 => &[2],
            _ => &[4, 2],
        };
        let fits = |size: &u32| row.is_multiple_of(u64::from(*size));
        most.iter().copied().find(fits).into_iter().chain([1]).collect()
    }

    /// What of the adapter their shaders need.
    pub(crate) fn needs(self) -> Needs {
        let needs = Needs::of(self.dtype);
        Needs { f64: needs.f64 && !self.by_bits, ..needs }
    }

    /// What the adapter told, or why no kernel does these operations on them there.
    pub(crate) fn admits(
        self,
        mut ops: impl Iterator<Item = ElementwiseOp>,
        device: &DeviceFacts,
    ) -> Result<&AdapterFacts, Decline> {
        let is_function = |op: &ElementwiseOp| op.is_function() || *op == ElementwiseOp::Unary(UnaryOp::Sqrt);
        match ops.find(|op| self.needs().f64 && is_function(op)) {
            Some(op) => Err(Decline::from(format!("WGSL has no {} of 64-bit floats", op.name()))),
            None => adapter_with(self.needs(), device),
        }
    }

    /// Their types: the stored element, the one computed with, and a vector.
    pub(crate) fn types(self, vector: u32) -> String {
        let (element, computed) = match self.dtype {
            DType::F16 => ("f16", "f32"),
            DType::I32 => ("i32", "i32"),
            DType::F64 if self.by_bits => ("vec2<u32>", "vec2<u32>"),
            DType::F64 => ("f64", "f64"),
            _ => ("f32", "f32"),
        };
        let of = if vector == 1 { element.to_string() } else { format!("vec{vector}<{element}>") };
        format!("alias T = {element};\nalias A = {computed};\nalias V = {of};\n")
    }

    /// The operations on them.
    pub(crate) fn ops(self) -> &'static str {
        match self.dtype {
            DType::I32 => include_str!("ops_i32.wgsl"),
            DType::F64 if self.by_bits => include_str!("ops_f64_bits.wgsl"),
            DType::F64 => include_str!("arithmetic.wgsl"),
            _ => concat!(include_str!("arithmetic.wgsl"), include_str!("ops.wgsl")),
        }
    }
}

/// What the adapter told, or why no elementwise kernel takes a problem there.
pub(super) fn admits<'a>(
    problem: &Elementwise,
    device: &'a DeviceFacts,
) -> Result<&'a AdapterFacts, Decline> {
    let adapter = Elements::of(problem).admits([problem.op].into_iter(), device)?;
    too_large(problem, adapter.max_buffer.0, "buffers").map_or(Ok(adapter), Err)
}

/// Whether an operand is larger than something.
pub(super) fn too_large(problem: &Elementwise, limit: u64, what: &str) -> Option<Decline> {
    let lens = [("lhs", problem.lhs_len()), ("rhs", problem.rhs_len()), ("the result", problem.out_len())];
    over(lens, problem.dtype, limit, what)
}

/// The bytes one step may see of a buffer: indices stay far below 2^32.
pub(crate) fn most_bytes(adapter: &AdapterFacts) -> u64 {
    adapter.max_binding.0.min(1 << 30)
}

/// Types, operation and bindings in front of a kernel's own text.
pub(super) fn text(problem: &Elementwise, vector: u32, lhs: Load, rhs: Load, main: &str) -> String {
    let elements = Elements::of(problem);
    let mut text = elements.types(vector);
    let mut number = 0;
    let mut declare = |name: &str, access: &str, of: &str| {
        text.push_str(&format!("@group(0) @binding({number}) var<storage, {access}> {name}: array<{of}>;\n"));
        number += 1;
    };
    for (name, load) in [("lhs", lhs), ("rhs", rhs)] {
        match load {
            Load::Nothing => (),
            Load::Vector => declare(name, "read", "V"),
            Load::Repeated => declare(name, "read", "T"),
        }
    }
    declare("result", "read_write", "V");
    if is_undefined_somewhere(problem) {
        declare("status", "read_write", "atomic<u32>");
    }
    text.push_str(match is_undefined_somewhere(problem) {
        true => include_str!("ops_i32_undefined.wgsl"),
        false => elements.ops(),
    });
    text + &each(problem.op, vector, lhs, rhs) + main
}

/// The function of one vector of the result.
fn each(op: ElementwiseOp, vector: u32, lhs: Load, rhs: Load) -> String {
    let part = |name: &str, load: Load, lane: &str| match load {
        Load::Vector if vector > 1 => format!("A({name}.{lane})"),
        _ => format!("A({name})"),
    };
    let type_of = |load: Load| if load == Load::Vector { "V" } else { "T" };
    let mut takes = format!("a: {}", type_of(lhs));
    if rhs != Load::Nothing {
        takes.push_str(&format!(", b: {}", type_of(rhs)));
    }
    let lanes: Vec<String> = ["x", "y", "z", "w"][..vector as usize]
        .iter()
        .map(|lane| match rhs {
            Load::Nothing => format!("T(op_{}({}))", op.name(), part("a", lhs, lane)),
            _ => format!("T(op_{}({}, {}))", op.name(), part("a", lhs, lane), part("b", rhs, lane)),
        })
        .collect();
    format!("fn each({takes}) -> V {{\n    return V({});\n}}\n", lanes.join(", "))
}

/// The buffers in the order of the text, each whole.
pub(super) fn bindings(problem: &Elementwise) -> Vec<Binding> {
    let mut bindings = vec![Binding::read(BindTarget::Input(0))];
    if matches!(problem.op, ElementwiseOp::Binary(_)) {
        bindings.push(Binding::read(BindTarget::Input(1)));
    }
    bindings.push(Binding::write(BindTarget::Out));
    if is_undefined_somewhere(problem) {
        bindings.push(Binding::write(BindTarget::Status));
    }
    bindings
}

/// Arithmetic operations per element, as the texts spell them; WGSL's own functions count as 16, about what drivers
/// make of them.
pub(crate) fn flops(op: ElementwiseOp) -> u64 {
    match op {
        ElementwiseOp::Unary(op) => match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Relu => 1,
            UnaryOp::Exp | UnaryOp::Log => 16 + 4,
            UnaryOp::Sigmoid => 16 + 6,
            UnaryOp::Gelu => 16 + 12,
            UnaryOp::Tanh => 16 + 16,
        },
        ElementwiseOp::Binary(BinaryOp::Pow) => 32 + 16,
        ElementwiseOp::Binary(BinaryOp::Min | BinaryOp::Max) => 3,
        ElementwiseOp::Binary(_) => 1,
    }
}
