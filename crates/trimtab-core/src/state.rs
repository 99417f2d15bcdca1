//! What the machine is like now. What the operating system does not tell is absent.

use crate::Bytes;

/// A snapshot of the machine. Every field that could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Runnable tasks, averaged over a minute.
    pub load_1m: Option<f64>,
    /// Share of CPU time the hypervisor gave to other guests since boot.
    pub steal_share: Option<f64>,
    /// Share of time some task waited for a CPU in the last ten seconds (Linux pressure information).
    pub cpu_pressure: Option<f64>,
    /// Memory that can be used without swapping.
    pub memory_free: Option<Bytes>,
    /// The hottest sensor, in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Present frequency, averaged over cores.
    pub frequency_mhz: Option<f64>,
    /// The frequency the cores may reach.
    pub frequency_max_mhz: Option<f64>,
    /// Times a core was throttled since boot.
    pub throttle_count: Option<u64>,
    /// Whether the machine runs on battery.
    pub on_battery: Option<bool>,
    /// Battery charge in percent.
    pub battery_percent: Option<u32>,
    /// The frequency governor or power profile in force.
    pub power_profile: Option<String>,
    /// Energy counter of the package, in microjoules; differences are energy.
    pub energy_uj: Option<u64>,
}

impl State {
    /// The condition under which a fact is learned: `busy` when more tasks want cores than there are, `quiet` otherwise.
    pub fn condition(&self, cores: u32) -> &'static str {
        match self.load_1m {
            Some(load) if load > 1.5 * f64::from(cores.max(1)) => "busy",
            _ => "quiet",
        }
    }
}
