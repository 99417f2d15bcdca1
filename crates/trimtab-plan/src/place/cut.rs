//! One device against all others, exactly: which operations belong there is a smallest cut.
//!
//! With `x = 1` for an operation on the device, a placement costs, beside the operations themselves, an upload of every value that is made
//! elsewhere and used here, and a download of every value that is made here and wanted elsewhere: each once, however many want it.
//! Summed over all devices but the host this is exactly what placements cost, because devices reach each other through the host.

use super::cost::fetch;
use super::flow::{DRAIN, ENDLESS, Network, SOURCE};
use super::{Graph, Moves};

/// Sums of capacities stay below this.
const MOST: f64 = (1u64 << 60) as f64;

/// What is known of an operation before the cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    /// Nothing: being here costs so much more than being on the host, or so much less.
    Free(f64),
    /// It is here.
    Here,
    /// It is elsewhere.
    Elsewhere,
}

/// The cheapest choice of what is on a device.
pub(super) struct Cut {
    /// Nanoseconds of moves to and from the device and of what being there costs more; never more than it truly is.
    pub(super) ns: f64,
    /// By node; inputs are never here.
    pub(super) here: Vec<bool>,
}

/// The cheapest choice of what runs on `device`; on ties as little as possible.
pub(super) fn cut(graph: &Graph, moves: &Moves, device: usize, sides: &[Side]) -> Cut {
    let mut build = Build { edges: Vec::with_capacity(graph.nodes.len() * 3), vertices: 2, sum: 0.0 };
    let mut vertex = vec![0u32; graph.nodes.len()];
    let mut certain = 0.0;
    for at in graph.operations() {
        vertex[at] = match sides[at] {
            Side::Here => DRAIN,
            Side::Elsewhere => SOURCE,
            Side::Free(more) => {
                let own = build.vertex();
                if more >= 0.0 {
                    build.edge(SOURCE, own, more, 0.0);
                } else {
                    certain += more;
                    build.edge(own, DRAIN, -more, 0.0);
                }
                own
            }
        };
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let (up, down) = (moves.up(device, node.bytes), moves.down(device, node.bytes, !node.is_input()));
        let (maker, up, down) = match node.resident {
            0 => (vertex[at], up, down),
            set if set >> device & 1 == 0 => (SOURCE, up, 0.0),
            set if set == 1 << device => (DRAIN, 0.0, fetch(graph, moves, set, at).1),
            // On the host too, or on several other devices: what the last would cost is left out, so this is not too much.
            _ => continue,
        };
        let users = node.users.iter().map(|&user| vertex[user as usize]);
        if node.is_sink {
            build.edge(SOURCE, maker, down, 0.0);
            build.star(maker, users, up, 0.0);
        } else {
            build.star(maker, users, up, down);
        }
    }
    let (network, scale, passed) = build.network();
    let mut network = network;
    let flow = network.flow() as f64 / scale;
    let reaching = network.reaching();
    let on = |at: usize| !graph.nodes[at].is_input() && reaching[vertex[at] as usize];
    Cut { ns: flow + passed + certain, here: (0..graph.nodes.len()).map(on).collect() }
}

/// Edges before they are made whole numbers.
struct Build {
    edges: Vec<(u32, u32, f64, f64)>,
    vertices: u32,
    sum: f64,
}

impl Build {
    fn vertex(&mut self) -> u32 {
        self.vertices += 1;
        self.vertices - 1
    }

    fn edge(&mut self, from: u32, to: u32, there: f64, back: f64) {
        if from == to || (there == 0.0 && back == 0.0) {
            return;
        }
        self.sum += [there, back].iter().filter(|ns| ns.is_finite()).sum::<f64>();
        self.edges.push((from, to, there, back));
    }

    /// `up` once if the maker is elsewhere and any user here; `down` once if the maker is here and any user elsewhere.
    fn star(
        &mut self,
        maker: u32,
        mut users: impl ExactSizeIterator<Item = u32> + Clone,
        up: f64,
        down: f64,
    ) {
        if users.len() == 1 {
            if let Some(user) = users.next() {
                self.edge(maker, user, up, down);
            }
            return;
        }
        if up > 0.0 && maker != DRAIN && users.len() > 0 {
            let moved = self.vertex();
            self.edge(maker, moved, up, 0.0);
            users.clone().for_each(|user| self.edge(moved, user, f64::INFINITY, 0.0));
        }
        if down > 0.0 && maker != SOURCE && users.len() > 0 {
            let moved = self.vertex();
            self.edge(moved, maker, down, 0.0);
            users.for_each(|user| self.edge(user, moved, f64::INFINITY, 0.0));
        }
    }

    /// The network in whole numbers, units a nanosecond, and nanoseconds that flow straight from source to drain.
    fn network(self) -> (Network, f64, f64) {
        // A power of two, so that scaling rounds nothing but what is below the unit.
        let mut scale = 1.0;
        while self.sum * scale > MOST {
            scale *= 0.5;
        }
        while self.sum * scale * 2.0 <= MOST && scale < MOST {
            scale *= 2.0;
        }
        let whole = |ns: f64| if ns.is_finite() { (ns * scale) as i64 } else { ENDLESS };
        let mut network = Network::new();
        (2..self.vertices).for_each(|_| {
            network.vertex();
        });
        let mut passed = 0.0;
        for (from, to, there, back) in self.edges {
            match (from, to) {
                (SOURCE, DRAIN) => passed += there,
                (DRAIN, SOURCE) => passed += back,
                _ => network.edge(from, to, whole(there), whole(back)),
            }
        }
        (network, scale, passed)
    }
}
