//! What a placement costs, what it moves, and how much memory it needs where. The one place that says what a placement means.

use super::graph::Set;
use super::{Graph, Moves, NodeId};

/// A value moved from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What is moved.
    pub value: NodeId,
    /// From where.
    pub from: usize,
    /// To where.
    pub to: usize,
    /// The operation before which it is moved; a value wanted on the host is moved right after it is made (for an input:
    /// before everything), and names itself.
    pub at: NodeId,
}

/// What a placement takes in nanoseconds: its operations and what they make it move. `None` where an operation cannot run
/// on its device, or devices are missing.
pub fn cost(graph: &Graph, moves: &Moves, device: &[usize]) -> Option<f64> {
    if graph.wrong.is_some() || device.len() != graph.nodes.len() {
        return None;
    }
    let mut sum = 0.0;
    for (at, node) in graph.nodes.iter().enumerate() {
        if !node.is_input() {
            sum += (*node.costs.get(device[at])?)?;
        }
    }
    Some(sum + (0..graph.nodes.len()).map(|at| moving(graph, moves, device, at)).sum::<f64>())
}

/// What moving one value to everywhere it is used takes.
pub(super) fn moving(graph: &Graph, moves: &Moves, device: &[usize], at: usize) -> f64 {
    let node = &graph.nodes[at];
    let needed =
        node.users.iter().fold(Set::from(node.is_sink), |set, &user| set | 1 << device[user as usize]);
    moving_to(graph, moves, home(graph, device, at), needed, at)
}

/// The same for a value that is needed on these devices.
pub(super) fn moving_to(graph: &Graph, moves: &Moves, home: Set, needed: Set, at: usize) -> f64 {
    let node = &graph.nodes[at];
    let missing = needed & !home;
    if missing == 0 {
        return 0.0;
    }
    let mut sum = if home & 1 == 1 { 0.0 } else { fetch(graph, moves, home, at).1 };
    let mut far = missing & !1;
    while far != 0 {
        sum += moves.up(far.trailing_zeros() as usize, node.bytes);
        far &= far - 1;
    }
    sum
}

/// By value and device: how many operations there use it. What one operation's place changes is then found without going through
/// everybody who uses the same values.
pub(super) struct Needs {
    devices: usize,
    counts: Vec<u32>,
}

impl Needs {
    pub(super) fn new(graph: &Graph, device: &[usize]) -> Needs {
        let mut needs = Needs { devices: graph.devices, counts: vec![0; graph.nodes.len() * graph.devices] };
        for at in graph.operations() {
            for &value in &graph.nodes[at].operands {
                needs.counts[value as usize * graph.devices + device[at]] += 1;
            }
        }
        needs
    }

    /// An operation runs elsewhere from now on.
    pub(super) fn moved(&mut self, graph: &Graph, at: usize, from: usize, to: usize) {
        for &value in &graph.nodes[at].operands {
            let first = value as usize * self.devices;
            self.counts[first + from] -= 1;
            self.counts[first + to] += 1;
        }
    }

    /// What moving one value to everywhere it is used takes, as [`moving`].
    pub(super) fn moving(&self, graph: &Graph, moves: &Moves, device: &[usize], at: usize) -> f64 {
        let used = &self.counts[at * self.devices..][..self.devices];
        let sink = Set::from(graph.nodes[at].is_sink);
        let needed = used.iter().enumerate().fold(sink, |set, (on, &count)| set | Set::from(count > 0) << on);
        moving_to(graph, moves, home(graph, device, at), needed, at)
    }
}

/// Where a value lies before it is moved.
pub(super) fn home(graph: &Graph, device: &[usize], at: usize) -> Set {
    let node = &graph.nodes[at];
    if node.is_input() { node.resident } else { 1 << device[at] }
}

/// The device from which the host gets a value soonest, and in how many nanoseconds.
pub(super) fn fetch(graph: &Graph, moves: &Moves, home: Set, at: usize) -> (usize, f64) {
    let node = &graph.nodes[at];
    let sources = (1..graph.devices).filter(|&device| home >> device & 1 == 1);
    let times = sources.map(|device| (device, moves.down(device, node.bytes, !node.is_input())));
    times.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

/// A copy of a value on a device, from one operation to another, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) value: usize,
    pub(super) device: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where it was moved from; a result was not.
    pub(super) source: Option<usize>,
}

/// The copies a placement of the first `placed` nodes makes, in the order of values. A copy is moved when it is first needed and dropped
/// when it is no longer: for an operation there, or as the source of a move. Inputs where they lie are not among them.
pub(super) fn copies(
    graph: &Graph,
    moves: &Moves,
    device: &[usize],
    placed: usize,
    mut tell: impl FnMut(Held),
) {
    let end = graph.nodes.len();
    let mut uses: Vec<Option<(usize, usize)>> = vec![None; graph.devices];
    for (value, node) in graph.nodes.iter().enumerate().take(placed) {
        uses.fill(None);
        for user in node.users.iter().map(|&user| user as usize).take_while(|&user| user < placed) {
            let (first, _) = uses[device[user]].unwrap_or((user, user));
            uses[device[user]] = Some((first, user));
        }
        let home = home(graph, device, value);
        let elsewhere = |device: &usize| home >> device & 1 == 0;
        let made = if node.is_input() { 0 } else { value };
        let firsts = (0..graph.devices).filter(elsewhere).filter_map(|at| Some(uses[at]?.0));
        let fetched = if node.is_sink { Some(made) } else { firsts.min() };
        // The host's copy: its own uses, and where others get theirs from.
        let on_host = |from: usize| {
            let sent = (1..graph.devices).filter(elsewhere).filter_map(|at| Some(uses[at]?.0)).max();
            let used = uses[0].map(|(_, last)| last);
            let last = if node.is_sink { Some(end) } else { used.max(sent) };
            last.map_or(from, |last| last.max(from))
        };
        if home & 1 == 0
            && let Some(from) = fetched
        {
            let source = Some(fetch(graph, moves, home, value).0);
            tell(Held { value, device: 0, from, to: on_host(from), source });
        }
        for (at, used) in uses.iter().enumerate().skip(1) {
            if let Some((from, to)) = used.filter(|_| elsewhere(&at)) {
                tell(Held { value, device: at, from, to, source: Some(0) });
            }
        }
        if !node.is_input() {
            let at = device[value];
            let used = uses[at].map_or(value, |(_, last)| last);
            let to = if at == 0 { on_host(value) } else { used.max(fetched.unwrap_or(value)) };
            tell(Held { value, device: at, from: value, to, source: None });
        }
    }
}

/// The most bytes each device holds at once while the first `placed` nodes run in order, scratch memory included and inputs where
/// they lie left out; and at which operation that is.
pub(super) fn peaks(graph: &Graph, moves: &Moves, device: &[usize], placed: usize) -> Vec<(u64, usize)> {
    let steps = graph.nodes.len() + 2;
    let mut change = vec![0i128; graph.devices * steps];
    copies(graph, moves, device, placed, |held| {
        let bytes = i128::from(graph.nodes[held.value].bytes);
        change[held.device * steps + held.from] += bytes;
        change[held.device * steps + held.to + 1] -= bytes;
    });
    let mut most = vec![(0u64, 0usize); graph.devices];
    for (at, most) in most.iter_mut().enumerate() {
        let mut now = 0i128;
        for step in 0..=graph.nodes.len() {
            now += change[at * steps + step];
            let node = graph.nodes.get(step).filter(|node| step < placed && !node.is_input());
            let scratch = node.filter(|_| device[step] == at).map_or(0, |node| node.scratch);
            let bytes = u64::try_from(now + i128::from(scratch)).unwrap_or(u64::MAX);
            if bytes > most.0 {
                *most = (bytes, step);
            }
        }
    }
    most
}

/// The moves of a placement, in the order in which they happen.
pub(super) fn moved(graph: &Graph, moves: &Moves, device: &[usize]) -> Vec<Move> {
    let mut moved = Vec::new();
    copies(graph, moves, device, graph.nodes.len(), |held| {
        if let Some(from) = held.source {
            let (value, at) = (NodeId(held.value as u32), NodeId(held.from as u32));
            let at = if graph.nodes[held.value].is_sink && held.device == 0 { value } else { at };
            moved.push((held.from, Move { value, from, to: held.device, at }));
        }
    });
    // The host's copy of a value comes before those made of it, in the order they were told.
    moved.sort_by_key(|(step, _)| *step);
    moved.into_iter().map(|(_, moved)| moved).collect()
}
