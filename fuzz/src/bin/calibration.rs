//! A calibration as it is kept: what is read is written as text that says the same, and decisions can be made with it.
#![no_main]

use std::sync::{Arc, LazyLock};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::plan::calibration::{Calibration, DeviceTimes, Origin};

static DEVICE: LazyLock<Arc<CpuDevice>> = LazyLock::new(|| Arc::new(CpuDevice::new(CpuOptions::default())));
/// The first two lines, which say who made it.
static HEAD: LazyLock<String> = LazyLock::new(|| {
    let own = DeviceTimes::new(DEVICE.as_ref(), Origin::Measured).to_text();
    own.lines().take(2).map(|line| format!("{line}\n")).collect()
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = trimtab_fuzz::text(data);
    let _ = DeviceTimes::read(text, DEVICE.as_ref());
    let Some(times) = DeviceTimes::read(&format!("{}{text}", *HEAD), DEVICE.as_ref()) else { return };
    assert_eq!(DeviceTimes::read(&times.to_text(), DEVICE.as_ref()).as_ref(), Some(&times));
    let mut renewed = times.clone();
    renewed.renew(&times);
    let calibration = Calibration::new(vec![Some(times), Some(renewed)], 0);
    for problem in
        ["matmul:f32:512x512x512", "elementwise.add:f32:1000", "reduce.sum:f32:1", "transpose:f32:8x9"]
    {
        let problem = problem.parse().expect("it is a problem");
        let _ = (calibration.expected(1, &problem), calibration.is_below(1, &problem));
    }
});
