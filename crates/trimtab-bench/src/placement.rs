//! Whole expressions placed on simulated machines: how often the placement is a cheapest one, how much dearer rules that decide
//! operation by operation are, and how long placing takes.

use crate::Printer;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use trimtab::advanced::core::{Bytes, Device, RandomNumbers};
use trimtab::advanced::plan::place::{Graph, Limits, Moves, NodeId, cost, place};
use trimtab::advanced::tune::Stopwatch;
use trimtab_testing::machine::{Drawn, Machine, draw};

/// Expressions a machine, of one to [`MOST`] operations, each tried on every placement.
const EXPRESSIONS: u64 = 600;
const MOST: usize = 12;
/// The large graphs, and how often each is placed.
const LARGE: usize = 1_000;
const GRAPHS: u64 = 5;
const TIMES: usize = 7;
/// Two costs nearer than this share are the same.
const SAME: f64 = 1e-9;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut all = Rules::default();
    let mut line = Map::new();
    let mut slowest = 0.0f64;
    for machine in Machine::all() {
        let mut rules = Rules::default();
        for seed in 0..EXPRESSIONS {
            let drawn = draw(seed, 1 + seed as usize % MOST)?;
            rules.note(&drawn, &machine)?;
        }
        let mut ms = 0.0f64;
        for seed in 0..GRAPHS {
            let graph = graph_of(&draw(seed, LARGE)?, &machine);
            ms = ms.max(time(&graph, &moves_of(&machine), &Limits::default())?);
        }
        slowest = slowest.max(ms);
        for (name, value) in rules.figures() {
            line.insert(format!("{}_{name}", machine.name), value);
        }
        line.insert(format!("{}_ms_for_1000_ops", machine.name), json!(ms));
        all.add(&rules);
    }
    for seed in 0..GRAPHS {
        slowest = slowest.max(time(&tangled(seed), &moves_of(&Machine::discrete()), &Limits::default())?);
    }
    let mut others = three_devices()?;
    others.extend(within_memory()?);
    let mut first: Map<String, Value> =
        all.figures().into_iter().map(|(name, value)| (name.into(), value)).collect();
    first.insert("ms_for_1000_ops".into(), json!(slowest));
    if printer.json {
        first.extend(line);
        first.extend(others);
        printer.line(&Value::Object(first));
        return Ok(());
    }
    let names =
        ["graphs", "optimal_share", "greedy_ratio", "greedy_worst", "residency_ratio", "residency_worst"];
    println!("{:<11} {}", "machine", names.map(|name| format!("{name:>15}")).join(" "));
    let row = |machine: &str, value: &dyn Fn(&str) -> f64| {
        let shown = |name: &str| match name {
            "graphs" => format!("{:>15.0}", value(name)),
            _ => format!("{:>15.3}", value(name)),
        };
        println!("{machine:<11} {}", names.map(shown).join(" "));
    };
    let number =
        |map: &Map<String, Value>, name: &str| map.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    for machine in Machine::all() {
        row(machine.name, &|name| number(&line, &format!("{}_{name}", machine.name)));
    }
    row("all", &|name| number(&first, name));
    println!(
        "\n1,000 operations on two devices are placed in {slowest:.2} ms (the slowest of {} graphs)",
        GRAPHS * 4
    );
    println!(
        "1,000 operations on three devices are placed in {:.1} ms, proven within {:.4} of the best",
        number(&others, "three_devices_ms_for_1000_ops"),
        number(&others, "three_devices_gap")
    );
    println!(
        "1,000 operations with 60 % of the memory they would like are placed in {:.1} ms, proven within {:.4} of the best",
        number(&others, "within_memory_ms_for_1000_ops"),
        number(&others, "within_memory_gap")
    );
    Ok(())
}

/// What rules that decide operation by operation come to, against the best of all placements.
#[derive(Default)]
struct Rules {
    graphs: u32,
    optimal: u32,
    greedy_log: f64,
    greedy_worst: f64,
    residency_log: f64,
    residency_worst: f64,
}

impl Rules {
    fn note(&mut self, drawn: &Drawn, machine: &Machine) -> Result<()> {
        let (graph, moves) = (graph_of(drawn, machine), moves_of(machine));
        let placed = place(&graph, &moves, &Limits::default())?.cost_ns;
        let best = best_of_all(drawn, &graph, &moves);
        let at = |device: Vec<usize>| {
            cost(&graph, &moves, &device).context("the rule runs every operation where it can")
        };
        let greedy = at(greedy(drawn, machine, &moves))? / best;
        let residency = at(residency(drawn, machine))? / best;
        self.graphs += 1;
        self.optimal += u32::from(placed <= best * (1.0 + SAME));
        self.greedy_log += greedy.ln();
        self.residency_log += residency.ln();
        self.greedy_worst = self.greedy_worst.max(greedy);
        self.residency_worst = self.residency_worst.max(residency);
        Ok(())
    }

    fn add(&mut self, other: &Rules) {
        self.graphs += other.graphs;
        self.optimal += other.optimal;
        self.greedy_log += other.greedy_log;
        self.residency_log += other.residency_log;
        self.greedy_worst = self.greedy_worst.max(other.greedy_worst);
        self.residency_worst = self.residency_worst.max(other.residency_worst);
    }

    fn figures(&self) -> Vec<(&'static str, Value)> {
        let count = f64::from(self.graphs.max(1));
        vec![
            ("graphs", json!(self.graphs)),
            ("optimal_share", json!(f64::from(self.optimal) / count)),
            ("greedy_ratio", json!((self.greedy_log / count).exp())),
            ("greedy_worst", json!(self.greedy_worst)),
            ("residency_ratio", json!((self.residency_log / count).exp())),
            ("residency_worst", json!(self.residency_worst)),
        ]
    }
}

fn moves_of(machine: &Machine) -> Moves {
    Moves::new(&[None, machine.gpu.transfers()])
}

fn graph_of(drawn: &Drawn, machine: &Machine) -> Graph {
    let mut graph = Graph::new(2);
    for step in &drawn.steps {
        let id = match &step.problem {
            None => graph.input(Bytes(step.bytes), &[step.on_host, step.on_gpu]),
            Some(problem) => {
                let operands: Vec<NodeId> = step.operands.iter().map(|&at| NodeId(at as u32)).collect();
                let times = [machine.host.time(problem), machine.gpu.time(problem)];
                graph.node(&operands, &times, Bytes(step.bytes), Bytes(0))
            }
        };
        if step.is_sink {
            graph.sink(id);
        }
    }
    graph
}

/// The cheapest placement, by trying all of them.
fn best_of_all(drawn: &Drawn, graph: &Graph, moves: &Moves) -> f64 {
    let operations: Vec<usize> =
        (0..drawn.steps.len()).filter(|&at| drawn.steps[at].problem.is_some()).collect();
    let mut device = vec![0; drawn.steps.len()];
    let mut best = f64::INFINITY;
    for code in 0u32..1 << operations.len() {
        operations.iter().enumerate().for_each(|(bit, &at)| device[at] = (code >> bit & 1) as usize);
        best = best.min(cost(graph, moves, &device).unwrap_or(f64::INFINITY));
    }
    best
}

/// One operation after the other where it is cheapest, moving what is not there included.
fn greedy(drawn: &Drawn, machine: &Machine, moves: &Moves) -> Vec<usize> {
    let mut lies: Vec<[bool; 2]> = drawn.steps.iter().map(|step| [step.on_host, step.on_gpu]).collect();
    let mut device = vec![0; drawn.steps.len()];
    for (at, step) in drawn.steps.iter().enumerate() {
        let Some(problem) = &step.problem else { continue };
        let known = &lies;
        let missing = |on: usize| step.operands.iter().filter(move |&&value| !known[value][on]);
        let bytes = |&value: &usize| drawn.steps[value].bytes;
        let host = machine.host.time(problem).map(|ns| {
            let made = |value: &usize| drawn.steps[*value].problem.is_some();
            ns + missing(0).map(|value| moves.down(1, bytes(value), made(value))).sum::<f64>()
        });
        let gpu = machine
            .gpu
            .time(problem)
            .map(|ns| ns + missing(1).map(|value| moves.up(1, bytes(value))).sum::<f64>());
        device[at] = usize::from(gpu.is_some_and(|gpu| host.is_none_or(|host| gpu < host)));
        step.operands.iter().for_each(|&value| lies[value][device[at]] = true);
        lies[at][device[at]] = true;
    }
    device
}

/// Stay where most of the operands' bytes are, as rules of residency do.
fn residency(drawn: &Drawn, machine: &Machine) -> Vec<usize> {
    let mut device = vec![0; drawn.steps.len()];
    for (at, step) in drawn.steps.iter().enumerate() {
        let Some(problem) = &step.problem else { continue };
        let lies = |value: usize, on: usize| match &drawn.steps[value] {
            input if input.problem.is_none() => [input.on_host, input.on_gpu][on],
            _ => device[value] == on,
        };
        let bytes = |on: usize| -> u64 {
            step.operands
                .iter()
                .filter(|&&value| lies(value, on))
                .map(|&value| drawn.steps[value].bytes)
                .sum()
        };
        device[at] = usize::from(bytes(1) > bytes(0) && machine.gpu.time(problem).is_some());
    }
    device
}

/// A graph with nothing regular about it: up to three operands from anywhere, times from all orders of magnitude.
fn tangled(seed: u64) -> Graph {
    let mut random = RandomNumbers::new(seed);
    let mut graph = Graph::new(2);
    graph.input(Bytes(1 << 20), &[true, false]);
    for _ in 0..LARGE {
        let operands: Vec<NodeId> =
            (0..1 + random.below(3)).map(|_| NodeId(random.below(graph.len()) as u32)).collect();
        let host = 1e3 * (1u64 << random.below(14)) as f64 * (1.0 + random.unit());
        let gpu = 15e3 + host * (0.1 + random.unit());
        let id =
            graph.node(&operands, &[Some(host), Some(gpu)], Bytes(1 << (6 + random.below(18))), Bytes(0));
        if random.below(10) == 0 {
            graph.sink(id);
        }
    }
    graph
}

/// Milliseconds to place a graph, the least of a few times.
fn time(graph: &Graph, moves: &Moves, limits: &Limits<'_>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..TIMES {
        let watch = Stopwatch::start();
        place(graph, moves, limits)?;
        least = least.min(watch.elapsed().as_secs_f64() * 1e3);
    }
    Ok(least)
}

/// The processor, a discrete and an integrated GPU together.
fn three_devices() -> Result<Map<String, Value>> {
    let (first, second) = (Machine::discrete(), Machine::integrated());
    let moves = Moves::new(&[None, first.gpu.transfers(), second.gpu.transfers()]);
    let mut graph = Graph::new(3);
    for step in draw(0, LARGE)?.steps {
        let id = match &step.problem {
            None => graph.input(Bytes(step.bytes), &[step.on_host, step.on_gpu, false]),
            Some(problem) => {
                let operands: Vec<NodeId> = step.operands.iter().map(|&at| NodeId(at as u32)).collect();
                let times = [first.host.time(problem), first.gpu.time(problem), second.gpu.time(problem)];
                graph.node(&operands, &times, Bytes(step.bytes), Bytes(0))
            }
        };
        if step.is_sink {
            graph.sink(id);
        }
    }
    let gap = place(&graph, &moves, &Limits::default())?.gap();
    let mut figures = Map::new();
    figures.insert("three_devices_gap".into(), json!(gap));
    figures.insert("three_devices_ms_for_1000_ops".into(), json!(time(&graph, &moves, &Limits::default())?));
    Ok(figures)
}

/// The discrete machine, its GPU with 60 % of the memory that the cheapest placement takes.
fn within_memory() -> Result<Map<String, Value>> {
    let machine = Machine::discrete();
    let (graph, moves) = (graph_of(&draw(0, LARGE)?, &machine), moves_of(&machine));
    let peak = place(&graph, &moves, &Limits::default())?.peak[1];
    let memory = [None, Some(Bytes(peak.0 * 3 / 5))];
    let limits = Limits { memory: &memory, ..Limits::default() };
    let gap = place(&graph, &moves, &limits)?.gap();
    let mut figures = Map::new();
    figures.insert("within_memory_gap".into(), json!(gap));
    figures.insert("within_memory_ms_for_1000_ops".into(), json!(time(&graph, &moves, &limits)?));
    Ok(figures)
}
