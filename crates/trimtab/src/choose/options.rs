//! Collecting the options of a choice.

use super::closures::{Closures, Way};
use super::{Choice, ChoiceBuilder};
use crate::apart::Threads;
use crate::error::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use trimtab_core::{Custom, Device, KernelInfo, KernelVersion, Operation, VariantClass};
use trimtab_tune::Leash;

impl<T: Clone + Send + 'static, R: Send + 'static> ChoiceBuilder<T, R> {
    /// Adds a way to do it. The first is the one used when nothing is known or allowed.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let double = rt.choose::<u64, u64>("double").option("add", |x| x + x).option("shift", |x| x << 1).build()?;
    /// assert_eq!(double.run(&[1], 21)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn option(mut self, name: &str, body: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        self.ways.push(Way { name: name.to_string(), body: Arc::new(body) });
        self
    }

    /// How results are compared; an option that disagrees with the first is never chosen. Where the first gives no answer
    /// in time, those that agree with one another may be.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let double = rt
    ///     .choose::<u64, u64>("double")
    ///     .option("add", |x| x + x)
    ///     .option("wrong", |x| x + 1)
    ///     .agree(|a, b| a == b)
    ///     .build()?;
    /// assert_eq!(double.run(&[1], 21)?, 42); // the wrong one never answers
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn agree(mut self, agree: impl Fn(&R, &R) -> bool + Send + Sync + 'static) -> Self {
        self.agree = Some(Arc::new(agree));
        self
    }

    /// The version of the options' code, part of the key in wisdom: change it when a closure changes.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let double = rt.choose::<u64, u64>("double").option("add", |x| x + x).version("2").build()?;
    /// assert_eq!(double.run(&[1], 21)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_string();
        self
    }

    /// Freezes the options.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert!(rt.choose::<u64, u64>("double").option("add", |x| x + x).build().is_ok());
    /// assert!(rt.choose::<u64, u64>("double").build().is_err()); // there is nothing to choose from
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Choice<T, R>, Error> {
        // The name must make a problem; better said here than at the first run.
        Custom::new(&self.name, &[])?;
        let wrong = |reason: String| Err(Error::Choice { name: self.name.clone(), reason });
        if self.ways.is_empty() {
            return wrong("there are no options; add at least one with .option(name, closure)".to_string());
        }
        for (index, way) in self.ways.iter().enumerate() {
            if self.ways[..index].iter().any(|other| other.name == way.name) {
                return wrong(format!("two options are named `{}`", way.name));
            }
        }
        let infos = self
            .ways
            .iter()
            .map(|way| KernelInfo {
                name: format!("choose.{}.{}", self.name, way.name),
                version: KernelVersion::from(self.version.clone()),
                operation: Operation::Custom,
                class: VariantClass::Custom,
            })
            .collect();
        let leashes = self.ways.iter().map(|_| Leash::default()).collect();
        let mut facts = self.runtime.cpu().facts().clone();
        // Closures see inputs of the caller's; only those of the first call are raced, and none is tried on others.
        facts.habits.explored_live = false;
        let device = Arc::new(Closures {
            facts,
            infos,
            name: self.name.clone(),
            ways: self.ways,
            agree: self.agree,
            samples: Mutex::new(Vec::new()),
            failures: Mutex::new(Vec::new()),
            trials: Mutex::default(),
            trying: AtomicUsize::new(0),
            late: AtomicU32::new(0),
            abandoned: Arc::new(AtomicU32::new(0)),
            leashes,
            comparing: Leash::default(),
            threads: Threads::default(),
            cloning: AtomicU64::new(0),
            cpu: Arc::clone(&self.runtime.shared.cpu),
        });
        let planner = self.runtime.planner();
        let at = planner.join(Arc::clone(&device) as Arc<dyn Device>)?;
        match planner.terms_on(self.runtime.terms(), at) {
            Ok(terms) => Ok(Choice { name: self.name, device, runtime: self.runtime, at, terms }),
            Err(error) => {
                planner.leave(at);
                Err(error.into())
            }
        }
    }
}
