//! A model with its cross-validated errors: what it chooses comes with an expected loss.

use super::caution::{self, Case, Caution};
use super::{Blend, Calibration, Dice, Model, ModelKind, Table};

/// Parts the problems are split into: each is predicted by a model of the others.
const FOLDS: usize = 4;
/// Fewer problems than this are not worth a model.
pub const FEWEST_PROBLEMS: usize = 5;
/// Another model than the default must beat its cross-validated regret by this factor to be picked: less is chance.
const WORTH: f64 = 0.9;
/// Rivals predicted further than this from the best do not count for a model's error, in doublings: nobody chooses them.
const IN_THE_RUNNING: f64 = 1.0;
/// Trees of a model that is asked for caution.
const CAUTIOUS_TREES: usize = 64;
/// The least error a model claims, in doublings.
const LEAST_ERROR: f64 = 0.02;

/// Room for one prediction, made once and used again: what makes predicting free of allocations.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// log2 of each rival's expected time over the best's, after a choice.
    pub log2: Vec<f64>,
    /// How far off each is expected to be, after a choice.
    pub spread: Vec<f64>,
    pub(super) opinions: Vec<f64>,
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
    caution: Option<Caution>,
    rivals: usize,
    problems: usize,
    error_log2: f64,
    regret_log2: f64,
    worst_log2: f64,
}

impl std::fmt::Debug for Learned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Learned({}, {} problems)", self.model.name(), self.problems)
    }
}

impl Learned {
    /// A model of that kind; `None` with fewer than [`FEWEST_PROBLEMS`] problems, without rivals, or for the analytic prior
    /// where the table has none.
    pub fn fit(kind: ModelKind, table: &Table, seed: u64) -> Option<Learned> {
        kind.fits(table).then_some(())?;
        Learned::with(&|| kind.make(seed), table, seed)
    }

    /// The default model with as many parts as it takes to [choose with caution](Learned::choose_with_caution): a disaster that
    /// one part in thirty sees coming is not seen by sixteen.
    pub fn cautious(table: &Table, seed: u64) -> Option<Learned> {
        Learned::with(&|| Box::new(Blend::new(seed).with_trees(CAUTIOUS_TREES)), table, seed)
    }

    /// A model of the caller's own: `make` returns one that has learned nothing.
    pub fn with(make: &dyn Fn() -> Box<dyn Model>, table: &Table, seed: u64) -> Option<Learned> {
        if table.len() < FEWEST_PROBLEMS || table.rivals() == 0 {
            return None;
        }
        let parts = parts(table, seed);
        let steady = caution::steady(table);
        let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(table.len());
        let mut cases: Vec<Case> = Vec::with_capacity(table.len());
        let (mut squares, mut count) = (0.0, 0.0);
        for fold in 0..FOLDS {
            let (left_out, others): (Vec<usize>, Vec<usize>) =
                (0..table.len()).partition(|row| parts[*row] == fold);
            let mut model = make();
            model.fit(&table.part(&others));
            let mut buffers = Buffers::new(table.rivals(), model.members());
            for row in left_out {
                let told = table.told(row);
                let known = |rival: usize| !told[rival].is_nan();
                let Some((chosen, doubt)) = choose(model.as_ref(), table.at(row), known, &mut buffers) else {
                    continue;
                };
                pairs.push((doubt, told[chosen]));
                if let Some(steady) = steady {
                    let dissent = caution::dissent(&buffers, model.members(), chosen, steady);
                    cases.push(Case { dissent, losses: (told[chosen], told[steady]) });
                }
                let reach = buffers.log2[chosen] + IN_THE_RUNNING;
                for (value, told) in buffers.log2.iter().zip(told) {
                    if !told.is_nan() && *value <= reach {
                        squares += (told - value).powi(2);
                        count += 1.0;
                    }
                }
            }
        }
        let mut model = make();
        model.fit(table);
        let mut losses: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        losses.sort_by(f64::total_cmp);
        Some(Learned {
            model,
            rivals: table.rivals(),
            problems: table.len(),
            error_log2: (squares / f64::max(count, 1.0)).sqrt().max(LEAST_ERROR),
            regret_log2: losses.iter().sum::<f64>() / losses.len().max(1) as f64,
            worst_log2: losses.get(losses.len() * 95 / 100).copied().unwrap_or(0.0),
            calibration: Calibration::new(&pairs),
            caution: steady.map(|steady| Caution::new(steady, &cases)),
        })
    }

    /// The kind with the least cross-validated regret on this table, the default unless another is clearly better.
    pub fn auto(table: &Table, seed: u64) -> Option<Learned> {
        let mut best = Learned::fit(ModelKind::Default, table, seed)?;
        let mut least = best.regret_log2 * WORTH;
        for kind in ModelKind::ALL.into_iter().filter(|kind| *kind != ModelKind::Default) {
            if let Some(other) = Learned::fit(kind, table, seed).filter(|other| other.regret_log2 < least) {
                least = other.regret_log2;
                best = other;
            }
        }
        Some(best)
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
        Some(Choice { rival, expected_log2: self.calibration.expected(doubt) })
    }

    /// The same, with caution, where much is at stake, as between devices: where a single part of the model says that the
    /// predicted rival may be far slower than the [`steady`](Learned::steady) one, that one is kept. How far is far was found on problems
    /// left out of the model, so that caution costs next to nothing in the mean.
    pub fn choose_with_caution(
        &self,
        at: &[f64],
        eligible: impl Fn(usize) -> bool,
        buffers: &mut Buffers,
    ) -> Option<Choice> {
        let choice = self.choose(at, &eligible, buffers)?;
        let members = self.model.members();
        let keeps =
            |caution: &Caution| eligible(caution.steady) && caution.keeps(buffers, members, choice.rival);
        let Some(caution) = self.caution.filter(keeps) else { return Some(choice) };
        let doubt = doubt(buffers, members, caution.steady, eligible);
        Some(Choice { rival: caution.steady, expected_log2: self.calibration.expected(doubt) })
    }

    /// The rival with the least summed time over all problems, of those that were measured on every one.
    pub fn steady(&self) -> Option<usize> {
        self.caution.map(|caution| caution.steady)
    }

    /// Learns one more problem, as [`Model::observe`]; its errors are looked at when it is fitted again.
    pub fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        told.len() == self.rivals && self.model.observe(at, told, weight)
    }

    /// Room for this model's predictions.
    pub fn buffers(&self) -> Buffers {
        Buffers::new(self.rivals, self.model.members())
    }

    /// Where the choice changes along a list of problems, say of growing size: (position in the list, rival from there on), the
    /// first included.
    pub fn turns<'a>(&self, problems: impl IntoIterator<Item = &'a [f64]>) -> Vec<(usize, usize)> {
        let mut buffers = self.buffers();
        let mut turns: Vec<(usize, usize)> = Vec::new();
        for (position, at) in problems.into_iter().enumerate() {
            if let Some(choice) = self.choose(at, |_| true, &mut buffers)
                && turns.last().is_none_or(|(_, rival)| *rival != choice.rival)
            {
                turns.push((position, choice.rival));
            }
        }
        turns
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

    /// The geometric mean of the chosen rival's time over the best's on problems it has not seen: 1.05 is five per cent lost.
    pub fn regret(&self) -> f64 {
        self.regret_log2.exp2()
    }

    /// The same at the 95th percentile.
    pub fn regret_p95(&self) -> f64 {
        self.worst_log2.exp2()
    }
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
        for (rival, value) in buffers.log2.iter().enumerate().filter(|(rival, _)| eligible(*rival)) {
            if rival != chosen {
                let spread =
                    (buffers.spread[chosen].powi(2) + buffers.spread[rival].powi(2)).sqrt().max(1e-3);
                doubt += expected_excess((buffers.log2[chosen] - value) / spread) * spread;
            }
        }
    }
    doubt
}

/// The part each problem is left out with: those that are alike in one, the parts as even as chance makes them.
fn parts(table: &Table, seed: u64) -> Vec<usize> {
    let mut kin: Vec<u64> = (0..table.len()).map(|row| table.kin(row)).collect();
    kin.sort_unstable();
    kin.dedup();
    let mut part = vec![0; kin.len()];
    for (nth, at) in Dice::new(seed).order(kin.len()).into_iter().enumerate() {
        part[at] = nth % FOLDS;
    }
    (0..table.len()).map(|row| kin.binary_search(&table.kin(row)).map_or(0, |at| part[at])).collect()
}

/// What a normal number of that mean and deviation one is above zero, in the mean: by the logistic curve, within 0.02.
fn expected_excess(mean: f64) -> f64 {
    (1.0 + (1.702 * mean).exp()).ln() / 1.702
}
