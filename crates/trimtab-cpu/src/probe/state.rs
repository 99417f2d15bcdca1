//! What the machine is like now: load, pressure, temperature, frequency, throttling, power. About 0.1 ms to read, so not for
//! the warm path.

use super::read::{cgroup_memory, entries, field, meminfo, number, numbered, text};
use std::path::Path;
use trimtab_core::{Bytes, State};

const CPUS: &str = "sys/devices/system/cpu";
/// Most processors asked one by one; reading a frequency may interrupt the processor it belongs to.
const MAX_PROCESSORS: usize = 64;
/// Sensors outside these degrees Celsius are broken.
const SENSIBLE_CELSIUS: std::ops::Range<f64> = 1.0..150.0;

/// The present state. `root` is `/`; tests give other trees.
pub fn state(root: &Path) -> State {
    let processors = processors(root);
    let (on_battery, battery_percent) = power_supply(root);
    State {
        load_1m: load(root),
        steal_share: steal_share(root),
        cpu_pressure: pressure(root),
        // Told by comparing two readings: see `Others`.
        others: None,
        // Told by computing: see `pace`.
        slowed: None,
        memory_free: memory_free(root),
        temperature_celsius: temperature(root),
        frequency_mhz: frequency(root, &processors),
        frequency_max_mhz: frequency_max(root, &processors),
        throttle_count: throttles(root, &processors),
        // Processors tell neither: how often, and an energy whose differences are power.
        throttled_by: None,
        power_mw: None,
        on_battery,
        battery_percent,
        power_profile: text(root, "sys/firmware/acpi/platform_profile")
            .or_else(|| text(root, &format!("{CPUS}/cpu0/cpufreq/scaling_governor")))
            .filter(|profile| profile.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')),
        energy_uj: energy_uj(root),
    }
}

fn processors(root: &Path) -> Vec<String> {
    numbered(root, CPUS, "cpu").into_iter().take(MAX_PROCESSORS).collect()
}

/// A number that is finite and not negative.
fn sensible(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

fn load(root: &Path) -> Option<f64> {
    sensible(text(root, "proc/loadavg")?.split_whitespace().next()?)
}

fn steal_share(root: &Path) -> Option<f64> {
    let (stolen, total) = steal_ticks(root)?;
    (total > 0).then(|| stolen as f64 / total as f64)
}

/// Clock ticks since boot that the hypervisor gave to others, and all ticks.
pub(super) fn steal_ticks(root: &Path) -> Option<(u64, u64)> {
    let stat = text(root, "proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let ticks: Option<Vec<u64>> = line.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect();
    let ticks = ticks?;
    Some((*ticks.get(7)?, ticks.iter().fold(0, |sum: u64, tick| sum.saturating_add(*tick))))
}

fn pressure(root: &Path) -> Option<f64> {
    let pressure = text(root, "proc/pressure/cpu")?;
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent = sensible(some.split_whitespace().find_map(|part| part.strip_prefix("avg10="))?)?;
    Some(percent / 100.0)
}

fn memory_free(root: &Path) -> Option<Bytes> {
    let free = meminfo(root, "MemAvailable")?;
    let limit = cgroup_memory(root, "memory.max");
    let left = limit.map(|limit| limit.saturating_sub(cgroup_memory(root, "memory.current").unwrap_or(0)));
    Some(Bytes(left.map_or(free, |left| left.min(free))))
}

/// The hottest sensor of the thermal zones and of the hardware monitors.
fn temperature(root: &Path) -> Option<f64> {
    let zones =
        numbered(root, "sys/class/thermal", "thermal_zone").into_iter().map(|zone| format!("{zone}/temp"));
    let monitors = numbered(root, "sys/class/hwmon", "hwmon");
    let sensors = monitors.iter().flat_map(|monitor| entries(root, monitor)).filter(|path| {
        let name = path.rsplit('/').next().unwrap_or("");
        name.starts_with("temp") && name.ends_with("_input")
    });
    zones
        .chain(sensors)
        .filter_map(|path| number::<i64>(root, &path))
        .map(|millidegrees| millidegrees as f64 / 1000.0)
        .filter(|degrees| SENSIBLE_CELSIUS.contains(degrees))
        .max_by(f64::total_cmp)
}

fn frequency(root: &Path, processors: &[String]) -> Option<f64> {
    let scaled = |cpu: &String| number::<u32>(root, &format!("{cpu}/cpufreq/scaling_cur_freq"));
    let mut found: Vec<f64> =
        processors.iter().filter_map(scaled).map(|khz| f64::from(khz) / 1000.0).collect();
    if found.is_empty() {
        let cpuinfo = text(root, "proc/cpuinfo")?;
        found = cpuinfo.split("\n\n").filter_map(|block| sensible(field(block, "cpu MHz")?)).collect();
    }
    found.retain(|mhz| *mhz > 0.0);
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

/// The highest frequency the present settings allow any core.
fn frequency_max(root: &Path, processors: &[String]) -> Option<f64> {
    let limit = |cpu: &String| {
        number::<u32>(root, &format!("{cpu}/cpufreq/scaling_max_freq"))
            .or_else(|| number(root, &format!("{cpu}/cpufreq/cpuinfo_max_freq")))
    };
    processors.iter().filter_map(limit).max().map(|khz| f64::from(khz) / 1000.0)
}

/// Times cores were throttled since boot.
pub(super) fn throttle_count(root: &Path) -> Option<u64> {
    throttles(root, &processors(root))
}

fn throttles(root: &Path, processors: &[String]) -> Option<u64> {
    let count = |cpu: &String| number::<u64>(root, &format!("{cpu}/thermal_throttle/core_throttle_count"));
    let counts: Vec<u64> = processors.iter().filter_map(count).collect();
    (!counts.is_empty()).then(|| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)))
}

/// Whether the machine runs on battery, and the charge. Batteries of mice and headsets do not count.
fn power_supply(root: &Path) -> (Option<bool>, Option<u32>) {
    let (mut mains, mut discharging, mut charge) = (None, None, None);
    for supply in entries(root, "sys/class/power_supply") {
        let get = |file: &str| text(root, &format!("{supply}/{file}"));
        match get("type").as_deref() {
            Some("Mains" | "USB") => match get("online").as_deref() {
                Some("0") => mains = Some(mains.unwrap_or(false)),
                Some(online) if online.parse::<u32>().is_ok() => mains = Some(true),
                _ => {}
            },
            Some("Battery") if get("scope").as_deref() != Some("Device") => {
                match get("status").as_deref() {
                    Some("Discharging") => discharging = Some(true),
                    Some("Charging" | "Full" | "Not charging") => {
                        discharging = Some(discharging.unwrap_or(false))
                    }
                    _ => {}
                }
                charge =
                    charge.or(get("capacity").and_then(|percent| percent.parse().ok()).filter(|p| *p <= 100));
            }
            _ => {}
        }
    }
    // A desktop's supply without a battery is mains, too.
    (if mains == Some(true) { Some(false) } else { discharging }, charge)
}

/// The energy counters of all packages together. They wrap around at about 262 kJ; a smaller later reading is a wrap.
pub fn energy_uj(root: &Path) -> Option<u64> {
    let packages: Vec<String> = numbered(root, "sys/class/powercap", "intel-rapl:")
        .into_iter()
        .filter(|zone| text(root, &format!("{zone}/name")).is_some_and(|name| name.starts_with("package")))
        .collect();
    if packages.is_empty() {
        return None;
    }
    // Readable by root only on most systems; one package that is not makes the sum meaningless.
    packages.iter().map(|zone| number::<u64>(root, &format!("{zone}/energy_uj"))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{amd_server, garbage, intel_desktop, laptop, silent};
    use super::*;

    #[test]
    fn a_desktop_tells_temperature_frequency_throttling_and_energy() {
        let state = state(intel_desktop().root());
        assert_eq!(state.load_1m, Some(1.25));
        assert_eq!(state.temperature_celsius, Some(61.0));
        assert_eq!((state.frequency_mhz, state.frequency_max_mhz), (Some(3950.0), Some(4600.0)));
        assert_eq!(state.throttle_count, Some(7));
        assert_eq!(state.energy_uj, Some(123_456_789));
        assert_eq!(state.memory_free, Some(Bytes(8_000_000 * 1024)));
        assert_eq!(state.power_profile.as_deref(), Some("powersave"));
        assert_eq!((state.on_battery, state.battery_percent), (None, None));
        assert_eq!(state.cpu_pressure, Some(0.025));
    }

    #[test]
    fn a_virtual_machine_tells_the_time_stolen_from_it() {
        let state = state(amd_server().root());
        assert_eq!(state.steal_share, Some(0.05));
        assert_eq!(state.frequency_mhz, Some(2596.134));
        assert_eq!(state.memory_free, Some(Bytes((2 << 30) - (1 << 29))), "the control group's limit counts");
        assert_eq!((state.energy_uj, state.temperature_celsius), (None, None));
    }

    #[test]
    fn a_laptop_on_battery_says_so() {
        let state = state(laptop().root());
        assert_eq!((state.on_battery, state.battery_percent), (Some(true), Some(43)));
        assert_eq!(state.power_profile.as_deref(), Some("low-power"));
    }

    #[test]
    fn plugging_the_laptop_in_ends_it() {
        let tree = laptop();
        tree.write("sys/class/power_supply/AC/online", "1");
        assert_eq!(state(tree.root()).on_battery, Some(false));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_an_empty_state() {
        assert_eq!(state(silent().root()), State::default());
    }

    #[test]
    fn damaged_files_read_as_absent() {
        assert_eq!(state(garbage().root()), State::default());
    }

    #[test]
    fn one_package_whose_energy_is_secret_makes_the_sum_absent() {
        let tree = intel_desktop();
        tree.write("sys/class/powercap/intel-rapl:1/name", "package-1");
        assert_eq!(state(tree.root()).energy_uj, None);
    }

    #[test]
    fn this_machine_has_a_state_within_reason() {
        let state = state(Path::new("/"));
        assert!(state.steal_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        assert!(state.load_1m.is_none_or(|load| load >= 0.0));
    }
}
