//! A GPU among the devices: what its adapter told, what was measured of it.

use super::{Fields, giga};
use trimtab::advanced::core::{AdapterFacts, Device, DeviceFacts, State};

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

/// What the driver tells of now; most tell nothing.
pub(super) fn state(state: &State) -> Fields<'static> {
    let mut fields = Fields::new();
    fields.extend(state.memory_free.map(|free| ("free memory", free.to_string())));
    fields.extend(state.temperature_celsius.map(|celsius| ("temperature", format!("{celsius:.0} °C"))));
    let most = state.frequency_max_mhz.map(|most| format!(" of at most {most:.0} MHz")).unwrap_or_default();
    fields.extend(state.frequency_mhz.map(|now| ("frequency", format!("{now:.0} MHz{most}"))));
    fields.extend(state.throttled_by.as_ref().map(|reasons| {
        let nothing = reasons.is_empty();
        ("held down by", if nothing { "nothing".to_string() } else { reasons.join(", ") })
    }));
    fields.extend(state.power_mw.map(|power| ("power", format!("{:.1} W", power as f64 / 1e3))));
    fields.extend(state.energy_uj.map(|_| ("energy", "can be measured".to_string())));
    fields
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
