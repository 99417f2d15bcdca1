//! Expressions on the processor: the same results as one operation at a time, shared work once, errors kept until asked for.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::ops::Range;
use support::{builder, fresh, message, numbers};
use trimtab::TuneRequest;
use trimtab::advanced::core::{Basis, Channels, Nanos, Patience, PoolOp, ScanOp, UnaryOp};
use trimtab::advanced::operands::f16;
use trimtab::advanced::tune::Rules;
use trimtab::{AnyTensor, Axis, Error, Expression, Runtime, Tensor, Windows};

/// Enough for a race on a busy machine.
const LONG: Nanos = Nanos::from_millis(5_000);

fn runtime() -> Runtime {
    builder().device("cpu").build().unwrap()
}

#[test]
fn an_expression_gives_what_the_operations_give_one_by_one() {
    let rt = runtime();
    let (x, w) = (numbers::<f32>(&[24, 16]), numbers::<f32>(&[16, 8]));
    let bias = numbers::<f32>(&[8]);
    let layer = (rt.lazy(&x).matmul(&w) + &bias).relu();
    let eager = rt.relu(&rt.add(&rt.matmul(&x, &w).unwrap(), &bias).unwrap()).unwrap();
    assert_eq!(layer.shape(), [24, 8]);
    assert_eq!(layer.eval().unwrap(), eager);
    assert_eq!(
        (&layer * 2.0 - 1.0).to_vec().unwrap(),
        rt.sub(&rt.mul(&eager, 2.0).unwrap(), 1.0).unwrap().to_vec()
    );
    assert_eq!(
        (1.0 - &layer).max(Axis::All).item().unwrap(),
        1.0 - rt.min(&eager, Axis::All).unwrap().item().unwrap()
    );
    assert_eq!((-layer.clone()).sum(0).eval().unwrap(), rt.neg(&rt.sum(&eager, 0).unwrap()).unwrap());
    assert_eq!(layer.mean(1).shape(), [24]);
    assert_eq!(
        layer.transpose().matmul(&layer).eval().unwrap(),
        rt.matmul(&eager.transposed(), &eager).unwrap()
    );
    assert_eq!((&x + rt.lazy(&x)).to_vec().unwrap(), rt.add(&x, &x).unwrap().to_vec());
    assert_eq!(rt.lazy(&x).eval().unwrap(), x);
}

#[test]
fn shapes_change_on_the_way_and_a_reduced_axis_may_stay() {
    let rt = runtime();
    let x = numbers::<f32>(&[4, 6]);
    let doubled = rt.mul(&x, 2.0).unwrap();
    let shaped = (rt.lazy(&x) * 2.0).reshape(&[2, 2, 6]);
    assert_eq!(shaped.shape(), [2, 2, 6]);
    assert_eq!(shaped.eval().unwrap(), doubled.reshaped(&[2, 2, 6]).unwrap());
    // Twice, of a view in another order, of a number, back to where it was.
    assert_eq!(shaped.reshape(&[24]).reshape(&[3, 8]).eval().unwrap(), doubled.reshaped(&[3, 8]).unwrap());
    let turned = rt.lazy(&x.transposed()).reshape(&[24]).to_vec().unwrap();
    assert_eq!(turned, x.transposed().to_vec());
    assert_eq!((rt.lazy(&x).sum(Axis::All) + 1.0).reshape(&[1, 1]).shape(), [1, 1]);
    assert_eq!(rt.lazy(&x).reshape(&[4, 6]).eval().unwrap(), x);
    let wrong = shaped.reshape(&[5, 5]);
    message(wrong.eval(), &["24"]);
    for axis in 0..2 {
        let total = rt.sum(&x, Axis::Kept(axis)).unwrap();
        assert_eq!(total.to_vec(), rt.sum(&x, axis).unwrap().to_vec());
        assert_eq!(total.shape(), if axis == 0 { [1, 6] } else { [4, 1] });
        let centred = (rt.lazy(&x) - rt.lazy(&x).sum(Axis::Kept(axis))).eval().unwrap();
        assert_eq!(centred, rt.sub(&x, &total).unwrap());
    }
    assert!(rt.lazy(&x).sum(Axis::Kept(2)).error().is_some() && rt.sum(&x, Axis::Kept(2)).is_err());
}

#[test]
fn every_element_type_has_expressions() {
    let rt = runtime();
    let counts = numbers::<i32>(&[5, 7]);
    let made = ((rt.lazy(&counts) + 3) * 2).abs().maximum(4).minimum(12) / 2;
    let expected: Vec<i32> = counts.to_vec().iter().map(|x| ((x + 3) * 2).abs().clamp(4, 12) / 2).collect();
    assert_eq!(made.to_vec().unwrap(), expected);
    assert_eq!(made.sum(Axis::All).item().unwrap(), expected.iter().sum::<i32>());
    let halves = numbers::<f16>(&[9]);
    let doubled: Vec<f16> = halves.to_vec().iter().map(|x| *x + *x).collect();
    assert_eq!((rt.lazy(&halves) + &halves).to_vec().unwrap(), doubled);
    let doubles = numbers::<f64>(&[9]);
    assert_eq!((2.0 / (rt.lazy(&doubles) + 10.0)).to_vec().unwrap().len(), 9);
}

#[test]
fn what_is_wrong_is_told_at_once_and_returned_when_it_is_computed() {
    let rt = runtime();
    let (a, b) = (numbers::<f32>(&[3, 4]), numbers::<f32>(&[5, 4]));
    let wrong = rt.lazy(&a) + &b;
    assert!(wrong.error().unwrap().to_string().contains("neither equal nor one"));
    let later = (wrong * 2.0).relu().sum(0);
    message(later.eval(), &["neither equal nor one"]);
    assert!(format!("{later}").contains("neither equal nor one"));
    assert!(format!("{later:?}").contains("neither equal nor one"));
    message(rt.lazy(&a).matmul(&b).eval(), &["the left has 4 columns, the right has 5 rows"]);
    message(rt.lazy(&a).sum(2).eval(), &["axis"]);
    message(rt.lazy(&a).permute(&[0, 0]).eval(), &["do not name every axis"]);
    message(rt.lazy(&Tensor::scalar(1.0f32)).matmul(&a).eval(), &["use mul"]);
    message(rt.lazy(&Tensor::from(vec![3, 0])).pow(-1).eval(), &["zero"]);
    message((rt.lazy(&numbers::<i32>(&[4])) / 0).eval(), &["zero"]);
    message(rt.lazy(&a).item(), &["needs 1 elements"]);
    assert!(matches!(rt.lazy(&Tensor::<f32>::zeros(&[0]).unwrap()).max(0).eval(), Err(Error::Problem(_))));
}

#[test]
fn work_used_twice_is_listed_once_and_a_computed_expression_is_kept() {
    let rt = runtime();
    let x = numbers::<f32>(&[40, 30]);
    // The same function written twice is one: one launch computes it, one uses it.
    let twice = rt.lazy(&x).exp().matmul(rt.lazy(&x).exp().transpose());
    let explained = twice.explain().unwrap();
    assert_eq!(explained.launches.len(), 2, "{explained}");
    let first = twice.eval().unwrap();
    let before = rt.activity().evaluated;
    assert!(first.as_slice().unwrap().as_ptr() == twice.eval().unwrap().as_slice().unwrap().as_ptr());
    assert_eq!(rt.activity().evaluated, before);
    // What goes on from a computed expression begins with its value.
    assert_eq!((&twice + 1.0).explain().unwrap().launches.len(), 1);
}

#[test]
fn an_expression_of_a_known_shape_is_not_planned_again() {
    let rt = runtime();
    let activity = |size: usize| {
        let (x, row) = (numbers::<f32>(&[size, 32]), numbers::<f32>(&[32]));
        ((rt.lazy(&x) * 0.5 + &row).tanh().sum(1) - 3.0).eval().unwrap();
        (rt.activity().placed, rt.journal().written(), rt.stats())
    };
    let (placed, written, _) = activity(16);
    assert!(placed == 1 && written > 0);
    assert_eq!((activity(16).0, activity(16).1), (1, written));
    assert_eq!(activity(64).0, 2);
    rt.forget(&trimtab::advanced::wisdom::Filter::everything());
    assert_eq!(activity(16).0, 3);
}

#[test]
fn views_are_used_as_they_lie_where_that_is_possible() {
    let rt = runtime();
    let x = numbers::<f64>(&[6, 10]);
    let part = x.slice(1, 2..7).unwrap();
    let row = x.slice(0, 3..4).unwrap();
    assert_eq!((rt.lazy(&part) * 2.0).to_vec().unwrap(), rt.mul(&part, 2.0).unwrap().to_vec());
    assert_eq!((rt.lazy(&x) - &row).to_vec().unwrap(), rt.sub(&x, &row).unwrap().to_vec());
    let product = rt.lazy(&x.transposed()).matmul(&x);
    let explained = product.explain().unwrap();
    assert!(explained.launches[0].what.contains(":t,n"), "{explained}");
    assert_eq!(product.eval().unwrap(), rt.matmul(&x.transposed(), &x).unwrap());
    let turned = rt.lazy(&x.transposed()).exp().transpose();
    assert_eq!(turned.to_vec().unwrap(), rt.exp(&x).unwrap().to_vec());
    let repeated = Tensor::from(vec![1.0f64, 2.0]).broadcast_to(&[3, 2]).unwrap();
    assert_eq!((rt.lazy(&repeated) + 1.0).to_vec().unwrap(), [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]);
}

#[test]
fn batches_of_products_are_repeated_along_leading_axes() {
    let rt = runtime();
    for (left, right) in [
        (vec![3, 4, 5], vec![5, 6]),
        (vec![4, 5], vec![3, 5, 6]),
        (vec![2, 1, 4, 5], vec![2, 3, 5, 6]),
        (vec![2, 3, 4, 5], vec![1, 3, 5, 6]),
        (vec![5], vec![5, 6]),
        (vec![4, 5], vec![5]),
        (vec![5], vec![5]),
        (vec![0, 4, 5], vec![5, 6]),
        (vec![4, 0], vec![0, 6]),
    ] {
        let (a, b) = (numbers::<f32>(&left), numbers::<f32>(&right));
        let made = (rt.lazy(&a).matmul(&b) + 1.0).relu().eval().unwrap();
        let eager = rt.relu(&rt.add(&rt.matmul(&a, &b).unwrap(), 1.0).unwrap()).unwrap();
        assert_eq!(made, eager, "{left:?} {right:?}");
    }
}

#[test]
fn nothing_comes_of_nothing() {
    let rt = runtime();
    let none = Tensor::<f32>::zeros(&[0, 4]).unwrap();
    assert_eq!(((rt.lazy(&none) + 1.0) * 2.0).eval().unwrap().shape(), [0, 4]);
    assert_eq!((rt.lazy(&none) + 1.0).sum(0).to_vec().unwrap(), [0.0; 4]);
    assert_eq!((rt.lazy(&none) + 1.0).sum(Axis::All).item().unwrap(), 0.0);
}

#[test]
fn writing_to_a_tensor_does_not_change_an_expression_of_it() {
    let rt = runtime();
    let mut x = Tensor::from(vec![1.0f32, 2.0]);
    let later = rt.lazy(&x) + 1.0;
    x.as_mut_slice()[0] = 100.0;
    assert_eq!(later.to_vec().unwrap(), [2.0, 3.0]);
    assert_eq!(x.to_vec(), [100.0, 2.0]);
}

#[test]
fn a_chain_as_long_as_a_program_runs_and_is_dropped() {
    let rt = runtime();
    let mut sum = rt.lazy(&Tensor::from(vec![0.0f64; 8]));
    for _ in 0..3_000 {
        sum = sum + 1.0;
    }
    assert_eq!(sum.to_vec().unwrap(), [3_000.0; 8]);
    let mut dropped = rt.lazy(&Tensor::scalar(1.0f32));
    for _ in 0..200_000 {
        dropped = -dropped;
    }
    drop(dropped);
}

#[test]
fn chains_run_as_one_where_that_is_expected_to_be_faster_and_explain_says_so() {
    let rt = runtime();
    let x = numbers::<f32>(&[512, 512]);
    let chain = ((rt.lazy(&x) * 2.0 + 1.0).relu() * 0.5 - 3.0).abs().maximum(1.0).minimum(8.0);
    let explained = chain.explain().unwrap();
    let operations: usize = explained.launches.iter().map(|launch| launch.operations).sum();
    assert_eq!(operations, 8, "{explained}");
    for launch in explained.launches.iter().filter(|launch| launch.operations > 1) {
        assert!(launch.apart.unwrap() >= launch.processor.unwrap().time, "{explained}");
        assert!(launch.what.starts_with("fused."), "{explained}");
    }
    assert!(explained.expected.unwrap() > Nanos(0));
    let expected = |x: f32| ((x * 2.0 + 1.0).max(0.0) * 0.5 - 3.0).abs().clamp(1.0, 8.0);
    let expected: Vec<f32> = x.to_vec().into_iter().map(expected).collect();
    assert_eq!(chain.to_vec().unwrap(), expected);
    assert!(rt.journal().entries().iter().any(|entry| entry.runs() > 0 && entry.mean().is_some()));
}

#[test]
fn mode_off_plans_expressions_the_same_every_time() {
    let explained = |_: usize| {
        let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
        let made = (rt.lazy(&numbers::<f32>(&[33, 65])) * 2.0).exp().sum(1);
        assert_eq!(made.eval().unwrap().shape(), [33]);
        made_of(&made)
    };
    assert!((0..3).map(explained).all(|what| what == explained(0)));
}

#[test]
fn mode_off_tells_no_times_it_does_not_expect() {
    let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
    let explained = ((rt.lazy(&numbers::<f32>(&[33, 65])) * 2.0).exp() + 1.0).explain().unwrap();
    assert_eq!((explained.expected, explained.bound), (None, None));
    assert!(explained.launches.iter().all(|launch| launch.processor.is_none() && launch.apart.is_none()));
    assert!(!explained.to_string().contains(" 0 ns"), "{explained}");
}

fn made_of<T: trimtab::advanced::cpu::Element>(made: &Expression<T>) -> Vec<String> {
    made.explain().unwrap().launches.into_iter().map(|launch| launch.what).collect()
}

#[test]
fn reading_is_the_same_for_parts() {
    let rt = runtime();
    let x = numbers::<f32>(&[10, 10]);
    let y = (rt.lazy(&x) + 1.0).eval().unwrap();
    let part = |range: Range<usize>| y.slice(0, range).unwrap().to_vec();
    assert_eq!(part(2..4).len(), 20);
    assert_eq!(y.get(&[2, 3]), x.get(&[2, 3]).map(|x| x + 1.0));
}

#[test]
fn deciding_looks_at_no_data() {
    let rt = runtime();
    // A quarter of a tebibyte, of which one number exists.
    let x = Tensor::scalar(1.0f32).broadcast_to(&[1 << 18, 1 << 18]).unwrap();
    let explained = ((rt.lazy(&x) * 2.0 + 1.0).relu().sum(0) / 3.0).explain().unwrap();
    assert!(explained.expected.unwrap() > Nanos::from_millis(100), "{explained}");
    assert_eq!(rt.activity().evaluated, 0);
}

#[test]
fn with_patience_what_is_chosen_rests_on_measurements() {
    let builder = fresh().no_blas().device("cpu");
    // Enough for a race on a busy machine.
    let rt = builder.budget(Nanos::from_millis(5_000)).build().unwrap();
    let x = numbers::<f32>(&[256, 256]);
    let chain = ((rt.lazy(&x) * 2.0 + 1.0).relu() - 3.0).abs();
    let explained = chain.explain().unwrap();
    for launch in &explained.launches {
        let estimate = launch.processor.unwrap();
        assert!(matches!(estimate.basis, trimtab::advanced::core::Basis::Measured(_)), "{explained}");
        assert!(launch.apart.is_none_or(|apart| apart >= estimate.time), "{explained}");
    }
    let expected: Vec<f32> = x.to_vec().iter().map(|x| ((x * 2.0 + 1.0).max(0.0) - 3.0).abs()).collect();
    assert_eq!(chain.to_vec().unwrap(), expected);
}

#[test]
fn decisions_about_single_operations_are_in_the_journal_too() {
    let rt = runtime();
    rt.exp(&numbers::<f32>(&[50])).unwrap();
    rt.exp(&numbers::<f32>(&[50])).unwrap();
    let entries = rt.journal().entries();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].what.as_str(), entries[0].device.as_str()), ("elementwise.exp:f32:50", "cpu"));
    assert!(entries[0].processor.is_some() && entries[0].other.is_none(), "{}", entries[0]);
}

#[test]
fn what_is_learned_of_an_operation_reaches_the_expressions_that_use_it() {
    let rt = runtime();
    let (x, other) = (numbers::<f32>(&[300, 200]), numbers::<f32>(&[9, 9]));
    let made = || rt.lazy(&x).exp().explain().unwrap();
    let before = made();
    assert_eq!(before.launches.len(), 1);
    assert!(!matches!(before.launches[0].processor.unwrap().basis, Basis::Measured(_)), "{before}");
    // Plans of other operations change nothing.
    rt.exp(&other).unwrap();
    made();
    assert_eq!(rt.activity().placed, 1);
    // As a race in the background ends: the planner knows, nobody told the runtime.
    let problem = before.launches[0].what.parse().unwrap();
    let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, LONG) };
    rt.planner().tune(&problem, Default::default(), &request, &mut |_| ()).unwrap();
    let after = made();
    assert!(matches!(after.launches[0].processor.unwrap().basis, Basis::Measured(_)), "{after}");
    assert_eq!(rt.activity().placed, 2);
    made();
    assert_eq!(rt.activity().placed, 2);
}

#[test]
fn a_warm_expression_gives_what_it_gave_from_several_threads_at_once() {
    let rt = runtime();
    let expected = |side: usize| {
        let x = numbers::<f64>(&[side, side]);
        ((rt.lazy(&x) * 2.0 + 1.0).abs() - &x).sum(0).to_vec().unwrap()
    };
    let once: Vec<Vec<f64>> = (1..20).map(expected).collect();
    let placed = rt.activity().placed;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| assert!((1..20).map(expected).eq(once.iter().cloned()))));
        }
    });
    assert_eq!(rt.activity().placed, placed);
}

#[test]
fn a_graph_that_shares_its_parts_is_gone_through_once() {
    let rt = runtime();
    let x = numbers::<f64>(&[4]);
    // Two to the fortieth paths, forty values.
    let mut sum = rt.lazy(&x);
    for _ in 0..40 {
        sum = &sum + &sum;
    }
    let expected: Vec<f64> = x.to_vec().iter().map(|x| x * (1u64 << 40) as f64).collect();
    assert_eq!(sum.to_vec().unwrap(), expected);
    // The same number in many places is one, whatever stands between.
    let many = (0..40).fold(rt.lazy(&x), |sum, at| (sum + 1.0) * if at % 2 == 0 { 1.0 } else { 0.5 });
    let expected = |x: &f64| (0..40).fold(*x, |sum, at| (sum + 1.0) * if at % 2 == 0 { 1.0 } else { 0.5 });
    assert_eq!(many.to_vec().unwrap(), x.to_vec().iter().map(expected).collect::<Vec<_>>());
}

#[test]
fn every_operation_gives_in_an_expression_what_it_gives_alone() {
    let rt = runtime();
    let x = numbers::<f64>(&[2, 3, 8]);
    let (scale, shift) = (numbers::<f64>(&[8]), numbers::<f64>(&[8]));
    let (weights, bias) = (numbers::<f64>(&[4, 3, 3]), numbers::<f64>(&[4]));
    let windows = Windows { pad: &[1], stride: &[2], ..Windows::default() };
    let (lazy, by) = (rt.lazy(&x), |x: &Tensor<f64>| rt.lazy(x));
    let act = Some(UnaryOp::Relu);
    for (made, eager) in [
        (lazy.softmax(1), rt.softmax(&x, 1)),
        (lazy.log_softmax(2), rt.log_softmax(&x, 2)),
        (lazy.logsumexp(0), rt.logsumexp(&x, 0)),
        (lazy.variance(1), rt.variance(&x, 1)),
        (
            lazy.layer_norm(2, Some(&by(&scale)), Some(&by(&shift)), 1e-3),
            rt.layer_norm(&x, 2, Some(&scale), Some(&shift), 1e-3),
        ),
        (lazy.rms_norm(2, Some(&by(&scale)), 0.5), rt.rms_norm(&x, 2, Some(&scale), 0.5)),
        (lazy.cumsum(1), rt.cumsum(&x, 1)),
        (lazy.scan(ScanOp::Max, 2, true), rt.scan(ScanOp::Max, &x, 2, true)),
        (lazy.sort(2), rt.sort(&x, 2)),
        (lazy.sort_descending(0), rt.sort_descending(&x, 0)),
        (lazy.conv(&weights, &windows), rt.conv(&x, &weights, &windows)),
        (
            lazy.conv_ending(&weights, &windows, Some(&by(&bias)), act),
            rt.conv_ending(&x, &weights, &windows, Some(&bias), act),
        ),
        (lazy.max_pool(&[2], &windows), rt.max_pool(&x, &[2], &windows)),
        (lazy.mean_pool(&[3], &windows), rt.mean_pool(&x, &[3], &windows)),
    ] {
        let eager = eager.unwrap();
        assert_eq!((made.shape(), made.explain().unwrap().launches.len()), (eager.shape(), 1));
        assert_eq!(made.eval().unwrap(), eager);
    }
    // Of a type known at run time, in a row, and the same one twice.
    let any = AnyTensor::from(x.clone());
    let pooled = rt.lazy_any(&any).softmax(2).pool(PoolOp::Max, &[2], &windows).sort(1);
    let eager = rt.softmax(&x, 2).and_then(|x| rt.max_pool(&x, &[2], &windows)).and_then(|x| rt.sort(&x, 1));
    assert_eq!(pooled.eval().unwrap().typed::<f64>().unwrap(), eager.unwrap());
    let twice = lazy.softmax(1).sum(0) + lazy.softmax(1).max(0);
    assert_eq!(
        twice.explain().unwrap().launches.iter().filter(|one| one.what.starts_with("rows")).count(),
        1
    );
    let counts = numbers::<i32>(&[3, 50]);
    let sorted = (rt.lazy(&counts) * 2).sort(1).cumsum(1);
    let eager = rt.mul(&counts, 2).and_then(|x| rt.sort(&x, 1)).and_then(|x| rt.cumsum(&x, 1)).unwrap();
    assert_eq!(sorted.eval().unwrap(), eager);
}

#[test]
fn what_does_not_fit_an_operation_is_told_as_an_eager_call_tells_it() {
    let rt = runtime();
    let (x, w) = (numbers::<f32>(&[2, 3, 8]), numbers::<f32>(&[4, 2, 3]));
    let lazy = rt.lazy(&x);
    message(lazy.softmax(3).sum(0).eval(), &["no such axis"]);
    message(lazy.conv(&w, &Windows::default()).relu().eval(), &["weights of 3 channels"]);
    message(
        lazy.layer_norm(1, Some(&rt.lazy(&numbers(&[4]))), None, 0.0).eval(),
        &["one element for each of 3"],
    );
    message(lazy.sum(7).sort(0).eval(), &["axis"]);
    let (floats, doubles) = (AnyTensor::from(x), AnyTensor::from(numbers::<f64>(&[4, 3, 3])));
    let mixed = rt.lazy_any(&floats).conv(&doubles, &Windows::default());
    message(mixed.eval(), &["conv", "f32", "f64"]);
    let whole = AnyTensor::from(numbers::<i32>(&[4]));
    message(rt.lazy_any(&whole).softmax(0).eval(), &["not defined for i32"]);
}

#[test]
fn what_is_written_behind_a_convolution_becomes_part_of_it() {
    // In mode `off` the way with the fewest launches is taken.
    let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
    let windows = Windows { pad: &[1], ..Windows::default() };
    let (x, w) = (numbers::<f32>(&[2, 3, 5, 6]), numbers::<f32>(&[4, 3, 3, 3]));
    let (bias, row) = (numbers::<f32>(&[4, 1, 1]), numbers::<f32>(&[6]));
    let conv = || rt.lazy(&x).conv(&w, &windows);
    let alone = rt.conv(&x, &w, &windows).unwrap();
    let sum = rt.add(&alone, &bias).unwrap();
    let ended = (conv() + &bias).relu();
    let text = "conv:f32:2x3x5x6,4x3x3x3:pad1";
    assert_eq!(made_of(&ended), [format!("{text},bias,relu")]);
    assert_eq!(ended.explain().unwrap().launches[0].operations, 3);
    assert_eq!(ended.eval().unwrap(), rt.relu(&sum).unwrap());
    assert_eq!(made_of(&(&bias + conv())), [format!("{text},bias")]);
    assert_eq!(made_of(&conv().tanh()), [format!("{text},tanh")]);
    let doubled = (conv() + rt.lazy(&bias) * 2.0).relu();
    assert_eq!(made_of(&doubled)[1..], [format!("{text},bias,relu")]);
    let eager = rt.mul(&bias, 2.0).and_then(|bias| rt.add(&alone, &bias)).and_then(|x| rt.relu(&x)).unwrap();
    assert_eq!(doubled.eval().unwrap(), eager);
    let behind = (conv() + &bias).relu() * 2.0 - 1.0;
    assert_eq!(made_of(&behind)[0], format!("{text},bias,relu"));
    assert_eq!(made_of(&behind).len(), 2, "{:?}", made_of(&behind));
    let eager = rt.relu(&sum).and_then(|x| rt.mul(&x, 2.0)).and_then(|x| rt.sub(&x, 1.0)).unwrap();
    assert_eq!(behind.eval().unwrap(), eager);
    // Channels behind the space.
    let last = Windows { channels: Channels::Last, ..windows };
    let (y, v) = (numbers::<f32>(&[1, 5, 4, 3]), numbers::<f32>(&[6, 3, 3, 3]));
    let ended = (rt.lazy(&y).conv(&v, &last) + &row).sigmoid();
    assert_eq!(made_of(&ended), ["conv:f32:1x5x4x3,6x3x3x3:nhwc,pad1,bias,sigmoid"]);
    // What is not one number a channel, or is used elsewhere too, stays apart.
    let apart = |made: &Expression<f32>, eager: Tensor<f32>| {
        assert_eq!(made_of(made)[0], text, "{:?}", made_of(made));
        assert_eq!(made.eval().unwrap(), eager);
    };
    apart(&(conv() + &row), rt.add(&alone, &row).unwrap());
    apart(&conv().exp(), rt.exp(&alone).unwrap());
    let used = conv();
    apart(&(used.relu() - &used), rt.sub(&rt.relu(&alone).unwrap(), &alone).unwrap());
}

#[test]
fn long_chains_of_operations_with_several_operands_are_built_listed_and_dropped() {
    let rt = runtime();
    let scale = rt.lazy(&Tensor::from(vec![1.0f32, 1.0]));
    let start = rt.lazy(&Tensor::from(vec![1.0f32, -1.0]));
    let mut normed = start.clone();
    for _ in 0..100_000 {
        normed = normed.layer_norm(0, Some(&scale), Some(&normed), 1e-3);
    }
    assert!(normed.error().is_none());
    drop(normed);
    let sorted = (0..500).fold(start, |value, _| value.sort(0));
    assert_eq!(sorted.to_vec().unwrap(), [-1.0, 1.0]);
}
