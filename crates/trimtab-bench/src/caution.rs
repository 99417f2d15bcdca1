//! When to stay with the rival that does best over all, although another is predicted to be faster here.
//!
//! A mean of ratios hides a disaster: one problem in a thousand that takes a thousand times as long on the device that looked
//! a little faster costs more than all the little gains. Nothing in the other problems tells its size; that the parts of a
//! model do not agree on it does. So the **steady** rival, the one with the least summed time, is kept wherever a single part says that
//! the predicted one may be slower than it by more than some limit. The limit is the strictest that costs no more than a small premium on
//! problems left out of the model: where parts disagree all the time, caution would be dear, and the prediction is followed.

use trimtab::advanced::core::RandomNumbers;
use trimtab_model::learn::{Blend, Model, Table};

/// Parts the groups are split into: each is predicted by a model of the others.
const FOLDS: usize = 4;
/// Parts of the model: a disaster that one part in thirty sees coming is not seen by sixteen.
const TREES: usize = 64;
/// Limits tried, in doublings, the strictest first.
const LIMITS: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, 3.0];
/// What caution may cost in the mean, in doublings: 0.15 per cent.
const PREMIUM_LOG2: f64 = 0.002;

/// A problem left out of the model: what decided, and what either choice lost.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// How much slower than the steady rival the predicted one is by the part that thinks least of it, in doublings.
    dissent: f64,
    /// Loss of the predicted rival and of the steady one, in doublings.
    losses: (f64, f64),
}

/// A model of two rivals or more with a limit to how much its parts may disagree.
pub(crate) struct Cautious {
    model: Blend,
    steady: usize,
    limit: f64,
}

/// Room for one prediction.
struct Opinions {
    log2: Vec<f64>,
    spread: Vec<f64>,
    each: Vec<f64>,
}

impl Opinions {
    /// What is predicted, and the rival predicted to be fastest.
    fn of(model: &Blend, at: &[f64], rivals: usize) -> (Opinions, usize) {
        let each = vec![0.0; rivals * model.members()];
        let mut all = Opinions { log2: vec![0.0; rivals], spread: vec![0.0; rivals], each };
        model.predict(at, &mut all.log2, &mut all.spread, &mut all.each);
        let fastest = (0..rivals).min_by(|&a, &b| all.log2[a].total_cmp(&all.log2[b])).unwrap_or(0);
        (all, fastest)
    }

    /// How much slower than the steady rival the predicted one is by the part that thinks least of it, in doublings.
    fn dissent(&self, predicted: usize, steady: usize) -> f64 {
        let opinions = self.each.chunks_exact(self.log2.len());
        opinions.map(|opinion| opinion[predicted] - opinion[steady]).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Cautious {
    /// From a table whose rows have these times, all of them measured. Rows of one `group` are alike, as one kernel at several sizes, and are left
    /// out together, so that caution is judged by what is said of kernels that were not seen.
    pub(crate) fn fit(table: &Table, ns: &[Vec<f64>], groups: &[usize], seed: u64) -> Cautious {
        let sum = |rival: usize| ns.iter().map(|ns| ns[rival]).sum::<f64>();
        let steady = (0..table.rivals()).min_by(|&a, &b| sum(a).total_cmp(&sum(b))).unwrap_or(0);
        let fitted = |rows: &[usize]| {
            let mut model = Blend::new(seed).with_trees(TREES);
            model.fit(&table.part(rows));
            model
        };
        let order = RandomNumbers::new(seed).order(groups.iter().max().map_or(0, |most| most + 1));
        let mut cases: Vec<Case> = Vec::with_capacity(table.len());
        for fold in 0..FOLDS {
            let (left_out, others): (Vec<usize>, Vec<usize>) =
                (0..table.len()).partition(|row| order[groups[*row]] % FOLDS == fold);
            let model = fitted(&others);
            for row in left_out {
                let (opinions, chosen) = Opinions::of(&model, table.at(row), table.rivals());
                let told = table.told(row);
                let dissent = opinions.dissent(chosen, steady);
                cases.push(Case { dissent, losses: (told[chosen], told[steady]) });
            }
        }
        let model = fitted(&(0..table.len()).collect::<Vec<_>>());
        Cautious { model, steady, limit: limit(&cases) }
    }

    /// The rival chosen with caution, and the one predicted to be fastest.
    pub(crate) fn choose(&self, at: &[f64], rivals: usize) -> [usize; 2] {
        let (opinions, predicted) = Opinions::of(&self.model, at, rivals);
        let keeps = predicted != self.steady && opinions.dissent(predicted, self.steady) > self.limit;
        [if keeps { self.steady } else { predicted }, predicted]
    }
}

/// The strictest limit that is worth its premium; none is where no limit is.
fn limit(cases: &[Case]) -> f64 {
    let costs = |limit: f64| {
        let kept = cases.iter().filter(|case| case.dissent > limit);
        kept.map(|case| case.losses.1 - case.losses.0).sum::<f64>() / cases.len().max(1) as f64
    };
    let worth = |limit: &f64| !cases.is_empty() && costs(*limit) <= PREMIUM_LOG2;
    LIMITS.into_iter().find(worth).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_model::learn::Axes;

    #[test]
    fn caution_is_bought_where_it_is_cheap_and_not_where_it_is_dear() {
        let rarely = |nth: usize| if nth.is_multiple_of(100) { 2.5 } else { 0.1 };
        let cheap: Vec<Case> =
            (0..1000).map(|nth| Case { dissent: rarely(nth), losses: (0.0, 0.1) }).collect();
        assert_eq!(limit(&cheap), LIMITS[0]);
        let dear: Vec<Case> = (0..1000).map(|_| Case { dissent: 5.0, losses: (0.0, 0.5) }).collect();
        assert_eq!(limit(&dear), f64::INFINITY);
        assert_eq!(limit(&[]), f64::INFINITY);
    }

    #[test]
    fn the_steady_rival_is_kept_where_the_other_may_be_a_disaster_and_nowhere_else() {
        let axes = Axes { names: vec!["size".to_string(), "noise".to_string()], near: 1 };
        let (mut table, mut times, mut groups) = (Table::new(axes, 2), Vec::new(), Vec::new());
        let mut numbers = RandomNumbers::new(7);
        for nth in 0..405 {
            let size = if nth < 400 { 8.0 * numbers.unit() } else { 7.9 };
            // A little faster, but one in three of the largest takes eight times as long, and a few longer than all others together: what is
            // at stake is summed time, and the rival that is usually slower is the steady one.
            let other = match nth {
                400.. => 80_000.0,
                _ if size > 7.8 && numbers.below(3) == 0 => 800.0,
                _ => 80.0,
            };
            assert!(table.push(&[size, numbers.unit()], &[100.0, other], 1.0));
            times.push(vec![100.0, other]);
            groups.push(nth / 4);
        }
        let learned = Cautious::fit(&table, &times, &groups, 1);
        assert_eq!(learned.steady, 0);
        assert_eq!([1.0, 3.0, 6.0, 7.9].map(|size| learned.choose(&[size, 0.5], 2)[0]), [1, 1, 1, 0]);
    }
}
