//! A graph of operations as placement sees it: times per device, bytes, and who uses what. No operands.

use super::PlaceError;
use trimtab_core::Bytes;

/// The most devices a graph can be placed on.
pub const MAX_DEVICES: usize = 64;
/// The longest time a cost may name: about 30 years, as in estimates. Keeps sums finite.
const LONGEST_NS: f64 = 1e18;

/// An input or an operation of a [`Graph`]: its position in order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A set of devices, a bit each.
pub(super) type Set = u64;

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// What an operation takes on each device, in nanoseconds; nothing for an input.
    pub(super) costs: Vec<Option<f64>>,
    /// Where an input lies; nothing for an operation.
    pub(super) resident: Set,
    pub(super) bytes: u64,
    pub(super) scratch: u64,
    pub(super) is_sink: bool,
    pub(super) operands: Vec<u32>,
    /// Operations that use it, in order, each once.
    pub(super) users: Vec<u32>,
}

impl Node {
    pub(super) fn is_input(&self) -> bool {
        self.costs.is_empty()
    }
}

/// Operations in the order they will run, what each takes on each device, and the values between them.
///
/// Device 0 is the host. A value is the result of an operation or an input; it is moved to a device at most once, however
/// many operations use it there.
///
/// ```
/// use trimtab_core::Bytes;
/// use trimtab_plan::place::{Graph, Limits, Moves, place};
///
/// let mut graph = Graph::new(2);
/// let x = graph.input(Bytes(4 << 20), &[true, false]);
/// let product = graph.node(&[x], &[Some(9e6), Some(1e6)], Bytes(4 << 20), Bytes(0));
/// let sum = graph.node(&[product], &[Some(4e5), Some(5e4)], Bytes(4), Bytes(0));
/// graph.sink(sum);
/// let placement = place(&graph, &Moves::new(&[None, None]), &Limits::default())?;
/// assert_eq!(placement.device[sum.at()], 1);
/// # Ok::<(), trimtab_plan::place::PlaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    pub(super) devices: usize,
    pub(super) nodes: Vec<Node>,
    /// The first thing that was wrong when it was built; told by `place`.
    pub(super) wrong: Option<PlaceError>,
}

impl Graph {
    /// A graph for that many devices; device 0 is the host.
    pub fn new(devices: usize) -> Graph {
        let wrong = !(1..=MAX_DEVICES).contains(&devices);
        let wrong = wrong.then_some(PlaceError::Devices { found: devices });
        Graph { devices, nodes: Vec::new(), wrong }
    }

    /// A value that exists already, with a valid copy on each device that says so.
    pub fn input(&mut self, bytes: Bytes, resident: &[bool]) -> NodeId {
        let id = self.next();
        let set = resident.iter().enumerate().take(MAX_DEVICES);
        let set = set.fold(0, |set, (device, &valid)| set | Set::from(valid) << device);
        if resident.len() != self.devices || set == 0 {
            self.fault(PlaceError::Resident { node: id.0, devices: self.devices });
        }
        self.push(Node { resident: set, bytes: bytes.0, ..EMPTY })
    }

    /// An operation on earlier values: what it takes on each device in nanoseconds (`None` where it cannot run), bytes of its
    /// result, and memory it needs beside its operands while it runs.
    pub fn node(
        &mut self,
        operands: &[NodeId],
        costs: &[Option<f64>],
        bytes: Bytes,
        scratch: Bytes,
    ) -> NodeId {
        let id = self.next();
        if costs.len() != self.devices || costs.iter().flatten().any(|ns| !(0.0..=f64::MAX).contains(ns)) {
            self.fault(PlaceError::Costs { node: id.0, devices: self.devices });
        }
        let costs = costs.iter().map(|cost| cost.map(|ns| ns.min(LONGEST_NS))).collect();
        let mut used: Vec<u32> = Vec::with_capacity(operands.len());
        for operand in operands {
            if used.contains(&operand.0) {
                continue;
            }
            match self.nodes.get_mut(operand.at()) {
                Some(node) => node.users.push(id.0),
                None => self.fault(PlaceError::Operand { node: id.0, operand: operand.0 }),
            }
            used.push(operand.0);
        }
        self.push(Node { costs, bytes: bytes.0, scratch: scratch.0, operands: used, ..EMPTY })
    }

    /// Says that a value is wanted on the host.
    pub fn sink(&mut self, value: NodeId) {
        match self.nodes.get_mut(value.at()) {
            Some(node) => node.is_sink = true,
            None => self.fault(PlaceError::Operand { node: value.0, operand: value.0 }),
        }
    }

    /// Devices it may be placed on.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Inputs and operations together.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nothing to place.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn next(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = self.next();
        self.nodes.push(node);
        id
    }

    fn fault(&mut self, wrong: PlaceError) {
        self.wrong.get_or_insert(wrong);
    }

    /// Positions of the operations.
    pub(super) fn operations(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&at| !self.nodes[at].is_input())
    }
}

const EMPTY: Node = Node {
    costs: Vec::new(),
    resident: 0,
    bytes: 0,
    scratch: 0,
    is_sink: false,
    operands: Vec::new(),
    users: Vec::new(),
};
