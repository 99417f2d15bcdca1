//! A recipe in CUDA C: a function of single values, what it reads, and which can be computed at all.

use crate::kernels::elementwise::{OPS, flops, undefined};
use crate::kernels::{NUMBER, impossible};
use crate::program::{LaunchStep, StepArgument, adapter};
use std::borrow::Cow;
use trimtab_core::{
    Bytes, Decline, DeviceFacts, ElementwiseOp, Flops, Fused, LaunchError, Step, Varies, Work,
};

/// The operation of a step, where it is one.
fn operation(step: Step) -> Option<ElementwiseOp> {
    match step {
        Step::Unary(op) => Some(ElementwiseOp::Unary(op)),
        Step::Binary(op) => Some(ElementwiseOp::Binary(op)),
        _ => None,
    }
}

/// The inputs of the steps: a product's operands are not among them.
fn inputs(fused: &Fused) -> std::ops::Range<usize> {
    if fused.product().is_some() { 2..fused.inputs() } else { 0..fused.inputs() }
}

/// Why no kernel takes a recipe on a device.
pub(super) fn declines(fused: &Fused, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    let undefined = fused.steps().filter_map(operation).find_map(|op| undefined(op, fused.dtype));
    let lens = inputs(fused).map(|input| fused.input_len(input));
    undefined.or_else(|| impossible(lens.chain([fused.len(), fused.out_len()])))
}

/// The parameters that reading takes, each behind a comma.
pub(super) fn takes(fused: &Fused) -> String {
    let numbers = (fused.numbers() > 0).then_some("numbers".to_string());
    let names = inputs(fused).map(|input| format!("input_{input}")).chain(numbers);
    names.map(|name| format!(", const E* __restrict__ {name}")).collect()
}

/// The values of [`takes`].
pub(super) fn given(fused: &Fused) -> impl Iterator<Item = StepArgument> {
    let numbers = (fused.numbers() > 0).then_some(fused.inputs());
    inputs(fused).chain(numbers).map(|place| StepArgument::Input(place as u8))
}

/// The function `recipe`: of the product where there is one, of inputs and numbers.
pub(super) fn function(fused: &Fused) -> String {
    let product = fused.product().map(|_| "p".to_string());
    let inputs = inputs(fused).map(|input| format!("i{input}"));
    let names =
        product.into_iter().chain(inputs).chain((0..fused.numbers()).map(|number| format!("n{number}")));
    let takes = names.map(|name| format!("T {name}")).collect::<Vec<_>>().join(", ");
    let (mut text, mut waiting) = (String::new(), Vec::<String>::new());
    for (at, step) in fused.steps().enumerate() {
        let mut taken = || waiting.pop().unwrap_or_default();
        let value = match step {
            Step::Input(input) => format!("i{input}"),
            Step::Number(number) => format!("n{number}"),
            Step::Product => "p".to_string(),
            Step::Unary(op) => {
                text.push_str(&format!("  T s{at} = op_{}({});\n", op.name(), taken()));
                format!("s{at}")
            }
            Step::Binary(op) => {
                let (right, left) = (taken(), taken());
                text.push_str(&format!("  T s{at} = op_{}({left}, {right});\n", op.name()));
                format!("s{at}")
            }
        };
        waiting.push(value);
    }
    let last = waiting.pop().unwrap_or_default();
    format!("__device__ __forceinline__ T recipe({takes}) {{\n{text}  return {last};\n}}\n")
}

/// The call of `recipe` at a place, `product` being the value it starts from.
pub(super) fn call(fused: &Fused, product: Option<&str>, [all, row, column]: [&str; 3]) -> String {
    let inputs = inputs(fused).map(|input| {
        let index = match fused.varies(input) {
            Varies::All => all,
            Varies::Rows => row,
            Varies::Columns => column,
            Varies::Nowhere => "0",
        };
        format!("loaded(input_{input}[{index}])")
    });
    let numbers = (0..fused.numbers()).map(|number| format!("loaded(numbers[{number}])"));
    let values: Vec<String> = product.map(str::to_string).into_iter().chain(inputs).chain(numbers).collect();
    format!("recipe({})", values.join(", "))
}

/// Puts the recipe and what a kernel of another operation needs of it in front of that kernel's own text.
pub(super) fn within(fused: &Fused, step: &mut LaunchStep, defined: &str) -> Result<(), LaunchError> {
    let strange = || LaunchError::Kernel("a source does not begin as expected".to_string());
    let own = step.source.strip_prefix(NUMBER).ok_or_else(strange)?;
    step.source = Cow::Owned([NUMBER, OPS, &function(fused), defined, own].concat());
    Ok(())
}

/// The work of a kernel of another operation, with the steps and what they read added, and so many bytes it does not read left out.
pub(super) fn with_steps(fused: &Fused, work: Work, unread: u64) -> Work {
    let each: u64 = fused.steps().filter_map(operation).map(flops).sum();
    let elements = inputs(fused).map(|input| fused.input_len(input)).fold(0, u64::saturating_add);
    let bytes = elements.saturating_mul(fused.dtype.size());
    Work {
        flops: Flops(work.flops.0.saturating_add(fused.len().saturating_mul(each))),
        bytes: Bytes(work.bytes.0.saturating_sub(unread).saturating_add(bytes)),
        ..work
    }
}

/// Which kernel a wrapped one of another operation is: the name of ours, both versions, and its class.
macro_rules! identity_within {
    ($version:expr) => {
        fn name(&self) -> std::borrow::Cow<'static, str> {
            let other = self.0.name();
            format!("cuda.fused.{}", other.rsplit('.').next().unwrap_or(&other)).into()
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
