//! The choice: what to run, and who competed for it.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::sync::Arc;
use trimtab_core::{Basis, Estimate, KernelId, KernelVersion, Nanos, Point, VariantClass, Work};

/// Cost of reading the clock twice, measured 50 ns; live timing must stay under one percent of the work.
const CLOCK_COST_NS: u64 = 50;
/// At least one in this many calls and one more is timed.
const MAX_SAMPLE_MASK: u64 = 1023;

/// What to run: held by the caller, or found again for the same problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Position in the planner's list of devices.
    pub device: u16,
    /// Which kernel of that device.
    pub kernel: KernelId,
    /// With which settings.
    pub point: Point,
    /// How long it is expected to take.
    pub expected: Nanos,
    /// A call is timed when the number drawn for it has none of these bits.
    pub(crate) sample_mask: u32,
    /// Number of the slot, for feedback; zero if it has none.
    pub(crate) id: u32,
    /// Who wrote the kernel.
    pub(crate) code: Code,
}

/// Who wrote what a plan runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Code {
    #[default]
    Ours,
    Library,
    Users,
}

impl Plan {
    pub(crate) fn new(device: u16, kernel: KernelId, point: Point, expected: Nanos) -> Plan {
        let interval = (100 * CLOCK_COST_NS).div_ceil(expected.0.max(1));
        let sample_mask = (interval.next_power_of_two() - 1).min(MAX_SAMPLE_MASK) as u32;
        Plan { device, kernel, point, expected, sample_mask, id: 0, code: Code::Ours }
    }

    /// Whether both run the same.
    pub(crate) fn is_same(&self, other: &Plan) -> bool {
        (self.device, self.kernel, self.point) == (other.device, other.kernel, other.point)
    }

    /// The plan that runs a rival.
    pub(crate) fn of(rival: &Rival) -> Plan {
        let expected = rival.estimate().map_or(Nanos(0), |estimate| estimate.time);
        let code = match rival.class {
            VariantClass::Custom => Code::Users,
            VariantClass::Library => Code::Library,
            _ => Code::Ours,
        };
        Plan { code, ..Plan::new(rival.device, rival.kernel, rival.point, expected) }
    }

    /// Whether it runs that rival.
    pub(crate) fn runs(&self, rival: &Rival) -> bool {
        (self.device, self.kernel, self.point) == (rival.device, rival.kernel, rival.point)
    }

    /// Whether it runs a kernel a user brought.
    #[inline]
    pub fn is_users(&self) -> bool {
        self.code == Code::Users
    }

    /// Whether it runs a kernel of a library or of a user: code that may end the process, and is noted while it runs.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        self.code != Code::Ours
    }

    /// The number under which its live calls are reported; zero if they are not.
    pub fn number(&self) -> u32 {
        self.id
    }

    /// One in so many live calls is timed.
    pub fn sample_interval(&self) -> u32 {
        self.sample_mask + 1
    }
}

/// Where a rival stands in a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// In the running, with the time the decision was made on.
    Estimated {
        /// The expected time and its basis.
        estimate: Estimate,
        /// The objective's score in log2 units; smaller is better.
        score: f64,
    },
    /// The kernel does not take the problem.
    Declined(String),
    /// It would break a constraint.
    Excluded(String),
    /// On its device it cannot win: the transfer alone takes longer than another device needs for it all.
    Dominated(String),
    /// What the user said about devices or kernels leaves no place for it.
    Overruled(String),
    /// It failed, hung or lied before and is not tried.
    Quarantined(String),
    /// Not looked at: what is remembered, or the first in order of preference, was enough.
    Unconsidered,
}

/// One (device, kernel, point) that was considered, or a kernel that declined.
#[derive(Clone, Debug)]
pub struct Rival {
    /// Position in the planner's list of devices.
    pub device: u16,
    /// That device's short name.
    pub device_id: Arc<str>,
    /// Position in the device's table.
    pub kernel: KernelId,
    /// The kernel's name.
    pub name: Arc<str>,
    /// The kernel's version.
    pub version: KernelVersion,
    /// What sort of implementation it is.
    pub class: VariantClass,
    /// The settings; the empty point for a kernel that declined.
    pub point: Point,
    /// The settings by name.
    pub point_name: String,
    /// What one launch does.
    pub work: Work,
    /// Time around the kernel of a call whose operands lie in the caller's memory, where it was needed to decide: nothing on
    /// the processor, and where only the whole call is known, which then is the estimate.
    pub transfer: Nanos,
    /// What building it is expected to take before its first launch in this process, where that counts: a call has to wait for it.
    pub build: Nanos,
    /// Energy of one launch in microjoules, where it was measured.
    pub energy_uj: Option<f64>,
    /// A time that is remembered of it and not believed: its device cannot be that fast.
    pub implausible: Option<Nanos>,
    /// Where it stands.
    pub standing: Standing,
}

impl Rival {
    /// The estimate, if it is in the running.
    pub fn estimate(&self) -> Option<Estimate> {
        match &self.standing {
            Standing::Estimated { estimate, .. } => Some(*estimate),
            _ => None,
        }
    }

    /// What a call would take: the kernel's estimate and the transfer.
    pub fn call_time(&self) -> Option<Nanos> {
        self.estimate().map(|estimate| Nanos(estimate.time.0.saturating_add(self.transfer.0)))
    }

    /// The score, if it is in the running.
    pub fn score(&self) -> Option<f64> {
        match &self.standing {
            Standing::Estimated { score, .. } => Some(*score),
            _ => None,
        }
    }

    /// The score for comparisons: rivals out of the running come last.
    pub(crate) fn rank(&self) -> f64 {
        self.score().unwrap_or(f64::INFINITY)
    }

    /// Whether it is a yardstick of correctness.
    pub(crate) fn is_reference(&self) -> bool {
        self.class == VariantClass::Reference
    }

    /// Whether its time was measured on this very problem.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self.estimate(), Some(Estimate { basis: Basis::Measured(_), .. }))
    }

    /// Whether it may still be chosen.
    pub(crate) fn is_open(&self) -> bool {
        self.estimate().is_some() || self.standing == Standing::Unconsidered
    }

    /// Whether it is out whatever its time.
    pub(crate) fn is_barred(&self) -> bool {
        matches!(self.standing, Standing::Declined(_) | Standing::Excluded(_) | Standing::Overruled(_))
    }

    /// Its kernel and settings by name.
    pub(crate) fn label(&self) -> String {
        format!("{} ({})", self.name, self.point_name)
    }

    /// Why it is out of the running.
    pub fn out_because(&self) -> Option<String> {
        match &self.standing {
            Standing::Estimated { .. } => None,
            Standing::Declined(reason) => Some(reason.clone()),
            Standing::Excluded(reason) => Some(format!("excluded: {reason}")),
            Standing::Dominated(reason) => Some(reason.clone()),
            Standing::Overruled(reason) => Some(format!("overruled: {reason}")),
            Standing::Quarantined(reason) => Some(format!("quarantined: {reason}")),
            Standing::Unconsidered => Some("not considered".to_string()),
        }
    }
}

impl Serialize for Rival {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut view = to.serialize_struct("Rival", 9)?;
        view.serialize_field("device", &*self.device_id)?;
        view.serialize_field("kernel", &*self.name)?;
        view.serialize_field("version", &*self.version.0)?;
        view.serialize_field("point", &self.point_name)?;
        view.serialize_field("transfer_ns", &self.transfer.0)?;
        view.serialize_field("build_ns", &self.build.0)?;
        let estimate = self.estimate();
        view.serialize_field("estimate_ns", &estimate.map(|estimate| estimate.time.0))?;
        view.serialize_field("basis", &estimate.map(|estimate| estimate.basis.to_string()))?;
        view.serialize_field("out", &self.out_because())?;
        view.end()
    }
}

/// Why this rival and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An earlier race decided; its winner is remembered.
    Remembered,
    /// It won a race just now.
    Raced,
    /// One run of each was timed, and its was the shortest.
    Led,
    /// It is within the indifference zone of the fastest and was in force before.
    KeptIncumbent,
    /// problems of its family that were measured teach that it is the fastest; nothing was measured.
    Learned,
    /// Its estimate is the best; nothing was measured.
    Estimated,
    /// Nothing is known and nothing may be measured: the first in order of preference.
    DefaultOrder,
    /// Better ones failed; it is the next best.
    NextBest,
    /// Its kernel was chosen by its estimate, its width by what live calls took.
    Resized,
    /// Live calls that tried it showed it to be faster than what was in force.
    Explored,
}

impl Reason {
    /// One word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Remembered => "remembered",
            Reason::Raced => "raced",
            Reason::Led => "led",
            Reason::KeptIncumbent => "kept incumbent",
            Reason::Learned => "learned",
            Reason::Estimated => "estimated",
            Reason::DefaultOrder => "default order",
            Reason::NextBest => "next best",
            Reason::Resized => "resized",
            Reason::Explored => "explored",
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Remembered => "it won an earlier race and is remembered",
            Reason::Raced => "it won the race",
            Reason::Led => "one run of each was timed, and its was the shortest",
            Reason::KeptIncumbent => "it was in force and nothing is clearly faster",
            Reason::Learned => {
                "other problems of its family teach that it is the fastest; nothing was measured"
            }
            Reason::Estimated => "its estimate is the best; nothing was measured",
            Reason::DefaultOrder => {
                "nothing is known yet and nothing may be measured: first in order of preference"
            }
            Reason::NextBest => "better ones failed; it is the next best",
            Reason::Explored => "live calls that tried it showed it to be the fastest",
            Reason::Resized => "its kernel's estimate is the best, and live calls chose its width",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_timing_stays_under_one_percent() {
        for expected in [0, 10, 100, 1_000, 4_999, 5_000, 1_000_000] {
            let plan = Plan::new(0, KernelId(0), Point::EMPTY, Nanos(expected));
            let interval = u64::from(plan.sample_interval());
            assert!(CLOCK_COST_NS * 100 <= interval * expected.max(1) || interval == MAX_SAMPLE_MASK + 1);
        }
        assert_eq!(Plan::new(0, KernelId(0), Point::EMPTY, Nanos(1_000_000)).sample_interval(), 1);
    }
}
