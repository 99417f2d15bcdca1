//! What CUDA there is here: a line a device, and a line for what could not be used. Never fails: `cargo xtask cuda` runs it where panics end the process.

use std::sync::Arc;
use trimtab_core::{Device, LaunchError, Problem};
use trimtab_cuda::{CudaDevice, CudaOptions};
use trimtab_operands::{Reference, Slice, SliceMut};

/// Nothing is computed here.
struct Nobody;

impl Reference for Nobody {
    fn compute(&self, problem: &Problem, _: &[Slice<'_>], _: SliceMut<'_>) -> Result<(), LaunchError> {
        Err(LaunchError::Kernel(format!("{problem} is not computed here")))
    }
}

fn main() {
    let (devices, problems) = CudaDevice::all(CudaOptions::new(Arc::new(Nobody)));
    for device in devices {
        let kernels = device.kernels().len();
        println!(
            "{}: {}, {kernels} kernels, opened: {:?}",
            device.facts().id,
            device.facts().fingerprint,
            device.context()
        );
    }
    for problem in problems {
        println!("{problem}");
    }
}
