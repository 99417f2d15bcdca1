//! Vulkan's adapters on Linux, listed without a word to the desktop: we draw nothing.
//!
//! wgpu enables `VK_KHR_wayland_surface` wherever the loader offers it. Mesa's layer that sorts devices then connects to Wayland, twice a
//! list, and where there is none libwayland writes `error: XDG_RUNTIME_DIR is invalid or not set in the environment.` to standard error.

use wgpu::hal::{Instance as _, InstanceDescriptor, vulkan};

/// What makes Mesa's layer ask the desktop.
const WAYLAND: &std::ffi::CStr = c"VK_KHR_wayland_surface";

/// The adapters of Vulkan, as `instance` uses them; none where there is no loader.
pub(crate) fn adapters(
    instance: &wgpu::Instance,
    flags: wgpu::InstanceFlags,
    memory_budget_thresholds: wgpu::MemoryBudgetThresholds,
) -> Vec<wgpu::Adapter> {
    let asked = InstanceDescriptor {
        name: "trimtab",
        flags,
        memory_budget_thresholds,
        backend_options: wgpu::BackendOptions::default(),
        telemetry: None,
        display: None,
    };
    let callback: Box<vulkan::CreateInstanceCallback<'_>> =
        Box::new(|given| given.extensions.retain(|name| *name != WAYLAND));
    // SAFETY: wgpu asks that nothing be taken from the list because it takes for enabled what is in it. It keeps the list as the callback
    // leaves it, and looks there before it makes a surface of Wayland's, the one use of this extension; many loaders do not offer it at
    // all. We make no surface, and the instance is not handed out.
    let Ok(vulkan) = (unsafe { vulkan::Instance::init_with_callback(&asked, Some(callback)) }) else {
        return Vec::new();
    };
    // SAFETY: no surface is named, and each adapter is made of what this instance exposes; it keeps the instance alive.
    unsafe {
        let exposed = vulkan.enumerate_adapters(None);
        exposed.into_iter().map(|one| instance.create_adapter_from_hal::<vulkan::Api>(one)).collect()
    }
}
