//! Times of whole calls by class and size on each device: measured on a ladder or imported, kept as text, used by decisions.

use crate::class::Class;
use crate::crossover::{Crossover, crossover};
use std::collections::BTreeMap;
use trimtab_core::{Device, Estimate, KernelId, Nanos, Problem};
use trimtab_model::{Profile, Rung};

/// The first line of the text; the number counts changes of its form or of what is measured.
const HEAD: &str = "trimtab calibration 2";
/// Larger sizes than one that took this long are not tried on a device.
const LONG: Nanos = Nanos::from_millis(1_500);
const LONG_QUICK: Nanos = Nanos::from_millis(250);

trimtab_core::named! {
    /// Where the times of a device come from.
    pub enum Origin {
        /// A ladder was measured here.
        Measured = "measured",
        /// A profile file was read.
        Imported = "imported",
    }
}

/// What decisions about a class rested on before its times were measured or imported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Before {
    /// What a call of no size was expected to take, in nanoseconds.
    pub start_ns: f64,
    /// What one element or arithmetic operation was expected to add, in nanoseconds.
    pub unit_ns: f64,
    /// Whether that was an earlier calibration, and not the built-in model.
    pub calibrated: bool,
}

impl Before {
    /// One word for people, programs and files.
    pub const fn name(self) -> &'static str {
        if self.calibrated { "calibrated" } else { "built-in" }
    }

    /// What a line says after its class.
    fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Before> {
        let mut number = || words.next()?.parse().ok().filter(|ns: &f64| ns.is_finite() && *ns >= 0.0);
        let (start_ns, unit_ns) = (number()?, number()?);
        let calibrated = match words.next()? {
            "calibrated" => true,
            "built-in" => false,
            _ => return None,
        };
        Some(Before { start_ns, unit_ns, calibrated })
    }
}

/// What whole calls take on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceTimes {
    /// The device's identity.
    pub fingerprint: String,
    /// Its driver and the version of trimtab; times made with others are not used.
    pub made_with: String,
    /// Where they come from.
    pub origin: Origin,
    /// Classes whose times come from elsewhere: kept from an earlier calibration.
    pub older: BTreeMap<Class, Origin>,
    /// Times by class, smallest size first.
    pub steps: BTreeMap<Class, Vec<Rung>>,
    /// What decisions rested on before, by class, where that is known.
    pub before: BTreeMap<Class, Before>,
}

impl DeviceTimes {
    /// Of that device, nothing measured yet.
    pub fn new(device: &dyn Device, origin: Origin) -> DeviceTimes {
        let fingerprint = device.facts().fingerprint.0.clone();
        let made_with = made_with(device);
        let (older, steps, before) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        DeviceTimes { fingerprint, made_with, origin, older, steps, before }
    }

    /// Whether a ladder was measured here for a class.
    pub fn is_measured(&self, class: Class) -> bool {
        self.steps.contains_key(&class) && self.origin_of(class) == Origin::Measured
    }

    /// Where the times of a class come from.
    pub fn origin_of(&self, class: Class) -> Origin {
        self.older.get(&class).copied().unwrap_or(self.origin)
    }

    /// Takes in newer times of the same device; where both speak of a class, those count.
    pub fn renew(&mut self, newer: &DeviceTimes) {
        let kept: Vec<Class> =
            self.steps.keys().copied().filter(|class| !newer.steps.contains_key(class)).collect();
        self.older = kept.into_iter().map(|class| (class, self.origin_of(class))).collect();
        self.origin = newer.origin;
        self.older.retain(|_, origin| *origin != newer.origin);
        self.steps.extend(newer.steps.iter().map(|(class, steps)| (*class, steps.clone())));
        self.before.extend(&newer.before);
    }

    /// Notes what a size took.
    pub fn note(&mut self, class: Class, size: u64, ns: f64) {
        let steps = self.steps.entry(class).or_default();
        match steps.binary_search_by_key(&size, |step| step.size) {
            Ok(at) => steps[at].ns.push(ns),
            Err(at) => steps.insert(at, Rung { size, ns: vec![ns] }),
        }
    }

    /// As text, to be kept.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\nmade_with {}\norigin {}\n", self.made_with, self.origin.name());
        for (class, steps) in &self.steps {
            for step in steps {
                let times: Vec<String> = step.ns.iter().map(f64::to_string).collect();
                text.push_str(&format!("{class} {} {}\n", step.size, times.join(" ")));
            }
        }
        for (class, origin) in &self.older {
            text.push_str(&format!("from {class} {}\n", origin.name()));
        }
        for (class, before) in &self.before {
            let Before { start_ns, unit_ns, .. } = before;
            text.push_str(&format!("before {class} {start_ns} {unit_ns} {}\n", before.name()));
        }
        text
    }

    /// What the text says of that device; nothing if it was made with another driver or version, or is damaged.
    pub fn read(text: &str, device: &dyn Device) -> Option<DeviceTimes> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) || lines.next()?.strip_prefix("made_with ")? != made_with(device) {
            return None;
        }
        let origin = Origin::parse(lines.next()?.strip_prefix("origin ")?)?;
        let mut times = DeviceTimes::new(device, origin);
        for line in lines {
            if let Some((what @ ("before" | "from"), rest)) = line.split_once(' ') {
                let mut words = rest.split(' ');
                let class = Class::parse(words.next()?)?;
                if what == "before" {
                    times.before.insert(class, Before::read(words)?);
                } else {
                    times.older.insert(class, Origin::parse(words.next()?)?);
                }
                continue;
            }
            let mut words = line.split(' ');
            let class = Class::parse(words.next()?)?;
            // Nobody measures nothing, and sizes are compared by their logarithms.
            let size = words.next()?.parse().ok().filter(|size| *size > 0)?;
            for word in words {
                let ns = word.parse().ok().filter(|ns: &f64| ns.is_finite() && *ns > 0.0)?;
                times.note(class, size, ns);
            }
        }
        Some(times)
    }
}

fn made_with(device: &dyn Device) -> String {
    let driver = device.facts().adapter.as_ref();
    let driver = driver.map_or_else(String::new, |adapter| {
        format!(", {} {} over {}", adapter.driver, adapter.driver_info, adapter.backend)
    });
    // One line: what a driver says of itself may have several.
    format!("trimtab {}{driver}", env!("CARGO_PKG_VERSION")).replace(['\n', '\r'], " ")
}

/// What decisions between devices rest on where nobody measured the problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// By position in the planner's list of devices.
    devices: Vec<Option<DeviceTimes>>,
    profiles: Vec<BTreeMap<Class, Profile>>,
    crossovers: Vec<BTreeMap<Class, Crossover>>,
}

impl Calibration {
    /// A calibration of these devices, in the planner's order; `host` is the processor's place.
    pub fn new(devices: Vec<Option<DeviceTimes>>, host: usize) -> Calibration {
        let steps = |at: usize| devices.get(at).and_then(Option::as_ref).map(|times| &times.steps);
        let profiles = (0..devices.len())
            .map(|at| {
                let all = steps(at).into_iter().flatten();
                all.filter_map(|(class, steps)| Some((*class, Profile::fit(steps)?))).collect()
            })
            .collect();
        let crossovers = (0..devices.len())
            .map(|at| {
                let all = steps(at).into_iter().flatten().filter(|_| at != host);
                let found = all.filter_map(|(class, other)| {
                    let here = steps(host)?.get(class)?;
                    Some((*class, crossover(here, other, class.step())?))
                });
                found.collect()
            })
            .collect();
        Calibration { devices, profiles, crossovers }
    }

    /// The times of a device.
    pub fn times(&self, device: usize) -> Option<&DeviceTimes> {
        self.devices.get(device)?.as_ref()
    }

    /// The times of every device.
    pub fn into_times(self) -> Vec<Option<DeviceTimes>> {
        self.devices
    }

    /// A device's cost model of a class, used or not.
    pub fn profile(&self, device: usize, class: Class) -> Option<&Profile> {
        self.profiles.get(device)?.get(&class)
    }

    /// From which size on a device is faster than the processor.
    pub fn crossover(&self, device: usize, class: Class) -> Option<Crossover> {
        self.crossovers.get(device)?.get(&class).copied()
    }

    /// Whether decisions use what is known of a class: not if that is unstable on some device.
    pub fn is_used(&self, class: Class) -> bool {
        let unstable = |crossover: Option<&Crossover>| matches!(crossover, Some(Crossover::Unstable { .. }));
        !self.crossovers.iter().any(|device| unstable(device.get(&class)))
    }

    /// Whether a problem is smaller than any that was measured of its class on a device.
    pub fn is_below(&self, device: usize, problem: &Problem) -> bool {
        let Some((class, size)) = Class::calibrated(problem) else { return false };
        self.profile(device, class).is_some_and(|profile| size < profile.range().0)
    }

    /// What a whole call of a problem nobody measured is expected to take on a device, handing over included.
    pub fn expected(&self, device: usize, problem: &Problem) -> Option<Estimate> {
        let (class, size) = Class::calibrated(problem)?;
        let profile = self.profile(device, class).filter(|_| self.is_used(class))?;
        Some(Estimate {
            time: Nanos(profile.at(size).round().max(1.0) as u64),
            spread_log2: profile.spread_log2,
            basis: trimtab_core::Basis::Fitted(profile.samples),
        })
    }
}

/// How a ladder is measured.
#[derive(Clone, Copy, Debug)]
pub struct Ladder<'a> {
    /// Fewer and smaller sizes.
    pub quick: bool,
    /// Times each size is measured on each device, in turns; at least three.
    pub rounds: u32,
    /// The classes that are measured.
    pub classes: &'a [Class],
}

/// Classes that more than one of these devices has a kernel for: of the others there is nothing to choose.
pub fn contested(devices: &[std::sync::Arc<dyn Device>]) -> Vec<Class> {
    let takes = |device: &dyn Device, problem: &Problem| {
        let mut kernels = (0..device.kernels().len() as u32).map(KernelId);
        kernels.any(|kernel| {
            let is_its = device.kernels()[kernel.0 as usize].operation == problem.operation();
            is_its && device.declines(kernel, problem).is_none()
        })
    };
    let able = |class: &Class| {
        let smallest = class.ladder(true).into_iter().next();
        let able = |problem| devices.iter().filter(|device| takes(device.as_ref(), &problem)).count();
        smallest.is_some_and(|problem| able(problem) > 1)
    };
    Class::ALL.into_iter().filter(able).collect()
}

/// Measures classes on every device by `time`, which says what one whole call takes. Devices take turns at every size, and one
/// that took long is not asked for larger ones; what `time` refuses is left out. `told` hears of every size.
pub fn measure(
    devices: &[std::sync::Arc<dyn Device>],
    ladder: Ladder<'_>,
    time: &mut dyn FnMut(usize, &Problem) -> Option<Nanos>,
    told: &mut dyn FnMut(Class, &Problem),
) -> Vec<DeviceTimes> {
    let mut all: Vec<DeviceTimes> =
        devices.iter().map(|device| DeviceTimes::new(device.as_ref(), Origin::Measured)).collect();
    let long = if ladder.quick { LONG_QUICK } else { LONG };
    for &class in ladder.classes {
        let mut out = vec![false; devices.len()];
        for problem in class.ladder(ladder.quick) {
            if out.iter().all(|out| *out) {
                break;
            }
            let Some((_, size)) = Class::calibrated(&problem) else { continue };
            told(class, &problem);
            for _ in 0..ladder.rounds.max(3) {
                for at in 0..devices.len() {
                    if out[at] {
                        continue;
                    }
                    match time(at, &problem) {
                        Some(took) => {
                            all[at].note(class, size, took.0.max(1) as f64);
                        }
                        None => out[at] = true,
                    }
                }
            }
            for at in 0..devices.len() {
                let last = all[at].steps.get(&class).and_then(|steps| steps.last());
                out[at] |= last.and_then(Rung::time).is_some_and(|ns| ns > long.0 as f64);
            }
        }
    }
    all
}
