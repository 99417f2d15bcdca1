//! The kernels of a GPU, a folder an operation, a file a variant, each shader beside its Rust file.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod arg;
pub mod attention;
pub mod cast;
pub mod concat;
pub mod conv;
pub mod elementwise;
pub mod fft;
pub mod fused;
pub mod gather;
mod indices;
mod lines;
pub mod mask;
pub mod matmul;
pub mod pool;
pub mod put;
pub mod reduce;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod sort;
pub mod transpose;

use crate::program::{Binding, Dispatch, Gpu, Needs};
use std::borrow::Cow;
use std::fmt::Display;
use trimtab_core::{AdapterFacts, AnyKernel, DType, Decline, DeviceFacts};

/// Kernels of a GPU.
pub type Kernels = Vec<Box<dyn AnyKernel<Gpu>>>;

/// Every kernel in order of preference.
pub fn all() -> Kernels {
    let all = [
        matmul::kernels(),
        elementwise::kernels(),
        reduce::kernels(),
        transpose::kernels(),
        conv::kernels(),
        pool::kernels(),
        rows::kernels(),
        attention::kernels(),
        scan::kernels(),
        sort::kernels(),
        arg::kernels(),
        cast::kernels(),
        fft::kernels(),
        fused::kernels(),
        gather::kernels(),
        scatter::kernels(),
        mask::kernels(),
        concat::kernels(),
        put::kernels(),
    ];
    all.into_iter().flatten().collect()
}

/// A shader's text with `$MAIN` as the head of the entry point, which all share; `$LANE_MAIN` knows its subgroup's lane.
fn with_main(text: &str) -> String {
    let main = include_str!("main.wgsl").trim_end();
    let lane = "    @builtin(subgroup_invocation_id) lane: u32,\n) {";
    text.replace("$LANE_MAIN", &main.replace(") {", lane)).replace("$MAIN", main)
}

/// A dispatch of workgroups of so many invocations in a row, which the text calls `WIDTH`.
fn in_a_row(
    text: Cow<'static, str>,
    width: u32,
    groups: [u32; 3],
    needs: Needs,
    bindings: Vec<Binding>,
    params: Vec<u32>,
) -> Dispatch {
    let (workgroup, constants) = ([width, 1, 1], vec![("WIDTH", f64::from(width))]);
    Dispatch { text, constants, needs, workgroup, workgroup_bytes: 0, groups, bindings, params }
}

/// What the adapter told, or why no kernel with these needs runs there.
fn adapter_with(needs: Needs, device: &DeviceFacts) -> Result<&AdapterFacts, Decline> {
    let adapter = device.adapter.as_deref().ok_or(Decline::because("not a GPU"))?;
    let lacks = |what: &str| Err(Decline::from(format!("the adapter has no {what}")));
    needs.missing_on(adapter).map_or(Ok(adapter), lacks)
}

/// Whether one of some operands, by name and length, is larger than something.
fn over<N: Display>(
    operands: impl IntoIterator<Item = (N, u64)>,
    dtype: DType,
    limit: u64,
    what: &str,
) -> Option<Decline> {
    operands.into_iter().find_map(|(name, len)| {
        let bytes = len.saturating_mul(dtype.size());
        let reason = || format!("takes {what} up to {limit} bytes, {name} has {bytes}");
        (bytes > limit).then(|| Decline::from(reason()))
    })
}
