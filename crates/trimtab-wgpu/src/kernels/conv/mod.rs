//! The kernels of the operation conv. Halves are summed as f32; the bias is added, then the function applied, before a result is stored.

mod direct;
mod halves;
mod implicit;

use crate::kernels::elementwise::shader::{Elements, most_bytes};
use crate::kernels::{Kernels, adapter_with, over};
use crate::program::{BindTarget, Binding, Needs};
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, Channels, Conv, DType, Decline, DeviceFacts, Flops, UnaryOp, Work,
    erase,
};

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(implicit::ImplicitKernel), erase(direct::DirectWindows), erase(halves::HalfWindows)]
}

/// Rounds of all loops of an invocation on software adapters: lavapipe leaves loops after 65,535, counted over all of them, and
/// says nothing.
const MOST_ROUNDS: u64 = 32_768;

/// Why no kernel takes a problem on a device, or the adapter.
fn admits<'a>(p: &Conv, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    if let Some(act) = p.act.filter(|act| p.dtype == DType::F64 && *act != UnaryOp::Relu) {
        return Err(Decline::from(format!("WGSL has no {act} of 64-bit floats")));
    }
    let adapter = adapter_with(Needs::of(p.dtype), device)?;
    let operands =
        [("the operand", p.operand_len()), ("the weights", p.weights_len()), ("the result", p.out_len())];
    let limit = most_bytes(adapter).min(adapter.max_buffer.0);
    over(operands, p.dtype, limit, "bindings").map_or(Ok(adapter), Err)
}

/// Whether loops of so many rounds are cut short.
fn too_long(rounds: u64, adapter: &AdapterFacts) -> Option<Decline> {
    let reason = || {
        format!(
            "takes {MOST_ROUNDS} rounds on software adapters, this needs {rounds}: longer loops are cut short there"
        )
    };
    (adapter.class == AdapterClass::Software && rounds > MOST_ROUNDS).then(|| Decline::from(reason()))
}

/// Types, buffers, operations, and how a sum ends, in front of a kernel's own text.
fn text(p: &Conv, rows: usize, main: &str) -> String {
    let mut text = Elements { dtype: p.dtype, by_bits: false }.types(1);
    let mut number = 0;
    let mut declare = |name: &str, access: &str| {
        text.push_str(&format!("@group(0) @binding({number}) var<storage, {access}> {name}: array<T>;\n"));
        number += 1;
    };
    declare("operand", "read");
    declare("weights", "read");
    if p.bias {
        declare("bias", "read");
    }
    declare("result", "read_write");
    text.push_str(&format!("@group(0) @binding(4) var<uniform> params: array<vec4<u32>, {rows}>;\n"));
    match (p.act, p.dtype) {
        (None, _) => (),
        (_, DType::F64) => text.push_str(include_str!("../fused/ops_f64.wgsl")),
        _ => text.push_str(Elements { dtype: p.dtype, by_bits: false }.ops()),
    }
    let biased = if p.bias { "sum + A(bias[channel])" } else { "sum" };
    let ended = p.act.map_or(biased.to_string(), |act| format!("op_{act}({biased})"));
    text.push_str(&format!("\nfn finished(sum: A, channel: u32) -> T {{\n    return T({ended});\n}}\n\n"));
    text + &crate::kernels::with_main(main)
}

/// The buffers in the order of the text, each whole.
fn bindings(p: &Conv) -> Vec<Binding> {
    let inputs = if p.bias { 3 } else { 2 };
    let mut bindings: Vec<Binding> = (0..inputs).map(|at| Binding::read(BindTarget::Input(at))).collect();
    bindings.push(Binding::write(BindTarget::Out));
    bindings
}

/// Elements from one image, channel, plane, row and element of a space to the next.
fn strides(channels: Channels, count: usize, space: [usize; 3]) -> [usize; 5] {
    let whole: usize = space.iter().product();
    match channels {
        Channels::First => [count * whole, whole, space[1] * space[2], space[2], 1],
        Channels::Last => [count * whole, 1, space[1] * space[2] * count, space[2] * count, count],
    }
}

/// What a kernel does that reads so many elements, by so many invocations.
fn work(p: &Conv, reads: u64, invocations: u64, lanes: u32) -> Work {
    Work {
        flops: Flops(p.flops()),
        bytes: Bytes(reads.saturating_add(p.out_len()).saturating_mul(p.dtype.size())),
        launches: u32::from(p.out_len() > 0),
        threads: 1,
        lanes,
        invocations,
        ..Work::default()
    }
}
