//! A device that somebody else wrote takes part like ours: it is planned for, explained, placed and quarantined.

use trimtab::advanced::core::{DeviceKind, Patience, Problem};
use trimtab::advanced::plan::Standing;
use trimtab::{Axis, Builder, Offload, Runtime, Tensor};
use worker_device::Worker;

fn builder() -> Builder {
    let worker = Worker::new(env!("CARGO_BIN_EXE_worker"));
    Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().add_device(worker)
}

#[test]
fn a_problem_the_user_sends_elsewhere_runs_on_the_worker_and_gives_the_same_result() {
    let elsewhere = Offload { all: Some(0), ..Offload::default() };
    let rt = builder().device("worker").offload(elsewhere).build().unwrap();
    let here =
        Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().device("cpu").build().unwrap();
    let a = Tensor::from_fn(&[40, 30], |i| (i % 13) as f32 - 6.0).unwrap();
    let b = Tensor::from_fn(&[30, 20], |i| (i % 7) as f32).unwrap();
    assert_eq!(rt.matmul(&a, &b).unwrap(), here.matmul(&a, &b).unwrap());
    let problem: Problem = "matmul:f32:40x20x30".parse().unwrap();
    let winner = rt.explain(&problem).unwrap();
    assert_eq!(&*winner.winner().unwrap().device_id, "worker");
    let lazy = (rt.lazy(&a).matmul(&b) * 2.0 + 1.0).relu().sum(Axis::All);
    let expected = (here.lazy(&a).matmul(&b) * 2.0 + 1.0).relu().sum(Axis::All).item().unwrap();
    assert_eq!(lazy.item().unwrap(), expected);
    assert!(rt.activity().uploads > 0, "{:?}", rt.activity());
}

#[test]
fn beside_the_processor_it_is_explained_with_its_transfer_overhead_and_loses_small_problems() {
    let rt = builder().patience(Patience::Estimate).build().unwrap();
    let problem: Problem = "elementwise.add:f32:1000".parse().unwrap();
    let decision = rt.explain(&problem).unwrap();
    assert_eq!(&*decision.winner().unwrap().device_id, "cpu");
    let worker = decision.rivals.iter().find(|rival| &*rival.device_id == "worker").unwrap();
    let out = matches!(worker.standing, Standing::Dominated(_) | Standing::Estimated { .. });
    assert!(out, "{:?}", worker.standing);
    assert_eq!(rt.devices()[0].facts().kind, DeviceKind::Cpu);
    assert!(rt.devices().iter().any(|device| device.facts().id == "worker"));
}

#[test]
fn two_devices_of_one_name_are_refused() {
    let error = builder().add_device(Worker::new("nowhere")).build().map(drop).unwrap_err().to_string();
    assert!(error.contains("worker"), "{error}");
}

#[test]
fn a_worker_that_cannot_be_started_costs_its_launches_and_the_processor_answers() {
    let elsewhere = Offload { all: Some(0), ..Offload::default() };
    let worker = Worker::new("no-such-program");
    let rt = Runtime::builder().ignore_environment().wisdom_in_memory().no_blas();
    let rt = rt.add_device(worker).offload(elsewhere).build().unwrap();
    let a = Tensor::from(vec![1.0f32, -2.0, 3.0]);
    assert_eq!(rt.relu(&a).unwrap().to_vec(), [1.0, 0.0, 3.0]);
    assert_eq!((rt.lazy(&a) + 1.0).to_vec().unwrap(), [2.0, -1.0, 4.0]);
}
