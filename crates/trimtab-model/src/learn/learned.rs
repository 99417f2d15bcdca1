//! A model with its cross-validated errors: what it chooses comes with an expected loss.

use super::{Calibration, Model, ModelKind, Table};
use trimtab_core::RandomNumbers;

/// Parts the problems are split into: each is predicted by a model of the others.
const FOLDS: usize = 4;
/// Fewer problems than this are not worth a model.
pub const FEWEST_PROBLEMS: usize = 5;
/// Rivals predicted further than this from the best do not count for a model's error, in doublings: nobody chooses them.
const IN_THE_RUNNING: f64 = 1.0;
/// The least error a model claims, in doublings.
const LEAST_ERROR: f64 = 0.02;

/// Room for one prediction, made once and used again: what makes predicting free of allocations.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// log2 of each rival's expected time over the best's, after a choice.
    pub log2: Vec<f64>,
    /// How far off each is expected to be, after a choice.
    pub spread: Vec<f64>,
    opinions: Vec<f64>,
}

impl Buffers {
    /// Room for so many rivals and members.
    fn new(rivals: usize, members: usize) -> Buffers {
        Buffers { log2: vec![0.0; rivals], spread: vec![0.0; rivals], opinions: vec![0.0; rivals * members] }
    }
}

/// What a model chooses for a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The rival.
    pub rival: usize,
    /// What it is expected to lose against the best of all, in doublings.
    pub expected_log2: f64,
}

impl Choice {
    /// What it is expected to lose, as a share: 0.05 is five per cent.
    pub fn expected_loss(&self) -> f64 {
        self.expected_log2.exp2() - 1.0
    }
}

/// A fitted model, and how good it is on problems it has not seen.
pub struct Learned {
    model: Box<dyn Model>,
    calibration: Calibration,
    rivals: usize,
    problems: usize,
    error_log2: f64,
    losses: Vec<f64>,
    /// What the slowest rival that was told loses.
    worst_log2: f64,
}

impl std::fmt::Debug for Learned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Learned({}, {} problems)", self.model.name(), self.problems)
    }
}

impl Learned {
    /// A model of that kind; `None` with fewer than [`FEWEST_PROBLEMS`] problems or without rivals.
    pub fn fit(kind: ModelKind, table: &Table, seed: u64) -> Option<Learned> {
        Learned::with(&|seed| kind.make(seed), table, seed)
    }

    /// A model of the caller's own: `make` returns one that has learned nothing. `None` also if it never chose.
    pub fn with(make: &dyn Fn(u64) -> Box<dyn Model>, table: &Table, seed: u64) -> Option<Learned> {
        if table.len() < FEWEST_PROBLEMS || table.rivals() == 0 {
            return None;
        }
        let order = RandomNumbers::new(seed).order(table.len());
        let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(table.len());
        let (mut squares, mut count) = (0.0, 0.0);
        for fold in 0..FOLDS {
            let part = |own: bool| -> Vec<usize> {
                let rows = order.iter().enumerate().filter(|(nth, _)| (nth % FOLDS == fold) == own);
                rows.map(|(_, row)| *row).collect()
            };
            let mut model = make(seed);
            model.fit(&table.part(&part(false)));
            let mut buffers = Buffers::new(table.rivals(), model.members());
            for row in part(true) {
                let told = table.told(row);
                let known = |rival: usize| !told[rival].is_nan();
                let Some((chosen, doubt)) = choose(model.as_ref(), table.at(row), known, &mut buffers) else {
                    continue;
                };
                pairs.push((doubt, told[chosen]));
                let reach = buffers.log2[chosen] + IN_THE_RUNNING;
                for (value, told) in buffers.log2.iter().zip(told) {
                    if !told.is_nan() && *value <= reach {
                        squares += (told - value).powi(2);
                        count += 1.0;
                    }
                }
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let mut model = make(seed);
        model.fit(table);
        let mut losses: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        losses.sort_by(f64::total_cmp);
        Some(Learned {
            model,
            rivals: table.rivals(),
            problems: table.len(),
            error_log2: (squares / f64::max(count, 1.0)).sqrt().max(LEAST_ERROR),
            losses,
            worst_log2: worst(table),
            calibration: Calibration::new(&pairs),
        })
    }

    /// The kind with the least cross-validated loss on this table.
    pub fn auto(table: &Table, seed: u64) -> Option<Learned> {
        let mut all: Vec<Learned> =
            ModelKind::ALL.into_iter().filter_map(|kind| Learned::fit(kind, table, seed)).collect();
        Learned::least(&all).map(|least| all.swap_remove(least))
    }

    /// The position of the one with the least cross-validated loss; of equals the first.
    pub fn least(all: &[Learned]) -> Option<usize> {
        (0..all.len()).min_by(|&a, &b| all[a].regret().total_cmp(&all[b].regret()))
    }

    /// The rival expected to be fastest among those that are `eligible`, and what that is expected to lose; `None` if none is.
    /// Allocates nothing; the buffers hold every rival's prediction afterwards.
    pub fn choose(
        &self,
        at: &[f64],
        eligible: impl Fn(usize) -> bool,
        buffers: &mut Buffers,
    ) -> Option<Choice> {
        let (rival, doubt) = choose(self.model.as_ref(), at, eligible, buffers)?;
        // Nobody can lose more than the slowest rival does, however much is doubted.
        Some(Choice { rival, expected_log2: self.calibration.expected(doubt).min(self.worst_log2) })
    }

    /// Learns one more problem, as [`Model::observe`]; its errors are looked at when it is fitted again.
    pub fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        told.len() == self.rivals && self.model.observe(at, told, weight)
    }

    /// Room for this model's predictions.
    pub fn buffers(&self) -> Buffers {
        Buffers::new(self.rivals, self.model.members())
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        self.model.as_ref()
    }

    /// Problems it was fitted on.
    pub fn problems(&self) -> usize {
        self.problems
    }

    /// The typical error of a prediction on problems it has not seen, in doublings, of rivals that are in the running. The
    /// width of the prior when live calls go on learning.
    pub fn error_log2(&self) -> f64 {
        self.error_log2
    }

    /// What its choices lost on problems it has not seen, in doublings, the least first.
    pub fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// The geometric mean of the chosen rival's time over the best's on problems it has not seen: 1.05 is five per cent lost.
    pub fn regret(&self) -> f64 {
        (self.losses.iter().sum::<f64>() / self.losses.len() as f64).exp2()
    }

    /// The same at the 95th percentile.
    pub fn regret_p95(&self) -> f64 {
        self.losses.get(self.losses.len() * 95 / 100).map_or(1.0, |loss| loss.exp2())
    }
}

/// log2 of the slowest time over its row's best.
fn worst(table: &Table) -> f64 {
    let told = (0..table.len()).flat_map(|row| table.told(row).iter().copied());
    told.filter(|log2| log2.is_finite()).fold(0.0, f64::max)
}

/// The rival with the least prediction, and how much its parts doubt it.
fn choose(
    model: &dyn Model,
    at: &[f64],
    eligible: impl Fn(usize) -> bool,
    buffers: &mut Buffers,
) -> Option<(usize, f64)> {
    model.predict(at, &mut buffers.log2, &mut buffers.spread, &mut buffers.opinions);
    let mut chosen: Option<usize> = None;
    for (rival, value) in buffers.log2.iter().enumerate() {
        if eligible(rival) && chosen.is_none_or(|best| *value < buffers.log2[best]) {
            chosen = Some(rival);
        }
    }
    let chosen = chosen?;
    let doubt = doubt(buffers, model.members(), chosen, eligible);
    doubt.is_finite().then_some((chosen, doubt))
}

/// How much the parts of a model doubt a rival, in doublings.
fn doubt(buffers: &Buffers, members: usize, chosen: usize, eligible: impl Fn(usize) -> bool) -> f64 {
    let mut doubt = 0.0;
    if members > 1 {
        // What each part thinks would have been gained by listening to it instead.
        for opinion in buffers.opinions.chunks_exact(buffers.log2.len()).take(members) {
            let own = opinion.iter().enumerate().filter(|(rival, _)| eligible(*rival));
            let least = own.fold(f64::INFINITY, |least, (_, value)| least.min(*value));
            doubt += (opinion[chosen] - least) / members as f64;
        }
    } else {
        let (mut others, mut widest) = (0u32, 0.0f64);
        for (rival, value) in buffers.log2.iter().enumerate().filter(|(rival, _)| eligible(*rival)) {
            if rival != chosen {
                let spread =
                    (buffers.spread[chosen].powi(2) + buffers.spread[rival].powi(2)).sqrt().max(1e-3);
                doubt += expected_excess((buffers.log2[chosen] - value) / spread) * spread;
                (others, widest) = (others + 1, widest.max(spread));
            }
        }
        // What the best of them gains is less than what all gain together: of n normal numbers below zero the greatest is expected
        // below √(2 ln n) deviations. With 60 rivals and 20 problems the sum alone was 46 doublings.
        doubt = doubt.min(widest * (2.0 * f64::from(others + 1).ln()).sqrt());
    }
    doubt
}

/// What a normal number of that mean and deviation one is above zero, in the mean: by the logistic curve, within 0.02.
fn expected_excess(mean: f64) -> f64 {
    (1.0 + (1.702 * mean).exp()).ln() / 1.702
}
