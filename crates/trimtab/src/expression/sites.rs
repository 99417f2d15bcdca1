//! Where pieces of an expression can run: the processor and the devices beside it, each planned for by itself.

use super::fuse::{Piece, Task};
use crate::residency::Room;
use crate::runtime::Runtime;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use trimtab_core::{Basis, Device, Estimate, KernelId, Nanos, Patience, Problem, Transfers};
use trimtab_plan::{Offload, PlanError, Planner, Said, Side, TermsId, Why};

/// How far the time of copying a view may be off, in doublings.
const COPY_SPREAD: f64 = 1.0;

/// A place where pieces can run.
pub(crate) struct Site<'a> {
    /// Nothing where the device may not be used: the processor when another is pinned.
    pub planner: Option<(&'a Planner, TermsId)>,
    /// The device's memory; nothing for the processor.
    pub room: Option<&'a Arc<Room>>,
    pub device: Option<&'a Arc<dyn Device>>,
}

impl Site<'_> {
    pub(crate) fn name(&self) -> &str {
        self.device.map_or("cpu", |device| device.facts().id.as_str())
    }
}

/// Why a piece does not run somewhere.
pub(crate) type Refusal = (Why, String);

impl Runtime {
    /// The position of a site's device in the runtime's list; for a processor that may not be used past the end.
    pub(crate) fn device_at(&self, site: usize) -> usize {
        let cpu = self.shared.cpu_at as usize;
        match site {
            0 => cpu,
            site if site <= cpu => site - 1,
            site => site,
        }
    }

    /// The processor first, whether it may be used or not, then the other devices.
    pub(crate) fn sites(&self) -> Vec<Site<'_>> {
        let site = |at: usize| {
            let planner = self.planner_for(at);
            let terms = planner.terms(&self.given).ok();
            Site {
                planner: terms.map(|terms| (planner, terms)),
                room: self.shared.rooms.get(at).and_then(Option::as_ref),
                device: self.devices().get(at),
            }
        };
        let cpu = self.shared.cpu_at as usize;
        let host = match cpu < self.devices().len() {
            true => site(cpu),
            false => Site { planner: None, room: None, device: None },
        };
        let others = (0..self.devices().len()).filter(|&at| at != cpu).map(site);
        std::iter::once(host).chain(others).collect()
    }
}

/// What pieces take at sites, asked once each.
pub(crate) struct Costs<'a> {
    pub sites: Vec<Site<'a>>,
    /// By site: what moving values there and back takes.
    pub transfers: Vec<Option<Transfers>>,
    /// By site: why nothing at all runs there.
    out: Vec<Option<Refusal>>,
    known: FxHashMap<(Problem, usize), Result<Estimate, Refusal>>,
    /// What is planned: nothing more can be learned of it now.
    firm: FxHashSet<(Problem, usize)>,
    unable: FxHashMap<(Problem, usize), Option<String>>,
    patience: Patience,
    pub offload: &'a Offload,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(sites: Vec<Site<'a>>, patience: Patience, offload: &'a Offload) -> Costs<'a> {
        let out = sites.iter().map(|site| {
            let disabled = || (Why::Disabled, "another device is pinned".to_string());
            site.planner.is_none().then(disabled)
        });
        let out = out.collect();
        let transfers = vec![None; sites.len()];
        Costs {
            sites,
            transfers,
            out,
            known: FxHashMap::default(),
            firm: FxHashSet::default(),
            unable: FxHashMap::default(),
            patience,
            offload,
        }
    }

    /// Takes a site out of the running.
    pub(crate) fn rule_out(&mut self, site: usize, refusal: Refusal) {
        self.out[site] = Some(refusal);
    }

    /// Why nothing runs at a site.
    pub(crate) fn ruled_out(&self, site: usize) -> Option<&Refusal> {
        self.out[site].as_ref()
    }

    /// What a piece takes at a site with its operands there. Nothing is measured and no data is looked at.
    pub(crate) fn of(&mut self, piece: &Piece, bytes: u64, site: usize) -> Result<Estimate, Refusal> {
        let problem = match piece.task {
            Task::Problem(problem) => problem,
            Task::Copy if site == 0 => return Ok(self.copying(bytes)),
            Task::Copy => return Err((Why::Unsupported, "only the processor copies such views".to_string())),
        };
        // What cannot be at all is said before what is not worth it.
        if let Some(reason) = self.unable(&problem, site) {
            return Err((Why::Unsupported, reason));
        }
        let said = self.offload.says(&problem);
        let here = said.as_ref().is_some_and(|said| said.place == Side::Processor) && self.out[0].is_none();
        if let (Some(refusal), false) = (&self.out[site], here && site > 0) {
            return Err(refusal.clone());
        }
        match said {
            Some(Said { place: Side::Processor, why, text }) if here && site > 0 => Err((why, text)),
            Some(Said { place: Side::Elsewhere, why, text }) if site == 0 => {
                let able = (1..self.sites.len())
                    .any(|other| self.out[other].is_none() && self.asked(&problem, other).is_ok());
                if able { Err((why, text)) } else { self.asked(&problem, site) }
            }
            _ => self.asked(&problem, site),
        }
    }

    /// Why a device cannot do a problem at all.
    fn unable(&mut self, problem: &Problem, site: usize) -> Option<String> {
        let device = self.sites[site].device.filter(|_| site > 0)?;
        let declined = || {
            if problem.out_len() == 0 || problem.input_lens().as_slice().contains(&0) {
                return Some("an operand has no elements".to_string());
            }
            let mut reasons: Vec<String> = Vec::new();
            for (number, info) in device.kernels().iter().enumerate() {
                if info.operation == problem.operation() {
                    let declined = device.declines(KernelId(number as u32), problem)?.to_string();
                    if !reasons.contains(&declined) {
                        reasons.push(declined);
                    }
                }
            }
            let none = || format!("{} has no kernel for it", device.facts().id);
            Some(if reasons.is_empty() { none() } else { reasons.join("; ") })
        };
        self.unable.entry((*problem, site)).or_insert_with(declined).clone()
    }

    fn asked(&mut self, problem: &Problem, site: usize) -> Result<Estimate, Refusal> {
        if let Some(known) = self.known.get(&(*problem, site)) {
            return known.clone();
        }
        let estimate = self.estimate(problem, site);
        self.known.insert((*problem, site), estimate.clone());
        estimate
    }

    fn estimate(&self, problem: &Problem, site: usize) -> Result<Estimate, Refusal> {
        let Some((planner, terms)) = self.sites[site].planner else {
            return Err((Why::Disabled, "the device may not be used".to_string()));
        };
        if self.patience == Patience::Off {
            // Nothing is estimated: whether it can run is all there is to know.
            let unknown = Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
            return planner.plan(problem, terms).map(|_| unknown).map_err(refusal);
        }
        planner.estimate(problem, terms).map_err(refusal)
    }

    /// Everything that was asked about, and who was asked.
    pub(crate) fn asked_about(&self) -> impl Iterator<Item = (Problem, usize, &'a Planner, TermsId)> + '_ {
        self.known.keys().filter_map(|&(problem, site)| {
            let (planner, terms) = self.sites[site].planner?;
            Some((problem, site, planner, terms))
        })
    }

    /// The processor reads and writes what it copies.
    fn copying(&self, bytes: u64) -> Estimate {
        let rates =
            self.sites[0].device.filter(|_| self.patience > Patience::Off).map(|device| device.rates());
        let rate = rates.map_or(0.0, |rates| rates.bytes_per_s);
        let ns = if rate > 0.0 { 2.0 * bytes as f64 / rate * 1e9 } else { 0.0 };
        Estimate { time: Nanos(ns as u64), spread_log2: COPY_SPREAD, basis: Basis::Analytic }
    }

    /// Makes the plan of a piece where it was placed, measuring what patience allows. Whether that told something new.
    pub(crate) fn settle(&mut self, piece: &Piece, site: usize) -> bool {
        let Task::Problem(problem) = piece.task else { return false };
        if !self.firm.insert((problem, site)) {
            return false;
        }
        let Some((planner, terms)) = self.sites[site].planner else { return false };
        let found = match planner.plan(&problem, terms) {
            Ok(plan) => {
                let decision = planner.decision(&problem, terms);
                let made = decision.as_ref().and_then(|decision| decision.winner()?.estimate());
                let analytic = |time| Estimate { time, spread_log2: 1.0, basis: Basis::Analytic };
                Ok(made.unwrap_or(analytic(plan.expected)))
            }
            Err(error) => Err(refusal(error)),
        };
        let before = self.known.insert((problem, site), found.clone());
        before.is_none_or(|before| before != found)
    }
}

fn refusal(error: PlanError) -> Refusal {
    let why = if let PlanError::NoRival { why, .. } = &error { *why } else { Why::Unsupported };
    (why, error.to_string())
}
