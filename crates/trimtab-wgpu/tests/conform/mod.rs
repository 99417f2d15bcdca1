//! Every kernel of an operation × every legal point × a list of problems, on every adapter, against the CPU's reference.

use std::sync::Arc;
use trimtab_core::{Device, KernelId, Operation, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_operands::{Data, Expected, Operands, Reference, Slice, allowed};
use trimtab_wgpu::{GpuDevice, GpuOptions, tolerance};

/// The processor, which computes what is right.
pub fn processor() -> Arc<CpuDevice> {
    Arc::new(CpuDevice::new(CpuOptions { threads: None, blas: None, ..CpuOptions::default() }))
}

/// Every adapter. Without one it fails: an absent one must not read as passed.
pub fn devices() -> Vec<GpuDevice> {
    let reference = processor() as Arc<dyn Reference>;
    let (devices, trouble) = GpuDevice::all(GpuOptions { reference, kernels: vec![] });
    assert!(!devices.is_empty(), "an adapter is needed: {trouble:?}");
    devices
}

/// Says how many settings of a kernel of 16-bit floats ran: some, where an adapter has such floats.
pub fn ran_where_halves_are(kernel: &str, ran: usize) {
    let has_halves = devices().iter().any(|device| device.facts().features.iter().any(|name| name == "f16"));
    match has_halves {
        true => assert!(ran > 0, "{kernel} ran nowhere"),
        false => println!("not run: {kernel}, no adapter has 16-bit floats"),
    }
}

/// Runs them all; panics on the first disagreement. Returns how many runs were compared.
pub fn conforms(operation: Operation, problems: &[&str]) -> usize {
    conforms_at_first(operation, problems, usize::MAX)
}

/// The same at the first few points of each kernel.
pub fn conforms_at_first(operation: Operation, problems: &[&str], points: usize) -> usize {
    let cpu = processor();
    let mut compared = 0;
    for device in &devices() {
        for text in problems {
            let problem: Problem = text.parse().unwrap();
            assert_eq!(problem.operation(), operation, "{text}");
            let mut operands = Operands::new(&problem);
            let expected = Expected::new(cpu.as_ref(), &problem, &operands).unwrap();
            for (number, kernel) in device.table().iter().enumerate() {
                let name = kernel.info().name;
                let space = kernel.space(&problem, device.facts());
                for point in space.points().iter().take(points) {
                    operands.out.poison();
                    let kernel = KernelId(number as u32);
                    let inputs: Vec<Slice<'_>> = operands.inputs.iter().map(Data::slice).collect();
                    let ran = device.launch(kernel, &problem, point, &inputs, operands.out.slice_mut());
                    let what = format!("{} {name} {} {text}", device.facts().id, space.name(point));
                    assert_eq!(ran, Ok(()), "{what}");
                    let within = allowed(tolerance(&problem), &device.work(kernel, &problem, point));
                    let checked = expected.check_within(&problem, &operands.out, within);
                    assert_eq!(checked, Ok(()), "{what}");
                    compared += 1;
                }
            }
        }
    }
    compared
}
