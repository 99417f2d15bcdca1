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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use trimtab::advanced::core::{Decline, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError};
    /// use trimtab::advanced::core::{UnaryOp, Variant, VariantClass, Work};
    /// use trimtab::advanced::wgpu::{BindTarget, Binding, Dispatch, Gpu, Needs, Writer};
    ///
    /// const TEXT: &str = "
    ///     @group(0) @binding(0) var<storage, read> x: array<f32>;
    ///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    ///     @group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
    ///     @compute @workgroup_size(64)
    ///     fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    ///         if (at.x < params[0].x) { y[at.x] = -x[at.x]; }
    ///     }";
    /// trimtab::advanced::core::config! { struct NoSettings {} }
    /// struct MyNeg;
    /// impl Variant<Gpu> for MyNeg {
    ///     type Problem = Elementwise;
    ///     type Config = NoSettings;
    ///     fn name(&self) -> std::borrow::Cow<'static, str> { "my.gpu.neg".into() }
    ///     fn version(&self) -> KernelVersion { "1".into() }
    ///     fn class(&self) -> VariantClass { VariantClass::Custom }
    ///     fn declines(&self, p: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
    ///         let mine = p.op == ElementwiseOp::Unary(UnaryOp::Neg) && p.dtype == DType::F32 && p.out_len() < 1 << 20;
    ///         (!mine).then(|| Decline::because("does neg of up to a million f32 only"))
    ///     }
    ///     fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> { vec![NoSettings {}] }
    ///     fn work(&self, p: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
    ///         Work { bytes: trimtab::Bytes(8 * p.out_len()), threads: 1, lanes: 1, ..Work::default() }
    ///     }
    ///     fn launch(&self, p: &Elementwise, _: NoSettings, to: Writer<'_>) -> Result<(), LaunchError> {
    ///         to.program.push(Dispatch {
    ///             text: TEXT.into(),
    ///             constants: vec![],
    ///             needs: Needs::of(p.dtype),
    ///             workgroup: [64, 1, 1],
    ///             workgroup_bytes: 0,
    ///             groups: [p.out_len().div_ceil(64) as u32, 1, 1],
    ///             bindings: vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)],
    ///             params: vec![p.out_len() as u32],
    ///         });
    ///         Ok(())
    ///     }
    /// }
    /// let rt = Runtime::builder().wisdom_in_memory().gpu_kernel(MyNeg).build()?;
    /// println!("{} devices have a say", rt.devices().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gpu_kernel<V: trimtab_core::Variant<trimtab_wgpu::Gpu>>(mut self, variant: V) -> Self {
        self.gpu_kernels.0.push(trimtab_wgpu::erase(variant));
        self
    }
}
