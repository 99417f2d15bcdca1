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
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.terms().objective, Objective::default());
    /// let single = rt.constrained(Constraints { threads_max: Some(1), ..Constraints::default() })?;
    /// assert_eq!(single.terms().constraints.threads_max, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn terms(&self) -> &Terms {
        &self.given
    }

    /// The planner, for those who bring their own kernels or devices.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// println!("a new problem may cost {}", rt.planner().settings().budget);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn planner(&self) -> &Planner {
        &self.shared.planner
    }

    /// The last decisions: one for each plan put in force or replaced, one for each launch of a new expression.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.plan(&"matmul:f32:8x8x8".parse()?)?;
    /// assert_eq!(rt.journal().entries()[0].what, "matmul:f32:8x8x8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The processor.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Device;
    /// println!("{}, {} threads", rt.cpu().facts().name, rt.cpu().facts().threads);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu(&self) -> &CpuDevice {
        &self.shared.cpu
    }

    /// Every device by position, the processor first, which is there also where another is pinned: see [`Runtime::planned`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Device;
    /// assert_eq!(rt.devices()[0].facts().id, "cpu");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        self.shared.planner.devices()
    }

    /// The devices planned for, with their positions: unless some are pinned, all.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().device("cpu").build()?;
    /// let positions: Vec<usize> = rt.planned().map(|(position, _)| position).collect();
    /// assert_eq!(positions, [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn planned(&self) -> impl Iterator<Item = (usize, &Arc<dyn Device>)> {
        let usable = |position: &usize| self.shared.usable.get(*position).copied().unwrap_or(false);
        self.devices().iter().enumerate().filter(move |(position, _)| usable(position))
    }

    /// What is remembered.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.wisdom().dir(), None); // in memory only
    /// println!("{} facts are known", rt.wisdom().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wisdom(&self) -> &Wisdom {
        self.shared.planner.wisdom()
    }

    /// GPUs that could not be used, or why there is none and how to get one. Empty if nobody looked: with the processor pinned.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// for reason in rt.unusable() {
    ///     println!("{reason}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unusable(&self) -> &[String] {
        &self.shared.unusable
    }

    /// What could not be set up, and what to do about it.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().forbid("no.such.kernel").build()?;
    /// assert!(rt.warnings().iter().any(|warning| warning.contains("no.such.kernel")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What was moved to devices and back, and what had to make room there, since this runtime was built.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let doubled = rt.lazy(&Tensor::from(vec![1.0f32, 2.0])) * 2.0;
    /// doubled.eval()?;
    /// assert_eq!(rt.activity().evaluated, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn activity(&self) -> Activity {
        self.shared.counts.activity()
    }
}
