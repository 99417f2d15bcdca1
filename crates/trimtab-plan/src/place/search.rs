//! Small graphs to the end, large ones within memory as well as can be: what to do when cuts alone do not decide.

use super::cost::{Needs, copies};
use super::relax::{Best, Relaxation, SAME};
use super::{cost, cost::peaks};

/// Bounds computed at most. Twelve operations on two devices, or eight on three, never need more than half.
const MOST_BOUNDS: usize = 20_000;
/// Rounds of making memory dearer.
const ROUNDS: usize = 24;
/// How closely the least price that fits is found, in halvings.
const HALVINGS: usize = 8;
/// Looks at the memory of a whole placement times nodes while single operations are moved: large graphs get fewer.
const LOOK_NODES: usize = 4_000_000;
/// Such looks at least.
const FEWEST_LOOKS: usize = 16;

impl Relaxation<'_> {
    /// Fixes operations one after the other where the bound does not rule it out. Returns whether nothing was left out.
    pub(super) fn search(&self, best: &mut Option<Best>) -> bool {
        let order: Vec<usize> = self.graph.operations().collect();
        let mut device = self.graph.starts();
        let mut left = MOST_BOUNDS;
        self.descend(&order, 0, &mut device, best, &mut left);
        left > 0
    }

    fn descend(
        &self,
        order: &[usize],
        depth: usize,
        device: &mut [usize],
        best: &mut Option<Best>,
        left: &mut usize,
    ) {
        let placed = order.get(depth).copied().unwrap_or(self.graph.len());
        if *left == 0 || !self.room.holds(&peaks(self.graph, self.moves, device, placed)) {
            return;
        }
        *left -= 1;
        let fixed = |at: usize| (at < placed).then(|| device[at]);
        let (bound, cuts) = self.bound(fixed);
        if best.as_ref().is_some_and(|best| bound >= best.ns - SAME * best.ns) {
            return;
        }
        let wanted = self.round(&cuts, fixed);
        self.offer(best, &wanted);
        // Nothing below is cheaper than the bound: if this is as cheap and fits, it is the best of them.
        let ns = cost(self.graph, self.moves, &wanted).unwrap_or(f64::INFINITY);
        let is_least = ns - bound <= SAME * ns && self.room.fits(self.graph, self.moves, &wanted);
        let Some(&at) = order.get(depth).filter(|_| !is_least) else { return };
        let first = wanted[at];
        let others = (0..self.graph.devices).filter(|&other| other != first);
        for other in std::iter::once(first).chain(others) {
            if self.graph.nodes[at].costs[other].is_some() {
                device[at] = other;
                self.descend(order, depth + 1, device, best, left);
            }
        }
    }

    /// Makes running where memory is short dearer until a placement fits, then only as dear as needed.
    pub(super) fn squeeze(&self, best: &mut Option<Best>) {
        // Everything on one device is what the memory of one device may allow.
        for only in 0..self.graph.devices {
            let mut device = self.graph.starts();
            self.graph.operations().for_each(|at| device[at] = only);
            self.offer(best, &device);
        }
        let costs = |at: usize| self.graph.nodes[at].costs.iter().flatten().sum::<f64>();
        let mut factor = self.graph.operations().map(costs).sum::<f64>() / 64.0;
        // By node and device.
        let mut dearer = vec![0.0; self.graph.len() * self.graph.devices];
        for _ in 0..ROUNDS {
            let device = self.dearer(&dearer, 1.0);
            let peaks = peaks(self.graph, self.moves, &device, self.graph.len());
            if self.room.holds(&peaks) {
                break;
            }
            for (at, &(bytes, step)) in peaks.iter().enumerate() {
                if self.room.is_short(at, bytes) {
                    self.charge(&mut dearer, &device, at, step, factor / bytes as f64);
                }
            }
            factor *= 1.5;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let share = f64::midpoint(low, high);
            let device = self.dearer(&dearer, share);
            let fits = self.room.fits(self.graph, self.moves, &device);
            self.offer(best, &device);
            if fits {
                high = share;
            } else {
                low = share;
            }
        }
        self.offer(best, &self.dearer(&dearer, 1.0));
        if let Some(best) = best {
            self.refine(best);
        }
    }

    /// The placement when operations cost that share of `dearer` more.
    fn dearer(&self, dearer: &[f64], share: f64) -> Vec<usize> {
        let mut graph = self.graph.clone();
        for (at, node) in graph.nodes.iter_mut().enumerate() {
            for (device, ns) in node.costs.iter_mut().enumerate() {
                *ns = ns.map(|ns| ns + share * dearer[at * self.graph.devices + device]);
            }
        }
        let relaxed = Relaxation::new(&graph, self.moves, self.room);
        let (_, cuts) = relaxed.bound(|_| None);
        let mut device = relaxed.round(&cuts, |_| None);
        if self.graph.devices > 2 {
            relaxed.improve(&mut device);
        }
        device
    }

    /// Charges whoever makes, uses or is what a device holds at a step, by bytes.
    fn charge(&self, dearer: &mut [f64], device: &[usize], at: usize, step: usize, ns_a_byte: f64) {
        let mut pay = |node: usize, bytes: u64| {
            if device[node] == at {
                dearer[node * self.graph.devices + at] += ns_a_byte * bytes as f64;
            }
        };
        if let Some(node) = self.graph.nodes.get(step) {
            pay(step, node.scratch);
        }
        copies(self.graph, self.moves, device, self.graph.len(), |held| {
            if held.device == at && (held.from..=held.to).contains(&step) {
                let node = &self.graph.nodes[held.value];
                pay(held.value, node.bytes);
                node.users.iter().for_each(|&user| pay(user as usize, node.bytes));
            }
        });
    }

    /// Moves single operations where that is cheaper and fits; one pass, because memory is looked at as a whole.
    fn refine(&self, best: &mut Best) {
        let mut needs = Needs::new(self.graph, &best.device);
        let mut looks = (LOOK_NODES / self.graph.len().max(1)).max(FEWEST_LOOKS);
        for at in self.graph.operations() {
            for other in 0..self.graph.devices {
                let (here, before) = (best.device[at], self.around(&best.device, &needs, at));
                self.relocate(&mut best.device, &mut needs, at, other);
                let cheaper = self.around(&best.device, &needs, at) < before - SAME * before;
                if cheaper {
                    looks = looks.saturating_sub(1);
                }
                if !cheaper || !self.room.fits(self.graph, self.moves, &best.device) {
                    self.relocate(&mut best.device, &mut needs, at, here);
                }
            }
            if looks == 0 {
                break;
            }
        }
        best.ns = cost(self.graph, self.moves, &best.device).unwrap_or(best.ns);
    }
}
