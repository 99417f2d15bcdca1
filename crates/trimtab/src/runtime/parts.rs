//! What a runtime is made of: its terms, its devices, what it remembers, and what is to be said about them.

use super::Runtime;
use crate::journal::Journal;
use crate::memory::Activity;
use std::sync::Arc;
use trimtab_core::{Device, Terms};
use trimtab_cpu::CpuDevice;
use trimtab_plan::Planner;
use trimtab_wisdom::Wisdom;

impl Runtime {
    /// The terms calls through this handle are planned under.
    pub fn terms(&self) -> &Terms {
        &self.given
    }

    /// The planner, for those who bring their own kernels or devices.
    pub fn planner(&self) -> &Planner {
        &self.shared.planner
    }

    /// The last decisions: one for each plan put in force or replaced, one for each launch of a new expression.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The processor.
    pub fn cpu(&self) -> &CpuDevice {
        &self.shared.cpu
    }

    /// Every device by position, the processor first, which is there also where another is pinned: see [`Runtime::planned`].
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        self.shared.planner.devices()
    }

    /// The devices planned for, with their positions: unless some are pinned, all.
    pub fn planned(&self) -> impl Iterator<Item = (usize, &Arc<dyn Device>)> {
        let usable = |position: &usize| self.shared.usable.get(*position).copied().unwrap_or(false);
        self.devices().iter().enumerate().filter(move |(position, _)| usable(position))
    }

    /// What is remembered.
    pub fn wisdom(&self) -> &Wisdom {
        self.shared.planner.wisdom()
    }

    /// GPUs that could not be used, or why there is none and how to get one. Empty if nobody looked: with the processor pinned.
    pub fn unusable(&self) -> &[String] {
        &self.shared.unusable
    }

    /// What could not be set up, and what to do about it.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What was moved to devices and back, and what had to make room there, since this runtime was built.
    pub fn activity(&self) -> Activity {
        self.shared.counts.activity()
    }
}
