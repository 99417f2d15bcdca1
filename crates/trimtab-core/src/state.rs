//! What the machine is like now. What the operating system does not tell is absent.

use crate::Bytes;

/// The share of all cores that others may use before what is measured meanwhile is doubted.
const OTHERS_SHARE: f64 = 0.15;

/// A core is shared from this many times the least time on that work takes which fills it: 2.1 was seen beside a like loop.
pub const SHARED_FROM: f64 = 1.4;

/// A snapshot of the machine. Every field that could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Runnable tasks, averaged over a minute.
    pub load_1m: Option<f64>,
    /// Share of CPU time the hypervisor gave to other guests since boot.
    pub steal_share: Option<f64>,
    /// Share of time some task waited for a CPU in the last ten seconds (Linux pressure information).
    pub cpu_pressure: Option<f64>,
    /// Cores' worth of work other processes and other guests of the hypervisor do, over the last tenth of a second or more.
    pub others: Option<f64>,
    /// How many times as long as at its best in this process work takes that fills a core: somebody computes on its other thread. One when it
    /// is asked for the first time, so it is not shown to anybody.
    pub slowed: Option<f64>,
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
    /// What holds the clock down now, in words; none where nothing does.
    pub throttled_by: Option<Vec<&'static str>>,
    /// Power drawn now, in milliwatts.
    pub power_mw: Option<u64>,
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
    /// The condition under which a fact is learned: busy when others use more than a share of all cores or, where nobody can
    /// tell, when more tasks want cores than there are, or when somebody computes on the other thread of this core; quiet otherwise.
    pub fn condition(&self, cores: u32) -> Condition {
        let cores = f64::from(cores.max(1));
        let busy = match (self.others, self.load_1m) {
            (Some(others), _) => others > OTHERS_SHARE * cores,
            (None, Some(load)) => load > 1.5 * cores,
            (None, None) => false,
        };
        let shared = self.slowed.is_some_and(|slowed| slowed >= SHARED_FROM);
        if busy || shared { Condition::Busy } else { Condition::Quiet }
    }
}

/// Under which conditions a fact was learned: part of its key, so that times of one condition are never mixed with another's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Measured while nothing else ran.
    #[default]
    Quiet,
    /// Measured while more tasks wanted cores than there are.
    Busy,
    /// A live call: operands and caches as the caller had them.
    Live,
    /// How long building a kernel took.
    Compile,
    /// A live call that tried another rival,
    Explored,
    /// and what the plan in force took beside it.
    Chosen,
    /// Measured again because live calls took another time than before.
    Drifted,
    /// A time-out that may have been an accident: it bars nobody.
    Suspect,
    /// How long a check of its result took, at the real size.
    Checked,
    /// A word of another version of trimtab: kept, not used.
    Other(Box<str>),
}

impl Condition {
    /// Every condition that has a meaning here.
    pub const ALL: [Condition; 9] = [
        Condition::Quiet,
        Condition::Busy,
        Condition::Live,
        Condition::Compile,
        Condition::Explored,
        Condition::Chosen,
        Condition::Drifted,
        Condition::Suspect,
        Condition::Checked,
    ];

    /// The word in wisdom.
    pub fn name(&self) -> &str {
        match self {
            Condition::Quiet => "quiet",
            Condition::Busy => "busy",
            Condition::Live => "live",
            Condition::Compile => "compile",
            Condition::Explored => "explored",
            Condition::Chosen => "chosen",
            Condition::Drifted => "drifted",
            Condition::Suspect => "suspect",
            Condition::Checked => "checked",
            Condition::Other(word) => word,
        }
    }

    /// The condition of that word.
    pub fn named(word: &str) -> Condition {
        Condition::ALL
            .into_iter()
            .find(|known| known.name() == word)
            .unwrap_or_else(|| Condition::Other(word.into()))
    }
}

impl From<&str> for Condition {
    fn from(word: &str) -> Condition {
        Condition::named(word)
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
