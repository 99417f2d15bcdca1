//! Kernels that misbehave cost themselves, not the device: each test ends with a good kernel that still works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod shared;

use shared::{NEGATES, Simple, alone, devices, find, problem};
use trimtab_core::{Device, Failure, FailureKind, Nanos, Point};
use trimtab_tune::Stopwatch;
use trimtab_wgpu::GpuDevice;

const SECOND: Nanos = Nanos::from_millis(1_000);
const PATIENCE: Nanos = Nanos::from_millis(60_000);
const POINT: Point = Point::new(&[64]);

/// Workgroups that keep two cores busy for about three seconds.
const HANGING_GROUPS: u32 = 1_500;

/// Writes nothing, though it looks as if it might.
const WRITES_NOTHING: &str = "
override workgroup: u32 = 64u;
@group(0) @binding(0) var<storage, read> lhs: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@compute @workgroup_size(workgroup)
fn main(@builtin(local_invocation_index) local: u32) {
    if (params[0].x == 0u) {
        out[local] = lhs[local];
    }
}
";

/// Counts before it writes; with many workgroups, for seconds. No loop is longer because lavapipe ends an invocation's loops
/// after 65,535 rounds.
const HANGS: &str = "
override workgroup: u32 = 64u;
@group(0) @binding(0) var<storage, read> lhs: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@compute @workgroup_size(workgroup)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>) {
    var word = local + group.x;
    for (var round = 0u; round < 60000u; round++) {
        word = (word ^ (word >> 7u)) * 1664525u + round;
    }
    if (group.x == 0u && local < params[0].x) {
        out[local] = select(-lhs[local], 0.0, word == 77u);
    }
}
";

/// Reads and writes far behind its buffers.
const OUTSIDE: &str = "
override workgroup: u32 = 64u;
@group(0) @binding(0) var<storage, read> lhs: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@compute @workgroup_size(workgroup)
fn main(@builtin(local_invocation_index) local: u32) {
    let far = local * 1000003u + 500000000u;
    out[far] = lhs[far + 77u];
    if (local < params[0].x) {
        out[local] = -lhs[local];
    }
}
";

fn kernels() -> Vec<Simple> {
    vec![
        Simple::new("good", NEGATES),
        Simple::new("broken", "@compute @workgroup_size(64) fn main() { no_such_function(); }"),
        Simple { workgroup_bytes: 1 << 30, ..Simple::new("greedy", NEGATES) },
        Simple { workgroup: 1 << 20, ..Simple::new("wide", NEGATES) },
        Simple::new("lazy", WRITES_NOTHING),
        Simple::new("outside", OUTSIDE),
        Simple { groups: Some(HANGING_GROUPS), ..Simple::new("hangs", HANGS) },
    ]
}

fn fails(device: &GpuDevice, name: &str, point: &Point, timeout: Nanos) -> Failure {
    let problem = problem("elementwise.neg:f32:50");
    device.verify(find(device, name), &problem, point, timeout).unwrap_err()
}

fn works(device: &GpuDevice) {
    let problem = problem("elementwise.neg:f32:50");
    assert_eq!(device.verify(find(device, "good"), &problem, &POINT, SECOND), Ok(()));
}

#[test]
fn a_text_that_does_not_compile_is_a_compile_failure_with_the_compilers_words() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let failure = fails(&device, "broken", &POINT, SECOND);
        assert_eq!(failure.kind, FailureKind::Compile, "{failure}");
        assert!(failure.message.contains("no_such_function"), "{failure}");
        works(&device);
    }
}

#[test]
fn a_kernel_over_the_limits_is_refused_before_the_driver_sees_it() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let built = device.pipelines_built();
        let failure = fails(&device, "greedy", &POINT, SECOND);
        assert_eq!(failure.kind, FailureKind::Compile, "{failure}");
        assert!(failure.message.contains("1073741824"), "{failure}");
        let failure = fails(&device, "wide", &Point::new(&[1 << 20]), SECOND);
        assert_eq!(failure.kind, FailureKind::Compile, "{failure}");
        assert!(failure.message.contains("1048576"), "{failure}");
        // The transfers' own pipeline may have been built in between.
        assert!(device.pipelines_built() <= built + 1);
        works(&device);
    }
}

#[test]
fn a_kernel_that_writes_nothing_is_wrong_even_where_the_right_result_lay_before() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let problem = problem("elementwise.neg:f32:50");
        let mut bench = device.bench(&problem, SECOND).unwrap();
        bench.run(find(&device, "good"), &POINT, 1, SECOND).unwrap();
        let failure = bench.run(find(&device, "lazy"), &POINT, 1, SECOND).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Wrong, "{failure}");
        bench.run(find(&device, "good"), &POINT, 3, SECOND).unwrap();
    }
}

#[test]
fn a_users_kernel_that_reaches_behind_its_buffers_costs_nobody_else_anything() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let problem = problem("elementwise.neg:f32:50");
        let mut bench = device.bench(&problem, SECOND).unwrap();
        // Where indices are cut to the end of a buffer, its own result may be wrong.
        if let Err(failure) = bench.run(find(&device, "outside"), &POINT, 1, SECOND) {
            assert_eq!(failure.kind, FailureKind::Wrong, "{failure}");
        }
        bench.run(find(&device, "good"), &POINT, 1, SECOND).unwrap();
        works(&device);
    }
}

#[test]
fn a_hanging_kernel_costs_its_time_out_and_the_device_answers_once_it_is_idle_again() {
    let _alone = alone();
    for device in devices(&kernels()) {
        works(&device);
        let problem = problem("elementwise.neg:f32:50");
        let mut bench = device.bench(&problem, SECOND).unwrap();
        bench.run(find(&device, "good"), &POINT, 1, SECOND).unwrap();
        let watch = Stopwatch::start();
        let failure = bench.run(find(&device, "hangs"), &POINT, 1, Nanos::from_millis(100)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
        let early = bench.run(find(&device, "good"), &POINT, 1, SECOND);
        if let Err(failure) = &early {
            assert_eq!(failure.kind, FailureKind::Untried, "{failure}");
        }
        while let Err(failure) = bench.run(find(&device, "good"), &POINT, 1, SECOND) {
            assert_eq!(failure.kind, FailureKind::Untried, "{failure}");
            assert!(watch.elapsed() < PATIENCE, "{failure}");
        }
        works(&device);
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_and_what_is_freed_can_be_had_again() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let largest = device.facts().adapter.as_ref().unwrap().max_buffer.0;
        let before = device.memory();
        let mut held = Vec::new();
        // Software adapters use the machine's memory: far enough to be sure is not far enough to fill it.
        while held.len() as u64 * largest < 6 << 30 {
            match device.allocate(largest) {
                Ok(buffer) => held.push(buffer),
                Err(error) => {
                    assert!(error.to_string().contains(&(largest / 4 * 4).to_string()), "{error}");
                    break;
                }
            }
        }
        assert!(device.allocate(largest + 1).is_err());
        drop(held);
        assert_eq!(device.memory().live_bytes, before.live_bytes);
        works(&device);
    }
}
