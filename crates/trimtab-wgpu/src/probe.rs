//! What adapters there are and what each told about itself; why one cannot be used, in words that say what to do.

use trimtab_core::{AdapterClass, AdapterFacts, Bytes, DeviceFacts, DeviceKind, Fingerprint, Habits};

/// How to get an adapter where there is none.
const ADVICE: &str = "install a GPU driver; without a GPU, Debian's `mesa-vulkan-drivers` and `libvulkan1` (apt-get install) \
                      offer Vulkan on the processor";

/// Share of a device's memory up to which buffers are made, where the driver tells it.
const MOST_MEMORY_PERCENT: u8 = 95;

/// The adapters of this machine, in the order the drivers list them, and what could not be used.
pub(crate) struct Found {
    pub adapters: Vec<(wgpu::Adapter, DeviceFacts)>,
    pub problems: Vec<String>,
}

/// Looks at every backend built in. Opens no device.
pub(crate) fn find() -> Found {
    let flags = wgpu::InstanceFlags::empty();
    // Refuse buffers before the last of the memory is gone: on shared memory the operating system would end the process.
    let memory_budget_thresholds = wgpu::MemoryBudgetThresholds {
        for_resource_creation: Some(MOST_MEMORY_PERCENT),
        for_device_loss: None,
    };
    // On Linux we list Vulkan's adapters ourselves, further down.
    let own = if cfg!(target_os = "linux") { wgpu::Backends::VULKAN } else { wgpu::Backends::empty() };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::all() - own,
        flags,
        memory_budget_thresholds,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "only there something is added"))]
    let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    #[cfg(target_os = "linux")]
    adapters.extend(crate::vulkan::adapters(&instance, flags, memory_budget_thresholds));
    let mut found = Found { adapters: Vec::new(), problems: Vec::new() };
    for adapter in adapters {
        let info = adapter.get_info();
        if let Some(reason) = unusable(&adapter) {
            found.problems.push(format!("{} ({}) is not used: {reason}", info.name, backend(&info)));
            continue;
        }
        let mut facts = facts(&adapter, &info, found.adapters.len());
        // Two of one model are two devices: what is learned of one must not stand for a slower twin.
        let same = |other: &&(wgpu::Adapter, DeviceFacts)| {
            other.1.fingerprint.0.split(" #").next() == Some(&facts.fingerprint.0)
        };
        let twins = found.adapters.iter().filter(same).count();
        if twins > 0 {
            facts.fingerprint.0 = format!("{} #{}", facts.fingerprint.0, twins + 1);
        }
        found.adapters.push((adapter, facts));
    }
    if found.adapters.is_empty() && found.problems.is_empty() {
        found.problems.push(format!("no GPU: {}; {ADVICE}", missing()));
    }
    found
}

/// Why no adapter is listed.
fn missing() -> String {
    #[cfg(all(unix, not(target_os = "macos")))]
    {
        // SAFETY: the Vulkan loader's initialisers only read configuration; wgpu has just loaded it the same way.
        let loader = unsafe { libloading::Library::new("libvulkan.so.1") };
        if let Err(error) = loader {
            return format!("there is no Vulkan loader ({error})");
        }
        "the Vulkan loader is there, but no driver offers an adapter".to_string()
    }
    #[cfg(not(all(unix, not(target_os = "macos"))))]
    {
        "no driver offers an adapter".to_string()
    }
}

fn unusable(adapter: &wgpu::Adapter) -> Option<String> {
    let flags = adapter.get_downlevel_capabilities().flags;
    if !flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return Some("it offers no compute shaders".to_string());
    }
    // wgpu's own list leaves such adapters out.
    let limits = adapter.limits();
    let steps = [limits.min_uniform_buffer_offset_alignment, limits.min_storage_buffer_offset_alignment];
    if let Some(step) = steps.iter().find(|step| !step.is_power_of_two()) {
        return Some(format!("it aligns buffers to {step} bytes, which is no power of two"));
    }
    let buffers = limits.max_storage_buffers_per_shader_stage;
    (buffers < 8).then(|| format!("it binds {buffers} storage buffers at once, kernels need 8"))
}

fn backend(info: &wgpu::AdapterInfo) -> &'static str {
    match info.backend {
        wgpu::Backend::Vulkan => "vulkan",
        wgpu::Backend::Metal => "metal",
        wgpu::Backend::Dx12 => "dx12",
        wgpu::Backend::Gl => "gl",
        wgpu::Backend::BrowserWebGpu => "webgpu",
        wgpu::Backend::Noop => "noop",
    }
}

fn facts(adapter: &wgpu::Adapter, info: &wgpu::AdapterInfo, index: usize) -> DeviceFacts {
    let (limits, features) = (adapter.limits(), adapter.features());
    let has = |feature: wgpu::Features| features.contains(feature);
    let class = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => AdapterClass::Discrete,
        wgpu::DeviceType::IntegratedGpu => AdapterClass::Integrated,
        wgpu::DeviceType::VirtualGpu => AdapterClass::Virtual,
        wgpu::DeviceType::Cpu => AdapterClass::Software,
        wgpu::DeviceType::Other => AdapterClass::Unknown,
    };
    let shared = matches!(class, AdapterClass::Integrated | AdapterClass::Software);
    let told = AdapterFacts {
        class,
        backend: backend(info).to_string(),
        driver: info.driver.clone(),
        driver_info: info.driver_info.clone(),
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        max_groups: limits.max_compute_workgroups_per_dimension,
        workgroup_memory: Bytes(limits.max_compute_workgroup_storage_size.into()),
        max_binding: Bytes(limits.max_storage_buffer_binding_size),
        max_buffer: Bytes(limits.max_buffer_size),
        offset_alignment: limits.min_storage_buffer_offset_alignment,
        subgroup: has(wgpu::Features::SUBGROUP).then_some((info.subgroup_min_size, info.subgroup_max_size)),
        f16: has(wgpu::Features::SHADER_F16),
        f64: has(wgpu::Features::SHADER_F64),
        timestamps: has(wgpu::Features::TIMESTAMP_QUERY),
        unified_memory: shared && has(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
        pipeline_cache: has(wgpu::Features::PIPELINE_CACHE),
    };
    let mut names: Vec<String> = [
        (told.timestamps, "timestamps"),
        (told.subgroup.is_some(), "subgroups"),
        (told.f16, "f16"),
        (told.f64, "f64"),
        (told.unified_memory, "unified-memory"),
        (told.pipeline_cache, "pipeline-cache"),
    ]
    .into_iter()
    .filter(|(has, _)| *has)
    .map(|(_, name)| name.to_string())
    .collect();
    names.sort_unstable();
    DeviceFacts {
        id: format!("gpu{index}"),
        name: info.name.clone(),
        kind: DeviceKind::Gpu,
        habits: Habits::GPU,
        fingerprint: fingerprint(info, &told),
        cores: None,
        threads: 1,
        caches: Vec::new(),
        vector_bytes: None,
        features: names,
        numa_nodes: None,
        memory: None,
        adapter: Some(Box::new(told)),
        notes: Vec::new(),
    }
}

/// Backend, model, driver and its build, and the limits kernels are chosen by: the same chip under another API or driver
/// is another device.
fn fingerprint(info: &wgpu::AdapterInfo, told: &AdapterFacts) -> Fingerprint {
    let subgroup = told.subgroup.map_or("none".to_string(), |(least, most)| format!("{least}-{most}"));
    let parts = [
        format!("gpu/{}", told.backend),
        info.name.clone(),
        format!("{:04x}:{:04x}", info.vendor, info.device),
        info.device_pci_bus_id.clone(),
        told.driver.clone(),
        told.driver_info.clone(),
        format!("wg{}x{}", told.max_invocations, told.workgroup_memory.0),
        format!("sg{subgroup}"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join("_"))
        .collect();
    Fingerprint(parts.join("/"))
}
