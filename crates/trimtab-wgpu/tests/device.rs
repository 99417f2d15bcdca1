//! A GPU as a device: launches, what it declines, and that nothing is built twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

#[cfg(test)]
mod shared;

use shared::{DIVIDES, NEGATES, Simple, alone, devices, find, problem};
use trimtab_core::{Device, KernelId, LaunchError, Point, Work};
use trimtab_operands::{Executor, HostLaunch, Slice, SliceMut};

fn kernels() -> Vec<Simple> {
    let divides = Simple { has_status: true, has_rhs: true, ..Simple::new("divides", DIVIDES) };
    vec![Simple::new("negates", NEGATES), divides, Simple::new("panics", NEGATES)]
}

const POINT: Point = Point::new(&[64]);

#[test]
fn a_launch_computes_in_the_callers_memory_and_can_tell_the_kernels_time() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let kernel = find(&device, "negates");
        for len in [1usize, 2, 63, 1000, 3_000_001] {
            let problem = problem(&format!("elementwise.neg:f32:{len}"));
            let lhs: Vec<f32> = (0..len).map(|at| at as f32).collect();
            let (a, none) = (Slice::F32(&lhs), Slice::None);
            let mut out = vec![f32::NAN; len];
            device.launch(kernel, &problem, &POINT, &[a, none], SliceMut::F32(&mut out)).unwrap();
            assert!(lhs.iter().zip(&out).all(|(a, b)| *a == -*b), "{len}");
            out.fill(f32::NAN);
            let point = Point::new(&[128]);
            let time = device.launch_host(
                HostLaunch { kernel, problem: &problem, point: &point, inputs: &[a, none] },
                SliceMut::F32(&mut out),
                true,
            );
            assert_eq!(time.unwrap().is_some(), device.has_clock().unwrap());
            assert!(lhs.iter().zip(&out).all(|(a, b)| *a == -*b), "{len}");
        }
    }
}

#[test]
fn a_launch_on_the_device_reads_and_writes_buffers_that_stay_there() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let (kernel, problem) = (find(&device, "negates"), problem("elementwise.neg:f32:1000"));
        let data: Vec<f32> = (0..1000).map(|at| at as f32).collect();
        let from = device.upload(bytemuck::cast_slice(&data)).unwrap();
        let to = device.allocate(4000).unwrap();
        let back = device.allocate(4000).unwrap();
        for _ in 0..3 {
            device.launch_on(kernel, &problem, &POINT, &[&from], &to).unwrap();
            device.launch_on(kernel, &problem, &POINT, &[&to], &back).unwrap();
        }
        let mut result = vec![0f32; 1000];
        device.download(&back, bytemuck::cast_slice_mut(&mut result)).unwrap();
        assert_eq!(result, data);
        let small = device.allocate(3996).unwrap();
        let error = device.launch_on(kernel, &problem, &POINT, &[&small], &to).unwrap_err();
        let expected = LaunchError::Operand { operand: "lhs", dtype: "f32", found: 999, needed: 1000 };
        assert_eq!(error, expected);
        assert!(device.launch_on(kernel, &problem, &POINT, &[&from, &from], &to).is_err());
        assert!(device.launch_on(kernel, &problem, &POINT, &[], &to).is_err());
    }
}

#[test]
fn operands_that_do_not_fit_the_problem_and_settings_of_another_kernel_are_refused() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let (kernel, problem) = (find(&device, "negates"), problem("elementwise.neg:f32:8"));
        let (good, short, whole) = ([1f32; 8], [1f32; 7], [1i32; 8]);
        let mut out = [0f32; 8];
        let mut launch = |kernel, point: &Point, lhs: Slice<'_>| {
            device.launch(kernel, &problem, point, &[lhs, Slice::None], SliceMut::F32(&mut out))
        };
        assert!(launch(kernel, &POINT, Slice::F32(&good)).is_ok());
        assert!(matches!(launch(kernel, &POINT, Slice::F32(&short)), Err(LaunchError::Operand { .. })));
        assert!(matches!(launch(kernel, &POINT, Slice::I32(&whole)), Err(LaunchError::Operand { .. })));
        assert!(matches!(launch(kernel, &POINT, Slice::None), Err(LaunchError::Operand { .. })));
        assert!(matches!(launch(kernel, &Point::EMPTY, Slice::F32(&good)), Err(LaunchError::Point(_))));
        assert!(launch(KernelId(9_999), &POINT, Slice::F32(&good)).is_err());
    }
}

#[test]
fn an_integer_divided_by_zero_is_the_callers_error_wherever_the_operands_are() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let (kernel, problem) = (find(&device, "divides"), problem("elementwise.div:i32:100"));
        let (lhs, mut rhs) = (vec![12i32; 100], vec![3i32; 100]);
        let mut out = vec![0i32; 100];
        let launch = |rhs: &[i32], out: &mut [i32]| {
            device.launch(kernel, &problem, &POINT, &[Slice::I32(&lhs), Slice::I32(rhs)], SliceMut::I32(out))
        };
        launch(&rhs, &mut out).unwrap();
        assert_eq!(out, [4; 100]);
        rhs[57] = 0;
        let error = launch(&rhs, &mut out).unwrap_err();
        assert!(error.is_callers() && error.to_string().starts_with("division by zero"), "{error}");
        let a = device.upload(bytemuck::cast_slice(&lhs)).unwrap();
        let b = device.upload(bytemuck::cast_slice(&rhs)).unwrap();
        let c = device.allocate(400).unwrap();
        assert_eq!(device.launch_on(kernel, &problem, &POINT, &[&a, &b], &c), Err(error));
        // The next is not blamed.
        rhs[57] = 3;
        launch(&rhs, &mut out).unwrap();
        device.write(&b, bytemuck::cast_slice(&rhs)).unwrap();
        device.launch_on(kernel, &problem, &POINT, &[&a, &b], &c).unwrap();
    }
}

#[test]
fn a_kernel_that_panics_when_asked_declines_and_what_no_buffer_holds_is_declined_with_the_numbers() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let small = problem("elementwise.neg:f32:8");
        let panics = find(&device, "panics");
        let reason = device.declines(panics, &small).unwrap().to_string();
        assert!(reason.contains("panics when asked"), "{reason}");
        assert!(device.space(panics, &small).points().is_empty());
        let kernel = find(&device, "negates");
        assert_eq!(device.declines(kernel, &small), None);
        assert_eq!(device.space(kernel, &small).points().len(), 2);
        assert_eq!(device.work(kernel, &small, &POINT).invocations, 8);
        assert_eq!(device.work(KernelId(9_999), &small, &POINT), Work::default());
        let largest = device.facts().adapter.as_ref().unwrap().max_buffer.0;
        let huge = problem(&format!("elementwise.neg:f32:{}", largest / 4 + 1));
        let reason = device.declines(kernel, &huge).unwrap().to_string();
        assert!(reason.contains(&largest.to_string()), "{reason}");
        assert!(device.space(kernel, &huge).points().is_empty());
        assert!(device.bench(&huge, trimtab_core::Nanos::MAX).is_err());
    }
}

#[test]
fn no_pipeline_is_built_twice_whichever_device_asks() {
    let _alone = alone();
    let text = Box::leak(NEGATES.replace("-lhs[at]", "-(lhs[at])").into_boxed_str());
    let kernels = [Simple::new("once", text)];
    let (first, second) = (devices(&kernels), devices(&kernels));
    for (first, second) in first.iter().zip(&second) {
        let run = |device: &trimtab_wgpu::GpuDevice, len: usize| {
            let problem = problem(&format!("elementwise.neg:f32:{len}"));
            let (lhs, mut out) = (vec![1f32; len], vec![0f32; len]);
            let (a, out) = (Slice::F32(&lhs), SliceMut::F32(&mut out));
            device.launch(find(device, "once"), &problem, &POINT, &[a, Slice::None], out).unwrap();
        };
        let before = first.pipelines_built();
        run(first, 10);
        assert_eq!(first.pipelines_built(), before + 1);
        for len in [10, 11, 5000] {
            run(first, len);
            run(second, len);
        }
        assert_eq!(second.pipelines_built(), before + 1);
        if first.facts().adapter.as_ref().unwrap().pipeline_cache {
            assert!(first.pipeline_data().is_some_and(|data| !data.is_empty()));
            assert_eq!(first.pipeline_data(), None, "nothing new was built");
        }
    }
}

#[test]
fn several_threads_launch_at_once_and_each_gets_its_own_result() {
    let _alone = alone();
    for device in devices(&kernels()) {
        let (kernel, divides) = (find(&device, "negates"), find(&device, "divides"));
        std::thread::scope(|scope| {
            for thread in 1..=4usize {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..50usize {
                        let len = 1000 * thread + round % 3;
                        let ask = problem(&format!("elementwise.neg:f32:{len}"));
                        let (lhs, mut out) = (vec![thread as f32; len], vec![0f32; len]);
                        let (a, c) = (Slice::F32(&lhs), SliceMut::F32(&mut out));
                        device.launch(kernel, &ask, &POINT, &[a, Slice::None], c).unwrap();
                        assert!(out.iter().all(|value| *value == -(thread as f32)));
                        // Every other thread divides by zero; the others are not blamed.
                        let ask = problem("elementwise.div:i32:64");
                        let (rhs, mut out) = ([(thread % 2) as i32; 64], [0i32; 64]);
                        let (a, b) = (Slice::I32(&[6; 64]), Slice::I32(&rhs));
                        let ran = device.launch(divides, &ask, &POINT, &[a, b], SliceMut::I32(&mut out));
                        assert_eq!(ran.is_ok(), thread % 2 == 1);
                    }
                });
            }
        });
    }
}
