//! Placing a whole graph of operations on devices by what it costs altogether, moves included: never operation by operation.
//!
//! Pure arithmetic: no clock, no operands, the same placement for the same numbers. With two devices the answer is exact (a smallest cut);
//! with more, or where memory is short, it comes with a proven lower bound. Device 0 is the host. Times are added up: operations run one
//! after the other in the order of the graph, and devices are not expected to work at the same time.

mod cost;
mod cut;
mod flow;
mod graph;
mod moves;
mod relax;
mod search;

pub use cost::{Move, cost};
pub use graph::{Graph, MAX_DEVICES, NodeId};
pub use moves::Moves;

use cost::{moved, peaks};
use relax::{Best, Relaxation, SAME};
use trimtab_core::Bytes;

/// A new placement must be better by this share than the one in force, unless the caller says otherwise.
pub const DEFAULT_PLACE_MARGIN: f64 = 0.05;

/// Operations up to which everything is searched where cuts do not decide.
const SEARCHED: usize = 16;

/// What a placement must keep, and what was in force before.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Bytes each device has free beside the inputs that lie there; without limit where nothing is said.
    pub memory: &'a [Option<Bytes>],
    /// The placement of the same graph in force. It stays unless another is better by the margins.
    pub previous: Option<&'a [usize]>,
    /// The share by which a placement must be cheaper to take operations to a device.
    pub enter: f64,
    /// The share by which a placement must be cheaper to take operations away from a device.
    pub leave: f64,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { memory: &[], previous: None, enter: DEFAULT_PLACE_MARGIN, leave: DEFAULT_PLACE_MARGIN }
    }
}

/// Where every operation of a graph runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// By node: the device it runs on; for an input the first it lies on.
    pub device: Vec<usize>,
    /// What it takes in nanoseconds, moves included.
    pub cost_ns: f64,
    /// No placement within the limits takes less.
    pub bound_ns: f64,
    /// Whether it is a cheapest one.
    pub proved: bool,
    /// Whether the previous placement stays though a cheaper one was found, because it is not cheaper by the margins.
    pub kept: bool,
    /// What is moved, in the order in which it happens.
    pub moves: Vec<Move>,
    /// By device: the most bytes it holds at once beside the inputs that lie there.
    pub peak: Vec<Bytes>,
}

impl Placement {
    /// How many times a cheapest placement may be cheaper at most: one where that is proved.
    pub fn gap(&self) -> f64 {
        if self.proved || self.bound_ns <= 0.0 && self.cost_ns <= 0.0 {
            1.0
        } else {
            self.cost_ns / self.bound_ns
        }
    }
}

/// Why a graph cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum PlaceError {
    /// No devices, or too many.
    #[error("a graph is placed on 1 to {MAX_DEVICES} devices, not on {found}")]
    Devices { found: usize },
    /// Costs that are not times.
    #[error(
        "operation {node} needs one cost for each of {devices} devices: nanoseconds from zero, or none where it cannot run"
    )]
    Costs { node: u32, devices: usize },
    /// An input that lies nowhere.
    #[error(
        "input {node} needs to be said of each of {devices} devices whether it lies there, and to lie on one"
    )]
    Resident { node: u32, devices: usize },
    /// A value that the graph does not have.
    #[error("operation {node} uses value {operand}, which was not added to the graph before it")]
    Operand { node: u32, operand: u32 },
    /// An operation that no device can run.
    #[error(
        "operation {node} can run on none of the devices; keep the processor among them, whose reference never declines"
    )]
    Nowhere { node: u32 },
    /// An operation that needs more memory than any device that can run it has; named is the one where least is missing.
    #[error(
        "operation {node} needs {needed} at once on device {device}, which has {room} free, and fits on no other; \
         free memory, raise the limit, or split the operation"
    )]
    NoRoom { node: u32, device: usize, needed: Bytes, room: Bytes },
    /// Operations that fit one by one, but not together.
    #[error(
        "no placement was found that keeps within the memory of all devices{}; raise a limit, or evaluate the graph in parts",
        if *.proved { " (there is none)" } else { "" }
    )]
    NoRoomTogether { proved: bool },
}

/// Bytes free on each device.
struct MemoryLeft(Vec<Option<u64>>);

impl MemoryLeft {
    fn is_limited(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    fn is_short(&self, device: usize, bytes: u64) -> bool {
        self.0[device].is_some_and(|most| bytes > most)
    }

    fn holds(&self, peaks: &[(u64, usize)]) -> bool {
        !peaks.iter().enumerate().any(|(device, peak)| self.is_short(device, peak.0))
    }

    fn fits(&self, graph: &Graph, moves: &Moves, device: &[usize]) -> bool {
        !self.is_limited() || self.holds(&peaks(graph, moves, device, graph.len()))
    }
}

impl Graph {
    /// A placement with inputs where they lie, and nothing said of operations.
    fn starts(&self) -> Vec<usize> {
        let first =
            |node: &graph::Node| if node.is_input() { node.resident.trailing_zeros() as usize } else { 0 };
        self.nodes.iter().map(first).collect()
    }
}

/// Finds the placement that costs least altogether. Of two that cost the same, the one with more on the host where that is a matter of
/// two devices.
pub fn place(graph: &Graph, moves: &Moves, limits: &Limits<'_>) -> Result<Placement, PlaceError> {
    if let Some(wrong) = &graph.wrong {
        return Err(wrong.clone());
    }
    let room = MemoryLeft((0..graph.devices).map(|at| Some((*limits.memory.get(at)?)?.0)).collect());
    let able = able(graph, &room)?;
    let graph = able.as_ref().unwrap_or(graph);
    let mut best = None;
    let mut relaxed = Relaxation::new(graph, moves, &room);
    let mut bound = relaxed.tighten(&mut best);
    if let Some(best) = best.as_mut().filter(|_| graph.devices > 2) {
        relaxed.divide(best);
    }
    let is_least = |best: &Option<Best>| best.as_ref().is_some_and(|best| best.ns - bound <= SAME * best.ns);
    let mut proved = is_least(&best);
    if !proved && graph.operations().count() <= SEARCHED {
        proved = relaxed.search(&mut best);
    }
    if !proved && room.is_limited() {
        relaxed.squeeze(&mut best);
    }
    let Some(mut best) = best else { return Err(PlaceError::NoRoomTogether { proved }) };
    bound = if proved { best.ns } else { bound.min(best.ns) };
    let kept = stays(graph, moves, limits, &room, &best);
    if let Some(kept) = &kept {
        best = Best { device: kept.device.clone(), ns: kept.ns };
    }
    Ok(Placement {
        cost_ns: best.ns,
        bound_ns: bound,
        proved: proved && best.ns - bound <= SAME * best.ns,
        kept: kept.is_some(),
        moves: moved(graph, moves, &best.device),
        peak: peaks(graph, moves, &best.device, graph.len())
            .into_iter()
            .map(|(bytes, _)| Bytes(bytes))
            .collect(),
        device: best.device,
    })
}

/// The graph without the devices on which an operation alone does not fit; nothing if all fit everywhere.
fn able(graph: &Graph, room: &MemoryLeft) -> Result<Option<Graph>, PlaceError> {
    let mut smaller: Option<Graph> = None;
    for at in graph.operations() {
        let node = &graph.nodes[at];
        if node.costs.iter().all(Option::is_none) {
            return Err(PlaceError::Nowhere { node: at as u32 });
        }
        let needed = |device: usize| {
            let there = |value: &&u32| graph.nodes[**value as usize].resident >> device & 1 == 1;
            let operands = node.operands.iter().filter(|value| !there(value));
            let bytes = operands
                .fold(node.bytes, |sum, &value| sum.saturating_add(graph.nodes[value as usize].bytes));
            bytes.saturating_add(node.scratch)
        };
        let mut least_missing: Option<(u64, usize)> = None;
        let mut fits = false;
        for device in (0..graph.devices).filter(|&device| node.costs[device].is_some()) {
            if room.is_short(device, needed(device)) {
                let missing = (needed(device) - room.0[device].unwrap_or(0), device);
                least_missing = Some(least_missing.map_or(missing, |least| least.min(missing)));
                smaller.get_or_insert_with(|| graph.clone()).nodes[at].costs[device] = None;
            } else {
                fits = true;
            }
        }
        if let Some((_, device)) = least_missing.filter(|_| !fits) {
            let (needed, room) = (Bytes(needed(device)), Bytes(room.0[device].unwrap_or(0)));
            return Err(PlaceError::NoRoom { node: at as u32, device, needed, room });
        }
    }
    Ok(smaller)
}

/// The previous placement, if it is still possible and the new one is not better by the margins.
fn stays(graph: &Graph, moves: &Moves, limits: &Limits<'_>, room: &MemoryLeft, best: &Best) -> Option<Best> {
    let previous = limits.previous.filter(|previous| previous.len() == graph.len())?;
    let mut device = graph.starts();
    graph.operations().for_each(|at| device[at] = previous[at]);
    let ns = cost(graph, moves, &device)?;
    if device == best.device || !room.fits(graph, moves, &device) {
        return None;
    }
    let changed = || graph.operations().filter(|&at| device[at] != best.device[at]);
    let enters = changed().any(|at| best.device[at] != 0);
    let leaves = changed().any(|at| device[at] != 0);
    let margin = |asked: f64, matters: bool| if matters && asked > 0.0 { asked.min(1.0) } else { 0.0 };
    let margin = margin(limits.enter, enters).max(margin(limits.leave, leaves));
    (best.ns >= ns * (1.0 - margin)).then_some(Best { device, ns })
}
