//! A GPU among the devices: what its adapter told, what was measured of it.

use super::{Fields, giga};
use trimtab::advanced::core::{AdapterFacts, Device, DeviceFacts};

pub(super) fn facts(facts: &DeviceFacts, adapter: &AdapterFacts) -> Fields<'static> {
    let [x, y, z] = adapter.max_workgroup;
    let (invocations, groups) = (adapter.max_invocations, adapter.max_groups);
    let memory = adapter.workgroup_memory;
    let subgroups = match adapter.subgroup {
        Some((least, most)) if least == most => format!("{least} invocations"),
        Some((least, most)) => format!("{least} to {most} invocations"),
        None => "none".to_string(),
    };
    let shared = if adapter.unified_memory { "shared with the processor" } else { "its own" };
    let (buffer, binding) = (adapter.max_buffer, adapter.max_binding);
    vec![
        ("adapter", format!("{} over {}", adapter.class.name(), adapter.backend)),
        ("driver", format!("{} {}", adapter.driver, adapter.driver_info)),
        ("features", if facts.features.is_empty() { "none".to_string() } else { facts.features.join(" ") }),
        (
            "workgroups",
            format!(
                "up to {invocations} invocations ({x} x {y} x {z}) with {memory} of memory, {groups} along an axis"
            ),
        ),
        ("subgroups", subgroups),
        ("memory", format!("{shared}; buffers up to {buffer}, of which a kernel sees {binding}")),
    ]
}

pub(super) fn speeds(device: &dyn Device) -> Fields<'static> {
    let rates = device.rates();
    let (all, cached) = (giga(rates.bytes_per_s_all), giga(rates.cached_bytes_per_s));
    let mut fields = vec![
        ("arithmetic", format!("{} GFLOP/s of f32", giga(rates.flops_per_s))),
        ("bandwidth", format!("{all} GB/s; {cached} GB/s up to {}", rates.cached_up_to)),
        ("barrier", format!("{:.0} ns a workgroup", rates.barrier_ns)),
        ("filled by", format!("{} invocations", rates.filled_by)),
    ];
    if let Some(moved) = device.transfers() {
        let way = |latency, bytes_per_s| format!("{latency} and {} GB/s", giga(bytes_per_s));
        fields.extend([
            ("upload", way(moved.upload_latency, moved.upload_bytes_per_s)),
            ("download", way(moved.download_latency, moved.download_bytes_per_s)),
            ("hand-over", format!("{} for work that does nothing", moved.submit)),
        ]);
    }
    fields
}
