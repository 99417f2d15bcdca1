//! What the user says about which device to use: off, thresholds by class, small batches. It is obeyed and said, not weighed.

use crate::class::Class;
use crate::cold::Cold;
use crate::plan::{Decision, Rival, Standing};
use trimtab_core::{DeviceKind, Problem};

/// A product of a batch counts as small up to this many elements of its largest matrix.
const SMALL_MATRIX: u64 = 128 * 128;

/// What is said about using other devices than the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Only the processor is used; no other device is opened.
    pub off: bool,
    /// From this size on problems of a class go to another device, below to the processor; by [`Class::ALL`].
    pub thresholds: [Option<u64>; Class::ALL.len()],
    /// The same for classes without a threshold of their own.
    pub all: Option<u64>,
    /// Products of fewer and small matrices than this stay on the processor.
    pub small_batch: Option<u64>,
}

impl Offload {
    /// The threshold of a class: its own, else the general one.
    pub fn threshold(&self, class: Class) -> Option<u64> {
        let at = Class::ALL.iter().position(|known| *known == class);
        at.and_then(|at| self.thresholds[at]).or(self.all)
    }

    /// Sets the threshold of a class.
    pub fn with_threshold(mut self, class: Class, size: u64) -> Offload {
        if let Some(at) = Class::ALL.iter().position(|known| *known == class) {
            self.thresholds[at] = Some(size);
        }
        self
    }

    /// What it says about a problem.
    pub fn says(&self, problem: &Problem) -> Option<Said> {
        if let (Some(least), Problem::Matmul(p)) = (self.small_batch, problem) {
            let largest = (p.m * p.k).max(p.k * p.n).max(p.m * p.n);
            if p.batch > 1 && p.batch < least && largest <= SMALL_MATRIX {
                return Some(Said {
                    place: Place::Processor,
                    why: Why::SmallBatch,
                    text: format!("a batch of {} small products, fewer than {least}", p.batch),
                });
            }
        }
        let (class, size) = Class::of(problem)?;
        let least = self.threshold(class)?;
        let (place, than) =
            if size < least { (Place::Processor, "below") } else { (Place::Elsewhere, "not below") };
        let text =
            format!("{size} {} are {than} the {class} threshold of {least} that was set", class.unit());
        Some(Said { place, why: Why::Threshold, text })
    }
}

/// Where a problem is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the processor.
    Processor,
    /// On another device that takes it, if there is one.
    Elsewhere,
}

/// Which rule said where a problem is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A threshold.
    Threshold,
    /// The guard against small batches.
    SmallBatch,
    /// Other devices than the processor are switched off.
    Disabled,
}

impl Why {
    /// One word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Threshold => "threshold",
            Why::SmallBatch => "small batch",
            Why::Disabled => "disabled",
        }
    }
}

/// What the user's rules say about a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Where it is to run.
    pub place: Place,
    /// By which rule.
    pub why: Why,
    /// In words.
    pub text: String,
}

impl Cold {
    /// Puts out the rivals the user's rules leave no place for, if others can do the problem, and notes that.
    pub(crate) fn overrule(&self, decision: &mut Decision) {
        if self.offload.off {
            decision.notes.push("disabled: offload is off, only the processor is looked at".to_string());
            decision.overruled = Some(Why::Disabled);
        }
        if self.devices.len() < 2 {
            return;
        }
        let Some(said) = self.offload.says(&decision.problem) else { return };
        let is_here = |rival: &Rival| {
            let device = self.devices.get(rival.device as usize);
            device.is_some_and(|device| device.facts().kind == DeviceKind::Cpu)
        };
        let stays = |rival: &Rival| is_here(rival) == (said.place == Place::Processor);
        let open = |rival: &Rival| rival.standing == Standing::Unconsidered;
        if !decision.rivals.iter().any(|rival| stays(rival) && open(rival)) {
            let note = format!("{}, but no device there takes it", said.text);
            decision.notes.push(note);
            return;
        }
        for rival in decision.rivals.iter_mut().filter(|rival| open(rival) && !stays(rival)) {
            rival.standing = Standing::Overruled(said.text.clone());
        }
        decision.notes.push(format!("{}: {}", said.why.name(), said.text));
        decision.overruled = Some(said.why);
    }
}
