//! A GPU among the devices: what its adapter told, what was measured of it.

use crate::output::printable;
use crate::session::Session;
use anyhow::Result;
use trimtab::core::{AdapterFacts, Device};

/// Widest of the labels.
const LABEL_WIDTH: usize = 11;

pub(super) fn show(session: &Session, device: &dyn Device, adapter: &AdapterFacts) -> Result<()> {
    let out = &session.out;
    let facts = device.facts();
    let field = |name: &str, text: String| out.line(format!("  {name:<LABEL_WIDTH$}  {}", printable(&text)));
    out.line(format!("{}: {}", facts.id, printable(&facts.name)))?;
    field("fingerprint", facts.fingerprint.to_string())?;
    field("adapter", format!("{} over {}", adapter.class.name(), adapter.backend))?;
    field("driver", format!("{} {}", adapter.driver, adapter.driver_info))?;
    field("features", if facts.features.is_empty() { "none".to_string() } else { facts.features.join(" ") })?;
    let [x, y, z] = adapter.max_workgroup;
    field(
        "workgroups",
        format!(
            "up to {} invocations ({x} x {y} x {z}) with {} of memory, {} along an axis",
            adapter.max_invocations, adapter.workgroup_memory, adapter.max_groups
        ),
    )?;
    let subgroups = match adapter.subgroup {
        Some((least, most)) if least == most => format!("{least} invocations"),
        Some((least, most)) => format!("{least} to {most} invocations"),
        None => "none".to_string(),
    };
    field("subgroups", subgroups)?;
    let shared = if adapter.unified_memory { "shared with the processor" } else { "its own" };
    field(
        "memory",
        format!(
            "{shared}; buffers up to {}, of which a kernel sees {}",
            adapter.max_buffer, adapter.max_binding
        ),
    )?;
    out.line("")?;
    out.line("Measured just now")?;
    let (rates, giga) = (device.rates(), |value: f64| format!("{:.1}", value * 1e-9));
    field("arithmetic", format!("{} GFLOP/s of f32", giga(rates.flops_per_s)))?;
    let cached = giga(rates.cached_bytes_per_s);
    field(
        "bandwidth",
        format!("{} GB/s; {cached} GB/s up to {}", giga(rates.bytes_per_s_all), rates.cached_up_to),
    )?;
    field("barrier", format!("{:.0} ns a workgroup", rates.barrier_ns))?;
    field("filled by", format!("{} invocations", rates.filled_by))?;
    if let Some(moved) = device.transfers() {
        let way = |latency, bytes_per_s| format!("{latency} and {} GB/s", giga(bytes_per_s));
        field("upload", way(moved.upload_latency, moved.upload_bytes_per_s))?;
        field("download", way(moved.download_latency, moved.download_bytes_per_s))?;
        field("hand-over", format!("{} for work that does nothing", moved.submit))?;
    }
    out.line("")?;
    super::kernels(session, device)
}
