//! Placing whole graphs: never worse than trying everything, moved once, within memory, and steady.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod plain;

use plain::{Plain, PlainNode, moves};
use proptest::prelude::*;
use trimtab_core::{Bytes, Device, Nanos, Problem, RandomNumbers, Terms, Transfers};
use trimtab_plan::place::{Graph, Limits, NodeId, PlaceError, Placement, cost, place};
use trimtab_plan::{Planner, Settings, TermsId};
use trimtab_testing::machine::{Drawn, Machine, draw};

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A drawn expression on a machine.
fn plain_of(drawn: &Drawn, machine: &Machine) -> Plain {
    let node = |step: &trimtab_testing::machine::DrawnStep| {
        let costs = step.problem.map_or(vec![], |p| vec![machine.host.time(&p), machine.gpu.time(&p)]);
        let resident = if costs.is_empty() { vec![step.on_host, step.on_gpu] } else { vec![] };
        let (operands, bytes, is_sink) = (step.operands.clone(), step.bytes, step.is_sink);
        PlainNode { resident, costs, operands, bytes, scratch: 0, is_sink }
    };
    Plain { nodes: drawn.steps.iter().map(node).collect() }
}

fn transfers_of(machine: &Machine) -> Vec<Option<Transfers>> {
    machine.devices().iter().map(|device| device.transfers()).collect()
}

/// What a placement says of itself is what happens when it is run.
fn check(plain: &Plain, transfers: &[Option<Transfers>], placement: &Placement) {
    let story = plain.run(transfers, &placement.device).unwrap();
    assert!(same(story.ns, placement.cost_ns), "{} said, {} run", placement.cost_ns, story.ns);
    assert_eq!(placement.peak.iter().map(|peak| peak.0).collect::<Vec<_>>(), story.peak);
    let mut told: Vec<_> = placement.moves.iter().map(|m| (m.value.0, m.from, m.to, m.at.0)).collect();
    told.sort_unstable();
    assert_eq!(told, story.moves);
    // In the order told, every move finds its value where it comes from.
    let mut lies: Vec<Vec<bool>> = plain.nodes.iter().map(|node| node.resident.clone()).collect();
    for (lies, (node, &on)) in lies.iter_mut().zip(plain.nodes.iter().zip(&placement.device)) {
        lies.resize(transfers.len(), false);
        lies[on] |= !node.is_input();
    }
    for moved in &placement.moves {
        assert!(lies[moved.value.at()][moved.from] && !lies[moved.value.at()][moved.to]);
        lies[moved.value.at()][moved.to] = true;
    }
    assert!(placement.moves.is_sorted_by_key(|m| {
        if plain.nodes[m.value.at()].is_input() && m.at == m.value { NodeId(0) } else { m.at }
    }));
    assert!(placement.bound_ns <= placement.cost_ns);
    assert!(!placement.proved || same(placement.bound_ns, placement.cost_ns));
    assert!(placement.gap() >= 1.0);
}

/// Any graph: costs and bytes are small whole numbers, so that many placements cost the same.
fn graphs(devices: usize, operations: usize) -> impl Strategy<Value = Plain> {
    let cost = prop_oneof![5 => (0u32..60).prop_map(|ns| Some(f64::from(ns))), 1 => Just(None)];
    let costs = (prop::collection::vec(cost, devices), 0..devices, 0u32..60);
    let operation = (costs, prop::collection::vec(any::<u16>(), 1..4), 0u64..20, 0u64..10, 0u8..10);
    let input = (1u64..20, 1u32..1 << devices, 0u8..10);
    let parts = (prop::collection::vec(input, 1..4), prop::collection::vec(operation, 1..=operations));
    parts.prop_map(move |(inputs, operations)| {
        let mut plain = Plain::default();
        for (bytes, set, sink) in inputs {
            let resident = (0..devices).map(|at| set >> at & 1 == 1).collect();
            let (costs, operands, scratch, is_sink) = (vec![], vec![], 0, sink == 0);
            plain.nodes.push(PlainNode { resident, costs, operands, bytes, scratch, is_sink });
        }
        for ((mut costs, sure, ns), picks, bytes, scratch, sink) in operations {
            costs[sure] = Some(f64::from(ns));
            let mut operands: Vec<usize> =
                picks.iter().map(|&pick| usize::from(pick) % plain.nodes.len()).collect();
            operands.sort_unstable();
            operands.dedup();
            let (resident, is_sink) = (vec![], sink < 3);
            plain.nodes.push(PlainNode { resident, costs, operands, bytes, scratch, is_sink });
        }
        plain
    })
}

fn any_transfers(devices: usize) -> impl Strategy<Value = Vec<Option<Transfers>>> {
    let one =
        (0u64..15, 0u64..15, 1u32..5, 1u32..5, 0u64..10).prop_map(|(up, down, up_ns, down_ns, submit)| {
            Transfers {
                upload_latency: Nanos(up),
                upload_bytes_per_s: 1e9 / f64::from(up_ns),
                download_latency: Nanos(down),
                download_bytes_per_s: 1e9 / f64::from(down_ns),
                submit: Nanos(submit),
            }
        });
    let one = prop_oneof![8 => one.prop_map(Some), 1 => Just(None)];
    prop::collection::vec(one, devices - 1).prop_map(|mut all| {
        all.insert(0, None);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_two_devices_no_placement_is_cheaper(plain in graphs(2, 9), transfers in any_transfers(2)) {
        let placement = place(&plain.graph(2), &moves(&transfers), &Limits::default()).unwrap();
        check(&plain, &transfers, &placement);
        prop_assert!(placement.proved);
        let best = plain.brute_force(&transfers, &[None, None]).unwrap();
        prop_assert!(same(best, placement.cost_ns), "best {best}, placed {}", placement.cost_ns);
    }

    #[test]
    fn on_three_devices_small_graphs_are_solved_too(plain in graphs(3, 6), transfers in any_transfers(3)) {
        let placement = place(&plain.graph(3), &moves(&transfers), &Limits::default()).unwrap();
        check(&plain, &transfers, &placement);
        let best = plain.brute_force(&transfers, &[None; 3]).unwrap();
        prop_assert!(placement.proved);
        prop_assert!(same(best, placement.cost_ns), "best {best}, placed {}", placement.cost_ns);
    }

    #[test]
    fn within_memory_no_placement_is_cheaper(
        plain in graphs(2, 7),
        transfers in any_transfers(2),
        host in prop::option::of(10u64..100),
        device in 5u64..60,
    ) {
        let memory = [host.map(Bytes), Some(Bytes(device))];
        let limits = Limits { memory: &memory, ..Limits::default() };
        let best = plain.brute_force(&transfers, &memory);
        match place(&plain.graph(2), &moves(&transfers), &limits) {
            Ok(placement) => {
                check(&plain, &transfers, &placement);
                prop_assert!(placement.proved);
                let best = best.unwrap();
                prop_assert!(same(best, placement.cost_ns), "best {best}, placed {}", placement.cost_ns);
                let fits = placement.peak.iter().zip(memory).all(|(peak, most)| most.is_none_or(|most| *peak <= most));
                prop_assert!(fits);
            }
            Err(PlaceError::NoRoom { .. } | PlaceError::NoRoomTogether { proved: true }) => {
                prop_assert_eq!(best, None);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn expressions_on_simulated_machines_are_placed_as_if_everything_had_been_tried() {
    for machine in Machine::all() {
        let transfers = transfers_of(&machine);
        let mut off_host = 0;
        for seed in 0..220 {
            let plain = plain_of(&draw(seed, 2 + seed as usize % 11).unwrap(), &machine);
            let placement = place(&plain.graph(2), &moves(&transfers), &Limits::default()).unwrap();
            check(&plain, &transfers, &placement);
            let best = plain.brute_force(&transfers, &[None, None]).unwrap();
            assert!(placement.proved && same(best, placement.cost_ns), "{} {seed}", machine.name);
            off_host +=
                placement.device.iter().zip(&plain.nodes).filter(|(on, n)| **on > 0 && !n.is_input()).count();
        }
        assert_eq!(off_host == 0, machine.name == "slow", "{}: {off_host}", machine.name);
    }
}

#[test]
fn a_graph_of_one_operation_costs_what_a_single_call_does() {
    for machine in Machine::all() {
        let transfers = transfers_of(&machine);
        for text in ["elementwise.add:f32:4096", "matmul:f32:512x512x512", "reduce.sum:f32:1000000"] {
            let problem: Problem = text.parse().unwrap();
            let mut graph = Graph::new(2);
            let lens = problem.input_lens();
            let inputs: Vec<NodeId> = lens
                .as_slice()
                .iter()
                .filter(|&&len| len > 0)
                .map(|len| graph.input(Bytes(len * 4), &[true, false]))
                .collect();
            let times = [machine.host.time(&problem), machine.gpu.time(&problem)];
            let out = graph.node(&inputs, &times, Bytes(problem.out_len() * 4), Bytes(0));
            graph.sink(out);
            let mut device = vec![0; graph.len()];
            device[out.at()] = 1;
            let single = times[1].unwrap() + machine.gpu.transfer_overhead(&problem).0 as f64;
            let ns = cost(&graph, &moves(&transfers), &device).unwrap();
            assert!((ns - single).abs() <= 1.0, "{text}: {ns} {single}");
            let placement = place(&graph, &moves(&transfers), &Limits::default()).unwrap();
            assert!((placement.cost_ns - single.min(times[0].unwrap())).abs() <= 1.0, "{text}");
        }
    }
}

#[test]
fn a_planner_on_a_simulated_machine_takes_the_device_that_is_better_at_every_size() {
    for machine in Machine::all() {
        let wisdom = std::sync::Arc::new(trimtab_wisdom::Wisdom::in_memory());
        let planner = Planner::new(machine.devices(), wisdom, Settings::default(), Terms::default());
        let mut on_gpu = 0;
        for power in 0..12 {
            for text in [
                format!("matmul:f32:{0}x{0}x{0}", 1 << power),
                format!("elementwise.exp:f32:{}", 1u64 << (2 * power)),
                format!("reduce.sum:f32:{}", 1u64 << (2 * power)),
                format!("transpose:f32:{0}x{0}", 1 << power),
            ] {
                let problem: Problem = text.parse().unwrap();
                planner.plan(&problem, TermsId::default()).unwrap();
                let decision = planner.explain(&problem, TermsId::default()).unwrap();
                let device = usize::from(&*decision.winner().unwrap().device_id == "gpu0");
                let times = [&machine.host, &machine.gpu].map(|device| {
                    device.time(&problem).unwrap() + device.transfer_overhead(&problem).0 as f64
                });
                let better = times[0].min(times[1]);
                assert!(times[device] <= 1.05 * better, "{} {text}: {times:?} {device}", machine.name);
                on_gpu += device;
            }
        }
        assert_eq!(on_gpu == 0, machine.name == "slow", "{} {on_gpu}", machine.name);
    }
}

/// A link where every move takes ten nanoseconds.
fn ten() -> Vec<Option<Transfers>> {
    let bytes_per_s = 1e30;
    let (latency, submit) = (Nanos(10), Nanos(0));
    let one = Transfers {
        upload_latency: latency,
        upload_bytes_per_s: bytes_per_s,
        download_latency: latency,
        download_bytes_per_s: bytes_per_s,
        submit,
    };
    vec![None, Some(one)]
}

#[test]
fn a_value_is_moved_once_however_many_use_it_there() {
    // Each of four users gains 3 on the device, moving takes 10: worth it for all four together, for no one alone.
    let mut graph = Graph::new(2);
    let x = graph.input(Bytes(1), &[true, false]);
    for _ in 0..4 {
        graph.node(&[x, x], &[Some(5.0), Some(2.0)], Bytes(1), Bytes(0));
    }
    let placement = place(&graph, &moves(&ten()), &Limits::default()).unwrap();
    assert_eq!((placement.device, placement.cost_ns, placement.moves.len()), (vec![0, 1, 1, 1, 1], 18.0, 1));
}

#[test]
fn a_valid_copy_is_free_where_it_lies_and_only_there() {
    for (resident, sink, ns) in [
        ([false, true], false, 2.0),
        ([true, true], false, 2.0),
        ([true, false], false, 5.0),
        ([false, true], true, 12.0),
        ([true, true], true, 5.0),
    ] {
        let mut graph = Graph::new(2);
        let x = graph.input(Bytes(1), &resident);
        let y = graph.node(&[x], &[Some(5.0), Some(2.0)], Bytes(1), Bytes(0));
        if sink {
            graph.sink(y);
        }
        let placement = place(&graph, &moves(&ten()), &Limits::default()).unwrap();
        assert_eq!(placement.cost_ns, ns, "{resident:?} {sink}");
    }
}

#[test]
fn equal_costs_stay_on_the_host() {
    let mut graph = Graph::new(2);
    let mut last = graph.input(Bytes(8), &[true, true]);
    for _ in 0..20 {
        last = graph.node(&[last], &[Some(7.0), Some(7.0)], Bytes(8), Bytes(0));
    }
    let placement = place(&graph, &moves(&[None, None]), &Limits::default()).unwrap();
    assert_eq!(placement.device, vec![0; 21]);
}

#[test]
fn what_cannot_be_placed_says_why_and_what_to_do() {
    let limits = Limits::default();
    let told =
        |graph: &Graph, limits: &Limits<'_>| place(graph, &moves(&ten()), limits).unwrap_err().to_string();
    let mut graph = Graph::new(2);
    let x = graph.input(Bytes(1 << 20), &[true, false]);
    graph.node(&[x], &[None, None], Bytes(1), Bytes(0));
    assert!(told(&graph, &limits).contains("can run on none of the devices; keep the processor"));

    let mut graph = Graph::new(2);
    let x = graph.input(Bytes(1 << 20), &[true, false]);
    graph.node(&[x], &[None, Some(1.0)], Bytes(1 << 20), Bytes(1 << 20));
    let memory = [None, Some(Bytes(2 << 20))];
    let message = told(&graph, &Limits { memory: &memory, ..limits });
    assert!(message.contains("needs 3.00 MiB at once on device 1, which has 2.00 MiB free"), "{message}");

    // One by one they fit; but the first result must wait on the device for the last.
    let mut graph = Graph::new(2);
    let x = graph.input(Bytes(1), &[true, true]);
    let results: Vec<NodeId> =
        (0..3).map(|_| graph.node(&[x], &[None, Some(1.0)], Bytes(1 << 20), Bytes(0))).collect();
    let _ = graph.node(&results[..1], &[None, Some(1.0)], Bytes(0), Bytes(0));
    let _ = graph.node(&results[1..], &[None, Some(1.0)], Bytes(0), Bytes(0));
    let message = told(&graph, &Limits { memory: &memory, ..limits });
    assert!(message.contains("(there is none)") && message.contains("raise a limit"), "{message}");

    let mut graph = Graph::new(2);
    graph.input(Bytes(1), &[false, false]);
    assert!(told(&graph, &limits).contains("input 0"));
    let mut graph = Graph::new(2);
    graph.node(&[NodeId(7)], &[Some(1.0), None], Bytes(1), Bytes(0));
    assert!(told(&graph, &limits).contains("uses value 7"));
    for costs in
        [&[Some(f64::NAN), None][..], &[Some(-1.0), None], &[Some(1.0)], &[Some(f64::INFINITY), None]]
    {
        let mut graph = Graph::new(2);
        graph.node(&[], costs, Bytes(1), Bytes(0));
        assert!(told(&graph, &limits).contains("operation 0 needs one cost"), "{costs:?}");
    }
    assert!(told(&Graph::new(0), &limits).contains("not on 0"));
    assert!(told(&Graph::new(65), &limits).contains("not on 65"));
}

#[test]
fn nothing_or_one_device_or_endless_times_are_no_trouble() {
    let placement = place(&Graph::new(2), &moves(&ten()), &Limits::default()).unwrap();
    assert_eq!((placement.cost_ns, placement.proved, placement.gap()), (0.0, true, 1.0));
    let mut graph = Graph::new(1);
    let x = graph.node(&[], &[Some(3.0)], Bytes(1), Bytes(0));
    graph.sink(x);
    assert_eq!(place(&graph, &moves(&[None]), &Limits::default()).unwrap().cost_ns, 3.0);
    let mut graph = Graph::new(2);
    let mut last = graph.input(Bytes(u64::MAX), &[true, false]);
    for _ in 0..5 {
        last = graph.node(&[last], &[Some(1e300), Some(1.0)], Bytes(u64::MAX), Bytes(u64::MAX));
    }
    let placement = place(&graph, &moves(&ten()), &Limits::default()).unwrap();
    assert_eq!(placement.device, [0, 1, 1, 1, 1, 1]);
    assert!(placement.proved && placement.peak[1] == Bytes(u64::MAX));
}

/// A chain that gains a little or loses a little on the device, as costs are measured with noise.
fn noisy(random: &mut RandomNumbers, noise: f64) -> Graph {
    let mut graph = Graph::new(2);
    let mut last = graph.input(Bytes(1), &[true, false]);
    for at in 0..6 {
        let host = 100.0 * (1.0 + noise * (2.0 * random.unit() - 1.0));
        let device = if at == 0 { 90.0 } else { 98.0 } * (1.0 + noise * (2.0 * random.unit() - 1.0));
        last = graph.node(&[last], &[Some(host), Some(device)], Bytes(1), Bytes(0));
    }
    graph.sink(last);
    graph
}

#[test]
fn noise_within_the_margin_does_not_make_placements_flap() {
    let switches = |margin: f64| {
        let mut random = RandomNumbers::new(3);
        let mut device: Option<Vec<usize>> = None;
        let mut switches = 0;
        for _ in 0..1_000 {
            let graph = noisy(&mut random, 0.02);
            let limits =
                Limits { previous: device.as_deref(), enter: margin, leave: margin, ..Limits::default() };
            let placement = place(&graph, &moves(&ten()), &limits).unwrap();
            switches += u32::from(device.as_ref().is_some_and(|before| *before != placement.device));
            // What staying costs is never more than the margin.
            assert!(placement.bound_ns >= placement.cost_ns * (1.0 - margin) * (1.0 - 1e-9));
            device = Some(placement.device);
        }
        switches
    };
    // Every switch lowers the true cost by 1 - 0.95 * 1.02 / 0.98 at least, and the first placement was within 1.02 / 0.98
    // of the best: no more than three switches ever.
    assert!(switches(0.05) <= 3, "{}", switches(0.05));
    assert!(switches(0.0) > 100, "without margins it does flap: {}", switches(0.0));
}

#[test]
fn entering_and_leaving_have_margins_of_their_own() {
    let one = |host: f64, device: f64| {
        let mut graph = Graph::new(2);
        graph.node(&[], &[Some(host), Some(device)], Bytes(1), Bytes(0));
        graph
    };
    let placed = |graph: &Graph, previous: usize, enter: f64, leave: f64| {
        let limits = Limits { previous: Some(&[previous]), enter, leave, ..Limits::default() };
        let placement = place(graph, &moves(&ten()), &limits).unwrap();
        (placement.device[0], placement.kept, placement.proved)
    };
    // The device is better by 10 %.
    assert_eq!(placed(&one(100.0, 90.0), 0, 0.2, 0.0), (0, true, false));
    assert_eq!(placed(&one(100.0, 90.0), 0, 0.05, 0.2), (1, false, true));
    // The host is better by 10 %.
    assert_eq!(placed(&one(90.0, 100.0), 1, 0.0, 0.2), (1, true, false));
    assert_eq!(placed(&one(90.0, 100.0), 1, 0.2, 0.05), (0, false, true));
    // A previous placement that is not possible any more, or is none, does not stay.
    let mut gone = Graph::new(2);
    gone.node(&[], &[Some(100.0), None], Bytes(1), Bytes(0));
    assert_eq!(placed(&gone, 1, 0.9, 0.9), (0, false, true));
    assert_eq!(placed(&gone, 9, 0.9, 0.9), (0, false, true));
}

#[test]
fn a_thousand_operations_are_placed_exactly_and_the_same_every_time() {
    for machine in Machine::all() {
        let transfers = transfers_of(&machine);
        let plain = plain_of(&draw(1, 1_000).unwrap(), &machine);
        let graph = plain.graph(2);
        let placement = place(&graph, &moves(&transfers), &Limits::default()).unwrap();
        check(&plain, &transfers, &placement);
        assert!(placement.proved);
        assert_eq!(placement, place(&graph, &moves(&transfers), &Limits::default()).unwrap());
    }
}

/// A graph with nothing regular about it: up to three operands from anywhere, times that differ by device.
fn tangled(seed: u64, devices: usize, operations: usize) -> Plain {
    let mut random = RandomNumbers::new(seed);
    let mut plain = Plain::default();
    for at in 0..operations {
        let node = PlainNode {
            resident: vec![],
            costs: (0..devices).map(|_| Some((10.0 + random.below(90) as f64) * 1e3)).collect(),
            operands: {
                let picks = (0..1 + random.below(3)).map(|_| random.below(at.max(1)));
                let mut picks: Vec<usize> = picks.filter(|_| at > 0).collect();
                picks.sort_unstable();
                picks.dedup();
                picks
            },
            bytes: 1 << (8 + random.below(12)),
            scratch: 1 << (8 + random.below(12)),
            is_sink: random.below(10) == 0,
        };
        plain.nodes.push(node);
    }
    plain
}

#[test]
fn large_graphs_keep_within_memory_and_tell_how_far_from_the_best_they_may_be() {
    let transfers = transfers_of(&Machine::discrete());
    for (seed, operations) in [(0, 30), (1, 100), (2, 300)] {
        let plain = tangled(seed, 2, operations);
        let graph = plain.graph(2);
        let free = place(&graph, &moves(&transfers), &Limits::default()).unwrap();
        for tenths in [8, 6, 3] {
            let memory = [None, Some(Bytes(free.peak[1].0 * tenths / 10))];
            let limits = Limits { memory: &memory, ..Limits::default() };
            let placement = place(&graph, &moves(&transfers), &limits).unwrap();
            check(&plain, &transfers, &placement);
            assert!(placement.peak[1] <= memory[1].unwrap() && placement.cost_ns > free.cost_ns);
            let gap = placement.gap();
            println!("{operations} operations within {tenths} tenths of the memory: gap {gap:.4}");
            assert!(gap < 1.1, "{operations} {tenths}: {gap}");
        }
    }
}

#[test]
fn three_devices_and_many_operations_come_with_a_small_proven_gap() {
    let [discrete, integrated, _] = Machine::all();
    let transfers = [None, discrete.gpu.transfers(), integrated.gpu.transfers()];
    for (seed, operations) in [(1, 40), (2, 100), (0, 100), (4, 400)] {
        let plain = tangled(seed, 3, operations);
        let placement = place(&plain.graph(3), &moves(&transfers), &Limits::default()).unwrap();
        check(&plain, &transfers, &placement);
        let used = (0..3).filter(|device| placement.device.contains(device)).count();
        println!("{operations} operations on {used} of three devices: gap {:.4}", placement.gap());
        assert!(used == 3 && placement.gap() < 1.01, "{operations}: {used} {}", placement.gap());
    }
}
