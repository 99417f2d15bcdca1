//! `tree`: a regression tree for all rivals at once, and the growing that forests share.

use super::{Axes, Model, SLOWEST_LOG2, Table, words};
use trimtab_core::RandomNumbers;

/// How a tree is grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Axes tried at each split.
    pub(super) tried: usize,
    /// Whether one random threshold is tried of each, or all.
    pub(super) random: bool,
    /// Problems a leaf has at least.
    pub(super) leaf: usize,
}

const LEAF: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    /// The axis that is looked at; `LEAF` where the walk ends.
    axis: u32,
    /// Where the branch above the threshold starts, the one below being the next node; of a leaf, its place.
    next: u32,
    threshold: f32,
}

/// A grown tree. Halves as wide as the numbers it learned from: trees are read in no order, and the smaller they are, the more of
/// them stay in the cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Grown {
    nodes: Vec<Node>,
    /// Per leaf, the mean of each rival.
    leaves: Vec<f32>,
    rivals: usize,
}

impl Grown {
    /// The leaf a problem falls into.
    #[inline]
    pub(super) fn leaf(&self, at: &[f64]) -> &[f32] {
        let mut node = 0;
        while let Some(here) = self.nodes.get(node) {
            if here.axis == LEAF {
                let first = here.next as usize * self.rivals;
                return &self.leaves[first..first + self.rivals];
            }
            let below = at[here.axis as usize] <= f64::from(here.threshold);
            node = if below { node + 1 } else { here.next as usize };
        }
        &[]
    }

    /// The questions a problem is asked on its way: (axis, threshold, whether it lies below).
    pub(super) fn path(&self, at: &[f64]) -> Vec<(usize, f64, bool)> {
        let mut path = Vec::new();
        let mut node = 0;
        while let Some(here) = self.nodes.get(node).filter(|here| here.axis != LEAF) {
            let below = at[here.axis as usize] <= f64::from(here.threshold);
            path.push((here.axis as usize, f64::from(here.threshold), below));
            node = if below { node + 1 } else { here.next as usize };
        }
        path
    }
}

/// Sums over the problems of a node: the weights rival by rival, then the weighted values.
#[derive(Clone, Default)]
struct Sums {
    both: Vec<f64>,
}

impl Sums {
    fn clear(&mut self, rivals: usize) {
        self.both.clear();
        self.both.resize(2 * rivals, 0.0);
    }

    #[inline]
    fn add(&mut self, both: &[f64]) {
        for (sum, value) in self.both.iter_mut().zip(both) {
            *sum += value;
        }
    }

    /// Weights and weighted values.
    fn parts(&self) -> (&[f64], &[f64]) {
        self.both.split_at(self.both.len() / 2)
    }

    /// What splitting into these and the rest of `all` explains, up to a constant.
    fn explained(&self, all: &Sums) -> f64 {
        let ((weights, sums), (all_weights, all_sums)) = (self.parts(), all.parts());
        let mut explained = 0.0;
        for rival in 0..sums.len() {
            let (weight, sum) = (weights[rival], sums[rival]);
            let (other, rest) = (all_weights[rival] - weight, all_sums[rival] - sum);
            // What is left after subtracting all of a sum is rounding, not weight.
            let share = |sum: f64, weight: f64| if weight > 1e-9 { sum * sum / weight } else { 0.0 };
            explained += share(sum, weight) + share(rest, other);
        }
        explained
    }
}

/// What growing needs beside the table: made once for all trees.
pub(super) struct Grower<'a> {
    table: &'a Table,
    growth: Growth,
    /// Per problem, the weight of each rival, zero where it was not measured, then the weight times what was told.
    both: Vec<f64>,
    /// The numbers of all problems, axis by axis.
    columns: Vec<f64>,
    left: Sums,
    /// The axes in the order they are tried, shuffled at each split.
    order_of_axes: Vec<usize>,
}

impl<'a> Grower<'a> {
    pub(super) fn new(table: &'a Table, growth: Growth) -> Grower<'a> {
        let mut both = Vec::with_capacity(2 * table.len() * table.rivals());
        for row in 0..table.len() {
            let weight = table.weight(row);
            both.extend(table.told(row).iter().map(|told| if told.is_nan() { 0.0 } else { weight }));
            both.extend(table.told(row).iter().map(|told| if told.is_nan() { 0.0 } else { weight * told }));
        }
        let axes = 0..table.width();
        let columns =
            axes.clone().flat_map(|axis| (0..table.len()).map(move |row| table.at(row)[axis])).collect();
        Grower { table, growth, both, columns, left: Sums::default(), order_of_axes: axes.collect() }
    }

    fn column(&self, axis: usize) -> &[f64] {
        &self.columns[axis * self.table.len()..(axis + 1) * self.table.len()]
    }

    /// A tree over these problems, which are put in another order. Deep trees are cut where they have one problem a leaf, so
    /// that the recursion is as deep as there are problems at worst, and a few dozen calls in practice.
    pub(super) fn grow(&mut self, rows: &mut [usize], dice: &mut RandomNumbers) -> Grown {
        let rivals = self.table.rivals();
        let mut grown = Grown { nodes: Vec::new(), leaves: Vec::new(), rivals };
        // A rival that was never measured is taken to be as slow as can be.
        let fallback = vec![SLOWEST_LOG2; rivals];
        self.branch(rows, &fallback, dice, &mut grown);
        grown
    }

    fn branch(&mut self, rows: &mut [usize], fallback: &[f64], dice: &mut RandomNumbers, grown: &mut Grown) {
        let rivals = self.table.rivals();
        let mut all = Sums::default();
        all.clear(rivals);
        for &row in rows.iter() {
            all.add(&self.both[2 * row * rivals..2 * (row + 1) * rivals]);
        }
        let (weights, sums) = all.parts();
        let mean =
            |rival: usize| if weights[rival] > 0.0 { sums[rival] / weights[rival] } else { fallback[rival] };
        let means: Vec<f64> = (0..rivals).map(mean).collect();
        let parted = self.split(rows, &all, dice).and_then(|(axis, threshold)| {
            let column = self.column(axis);
            let mut below = 0;
            for at in 0..rows.len() {
                if column[rows[at]] <= f64::from(threshold) {
                    rows.swap(at, below);
                    below += 1;
                }
            }
            // A threshold between two numbers may fall on one of them when it is stored with fewer digits.
            (below > 0 && below < rows.len()).then_some((axis, threshold, below))
        });
        let Some((axis, threshold, below)) = parted else {
            grown.nodes.push(Node {
                axis: LEAF,
                next: (grown.leaves.len() / rivals.max(1)) as u32,
                threshold: 0.0,
            });
            grown.leaves.extend(means.iter().map(|mean| *mean as f32));
            return;
        };
        let node = grown.nodes.len();
        grown.nodes.push(Node { axis: axis as u32, next: 0, threshold });
        let (lower, upper) = rows.split_at_mut(below);
        self.branch(lower, &means, dice, grown);
        grown.nodes[node].next = grown.nodes.len() as u32;
        self.branch(upper, &means, dice, grown);
    }

    /// The best of the splits tried; `None` where the problems stay together.
    fn split(&mut self, rows: &[usize], all: &Sums, dice: &mut RandomNumbers) -> Option<(usize, f32)> {
        if rows.len() < 2 * self.growth.leaf.max(1) {
            return None;
        }
        let mut best = (all.explained(all) * (1.0 + 1e-9) + 1e-9, 0, 0.0, false);
        let width = self.table.width();
        let mut tried = 0;
        for nth in 0..width {
            if tried >= self.growth.tried {
                break;
            }
            let other = nth + dice.below(width - nth);
            self.order_of_axes.swap(nth, other);
            let axis = self.order_of_axes[nth];
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            let column = self.column(axis);
            for &row in rows {
                let value = column[row];
                low = low.min(value);
                high = high.max(value);
            }
            if low >= high {
                continue;
            }
            tried += 1;
            let found = if self.growth.random {
                let threshold = low + dice.unit() * (high - low);
                self.at_threshold(rows, all, axis, threshold).map(|gain| (gain, threshold))
            } else {
                self.all_thresholds(rows, all, axis)
            };
            if let Some((gain, threshold)) = found.filter(|found| found.0 > best.0) {
                best = (gain, axis, threshold, true);
            }
        }
        best.3.then_some((best.1, best.2 as f32))
    }

    fn at_threshold(&mut self, rows: &[usize], all: &Sums, axis: usize, threshold: f64) -> Option<f64> {
        let rivals = self.table.rivals();
        let column = &self.columns[axis * self.table.len()..(axis + 1) * self.table.len()];
        let below = rows.iter().filter(|&&row| column[row] <= threshold).count();
        if below < self.growth.leaf || rows.len() - below < self.growth.leaf {
            return None;
        }
        // Either side will do: the fewer problems are summed.
        let lower = 2 * below <= rows.len();
        self.left.clear(rivals);
        for &row in rows {
            if (column[row] <= threshold) == lower {
                self.left.add(&self.both[2 * row * rivals..2 * (row + 1) * rivals]);
            }
        }
        Some(self.left.explained(all))
    }

    fn all_thresholds(&mut self, rows: &[usize], all: &Sums, axis: usize) -> Option<(f64, f64)> {
        let rivals = self.table.rivals();
        let column = self.column(axis);
        let mut order: Vec<(f64, usize)> = rows.iter().map(|&row| (column[row], row)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.left.clear(rivals);
        let mut best: Option<(f64, f64)> = None;
        for at in 0..order.len() - 1 {
            let (value, row) = order[at];
            self.left.add(&self.both[2 * row * rivals..2 * (row + 1) * rivals]);
            let next = order[at + 1].0;
            let enough = at + 1 >= self.growth.leaf && order.len() - at > self.growth.leaf;
            if enough && next > value {
                let gain = self.left.explained(all);
                if best.is_none_or(|best| gain > best.0) {
                    best = Some((gain, 0.5 * (value + next)));
                }
            }
        }
        best
    }
}

/// One tree with the best thresholds.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    grown: Grown,
    /// The typical error on the problems it was grown from.
    spread: Vec<f64>,
    axes: Axes,
}

impl Tree {
    /// A tree that has learned nothing.
    pub fn new() -> Tree {
        Tree::default()
    }
}

impl Model for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn fit(&mut self, table: &Table) {
        let growth = Growth { tried: table.width(), random: false, leaf: 3 };
        let mut rows: Vec<usize> = (0..table.len()).collect();
        self.grown = Grower::new(table, growth).grow(&mut rows, &mut RandomNumbers::new(0));
        self.axes = table.axes().clone();
        self.spread = table.typical_errors(|at, log2| words::widen(self.grown.leaf(at), log2));
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        words::widen(self.grown.leaf(at), log2);
        words::copy(&self.spread, spread);
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (axis, threshold, below) in self.grown.path(at) {
            let side = if below { "at most" } else { "above" };
            lines.push(format!(
                "{} is {:.2}, {side} {threshold:.2}",
                words::axis(&self.axes, axis),
                at[axis]
            ));
        }
        let mut log2 = vec![0.0; rivals.len()];
        words::widen(self.grown.leaf(at), &mut log2);
        lines.push(format!("there: {}", words::ranking(&log2, rivals)));
        lines
    }
}
