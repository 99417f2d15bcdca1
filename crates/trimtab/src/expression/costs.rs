//! What pieces of an expression take on each device with their operands there, asked once each.

use super::fuse::{Piece, Task};
use super::schedule::BESIDE_NS;
use super::strips::Strips;
use crate::runtime::{HOST, Runtime};
use rustc_hash::{FxHashMap, FxHashSet};
use trimtab_core::{Basis, Bytes, Estimate, KernelId, Nanos, Patience, Problem, Transfers};
use trimtab_operands::Executor;
use trimtab_plan::{self as plan, KernelRules, Offload, PlanError, Planner, Side, TermsId, Why};

/// How far the time of copying a view may be off, in doublings.
const COPY_SPREAD: f64 = 1.0;

/// Why nothing runs on other devices unless the user says so.
pub(crate) const KEEPS_HERE: &str = "mode `off` keeps to the processor";

/// What the user says about where to run things.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    pub offload: &'a Offload,
    pub kernels: &'a KernelRules,
}

impl Said<'_> {
    /// Nothing is said.
    pub(crate) const NOTHING: Said<'static> = Said { offload: &Offload::OPEN, kernels: &KernelRules::OPEN };
}

/// Why a piece does not run on a device.
pub(crate) type Refusal = (Why, String);

/// What pieces take on devices, by the device's position.
pub(crate) struct Costs<'a> {
    rt: &'a Runtime,
    /// The terms under which a device alone is planned for; nothing where it may not be used.
    terms: Vec<Option<TermsId>>,
    /// What moving values there and back takes.
    pub transfers: Vec<Option<Transfers>>,
    /// Why nothing at all runs there.
    out: Vec<Option<Refusal>>,
    known: FxHashMap<(Problem, usize), Result<Estimate, Refusal>>,
    /// What is planned: nothing more can be learned of it now.
    firm: FxHashSet<(Problem, usize)>,
    unable: FxHashMap<(Problem, usize), Option<String>>,
    patience: Patience,
    pub said: Said<'a>,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(rt: &'a Runtime, said: Said<'a>) -> Costs<'a> {
        let count = rt.shared.executors.len();
        let terms = |device: usize| {
            let usable = rt.shared.usable.get(device).copied().unwrap_or(false);
            rt.planner().terms_on(&rt.given, device as u16).ok().filter(|_| usable)
        };
        let terms: Vec<Option<TermsId>> = (0..count).map(terms).collect();
        let pinned = || (Why::Disabled, "another device is pinned".to_string());
        Costs {
            rt,
            out: terms.iter().map(|terms| terms.is_none().then(pinned)).collect(),
            terms,
            transfers: vec![None; count],
            known: FxHashMap::default(),
            firm: FxHashSet::default(),
            unable: FxHashMap::default(),
            patience: rt.planner().settings().patience,
            said,
        }
    }

    /// How many devices there are, the processor included.
    pub(crate) fn devices(&self) -> usize {
        self.terms.len()
    }

    /// A device's short name.
    pub(crate) fn name(&self, device: usize) -> &'a str {
        &self.device(device).facts().id
    }

    pub(crate) fn device(&self, device: usize) -> &'a dyn Executor {
        self.rt.shared.executors[device].as_ref()
    }

    /// Bytes that could be had in a device's memory; nothing if there is no limit.
    pub(crate) fn free(&self, device: usize) -> Option<Bytes> {
        self.rt.memory(device).and_then(|memory| memory.free())
    }

    /// The terms under which a device alone is planned for.
    pub(crate) fn terms(&self, device: usize) -> TermsId {
        self.terms[device].unwrap_or(self.rt.terms)
    }

    fn planner(&self) -> &'a Planner {
        self.rt.planner()
    }

    /// Whether times are expected at all.
    pub(crate) fn estimates(&self) -> bool {
        self.patience > Patience::Off
    }

    /// Takes a device out of the running.
    pub(crate) fn rule_out(&mut self, device: usize, refusal: Refusal) {
        self.out[device] = Some(refusal);
    }

    /// Why nothing runs on a device.
    pub(crate) fn ruled_out(&self, device: usize) -> Option<&Refusal> {
        self.out[device].as_ref()
    }

    /// What a piece takes on a device with its operands there. Nothing is measured and no data is looked at.
    pub(crate) fn of(&mut self, piece: &Piece, bytes: u64, device: usize) -> Result<Estimate, Refusal> {
        let problem = match &piece.task {
            Task::Problem(problem) => *problem,
            Task::Strips(strips) if device == HOST => return self.of_strips(strips),
            Task::Strips(_) => return Err((Why::Unsupported, "strips are the processor's".to_string())),
            Task::Copy if device == HOST => return Ok(self.copying(bytes)),
            Task::Copy => return Err((Why::Unsupported, "only the processor copies such views".to_string())),
        };
        // What cannot be at all is said before what is not worth it.
        if let Some(reason) = self.unable(&problem, device) {
            return Err((Why::Unsupported, reason));
        }
        if let Some(reason) = self.forbidden(&problem, device) {
            return Err((Why::Kernels, reason));
        }
        let said = self.says(&problem);
        let here =
            said.as_ref().is_some_and(|said| said.place == Side::Processor) && self.out[HOST].is_none();
        if let (Some(refusal), false) = (&self.out[device], here && device != HOST) {
            return Err(refusal.clone());
        }
        match said {
            Some(plan::Said { place: Side::Processor, why, text }) if here && device != HOST => {
                Err((why, text))
            }
            // Nothing is estimated in mode `off`: what the user says alone leads away from the processor.
            _ if self.keeps_here(device, said.as_ref()) => Err((Why::Disabled, KEEPS_HERE.to_string())),
            Some(plan::Said { place: Side::Elsewhere, why, text }) if device == HOST => {
                let able = (0..self.devices()).any(|other| {
                    other != HOST && self.out[other].is_none() && self.asked(&problem, other).is_ok()
                });
                if able { Err((why, text)) } else { self.asked(&problem, device) }
            }
            _ => self.asked(&problem, device),
        }
    }

    /// What strips take on the processor: as often what their launches do, and what launches take beside their kernels.
    fn of_strips(&mut self, strips: &Strips) -> Result<Estimate, Refusal> {
        if let Some(refusal) = &self.out[HOST] {
            return Err(refusal.clone());
        }
        // What users say is said of whole operations.
        if !self.said.kernels.is_open() || self.said.offload.has_thresholds() {
            return Err((Why::Disabled, "rules are for whole operations".to_string()));
        }
        let mut all = Estimate { time: Nanos(0), spread_log2: 0.0, basis: Basis::Measured(u32::MAX) };
        for launch in &strips.launches {
            let Estimate { time, spread_log2, basis } = self.asked(&launch.problem, HOST)?;
            all.time = Nanos(all.time.0.saturating_add(time.0).saturating_add(BESIDE_NS as u64));
            // As sure as the least sure of them.
            if !matches!(basis, Basis::Measured(_)) || spread_log2 > all.spread_log2 {
                (all.spread_log2, all.basis) = (spread_log2.max(all.spread_log2), basis);
            }
        }
        Ok(Estimate { time: Nanos(all.time.0.saturating_mul(strips.count as u64)), ..all })
    }

    fn keeps_here(&self, device: usize, said: Option<&plan::Said>) -> bool {
        let leads_away = said.is_some_and(|said| said.place == Side::Elsewhere);
        device != HOST && self.patience == Patience::Off && self.out[HOST].is_none() && !leads_away
    }

    /// What the user's rules say about a problem. What they say of kernels is obeyed first, and by other devices of themselves.
    fn says(&self, problem: &Problem) -> Option<plan::Said> {
        let away = self.planner().sent_away(problem, HOST).filter(|_| !self.said.kernels.is_open());
        let by_kernels = |text| plan::Said { place: Side::Elsewhere, why: Why::Kernels, text };
        away.map(by_kernels).or_else(|| self.said.offload.says(problem))
    }

    /// Why operations do not run as one on a device: what can run them so is forbidden, and the operations themselves are not.
    fn forbidden(&self, problem: &Problem, device: usize) -> Option<String> {
        let is_asked = matches!(problem, Problem::Fused(_)) && !self.said.kernels.is_open();
        is_asked.then(|| self.planner().forbidden_on(problem, device)).flatten()
    }

    /// Why a device cannot do a problem at all.
    fn unable(&mut self, problem: &Problem, device: usize) -> Option<String> {
        if device == HOST {
            return None;
        }
        let executor = self.device(device);
        let declined = || {
            if problem.out_len() == 0 || problem.input_lens().as_slice().contains(&0) {
                return Some("an operand has no elements".to_string());
            }
            let mut reasons: Vec<String> = Vec::new();
            for (number, info) in executor.kernels().iter().enumerate() {
                if info.operation == problem.operation() {
                    let declined = executor.declines(KernelId(number as u32), problem)?.to_string();
                    if !reasons.contains(&declined) {
                        reasons.push(declined);
                    }
                }
            }
            let none = || format!("{} has no kernel for it", executor.facts().id);
            Some(if reasons.is_empty() { none() } else { reasons.join("; ") })
        };
        self.unable.entry((*problem, device)).or_insert_with(declined).clone()
    }

    fn asked(&mut self, problem: &Problem, device: usize) -> Result<Estimate, Refusal> {
        if let Some(known) = self.known.get(&(*problem, device)) {
            return known.clone();
        }
        let estimate = self.estimate(problem, device);
        self.known.insert((*problem, device), estimate.clone());
        estimate
    }

    fn estimate(&self, problem: &Problem, device: usize) -> Result<Estimate, Refusal> {
        let Some(terms) = self.terms[device] else {
            return Err((Why::Disabled, "the device may not be used".to_string()));
        };
        if self.patience == Patience::Off {
            // Nothing is estimated: whether it can run is all there is to know.
            let unknown = Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
            return self.planner().plan(problem, terms).map(|_| unknown).map_err(refusal);
        }
        self.planner().estimate(problem, terms).map_err(refusal)
    }

    /// Everything that was asked about: what, where, and under which terms.
    pub(crate) fn asked_about(&self) -> impl Iterator<Item = (Problem, TermsId)> + '_ {
        self.known.keys().filter_map(|&(problem, device)| Some((problem, self.terms[device]?)))
    }

    /// The processor reads and writes what it copies.
    fn copying(&self, bytes: u64) -> Estimate {
        let known = self.estimates() && self.terms[HOST].is_some();
        let rate = if known { self.device(HOST).rates().bytes_per_s } else { 0.0 };
        if rate <= 0.0 {
            return Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
        }
        let time = Nanos((2.0 * bytes as f64 / rate * 1e9) as u64);
        Estimate { time, spread_log2: COPY_SPREAD, basis: Basis::Analytic }
    }

    /// Makes the plan of a piece where it was placed, measuring what patience allows. Whether that told something new.
    pub(crate) fn settle(&mut self, piece: &Piece, device: usize) -> bool {
        match &piece.task {
            Task::Problem(problem) => self.settle_problem(problem, device),
            Task::Strips(strips) => strips
                .launches
                .iter()
                .fold(false, |news, launch| self.settle_problem(&launch.problem, device) | news),
            Task::Copy => false,
        }
    }

    fn settle_problem(&mut self, problem: &Problem, device: usize) -> bool {
        let Some(terms) = self.terms[device] else { return false };
        if !self.firm.insert((*problem, device)) {
            return false;
        }
        let found = match self.planner().plan(problem, terms) {
            Ok(plan) => {
                let decision = self.planner().decision(problem, terms);
                let made = decision.as_ref().and_then(|decision| decision.winner()?.estimate());
                let analytic = |time| Estimate { time, spread_log2: 1.0, basis: Basis::Analytic };
                Ok(made.unwrap_or(analytic(plan.expected)))
            }
            Err(error) => Err(refusal(error)),
        };
        let before = self.known.insert((*problem, device), found.clone());
        before.is_none_or(|before| before != found)
    }

    /// The planner's error for a piece that can run nowhere.
    pub(crate) fn why_nowhere(&self, problem: &Problem) -> Option<PlanError> {
        self.terms.iter().flatten().find_map(|&terms| self.planner().plan(problem, terms).err())
    }
}

fn refusal(error: PlanError) -> Refusal {
    let why = match &error {
        PlanError::NoRival { why, .. } => *why,
        _ => Why::Unsupported,
    };
    (why, error.to_string())
}
