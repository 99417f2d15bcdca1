//! The real binary with a CUDA driver, by a stand-in that runs kernels on the processor, and without one.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use support::{Ended, Machine, json};
// Built with the tests, found as the driver by its name.
use trimtab_standin_cuda as _;

const PROBLEM: &str = "elementwise.add:f32:5000";

/// A machine without Vulkan, whose libraries are looked for in its own folder first.
fn run(machine: &Machine, args: &[&str]) -> Ended {
    let nothing = machine.file("nothing");
    let mut command = machine.command(args);
    command.env("VK_DRIVER_FILES", &nothing).env("VK_ICD_FILENAMES", &nothing);
    Ended::of(command.env("LD_LIBRARY_PATH", machine.path()))
}

/// The same with a file in the place of the driver.
fn with_driver() -> Machine {
    let machine = Machine::with_gpus();
    let beside = std::env::current_exe().unwrap();
    let stand_in = beside.parent().unwrap().join("libtrimtab_standin_cuda.so");
    std::fs::copy(stand_in, machine.path().join("libcuda.so.1")).unwrap();
    machine
}

#[test]
fn without_a_driver_that_is_one_line_and_everything_else_works() {
    let machine = Machine::with_gpus();
    let shown = run(&machine, &["devices"]).ok();
    // Where there is a card of NVIDIA's, there is a driver.
    if !shown.contains("cuda0") {
        let told: Vec<&str> = shown.lines().filter(|line| line.contains("CUDA")).collect();
        assert!(
            matches!(told[..], [line] if line.contains("no CUDA driver: ") || line.contains("no device")),
            "{shown}"
        );
    }
    run(&machine, &["run", "matmul:f32:8x8x8"]).ok();
}

#[test]
fn a_file_that_is_no_driver_is_one_line_too() {
    let machine = Machine::with_gpus();
    std::fs::write(machine.path().join("libcuda.so.1"), b"no library").unwrap();
    let shown = run(&machine, &["devices"]).ok();
    assert!(shown.contains("no CUDA driver: "), "{shown}");
}

#[test]
fn devices_tune_explain_and_run_work_as_with_any_device() {
    let machine = with_driver();
    let shown = run(&machine, &["devices", "-v"]).ok();
    for part in ["cuda0: ", "sm_80", "cuda.matmul.blocked"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let on = ["--device", "cuda0", "--json"];
    let tuned =
        json(&run(&machine, &[&["tune", PROBLEM, "--budget", "20s"], &on[..]].concat()).ok()).remove(0);
    assert_eq!(tuned["device"], "cuda0", "{tuned}");
    assert!(tuned["kernel"].as_str().unwrap().starts_with("cuda.elementwise."), "{tuned}");
    let explained = json(&run(&machine, &[&["explain", PROBLEM], &on[..]].concat()).ok()).remove(0);
    assert_eq!((&explained["kernel"], &explained["point"]), (&tuned["kernel"], &tuned["point"]));
    let compiled = explained["compiled"].as_str().unwrap();
    assert!(compiled.contains("registers a thread") && compiled.contains("limited by"), "{compiled}");
    let ran = json(&run(&machine, &[&["run", PROBLEM], &on[..]].concat()).ok()).remove(0);
    assert_eq!((&ran["agrees"], &ran["device"]), (&true.into(), &"cuda0".into()));
    // What was built is kept beside wisdom.
    let blobs = std::fs::read_dir(machine.path().join("blobs")).unwrap().flatten();
    assert!(blobs.map(|blob| blob.file_name()).any(|name| name.to_string_lossy().starts_with("built-cuda")));
}

#[test]
fn selftest_checks_kernels_and_says_what_there_was_no_time_for() {
    let machine = with_driver();
    let args = ["selftest", "--device", "cuda0", "--budget", "10ms", "--json"];
    let told = json(&run(&machine, &args).ok());
    assert_eq!(told[0]["device"], "cuda0", "{told:?}");
    assert_eq!(told[0]["wrong"].as_array().map(Vec::len), Some(0), "{told:?}");
    let counted = |key: &str| told[0][key].as_u64().unwrap();
    assert!(counted("right") > 0 && counted("left") > 0, "{told:?}");
    // What could not be used at all is in the result, too.
    assert!(told.iter().any(|line| line["usable"] == false && line["reason"].is_string()), "{told:?}");
}
