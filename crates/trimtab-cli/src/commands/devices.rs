//! `trimtab devices`: facts, state now, measured speeds and kernels of every device. What is not known is said to be so.

mod gpu;

use crate::output::{percent, printable};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab::advanced::core::{
    AdapterFacts, Bytes, Cache, Device, DeviceFacts, DeviceKind, KernelInfo, Nanos, Operation, Rates, State,
    VariantClass,
};

/// Names the CPU device gives BLAS libraries found on the machine; a second one of a kind is `openblas.2`.
const BLAS_NAMES: [&str; 5] = ["openblas", "mkl", "blis", "accelerate", "cblas"];

/// Widest of the labels that are always there.
const LABEL_WIDTH: usize = 11;

#[derive(Serialize)]
pub(super) struct DeviceView {
    pub usable: bool,
    pub id: String,
    pub name: String,
    pub kind: &'static str,
    /// The API a GPU is reached through.
    pub backend: Option<String>,
    pub driver: Option<String>,
    /// Discrete, integrated, software.
    pub class: Option<&'static str>,
    pub fingerprint: String,
    pub limits: Option<Value>,
    /// All threads of a processor, by one thread's measured speed; a GPU as a whole.
    pub peak_gflops: f64,
    pub bandwidth_gb_s: f64,
    pub upload: Option<TransferView>,
    pub download: Option<TransferView>,
    /// Handing a GPU work that does nothing, and waiting for it.
    pub submit_ns: Option<u64>,
    pub cores: Option<u32>,
    pub threads: u32,
    pub caches: Vec<Value>,
    pub vector_bytes: Option<u32>,
    pub features: Vec<String>,
    pub numa_nodes: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub notes: Vec<(String, String)>,
    pub state: Value,
    pub rates: Value,
    pub kernels: Vec<Value>,
    pub blas: Vec<String>,
    pub problems: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct TransferView {
    pub latency_ns: u64,
    pub gb_s: f64,
}

pub fn run(session: &Session, verbose: bool) -> Result<ExitCode> {
    for (index, device) in session.runtime.planned() {
        if session.out.is_json() {
            session.out.object(&view(session, device.as_ref()))?;
        } else {
            if index > 0 {
                session.out.line("")?;
            }
            show(session, device.as_ref(), verbose)?;
        }
    }
    for reason in session.runtime.unusable() {
        let object = json!({ "usable": false, "kind": "gpu", "reason": reason });
        session.out.either(&object, || session.out.apart(reason))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn view(session: &Session, device: &dyn Device) -> DeviceView {
    let facts = device.facts().clone();
    let cache = |cache: &Cache| {
        let Cache { level, size, shared_by, line, .. } = cache;
        json!({ "level": level, "size_bytes": size.0, "shared_by": shared_by, "line_bytes": line })
    };
    let kernel = |info: &KernelInfo| {
        let (operation, class) = (info.operation.name(), info.class.name());
        json!({ "operation": operation, "name": info.name, "version": info.version.to_string(), "class": class })
    };
    let adapter = facts.adapter.as_deref();
    let (rates, transfers) = (device.rates(), device.transfers());
    let way =
        |latency: Nanos, bytes_per_s: f64| TransferView { latency_ns: latency.0, gb_s: bytes_per_s * 1e-9 };
    DeviceView {
        usable: true,
        backend: adapter.map(|adapter| adapter.backend.clone()),
        driver: adapter.map(|adapter| format!("{} {}", adapter.driver, adapter.driver_info)),
        class: adapter.map(|adapter| adapter.class.name()),
        limits: adapter.map(limits_view),
        peak_gflops: peak(&facts, &rates) * 1e-9,
        bandwidth_gb_s: rates.bytes_per_s_all * 1e-9,
        upload: transfers.map(|moved| way(moved.upload_latency, moved.upload_bytes_per_s)),
        download: transfers.map(|moved| way(moved.download_latency, moved.download_bytes_per_s)),
        submit_ns: transfers.map(|measured| measured.submit.0),
        kind: facts.kind.name(),
        fingerprint: facts.fingerprint.0,
        cores: facts.cores,
        threads: facts.threads,
        caches: facts.caches.iter().map(cache).collect(),
        vector_bytes: facts.vector_bytes,
        features: facts.features,
        numa_nodes: facts.numa_nodes,
        memory_bytes: facts.memory.map(|memory| memory.0),
        notes: facts.notes,
        state: state_view(&device.state()),
        rates: rates_view(&rates),
        kernels: device.kernels().iter().map(kernel).collect(),
        blas: blas(device).map(|info| format!("{} {}", info.name, info.version)).collect(),
        problems: session.runtime.warnings().to_vec(),
        id: facts.id,
        name: facts.name,
    }
}

/// The speed of the whole device: a processor's threads by the speed of one.
fn peak(facts: &DeviceFacts, rates: &Rates) -> f64 {
    match facts.kind {
        DeviceKind::Cpu => rates.flops_per_s * f64::from(facts.threads),
        _ => rates.flops_per_s,
    }
}

fn limits_view(adapter: &AdapterFacts) -> Value {
    json!({
        "max_invocations": adapter.max_invocations,
        "max_workgroup": adapter.max_workgroup,
        "max_groups": adapter.max_groups,
        "workgroup_memory_bytes": adapter.workgroup_memory.0,
        "max_binding_bytes": adapter.max_binding.0,
        "max_buffer_bytes": adapter.max_buffer.0,
        "subgroup_min": adapter.subgroup.map(|sizes| sizes.0),
        "subgroup_max": adapter.subgroup.map(|sizes| sizes.1),
        "unified_memory": adapter.unified_memory,
    })
}

fn state_view(state: &State) -> Value {
    json!({
        "load_1m": state.load_1m,
        "others": state.others,
        "steal_share": state.steal_share,
        "cpu_pressure": state.cpu_pressure,
        "memory_free_bytes": state.memory_free.map(|free| free.0),
        "temperature_celsius": state.temperature_celsius,
        "frequency_mhz": state.frequency_mhz,
        "frequency_max_mhz": state.frequency_max_mhz,
        "throttle_count": state.throttle_count,
        "throttled_by": state.throttled_by,
        "power_watts": state.power_mw.map(|power| power as f64 / 1e3),
        "on_battery": state.on_battery,
        "battery_percent": state.battery_percent,
        "power_profile": state.power_profile,
        "energy_uj": state.energy_uj,
    })
}

fn rates_view(rates: &Rates) -> Value {
    json!({
        "gflops_one_thread": rates.flops_per_s * 1e-9,
        "lanes": rates.lanes,
        "gb_per_s_one_thread": rates.bytes_per_s * 1e-9,
        "gb_per_s_all_threads": rates.bytes_per_s_all * 1e-9,
        "gb_per_s_cached": rates.cached_bytes_per_s * 1e-9,
        "cached_up_to_bytes": rates.cached_up_to.0,
        "launch_ns": rates.launch.0,
    })
}

/// Kernels made of a BLAS library that was found when the process started.
fn blas(device: &dyn Device) -> impl Iterator<Item = &KernelInfo> {
    device.kernels().iter().filter(|info| {
        let library = info.name.split('.').nth(2).unwrap_or_default();
        info.class == VariantClass::Library && BLAS_NAMES.contains(&library)
    })
}

pub(super) fn show(session: &Session, device: &dyn Device, verbose: bool) -> Result<()> {
    let (out, facts) = (&session.out, device.facts());
    let notes = if facts.adapter.is_some() { &[][..] } else { &facts.notes[..] };
    let width = notes.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(LABEL_WIDTH);
    let fields = |fields: Fields| {
        let line = |(name, text): (&str, String)| format!("  {name:<width$}  {}", printable(&text));
        fields.into_iter().try_for_each(|field| out.line(line(field)))
    };
    out.line(format!("{}: {}", facts.id, printable(&facts.name)))?;
    fields(vec![("fingerprint", facts.fingerprint.to_string())])?;
    let speeds = match facts.adapter.as_deref() {
        Some(adapter) => {
            fields(gpu::facts(facts, adapter))?;
            let state = gpu::state(&device.state());
            if !state.is_empty() {
                out.apart("State now")?;
                fields(state)?;
            }
            gpu::speeds(device)
        }
        None => {
            fields(host_facts(facts))?;
            fields(notes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect())?;
            out.apart("State now")?;
            fields(state_words(&device.state()))?;
            host_speeds(&device.rates())
        }
    };
    out.apart("Measured just now")?;
    fields(speeds)?;
    if verbose {
        out.line("")?;
        kernels(session, device)?;
    } else {
        out.apart("Kernels by operation (-v: each with its class and version)")?;
        fields(short_names(device))?;
    }
    if facts.adapter.is_some() {
        return Ok(());
    }
    let found: Vec<String> = blas(device).map(|info| printable(&info.version.0)).collect();
    match found.is_empty() {
        true => out.apart("No BLAS library in use; TRIMTAB_BLAS=/path/to/libopenblas.so adds one."),
        false => out.apart(format!("BLAS found: {}", found.join("; "))),
    }
}

/// Names and what is to be said of each.
type Fields<'a> = Vec<(&'a str, String)>;

fn host_facts(facts: &DeviceFacts) -> Fields<'_> {
    let cores = facts.cores.map(|cores| format!("{cores} cores, ")).unwrap_or_default();
    let bits = facts.vector_bytes.map(|bytes| format!("{} bit: ", 8 * bytes)).unwrap_or_default();
    let mut fields = vec![
        ("threads", format!("{cores}{} threads for kernels", facts.threads)),
        ("caches", caches(facts)),
        ("vectors", format!("{bits}{}", facts.features.join(" "))),
    ];
    fields.extend(facts.numa_nodes.map(|nodes| ("NUMA nodes", nodes.to_string())));
    fields.extend(facts.memory.map(|memory| ("memory", memory.to_string())));
    fields
}

fn host_speeds(rates: &Rates) -> Fields<'static> {
    let (one, all) = (giga(rates.bytes_per_s), giga(rates.bytes_per_s_all));
    let (flops, lanes) = (giga(rates.flops_per_s), rates.lanes);
    let (cached, up_to) = (giga(rates.cached_bytes_per_s), rates.cached_up_to);
    vec![
        ("arithmetic", format!("{flops} GFLOP/s of f32, one thread, {lanes} lanes")),
        ("memory", format!("{one} GB/s one thread, {all} GB/s all threads")),
        ("cache", format!("{cached} GB/s one thread, up to {up_to}")),
        ("hand-over", format!("{} to another thread and back", rates.launch)),
    ]
}

fn giga(value: f64) -> String {
    format!("{:.1}", value * 1e-9)
}

/// What the kernels of each operation are called, without what all of them have in common.
fn short_names(device: &dyn Device) -> Fields<'_> {
    let of = |op: &Operation| {
        let its = device.kernels().iter().filter(|info| info.operation == *op);
        let names: Vec<&str> =
            its.map(|info| info.name.splitn(3, '.').last().unwrap_or(&info.name)).collect();
        (!names.is_empty()).then(|| (op.name(), names.join(", ")))
    };
    Operation::ALL.iter().filter_map(of).collect()
}

/// The kernels, operation by operation.
fn kernels(session: &Session, device: &dyn Device) -> Result<()> {
    let of = |&op: &Operation| device.kernels().iter().filter(move |info| info.operation == op);
    let kernels: Vec<&KernelInfo> = Operation::ALL.iter().flat_map(of).collect();
    let table = Table::of(&kernels)
        .column("kernel", |info| info.name.clone())
        .column("class", |info| info.class.name().to_string())
        .column("version", |info| info.version.to_string())
        .table();
    if table.is_empty() { session.out.line("no kernels") } else { session.out.table(&table) }
}

fn caches(facts: &DeviceFacts) -> String {
    let words = |cache: &Cache| match cache.shared_by {
        0 | 1 => format!("L{} {}", cache.level, whole(cache.size)),
        threads => format!("L{} {} shared by {threads} threads", cache.level, whole(cache.size)),
    };
    let caches: Vec<String> = facts.caches.iter().map(words).collect();
    if caches.is_empty() { "not told".to_string() } else { caches.join(", ") }
}

/// Cache sizes are whole numbers of their unit; `48.0 KiB` would suggest a measurement.
fn whole(bytes: Bytes) -> String {
    bytes.to_string().replace(".00 ", " ").replace(".0 ", " ")
}

/// What is known of the state in words, and what is not.
fn state_words(state: &State) -> Fields<'static> {
    let (mut words, mut unknown) = (Vec::new(), Vec::new());
    let mut add = |name: &'static str, value: Option<String>| match value {
        Some(value) => words.push((name, value)),
        None => unknown.push(name),
    };
    add("load", state.load_1m.map(|load| format!("{load:.2} runnable tasks, mean of a minute")));
    add("others", state.others.map(|cores| format!("other processes keep {cores:.1} cores busy")));
    add(
        "pressure",
        state
            .cpu_pressure
            .map(|share| format!("{} of the last 10 s a task waited for a core", percent(share))),
    );
    add(
        "steal",
        state.steal_share.map(|share| format!("{} of CPU time went to other guests", percent(share))),
    );
    add("free memory", state.memory_free.map(|free| free.to_string()));
    add(
        "temperature",
        state.temperature_celsius.map(|celsius| format!("{celsius:.0} °C, the hottest sensor")),
    );
    let max = state.frequency_max_mhz.map(|max| format!(" of at most {max:.0} MHz")).unwrap_or_default();
    add("frequency", state.frequency_mhz.map(|now| format!("{now:.0} MHz{max}")));
    add("throttling", state.throttle_count.map(|count| format!("{count} times since boot")));
    let charge = state.battery_percent.map(|charge| format!(", {charge} % charged")).unwrap_or_default();
    let supply = |on_battery| if on_battery { format!("battery{charge}") } else { format!("mains{charge}") };
    add("power", state.on_battery.map(supply));
    add("governor", state.power_profile.clone());
    add("energy", state.energy_uj.map(|_| "can be measured".to_string()));
    if !unknown.is_empty() {
        words.push(("not told", format!("{} (by this operating system)", unknown.join(", "))));
    }
    words
}
