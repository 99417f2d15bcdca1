//! GPUs, where the features `cuda` and `wgpu` bring them in. Without them there are none, and that is said.

use std::sync::Arc;
use trimtab_operands::{Executor, Reference};

/// Devices, and in words what could not be used.
type Found = (Vec<Arc<dyn Executor>>, Vec<String>);

/// The GPUs of this machine.
pub(crate) fn find(reference: Arc<dyn Reference>, kernels: Kernels) -> Found {
    let (mut devices, mut problems) = cuda(Arc::clone(&reference));
    let (more, others) = wgpu(reference, kernels);
    devices.extend(more);
    problems.extend(others);
    (devices, problems)
}

/// NVIDIA's through CUDA, whose driver is looked for now: nothing of it is needed to build.
#[cfg(feature = "cuda")]
fn cuda(reference: Arc<dyn Reference>) -> Found {
    let options = trimtab_cuda::CudaOptions::new(reference);
    let (devices, problems) = trimtab_cuda::CudaDevice::all(options);
    (devices.into_iter().map(|device| Arc::new(device) as Arc<dyn Executor>).collect(), problems)
}

/// Without the feature there is nothing to look with. Who has no card of NVIDIA's need not be told.
#[cfg(not(feature = "cuda"))]
fn cuda(_: Arc<dyn Reference>) -> Found {
    (Vec::new(), Vec::new())
}

/// Those over Vulkan, Metal and DX12.
#[cfg(feature = "wgpu")]
fn wgpu(reference: Arc<dyn Reference>, kernels: Kernels) -> Found {
    let options = trimtab_wgpu::GpuOptions { reference, kernels: kernels.0 };
    let (devices, problems) = trimtab_wgpu::GpuDevice::all(options);
    (devices.into_iter().map(|device| Arc::new(device) as Arc<dyn Executor>).collect(), problems)
}

/// Without the feature there is nothing to look with.
#[cfg(not(feature = "wgpu"))]
fn wgpu(_: Arc<dyn Reference>, _: Kernels) -> Found {
    (Vec::new(), vec!["no GPU: this program was built without the feature `wgpu` of trimtab".to_string()])
}

/// Kernels users bring for GPUs.
#[cfg(feature = "wgpu")]
#[derive(Default)]
pub(crate) struct Kernels(pub trimtab_wgpu::kernels::Kernels);

/// Kernels users bring for GPUs: none without the feature.
#[cfg(not(feature = "wgpu"))]
#[derive(Default)]
pub(crate) struct Kernels;

#[cfg(feature = "wgpu")]
impl crate::Builder {
    /// Adds a kernel of your own for GPUs: its launch writes a program of WGSL steps, which is checked against the
    /// reference, measured, tuned and remembered like ours.
    pub fn gpu_kernel<V: trimtab_core::Variant<trimtab_wgpu::Gpu>>(mut self, variant: V) -> Self {
        self.gpu_kernels.0.push(trimtab_wgpu::erase(variant));
        self
    }
}
