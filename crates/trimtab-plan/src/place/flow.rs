//! The smallest cut of a network, by blocking flows over shortest paths, in whole numbers.

/// A capacity that is never cut.
pub(super) const ENDLESS: i64 = i64::MAX / 4;

/// A directed network between vertex 0, the source, and vertex 1, the drain.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// By vertex: its first edge, plus one.
    first: Vec<u32>,
    edges: Vec<Edge>,
    /// By vertex: steps from the source, plus one; zero where it cannot be reached.
    level: Vec<u32>,
    /// By vertex: the edge to try next, plus one.
    current: Vec<u32>,
    queue: Vec<u32>,
}

/// Edges lie in pairs, there and back.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    /// The next edge of the same vertex, plus one.
    next: u32,
    left: i64,
}

pub(super) const SOURCE: u32 = 0;
pub(super) const DRAIN: u32 = 1;

impl Network {
    /// A network of source and drain.
    pub(super) fn new() -> Network {
        Network { first: vec![0; 2], ..Network::default() }
    }

    /// One more vertex.
    pub(super) fn vertex(&mut self) -> u32 {
        self.first.push(0);
        self.first.len() as u32 - 1
    }

    /// An edge that takes so much there and so much back.
    pub(super) fn edge(&mut self, from: u32, to: u32, there: i64, back: i64) {
        for (from, to, left) in [(from, to, there), (to, from, back)] {
            self.edges.push(Edge { to, next: self.first[from as usize], left });
            self.first[from as usize] = self.edges.len() as u32;
        }
    }

    /// Pushes all that can flow, and returns how much.
    pub(super) fn flow(&mut self) -> i64 {
        let mut total = 0i64;
        let mut path: Vec<u32> = Vec::new();
        while self.layers() {
            self.current.clear();
            self.current.extend_from_slice(&self.first);
            total = total.saturating_add(self.block(&mut path));
        }
        total
    }

    /// By vertex: whether it can still reach the drain. Of the smallest cuts, this is the one with fewest vertices there.
    pub(super) fn reaching(&mut self) -> Vec<bool> {
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
                path.truncate(keep);
                continue;
            }
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
