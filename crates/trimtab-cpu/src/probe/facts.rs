//! The fixed facts of the processor, and the fingerprint wisdom is kept under.

use super::features::{self, Isa};
use super::read::{cgroup_memory, entries, field, list_len, meminfo, number, numbered, text};
use std::collections::BTreeSet;
use std::path::Path;
use trimtab_core::{Bytes, Cache, DeviceFacts, DeviceKind, Fingerprint, Habits};

const CPUS: &str = "sys/devices/system/cpu";

/// The facts of the processor this process runs on. `root` is `/`; tests give other trees. The cap limits the threads
/// kernels use; it is the user's wish, not a fact of the machine, and so no part of the fingerprint.
pub fn facts(root: &Path, thread_cap: Option<u32>) -> DeviceFacts {
    let usable =
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    describe(root, features::detect(), usable, thread_cap)
}

/// The facts, given what only the running processor can tell.
pub(super) fn describe(root: &Path, isa: Isa, usable: u32, thread_cap: Option<u32>) -> DeviceFacts {
    let cpuinfo = text(root, "proc/cpuinfo").unwrap_or_default();
    let first = cpuinfo.split("\n\n").next().unwrap_or("");
    let cores = cores(root, &cpuinfo);
    let caches = caches(root);
    let name = name(root, first);
    let stepping = stepping(first);
    let threads = thread_cap.unwrap_or(usable).clamp(1, usable.max(1));
    let mut notes = notes(root, first);
    if threads < usable {
        notes.push(("threads".to_string(), format!("{threads} of {usable}, as asked")));
    }
    if let Some(stepping) = &stepping {
        notes.insert(0, ("stepping".to_string(), stepping.clone()));
    }
    DeviceFacts {
        adapter: None,
        id: "cpu".to_string(),
        fingerprint: fingerprint(&name, stepping.as_deref(), cores, usable, &caches, &isa),
        name,
        kind: DeviceKind::Cpu,
        habits: Habits::HOST,
        cores,
        threads,
        caches,
        vector_bytes: isa.vector_bytes,
        features: isa.features,
        numa_nodes: Some(numbered(root, "sys/devices/system/node", "node").len() as u32)
            .filter(|&nodes| nodes > 0),
        memory: memory(root),
        notes,
    }
}

/// What decides which kernel is fast: model (a virtual machine says only "AMD EPYC", hence the stepping), cores,
/// threads, caches (one model is sold with several), instruction sets. Not the clock, the kernel or the microcode.
fn fingerprint(
    name: &str,
    stepping: Option<&str>,
    cores: Option<u32>,
    usable: u32,
    caches: &[Cache],
    isa: &Isa,
) -> Fingerprint {
    let stepping = stepping.map_or(String::new(), |stepping| format!(" {stepping}"));
    let cores = cores.map_or(String::new(), |cores| format!("{cores}c"));
    let caches: Vec<String> = caches
        .iter()
        .filter(|cache| cache.level > 1)
        .map(|cache| format!("L{}:{}K", cache.level, cache.size.0 / 1024))
        .collect();
    let caches = if caches.is_empty() { "-".to_string() } else { caches.join(",") };
    let widest = ["avx512f", "avx2", "avx", "sse2", "neon"]
        .into_iter()
        .find(|name| isa.features.iter().any(|known| known == name))
        .unwrap_or(std::env::consts::ARCH);
    let digest = fnv1a(&isa.features.join("+"));
    Fingerprint(format!(
        "cpu/{}{stepping}/{cores}{usable}t/{caches}/{widest}-{digest:08x}",
        name.replace('/', "-")
    ))
}

/// A short stable digest. Written out because the standard library's may change between releases.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn name(root: &Path, first: &str) -> String {
    let arm = || {
        let part = field(first, "CPU part")?;
        Some(format!("{} {}", implementer(field(first, "CPU implementer")?), part))
    };
    let told = field(first, "model name")
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .or_else(arm)
        .or_else(|| text(root, "sys/firmware/devicetree/base/model").map(|name| name.replace('\0', "")));
    let name = told.unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH));
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn implementer(code: &str) -> String {
    match code {
        "0x41" => "ARM".to_string(),
        "0x51" => "Qualcomm".to_string(),
        "0x61" => "Apple".to_string(),
        "0xc0" => "Ampere".to_string(),
        other => format!("implementer {other}"),
    }
}

/// Family, model and stepping, or ARM's variant and revision.
fn stepping(first: &str) -> Option<String> {
    let get = |key| field(first, key).filter(|value| !value.is_empty());
    let x86 = || Some(format!("f{}m{}s{}", get("cpu family")?, get("model")?, get("stepping")?));
    let arm = || Some(format!("v{}r{}", get("CPU variant")?, get("CPU revision")?));
    x86().or_else(arm)
}

/// Physical cores of the machine: distinct pairs of package and core.
fn cores(root: &Path, cpuinfo: &str) -> Option<u32> {
    let from_sys: BTreeSet<(i64, i64)> = numbered(root, CPUS, "cpu")
        .iter()
        .filter_map(|cpu| {
            let package = number(root, &format!("{cpu}/topology/physical_package_id"))?;
            Some((package, number(root, &format!("{cpu}/topology/core_id"))?))
        })
        .collect();
    let from_proc = || -> BTreeSet<(i64, i64)> {
        let blocks = cpuinfo.split("\n\n");
        let pair = |block| {
            Some((field(block, "physical id")?.parse().ok()?, field(block, "core id")?.parse().ok()?))
        };
        blocks.filter_map(pair).collect()
    };
    let found = if from_sys.is_empty() { from_proc() } else { from_sys };
    (!found.is_empty()).then_some(found.len() as u32)
}

fn caches(root: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = numbered(root, &format!("{CPUS}/cpu0/cache"), "index")
        .iter()
        .filter(|index| {
            text(root, &format!("{index}/type")).is_some_and(|kind| kind == "Data" || kind == "Unified")
        })
        .filter_map(|index| {
            Some(Cache {
                level: number(root, &format!("{index}/level"))?,
                size: size(&text(root, &format!("{index}/size"))?)?,
                shared_by: text(root, &format!("{index}/shared_cpu_list"))
                    .and_then(|list| list_len(&list))
                    .unwrap_or(1),
                line: number(root, &format!("{index}/coherency_line_size"))?,
            })
        })
        .filter(|cache| cache.size.0 > 0)
        .collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// `48K`, `32M`, or bytes.
fn size(text: &str) -> Option<Bytes> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1u64),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Bytes)
}

/// Memory of the machine, or of the control group if that is less.
fn memory(root: &Path) -> Option<Bytes> {
    let total = meminfo(root, "MemTotal")?;
    Some(Bytes(cgroup_memory(root, "memory.max").map_or(total, |limit| limit.min(total))))
}

fn notes(root: &Path, first: &str) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            notes.push((name.to_string(), value));
        }
    };
    note("microcode", field(first, "microcode").map(str::to_string));
    note("kernel", text(root, "proc/sys/kernel/osrelease"));
    note("governor", text(root, &format!("{CPUS}/cpu0/cpufreq/scaling_governor")));
    note("frequency driver", text(root, &format!("{CPUS}/cpu0/cpufreq/scaling_driver")));
    note("simultaneous threads", text(root, &format!("{CPUS}/smt/control")));
    let virtual_machine =
        field(first, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let product = || text(root, "sys/class/dmi/id/sys_vendor");
    note("hypervisor", virtual_machine.then(|| product().unwrap_or_else(|| "present".to_string())));
    // Processors with two kinds of cores list them here.
    note("performance cores", text(root, "sys/devices/cpu_core/cpus"));
    note("efficiency cores", text(root, "sys/devices/cpu_atom/cpus"));
    let modes = text(root, "sys/kernel/mm/transparent_hugepage/enabled");
    note("huge pages", modes.and_then(|modes| chosen(&modes)));
    let rapl = entries(root, "sys/class/powercap").iter().any(|path| path.contains("intel-rapl:"));
    note("energy counter", rapl.then(|| "present".to_string()));
    notes
}

/// The word in brackets of `always [madvise] never`.
fn chosen(modes: &str) -> Option<String> {
    Some(modes.split_once('[')?.1.split_once(']')?.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{Tree, amd_server, garbage, intel_desktop, laptop, silent};
    use super::*;

    fn avx2() -> Isa {
        Isa { features: ["avx", "avx2", "fma", "sse2"].map(String::from).to_vec(), vector_bytes: Some(32) }
    }

    fn of(tree: &Tree, threads: u32) -> DeviceFacts {
        describe(tree.root(), avx2(), threads, None)
    }

    #[test]
    fn an_intel_desktop_is_described() {
        let facts = of(&intel_desktop(), 4);
        assert_eq!(facts.id, "cpu");
        assert_eq!(facts.name, "Intel(R) Core(TM) i5-9600K CPU @ 3.70GHz");
        assert_eq!((facts.cores, facts.threads, facts.numa_nodes), (Some(2), 4, Some(1)));
        assert_eq!(facts.cache(1), Some(Bytes(32 << 10)));
        assert_eq!(facts.cache(2), Some(Bytes(256 << 10)));
        assert_eq!(facts.cache(3), Some(Bytes(9 << 20)));
        assert_eq!(facts.caches[2].shared_by, 4);
        assert_eq!(facts.memory, Some(Bytes(16_303_428 * 1024)));
        assert!(facts.notes.contains(&("governor".to_string(), "powersave".to_string())));
        assert_eq!(
            facts.fingerprint.0,
            format!(
                "cpu/Intel(R) Core(TM) i5-9600K CPU @ 3.70GHz f6m158s12/2c4t/L2:256K,L3:9216K/avx2-{:08x}",
                fnv1a("avx+avx2+fma+sse2")
            )
        );
    }

    #[test]
    fn a_server_in_a_virtual_machine_is_told_apart_by_its_stepping() {
        let facts = of(&amd_server(), 2);
        assert!(facts.fingerprint.0.starts_with("cpu/AMD EPYC f25m17s1/2c2t/L2:1024K,L3:32768K/"));
        assert_eq!(facts.numa_nodes, Some(2));
        assert!(facts.notes.contains(&("hypervisor".to_string(), "Amazon EC2".to_string())));
        // The control group allows less than the machine has.
        assert_eq!(facts.memory, Some(Bytes(2 << 30)));
    }

    #[test]
    fn a_laptop_has_its_two_kinds_of_cores_noted() {
        let facts = of(&laptop(), 8);
        assert!(facts.notes.contains(&("performance cores".to_string(), "0-3".to_string())));
        assert!(facts.notes.contains(&("efficiency cores".to_string(), "4-7".to_string())));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_absent_facts_and_still_a_fingerprint() {
        let facts = describe(silent().root(), Isa::default(), 1, None);
        assert_eq!(
            (facts.cores, facts.numa_nodes, facts.memory, facts.vector_bytes),
            (None, None, None, None)
        );
        assert!(facts.caches.is_empty() && facts.features.is_empty() && facts.notes.is_empty());
        assert!(facts.fingerprint.0.starts_with("cpu/unknown "), "{}", facts.fingerprint);
        assert_eq!(facts.threads, 1);
    }

    #[test]
    fn damaged_files_read_as_absent() {
        let facts = of(&garbage(), 2);
        assert_eq!((facts.cores, facts.memory), (None, None));
        assert!(facts.caches.is_empty());
    }

    #[test]
    fn a_thread_cap_limits_threads_but_does_not_change_the_fingerprint() {
        let tree = intel_desktop();
        let capped = describe(tree.root(), avx2(), 4, Some(1));
        assert_eq!(capped.threads, 1);
        assert_eq!(capped.fingerprint, of(&tree, 4).fingerprint);
        assert_eq!(describe(tree.root(), avx2(), 4, Some(0)).threads, 1);
        assert_eq!(describe(tree.root(), avx2(), 4, Some(99)).threads, 4);
        assert_ne!(of(&tree, 2).fingerprint, of(&tree, 4).fingerprint);
    }

    #[test]
    fn this_machine_has_facts_that_do_not_change() {
        let facts = facts(Path::new("/"), None);
        assert_eq!(facts, super::facts(Path::new("/"), None));
        assert!(facts.threads >= 1 && !facts.name.is_empty());
    }
}
