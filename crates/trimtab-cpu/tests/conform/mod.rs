//! Runs kernels at every point of their spaces and compares with the reference.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part of this, and fails where that fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use trimtab_core::{Device, KernelId, KernelInfo, Nanos, Operation, Problem, VariantClass};
use trimtab_cpu::{CpuDevice, CpuOptions};

/// Far longer than any of these runs takes on a loaded machine; only a hang reaches it.
pub const GENEROUS: Nanos = Nanos::from_millis(60_000);

pub fn device() -> CpuDevice {
    CpuDevice::new(CpuOptions { blas: Some(vec![]), ..CpuOptions::default() })
}

pub fn kernels_of(device: &CpuDevice, operation: Operation) -> Vec<(KernelId, &KernelInfo)> {
    let numbered = device.kernels().iter().enumerate();
    numbered
        .map(|(number, info)| (KernelId(number as u32), info))
        .filter(|(_, info)| info.operation == operation)
        .collect()
}

/// Runs every kernel that takes each problem at each of its points, and says how often each ran.
pub fn conform(operation: Operation, problems: &[String]) {
    let device = device();
    let kernels = kernels_of(&device, operation);
    let mut counts: BTreeMap<&str, (u32, u32)> =
        kernels.iter().map(|(_, info)| (info.name.as_str(), (0, 0))).collect();
    let mut wrong = Vec::new();
    let texts: BTreeSet<&String> = problems.iter().collect();
    for text in texts {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(problem.operation(), operation, "{text}");
        let references = kernels.iter().filter(|(_, info)| info.class == VariantClass::Reference);
        let answers = |id: KernelId| device.declines(id, &problem).is_none();
        assert!(references.map(|(id, _)| *id).any(answers), "{text}: the reference declines");
        let mut bench = device.bench(&problem, Nanos::MAX).unwrap();
        for (id, info) in &kernels {
            let space = device.space(*id, &problem);
            if let Some(decline) = device.declines(*id, &problem) {
                assert!(!decline.0.is_empty(), "{} declines {text} without a reason", info.name);
                assert!(space.points().is_empty(), "{} declines {text} but offers points", info.name);
                continue;
            }
            assert!(!space.points().is_empty(), "{} takes {text} but offers no point", info.name);
            let count = counts.get_mut(info.name.as_str()).unwrap();
            count.0 += 1;
            for point in space.points() {
                let work = device.work(*id, &problem, point);
                let name = space.name(point);
                assert!(work.threads >= 1, "{} {name} does {text} with no thread", info.name);
                assert!(work.lanes >= 1, "{} {name} does {text} with no lane", info.name);
                count.1 += 1;
                if let Err(failure) = bench.run(*id, point, 1, GENEROUS) {
                    wrong.push(format!("{} {name} on {text}: {failure}", info.name));
                }
            }
        }
    }
    for (name, (problems, runs)) in &counts {
        println!("{name}: {problems} problems, {runs} runs");
    }
    let shown: Vec<&String> = wrong.iter().take(20).collect();
    assert!(wrong.is_empty(), "{} runs failed, among them {shown:#?}", wrong.len());
    let idle: Vec<&&str> = counts.iter().filter(|(_, count)| count.1 == 0).map(|(name, _)| name).collect();
    assert!(idle.is_empty(), "kernels that took none of the problems: {idle:?}");
}
