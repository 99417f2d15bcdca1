//! The devices of a planner: those it was made with, those that join and leave, and which of them a decision may choose.

use crate::decide::PlanError;
use std::sync::{Arc, RwLock};
use trimtab_core::{Device, Fingerprint, Nanos, Problem};

/// Devices that may have joined at a time.
pub(crate) const MAX_JOINED: usize = 1024;

/// Where a decision looks for rivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Positions of the allowed devices in the planner's list.
    pub devices: Vec<u16>,
    /// Whether operands and result lie on the device: nothing is moved.
    pub in_place: bool,
}

impl Scope {
    /// One device, its operands where they are.
    pub(crate) fn alone(device: u16) -> Scope {
        Scope { devices: vec![device], in_place: true }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.devices.len() == 1
    }
}

pub(crate) struct Devices {
    own: Vec<Arc<dyn Device>>,
    usable: Vec<bool>,
    /// Behind the own ones in the list; the place of one that left is used again.
    joined: RwLock<Vec<Option<Arc<dyn Device>>>>,
}

impl Devices {
    pub(crate) fn new(own: Vec<Arc<dyn Device>>, usable: Vec<bool>) -> Devices {
        Devices { own, usable, joined: RwLock::default() }
    }

    /// Those it was made with.
    pub(crate) fn own(&self) -> &[Arc<dyn Device>] {
        &self.own
    }

    /// The device at a position; nothing if it left.
    pub(crate) fn get(&self, at: u16) -> Option<Arc<dyn Device>> {
        match self.own.get(at as usize) {
            Some(device) => Some(Arc::clone(device)),
            None => self.joined.read().ok()?.get(at as usize - self.own.len())?.clone(),
        }
    }

    /// The devices of a scope that are still there, by position.
    pub(crate) fn within(&self, scope: &Scope) -> Vec<(u16, Arc<dyn Device>)> {
        scope.devices.iter().filter_map(|&at| Some((at, self.get(at)?))).collect()
    }

    /// What moving operands and result takes; nothing where they lie on the device.
    pub(crate) fn transfer(&self, scope: &Scope, device: u16, problem: &Problem) -> Nanos {
        let device = self.get(device).filter(|_| !scope.in_place);
        device.map_or(Nanos(0), |device| device.transfer_overhead(problem))
    }

    /// One device alone, or all that may be used.
    pub(crate) fn scope(&self, on: Option<u16>) -> Scope {
        let usable = |at: &u16| self.usable.get(*at as usize).copied().unwrap_or(true);
        match on {
            Some(at) => Scope::alone(at),
            None => {
                let devices = (0..self.own.len() as u16).filter(usable).collect();
                Scope { devices, in_place: false }
            }
        }
    }

    /// Whether planning for a device alone is the same as planning for all: it is the only one and moves nothing.
    pub(crate) fn is_all(&self, at: u16) -> bool {
        let host = |device: Arc<dyn Device>| device.facts().habits.host_memory;
        self.scope(None).devices == [at] && self.get(at).is_some_and(host)
    }

    pub(crate) fn join(&self, device: Arc<dyn Device>) -> Result<u16, PlanError> {
        let full = PlanError::TooManyDevices { limit: MAX_JOINED };
        let Ok(mut joined) = self.joined.write() else { return Err(full) };
        let at = match joined.iter().position(Option::is_none) {
            Some(at) => at,
            None if joined.len() < MAX_JOINED => {
                joined.push(None);
                joined.len() - 1
            }
            None => return Err(full),
        };
        joined[at] = Some(device);
        Ok((self.own.len() + at) as u16)
    }

    /// The device that was there. Dropped by the caller, with no lock held: it may hold what comes back here.
    pub(crate) fn leave(&self, at: u16) -> Option<Arc<dyn Device>> {
        let at = (at as usize).checked_sub(self.own.len())?;
        self.joined.write().ok()?.get_mut(at)?.take()
    }

    /// The identity of a scope in wisdom's verdicts: for one device its fingerprint.
    pub(crate) fn machine(&self, scope: &Scope) -> String {
        let devices = self.within(scope);
        let mut names: Vec<&Fingerprint> =
            devices.iter().map(|(_, device)| &device.facts().fingerprint).collect();
        names.sort_unstable();
        let names: Vec<&str> = names.into_iter().map(|name| name.0.as_str()).collect();
        names.join(" + ")
    }
}
