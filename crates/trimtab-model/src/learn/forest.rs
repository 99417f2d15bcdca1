//! `forest` and `extra`: many trees that differ by chance, and their mean.

use super::tree::{Grower, Grown, Growth};
use super::{Axes, Model, Table, words};
use trimtab_core::RandomNumbers;

/// Trees of a forest of its own.
const TREES: usize = 24;
/// Of so many axes, one is tried at each split, but not fewer than `FEWEST_TRIED`.
const TRIED_ONE_IN: usize = 3;
const FEWEST_TRIED: usize = 2;
/// With every so many problems more, leaves have one more at least, up to three: trees of many problems stay
/// small enough for the cache.
const ROWS_A_LARGER_LEAF: usize = 300;
const MOST_LARGER: usize = 3;

/// How trees come to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Random thresholds; every tree sees every problem.
    Extra,
    /// The best thresholds; every tree sees a random draw of the problems.
    Bagged,
}

/// Many trees: a random forest, or extremely randomised trees.
#[derive(Clone, Debug)]
pub struct Forest {
    way: Way,
    seed: u64,
    count: usize,
    trees: Vec<Grown>,
    axes: Axes,
}

impl Forest {
    /// A random forest: the best thresholds, every tree sees a random draw of the problems.
    pub fn bagged(seed: u64) -> Forest {
        Forest { way: Way::Bagged, seed, count: TREES, trees: Vec::new(), axes: Axes::default() }
    }

    /// Extremely randomised trees: random thresholds, every tree sees every problem.
    pub fn extra(seed: u64) -> Forest {
        Forest { way: Way::Extra, ..Forest::bagged(seed) }
    }

    pub(super) fn with_trees(self, count: usize) -> Forest {
        Forest { count, ..self }
    }
}

impl Model for Forest {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Extra => "extra",
            Way::Bagged => "forest",
        }
    }

    fn fit(&mut self, table: &Table) {
        let mut dice = RandomNumbers::new(self.seed);
        let tried = (table.width() / TRIED_ONE_IN).max(FEWEST_TRIED);
        let random = self.way == Way::Extra;
        let leaf = if random { 1 } else { 2 } + (table.len() / ROWS_A_LARGER_LEAF).min(MOST_LARGER);
        let mut grower = Grower::new(table, Growth { tried, random, leaf });
        let mut rows: Vec<usize> = (0..table.len()).collect();
        self.trees.clear();
        for _ in 0..self.count {
            if self.way == Way::Bagged {
                rows.iter_mut().for_each(|row| *row = dice.below(table.len()));
            }
            self.trees.push(grower.grow(&mut rows, &mut dice));
        }
        self.axes = table.axes().clone();
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], opinions: &mut [f64]) {
        log2.fill(0.0);
        spread.fill(0.0);
        let mut opinions = opinions.chunks_exact_mut(log2.len().max(1));
        for tree in &self.trees {
            let leaf = tree.leaf(at);
            if let Some(opinion) = opinions.next() {
                words::widen(leaf, opinion);
            }
            for ((sum, squares), value) in log2.iter_mut().zip(spread.iter_mut()).zip(leaf) {
                let value = f64::from(*value);
                *sum += value;
                *squares += value * value;
            }
        }
        let count = self.trees.len().max(1) as f64;
        for (sum, squares) in log2.iter_mut().zip(spread) {
            *sum /= count;
            *squares = (*squares / count - *sum * *sum).max(0.0).sqrt();
        }
    }

    fn members(&self) -> usize {
        self.trees.len()
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let mut log2 = vec![0.0; rivals.len()];
        let mut spread = vec![0.0; rivals.len()];
        self.predict(at, &mut log2, &mut spread, &mut []);
        let first = words::best_two(&log2).map(|best| best.0);
        let mut opinion = vec![0.0; rivals.len()];
        let mut agree = 0;
        for tree in &self.trees {
            words::widen(tree.leaf(at), &mut opinion);
            agree += usize::from(words::best_two(&opinion).map(|best| best.0) == first);
        }
        let mut asked = vec![0usize; self.axes.names.len()];
        for (axis, _, _) in self.trees.iter().flat_map(|tree| tree.path(at)) {
            asked[axis] += 1;
        }
        let mut order: Vec<usize> = (0..asked.len()).filter(|&axis| asked[axis] > 0).collect();
        order.sort_by_key(|&axis| (std::cmp::Reverse(asked[axis]), axis));
        let most: Vec<&str> = order.iter().take(3).map(|&axis| words::axis(&self.axes, axis)).collect();
        let mut lines =
            vec![format!("{agree} of {} trees agree: {}", self.trees.len(), words::ranking(&log2, rivals))];
        if !most.is_empty() {
            lines.push(format!("asked most on the way: {}", most.join("; ")));
        }
        lines
    }
}
