//! A GPU that is lost: expressions are computed by the processor from then on. In a process of its own, because the device
//! stays lost until it ends.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::Arc;
use support::{builder, numbers};
use trimtab::advanced::operands::Reference;
use trimtab::advanced::wgpu::{GpuDevice, GpuOptions};
use trimtab::{Error, Offload};

#[test]
fn the_processor_goes_on_where_a_device_is_lost_and_what_was_only_there_is_an_error() {
    let there = Offload { all: Some(0), ..Offload::default() };
    let rt = builder().offload(there).build().unwrap();
    let x = numbers::<f32>(&[64, 64]);
    let expected: Vec<f32> = x.to_vec().iter().map(|x| 2.0 * x).collect();
    let twice = || rt.lazy(&x) + &x;
    let before = twice().eval().unwrap();
    let explained = twice().explain().unwrap();
    assert!(explained.launches[0].device.starts_with("gpu"), "{explained}");

    let cpu = trimtab::advanced::cpu::CpuDevice::new(trimtab::advanced::cpu::CpuOptions::default());
    let reference = Arc::new(cpu) as Arc<dyn Reference>;
    for device in GpuDevice::all(GpuOptions { reference, kernels: vec![] }).0 {
        device.lose().unwrap();
    }
    assert_eq!(twice().to_vec().unwrap(), expected);
    assert_eq!(rt.activity().recovered, 1);
    // From now on nobody tries.
    assert_eq!(twice().to_vec().unwrap(), expected);
    assert_eq!(rt.activity().recovered, 1);
    // The value that was only there is gone, and reading it says so.
    assert!(matches!(before.fetched(), Err(Error::Fetch(_))));
    assert!(matches!((rt.lazy(&before) + 1.0).eval(), Err(Error::Fetch(_))));
    assert!(before.as_slice().is_none() && before.to_vec().is_empty() && before.get(&[0, 0]).is_none());
    assert!(format!("{before:?}").contains("cannot be read back"));
}
