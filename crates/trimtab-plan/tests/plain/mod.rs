//! Graphs written down plainly, and what a placement of one does, step by step: no formula of the library is used.

use trimtab_core::{Bytes, Transfers};
use trimtab_plan::place::{Graph, Moves, NodeId};

/// A graph written down.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    pub nodes: Vec<PlainNode>,
}

/// An input (which lies somewhere) or an operation (which has costs).
#[derive(Clone, Debug)]
pub struct PlainNode {
    pub resident: Vec<bool>,
    pub costs: Vec<Option<f64>>,
    pub operands: Vec<usize>,
    pub bytes: u64,
    pub scratch: u64,
    pub is_sink: bool,
}

impl PlainNode {
    pub fn is_input(&self) -> bool {
        self.costs.is_empty()
    }
}

/// What happened when a placement was run.
#[derive(Debug, PartialEq)]
pub struct Story {
    pub ns: f64,
    pub peak: Vec<u64>,
    /// (value, from, to, before which node), sorted.
    pub moves: Vec<(u32, usize, usize, u32)>,
}

impl Plain {
    /// As the library takes it.
    pub fn graph(&self, devices: usize) -> Graph {
        let mut graph = Graph::new(devices);
        for node in &self.nodes {
            let id = if node.is_input() {
                graph.input(Bytes(node.bytes), &node.resident)
            } else {
                let operands: Vec<NodeId> = node.operands.iter().map(|&at| NodeId(at as u32)).collect();
                graph.node(&operands, &node.costs, Bytes(node.bytes), Bytes(node.scratch))
            };
            if node.is_sink {
                graph.sink(id);
            }
        }
        graph
    }

    /// Runs a placement: moves what is missing when it is missing, drops what is not needed any more. `None` where an
    /// operation cannot run.
    pub fn run(&self, transfers: &[Option<Transfers>], device: &[usize]) -> Option<Story> {
        let devices = transfers.len();
        let mut story = Story { ns: 0.0, peak: vec![0; devices], moves: Vec::new() };
        let mut here: Vec<Vec<bool>> = self.nodes.iter().map(|node| node.resident.clone()).collect();
        here.iter_mut().for_each(|here| here.resize(devices, false));
        for (value, node) in self.nodes.iter().enumerate() {
            if node.is_input() && node.is_sink && !here[value][0] {
                self.fetch(transfers, value, value, &mut here, &mut story);
            }
        }
        for (step, node) in self.nodes.iter().enumerate() {
            if !node.is_input() {
                let on = device[step];
                story.ns += node.costs[on]?;
                for &value in &node.operands {
                    if here[value][on] {
                        continue;
                    }
                    if !here[value][0] {
                        self.fetch(transfers, value, step, &mut here, &mut story);
                    }
                    if on > 0 {
                        story.ns += transfers[on].map_or(0.0, |t| {
                            time(self.nodes[value].bytes, t.upload_latency.0, t.upload_bytes_per_s)
                        });
                        story.moves.push((value as u32, 0, on, step as u32));
                        here[value][on] = true;
                    }
                }
                here[step][on] = true;
                if node.is_sink && on > 0 {
                    self.fetch(transfers, step, step, &mut here, &mut story);
                }
            }
            for (at, peak) in story.peak.iter_mut().enumerate() {
                let held = (0..self.nodes.len()).filter(|&value| here[value][at] && !self.lies(value, at));
                let scratch = if !node.is_input() && device[step] == at { node.scratch } else { 0 };
                *peak = (*peak).max(held.map(|value| self.nodes[value].bytes).sum::<u64>() + scratch);
            }
            for value in 0..self.nodes.len() {
                for at in 0..devices {
                    if here[value][at] && !self.lies(value, at) && !self.needs(value, at, step, device, &here)
                    {
                        here[value][at] = false;
                    }
                }
            }
        }
        story.moves.sort_unstable();
        Some(story)
    }

    /// Whether a copy on a device is needed after a step: for an operation there, as a result, or to be moved from there.
    fn needs(&self, value: usize, at: usize, step: usize, device: &[usize], here: &[Vec<bool>]) -> bool {
        let later: Vec<usize> = (step + 1..self.nodes.len())
            .filter(|&user| self.nodes[user].operands.contains(&value))
            .map(|user| device[user])
            .collect();
        let wanted = later.contains(&at) || (at == 0 && self.nodes[value].is_sink);
        let missing = later.iter().any(|&user| !here[value][user]);
        wanted || (missing && (at == 0 || !here[value][0]))
    }

    fn lies(&self, value: usize, at: usize) -> bool {
        self.nodes[value].resident.get(at) == Some(&true)
    }

    fn fetch(
        &self,
        transfers: &[Option<Transfers>],
        value: usize,
        step: usize,
        here: &mut [Vec<bool>],
        story: &mut Story,
    ) {
        let node = &self.nodes[value];
        let down = |at: usize| {
            transfers[at].map_or(0.0, |t| {
                let waiting = if node.is_input() { 0.0 } else { t.submit.0 as f64 };
                waiting + time(node.bytes, t.download_latency.0, t.download_bytes_per_s)
            })
        };
        let sources = (1..transfers.len()).filter(|&at| here[value][at]);
        let from = sources.min_by(|&a, &b| down(a).total_cmp(&down(b))).unwrap();
        story.ns += down(from);
        story.moves.push((value as u32, from, 0, step as u32));
        here[value][0] = true;
    }

    /// The cheapest of all placements that fit, tried one by one.
    pub fn brute_force(&self, transfers: &[Option<Transfers>], memory: &[Option<Bytes>]) -> Option<f64> {
        let operations: Vec<usize> = (0..self.nodes.len()).filter(|&at| !self.nodes[at].is_input()).collect();
        let mut device = vec![0; self.nodes.len()];
        let mut best = None::<f64>;
        for mut code in 0..transfers.len().pow(operations.len() as u32) {
            for &at in &operations {
                device[at] = code % transfers.len();
                code /= transfers.len();
            }
            let Some(story) = self.run(transfers, &device) else { continue };
            let fits =
                story.peak.iter().zip(memory).all(|(&peak, most)| most.is_none_or(|most| peak <= most.0));
            if fits && best.is_none_or(|best| story.ns < best) {
                best = Some(story.ns);
            }
        }
        best
    }
}

fn time(bytes: u64, latency: u64, bytes_per_s: f64) -> f64 {
    if bytes == 0 { 0.0 } else { latency as f64 + bytes as f64 / bytes_per_s * 1e9 }
}

/// For `place`.
pub fn moves(transfers: &[Option<Transfers>]) -> Moves {
    Moves::new(transfers)
}
