//! GPUs, where the feature `wgpu` brings them in. Without it there are none, and that is said.

use std::sync::Arc;
use trimtab_operands::{Executor, Reference};

/// The GPUs of this machine, and in words what could not be used.
#[cfg(feature = "wgpu")]
pub(crate) fn find(reference: Arc<dyn Reference>, kernels: Kernels) -> (Vec<Arc<dyn Executor>>, Vec<String>) {
    let options = trimtab_wgpu::GpuOptions { reference, kernels: kernels.0 };
    let (devices, problems) = trimtab_wgpu::GpuDevice::all(options);
    let device = |device| Arc::new(device) as Arc<dyn Executor>;
    (devices.into_iter().map(device).collect(), problems)
}

/// Without the feature there is nothing to look with.
#[cfg(not(feature = "wgpu"))]
pub(crate) fn find(_: Arc<dyn Reference>, _: Kernels) -> (Vec<Arc<dyn Executor>>, Vec<String>) {
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
