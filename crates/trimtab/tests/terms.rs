//! Plans under constraints: they are kept, or there is an error that says who broke what.

mod support;

use support::fresh;
use trimtab::advanced::plan::Standing;
use trimtab::{Bytes, Constraints, Device, Nanos, Objective, Problem};
use trimtab::{Runtime, Tensor};

const PARALLEL: [&str; 5] = [
    "matmul:f32:256x256x256",
    "elementwise.exp:f32:300000",
    "elementwise.add:f64:300000",
    "reduce.sum:f32:400000",
    "transpose:f32:600x500",
];

#[test]
fn plans_under_a_limit_of_one_thread_never_use_more() {
    let rt = fresh().build().unwrap();
    let single = rt.constrained(Constraints { threads_max: Some(1), ..Constraints::default() }).unwrap();
    let capped = fresh().threads(1).build().unwrap();
    let mut excluded = 0;
    for text in PARALLEL {
        let problem: Problem = text.parse().unwrap();
        for rt in [&single, &capped] {
            let trial = rt.try_problem(&problem).unwrap();
            assert_eq!(trial.check, Ok(()), "{text}");
            let decision = rt.explain(&problem).unwrap();
            assert_eq!(decision.winner().unwrap().work.threads, 1, "{text}");
            for rival in &decision.rivals {
                assert!(rival.estimate().is_none() || rival.work.threads <= 1, "{text}: {}", rival.name);
                excluded += u32::from(rival.out_because().is_some_and(|why| why.contains("limit 1")));
            }
        }
    }
    // Where there is more than one thread, something was there to exclude.
    assert!(excluded > 0 || rt.cpu().facts().threads == 1);
    // Other terms, other plans: the unlimited runtime is free to use them.
    let free = rt.explain(&PARALLEL[0].parse().unwrap()).unwrap();
    let is_limited =
        |standing: &Standing| matches!(standing, Standing::Excluded(why) if why.contains("limit"));
    assert!(!free.rivals.iter().any(|rival| is_limited(&rival.standing)));
}

#[test]
fn plans_without_scratch_memory_need_none() {
    let rt = fresh().constraints(Constraints { memory_max: Some(Bytes(0)), ..Constraints::default() });
    let rt = rt.build().unwrap();
    for text in PARALLEL {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()), "{text}");
        assert_eq!(rt.explain(&problem).unwrap().winner().unwrap().work.scratch, Bytes(0), "{text}");
    }
}

#[test]
fn a_latency_nobody_can_keep_is_an_error_that_says_so() {
    let rt = fresh().build().unwrap();
    let hurried =
        rt.constrained(Constraints { latency_max: Some(Nanos(1)), ..Constraints::default() }).unwrap();
    let a = Tensor::full(&[200, 200], 1.0f32).unwrap();
    for _ in 0..2 {
        let text = hurried.matmul(&a, &a).unwrap_err().to_string();
        assert!(text.contains("no kernel can do matmul:f32:200x200x200"), "{text}");
        assert!(text.contains("latency_ns<=1") && text.contains("limit 1 ns"), "{text}");
    }
    assert_eq!(rt.matmul(&a, &a).unwrap().get(&[1, 1]), Some(200.0));
    let patient =
        rt.constrained(Constraints { latency_max: Some(Nanos::MAX), ..Constraints::default() }).unwrap();
    assert_eq!(patient.matmul(&a, &a).unwrap().get(&[1, 1]), Some(200.0));
}

#[test]
fn a_cap_on_threads_holds_whatever_else_is_asked() {
    let rt = fresh().threads(1).build().unwrap();
    let loose = rt.constrained(Constraints { threads_max: Some(64), ..Constraints::default() }).unwrap();
    let problem: Problem = PARALLEL[0].parse().unwrap();
    assert_eq!(loose.try_problem(&problem).unwrap().check, Ok(()));
    assert_eq!(loose.explain(&problem).unwrap().winner().unwrap().work.threads, 1);
}

#[test]
fn a_thousand_different_terms_are_an_error_and_not_a_mix_up() {
    let rt = fresh().build().unwrap();
    let under = |bytes| Constraints { memory_max: Some(Bytes(bytes)), ..Constraints::default() };
    let kept: Vec<Runtime> = (0..).map_while(|bytes| rt.constrained(under(bytes)).ok()).collect();
    assert!((100..10_000).contains(&kept.len()), "{}", kept.len());
    let error = rt.constrained(under(u64::MAX)).unwrap_err().to_string();
    assert!(error.contains("different terms"), "{error}");
    assert_eq!(kept[7].terms().constraints, under(7));
    assert!(rt.constrained(under(7)).is_ok());
}

#[test]
fn weights_that_say_nothing_are_refused_wherever_they_are_given() {
    let rt = fresh().build().unwrap();
    for objective in [
        Objective { time: -1.0, ..Objective::default() },
        Objective { energy: f64::NAN, ..Objective::default() },
        Objective { time: 0.0, memory: 0.0, energy: 0.0 },
    ] {
        support::message(rt.minimising(objective), &["from 0 up", "above 0"]);
        support::message(fresh().objective(objective).build(), &["from 0 up", "above 0"]);
    }
    assert!(rt.minimising(Objective { time: 0.0, memory: 0.0, energy: 1.0 }).is_ok());
}
