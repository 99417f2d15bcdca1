//! Kernels and devices for the tests: variants written as a user would write them.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::{
    Decline, Device, DeviceFacts, Elementwise, KernelId, KernelVersion, LaunchError, Problem, Variant,
    VariantClass, Work,
};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_wgpu::{
    BindTarget, Binding, Dispatch, Gpu, GpuDevice, GpuOptions, Needs, Writer, erase, spread_groups,
};

trimtab_core::config! {
    /// Invocations of a workgroup.
    pub struct Groups { workgroup }
}

/// An elementwise kernel of one step, whatever its text does.
#[derive(Clone)]
pub struct Simple {
    pub name: &'static str,
    pub text: &'static str,
    pub workgroup: u32,
    pub workgroup_bytes: u32,
    pub has_status: bool,
    pub has_rhs: bool,
    /// Workgroups, where it is not as many as there are elements.
    pub groups: Option<u32>,
}

/// Negates.
pub const NEGATES: &str = "
override workgroup: u32 = 64u;
@group(0) @binding(0) var<storage, read> lhs: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@compute @workgroup_size(workgroup)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let at = (group.y * groups.x + group.x) * workgroup + local;
    if (at < params[0].x) {
        out[at] = -lhs[at];
    }
}
";

/// Divides whole numbers.
pub const DIVIDES: &str = "
override workgroup: u32 = 64u;
@group(0) @binding(0) var<storage, read> lhs: array<i32>;
@group(0) @binding(1) var<storage, read> rhs: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;
@group(0) @binding(3) var<storage, read_write> status: array<u32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@compute @workgroup_size(workgroup)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let at = (group.y * groups.x + group.x) * workgroup + local;
    if (at < params[0].x) {
        if (rhs[at] == 0) {
            status[0] = 1u;
        } else {
            out[at] = lhs[at] / rhs[at];
        }
    }
}
";

impl Simple {
    pub fn new(name: &'static str, text: &'static str) -> Simple {
        Simple {
            name,
            text,
            workgroup: 64,
            workgroup_bytes: 0,
            has_status: false,
            has_rhs: false,
            groups: None,
        }
    }
}

impl Variant<Gpu> for Simple {
    type Problem = Elementwise;
    type Config = Groups;
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, _: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        assert_ne!(self.name, "panics", "a kernel that panics when asked");
        None
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<Groups> {
        [self.workgroup, 2 * self.workgroup].map(|workgroup| Groups { workgroup }).to_vec()
    }
    fn work(&self, problem: &Elementwise, _: Groups, _: &DeviceFacts) -> Work {
        Work { launches: 1, invocations: problem.out_len(), ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, config: Groups, args: Writer<'_>) -> Result<(), LaunchError> {
        let count = problem.out_len().div_ceil(config.workgroup.into());
        let too_many = || LaunchError::Kernel(format!("{count} workgroups are too many"));
        let spread = spread_groups(count, args.adapter).ok_or_else(too_many)?;
        let groups = self.groups.map_or(spread, |groups| [groups, 1, 1]);
        let mut bindings = vec![Binding::read(BindTarget::Input(0))];
        if self.has_rhs {
            bindings.push(Binding::read(BindTarget::Input(1)));
        }
        bindings.push(Binding::write(BindTarget::Out));
        if self.has_status {
            bindings.push(Binding::write(BindTarget::Status));
        }
        args.program.push(Dispatch {
            text: self.text.into(),
            constants: vec![("workgroup", config.workgroup.into())],
            needs: Needs::default(),
            workgroup: [config.workgroup, 1, 1],
            workgroup_bytes: self.workgroup_bytes,
            groups,
            bindings,
            params: vec![problem.out_len() as u32],
        });
        Ok(())
    }
}

/// Every GPU with these kernels beside ours. Without an adapter it fails: an absent one must not read as passed.
pub fn devices(kernels: &[Simple]) -> Vec<GpuDevice> {
    let cpu = CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() });
    let kernels = kernels.iter().cloned().map(erase).collect();
    let options = GpuOptions { reference: Arc::new(cpu), kernels };
    let (devices, trouble) = GpuDevice::all(options);
    assert!(!devices.is_empty(), "an adapter is needed: {trouble:?}");
    devices
}

/// The kernel of that name.
pub fn find(device: &GpuDevice, name: &str) -> KernelId {
    let at = device.kernels().iter().position(|info| info.name == name).unwrap();
    KernelId(at as u32)
}

/// A problem from its text.
pub fn problem(text: &str) -> Problem {
    text.parse().unwrap()
}

/// Tests of one binary share a device: those that disturb it run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
