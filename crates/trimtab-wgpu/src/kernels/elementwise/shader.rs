//! What is common to the elementwise shaders: types, operations, bindings, and which problems they can take at all.

use crate::program::{BindTarget, Binding, Needs, PARAMS_BINDING};
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

/// Elements of a vector: the widest that fits, and single ones.
///
/// Vectors of two are between the two others (2^20 additions on lavapipe: 1.3, 1.6, 2.6 ms), so they are only for rows
/// that four do not divide.
pub(super) fn vector_sizes(problem: &Elementwise, fits: impl Fn(u32) -> bool) -> Vec<u32> {
    let most: &[u32] = match problem.dtype {
        DType::F64 if by_bits(problem.op) => &[],
        DType::F64 => &[2],
        _ => &[4, 2],
    };
    most.iter().copied().find(|&size| fits(size)).into_iter().chain([1]).collect()
}

/// What of the adapter the shaders of a problem need.
pub(super) fn needs(problem: &Elementwise) -> Needs {
    let f64 = problem.dtype == DType::F64 && !by_bits(problem.op);
    Needs { f16: problem.dtype == DType::F16, f64, subgroups: false }
}

/// Why no elementwise kernel takes a problem on a device.
pub(super) fn declines(problem: &Elementwise, device: &DeviceFacts) -> Option<Decline> {
    let Some(adapter) = device.adapter.as_deref() else {
        return Some(Decline::because("not a GPU"));
    };
    let needs = needs(problem);
    if needs.f16 && !adapter.f16 {
        return Some(Decline::because("the adapter has no 16-bit floats"));
    }
    let is_function = problem.op.is_function() || problem.op == ElementwiseOp::Unary(UnaryOp::Sqrt);
    if needs.f64 && is_function {
        return Some(Decline::from(format!("WGSL has no {} of 64-bit floats", problem.op.name())));
    }
    if needs.f64 && !adapter.f64 {
        return Some(Decline::because("the adapter has no 64-bit floats"));
    }
    over(problem, adapter.max_buffer.0, "buffers")
}

/// Whether an operand is larger than something.
pub(super) fn over(problem: &Elementwise, limit: u64, what: &str) -> Option<Decline> {
    let lens = [("lhs", problem.lhs_len()), ("rhs", problem.rhs_len()), ("the result", problem.out_len())];
    lens.into_iter().find_map(|(name, len)| {
        let bytes = len.saturating_mul(problem.dtype.size());
        let reason = || format!("takes {what} up to {limit} bytes, {name} has {bytes}");
        (bytes > limit).then(|| Decline::from(reason()))
    })
}

/// The bytes one step may see of a buffer: indices stay far below 2^32.
pub(crate) fn most_bytes(adapter: &AdapterFacts) -> u64 {
    adapter.max_binding.0.min(1 << 30)
}

/// Types, operation and bindings in front of a kernel's own text.
pub(super) fn text(problem: &Elementwise, vector: u32, lhs: Load, rhs: Load, main: &str) -> String {
    let bits = by_bits(problem.op);
    let (element, computed, ops) = match problem.dtype {
        DType::F32 => ("f32", "f32", include_str!("ops.wgsl")),
        DType::F16 => ("f16", "f32", include_str!("ops.wgsl")),
        DType::I32 if is_undefined_somewhere(problem) => {
            ("i32", "i32", include_str!("ops_i32_undefined.wgsl"))
        }
        DType::I32 => ("i32", "i32", include_str!("ops_i32.wgsl")),
        DType::F64 if bits => ("vec2<u32>", "vec2<u32>", include_str!("ops_f64_bits.wgsl")),
        DType::F64 => ("f64", "f64", include_str!("ops_f64.wgsl")),
    };
    let vector_type = if vector == 1 { element.to_string() } else { format!("vec{vector}<{element}>") };
    let mut text = format!("alias T = {element};\nalias A = {computed};\nalias V = {vector_type};\n");
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
    text.push_str(ops);
    text.push_str(&each(problem.op, vector, lhs, rhs));
    text.push_str(&main.replace("PARAMS", &PARAMS_BINDING.to_string()));
    text
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
