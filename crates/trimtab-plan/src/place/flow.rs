//! The smallest cut of a network, by blocking flows over shortest paths, in whole numbers.

/// A capacity that is never cut.
pub(super) const ENDLESS: i64 = i64::MAX / 4;

/// Looks at edges that every network gets, whatever its size: about 60 ms.
const LOOKS: u64 = 20_000_000;
/// Looks beyond that for each edge. Paths are filled shortest first; a network that needs longer ones than this allows is cut where
/// least is left to flow, so that large ones take time in proportion to their size.
const LOOKS_AN_EDGE: u64 = 64;

/// A directed network between vertex 0, the source, and vertex 1, the drain.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// By vertex: its first edge, plus one.
    first: Vec<u32>,
    edges: Vec<Edge>,
    /// By vertex: what it gets from the source and what it gives the drain at most.
    ends: Vec<Ends>,
    /// Vertices that were left with one edge, in the order they were taken out.
    folded: Vec<Folded>,
    /// By vertex: steps from the source, plus one; zero where it cannot be reached.
    level: Vec<u32>,
    /// By vertex: the edge to try next, plus one.
    current: Vec<u32>,
    queue: Vec<u32>,
    /// Edges looked at so far, and how many may be.
    looks: u64,
    most_looks: u64,
    /// Where it was cut because that took too long: the last level on the source's side.
    cut_at: Option<u32>,
}

/// Edges lie in pairs, there and back.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    /// The next edge of the same vertex, plus one.
    next: u32,
    left: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    source: i64,
    drain: i64,
}

impl Ends {
    /// Lets flow through what can go straight from source to drain, and returns how much.
    fn pass(&mut self) -> i64 {
        let passed = self.source.min(self.drain);
        self.source -= passed;
        self.drain -= passed;
        passed
    }
}

/// A vertex with one edge: what flows between it and the rest is at most what that edge takes.
#[derive(Clone, Copy, Debug)]
struct Folded {
    vertex: u32,
    /// The other end of its edge; the source where it had none.
    into: u32,
    ends: Ends,
    there: i64,
    back: i64,
}

pub(super) const SOURCE: u32 = 0;
pub(super) const DRAIN: u32 = 1;

impl Network {
    /// A network of source and drain.
    pub(super) fn new() -> Network {
        Network { first: vec![0; 2], ends: vec![Ends::default(); 2], ..Network::default() }
    }

    /// One more vertex.
    pub(super) fn vertex(&mut self) -> u32 {
        self.first.push(0);
        self.ends.push(Ends::default());
        self.first.len() as u32 - 1
    }

    /// An edge that takes so much there and so much back. What would flow into the source or out of the drain does not matter.
    pub(super) fn edge(&mut self, from: u32, to: u32, there: i64, back: i64) {
        let more = |end: &mut i64, by: i64| *end = end.saturating_add(by).min(ENDLESS);
        match (from, to) {
            (SOURCE, to) => more(&mut self.ends[to as usize].source, there),
            (from, SOURCE) => more(&mut self.ends[from as usize].source, back),
            (DRAIN, to) => more(&mut self.ends[to as usize].drain, back),
            (from, DRAIN) => more(&mut self.ends[from as usize].drain, there),
            _ => self.pair(from, to, there, back),
        }
    }

    fn pair(&mut self, from: u32, to: u32, there: i64, back: i64) {
        for (from, to, left) in [(from, to, there), (to, from, back)] {
            self.edges.push(Edge { to, next: self.first[from as usize], left });
            self.first[from as usize] = self.edges.len() as u32;
        }
    }

    /// Pushes all that can flow, and returns how much; less if finding it all would take too long.
    pub(super) fn flow(&mut self) -> i64 {
        let most = (self.edges.len() as u64).saturating_mul(LOOKS_AN_EDGE).saturating_add(LOOKS);
        self.flow_within(most)
    }

    fn flow_within(&mut self, most_looks: u64) -> i64 {
        let mut total = self.fold();
        self.most_looks = most_looks;
        let mut path: Vec<u32> = Vec::new();
        while self.layers() {
            if self.looks > self.most_looks {
                self.cut_at = Some(self.thinnest());
                break;
            }
            self.current.clear();
            self.current.extend_from_slice(&self.first);
            total = total.saturating_add(self.block(&mut path));
        }
        total
    }

    /// Takes out vertices with one edge, one after the other, and returns what flows straight through vertices. Chains and trees are
    /// gone after this; without it a chain takes as many rounds as it is long.
    fn fold(&mut self) -> i64 {
        let count = self.first.len();
        let mut degree = vec![0u32; count];
        self.edges.iter().for_each(|edge| degree[edge.to as usize] += 1);
        let mut leaves: Vec<u32> = (2..count as u32).filter(|&vertex| degree[vertex as usize] <= 1).collect();
        let mut gone = vec![false; count];
        let mut total = 0i64;
        while let Some(vertex) = leaves.pop() {
            gone[vertex as usize] = true;
            total = total.saturating_add(self.ends[vertex as usize].pass());
            let ends = self.ends[vertex as usize];
            let mut folded = Folded { vertex, into: SOURCE, ends, there: 0, back: 0 };
            let mut next = self.first[vertex as usize];
            while next > 0 {
                let at = next as usize - 1;
                let Edge { to, next: after, left } = self.edges[at];
                self.looks += 1;
                if !gone[to as usize] {
                    folded = Folded { into: to, there: left, back: self.edges[at ^ 1].left, ..folded };
                    (self.edges[at].left, self.edges[at ^ 1].left) = (0, 0);
                    break;
                }
                next = after;
            }
            self.folded.push(folded);
            let into = folded.into as usize;
            if folded.into != SOURCE {
                self.edge(SOURCE, folded.into, ends.source.min(folded.there), 0);
                self.edge(folded.into, DRAIN, ends.drain.min(folded.back), 0);
                degree[into] -= 1;
                if degree[into] == 1 {
                    leaves.push(folded.into);
                }
            }
        }
        for vertex in (2..count as u32).filter(|&vertex| !gone[vertex as usize]) {
            total = total.saturating_add(self.ends[vertex as usize].pass());
            let Ends { source, drain } = self.ends[vertex as usize];
            if source > 0 {
                self.pair(SOURCE, vertex, source, 0);
            } else if drain > 0 {
                self.pair(vertex, DRAIN, drain, 0);
            }
        }
        total
    }

    /// By vertex: whether it is on the drain's side. Of the smallest cuts, this is the one with fewest vertices there: those that can
    /// still reach the drain.
    pub(super) fn reaching(&mut self) -> Vec<bool> {
        let mut reaches = match self.cut_at {
            Some(last) => self.level.iter().map(|&level| level == 0 || level > last).collect(),
            None => self.still_reaching(),
        };
        for folded in self.folded.iter().rev() {
            let Folded { vertex, into, ends, there, back } = *folded;
            let with = into != SOURCE && reaches[into as usize];
            // With the other end, unless what is cut then is not more than what is cut without.
            reaches[vertex as usize] = match ends.drain > 0 {
                true => with || ends.drain > back,
                false => with && there > ends.source,
            };
        }
        reaches
    }

    fn still_reaching(&mut self) -> Vec<bool> {
        let mut reaches = vec![false; self.first.len()];
        reaches[DRAIN as usize] = true;
        self.queue.clear();
        self.queue.push(DRAIN);
        while let Some(vertex) = self.queue.pop() {
            let mut next = self.first[vertex as usize];
            while next > 0 {
                let at = next as usize - 1;
                let Edge { to, next: after, .. } = self.edges[at];
                if !reaches[to as usize] && self.edges[at ^ 1].left > 0 {
                    reaches[to as usize] = true;
                    self.queue.push(to);
                }
                next = after;
            }
        }
        reaches
    }

    /// The level behind which least is left to flow; of equal ones the last.
    fn thinnest(&self) -> u32 {
        let last = self.level[DRAIN as usize].max(2);
        let mut left = vec![0i64; last as usize];
        for (vertex, &level) in self.level.iter().enumerate().filter(|(_, level)| (1..last).contains(*level))
        {
            let mut next = self.first[vertex];
            while next > 0 {
                let Edge { to, next: after, left: flows } = self.edges[next as usize - 1];
                let its = self.level[to as usize];
                if its == 0 || its > level {
                    left[level as usize] = left[level as usize].saturating_add(flows);
                }
                next = after;
            }
        }
        (1..last).min_by_key(|&level| (left[level as usize], last - level)).unwrap_or(1)
    }

    /// Counts steps from the source; false when the drain cannot be reached any more.
    fn layers(&mut self) -> bool {
        self.level.clear();
        self.level.resize(self.first.len(), 0);
        self.level[SOURCE as usize] = 1;
        self.queue.clear();
        self.queue.push(SOURCE);
        let mut done = 0;
        while let Some(&vertex) = self.queue.get(done) {
            done += 1;
            let mut next = self.first[vertex as usize];
            while next > 0 {
                let Edge { to, next: after, left } = self.edges[next as usize - 1];
                self.looks += 1;
                if left > 0 && self.level[to as usize] == 0 {
                    self.level[to as usize] = self.level[vertex as usize] + 1;
                    if to == DRAIN {
                        return true;
                    }
                    self.queue.push(to);
                }
                next = after;
            }
        }
        false
    }

    /// Fills shortest paths until there is none left.
    fn block(&mut self, path: &mut Vec<u32>) -> i64 {
        let mut total = 0i64;
        path.clear();
        let mut vertex = SOURCE;
        loop {
            if vertex == DRAIN {
                let least = path.iter().map(|&at| self.edges[at as usize].left).min().unwrap_or(0);
                let mut keep = path.len();
                for (step, &at) in path.iter().enumerate().rev() {
                    self.edges[at as usize].left -= least;
                    self.edges[at as usize ^ 1].left =
                        (self.edges[at as usize ^ 1].left + least).min(ENDLESS);
                    if self.edges[at as usize].left == 0 {
                        keep = step;
                    }
                }
                total = total.saturating_add(least);
                // On from the first edge that is full.
                vertex = path.get(keep).map_or(SOURCE, |&at| self.edges[at as usize ^ 1].to);
                self.looks += path.len() as u64;
                path.truncate(keep);
                if self.looks > self.most_looks {
                    return total;
                }
                continue;
            }
            self.looks += 1;
            let next = self.current[vertex as usize];
            if next == 0 {
                // A dead end: never entered again on this count of steps.
                let Some(back) = path.pop() else { return total };
                self.level[vertex as usize] = 0;
                vertex = self.edges[back as usize ^ 1].to;
                continue;
            }
            let at = next - 1;
            let edge = self.edges[at as usize];
            if edge.left > 0 && self.level[edge.to as usize] == self.level[vertex as usize] + 1 {
                path.push(at);
                vertex = edge.to;
            } else {
                self.current[vertex as usize] = edge.next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::RandomNumbers;

    #[test]
    fn the_flow_is_the_smallest_cut_and_ties_stay_with_the_source() {
        let mut network = Network::new();
        let [a, b, c] = [(); 3].map(|()| network.vertex());
        network.edge(SOURCE, a, 10, 0);
        network.edge(SOURCE, b, 5, 0);
        network.edge(a, b, 4, 4);
        network.edge(a, c, 3, 0);
        network.edge(b, DRAIN, 9, 0);
        network.edge(c, DRAIN, 3, 0);
        assert_eq!(network.flow(), 12);
        // c could lie on either side for the same 12: it stays with the source.
        assert_eq!(network.reaching(), [false, true, false, false, false]);
    }

    /// Edges as they were asked for: from, to, there, back.
    type Asked = Vec<(u32, u32, i64, i64)>;

    fn network(vertices: u32, asked: &Asked) -> Network {
        let mut network = Network::new();
        for _ in 0..vertices {
            network.vertex();
        }
        asked.iter().for_each(|&(from, to, there, back)| network.edge(from, to, there, back));
        network
    }

    /// What is cut when these vertices are on the drain's side.
    fn cut(asked: &Asked, on_drain: &dyn Fn(u32) -> bool) -> i64 {
        let flows = |from: u32, to: u32, most: i64| if !on_drain(from) && on_drain(to) { most } else { 0 };
        asked.iter().map(|&(a, b, there, back)| flows(a, b, there) + flows(b, a, back)).sum()
    }

    fn drawn(random: &mut RandomNumbers, vertices: u32, edges: usize) -> Asked {
        let mut asked = Asked::new();
        for vertex in 2..vertices + 2 {
            match random.below(3) {
                0 => asked.push((SOURCE, vertex, random.below(9) as i64, 0)),
                1 => asked.push((vertex, DRAIN, random.below(9) as i64, 0)),
                _ => (),
            }
        }
        for _ in 0..edges {
            let [a, b] = [(); 2].map(|()| random.below(vertices as usize) as u32 + 2);
            if a != b {
                asked.push((a, b, random.below(7) as i64, random.below(4) as i64));
            }
        }
        asked
    }

    #[test]
    fn any_network_is_cut_as_if_every_cut_had_been_tried() {
        let mut random = RandomNumbers::new(41);
        for round in 0..2_000 {
            let vertices = 1 + random.below(8) as u32;
            // Few edges leave chains and trees, many leave none.
            let edges = random.below(2 * vertices as usize + 2);
            let asked = drawn(&mut random, vertices, edges);
            let sets = || (0..1u32 << vertices).map(|set| set << 2 | 1 << DRAIN);
            let of = |set: u32| cut(&asked, &|vertex| set >> vertex & 1 == 1);
            let least = sets().map(of).min().unwrap();
            let fewest = sets().filter(|&set| of(set) == least).min_by_key(|set| set.count_ones()).unwrap();
            let mut network = network(vertices, &asked);
            assert_eq!(network.flow(), least, "round {round}: {asked:?}");
            let reaching = network.reaching();
            let found = (0..vertices + 2).filter(|&vertex| reaching[vertex as usize]);
            assert_eq!(found.fold(0, |set, vertex| set | 1 << vertex), fewest, "round {round}: {asked:?}");
        }
    }

    #[test]
    fn a_network_that_would_take_too_long_is_cut_where_little_is_left() {
        let mut random = RandomNumbers::new(42);
        let (mut short, mut off) = (0, 0.0f64);
        for _ in 0..300 {
            let asked = drawn(&mut random, 60, 120);
            let least = network(60, &asked).flow();
            let mut network = network(60, &asked);
            let flow = network.flow_within(600);
            let reaching = network.reaching();
            let is_cut = cut(&asked, &|vertex| reaching[vertex as usize]);
            assert!(flow <= least && least <= is_cut, "{flow} {least} {is_cut}");
            short += usize::from(network.cut_at.is_some());
            off = off.max(is_cut as f64 / least.max(1) as f64);
        }
        // Five looks an edge, where at least 64 are allowed: 2.3 at worst.
        assert!(short > 200 && off < 3.0, "{short} cut short, off by {off}");
    }

    /// A chain of which the first half wants to be with the drain and the second with the source, and every link takes more.
    fn at_odds(count: u32) -> Network {
        let mut network = Network::new();
        let vertices: Vec<u32> = (0..count).map(|_| network.vertex()).collect();
        for (at, &vertex) in vertices.iter().enumerate() {
            match at < vertices.len() / 2 {
                true => network.edge(vertex, DRAIN, 1, 0),
                false => network.edge(SOURCE, vertex, 1, 0),
            }
        }
        vertices.windows(2).for_each(|two| network.edge(two[0], two[1], 1_000_000, 1_000_000));
        network
    }

    #[test]
    fn a_chain_of_any_length_takes_a_few_looks_at_each_edge() {
        for count in [10_000, 80_000] {
            let mut network = at_odds(count);
            assert_eq!(network.flow(), i64::from(count) / 2);
            assert!(network.looks <= 4 * u64::from(count), "{} looks at {count}", network.looks);
            // A tie stays with the source.
            assert_eq!(network.reaching().iter().filter(|&&reaches| reaches).count(), 1);
        }
    }

    #[test]
    fn what_cannot_be_folded_takes_no_more_looks_than_its_size_allows() {
        for count in [10_000u32, 40_000] {
            let mut network = at_odds(count);
            // One vertex beside the chain that everybody is linked with: nothing has one edge.
            let hub = network.vertex();
            (2..hub).step_by(100).for_each(|vertex| network.edge(vertex, hub, 3, 3));
            let most = LOOKS_AN_EDGE * network.edges.len() as u64;
            let flow = network.flow_within(most);
            assert!(flow <= i64::from(count) / 2);
            assert!(network.looks <= 2 * most, "{} looks of {most}", network.looks);
            assert_eq!(network.reaching().len(), count as usize + 3);
        }
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let mut network = Network::new();
        let mut last = SOURCE;
        for _ in 0..200_000 {
            let vertex = network.vertex();
            network.edge(last, vertex, ENDLESS, 0);
            last = vertex;
        }
        network.edge(last, DRAIN, 7, 0);
        assert_eq!(network.flow(), 7);
    }
}
