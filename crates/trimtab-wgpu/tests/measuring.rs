//! Measuring on a GPU: samples, their checks, and the numbers the planner divides by. No assertion is about speed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod shared;

use shared::{NEGATES, Simple, alone, devices, find, problem};
use trimtab_core::{Device, Nanos, Point};

const SECOND: Nanos = Nanos::from_millis(1_000);
const POINT: Point = Point::new(&[64]);

#[test]
fn a_rival_is_built_once_checked_and_timed_and_short_batches_grow() {
    let _alone = alone();
    let text = Box::leak(NEGATES.replace("-lhs[at]", "0.0 - lhs[at]").into_boxed_str());
    for device in devices(&[Simple::new("negates", text)]) {
        let kernel = find(&device, "negates");
        let problem = problem("elementwise.neg:f32:100000");
        assert_eq!(device.verify(kernel, &problem, &POINT, SECOND), Ok(()));
        let mut bench = device.bench(&problem, SECOND).unwrap();
        let other = Point::new(&[128]);
        let first = bench.run(kernel, &other, 1, SECOND).unwrap();
        assert!(first.compiled_in.is_some_and(|time| time > Nanos(0)), "{first:?}");
        let second = bench.run(kernel, &other, 7, SECOND).unwrap();
        assert_eq!(second.compiled_in, None);
        for sample in [first, second] {
            assert!(sample.elapsed > Nanos(0) && sample.iterations >= 1, "{sample:?}");
        }
        assert!(second.iterations >= 7);
        // The same kernel for another problem has its pipeline already.
        let other_problem = shared::problem("elementwise.neg:f32:200000");
        let mut bench = device.bench(&other_problem, SECOND).unwrap();
        assert_eq!(bench.run(kernel, &other, 1, SECOND).unwrap().compiled_in, None);
    }
}

#[test]
fn operands_that_would_take_too_long_to_make_are_declined_with_the_time() {
    let _alone = alone();
    for device in devices(&[]) {
        let problem = problem("elementwise.neg:f32:100000000");
        let reason = device.bench(&problem, Nanos::from_millis(400)).map(drop).unwrap_err();
        assert!(reason.to_string().contains("more than the 400 ms allowed"), "{reason}");
        // Nobody waits for kernels to be built who has no time for it.
        let reason = device.bench(&problem, Nanos(1)).map(drop).unwrap_err();
        assert!(reason.to_string().contains("build"), "{reason}");
    }
}

#[test]
fn the_transfer_overhead_grows_with_the_operands_and_rates_are_positive_and_measured_once() {
    let _alone = alone();
    for device in devices(&[]) {
        let transfers = device.transfers().unwrap();
        assert!(transfers.submit > Nanos(0) && transfers.upload_bytes_per_s > 0.0);
        assert!(transfers.download_bytes_per_s > 0.0);
        let (small, large) = (problem("elementwise.neg:f32:10"), problem("elementwise.neg:f32:10000000"));
        assert!(device.transfer_overhead(&small) >= transfers.submit);
        assert!(device.transfer_overhead(&large) > device.transfer_overhead(&small));
        let rates = device.rates();
        let positive =
            [rates.flops_per_s, rates.bytes_per_s, rates.bytes_per_s_all, rates.cached_bytes_per_s];
        assert!(positive.iter().all(|rate| *rate > 0.0 && rate.is_finite()), "{rates:?}");
        assert!(rates.launch > Nanos(0) && rates.filled_by >= 64 && rates.barrier_ns >= 0.0, "{rates:?}");
        assert_eq!(rates.lanes, 4);
        let built = device.pipelines_built();
        assert_eq!(device.rates(), rates);
        assert_eq!(device.pipelines_built(), built);
    }
}
