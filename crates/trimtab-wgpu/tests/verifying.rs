//! Checking a kernel ahead of its first use: settings that are legal for the problem are checked where they are legal, and what could
//! not be checked is not held against anyone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod shared;

use shared::{alone, devices, problem};
use trimtab_core::{Device, FailureKind, KernelId, Nanos, Point};

const PATIENT: Nanos = Nanos::from_millis(10_000);

#[test]
fn every_setting_that_is_legal_for_a_problem_passes_its_check() {
    let _alone = alone();
    let problems = [
        "elementwise.add:f32:100000",
        "elementwise.add:f32:1000x1000,1000",
        "reduce.sum:f32:1024x2048:axis1",
        "transpose:f32:1024x1024:1.0",
        "matmul:f32:512x512x512",
    ];
    for device in devices(&[]) {
        for text in problems {
            let problem = problem(text);
            let (mut checked, built) = (0, device.pipelines_built());
            for number in 0..device.kernels().len() as u32 {
                let space = device.space(KernelId(number), &problem);
                for point in space.points().iter().step_by(3) {
                    let outcome = device.verify(KernelId(number), &problem, point, PATIENT);
                    assert_eq!(outcome, Ok(()), "{text} {}", space.name(point));
                    checked += 1;
                }
            }
            println!("{text}: {checked} settings, {} pipelines", device.pipelines_built() - built);
            assert!(checked > 5, "{text}: {checked}");
        }
    }
}

#[test]
fn what_could_not_be_checked_is_not_held_against_the_kernel() {
    let _alone = alone();
    for device in devices(&[]) {
        // Settings that no kernel has: refused on every stand-in.
        let problem = problem("elementwise.add:f32:100001");
        for number in 0..device.kernels().len() as u32 {
            if let Err(failure) =
                device.verify(KernelId(number), &problem, &Point::new(&[77, 77, 77]), PATIENT)
            {
                assert_eq!(failure.kind, FailureKind::Untried, "{failure}");
            }
        }
    }
}
