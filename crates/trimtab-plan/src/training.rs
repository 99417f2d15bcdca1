//! What measured problems teach about others of their family: tables of times, and models fitted to them when asked.

use crate::field;
use crate::remembered::estimate_of;
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{KernelId, Point, Problem};
use trimtab_model::learn::{
    FEWEST_PROBLEMS, Learned, ModelChoice, SLOWEST_LOG2, Table, axes, recency, relative, shape as describe,
};
use trimtab_wisdom::Stats;

/// With fewer measured problems of a family than this nobody is spared a measurement.
pub(crate) const FEWEST_ROWS: usize = 20;
/// Problems of one family a model is fitted to; the newest count. Fitting and cross-validating so many takes less than 100 ms, of
/// 187 with ten rivals about 60 ms on two cores that others kept busy.
const MOST_PROBLEMS: usize = 256;
/// Rivals of one family a model tells apart: those that between them lose least.
const MOST_RIVALS: usize = 12;
/// A rival must make up for so many doublings a problem to be one of them: below, it is a twin of those there.
const WORTH: f64 = 0.002;
/// Rivals within this share of the best are tied: no loss. So are those within the noise of both times, up to …
const TIED: f64 = 0.02;
/// … this share.
const MOST_NOISE: f64 = 0.1;
/// A model is fitted again when there are so many times more measurements; one that takes longer, as comparing all kinds, …
const GROWN: f64 = 1.1;
/// … when there are so many: of 256 problems that takes half a second, in which a core is not there for measuring.
const GROWN_MUCH: f64 = 1.25;
/// Problems times rivals that are fitted within a few milliseconds: a call does not wait for more.
const QUICK: usize = 200;
/// How far outside the measured sizes a model is believed, in doublings.
const REACH: f64 = 1.0;
/// The least weight of a measured problem, however old: that of ten weeks.
const LEAST_WEIGHT: f64 = 1.0 / 1024.0;
/// Different points of kernels looked at per family, and families per device; more are not learned from.
const MOST_COLUMNS: usize = 4096;
const MOST_SORTS: usize = 1024;
/// Times kept in all, about 40 MB; problems beyond are not learned from, unless they take the place of others of their family.
const MOST_TIMES: usize = 1 << 19;

/// How much a time is believed: a better one replaces a worse one of the same rival and problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Belief {
    /// On a busy machine.
    Busy,
    /// On a quiet machine, or just now.
    Quiet,
}

/// A time with what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Label {
    pub belief: Belief,
    pub ns: f64,
    /// How far it may be off by chance, in doublings.
    pub noise_log2: f64,
    /// When that was, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Label {
    /// What samples tell.
    pub(crate) fn new(stats: &Stats, belief: Belief, at_ms: u64) -> Label {
        let noise_log2 = estimate_of(stats).spread_log2 / (stats.n.max(1) as f64).sqrt();
        Label { belief, ns: stats.min_ns, noise_log2, at_ms }
    }
}

/// One measured problem: its rivals by number, each with its time.
#[derive(Clone)]
struct Seen {
    problem: Problem,
    times: FxHashMap<usize, Label>,
}

impl Seen {
    /// log2 of each time over the best's, of the picked rivals; who is within the noise of the best is told to be as fast.
    fn tied(&self, picked: &[usize]) -> Vec<f64> {
        let known = || picked.iter().filter_map(|number| self.times.get(number));
        let Some(best) = known().min_by(|a, b| a.ns.total_cmp(&b.ns)) else {
            return vec![f64::NAN; picked.len()];
        };
        let one = |number: &usize| {
            let Some(told) = self.times.get(number) else { return f64::NAN };
            let noise = told.noise_log2.hypot(best.noise_log2).min((1.0 + MOST_NOISE).log2());
            let log2 = (told.ns / best.ns).log2();
            if log2 <= noise.max((1.0 + TIED).log2()) { 0.0 } else { log2 }
        };
        picked.iter().map(one).collect()
    }

    /// How much it counts beside measurements of that time: half after a week, in the mean over the picked rivals.
    fn weight(&self, picked: &[usize], newest_ms: u64) -> f64 {
        let ages = picked.iter().filter_map(|number| self.times.get(number));
        let (sum, count) = ages.fold((0.0, 0.0), |(sum, count), told| {
            (sum + recency(newest_ms.saturating_sub(told.at_ms) as f64 / 1000.0), count + 1.0)
        });
        // Whatever its age it is better than nothing where there is nothing else.
        (sum / f64::max(count, 1.0)).max(LEAST_WEIGHT)
    }
}

/// Everything measured of one family of problems on one device.
#[derive(Default)]
struct Family {
    rivals: Vec<(KernelId, Point)>,
    numbers: FxHashMap<(KernelId, Point), usize>,
    seen: Vec<Seen>,
    places: FxHashMap<Problem, usize>,
    /// Where the next problem goes once there are [`MOST_PROBLEMS`].
    next: usize,
    /// Times of all problems.
    times: usize,
    /// Measurements so far, and how many there were when a model was last fitted or tried.
    told: usize,
    fitted_at: usize,
    trained: Option<Arc<Trained>>,
    /// Whether that is only what could be had at once, and what was chosen is still to be fitted.
    provisional: bool,
    /// Whether a thread is at it.
    learning: bool,
}

impl Family {
    fn note(&mut self, problem: &Problem, rival: (KernelId, Point), told: Label) {
        let number = match self.numbers.get(&rival) {
            Some(&number) => number,
            None if self.rivals.len() >= MOST_COLUMNS => return,
            None => {
                self.rivals.push(rival);
                self.numbers.insert(rival, self.rivals.len() - 1);
                self.rivals.len() - 1
            }
        };
        let place = match self.places.get(problem) {
            Some(&place) => place,
            None => {
                let seen = Seen { problem: *problem, times: FxHashMap::default() };
                let place = if self.seen.len() < MOST_PROBLEMS {
                    self.seen.push(seen);
                    self.seen.len() - 1
                } else {
                    let place = self.next;
                    self.places.remove(&self.seen[place].problem);
                    self.times -= self.seen[place].times.len();
                    self.seen[place] = seen;
                    self.next = (place + 1) % MOST_PROBLEMS;
                    place
                };
                self.places.insert(*problem, place);
                place
            }
        };
        let times = &mut self.seen[place].times;
        let is_new = usize::from(!times.contains_key(&number));
        self.told += is_new;
        self.times += is_new;
        let time = times.entry(number).or_insert(told);
        if told.belief >= time.belief {
            *time = told;
        }
    }

    /// Whether a problem is there, or would push out another.
    fn takes_the_place_of_another(&self, problem: &Problem) -> bool {
        self.seen.len() >= MOST_PROBLEMS || self.places.contains_key(problem)
    }

    /// Whether there is enough to learn from, and so much more than when that was last done that it is worth it again.
    fn is_due(&self, model: &ModelChoice) -> bool {
        let grown = if model.at_once().1 { GROWN } else { GROWN_MUCH };
        self.seen.len() >= FEWEST_ROWS && self.told as f64 >= self.fitted_at as f64 * grown
    }

    /// What is to be learned, if anything is; from now on it counts as learned.
    fn due(&mut self, model: &ModelChoice) -> Option<Collected> {
        if !self.provisional && !self.is_due(model) {
            return None;
        }
        (self.fitted_at, self.provisional) = (self.told, false);
        self.table()
    }

    /// The measured problems as a table of the rivals that matter; `None` without two problems or a rival.
    fn table(&self) -> Option<Collected> {
        let mut counts = vec![0usize; self.rivals.len()];
        self.seen.iter().flat_map(|seen| seen.times.keys()).for_each(|&number| counts[number] += 1);
        let known: Vec<usize> =
            (0..self.rivals.len()).filter(|&number| counts[number] >= FEWEST_PROBLEMS).collect();
        // Every row relative to the best of all that was measured, rivals nobody knows well included.
        let mut told: Vec<Vec<f64>> = Vec::with_capacity(self.seen.len());
        for seen in &self.seen {
            let mut ns = vec![f64::NAN; self.rivals.len()];
            seen.times.iter().for_each(|(&number, time)| ns[number] = time.ns);
            let mut row = vec![f64::NAN; ns.len()];
            relative(&ns, &mut row);
            told.push(row);
        }
        let (picked, missed_log2) = pick(&told, &known);
        let first = self.seen.first().filter(|_| !picked.is_empty())?;
        let times = self.seen.iter().flat_map(|seen| seen.times.values());
        let newest_ms = times.map(|told| told.at_ms).max().unwrap_or(0);
        let mut table = Table::new(axes(&first.problem), picked.len());
        let mut tied = table.clone();
        let mut problems = Vec::new();
        for (seen, told) in self.seen.iter().zip(&told) {
            let ns: Vec<f64> =
                picked.iter().map(|number| seen.times.get(number).map_or(f64::NAN, |time| time.ns)).collect();
            let have = ns.iter().filter(|ns| !ns.is_nan()).count();
            // One time alone says nothing, unless it was the best of all there.
            let is_best = picked.iter().any(|&number| told[number] == 0.0);
            let (at, weight) = (describe(&seen.problem), seen.weight(&picked, newest_ms));
            if (have >= 2 || (have == 1 && is_best)) && table.push(&at, &ns, weight) {
                let log2 = seen.tied(&picked);
                let factors: Vec<f64> = log2.into_iter().map(f64::exp2).collect();
                tied.push(&at, &factors, weight);
                problems.push(seen.problem);
            }
        }
        let kernels = known.iter().map(|&number| self.rivals[number].0).collect();
        let rivals = picked.iter().map(|&number| self.rivals[number]).collect();
        Some(Collected { table, tied, problems, rivals, kernels, missed_log2, told: self.told })
    }
}

/// The rivals that between them lose least, by number, and what they still lose a problem in doublings; ties are no loss.
fn pick(told: &[Vec<f64>], known: &[usize]) -> (Vec<usize>, f64) {
    let mut least = vec![SLOWEST_LOG2; told.len()];
    let mut picked: Vec<usize> = Vec::new();
    while picked.len() < MOST_RIVALS {
        let gain = |number: usize| -> f64 {
            let rows = told.iter().zip(&least);
            rows.map(|(row, least)| if row[number] < *least { least - row[number] } else { 0.0 }).sum()
        };
        let gains = known.iter().map(|&number| (gain(number), number));
        let Some((gain, number)) = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else {
            break;
        };
        if gain < WORTH * told.len() as f64 {
            break;
        }
        picked.push(number);
        least.iter_mut().zip(told).for_each(|(least, row)| *least = least.min(row[number]));
    }
    let covered: Vec<f64> = least.into_iter().filter(|least| *least < SLOWEST_LOG2).collect();
    let tied = (1.0 + TIED).log2();
    let missed = covered.iter().map(|least| (least - tied).max(0.0)).sum::<f64>();
    (picked, missed / covered.len().max(1) as f64)
}

/// A table with what its rows and columns are.
#[derive(Clone)]
pub(crate) struct Collected {
    pub table: Table,
    /// The same with rivals that are within the noise of the best as fast as it: what models are fitted to, so that what they are
    /// expected to lose is not what chance made of equals.
    pub tied: Table,
    pub problems: Vec<Problem>,
    pub rivals: Vec<(KernelId, Point)>,
    /// Kernels measured on enough problems, at any point.
    kernels: FxHashSet<KernelId>,
    missed_log2: f64,
    told: usize,
}

/// What was learned of one family of problems on one device.
pub(crate) struct Trained {
    pub learned: Learned,
    /// The rivals it tells apart.
    pub rivals: Vec<(KernelId, Point)>,
    /// Kernels that were measured on enough problems; of others it knows nothing.
    pub kernels: FxHashSet<KernelId>,
    /// The coordinates of measured problems: least and greatest.
    spans: Vec<(f64, f64)>,
    /// What the rivals it tells apart lose against all that were measured, in doublings a problem.
    missed_log2: f64,
    /// Measurements there were, and whether this is the model chosen: what is put in the place of what.
    rank: (usize, bool),
}

/// What a trained says about one problem.
pub(crate) struct Advice {
    /// Number of the rival in the trained.
    pub rival: usize,
    /// What it is expected to lose against the best of all, as a share.
    pub loss: f64,
    /// log2 of each rival's expected time over the best's.
    pub log2: Vec<f64>,
}

impl Trained {
    fn new(collected: Collected, seed: u64, (model, is_chosen): (&ModelChoice, bool)) -> Option<Trained> {
        let Collected { tied: table, rivals, kernels, missed_log2, told, .. } = collected;
        let learned = Some(&table).filter(|table| table.len() >= FEWEST_ROWS).and_then(|table| {
            // Whatever a user's model does, calls go on without it.
            catch_unwind(AssertUnwindSafe(|| model.learn(table, seed))).ok()?
        })?;
        let span = |axis: usize| {
            (0..table.len())
                .map(|row| table.at(row)[axis])
                .fold((f64::INFINITY, f64::NEG_INFINITY), |span, at| (span.0.min(at), span.1.max(at)))
        };
        let spans = (0..table.axes().near).map(span).collect();
        Some(Trained { learned, rivals, kernels, spans, missed_log2, rank: (told, is_chosen) })
    }

    /// In words: which model this is, what it rests on, how good it is.
    pub(crate) fn grounds(&self) -> String {
        format!(
            "model `{}`: {} problems of this family and {} rivals, cross-validated {:.1} % slower than the best of them \
             (differences within the noise left aside)",
            self.learned.model().name(),
            self.learned.problems(),
            self.rivals.len(),
            (self.learned.regret() - 1.0) * 100.0
        )
    }

    /// The rival expected to be fastest of those that are `eligible`.
    pub(crate) fn advise(&self, problem: &Problem, eligible: impl Fn(usize) -> bool) -> Option<Advice> {
        let mut buffers = self.learned.buffers();
        let choose = || self.learned.choose(&describe(problem), eligible, &mut buffers);
        let choice = catch_unwind(AssertUnwindSafe(choose)).ok()??;
        let loss = (choice.expected_log2 + self.missed_log2).exp2() - 1.0;
        loss.is_finite().then_some(Advice { rival: choice.rival, loss, log2: buffers.log2 })
    }

    /// The numbers that describe a problem to its model.
    pub(crate) fn at(&self, problem: &Problem) -> Vec<f64> {
        describe(problem)
    }

    /// Whether problems about as large were measured.
    pub(crate) fn reaches(&self, problem: &Problem) -> bool {
        let at = describe(problem);
        self.spans.iter().zip(&at).all(|(span, at)| (span.0 - REACH..=span.1 + REACH).contains(at))
    }
}

type Families = FxHashMap<(u16, String), Family>;

/// What was measured, by device and family of problems, and what was learned from it.
#[derive(Default)]
pub(crate) struct TrainingTables {
    families: Arc<Mutex<Families>>,
    /// Times of all families; changed by who has the lock.
    times: AtomicUsize,
    /// The model that decides.
    pub model: ModelChoice,
}

impl TrainingTables {
    pub(crate) fn clear(&self) {
        if let Ok(mut families) = self.families.lock() {
            families.clear();
            self.times.store(0, Ordering::Relaxed);
        }
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        if let Ok(mut families) = self.families.lock() {
            families.retain(|key, _| key.0 != device);
            self.times.store(families.values().map(|family| family.times).sum(), Ordering::Relaxed);
        }
    }

    /// Takes in the time of one rival.
    pub(crate) fn note(&self, device: u16, problem: &Problem, rival: (KernelId, Point), told: Label) {
        let Ok(mut families) = self.families.lock() else { return };
        let key = (device, field::family_of(problem));
        let times = self.times.load(Ordering::Relaxed);
        let is_room = match families.get(&key) {
            Some(family) => times < MOST_TIMES || family.takes_the_place_of_another(problem),
            None => times < MOST_TIMES && families.len() < MOST_SORTS,
        };
        if is_room {
            let family = families.entry(key).or_default();
            let others = times - family.times;
            family.note(problem, rival, told);
            self.times.store(others + family.times, Ordering::Relaxed);
        }
    }

    /// What was learned about problems of this family, if enough of them were measured. The first model is fitted here and now
    /// if that is quick or the caller `waits`, else and ever after by [`catch_up`](TrainingTables::catch_up); what takes longer
    /// than the default, as comparing all kinds, is left to it in any case.
    pub(crate) fn about(&self, device: u16, problem: &Problem, waits: bool) -> Option<Arc<Trained>> {
        let key = (device, field::family_of(problem));
        let (kind, is_chosen) = self.model.at_once();
        let collected = {
            let mut families = self.families.lock().ok()?;
            let family = families.get_mut(&key)?;
            if family.trained.is_some() || !family.is_due(&self.model) {
                return family.trained.clone();
            }
            let collected = family.table()?;
            if !waits && collected.table.len() * collected.table.rivals() > QUICK {
                return None;
            }
            (family.fitted_at, family.provisional) = (family.told, !is_chosen);
            collected
        };
        fit(&self.families, &key, collected, (&ModelChoice::Kind(kind), is_chosen))
    }

    /// Learns again what there is enough more of, by a thread of its own, one a family. Called when a decision is made: during a race it
    /// would take a core away from what is measured.
    pub(crate) fn catch_up(&self, device: u16, problem: &Problem) {
        let key = (device, field::family_of(problem));
        let Ok(mut families) = self.families.lock() else { return };
        let Some(family) = families.get_mut(&key).filter(|family| !family.learning) else { return };
        let Some(mut collected) = family.due(&self.model) else { return };
        let ((kind, is_chosen), is_first) = (self.model.at_once(), family.trained.is_none());
        let (families, model) = (Arc::clone(&self.families), self.model.clone());
        let body = move || {
            if is_first && !is_chosen {
                fit(&families, &key, collected.clone(), (&ModelChoice::Kind(kind), false));
            }
            loop {
                fit(&families, &key, collected, (&model, true));
                // What was measured meanwhile.
                let Ok(mut families) = families.lock() else { return };
                let Some(family) = families.get_mut(&key) else { return };
                let Some(more) = family.due(&model) else { return family.learning = false };
                collected = more;
            }
        };
        // Without a thread what there is must do until there is more to learn from.
        family.learning = std::thread::Builder::new().name("trimtab-learns".to_string()).spawn(body).is_ok();
    }

    /// The same here and now, for whoever has the time.
    pub(crate) fn catch_up_now(&self, device: u16, problem: &Problem) {
        let key = (device, field::family_of(problem));
        let due = |families: &mut Families| families.get_mut(&key)?.due(&self.model);
        let collected = self.families.lock().ok().and_then(|mut families| due(&mut families));
        if let Some(collected) = collected {
            fit(&self.families, &key, collected, (&self.model, true));
        }
    }

    /// Every table with at least `fewest` problems, by device and family.
    pub(crate) fn tables(&self, fewest: usize) -> Vec<(u16, String, Collected)> {
        let Ok(families) = self.families.lock() else { return Vec::new() };
        let tables = families.iter().filter_map(|((device, family), seen)| {
            let collected = seen.table().filter(|collected| collected.problems.len() >= fewest)?;
            Some((*device, family.clone(), collected))
        });
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        tables
    }
}

/// Fits a model and puts it in the place of the one there, if it can be fitted and does not rank below.
fn fit(
    families: &Mutex<Families>,
    key: &(u16, String),
    collected: Collected,
    model: (&ModelChoice, bool),
) -> Option<Arc<Trained>> {
    let trained = Arc::new(Trained::new(collected, field::seed(&[&key.1]), model)?);
    if let Ok(mut families) = families.lock()
        && let Some(family) = families.get_mut(key)
        && family.trained.as_ref().is_none_or(|known| known.rank <= trained.rank)
    {
        family.trained = Some(Arc::clone(&trained));
    }
    Some(trained)
}

/// Problems of one family as models see them, without times: what [`next`](trimtab_model::learn::next) chooses among. Those of
/// another family than the first are left out.
pub fn wanted(problems: &[Problem]) -> Table {
    let Some(first) = problems.first() else { return Table::default() };
    let mut table = Table::new(axes(first), 0);
    let family = field::family_of(first);
    for problem in problems.iter().filter(|problem| field::family_of(problem) == family) {
        table.want(&describe(problem));
    }
    table
}

#[cfg(test)]
mod tests;
