//! Simulated machines behave like what they stand for.

use super::*;

fn problem(text: &str) -> Problem {
    text.parse().unwrap()
}

/// GPU time over processor time, operands resident.
fn ratio(machine: &Machine, text: &str) -> f64 {
    machine.gpu.time(&problem(text)).unwrap() / machine.host.time(&problem(text)).unwrap()
}

#[test]
fn a_discrete_gpu_is_eight_to_ten_times_faster_when_large_and_slower_when_small() {
    let machine = Machine::discrete();
    for (text, least, most) in [
        ("matmul:f32:2048x2048x2048", 0.07, 0.12),
        ("elementwise.add:f32:16777216", 0.10, 0.15),
        ("reduce.sum:f32:16777216", 0.10, 0.16),
        ("matmul:f32:32x32x32", 5.0, 100.0),
        ("elementwise.add:f32:1024", 20.0, 100.0),
    ] {
        let ratio = ratio(&machine, text);
        assert!((least..most).contains(&ratio), "{text}: {ratio}");
    }
}

#[test]
fn an_integrated_gpu_wins_by_arithmetic_only_and_a_slow_one_never() {
    let [_, integrated, slow] = Machine::all();
    assert!(ratio(&integrated, "matmul:f32:1024x1024x1024") < 0.5);
    assert!(ratio(&integrated, "elementwise.add:f32:16777216") > 1.0);
    for power in 2..25 {
        for op in ["elementwise.add", "elementwise.exp", "reduce.sum"] {
            assert!(ratio(&slow, &format!("{op}:f32:{}", 1u64 << power)) > 1.0, "{op} {power}");
        }
        let edge = 1 << (power / 2);
        assert!(ratio(&slow, &format!("matmul:f32:{edge}x{edge}x{edge}")) > 1.0, "{edge}");
        assert!(ratio(&slow, &format!("transpose:f32:{edge}x{edge}")) > 1.0, "{edge}");
    }
}

#[test]
fn more_takes_no_less_time_but_for_the_last_percent_of_filling_a_gpu() {
    for machine in Machine::all() {
        for device in [&machine.host, &machine.gpu] {
            let mut last = 0.0;
            for power in 0..26 {
                let time = device.time(&problem(&format!("reduce.sum:f32:{}", 1u64 << power))).unwrap();
                assert!(time >= last * 0.99, "{} 2^{power}: {time} after {last}", device.facts().name);
                last = time;
            }
        }
    }
}

#[test]
fn what_a_gpu_cannot_do_is_declined_with_a_reason_and_the_processor_takes_everything() {
    let machine = Machine::integrated();
    let wide = problem("elementwise.add:f64:1024");
    assert!(machine.gpu.time(&wide).is_none() && machine.host.time(&wide).is_some());
    assert_eq!(machine.gpu.declines(KernelId(0), &wide).unwrap().0, "the device has no 64-bit floats");
    assert!(machine.gpu.space(KernelId(0), &wide).points().is_empty());
    let custom = problem("custom.sort:9");
    assert!(machine.host.time(&custom).is_none() && machine.host.bench(&custom, Nanos::MAX).is_err());
}

#[test]
fn measuring_is_near_the_time_never_below_it_and_the_same_every_time() {
    let device = Machine::discrete().gpu;
    let problem = problem("matmul:f32:256x256x256");
    let kernel = KernelId(2);
    let mut benches =
        [device.bench(&problem, Nanos::MAX).unwrap(), device.bench(&problem, Nanos::MAX).unwrap()];
    for point in device.space(kernel, &problem).points() {
        let time = device.time_of(kernel, &problem, point).unwrap();
        for batch in 0..20 {
            let [first, second] = [0, 1].map(|at| benches[at].run(kernel, point, 10, Nanos::MAX).unwrap());
            assert_eq!(first, second);
            assert_eq!(first.compiled_in.is_some(), batch == 0);
            assert!((0.999..1.08).contains(&(first.ns() / time)), "{} {time}", first.ns());
        }
    }
    assert_eq!(
        benches[0].run(kernel, &Point::new(&[8]), 1, Nanos(10)).unwrap_err().kind,
        FailureKind::TimedOut
    );
}

#[test]
fn drawn_expressions_have_the_asked_operations_shared_values_and_something_to_read() {
    let (mut shared, mut sinks, mut resident) = (0, 0, 0);
    for seed in 0..200 {
        let drawn = draw(seed, 12).unwrap();
        assert_eq!(drawn.steps.iter().filter(|step| step.problem.is_some()).count(), 12);
        let mut uses = vec![0; drawn.steps.len()];
        for (at, step) in drawn.steps.iter().enumerate() {
            assert!(step.operands.iter().all(|&value| value < at));
            assert_eq!(step.problem.is_none(), step.on_host || step.on_gpu);
            step.operands.iter().for_each(|&value| uses[value] += 1);
            sinks += usize::from(step.is_sink);
            resident += usize::from(step.on_gpu);
        }
        shared += uses.iter().filter(|&&count| count > 1).count();
    }
    assert!(shared > 200 && sinks > 200 && resident > 100, "{shared} {sinks} {resident}");
}
