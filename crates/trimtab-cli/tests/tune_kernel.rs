//! `trimtab tune FILE` as a user runs it: kernels in C, C++, Rust, OpenCL C and WGSL; every way a kernel can go wrong; every mistake in its
//! space file.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use support::{Ended, Machine, json};
use trimtab_testing::NOT_RUN;

fn write(machine: &Machine, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(machine.path().join(name), text).unwrap();
    }
}

/// The lines of a search, and the last line.
fn searched(machine: &Machine, args: &[&str]) -> (Vec<Value>, Value) {
    let mut command = machine.command(&[&["tune"], args, &["--json"]].concat());
    let ended = Ended::of(command.current_dir(machine.path()));
    assert!(matches!(ended.code, Some(0 | 1)), "{args:?}: {}{}", ended.out, ended.err);
    let mut lines = json(&ended.out);
    let last = lines.pop().unwrap();
    (lines, last)
}

/// What a call that is refused says.
fn refused(machine: &Machine, args: &[&str]) -> String {
    let mut command = machine.command(&[&["tune"], args].concat());
    let ended = Ended::of(command.current_dir(machine.path()));
    assert_eq!(ended.code, Some(2), "{args:?}: {}{}", ended.out, ended.err);
    ended.err
}

const REFERENCE: &str = "void twice(const float *given, float *out, int n) { for (int i = 0; i < n; i++) out[i] = 2 * given[i]; }";

/// A space file over one parameter for kernels that double `n` numbers.
fn space(parameter: &str, kernel: &str) -> String {
    format!(
        "[parameters]\n{parameter}\n[sizes]\nn = 1000\n[kernel]\n{kernel}\n\
         [[arguments]]\nname = \"given\"\ntype = \"f32\"\nshape = \"n\"\n\
         [[arguments]]\nname = \"out\"\ntype = \"f32\"\nshape = \"n\"\noutput = true\n\
         [[arguments]]\nname = \"n\"\ntype = \"i32\"\nvalue = \"n\"\n\
         [reference]\nkernel = \"twice.c\"\n"
    )
}

#[test]
fn one_kernel_never_ends_a_search_and_every_failure_has_its_evidence() {
    let machine = Machine::new();
    let kernel = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        enum { good, crash, hang, wrong, lazy, memory, leave, beside, broken };
        #if way == 8
        #error this one cannot be built
        #endif
        void kernel(const float *given, float *out, int n) {
            printf("way %d\n", way);
            fflush(stdout);
            for (int i = 0; i < n && way != lazy; i++) out[i] = 2 * given[i] + (way == wrong && i == 7);
            if (way == crash) *(volatile int *)8 = 1;
            for (volatile int on = way == hang; on;) {}
            while (way == memory) memset(malloc(10000000), 1, 10000000);
            if (way == leave) exit(3);
            if (way == beside) out[n] = 1;
        }"#;
    let space = space("way = { from = 0, to = 8 }", "entry = \"kernel\"\nflags = \"-O1\"");
    write(&machine, &[("kernel.c", kernel), ("space.toml", &space), ("twice.c", REFERENCE)]);
    let args = ["kernel.c", "--space", "space.toml", "--timeout", "3s", "--memory", "500M", "--name", "ways"];
    let (lines, last) = searched(&machine, &args);
    assert_eq!((&last["best"]["point"], &last["evaluations"]), (&json!({"way": 0}), &json!(9)), "{lines:#?}");
    assert_eq!((&last["failed"], &last["ended_by"]), (&json!(8), &json!("space")));
    assert!(last["best"]["value"].as_f64().unwrap() < 1.0);
    for (way, kind, part) in [
        (1, "crash", "signal 11"),
        (2, "timeout", "ended after"),
        (3, "wrong", "`out` differs at [7]: got"),
        (4, "wrong", "got NaN"),
        (5, "memory", "MiB"),
        (6, "exit", "exit code 3"),
        (7, "wrong", "writes beside `out`"),
        (8, "compile", "exit code 1"),
    ] {
        let failed = lines.iter().find(|line| line["point"]["way"] == way).unwrap();
        assert_eq!(failed["failure_kind"], kind, "{failed}");
        assert!(failed["failure"].as_str().unwrap().contains(part), "{failed}");
    }
    let crash = lines.iter().find(|line| line["point"]["way"] == 1).unwrap();
    assert_eq!(crash["output"][0], "way 1");
    let broken = lines.iter().find(|line| line["point"]["way"] == 8).unwrap();
    assert!(broken["output"].to_string().contains("this one cannot be built"), "{broken}");
    // Studies, reports and results for others are those of any study.
    let (again, _) = searched(&machine, &args);
    assert!(again.len() == 9 && again.iter().all(|line| line["earlier"] == true));
    assert!(machine.ok(&["study", "report", "ways"]).contains("timeout"));
    assert_eq!(machine.ok(&["best", "ways", "--format", "args"]).trim(), "--way 0");
    assert!(machine.ok(&["study", "export", "ways"]).contains("\"correct\""));
}

#[test]
fn kernels_in_c_plus_plus_and_rust_get_their_arguments_and_parameters() {
    let machine = Machine::new();
    let cpp = "namespace mine { template <int step> void run(const float *given, float *out, int n) {
                   for (int s = 0; s < step; s++) for (int i = s; i < n; i += step) out[i] = 2 * given[i]; }
               void twice(const float *given, float *out, int n) { run<step>(given, out, n); } }";
    let rust = "fn twice(given: &[f32], out: &mut [f32], n: i32) {
                    assert!(given.len() == n as usize && out.len() == SCALED && cfg!(on) == on);
                    for (out, given) in out.chunks_mut(step).zip(given.chunks(step)) {
                        for (out, given) in out.iter_mut().zip(given) { *out = 2.0 * given; }
                    }
                }";
    let in_cpp = space("step = [1, 4]", "entry = \"mine::twice\"");
    let in_rust =
        space("step = [1, 4]\non = \"flag\"", "entry = \"twice\"\ndefines = { SCALED = \"2 * n // 2\" }");
    let cpp =
        cpp.replace("<int step>", "<int s_>").replace("s < step", "s < s_").replace("i += step", "i += s_");
    write(&machine, &[("k.cpp", &cpp), ("k.rs", rust), ("twice.c", REFERENCE)]);
    write(&machine, &[("cpp.toml", &in_cpp), ("rust.toml", &in_rust)]);
    for (file, space, points) in [("k.cpp", "cpp.toml", 2), ("k.rs", "rust.toml", 4)] {
        let (lines, last) = searched(&machine, &[file, "--space", space, "--repeats", "1"]);
        assert_eq!((lines.len(), &last["failed"]), (points, &json!(0)), "{file}: {lines:#?}");
    }
}

#[test]
fn a_t1_input_file_says_how_its_kernel_is_called() {
    let machine = Machine::new();
    let t1 = json!({
        "General": {"BenchmarkName": "scale"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": "step", "Type": "int", "Values": "[1] + [2**i for i in range(1, 3)]", "Default": 3},
                {"Name": "unused", "Type": "int", "Values": "[7]", "Default": [7]},
            ],
            "Conditions": [{"Expression": "step != 2", "Parameters": ["step"]}],
        },
        "KernelSpecification": {
            "Language": "C", "KernelName": "scale", "KernelFile": "scale.c", "ProblemSize": 1000,
            "Arguments": [
                {"Name": "given", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Random", "FillValue": 1.0, "Size": "ProblemSize"},
                {"Name": "out", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite", "FillType": "Constant", "FillValue": 0.0, "Size": "ProblemSize[0] + max(step)", "Output": 1},
                {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
            ],
        },
    });
    let kernel = "void scale(const float *given, float *out, int n) { for (int i = 0; i < n; i += step) out[i] = 2 * given[i]; }";
    write(&machine, &[("scale.c", kernel), ("t1.json", &t1.to_string())]);
    let (lines, last) = searched(&machine, &["scale.c", "--space", "t1.json", "--evals", "9"]);
    assert_eq!(
        (lines.len(), &last["failed"], &last["ended_by"]),
        (2, &json!(0), &json!("space")),
        "{lines:?}"
    );
    assert_eq!(last["best"]["point"]["unused"], 7);
    let told = refused(&machine, &["scale.c", "--space", "t1.json", "--size", "step=2"]);
    assert!(told.contains("is a parameter"), "{told}");
    write(&machine, &[("t1.json", &t1.to_string().replace("\"int32\"", "\"int33\""))]);
    let told = refused(&machine, &["scale.c", "--space", "t1.json"]);
    assert!(told.contains("t1.json: its `KernelSpecification`: `n` has the type `int33`"), "{told}");
}

#[test]
fn results_are_compared_with_files_and_sizes_are_searched_each_by_itself() {
    let machine = Machine::new();
    let npy = |numbers: &[f32]| {
        let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
        text.push_str(&" ".repeat(128 - 10 - 1 - text.len()));
        text.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(text.bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    };
    std::fs::write(machine.path().join("given.npy"), npy(&[1.0, 2.0, 3.0])).unwrap();
    std::fs::write(machine.path().join("expected.npy"), npy(&[3.0, 6.0, 9.0])).unwrap();
    let kernel =
        "void scale(const float *given, float *out) { for (int i = 0; i < 3; i++) out[i] += by * given[i]; }";
    let space = "[parameters]\nby = [2, 3]\n[kernel]\n\
                 [[arguments]]\nname = \"given\"\ntype = \"f32\"\nshape = 3\nfill = \"given.npy\"\n\
                 [[arguments]]\nname = \"out\"\ntype = \"f32\"\nshape = 3\nfill = 0\noutput = true\nexpected = \"expected.npy\"\n";
    write(&machine, &[("scale.c", kernel), ("space.toml", space)]);
    let (lines, last) = searched(&machine, &["scale.c", "--space", "space.toml"]);
    assert_eq!(last["best"]["point"], json!({"by": 3}), "{lines:#?}");
    let wrong = lines.iter().find(|line| line["point"]["by"] == 2).unwrap();
    assert!(wrong["failure"].as_str().unwrap().contains("at [0]: got 2, wanted 3"), "{wrong}");

    write(
        &machine,
        &[("twice.c", REFERENCE), ("sizes.toml", &self::space("step = [1, 2]", "entry = \"k\""))],
    );
    write(
        &machine,
        &[(
            "k.c",
            "void k(const float *given, float *out, int n) { for (int s = 0; s < step; s++) for (int i = s; i < n; i += step) out[i] = 2 * given[i]; }",
        )],
    );
    let (_, last) =
        searched(&machine, &["k.c", "--space", "sizes.toml", "--size", "n=10,100", "--repeats", "1"]);
    assert_eq!(last["bests"].as_array().unwrap().len(), 2, "{last}");
    assert_eq!(last["bests"][1]["sizes"], json!({"n": 100}));
}

/// Whether a driver is missing, which `cargo xtask test` is told.
fn is_missing(what: &str, ended: &Ended) -> bool {
    let parts = ["there is no OpenCL", "but no device", "no GPU", "without GPUs"];
    let is = ended.code == Some(2) && parts.iter().any(|part| ended.err.contains(part));
    if is {
        let _ = std::io::stderr().write_all(format!("{NOT_RUN} {what}: {}\n", ended.err.trim()).as_bytes());
    }
    is
}

#[test]
fn the_examples_of_kernels_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tune");
    for name in ["stencil", "matmul-wgsl"] {
        let machine = Machine::with_gpus();
        let mut command = trimtab_testing::command(examples.join(name).join("run.sh"));
        command.env("TRIMTAB", env!("CARGO_BIN_EXE_trimtab")).env("TRIMTAB_WISDOM_DIR", machine.path());
        let ended = Ended::of(command.args(["--evals", "3", "--repeats", "1", "--json", "--size", "n=64"]));
        if is_missing(&format!("the example examples/tune/{name}"), &ended) {
            continue;
        }
        let lines = json(&ended.ok());
        assert_eq!(lines.len(), 4, "{name}: {lines:?}");
        assert_eq!(
            (&lines[3]["failed"], &lines[3]["bests"][0]["sizes"]),
            (&json!(0), &json!({"n": 64})),
            "{lines:?}"
        );
    }
}

#[test]
fn a_workgroup_beyond_the_devices_limits_is_one_failed_point() {
    let opencl = "kernel void k(global const float *given, global float *out, int n) {
                      int i = get_global_id(0); if (i < n) out[i] = 2 * given[i]; }";
    let wgsl = "@group(0) @binding(0) var<storage, read> given: array<f32>;
                @group(0) @binding(1) var<storage, read_write> out: array<f32>;
                @compute @workgroup_size(side) fn k(@builtin(global_invocation_id) id: vec3<u32>) {
                    if (id.x < arrayLength(&out)) { out[id.x] = 2.0 * given[id.x]; } }";
    let groups = "groups = \"(n + side - 1) // side\"";
    for (file, text, kernel) in
        [("k.cl", opencl, format!("{groups}\nworkgroup = \"side\"")), ("k.wgsl", wgsl, groups.to_string())]
    {
        let machine = Machine::with_gpus();
        let space = space("side = [64, 8192]", &kernel);
        write(&machine, &[(file, text), ("space.toml", &space), ("twice.c", REFERENCE)]);
        let mut command =
            machine.command(&["tune", file, "--space", "space.toml", "--repeats", "1", "--json"]);
        let ended = Ended::of(command.current_dir(machine.path()));
        if is_missing(&format!("limits of workgroups for {file}"), &ended) {
            continue;
        }
        let lines = json(&ended.ok());
        let over = lines.iter().find(|line| line["point"]["side"] == 8192).unwrap();
        assert!(
            over["failure_kind"] == "start" && over["failure"].as_str().unwrap().contains("limit is"),
            "{over}"
        );
        assert_eq!(lines.last().unwrap()["best"]["point"]["side"], 64, "{lines:?}");
    }
}

#[test]
fn every_mistake_in_a_space_file_is_told_with_its_line_and_what_to_do() {
    let machine = Machine::new();
    let kernel = "void k(const float *given, float *out, int n) { for (int i = 0; i < n; i += step) out[i] = 2 * given[i]; }";
    let good = space("step = [1, 2]", "entry = \"k\"");
    write(
        &machine,
        &[
            ("k.c", kernel),
            ("twice.c", REFERENCE),
            ("k.cu", ""),
            ("k.cl", "kernel void k(global float *out) { out[0] = step; }"),
        ],
    );
    std::fs::write(machine.path().join("short.npy"), b"\x93NUMPY\x01\x00").unwrap();
    for (was, is, line, part) in [
        ("entry = \"k\"", "entry = \"q\"", 6, "no entry point `q`"),
        ("entry = \"k\"", "entri = \"k\"", 6, "`entri` of [kernel] is not known; there are: entry"),
        ("entry = \"k\"", "groups = \"n // tile\"", 6, "`tile` is no axis"),
        ("entry = \"k\"", "flags = \"-O{level}\"", 6, "{level}, which is no parameter; there are: step"),
        ("entry = \"k\"", "workgroup = \"step\"", 6, "OpenCL's"),
        ("entry = \"k\"", "depends = [\"tile.h\"]", 6, "no file"),
        ("entry = \"k\"", "tolerance = -1", 6, "not below zero"),
        ("step = [1, 2]", "step = [1, 2]\nmore = [1]", 3, "`more` is never used"),
        ("n = 1000", "n = 0", 4, "above zero"),
        ("n = 1000", "step = 10", 4, "a parameter already"),
        ("type = \"f32\"", "type = \"f33\"", 7, "there are: f32"),
        ("shape = \"n\"", "shape = \"m\"", 10, "`m` is no axis"),
        ("shape = \"n\"", "shape = \"n\"\nfill = \"no.npy\"", 11, "no file"),
        ("shape = \"n\"", "shape = \"n\"\nfill = \"short.npy\"", 11, "ends within its header"),
        (
            "shape = \"n\"",
            "shape = \"n\"\nfill = \"zeros\"",
            11,
            "\"random\", \"count\", a number, a .npy file",
        ),
        ("shape = \"n\"", "value = [1, 2]", 10, "a uniform buffer of WGSL"),
        ("value = \"n\"", "fill = 3", 16, "needs one of `value`, `shape` and `local`"),
        ("output = true", "output = 1", 15, "true or false"),
        ("output = true", "fill = 0", 0, "no argument is an output"),
        ("kernel = \"twice.c\"", "kernel = \"thrice.c\"", 21, "no file"),
        ("kernel = \"twice.c\"", "kernel = \"twice.c\"\nentry = \"thrice\"", 22, "no entry point `thrice`"),
        ("kernel = \"twice.c\"", "kernel = \"twice.c\"\npoint = { tile = 1 }", 22, "no value of a parameter"),
    ] {
        assert!(good.contains(was), "{was}");
        write(&machine, &[("space.toml", &good.replacen(was, is, 1))]);
        let told = refused(&machine, &["k.c", "--space", "space.toml"]);
        let place = if line == 0 { "space.toml: ".to_string() } else { format!("space.toml: line {line}: ") };
        assert!(told.contains(&place) && told.contains(part), "{is}: {told}");
    }
    write(&machine, &[("space.toml", &good)]);
    for (args, part) in [
        (
            &["k.c", "--space", "space.toml", "--compiler", "no-such-compiler"][..],
            "no program `no-such-compiler`",
        ),
        (&["k.cu", "--space", "space.toml"], "NVRTC"),
        (&["missing.c", "--space", "space.toml"], "cannot be read"),
        (&["k.c", "--space", "missing.toml"], "cannot be read"),
        (&["k.cl", "--space", "space.toml"], "has no `groups`"),
        (&["k.c", "--space", "space.toml", "--size", "n=-1"], "above zero"),
        (&["k.c"], "--space"),
    ] {
        let told = refused(&machine, args);
        assert!(told.contains(part), "{args:?}: {told}");
    }
    let told = Ended::of(
        machine.command(&["tune-command", "x {step}", "--space", "space.toml"]).current_dir(machine.path()),
    )
    .err;
    assert!(told.contains("line 3: `sizes` is not known") && told.contains("trimtab tune FILE"), "{told}");
    // A reference that does not run ends the search: nothing could be checked.
    write(
        &machine,
        &[("twice.c", "void twice(const float *given, float *out, int n) { __builtin_trap(); }")],
    );
    let told = refused(&machine, &["k.c", "--space", "space.toml", "--fresh"]);
    assert!(told.contains("the reference") && told.contains("signal"), "{told}");
}
