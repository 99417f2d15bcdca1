//! `trimtab tune k.cu` as a user runs it, with a driver that runs kernels on the processor.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use support::{Ended, Machine, json};
// Built with the tests, found as the driver by its name.
use trimtab_standin_cuda as _;

const KERNEL: &str = r#"#include "times.h"
extern "C" __global__ void scale(const float *given, float *out, int n) {
    for (int step = 0; step < PER; step++) {
        int at = (blockIdx.x * PER + step) * BLOCK + threadIdx.x;
        if (at < n) out[at] = BY * given[at] + (BAD && at == 7);
    }
}
"#;

const SPACE: &str = r#"
[parameters]
BLOCK = { from = 32, to = 2048, times = 2, default = 64 }
PER = [1, 2]
BAD = "flag"
[sizes]
n = 5000
[kernel]
entry = "scale"
groups = "(n + BLOCK * PER - 1) // (BLOCK * PER)"
workgroup = "BLOCK"
[[arguments]]
name = "given"
type = "f32"
shape = "n"
[[arguments]]
name = "out"
type = "f32"
shape = "n"
output = true
[[arguments]]
name = "n"
type = "i32"
value = "n"
[reference]
kernel = "plain.c"
"#;

/// A machine with the stand-in as its driver, and with what else `libraries` has.
fn tune(machine: &Machine, libraries: &str) -> Ended {
    let beside = std::env::current_exe().unwrap();
    let stand_in = beside.parent().unwrap().join("libtrimtab_standin_cuda.so");
    std::fs::copy(stand_in, machine.path().join("libcuda.so.1")).unwrap();
    let plain = "void plain(const float *given, float *out, int n) { for (int at = 0; at < n; at++) out[at] = 3 * given[at]; }";
    for (name, text) in
        [("k.cu", KERNEL), ("times.h", "#define BY 3\n"), ("space.toml", SPACE), ("plain.c", plain)]
    {
        std::fs::write(machine.path().join(name), text).unwrap();
    }
    let mut command = machine.command(&["tune", "k.cu", "--space", "space.toml", "--name", "cu", "--json"]);
    command.env("LD_LIBRARY_PATH", format!("{}:{libraries}", machine.path().display()));
    Ended::of(command.current_dir(machine.path()))
}

#[test]
fn where_only_the_compiler_is_missing_that_is_what_is_said() {
    let machine = Machine::new();
    let ended = tune(&machine, "");
    // Where NVRTC is installed, the kernel runs.
    if ended.code == Some(0) {
        return;
    }
    assert_eq!(ended.code, Some(2), "{}{}", ended.out, ended.err);
    for part in ["k.cu is CUDA C", "(libcuda, is here)", "(libnvrtc, is missing here)", "nvcc"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
}

#[test]
#[ignore = "takes NVRTC, found by LD_LIBRARY_PATH: cargo xtask cuda installs it"]
fn a_kernel_in_cuda_c_is_tuned_checked_and_each_failure_is_one_points() {
    let machine = Machine::new();
    let libraries = trimtab_testing::variable("LD_LIBRARY_PATH").unwrap_or_default();
    let ended = tune(&machine, &libraries);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let mut lines = json(&ended.out);
    let last = lines.pop().unwrap();
    assert_eq!((&last["evaluations"], &last["ended_by"]), (&json!(28), &json!("space")));
    for line in &lines {
        let point = &line["point"];
        let is_bad = point["BAD"] == true;
        let is_large = point["BLOCK"].as_i64().unwrap() > 1024;
        assert_eq!(line["value"].is_f64(), !is_bad && !is_large, "{line}");
        if is_bad && !is_large {
            assert_eq!(line["failure_kind"], "wrong", "{line}");
            assert!(line["failure"].as_str().unwrap().contains("`out` differs at [7]"), "{line}");
        }
    }
    // Made-up times are the same each time: the best is the least of them.
    let times = lines.iter().filter_map(|line| line["value"].as_f64());
    assert_eq!(last["best"]["value"].as_f64(), times.reduce(f64::min));
    let best: Value = serde_json::from_str(&machine.ok(&["best", "cu", "--format", "json"])).unwrap();
    assert_eq!(best["best"]["point"], last["best"]["point"], "{best}");
}
