//! Live resize through the facade: results stay right while widths change, and it can be switched off.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use support::fresh;
use trimtab::{Builder, Runtime, Tensor};
use trimtab::{Patience, Problem};

fn builder(patience: Patience) -> Builder {
    fresh().device("cpu").patience(patience)
}

/// Multiplies again and again; the points that were in force and what explain says in the end.
fn multiplied(rt: &Runtime) -> (Vec<String>, String) {
    let side = 96;
    let problem: Problem = format!("matmul:f32:{side}x{side}x{side}").parse().unwrap();
    let ones = Tensor::full(&[side, side], 1.0f32).unwrap();
    let mut points = Vec::new();
    for _ in 0..120 {
        let product = rt.matmul(&ones, &ones).unwrap();
        assert!(product.to_vec().iter().all(|sum| *sum == side as f32));
        rt.planner().drain();
        points.push(format!("{:?}", rt.plan(&problem).unwrap().point));
    }
    points.dedup();
    (points, rt.explain(&problem).unwrap().notes().join("\n"))
}

#[test]
fn results_stay_right_while_a_width_is_learned() {
    let rt = builder(Patience::Estimate).build().unwrap();
    let (points, notes) = multiplied(&rt);
    // On one hardware thread there is nothing to resize.
    if points.len() > 1 {
        assert!(notes.contains("live resize: threads"), "{notes}");
    }
}

#[test]
fn switched_off_or_in_mode_off_nothing_changes() {
    for builder in [builder(Patience::Estimate).live_resize(false), builder(Patience::Off)] {
        let (points, notes) = multiplied(&builder.build().unwrap());
        assert_eq!(points.len(), 1, "{points:?}");
        assert!(!notes.contains("live resize"), "{notes}");
    }
}
