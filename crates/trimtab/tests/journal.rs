//! The journal: what was decided, why, and what came of it. Reasons are shown on the processor and a GPU whose times are written
//! down. Needs an adapter; `cargo xtask test` installs Mesa's software Vulkan.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Negates, builder, numbers};
use trimtab::advanced::core::{Basis, Bytes, Constraints, LaunchError, Nanos, Patience, Problem};
use trimtab::advanced::plan::calibration::Calibration;
use trimtab::advanced::plan::{Reason, Rival, TuneRequest};
use trimtab::advanced::wisdom::{FactKey, Filter, Outcome, Stats};
use trimtab::{Axis, Entry, MAX_ENTRIES, Offload, Runtime, Why};

/// Writes down what every kernel takes for a problem on the processor and on the others.
fn measured(rt: &Runtime, problem: &str, here: Nanos, elsewhere: Nanos) {
    write_down(rt, problem, &|rival| if &*rival.device_id == "cpu" { here } else { elsewhere });
}

fn write_down(rt: &Runtime, problem: &str, takes: &dyn Fn(&Rival) -> Nanos) {
    let problem: Problem = problem.parse().unwrap();
    for rival in &rt.explain(&problem).unwrap().rivals {
        let device = rt.devices()[rival.device as usize].facts();
        let key = FactKey {
            device: device.fingerprint.0.clone(),
            kernel: rival.name.to_string(),
            version: rival.version.to_string(),
            problem: problem.to_string(),
            point: rival.point_name.clone(),
            condition: "quiet".into(),
        };
        let ns = takes(rival).0 as f64;
        rt.wisdom().record(key, Outcome::Timed(Stats::of(&[ns; 5]).unwrap()));
    }
    // Plans go, and what was read of wisdom so far.
    rt.forget(&Filter { problem: Some("elsewhere".to_string()), ..Filter::default() });
}

fn last(rt: &Runtime) -> Entry {
    rt.journal().entries().pop().unwrap()
}

const MATMUL: &str = "matmul:f32:64x64x64";

fn matmul(rt: &Runtime) -> Entry {
    let x = numbers::<f32>(&[64, 64]);
    rt.matmul(&x, &x).unwrap();
    let entry = last(rt);
    assert_eq!((entry.what.as_str(), entry.operations), (MATMUL, 1));
    entry
}

#[test]
fn an_estimate_is_the_model() {
    let entry = matmul(&builder().device("cpu").build().unwrap());
    assert_eq!((entry.why, entry.device.as_str()), (Why::Model, "cpu"), "{entry}");
    assert_eq!(entry.processor.unwrap().basis, Basis::Analytic);
    assert!(entry.other.is_none() && entry.note.is_empty(), "{entry}");
}

#[test]
fn measured_times_of_both_are_noted_with_what_handing_over_takes() {
    let rt = builder().build().unwrap();
    measured(&rt, MATMUL, Nanos::from_millis(10), Nanos::from_millis(50));
    let entry = matmul(&rt);
    assert_eq!((entry.why, entry.device.as_str()), (Why::Measured, "cpu"), "{entry}");
    let processor = entry.processor.unwrap();
    assert_eq!((processor.time, processor.basis), (Nanos::from_millis(10), Basis::Measured(5)));
    let (name, other) = entry.other.clone().unwrap();
    assert!(name.starts_with("gpu"));
    assert_eq!((other.time, other.basis), (Nanos::from_millis(50), Basis::Measured(5)));
    assert!(entry.note.contains(&format!("the transfer to {name} takes")), "{entry}");
    // And the other way round.
    rt.forget(&Filter::everything());
    measured(&rt, MATMUL, Nanos::from_millis(5_000), Nanos::from_millis(1));
    let entry = matmul(&rt);
    assert!((entry.why, entry.device.starts_with("gpu")) == (Why::Measured, true), "{entry}");
}

#[test]
fn a_limit_on_latency_that_only_the_processor_keeps_is_a_constraint() {
    let rt = builder().build().unwrap();
    measured(&rt, MATMUL, Nanos::from_millis(10), Nanos::from_millis(50));
    let limit = Constraints { latency_max: Some(Nanos::from_millis(20)), ..Constraints::default() };
    let entry = matmul(&rt.constrained(limit).unwrap());
    assert_eq!((entry.why, entry.device.as_str()), (Why::Constraint, "cpu"), "{entry}");
    assert!(entry.note.contains("limit 20.0 ms") && entry.other.is_none(), "{entry}");
}

#[test]
fn rules_of_the_user_are_the_reason_they_are() {
    let rule = |offload: Offload| builder().offload(offload).build().unwrap();
    let above = matmul(&rule(Offload { matmul: Some(1_000), ..Offload::default() }));
    assert!((above.why, above.device.starts_with("gpu")) == (Why::Threshold, true), "{above}");
    assert!(above.note.contains("matmul threshold of 1000") && above.processor.is_none(), "{above}");
    let below = matmul(&rule(Offload { all: Some(u64::MAX), ..Offload::default() }));
    assert_eq!((below.why, below.device.as_str()), (Why::Threshold, "cpu"), "{below}");
    let rt = rule(Offload { small_batch: Some(3), ..Offload::default() });
    let batch = numbers::<f32>(&[2, 64, 64]);
    rt.matmul(&batch, &batch).unwrap();
    let small = last(&rt);
    assert_eq!((small.why, small.device.as_str()), (Why::SmallBatch, "cpu"), "{small}");
    assert!(small.note.contains("a batch of 2 small products"), "{small}");
    let off = matmul(&rule(Offload { off: true, ..Offload::default() }));
    assert_eq!((off.why, off.device.as_str()), (Why::Disabled, "cpu"), "{off}");
}

#[test]
fn what_no_gpu_can_do_is_unsupported_with_the_kernels_own_words() {
    let rt = builder().build().unwrap();
    // Functions of doubles are in no shading language.
    rt.exp(&numbers::<f64>(&[1000])).unwrap();
    let entry = last(&rt);
    assert_eq!((entry.why, entry.device.as_str()), (Why::Unsupported, "cpu"), "{entry}");
    assert!(entry.note.contains("f64") || entry.note.contains("64-bit"), "{entry}");
    assert!(entry.processor.is_some() && entry.other.is_none(), "{entry}");
}

#[test]
fn launches_of_expressions_are_there_for_fusion_and_residency() {
    let offload = Offload { unary: Some(0), ..Offload::default() };
    let rt = builder().offload(offload).build().unwrap();
    let x = numbers::<f32>(&[2048, 2048]);
    let there = rt.lazy(&x).exp().eval().unwrap();
    assert_eq!(last(&rt).why, Why::Threshold);
    // The processor would sum a little faster, but not with sixteen mebibytes to fetch first.
    let sum = "reduce.sum:f32:4194304";
    measured(&rt, sum, Nanos::from_millis(100), Nanos(100_001_000));
    rt.lazy(&there).sum(Axis::All).item().unwrap();
    let entry = last(&rt);
    assert_eq!((entry.what.as_str(), entry.why), (sum, Why::Residency), "{entry}");
    assert!(entry.device.starts_with("gpu") && entry.note.contains("have to be moved"), "{entry}");
    let rt = builder().device("cpu").build().unwrap();
    let x = numbers::<f32>(&[512, 512]);
    // Some of the calls are timed.
    for _ in 0..100 {
        ((rt.lazy(&x) * 2.0 + 1.0).relu() * 0.5 - 3.0).abs().eval().unwrap();
    }
    let entries = rt.journal().entries();
    let fused = entries.iter().find(|entry| entry.why == Why::Fusion).unwrap();
    assert!(fused.operations > 1 && fused.apart.is_some() && fused.mean().is_some(), "{fused}");
}

#[test]
fn every_reason_there_is_has_a_name_of_its_own() {
    // Each of them is shown to happen by a test above; `kernels` by those of `kernels_said.rs`.
    let names: BTreeMap<&str, Why> = Why::ALL.into_iter().map(|why| (why.name(), why)).collect();
    assert_eq!(names.len(), 10);
}

#[test]
fn the_last_1024_of_5000_decisions_are_kept() {
    let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
    let problem = |size: usize| -> Problem { format!("elementwise.neg:f32:{}", size + 1).parse().unwrap() };
    for size in 0..5_000 {
        rt.plan(&problem(size)).unwrap();
    }
    let entries = rt.journal().entries();
    assert_eq!((entries.len(), rt.journal().written()), (MAX_ENTRIES, 5_000));
    for (entry, size) in entries.iter().zip(5_000 - MAX_ENTRIES..) {
        assert_eq!((entry.number, &entry.what), (size as u64, &problem(size).to_string()));
    }
    // Known by now; nothing is decided.
    rt.plan(&problem(0)).unwrap();
    assert_eq!(rt.journal().written(), 5_000);
}

#[test]
fn timed_calls_are_counted_for_the_decision_in_force() {
    let rt = builder().device("cpu").live_resize(false).build().unwrap();
    let x = numbers::<f32>(&[256, 256]);
    let calls = |count: usize| {
        (0..count).for_each(|_| drop(rt.matmul(&x, &x).unwrap()));
        rt.planner().drain();
    };
    calls(200);
    assert_eq!(rt.journal().written(), 1);
    let first = last(&rt);
    assert!(first.runs() > 0 && first.mean().unwrap() > Nanos(0), "{first}");
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(5_000));
    rt.tune(&"matmul:f32:256x256x256".parse().unwrap(), &request, &mut |_| ()).unwrap();
    let second = last(&rt);
    assert_eq!((rt.journal().written(), second.why, second.runs()), (2, Why::Measured, 0), "{second}");
    let before = first.runs();
    calls(200);
    assert!(second.runs() > 0 && first.runs() == before, "{first}\n{second}");
    // A calibration is what decisions rest on: the next call decides anew.
    rt.commit_calibration(Calibration::default()).unwrap();
    calls(200);
    let third = last(&rt);
    assert!(third.number == 2 && third.runs() > 0, "{third}");
}

#[test]
fn a_kernel_that_fails_is_followed_by_the_decision_for_the_next() {
    let fails = Arc::<AtomicBool>::default();
    let told = Arc::clone(&fails);
    let first = move || match told.load(Ordering::Relaxed) {
        true => Err(LaunchError::Kernel("worn out".to_string())),
        false => Ok(()),
    };
    let worn = Negates { name: "worn", bytes: |problem| Bytes(8 * problem.out_len()), first };
    let rt = builder().device("cpu").kernel(worn).build().unwrap();
    let neg = "elementwise.neg:f32:100";
    write_down(&rt, neg, &|rival| Nanos(if &*rival.name == "worn" { 10 } else { 10_000 }));
    let x = numbers::<f32>(&[100]);
    let expected = rt.neg(&x).unwrap();
    let chosen = |rt: &Runtime| {
        let decision = rt.explain(&neg.parse().unwrap()).unwrap();
        (decision.winner().unwrap().name.to_string(), decision.reason)
    };
    assert_eq!(chosen(&rt).0, "worn");
    fails.store(true, Ordering::Relaxed);
    assert_eq!(rt.neg(&x).unwrap(), expected);
    assert_eq!((rt.journal().written(), chosen(&rt).1), (2, Reason::NextBest));
}
