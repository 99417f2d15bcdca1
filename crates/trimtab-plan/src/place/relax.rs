//! A proven lower bound, and the placements found on the way to it.
//!
//! Every device but the host has its own smallest cut (`cut.rs`). Together they are exact but for one thing: an operation runs in one place. With two
//! devices nothing is left to agree on, and the cut is the answer. With more, an operation that several devices want is made dearer
//! on all of them until they agree or the bound stops rising: any such price gives a bound, and good ones a tight one.

use super::cost::Needs;
use super::cut::{Cut, Side, cut};
use super::{Graph, MemoryLeft, Moves};

/// Rounds of prices, when there are more than two devices.
const ROUNDS: usize = 60;
/// Rounds times nodes: large graphs get fewer.
const ROUND_NODES: usize = 24_000;
/// Rounds without a better bound before smaller steps are made.
const STUCK: usize = 4;
/// Two costs nearer than this share of them are the same.
pub(super) const SAME: f64 = 1e-9;

/// A graph with the prices found so far.
pub(super) struct Relaxation<'a> {
    pub(super) graph: &'a Graph,
    pub(super) moves: &'a Moves,
    pub(super) room: &'a MemoryLeft,
    /// By node: the only device it can run on, if there is only one.
    only: Vec<Option<usize>>,
    /// By node: what running it anywhere but on the host costs more.
    price: Vec<f64>,
}

/// The cheapest placement so far.
pub(super) struct Best {
    pub(super) device: Vec<usize>,
    pub(super) ns: f64,
}

impl<'a> Relaxation<'a> {
    pub(super) fn new(graph: &'a Graph, moves: &'a Moves, room: &'a MemoryLeft) -> Relaxation<'a> {
        let mut only = vec![None; graph.nodes.len()];
        let mut price = vec![0.0; graph.nodes.len()];
        for at in graph.operations() {
            let costs = &graph.nodes[at].costs;
            let mut able = (0..graph.devices).filter(|&device| costs[device].is_some());
            only[at] = able.next().filter(|_| able.next().is_none());
            // What the second of the devices beside the host would gain: then the first wants it, and the second does not care.
            let host = costs[0].unwrap_or(0.0);
            let mut gains: Vec<f64> = costs[1..].iter().flatten().map(|ns| host - ns).collect();
            gains.sort_by(|a, b| b.total_cmp(a));
            if let Some(&second) = gains.get(1) {
                price[at] = if costs[0].is_some() { second.max(0.0) } else { second };
            }
        }
        Relaxation { graph, moves, room, only, price }
    }

    /// A lower bound on every placement that agrees with `fixed`, and the cuts it comes from, device 1 first.
    pub(super) fn bound(&self, fixed: impl Fn(usize) -> Option<usize>) -> (f64, Vec<Cut>) {
        let graph = self.graph;
        let place = |at: usize| fixed(at).or(self.only[at]);
        let mut sum = 0.0;
        for at in graph.operations() {
            let costs = &graph.nodes[at].costs;
            sum += match place(at) {
                Some(device) => costs[device].unwrap_or(f64::INFINITY),
                None => costs[0].unwrap_or(0.0) - self.price[at],
            };
        }
        let mut sides = vec![Side::Elsewhere; graph.nodes.len()];
        let mut cuts = Vec::with_capacity(graph.devices - 1);
        for device in 1..graph.devices {
            for at in graph.operations() {
                let costs = &graph.nodes[at].costs;
                sides[at] = match (place(at), costs[device]) {
                    (Some(only), _) if only == device => Side::Here,
                    (None, Some(ns)) => Side::Free(ns - costs[0].unwrap_or(0.0) + self.price[at]),
                    _ => Side::Elsewhere,
                };
            }
            let cut = cut(graph, self.moves, device, &sides);
            sum += cut.ns;
            cuts.push(cut);
        }
        (sum, cuts)
    }

    /// The placement nearest to what the devices want.
    pub(super) fn round(&self, cuts: &[Cut], fixed: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
        let graph = self.graph;
        let mut device = graph.starts();
        for at in graph.operations() {
            let costs = &graph.nodes[at].costs;
            let least = |wanted: &dyn Fn(usize) -> bool| {
                let able = (1..graph.devices).filter(|&device| wanted(device));
                let able = able.filter_map(|device| Some((device, costs[device]?)));
                able.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(device, _)| device)
            };
            let wanted = || least(&|device| cuts[device - 1].here[at]);
            let host = || costs[0].map(|_| 0);
            let chosen = fixed(at).or(self.only[at]).or_else(wanted).or_else(host);
            device[at] = chosen.or_else(|| least(&|_| true)).unwrap_or(0);
        }
        device
    }

    /// Finds prices; returns the bound they prove and offers the placements met on the way.
    pub(super) fn tighten(&mut self, best: &mut Option<Best>) -> f64 {
        let rounds =
            if self.graph.devices > 2 { ROUNDS.min(ROUND_NODES / self.graph.len().max(1)).max(3) } else { 1 };
        let (mut proven, mut kept) = (f64::NEG_INFINITY, self.price.clone());
        let (mut step, mut stuck) = (1.0, 0);
        // What steps are measured by: the best placement, within memory or not.
        let mut cheapest = f64::INFINITY;
        for _ in 0..rounds {
            let (bound, cuts) = self.bound(|_| None);
            if bound > proven {
                (proven, stuck) = (bound, 0);
                kept.clone_from(&self.price);
            } else {
                stuck += 1;
                if stuck % STUCK == 0 {
                    step *= 0.5;
                }
            }
            let mut device = self.round(&cuts, |_| None);
            if self.graph.devices > 2 {
                self.improve(&mut device);
            }
            cheapest = cheapest.min(super::cost(self.graph, self.moves, &device).unwrap_or(f64::INFINITY));
            self.offer(best, &device);
            if cheapest - proven <= SAME * cheapest {
                break;
            }
            let wishes = |at: usize| cuts.iter().filter(|cut| cut.here[at]).count() as f64 - 1.0;
            let open = |at: &usize| self.only[*at].is_none();
            let moved = |at: usize| {
                let wishes = wishes(at);
                let stays = wishes < 0.0 && self.price[at] <= 0.0 && self.graph.nodes[at].costs[0].is_some();
                if stays { 0.0 } else { wishes }
            };
            let slopes: Vec<(usize, f64)> =
                self.graph.operations().filter(open).map(|at| (at, moved(at))).collect();
            let steep: f64 = slopes.iter().map(|(_, slope)| slope * slope).sum();
            if steep == 0.0 {
                break;
            }
            let length = step * (cheapest - bound) / steep;
            for (at, slope) in slopes {
                let price = self.price[at] + length * slope;
                let may_pay = self.graph.nodes[at].costs[0].is_none();
                self.price[at] = if may_pay { price } else { price.max(0.0) };
            }
        }
        self.price = kept;
        proven
    }

    /// Takes a placement if it is cheaper than the best so far and fits.
    pub(super) fn offer(&self, best: &mut Option<Best>, device: &[usize]) -> bool {
        let Some(ns) = super::cost(self.graph, self.moves, device) else { return false };
        let cheaper = best.as_ref().is_none_or(|best| ns < best.ns - SAME * 1e-3 * best.ns);
        let taken = cheaper && self.room.fits(self.graph, self.moves, device);
        if taken {
            *best = Some(Best { device: device.to_vec(), ns });
        }
        taken
    }

    /// Moves single operations for as long as that makes it cheaper.
    pub(super) fn improve(&self, device: &mut [usize]) {
        let graph = self.graph;
        let mut needs = Needs::new(graph, device);
        for _ in 0..graph.devices + 2 {
            let mut changed = false;
            for at in graph.operations().filter(|&at| self.only[at].is_none()) {
                let here = device[at];
                let before = self.around(device, &needs, at);
                let (mut least, mut to) = (before - SAME * before.abs(), here);
                for other in (0..graph.devices).filter(|&other| other != here) {
                    self.relocate(device, &mut needs, at, other);
                    let after = self.around(device, &needs, at);
                    if after < least {
                        (least, to) = (after, other);
                    }
                }
                self.relocate(device, &mut needs, at, to);
                changed |= to != here;
            }
            if !changed {
                return;
            }
        }
    }

    /// Lets one operation run elsewhere.
    pub(super) fn relocate(&self, device: &mut [usize], needs: &mut Needs, at: usize, to: usize) {
        needs.moved(self.graph, at, device[at], to);
        device[at] = to;
    }

    /// The part of the cost that depends on where one operation runs.
    pub(super) fn around(&self, device: &[usize], needs: &Needs, at: usize) -> f64 {
        let node = &self.graph.nodes[at];
        let moving = |value: usize| needs.moving(self.graph, self.moves, device, value);
        let own = node.costs[device[at]].unwrap_or(f64::INFINITY) + moving(at);
        node.operands.iter().fold(own, |sum, &value| sum + moving(value as usize))
    }

    /// Lets the host and each device in turn divide what lies on either of them anew, exactly.
    pub(super) fn divide(&self, best: &mut Best) {
        let graph = self.graph;
        for other in 1..graph.devices {
            let placed = best.device.clone();
            let sides: Vec<Side> = (0..graph.len())
                .map(|at| match (placed[at], graph.nodes[at].costs.as_slice()) {
                    (_, []) => Side::Elsewhere,
                    (now, _) if now != 0 && now != other => Side::Elsewhere,
                    (_, costs) => match (costs[0], costs[other]) {
                        (Some(host), Some(there)) => Side::Free(there - host),
                        (None, Some(_)) => Side::Here,
                        _ => Side::Elsewhere,
                    },
                })
                .collect();
            let cut = cut(graph, self.moves, other, &sides);
            let mut device = placed;
            for at in graph.operations() {
                if device[at] == 0 || device[at] == other {
                    device[at] = if cut.here[at] { other } else { 0 };
                }
            }
            let mut found = None;
            if self.offer(&mut found, &device)
                && let Some(found) = found.filter(|found| found.ns < best.ns - SAME * best.ns)
            {
                *best = found;
            }
        }
    }
}
