//! What is common to the shaders of recipes: types, the recipe as an expression, its inputs, and which can be computed at all.

use crate::kernels::elementwise::shader::{self, Elements};
use crate::kernels::over;
use crate::program::{BindTarget, Binding, Writer, binding_number};
use trimtab_core::{
    AdapterFacts, Bytes, DType, Decline, DeviceFacts, ElementwiseOp, Flops, Fused, LaunchError, ReduceOp,
    Step, Varies, Work,
};

const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// Expressions of a place: the number of the vector, its row, and the number of the vector in its row.
pub(super) struct At<'a> {
    pub all: &'a str,
    pub row: &'a str,
    pub column: &'a str,
}

/// The operation of a step, where it is one.
fn operation(step: Step) -> Option<ElementwiseOp> {
    match step {
        Step::Unary(op) => Some(ElementwiseOp::Unary(op)),
        Step::Binary(op) => Some(ElementwiseOp::Binary(op)),
        _ => None,
    }
}

fn ends_in_extreme(fused: &Fused) -> bool {
    matches!(fused.end(), Some((ReduceOp::Min | ReduceOp::Max, _)))
}

/// Whether doubles are handled as their bits: nothing but signs and comparisons.
fn by_bits(fused: &Fused) -> bool {
    let plain = fused.product().is_none() && (fused.end().is_none() || ends_in_extreme(fused));
    fused.dtype == DType::F64 && plain && fused.steps().filter_map(operation).all(shader::by_bits)
}

/// The elements the shaders see.
pub(super) fn elements(fused: &Fused) -> Elements {
    Elements { dtype: fused.dtype, by_bits: by_bits(fused) }
}

/// What the adapter told, or why no kernel takes the recipe there.
pub(super) fn admits<'a>(fused: &Fused, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    let adapter = elements(fused).admits(fused.steps().filter_map(operation), device)?;
    if let (true, true, Some((op, _))) = (elements(fused).needs().f64, ends_in_extreme(fused), fused.end()) {
        return Err(Decline::from(format!(
            "finds the {} of 64-bit floats by their bits, which WGSL does not show of computed ones",
            op.name()
        )));
    }
    too_large(fused, adapter.max_buffer.0, "buffers").map_or(Ok(adapter), Err)
}

/// As [`admits`] for kernels of another operation, which see all of an operand or none; `part` is what they compute.
pub(super) fn admits_part<P>(
    part: Result<P, Decline>,
    fused: &Fused,
    device: &DeviceFacts,
) -> Result<P, Decline> {
    let (part, adapter) = (part?, admits(fused, device)?);
    over_a_binding(fused, adapter).map_or(Ok(part), Err)
}

/// As [`admits_part`] for a launch.
pub(super) fn launched_part<P>(
    part: Result<P, Decline>,
    fused: &Fused,
    writer: &Writer<'_>,
) -> Result<P, LaunchError> {
    let part = part.and_then(|part| over_a_binding(fused, writer.adapter).map_or(Ok(part), Err));
    part.map_err(|decline| LaunchError::Kernel(decline.to_string()))
}

/// Whether an operand is larger than something.
fn too_large(fused: &Fused, limit: u64, what: &str) -> Option<Decline> {
    let name = |input: usize| format!("input {}", char::from(b'a' + input as u8));
    let inputs = (0..fused.inputs()).map(|input| (name(input), fused.input_len(input)));
    over(inputs.chain([("the result".to_string(), fused.out_len())]), fused.dtype, limit, what)
}

/// Whether an operand is larger than a step may see of a buffer.
fn over_a_binding(fused: &Fused, adapter: &AdapterFacts) -> Option<Decline> {
    too_large(fused, shader::most_bytes(adapter), "bindings")
}

/// The inputs of the steps: a product's operands are not among them.
fn inputs(fused: &Fused) -> std::ops::Range<usize> {
    if fused.product().is_some() { 2..fused.inputs() } else { 0..fused.inputs() }
}

/// The storage buffers the steps read, in the order of [`declared`].
pub(super) fn bindings(fused: &Fused) -> Vec<Binding> {
    let numbers = (fused.numbers() > 0).then_some(fused.inputs());
    inputs(fused).chain(numbers).map(|place| Binding::read(BindTarget::Input(place as u8))).collect()
}

/// Declares the buffers of [`bindings`]; `position` is that of each among the bindings of the step.
pub(super) fn declared(fused: &Fused, position: impl Fn(usize) -> usize) -> String {
    let mut text = String::new();
    let inputs = inputs(fused).map(|input| {
        let of = if fused.varies(input).inner() { "V" } else { "T" };
        (format!("input_{input}"), of)
    });
    let numbers = (fused.numbers() > 0).then(|| ("numbers".to_string(), "T"));
    for (at, (name, of)) in inputs.chain(numbers).enumerate() {
        let number = binding_number(position(at));
        text.push_str(&format!("@group(0) @binding({number}) var<storage, read> {name}: array<{of}>;\n"));
    }
    text
}

/// The functions: `recipe` of single values, and `each` of vectors, which [`call`] calls.
pub(super) fn functions(fused: &Fused, vector: u32) -> String {
    let mut ops = elements(fused).ops().to_string();
    if elements(fused).needs().f64 {
        ops.push_str(include_str!("ops_f64.wgsl"));
    }
    let product = fused.product().is_some();
    // Name, type where it is a vector's, and whether each lane has its own.
    let mut takes: Vec<(String, &str, bool)> = Vec::new();
    let computed = if vector == 1 { "A".to_string() } else { format!("vec{vector}<A>") };
    if product {
        takes.push(("p".to_string(), &computed, true));
    }
    for input in inputs(fused) {
        let is_vector = fused.varies(input).inner();
        takes.push((format!("i{input}"), if is_vector { "V" } else { "T" }, is_vector));
    }
    takes.extend((0..fused.numbers()).map(|number| (format!("n{number}"), "A", false)));
    let names = |of: &dyn Fn(&(String, &str, bool)) -> String| -> String {
        takes.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let lane = |lane: &str| {
        let value = |(name, _, is_vector): &(String, &str, bool)| match *is_vector && vector > 1 {
            true => format!("A({name}.{lane})"),
            false => format!("A({name})"),
        };
        format!("T(recipe({}))", names(&value))
    };
    let lanes: Vec<String> = LANES[..vector as usize].iter().copied().map(lane).collect();
    let (single, each) =
        (names(&|(name, _, _)| format!("{name}: A")), names(&|(name, of, _)| format!("{name}: {of}")));
    let (steps, last) = steps(fused);
    let lanes = lanes.join(", ");
    format!(
        "{ops}
fn recipe({single}) -> A {{
{steps}    return {last};
}}

fn each({each}) -> V {{
    return V({lanes});
}}
"
    )
}

/// The steps as statements, and the name of the last value.
fn steps(fused: &Fused) -> (String, String) {
    let (mut text, mut waiting) = (String::new(), Vec::<String>::new());
    for (at, step) in fused.steps().enumerate() {
        let mut taken = || waiting.pop().unwrap_or_default();
        let value = match step {
            Step::Input(input) => format!("i{input}"),
            Step::Number(number) => format!("n{number}"),
            Step::Product => "p".to_string(),
            Step::Unary(op) => {
                text.push_str(&format!("    let s{at} = op_{}({});\n", op.name(), taken()));
                format!("s{at}")
            }
            Step::Binary(op) => {
                let (right, left) = (taken(), taken());
                text.push_str(&format!("    let s{at} = op_{}({left}, {right});\n", op.name()));
                format!("s{at}")
            }
        };
        waiting.push(value);
    }
    (text, waiting.pop().unwrap_or_default())
}

/// Statements that read what is the same everywhere: numbers, and inputs of one element.
pub(super) fn read_once(fused: &Fused) -> String {
    let mut text = String::new();
    for input in inputs(fused).filter(|&input| fused.varies(input) == Varies::Nowhere) {
        text.push_str(&format!("    let single_{input} = input_{input}[0];\n"));
    }
    for number in 0..fused.numbers() {
        text.push_str(&format!("    let number_{number} = A(numbers[{number}]);\n"));
    }
    text
}

/// The call of `each` for a place, `product` being the value it starts from. What is the same everywhere was read before
/// ([`read_once`]).
pub(super) fn call(fused: &Fused, product: Option<&str>, at: &At<'_>) -> String {
    let inputs = inputs(fused).map(|input| match fused.varies(input) {
        Varies::All => format!("input_{input}[{}]", at.all),
        Varies::Rows => format!("input_{input}[{}]", at.row),
        Varies::Columns => format!("input_{input}[{}]", at.column),
        Varies::Nowhere => format!("single_{input}"),
    });
    let numbers = (0..fused.numbers()).map(|number| format!("number_{number}"));
    let values: Vec<String> = product.map(str::to_string).into_iter().chain(inputs).chain(numbers).collect();
    format!("each({})", values.join(", "))
}

/// Whether any input is found by its row, and whether any by its column.
pub(super) fn places(fused: &Fused) -> [bool; 2] {
    [Varies::Rows, Varies::Columns].map(|wanted| inputs(fused).any(|input| fused.varies(input) == wanted))
}

/// Arithmetic operations of the steps for one element.
pub(super) fn flops(fused: &Fused) -> u64 {
    fused.steps().filter_map(operation).map(shader::flops).sum()
}

/// The work of a kernel of another operation, with the steps and what they read added and so many bytes it does not read left out.
pub(super) fn with_steps(fused: &Fused, work: Work, unread: u64) -> Work {
    let elements = inputs(fused).map(|input| fused.input_len(input)).fold(0, u64::saturating_add);
    let bytes = elements.saturating_mul(fused.dtype.size());
    Work {
        flops: Flops(work.flops.0.saturating_add(fused.len().saturating_mul(flops(fused)))),
        bytes: Bytes(work.bytes.0.saturating_sub(unread).saturating_add(bytes)),
        ..work
    }
}

/// Which kernel a wrapped one of another operation is: the name of ours, both versions, and its class.
macro_rules! identity_within {
    ($version:expr) => {
        fn name(&self) -> std::borrow::Cow<'static, str> {
            let other = self.0.name();
            format!("gpu.fused.{}", other.rsplit('.').next().unwrap_or(&other)).into()
        }

        fn version(&self) -> trimtab_core::KernelVersion {
            trimtab_core::KernelVersion::of_sources(&[&$version.0, &self.0.version().0])
        }

        fn class(&self) -> trimtab_core::VariantClass {
            self.0.class()
        }
    };
}
pub(super) use identity_within;
