//! A device that is lost stays lost until the process ends, and says so. Alone in its binary: devices are shared.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod shared;

use shared::{NEGATES, Simple, devices, find, problem};
use trimtab_core::{Device, FailureKind, Nanos, Point};
use trimtab_operands::{Slice, SliceMut};

#[test]
fn a_lost_device_declines_everything_with_the_reason_and_nothing_crashes() {
    let (point, second) = (Point::new(&[64]), Nanos::from_millis(1_000));
    for device in devices(&[Simple::new("good", NEGATES)]) {
        let (kernel, problem) = (find(&device, "good"), problem("elementwise.neg:f32:50"));
        assert_eq!(device.verify(kernel, &problem, &point, second), Ok(()));
        let held = device.upload(&[1; 200]).unwrap();
        let mut bench = device.bench(&problem, second).unwrap();
        device.lose().unwrap();
        assert_eq!(bench.run(kernel, &point, 1, second).unwrap_err().kind, FailureKind::Untried);
        let reason = device.declines(kernel, &problem).unwrap().to_string();
        assert!(reason.contains("lost"), "{reason}");
        assert!(device.space(kernel, &problem).points().is_empty());
        assert_eq!(device.verify(kernel, &problem, &point, second).unwrap_err().kind, FailureKind::Untried);
        assert!(device.bench(&problem, second).is_err());
        let (lhs, mut out) = ([1f32; 50], [0f32; 50]);
        let (a, out) = (Slice::F32(&lhs), SliceMut::F32(&mut out));
        let error = device.launch(kernel, &problem, &point, &[a, Slice::None], out).unwrap_err();
        assert!(error.to_string().contains("lost"), "{error}");
        assert!(device.launch_on(kernel, &problem, &point, &[&held], &held).is_err());
        assert!(device.download(&held, &mut [0; 200]).is_err());
        assert!(device.allocate(1 << 20).is_err());
        assert_eq!(device.pipeline_data(), None);
        let _ = device.rates();
        drop(held);
    }
}
