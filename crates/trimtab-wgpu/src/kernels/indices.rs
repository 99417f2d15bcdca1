//! Indices of elements along an axis, as shader text, and what kernels that use them ask of an adapter.

use super::{adapter_with, over};
use crate::program::{Needs, spread_groups};
use trimtab_core::{AdapterFacts, DType, Decline, DeviceFacts, Problem};

/// Declared at binding 1; `place_of` gives the place that an index names, or one past the end, which it reports.
pub(super) fn text(index: DType) -> String {
    let (of, number) = match index {
        DType::I64 => ("vec2<u32>", WIDE),
        _ => ("i32", NARROW),
    };
    format!("@group(0) @binding(1) var<storage, read> indices: array<{of}>;\n{number}{PLACE}")
}

const NARROW: &str = "fn number_of(at: u32, len: u32) -> i32 { return indices[at]; }\n";

// What does not fit 32 bits is not there: an axis has fewer elements.
const WIDE: &str = "fn number_of(at: u32, len: u32) -> i32 {
    let index = indices[at];
    let low = bitcast<i32>(index.x);
    if (index.y == bitcast<u32>(low >> 31u)) {
        return low;
    }
    return bitcast<i32>(len);
}
";

const PLACE: &str = "fn place_of(at: u32, len: u32) -> u32 {
    let number = number_of(at, len);
    var place = bitcast<u32>(number);
    if (number < 0) {
        place = place + len;
    }
    if (place >= len) {
        atomicMax(&status[0], 0xffffffffu - at);
        return len;
    }
    return place;
}
";

/// An element as its bits.
pub(super) fn moved(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "vec2<u32>",
        DType::F16 => "f16",
        _ => "u32",
    }
}

/// What the adapter told, or why it cannot hold the operands.
pub(super) fn admits<'a>(
    problem: &Problem,
    len: u64,
    needs: Needs,
    device: &'a DeviceFacts,
) -> Result<&'a AdapterFacts, Decline> {
    let dtype = problem.dtype().unwrap_or(DType::F32);
    if !matches!(dtype, DType::F32 | DType::F16 | DType::F64 | DType::I32) {
        return Err(Decline::from(format!("does not compute with {dtype}")));
    }
    let adapter = adapter_with(needs, device)?;
    if problem.out_len() == 0 {
        return Err(Decline::because("there are no elements"));
    }
    // Elements are counted in 32 bits with room for a last stride, and a status tells the numbers of indices from other errors.
    let limit = adapter.max_binding.0.min(adapter.max_buffer.0).min(1 << 30);
    let bytes = problem.input_bytes().chain([problem.out_bytes()]).max().unwrap_or(0);
    let empty = problem.input_bytes().any(|bytes| bytes == 0);
    let none = || Decline::because("an operand has no elements");
    let decline = over([("an operand", bytes)], DType::U8, limit, "bindings")
        .or_else(|| over([("the axis", len)], DType::U8, 1 << 31, "an axis"))
        .or_else(|| empty.then(none));
    decline.map_or(Ok(adapter), Err)
}

/// Workgroups of so many invocations for so many items, so many of which an invocation handles.
pub(super) fn groups(items: u64, workgroup: u32, each: u32) -> u64 {
    items.div_ceil((u64::from(workgroup) * u64::from(each)).max(1))
}

/// Workgroups and items of an invocation worth trying for so many items in all; no two are the same program.
pub(super) fn choices(items: u64, adapter: &AdapterFacts) -> Vec<[u32; 2]> {
    let mut all: Vec<[u32; 2]> = Vec::new();
    for workgroup in super::lines::alone(items) {
        let fits = workgroup <= adapter.max_invocations.min(adapter.max_workgroup[0]);
        for each in [1, 4, 16] {
            let own = groups(items, workgroup, each);
            let known = |[other, each]: &[u32; 2]| *other == workgroup && groups(items, *other, *each) == own;
            if fits && !all.iter().any(known) && spread_groups(own, adapter).is_some() {
                all.push([workgroup, each]);
            }
        }
    }
    all
}
