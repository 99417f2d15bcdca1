//! From an expression to launches: which operations run as one, and where each runs, by what everything costs together.

use super::batch::Numbers;
use super::costs::{Costs, KEEPS_HERE, Said};
use super::explanation::Explanation;
use super::flat::{At, Flat, Op};
use super::fuse::{Feed, Group, Piece, groups};
use super::kept::{Division, Key};
use crate::error::Error;
use crate::journal::Happened;
use crate::memory::count;
use crate::runtime::{HOST, Runtime};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use trimtab_core::{Basis, Bytes, Nanos, Patience, Problem};
use trimtab_plan::place::{DEFAULT_PLACE_MARGIN, Graph, Limits, Moves, NodeId, place};
use trimtab_plan::{TermsId, Why};
use trimtab_tune::Stopwatch;

/// Times an expression is placed anew because planning its pieces told something about their times.
const ROUNDS: usize = 6;
/// How many times longer than the chosen way another may be expected to take and still be measured.
const CLOSE: f64 = 1.5;
/// Share by which an expected time must change before a schedule that rests on it is made anew.
const NEWS: f64 = 0.1;
/// What a launch on the processor takes beside its kernel: its plan is looked up, its result gets a place. Seen on one machine; it
/// only tips near ties between one launch and several.
pub(super) const BESIDE_NS: f64 = 150.0;
/// Other ways are no longer measured once an expression took this many times the budget of one problem.
const BUDGETS: u64 = 3;
/// Pieces measured at most for the sake of ways that were not chosen.
const MOST_ASIDE: usize = 12;

/// Where a launch finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The tensor of that number.
    Input(u32),
    /// What the step of that number computed.
    Step(u32),
    /// The numbers of the feed.
    Numbers,
}

/// A launch and where it happens.
pub(crate) struct Scheduled {
    pub piece: Piece,
    /// The device's position, and the terms under which it alone is planned for.
    pub device: usize,
    pub terms: TermsId,
    /// By feed.
    pub from: Vec<Source>,
    /// Values nobody needs afterwards.
    pub done_with: Vec<Source>,
    pub happened: Arc<Happened>,
    /// The numbers of the last launch, on the device.
    pub numbers: Numbers,
}

/// How an expression is computed.
pub(crate) struct Schedule {
    pub key: Key,
    pub steps: Vec<Scheduled>,
    pub explanation: Explanation,
    /// Times it was run.
    pub runs: AtomicU32,
    /// What was expected of everything that was looked at, and when that was last found to be so.
    basis: Vec<Expected>,
    generation: AtomicU64,
}

/// What a planner expected of a problem; nothing if it had made no plan.
struct Expected {
    terms: TermsId,
    problem: Problem,
    /// The time, and whether it was measured.
    known: Option<(Nanos, bool)>,
}

/// A schedule without what it is for.
struct Made {
    steps: Vec<Scheduled>,
    explanation: Explanation,
    basis: Vec<Expected>,
    generation: u64,
}

impl Schedule {
    /// Values of the expression: what it takes to keep it.
    pub(crate) fn values(&self) -> usize {
        self.key.flat.values.len()
    }

    /// Whether anything runs on another device than the processor.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.steps.iter().any(|step| step.device != HOST)
    }
}

impl Made {
    fn with(self, key: Key) -> Schedule {
        let Made { steps, explanation, basis, generation } = self;
        let (runs, generation) = (AtomicU32::new(0), AtomicU64::new(generation));
        Schedule { key, steps, explanation, runs, basis, generation }
    }
}

/// One way through an expression.
pub(super) struct Choice {
    /// Each with where it runs.
    pub pieces: Vec<(Piece, usize)>,
    pub ns: f64,
    pub bound_ns: f64,
    /// Whether the devices are those of before, though others may be a little better.
    pub kept: bool,
    division: Division,
}

impl Runtime {
    /// The schedule of an expression: known, or made now. Data is not looked at.
    pub(crate) fn schedule(&self, key: Key) -> Result<Arc<Schedule>, Error> {
        let schedules = &self.shared.schedules;
        match schedules.find(&key) {
            Some(schedule) if self.still_holds(&schedule) => Ok(schedule),
            _ => self.new_schedule(key),
        }
    }

    #[cold]
    fn new_schedule(&self, key: Key) -> Result<Arc<Schedule>, Error> {
        let schedules = &self.shared.schedules;
        let previous = schedules.division(&key);
        let settings = self.planner().settings();
        let said = Said { offload: &settings.offload, kernels: &settings.kernels };
        let made = self.make_schedule(&key, previous.clone(), Some(said));
        let made = match made {
            // What the user wants does not fit: what fits is better than nothing.
            Err(Error::Place(_)) if said != Said::NOTHING => {
                self.make_schedule(&key, previous, Some(Said::NOTHING))
            }
            made => made,
        };
        let (made, division) = made?;
        let schedule = Arc::new(made.with(key));
        schedule.explanation.launches.iter().for_each(|entry| self.shared.journal.note(entry.clone()));
        count(&self.shared.counts.placed, 1);
        schedules.keep(&schedule, division);
        if schedule.is_elsewhere() {
            self.shared.keep_built();
        }
        Ok(schedule)
    }

    /// The schedule that asks no device but the processor.
    pub(crate) fn schedule_here(&self, key: Key) -> Result<Schedule, Error> {
        Ok(self.make_schedule(&key, None, None)?.0.with(key))
    }

    /// Whether the planner still expects what it did when a schedule was made.
    fn still_holds(&self, schedule: &Schedule) -> bool {
        let now = self.planner().generation();
        schedule.generation.load(Ordering::Relaxed) == now || self.holds_again(schedule, now)
    }

    /// What the plan in force is expected to take, and whether that was measured.
    fn known(&self, problem: &Problem, terms: TermsId) -> Option<(Nanos, bool)> {
        let (_, plan) = self.planner().known(problem, terms)?;
        let decision = self.planner().decision(problem, terms);
        let basis = decision.and_then(|decision| Some(decision.winner()?.estimate()?.basis));
        Some((plan.expected, matches!(basis, Some(Basis::Measured(_)))))
    }

    #[cold]
    fn holds_again(&self, schedule: &Schedule, now: u64) -> bool {
        let same = |expected: &Expected| match (expected.known, self.known(&expected.problem, expected.terms))
        {
            (Some((before, before_measured)), Some((now, measured))) => {
                let apart = (now.0 as f64 - before.0 as f64).abs();
                before_measured == measured && apart <= NEWS * before.0 as f64
            }
            (before, now) => before.is_none() && now.is_none(),
        };
        let holds = schedule.basis.iter().all(same);
        if holds {
            schedule.generation.store(now, Ordering::Relaxed);
        }
        holds
    }

    fn make_schedule(
        &self,
        key: &Key,
        previous: Option<Division>,
        elsewhere: Option<Said<'_>>,
    ) -> Result<(Made, Division), Error> {
        let (flat, resident) = (&key.flat, key.resident.as_slice());
        // Read first: what is learned meanwhile is looked at once more.
        let generation = self.planner().generation();
        let mut groups = groups(flat)?;
        let patience = self.planner().settings().patience;
        let said = elsewhere.unwrap_or(Said::NOTHING);
        let obeyed = if said.kernels.is_open() { Vec::new() } else { self.heed(&mut groups) };
        let mut costs = Costs::new(self, said);
        let may_stay = costs.ruled_out(HOST).is_none();
        let leads_away = !said.kernels.is_open() || said.offload.has_thresholds();
        for device in (0..costs.devices()).filter(|&device| device != HOST) {
            let disabled = match elsewhere {
                None => Some("it failed"),
                Some(_) if may_stay && said.offload.off => Some("other devices are switched off"),
                Some(_) if may_stay && patience == Patience::Off && !leads_away => Some(KEEPS_HERE),
                Some(_) => None,
            };
            match disabled {
                Some(reason) => costs.rule_out(device, (Why::Disabled, reason.to_string())),
                None if costs.ruled_out(device).is_some() => (),
                // Nothing is estimated: what moving takes does not matter, and may have to be measured first.
                None if patience == Patience::Off => (),
                None => rule_out_by_transfer(&mut costs, device, flat, &groups, resident),
            }
        }
        let owners = owners(flat, &groups);
        let mut maker = Maker { flat, groups: &groups, resident, costs, previous, owners };
        let mut choice = maker.choose()?;
        let mut looked_aside = patience < Patience::Measure;
        let (watch, budget) = (Stopwatch::start(), self.planner().settings().budget);
        let has_time = || watch.elapsed().0 < budget.0.saturating_mul(BUDGETS);
        for _ in 0..ROUNDS {
            let mut news = maker.settle(&choice.pieces, &|| true);
            if !news && !looked_aside {
                // An estimate nearly as good as what was measured may be better in truth.
                looked_aside = true;
                let close = maker.close(&choice);
                news = maker.settle(&close, &has_time);
            }
            if !news || patience == Patience::Off {
                break;
            }
            choice = maker.choose()?;
        }
        let mut explanation = maker.explain(&choice);
        explanation.notes.extend(obeyed);
        let steps = steps(flat, choice.pieces, &explanation, &maker.costs);
        let basis = maker.costs.asked_about().map(|(problem, terms)| Expected {
            terms,
            problem,
            known: self.known(&problem, terms),
        });
        Ok((Made { steps, explanation, basis: basis.collect(), generation }, choice.division))
    }
}

/// Finds out what moving to a device takes, and rules it out if that alone takes longer than the processor for everything.
fn rule_out_by_transfer(
    costs: &mut Costs<'_>,
    device: usize,
    flat: &Flat,
    groups: &[Group],
    resident: &[u64],
) {
    let name = costs.name(device);
    let habits = costs.device(device).facts().habits;
    let Some(transfers) = costs.device(device).transfers() else {
        // A device that computes in the caller's memory moves nothing.
        if !habits.host_memory {
            costs.rule_out(device, (Why::Unsupported, format!("{name} cannot be reached")));
        }
        return;
    };
    costs.transfers[device] = Some(transfers);
    let least = Nanos(transfers.submit.0 + transfers.download_latency.0);
    let lies_there = resident.iter().any(|places| places >> device & 1 == 1 && places & 1 == 0);
    let here = groups.iter().map(|group| Some(cheapest(costs, flat, group, HOST)?.1)).sum::<Option<f64>>();
    if let Some(here) = here.filter(|here| !lies_there && *here < least.0 as f64) {
        let here = Nanos(here as u64);
        let reason =
            format!("the processor does it all in {here}; the transfer to {name} alone takes {least}");
        costs.rule_out(device, (Why::Model, reason));
    }
}

/// What a piece takes at a device. Launches in a row are handed over together, which is part of moving their results.
fn piece_ns(costs: &mut Costs<'_>, flat: &Flat, piece: &Piece, device: usize) -> Option<f64> {
    let time = costs.of(piece, flat.bytes(piece.out), device).ok()?.time.0 as f64;
    // Mode `off` expects nothing.
    Some(if device == HOST && time > 0.0 { time + BESIDE_NS } else { time })
}

pub(super) fn way_ns(costs: &mut Costs<'_>, flat: &Flat, way: &[Piece], device: usize) -> Option<f64> {
    way.iter().map(|piece| piece_ns(costs, flat, piece, device)).sum()
}

/// The cheapest way of a group at a device and what it takes; of equal ones that with fewer launches.
fn cheapest(costs: &mut Costs<'_>, flat: &Flat, group: &Group, device: usize) -> Option<(usize, f64)> {
    let ways =
        (0..group.ways.len()).filter_map(|way| Some((way, way_ns(costs, flat, &group.ways[way], device)?)));
    ways.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// By value: the group that computes it. No value is inside two.
fn owners(flat: &Flat, groups: &[Group]) -> Vec<u32> {
    let mut owners = vec![u32::MAX; flat.values.len()];
    for (number, group) in groups.iter().enumerate() {
        let made = group.ways.iter().flatten().map(|piece| piece.out as usize);
        made.for_each(|out| owners[out] = number as u32);
    }
    owners
}

pub(super) struct Maker<'a> {
    pub flat: &'a Flat,
    pub groups: &'a [Group],
    resident: &'a [u64],
    pub costs: Costs<'a>,
    previous: Option<Division>,
    /// By value: the group that computes it, in one of its ways.
    pub owners: Vec<u32>,
}

impl Maker<'_> {
    /// Makes the plans of pieces where they were placed. Whether that told something new about their times.
    fn settle(&mut self, pieces: &[(Piece, usize)], has_time: &dyn Fn() -> bool) -> bool {
        let pieces = pieces.iter().take_while(|_| has_time());
        pieces.fold(false, |news, (piece, device)| self.costs.settle(piece, *device) | news)
    }

    /// Pieces of other ways to compute the same groups on the same devices that may be as fast.
    fn close(&mut self, choice: &Choice) -> Vec<(Piece, usize)> {
        let mut close = Vec::new();
        let groups = self.groups;
        // By the value a piece computes: no value is computed twice.
        let chosen: FxHashMap<At, &(Piece, usize)> =
            choice.pieces.iter().map(|chosen| (chosen.0.out, chosen)).collect();
        let placed = |piece: &Piece| {
            chosen.get(&piece.out).filter(|(chosen, _)| chosen == piece).map(|(_, device)| *device)
        };
        for group in groups {
            if close.len() >= MOST_ASIDE {
                break;
            }
            let taken = group.ways.iter().position(|way| way.iter().all(|piece| placed(piece).is_some()));
            let device = taken.and_then(|way| placed(group.ways[way].last()?));
            let (Some(taken), Some(device)) = (taken, device) else { continue };
            let Some(ns) = way_ns(&mut self.costs, self.flat, &group.ways[taken], device) else { continue };
            for way in (0..group.ways.len()).filter(|&way| way != taken) {
                let other = way_ns(&mut self.costs, self.flat, &group.ways[way], device);
                if other.is_some_and(|other| other < CLOSE * ns) {
                    close.extend(group.ways[way].iter().map(|piece| (piece.clone(), device)));
                }
            }
        }
        close.truncate(MOST_ASIDE);
        close
    }

    /// The cheapest of: groups as one where that is cheaper; or every operation where it likes.
    fn choose(&mut self) -> Result<Choice, Error> {
        let as_one = self.divide(true);
        let alone = self.groups.iter().all(|group| group.ways.len() == 1);
        if alone || self.costs.devices() == 1 {
            // Nothing to gain from dividing further: on one device the cheapest way of each group is the cheapest of all.
            return as_one;
        }
        let apart = self.divide(false);
        match (as_one, apart) {
            (Ok(as_one), Ok(apart)) => {
                let was_apart = self.previous.as_ref().is_some_and(|previous| !previous.as_one);
                let margin = 1.0 - DEFAULT_PLACE_MARGIN;
                let better = match was_apart {
                    true => as_one.ns >= apart.ns * margin,
                    false => apart.ns < as_one.ns * margin,
                };
                Ok(if better { apart } else { as_one })
            }
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn divide(&mut self, as_one: bool) -> Result<Choice, Error> {
        let count = self.costs.devices();
        let mut graph = Graph::new(count);
        let mut nodes: FxHashMap<At, NodeId> = FxHashMap::default();
        // What is placed: whole groups, or operations as groups of one.
        let mut units: Vec<(Vec<&[Piece]>, NodeId)> = Vec::new();
        let groups = self.groups;
        for group in groups {
            let parts: Vec<Vec<&[Piece]>> = if as_one {
                vec![group.ways.iter().map(Vec::as_slice).collect()]
            } else {
                group.apart().iter().map(|piece| vec![std::slice::from_ref(piece)]).collect()
            };
            for ways in parts {
                let node = self.add(&mut graph, &mut nodes, &ways);
                units.push((ways, node));
            }
        }
        if let Some(&root) = nodes.get(&self.flat.root()) {
            graph.sink(root);
        }
        let moves = Moves::new(&self.costs.transfers);
        let memory: Vec<Option<Bytes>> = (0..count).map(|device| self.costs.free(device)).collect();
        let previous = self.previous.as_ref().filter(|previous| previous.as_one == as_one);
        let previous = previous.map(|previous| previous.device.as_slice());
        let limits = Limits { memory: &memory, previous, ..Limits::default() };
        let placement = match place(&graph, &moves, &limits) {
            Ok(placement) => placement,
            Err(error) => return Err(self.nowhere(&units).unwrap_or(Error::Place(error))),
        };
        let mut pieces = Vec::new();
        for (ways, node) in units {
            let device = placement.device[node.at()];
            let times = ways.iter().map(|way| way_ns(&mut self.costs, self.flat, way, device));
            let times: Vec<Option<f64>> = times.collect();
            let best = (0..ways.len()).filter(|&way| times[way].is_some());
            let best = best.min_by(|&a, &b| {
                let ns = |way: usize| times[way].unwrap_or(f64::INFINITY);
                ns(a).total_cmp(&ns(b))
            });
            pieces.extend(best.map_or(&[][..], |way| ways[way]).iter().map(|piece| (piece.clone(), device)));
        }
        Ok(Choice {
            pieces,
            ns: placement.cost_ns,
            bound_ns: placement.bound_ns,
            kept: placement.kept,
            division: Division { as_one, device: placement.device },
        })
    }

    /// Adds something that is computed in one of these ways, and the inputs it is the first to read.
    fn add(&mut self, graph: &mut Graph, nodes: &mut FxHashMap<At, NodeId>, ways: &[&[Piece]]) -> NodeId {
        let flat = self.flat;
        let count = self.costs.devices();
        let made = |at: At| ways.iter().any(|way| way.iter().any(|piece| piece.out == at));
        let mut operands = Vec::new();
        let mut numbers = 0;
        for piece in ways.iter().copied().flatten() {
            for feed in &piece.feeds {
                match feed {
                    Feed::Numbers(dtype, places) => {
                        numbers = numbers.max(places.len() as u64 * dtype.size());
                    }
                    Feed::Value(at) if made(*at) => (),
                    Feed::Value(at) => {
                        let node = nodes.get(at).copied().unwrap_or_else(|| {
                            let places = match flat.value(*at).op {
                                Op::Input(input) => self.resident.get(input as usize).copied().unwrap_or(1),
                                _ => 1,
                            };
                            let resident: Vec<bool> =
                                (0..count).map(|device| places >> device & 1 == 1).collect();
                            graph.input(Bytes(flat.bytes(*at)), &resident)
                        });
                        nodes.insert(*at, node);
                        operands.push(node);
                    }
                }
            }
        }
        if numbers > 0 {
            let mut here = vec![false; count];
            here[0] = true;
            operands.push(graph.input(Bytes(numbers), &here));
        }
        let times: Vec<Option<f64>> = (0..count)
            .map(|device| {
                let ways = ways.iter().filter_map(|way| way_ns(&mut self.costs, flat, way, device));
                ways.min_by(f64::total_cmp)
            })
            .collect();
        let between =
            |way: &&[Piece]| way.iter().rev().skip(1).map(|piece| flat.bytes(piece.out)).sum::<u64>();
        let scratch = ways.iter().map(between).min().unwrap_or(0);
        let out = ways.first().and_then(|way| way.last()).map_or(0, |piece| piece.out);
        let node = graph.node(&operands, &times, Bytes(flat.bytes(out)), Bytes(scratch));
        nodes.insert(out, node);
        node
    }

    /// The error of the first piece that can run nowhere, in the planner's words.
    fn nowhere(&mut self, units: &[(Vec<&[Piece]>, NodeId)]) -> Option<Error> {
        for piece in units.iter().filter_map(|(ways, _)| ways.last()).copied().flatten() {
            let super::fuse::Task::Problem(problem) = piece.task else { continue };
            let ways = (0..self.costs.devices())
                .map(|device| self.costs.of(piece, self.flat.bytes(piece.out), device).is_ok());
            if ways.collect::<Vec<_>>().contains(&true) {
                continue;
            }
            return self.costs.why_nowhere(&problem).map(Error::from);
        }
        None
    }
}

#[cfg(test)]
impl Schedule {
    /// These pieces, in order, on the processor.
    pub(super) fn of_pieces(rt: &Runtime, key: Key, pieces: Vec<Piece>) -> Schedule {
        let (costs, explanation) = (Costs::new(rt, Said::NOTHING), Explanation::computed());
        let pieces = pieces.into_iter().map(|piece| (piece, HOST)).collect();
        let steps = steps(&key.flat, pieces, &explanation, &costs);
        Made { steps, explanation, basis: Vec::new(), generation: 0 }.with(key)
    }
}

/// The launches in order, with where each finds its operands and what it leaves behind that nobody needs any more.
fn steps(
    flat: &Flat,
    pieces: Vec<(Piece, usize)>,
    explanation: &Explanation,
    costs: &Costs<'_>,
) -> Vec<Scheduled> {
    let mut made: FxHashMap<At, u32> = FxHashMap::default();
    let mut last: FxHashMap<Source, usize> = FxHashMap::default();
    let mut steps: Vec<Scheduled> = Vec::with_capacity(pieces.len());
    for (number, (piece, device)) in pieces.into_iter().enumerate() {
        let from = |feed: &Feed| match feed {
            Feed::Numbers(..) => Source::Numbers,
            Feed::Value(at) => match flat.value(*at).op {
                Op::Input(input) => Source::Input(input),
                _ => made.get(at).map_or(Source::Step(u32::MAX), |&step| Source::Step(step)),
            },
        };
        let from: Vec<Source> = piece.feeds.iter().map(from).collect();
        made.insert(piece.out, number as u32);
        let own = Source::Step(number as u32);
        for operand in from.iter().copied().chain([own]).filter(|operand| *operand != Source::Numbers) {
            last.insert(operand, number);
        }
        let happened = explanation.launches.get(number).map(|entry| Arc::clone(&entry.happened));
        steps.push(Scheduled {
            piece,
            device,
            terms: costs.terms(device),
            from,
            done_with: Vec::new(),
            happened: happened.unwrap_or_default(),
            numbers: Numbers::default(),
        });
    }
    if let Some(&root) = made.get(&flat.root()) {
        last.remove(&Source::Step(root));
    }
    for (operand, number) in last {
        steps[number].done_with.push(operand);
    }
    steps
}
