//! What a space file says of a kernel: read or refused with a reason, never a panic.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use trimtab::advanced::study::{KERNEL_TABLES, ParameterSpace, read_space_beside};
use trimtab_fuzz::{place, put};
use trimtab_kernelfile::read_spec;

/// Larger spaces take longer to count out than to read.
const MOST_POINTS: usize = 1_000;

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = place("kernel_spec");
    put(&place.join("naive.c"), b"void naive(float *out, int n, int m) { out[0] = n; }");
    for ending in ["cl", "wgsl", "c", "rs"] {
        let text = "kernel void k(float *out) { tx ty px py rx ry depth tiled } @compute fn main() { tx }";
        put(&place.join(format!("k.{ending}")), text.as_bytes());
    }
    place
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(definition) = read_space_beside(data, &KERNEL_TABLES) else { return };
    let points = definition.parameters.iter().map(|known| known.values.len());
    if points.fold(1, usize::saturating_mul) > MOST_POINTS {
        return;
    }
    let Ok(space) = ParameterSpace::new(definition) else { return };
    for ending in ["cl", "wgsl", "c", "rs"] {
        let kernel = PLACE.join(format!("k.{ending}"));
        match read_spec(data, &PLACE.join("space.toml"), &kernel, &space, &[]) {
            Ok(spec) => assert!(spec.fingerprint().len() == 32 && !spec.arguments.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
