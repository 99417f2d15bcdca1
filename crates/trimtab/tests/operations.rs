//! Operations on tensors and views against naive loops, and what bad input gets: a clear error or the right answer.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its tensors has failed")]

use proptest::prelude::*;
use std::sync::OnceLock;
use trimtab::core::{BinaryOp, Elementwise, Matmul, Patience, Problem, Reduce, ReduceOp, Transpose, UnaryOp};
use trimtab::cpu::Element;
use trimtab::{Axis, Error, Runtime, Tensor};

/// Chooses by estimates, so that hundreds of small problems cost no races; each kernel is still checked before use.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = Runtime::builder().ignore_environment().wisdom_in_memory();
        builder.patience(Patience::Estimate).build().unwrap()
    })
}

/// Small whole numbers, so that every order of summation is exact.
fn numbers<T: Element>(shape: &[usize]) -> Tensor<T> {
    Tensor::from_fn(shape, |index| T::from_f64((index * 7 % 11) as f64 - 5.0)).unwrap()
}

/// Every index of a shape in row-major order.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in shape {
        all = all
            .into_iter()
            .flat_map(|start: Vec<usize>| (0..size).map(move |last| [start.clone(), vec![last]].concat()))
            .collect();
    }
    all
}

/// The elements read one by one.
fn read<T: Element>(tensor: &Tensor<T>) -> Vec<f64> {
    indices(tensor.shape()).iter().map(|index| tensor.get(index).unwrap().to_f64()).collect()
}

fn broadcast_shape(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        if axis + shape.len() < rank { 1 } else { shape[axis + shape.len() - rank] }
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (1, other) => other,
            (own, _) => own,
        })
        .collect()
}

/// The element of a tensor that is repeated to a larger shape.
fn repeated<T: Element>(tensor: &Tensor<T>, index: &[usize]) -> f64 {
    let own = &index[index.len() - tensor.shape().len()..];
    let own: Vec<usize> = own.iter().zip(tensor.shape()).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
    tensor.get(&own).unwrap().to_f64()
}

fn naive_matmul<T: Element>(a: &Tensor<T>, b: &Tensor<T>) -> (Vec<usize>, Vec<f64>) {
    let (left, right) = (a.shape().len(), b.shape().len());
    let k = a.shape()[left - 1];
    let batch_of = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
    let batch = broadcast_shape(&batch_of(a.shape()), &batch_of(b.shape()));
    let rows = if left > 1 { a.shape()[left - 2] } else { 1 };
    let columns = if right > 1 { b.shape()[right - 1] } else { 1 };
    let mut shape = batch.clone();
    shape.extend((left > 1).then_some(rows));
    shape.extend((right > 1).then_some(columns));
    let mut out = Vec::new();
    for place in indices(&batch) {
        for row in 0..rows {
            for column in 0..columns {
                let term = |inner: usize| {
                    let lhs = if left > 1 {
                        repeated(a, &[place.clone(), vec![row, inner]].concat())
                    } else {
                        repeated(a, &[inner])
                    };
                    let rhs = if right > 1 {
                        repeated(b, &[place.clone(), vec![inner, column]].concat())
                    } else {
                        repeated(b, &[inner])
                    };
                    lhs * rhs
                };
                out.push((0..k).map(term).sum());
            }
        }
    }
    (shape, out)
}

fn check_matmul<T: trimtab::Float>(a: &Tensor<T>, b: &Tensor<T>) {
    let (shape, expected) = naive_matmul(a, b);
    let product = runtime().matmul(a, b).unwrap_or_else(|error| panic!("{a:?} x {b:?}: {error}"));
    assert_eq!(product.shape(), shape, "{a:?} x {b:?}");
    assert_eq!(read(&product), expected, "{a:?} x {b:?}");
    // Into a tensor that holds something else.
    let mut out = Tensor::full(&shape, T::from_f64(77.0)).unwrap();
    runtime().matmul_into(a, b, &mut out).unwrap();
    assert_eq!(read(&out), expected, "{a:?} x {b:?} into");
}

fn check_both(a: &[usize], b: &[usize]) {
    check_matmul(&numbers::<f32>(a), &numbers::<f32>(b));
    check_matmul(&numbers::<f64>(a), &numbers::<f64>(b));
}

fn message<R: std::fmt::Debug>(outcome: Result<R, Error>, parts: &[&str]) {
    let text = outcome.unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in `{text}`");
    }
}

#[test]
fn products_of_matrices_vectors_and_batches_are_those_of_plain_loops() {
    let pairs: [(&[usize], &[usize]); 16] = [
        (&[1, 1], &[1, 1]),
        (&[2, 3], &[3, 4]),
        (&[17, 31], &[31, 5]),
        (&[64, 65], &[65, 63]),
        (&[3], &[3]),
        (&[3], &[3, 4]),
        (&[2, 3], &[3]),
        (&[3], &[5, 3, 2]),
        (&[5, 2, 3], &[3]),
        (&[4, 2, 3], &[4, 3, 5]),
        (&[4, 2, 3], &[3, 5]),
        (&[2, 3], &[4, 3, 5]),
        (&[4, 1, 2, 3], &[1, 5, 3, 2]),
        (&[2, 1, 2, 3], &[4, 3, 2]),
        (&[1, 2, 3], &[3, 2]),
        (&[1, 1, 2, 3], &[1, 3, 2]),
    ];
    for (a, b) in pairs {
        check_both(a, b);
    }
}

#[test]
fn products_without_elements_have_the_right_shape_and_empty_sums_are_zero() {
    let pairs: [(&[usize], &[usize]); 13] = [
        (&[0, 3], &[3, 2]),
        (&[2, 3], &[3, 0]),
        (&[2, 0], &[0, 3]),
        (&[0, 0], &[0, 0]),
        (&[0], &[0]),
        (&[0], &[0, 4]),
        (&[4, 0], &[0]),
        (&[0, 2, 3], &[0, 3, 4]),
        (&[0, 2, 3], &[3, 4]),
        (&[2, 3], &[0, 3, 4]),
        (&[1, 2, 3], &[0, 3, 4]),
        (&[3, 2, 0], &[0, 4]),
        (&[3, 0, 2], &[3, 2, 4]),
    ];
    for (a, b) in pairs {
        check_both(a, b);
    }
}

#[test]
fn products_of_views_are_those_of_their_copies() {
    let a = numbers::<f32>(&[6, 8]);
    let b = numbers::<f32>(&[9, 8]);
    check_matmul(&a, &b.transposed());
    check_matmul(&a.transposed(), &numbers(&[6, 5]));
    check_matmul(&a.transposed(), &b.transposed().slice(0, 1..7).unwrap());
    check_matmul(&a.slice(1, 2..7).unwrap(), &b.slice(0, 3..8).unwrap());
    check_matmul(&a.slice(0, 2..3).unwrap(), &b.transposed());
    check_matmul(&a.slice(1, 3..3).unwrap(), &b.slice(0, 9..9).unwrap());
    let row = numbers::<f32>(&[1, 8]).broadcast_to(&[6, 8]).unwrap();
    check_matmul(&row, &b.transposed());
    check_matmul(&b, &row.transposed());
    let cube = numbers::<f32>(&[3, 4, 5]);
    check_matmul(&cube, &cube.permuted(&[0, 2, 1]).unwrap());
    check_matmul(&cube.permuted(&[1, 0, 2]).unwrap(), &cube.permuted(&[1, 2, 0]).unwrap());
    check_matmul(&cube.permuted(&[2, 1, 0]).unwrap(), &numbers(&[3, 2]));
    check_matmul(&cube.permuted(&[0, 2, 1]).unwrap(), &numbers(&[4, 2]));
    check_matmul(&numbers(&[2, 5]), &cube.permuted(&[0, 2, 1]).unwrap());
    let repeated = numbers::<f32>(&[4, 5]).broadcast_to(&[3, 4, 5]).unwrap();
    check_matmul(&repeated, &cube.permuted(&[0, 2, 1]).unwrap());
    check_matmul(&cube.slice(1, 1..3).unwrap(), &numbers::<f32>(&[7, 5]).transposed());
    let part = numbers::<f32>(&[20]).slice(0, 4..9).unwrap();
    check_matmul(&part, &numbers(&[5, 3]));
    check_matmul(&numbers(&[3, 5]), &part);
    check_matmul(
        &numbers::<f32>(&[5, 4]).transposed().slice(0, 1..2).unwrap().reshaped(&[5]).unwrap(),
        &part,
    );
}

#[test]
fn an_output_that_is_shared_or_a_view_is_written_without_touching_others() {
    let a = numbers::<f32>(&[3, 3]);
    let mut out = a.clone();
    runtime().matmul_into(&a, &a, &mut out).unwrap();
    assert_eq!(read(&out), naive_matmul(&a, &a).1);
    assert_eq!(a, numbers(&[3, 3]));
    let mut view = a.transposed();
    runtime().matmul_into(&a, &a, &mut view).unwrap();
    assert_eq!(read(&view), naive_matmul(&a, &a).1);
}

#[test]
fn functions_of_pairs_repeat_shapes_and_take_numbers_and_views() {
    let shapes: [(&[usize], &[usize]); 12] = [
        (&[], &[]),
        (&[5], &[]),
        (&[], &[2, 3]),
        (&[2, 3], &[3]),
        (&[2, 3], &[2, 1]),
        (&[4, 1], &[1, 5]),
        (&[2, 1, 3], &[5, 1]),
        (&[2, 3, 4], &[2, 3, 4]),
        (&[0, 3], &[3]),
        (&[3, 0], &[1, 1]),
        (&[1], &[0]),
        (&[2, 3, 4, 5], &[3, 1, 5]),
    ];
    type Naive = fn(f64, f64) -> f64;
    let ops: [(BinaryOp, Naive); 5] = [
        (BinaryOp::Add, |a, b| a + b),
        (BinaryOp::Sub, |a, b| a - b),
        (BinaryOp::Mul, |a, b| a * b),
        (BinaryOp::Min, f64::min),
        (BinaryOp::Max, f64::max),
    ];
    fn check<T: Element>(op: BinaryOp, naive: Naive, a: &Tensor<T>, b: &Tensor<T>) {
        let result = runtime().binary::<T>(op, a, b).unwrap();
        let shape = broadcast_shape(a.shape(), b.shape());
        assert_eq!(result.shape(), shape, "{op:?} {a:?} {b:?}");
        let pairs = indices(&shape).into_iter();
        let expected: Vec<f64> = pairs.map(|i| naive(repeated(a, &i), repeated(b, &i))).collect();
        assert_eq!(read(&result), expected, "{op:?} {a:?} {b:?}");
    }
    for (op, naive) in ops {
        for (a, b) in shapes {
            check::<f32>(op, naive, &numbers(a), &numbers(b));
            check::<f64>(op, naive, &numbers(a), &numbers(b));
            check::<i32>(op, naive, &numbers(a), &numbers(b));
        }
        let cube = numbers::<i32>(&[3, 4, 5]);
        check(op, naive, &cube.transposed(), &cube.permuted(&[2, 1, 0]).unwrap());
        check(op, naive, &cube.slice(2, 1..4).unwrap(), &cube.slice(2, 0..3).unwrap());
        check(op, naive, &cube, &numbers::<i32>(&[4, 1]).broadcast_to(&[3, 4, 5]).unwrap());
        check(op, naive, &cube.slice(1, 2..2).unwrap(), &numbers(&[5]));
    }
    let a = numbers::<f32>(&[2, 2]);
    assert_eq!(
        runtime().sub(1.0, &a).unwrap().to_vec(),
        a.to_vec().iter().map(|x| 1.0 - x).collect::<Vec<_>>()
    );
    assert_eq!(runtime().add(2, 3).unwrap().item().unwrap(), 5);
}

#[test]
fn functions_of_one_tensor_are_those_of_the_standard_library() {
    let x = Tensor::from_fn(&[5, 7], |index| index as f64 / 4.0 - 4.0).unwrap();
    let positive = runtime().add(&x, 4.5).unwrap();
    let gelu = |x: f64| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        0.5 * x * (1.0 + inner.tanh())
    };
    type Naive<'a> = &'a dyn Fn(f64) -> f64;
    let cases: [(UnaryOp, &Tensor<f64>, Naive<'_>); 9] = [
        (UnaryOp::Neg, &x, &|x| -x),
        (UnaryOp::Abs, &x, &f64::abs),
        (UnaryOp::Exp, &x, &f64::exp),
        (UnaryOp::Log, &positive, &f64::ln),
        (UnaryOp::Sqrt, &positive, &f64::sqrt),
        (UnaryOp::Tanh, &x, &f64::tanh),
        (UnaryOp::Sigmoid, &x, &|x| 1.0 / (1.0 + (-x).exp())),
        (UnaryOp::Relu, &x, &|x| x.max(0.0)),
        (UnaryOp::Gelu, &x, &gelu),
    ];
    for (op, x, naive) in cases {
        let views = [x.clone(), x.transposed(), x.slice(1, 2..5).unwrap(), x.slice(0, 1..1).unwrap()];
        for view in views {
            let found = runtime().unary(op, &view).unwrap();
            assert_eq!(found.shape(), view.shape());
            for (found, x) in read(&found).into_iter().zip(read(&view)) {
                let expected = naive(x);
                assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1.0), "{op:?}({x}) = {found}");
            }
        }
    }
}

#[test]
fn reductions_of_views_along_every_axis_are_those_of_plain_loops() {
    let cube = numbers::<f64>(&[3, 4, 5]);
    let views = [
        cube.clone(),
        cube.transposed(),
        cube.permuted(&[1, 0, 2]).unwrap(),
        cube.slice(1, 1..3).unwrap(),
        cube.slice(2, 4..5).unwrap(),
        numbers::<f64>(&[5]).broadcast_to(&[2, 3, 5]).unwrap(),
        numbers(&[1, 1, 1]),
    ];
    for view in views {
        for &op in ReduceOp::ALL {
            for axis in 0..3 {
                let found = runtime().reduce(op, &view, axis).unwrap();
                let mut kept = view.shape().to_vec();
                let len = kept.remove(axis);
                assert_eq!(found.shape(), kept);
                for (index, found) in indices(&kept).into_iter().zip(read(&found)) {
                    let at = |place: usize| {
                        let mut index = index.clone();
                        index.insert(axis, place);
                        view.get(&index).unwrap()
                    };
                    let expected = fold(op, (0..len).map(at));
                    assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{op:?} {view:?}");
                }
            }
            let found = runtime().reduce(op, &view, Axis::All).unwrap();
            assert_eq!(found.shape(), [0usize; 0]);
            let expected = fold(op, read(&view).into_iter());
            assert!((found.item().unwrap() - expected).abs() <= 1e-12 * expected.abs().max(1.0));
        }
    }
}

fn fold(op: ReduceOp, values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    match op {
        ReduceOp::Sum => values.sum(),
        ReduceOp::Mean => values.sum::<f64>() / count,
        ReduceOp::Min => values.fold(f64::INFINITY, f64::min),
        ReduceOp::Max => values.fold(f64::NEG_INFINITY, f64::max),
        ReduceOp::Prod => values.product(),
    }
}

#[test]
fn reductions_of_nothing_have_their_neutral_element_or_a_clear_error() {
    let rt = runtime();
    let empty = Tensor::<f32>::zeros(&[0, 3]).unwrap();
    assert_eq!(rt.sum(&empty, Axis::All).unwrap().item().unwrap(), 0.0);
    assert_eq!(rt.prod(&empty, Axis::All).unwrap().item().unwrap(), 1.0);
    assert_eq!(rt.sum(&empty, 0).unwrap().to_vec(), [0.0; 3]);
    assert_eq!(rt.prod(&empty, 0).unwrap().to_vec(), [1.0; 3]);
    assert_eq!(rt.sum(&empty, 1).unwrap().shape(), [0]);
    assert_eq!(rt.min(&empty, 1).unwrap().shape(), [0]);
    message(rt.min(&empty, 0), &["min of no elements is not defined", "[0, 3]"]);
    message(rt.max(&empty, Axis::All), &["max of no elements"]);
    message(rt.mean(&empty, Axis::All), &["mean of no elements"]);
    assert_eq!(rt.sum(&Tensor::<i32>::zeros(&[0]).unwrap(), Axis::All).unwrap().item().unwrap(), 0);
    message(rt.min(&Tensor::<i32>::zeros(&[0]).unwrap(), Axis::All), &["min of no elements"]);
}

#[test]
fn shapes_that_do_not_fit_are_errors_that_say_why() {
    let rt = runtime();
    let (a, b) = (numbers::<f32>(&[2, 3]), numbers::<f32>(&[4, 5]));
    message(
        rt.matmul(&a, &b),
        &["matmul", "[2, 3]", "[4, 5]", "the left has 3 columns, the right has 4 rows"],
    );
    message(rt.matmul(&a, &Tensor::scalar(1.0)), &["a number has no rows", "use mul"]);
    message(rt.matmul(&numbers::<f32>(&[3]), &numbers(&[2])), &["3 columns", "2 rows"]);
    message(
        rt.matmul(&numbers::<f32>(&[2, 3, 4]), &numbers(&[3, 4, 5])),
        &["leading axes must be equal or one"],
    );
    let mut out = Tensor::zeros(&[3, 2]).unwrap();
    message(rt.matmul_into(&a, &a.transposed(), &mut out), &["output has shape [3, 2]", "[2, 2]"]);
    let mut flat = Tensor::zeros(&[4]).unwrap();
    message(rt.matmul_into(&a, &numbers(&[3, 2]), &mut flat), &["output has shape [4]", "[2, 2]"]);
    message(rt.matmul_into(&a, &b, &mut out), &["the left has 3 columns"]);
    message(rt.add(&a, &b), &["[2, 3]", "[4, 5]", "neither equal nor one"]);
    message(rt.add(&numbers::<f32>(&[0]), &numbers::<f32>(&[2])), &["sizes 0 and 2"]);
    message(rt.sum(&a, 2), &["there is no such axis", "[2, 3]"]);
    message(rt.sum(&Tensor::scalar(1.0f32), 0), &["there is no such axis"]);
    message(rt.permute(&a, &[0]), &["axes [0] do not name every axis of shape [2, 3] once"]);
    message(rt.permute(&a, &[1, 1]), &["axes [1, 1]"]);
    message(rt.permute(&a, &[0, usize::MAX]), &["do not name every axis"]);
    message(a.slice(1, 2..9), &["range 2..9 along axis 1 is not inside shape [2, 3]"]);
    message(a.slice(5, 0..1), &["axis 5"]);
    #[expect(clippy::reversed_empty_ranges, reason = "it is the bad input")]
    let backwards = 2..1;
    message(a.slice(0, backwards), &["range 2..1"]);
    message(a.slice(0, usize::MAX - 1..usize::MAX), &["not inside shape"]);
    message(a.reshaped(&[5]), &["shape [5] needs 5 elements, there are 6"]);
    message(a.broadcast_to(&[3]), &["shape [2, 3] cannot be repeated to [3]"]);
    message(a.broadcast_to(&[3, 3]), &["cannot be repeated to [3, 3]"]);
    message(a.item(), &["needs 1 elements, there are 6"]);
    message(Tensor::from_vec(vec![1.0f32], &[2, 2]), &["shape [2, 2] needs 4 elements, there are 1"]);
    assert_eq!(a.get(&[2, 0]), None);
    assert_eq!(a.get(&[0]), None);
    assert_eq!(a.get(&[usize::MAX, usize::MAX]), None);
    assert_eq!(a.get(&[usize::MAX / 2 + 2, 0]), None);
}

#[test]
fn sizes_that_overflow_are_errors_and_zeros_among_them_are_empty() {
    let rt = runtime();
    let big = usize::MAX;
    message(Tensor::<f32>::zeros(&[big, 2]), &["more bytes than this machine can address"]);
    message(Tensor::<f32>::zeros(&[big]), &["more bytes than this machine can address"]);
    message(Tensor::from_vec(vec![1.0f32], &[big, big]), &["can address"]);
    message(Tensor::<f32>::zeros(&[1 << 60]), &["memory are not to be had"]);
    let one = Tensor::full(&[1], 1.0f32).unwrap();
    let huge = one.broadcast_to(&[1 << 58]).unwrap();
    message(rt.sum(&huge, Axis::All), &["memory are not to be had"]);
    message(rt.add(&huge, 1.0), &["memory are not to be had"]);
    message(rt.exp(&huge), &["memory are not to be had"]);
    message(rt.contiguous(&huge), &["memory are not to be had"]);
    message(rt.matmul(&huge, &huge), &["memory are not to be had"]);
    let (tall, wide) = (one.broadcast_to(&[1 << 33, 1]).unwrap(), one.broadcast_to(&[1, 1 << 33]).unwrap());
    message(rt.add(&tall, &wide), &["more bytes than this machine can address"]);
    message(rt.matmul(&tall, &wide), &["more bytes than this machine can address"]);
    message(one.broadcast_to(&[big, big]), &["can address"]);
    for shape in [[big, big, 0], [0, big, big], [big, 0, big]] {
        let empty = Tensor::<f64>::zeros(&shape).unwrap();
        assert_eq!((empty.len(), empty.to_vec().len(), empty.is_empty()), (0, 0, true));
        assert_eq!(rt.neg(&empty).unwrap().shape(), shape);
        assert_eq!(rt.add(&empty, 1.0).unwrap().shape(), shape);
        assert_eq!(rt.transpose(&empty).unwrap().len(), 0);
        assert_eq!(rt.sum(&empty, Axis::All).unwrap().item().unwrap(), 0.0);
        assert!(format!("{empty:?}").contains("f64"));
        for axis in 0..3 {
            // Where the zero is reduced away, the rest is too large; else the result is empty too.
            match rt.sum(&empty, axis) {
                Ok(sums) => assert!(sums.is_empty()),
                Err(error) => assert!(error.to_string().contains("can address"), "{error}"),
            }
        }
        if let Ok(product) = rt.matmul(&empty, &empty.permuted(&[0, 2, 1]).unwrap()) {
            assert!(product.is_empty());
        }
    }
}

#[test]
fn problems_with_overflowing_sizes_are_refused_or_empty_in_every_form() {
    for text in [
        "matmul:f32:18446744073709551615x2x2",
        "matmul:f32:4294967296x4294967296x1",
        "matmul:f64:99999999999x1x99999999999",
        "elementwise.add:f32:4294967296x1,1x4294967296",
        "elementwise.neg:f64:18446744073709551615",
        "reduce.sum:f32:4294967296x4294967296:axis0",
        "transpose:i32:4294967296x4294967296",
        "matmul:f32:0x4294967296x4294967296x4294967296",
        "elementwise.add:f32:1x0,4294967296x4294967296x1x1",
    ] {
        let error = text.parse::<Problem>().unwrap_err().to_string();
        assert!(error.contains("more bytes than this machine can address"), "{text}: {error}");
    }
    for text in [
        "matmul:f32:0x4294967296x8x1024",
        "elementwise.add:f32:4294967296x1x0,1x4294967296x0",
        "elementwise.neg:f32:4294967296x4294967296x0",
        "reduce.sum:f32:4294967296x4294967296x0:axis1",
        "transpose:i32:4294967296x4294967296x0",
    ] {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(problem.operand_lens()[2], 0, "{text}");
        assert!(problem.operand_bytes().0 < 1 << 40, "{text}");
        let trial = runtime().try_problem(&problem).unwrap();
        assert_eq!(trial.check, Ok(()), "{text}");
    }
    let large: Problem = "elementwise.add:f32:1152921504606846976".parse().unwrap();
    message(runtime().try_problem(&large), &["memory are not to be had"]);
}

#[test]
fn too_many_dimensions_are_an_error_or_are_handled() {
    let rt = runtime();
    message(Tensor::<f32>::zeros(&[1; 9]), &["more than 8 dimensions"]);
    message(numbers::<f32>(&[2]).broadcast_to(&[1, 1, 1, 1, 1, 1, 1, 1, 2]), &["more than 8 dimensions"]);
    let (a, b) = (numbers::<f32>(&[2, 1, 2, 1, 2, 1, 2]), numbers::<f32>(&[1, 2, 1, 2, 1, 2, 1]));
    message(rt.add(&a, &b), &["keeps more than 6 dimensions", "contiguous"]);
    // Eight axes that all move are more than the problem holds; the copy is made anyway.
    let tensor = numbers::<i32>(&[2, 3, 2, 2, 2, 2, 3, 2]);
    let moved = tensor.permuted(&[7, 5, 3, 1, 6, 4, 2, 0]).unwrap();
    assert_eq!(rt.contiguous(&moved).unwrap().to_vec(), moved.to_vec());
    assert_eq!(read(&rt.neg(&moved).unwrap()), read(&moved).iter().map(|x| 0.0 - x).collect::<Vec<_>>());
    assert_eq!(rt.transpose(&tensor).unwrap().shape(), [2, 3, 2, 2, 2, 2, 3, 2]);
    let batches = Tensor::<f32>::full(&[1, 1, 1, 1, 1, 1, 2, 2], 1.0).unwrap();
    assert_eq!(rt.matmul(&batches, &batches).unwrap().to_vec(), [2.0; 4]);
}

#[test]
fn nan_and_infinity_go_where_arithmetic_sends_them() {
    let rt = runtime();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // Long enough for vector paths and their remainders, with the odd one out at every sort of place.
    for len in [1, 2, 7, 33, 1025] {
        for place in [0, len / 2, len - 1] {
            let mut x = vec![1.0f32; len];
            x[place] = nan;
            let x = Tensor::from(x);
            for op in ReduceOp::ALL {
                assert!(
                    rt.reduce(*op, &x, Axis::All).unwrap().item().unwrap().is_nan(),
                    "{op:?} {len} {place}"
                );
            }
            for op in UnaryOp::ALL {
                let out = rt.unary(*op, &x).unwrap().to_vec();
                assert!(out[place].is_nan(), "{op:?} {len} {place}");
                assert_eq!(out.iter().filter(|y| y.is_nan()).count(), 1, "{op:?} {len} {place}");
            }
            for op in
                [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max]
            {
                assert!(rt.binary(op, &x, 2.0).unwrap().to_vec()[place].is_nan(), "{op:?} {len} {place}");
                assert!(rt.binary(op, 2.0, &x).unwrap().to_vec()[place].is_nan(), "{op:?} {len} {place}");
            }
            let row = rt.matmul(&x, &Tensor::full(&[len, 2], 0.0f32).unwrap()).unwrap();
            assert!(row.to_vec().iter().all(|y| y.is_nan()));
        }
    }
    let x = Tensor::from(vec![inf, -inf, 0.0, -1.0]);
    let all = |tensor: Result<Tensor<f32>, Error>| tensor.unwrap().to_vec();
    assert_eq!(all(rt.exp(&x))[..3], [inf, 0.0, 1.0]);
    assert_eq!(all(rt.tanh(&x))[..3], [1.0, -1.0, 0.0]);
    assert_eq!(all(rt.sigmoid(&x))[..3], [1.0, 0.0, 0.5]);
    assert_eq!(all(rt.relu(&x)), [inf, 0.0, 0.0, 0.0]);
    assert_eq!(all(rt.gelu(&x))[..3], [inf, 0.0, 0.0]);
    let log = all(rt.log(&x));
    assert!(log[0] == inf && log[1].is_nan() && log[2] == -inf && log[3].is_nan(), "{log:?}");
    let sqrt = all(rt.sqrt(&x));
    assert!(sqrt[0] == inf && sqrt[1].is_nan() && sqrt[2] == 0.0 && sqrt[3].is_nan(), "{sqrt:?}");
    let over = all(rt.div(1.0, &x));
    assert!(over[..3] == [0.0, 0.0, inf] && over[1].is_sign_negative(), "{over:?}");
    assert!(all(rt.div(&x, &x))[2].is_nan());
    assert_eq!(rt.sum(&x.slice(0, 0..1).unwrap(), Axis::All).unwrap().item().unwrap(), inf);
    assert!(rt.sum(&x, Axis::All).unwrap().item().unwrap().is_nan());
    assert_eq!(rt.min(&x, Axis::All).unwrap().item().unwrap(), -inf);
    let zero_times_inf = rt.matmul(&Tensor::full(&[2, 2], inf).unwrap(), &Tensor::zeros(&[2, 2]).unwrap());
    assert!(all(zero_times_inf).iter().all(|y| y.is_nan()));
}

#[test]
fn integer_sums_and_products_are_exact_or_an_overflow_error() {
    let rt = runtime();
    for len in [2usize, 33, 70_001] {
        let ones = Tensor::full(&[len], 1i32).unwrap();
        let mut too_much = ones.clone();
        too_much.as_mut_slice()[len / 2] = i32::MAX;
        message(rt.sum(&too_much, Axis::All), &["does not fit in i32", "f64"]);
        too_much.as_mut_slice()[0] = 2;
        message(rt.prod(&too_much, Axis::All), &["does not fit in i32"]);
        assert_eq!(rt.sum(&ones, Axis::All).unwrap().item().unwrap(), len as i32);
        assert_eq!(rt.prod(&ones, Axis::All).unwrap().item().unwrap(), 1);
    }
    let there_and_back =
        Tensor::from_fn(&[1000], |index| if index < 500 { i32::MAX } else { -i32::MAX }).unwrap();
    assert_eq!(rt.sum(&there_and_back, Axis::All).unwrap().item().unwrap(), 0);
    let mut zeroed = Tensor::full(&[1000], i32::MAX).unwrap();
    message(rt.prod(&zeroed, Axis::All), &["does not fit in i32"]);
    zeroed.as_mut_slice()[999] = 0;
    assert_eq!(rt.prod(&zeroed, Axis::All).unwrap().item().unwrap(), 0);
    message(rt.sum(&Tensor::full(&[2, 3], i32::MIN).unwrap(), 0), &["does not fit in i32"]);
    assert_eq!(rt.sum(&Tensor::full(&[1, 3], i32::MIN).unwrap(), 0).unwrap().to_vec(), [i32::MIN; 3]);
    message(rt.reduce(ReduceOp::Mean, &zeroed, Axis::All), &["mean is not defined for i32"]);
    message(rt.unary(UnaryOp::Exp, &zeroed), &["exp is not defined for i32"]);
}

#[test]
fn integer_arithmetic_has_no_panics_at_its_edges() {
    let rt = runtime();
    let edge = Tensor::from(vec![i32::MIN, i32::MAX, 0, -1]);
    assert_eq!(rt.neg(&edge).unwrap().to_vec(), [i32::MIN, -i32::MAX, 0, 1]);
    assert_eq!(rt.abs(&edge).unwrap().to_vec(), [i32::MIN, i32::MAX, 0, 1]);
    assert_eq!(rt.add(&edge, 1).unwrap().to_vec(), [i32::MIN + 1, i32::MIN, 1, 0]);
    assert_eq!(rt.mul(&edge, 2).unwrap().to_vec(), [0, -2, 0, -2]);
    message(rt.div(&edge, 0), &["zero"]);
    message(rt.div(1, &edge), &["zero"]);
    let (numerators, divisors) = (Tensor::from(vec![7; 70_001]), Tensor::from(vec![1; 70_001]));
    let mut one_zero = divisors.clone();
    one_zero.as_mut_slice()[69_999] = 0;
    message(rt.div(&numerators, &one_zero), &["zero"]);
    assert_eq!(rt.div(&numerators, &divisors).unwrap(), numerators);
    assert_eq!(rt.div(&edge, 2).unwrap().to_vec(), [i32::MIN / 2, i32::MAX / 2, 0, 0]);
    // The one quotient that does not fit.
    if let Ok(quotient) = rt.div(&edge, -1) {
        assert_eq!(quotient.to_vec(), [i32::MIN, -i32::MAX, 0, 1]);
    }
    let powers =
        rt.pow(&Tensor::from(vec![2, -2, 1, -1, 3]), &Tensor::from(vec![10, 3, -5, -5, -1])).unwrap();
    assert_eq!(powers.to_vec(), [1024, -8, 1, -1, 0]);
    message(rt.pow(&Tensor::from(vec![0]), -1), &["zero"]);
}

#[test]
fn operands_that_do_not_fit_the_problem_are_errors_before_and_after_planning() {
    let rt = runtime();
    let problem = Problem::from(Matmul::new(trimtab::core::DType::F32, 2, 2, 2).unwrap());
    let mut out = [0.0f32; 4];
    for _ in 0..2 {
        message(rt.execute(&problem, &[1.0; 3], &[1.0; 4], &mut out), &["`lhs` has 3 elements", "needs 4"]);
        message(rt.execute(&problem, &[1.0; 4], &[], &mut out), &["`rhs`", "needs 4"]);
        message(rt.execute(&problem, &[1.0; 4], &[1.0; 4], &mut out[..2]), &["`out` has 2 elements"]);
        message(rt.execute(&problem, &[1.0f64; 4], &[1.0; 4], &mut [0.0; 4]), &["f64"]);
        rt.execute(&problem, &[1.0; 4], &[1.0; 4], &mut out).unwrap();
        assert_eq!(out, [2.0; 4]);
    }
    let custom: Problem = "custom.mine:4".parse().unwrap();
    message(rt.execute(&custom, &[1.0f32], &[], &mut out), &["no kernel can do custom.mine:4"]);
    message(rt.try_problem(&custom), &["the choice that owns it"]);
}

#[test]
fn text_that_is_no_problem_is_an_error_that_shows_what_one_looks_like() {
    for (text, part) in [
        ("", "is not an operation"),
        ("conv:f32:3x3", "matmul, elementwise, reduce, transpose, custom"),
        ("matmul:f16:2x2x2", "f32, f64, i32"),
        ("matmul:f32:2x2", "m x n x k"),
        ("matmul:f32:2x-2x2", "is not a size"),
        ("matmul:i32:2x2x2", "matmul is not defined for i32"),
        ("elementwise.frob:f32:2", "neg, abs, exp"),
        ("elementwise.exp:i32:2", "not defined for i32"),
        ("reduce.min:f32:0", "min of no elements"),
        ("reduce.sum:f32:2:axis9", "no such axis"),
        ("matmul:f32:2x2x2:n,n:more", "is too much"),
        ("elementwise.add:f32:2,3", "neither equal nor one"),
    ] {
        let error = text.parse::<Problem>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

fn shape_and_permutation() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    prop::collection::vec(0usize..6, 1..5).prop_flat_map(|shape| {
        let axes: Vec<usize> = (0..shape.len()).collect();
        (Just(shape), Just(axes).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_view_is_copied_negated_and_summed_right(
        (shape, axes) in shape_and_permutation(),
        cut in (0usize..4, 0usize..6, 0usize..6),
        axis in 0usize..4,
    ) {
        let rt = runtime();
        let tensor = numbers::<i32>(&shape).permuted(&axes).unwrap();
        let (cut_axis, from, to) = (cut.0 % shape.len(), cut.1.min(cut.2), cut.1.max(cut.2));
        let size = tensor.shape()[cut_axis];
        let view = tensor.slice(cut_axis, from.min(size)..to.min(size)).unwrap();
        let values = read(&view);
        prop_assert_eq!(view.to_vec().iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), values.clone());
        prop_assert_eq!(read(&rt.contiguous(&view).unwrap()), values.clone());
        prop_assert_eq!(read(&rt.transpose(&view).unwrap()), read(&view.transposed()));
        let negated: Vec<f64> = values.iter().map(|x| 0.0 - x).collect();
        prop_assert_eq!(read(&rt.neg(&view).unwrap()), negated);
        let total: f64 = values.iter().sum();
        prop_assert_eq!(f64::from(rt.sum(&view, Axis::All).unwrap().item().unwrap()), total);
        let axis = axis % shape.len();
        let sums = rt.sum(&view, axis).unwrap();
        let mut kept = view.shape().to_vec();
        let len = kept.remove(axis);
        let naive: Vec<f64> = indices(&kept)
            .into_iter()
            .map(|index| {
                let at = |place| {
                    let mut index = index.clone();
                    index.insert(axis, place);
                    f64::from(view.get(&index).unwrap())
                };
                (0..len).map(at).sum()
            })
            .collect();
        prop_assert_eq!(sums.shape(), &kept[..]);
        prop_assert_eq!(read(&sums), naive);
    }

    #[test]
    fn any_pair_of_repeatable_views_is_added_right(
        (shape, axes) in shape_and_permutation(),
        ones in prop::collection::vec(any::<bool>(), 4),
        dropped in 0usize..4,
    ) {
        let view = numbers::<f64>(&shape).permuted(&axes).unwrap();
        let other: Vec<usize> = view
            .shape()
            .iter()
            .zip(&ones)
            .map(|(&size, &one)| if one { 1 } else { size })
            .skip(dropped % shape.len())
            .collect();
        let other = numbers::<f64>(&other);
        for (a, b) in [(&view, &other), (&other, &view)] {
            let sum = runtime().add(a, b).unwrap();
            let naive: Vec<f64> =
                indices(view.shape()).iter().map(|i| repeated(a, i) + repeated(b, i)).collect();
            prop_assert_eq!(sum.shape(), view.shape());
            prop_assert_eq!(read(&sum), naive);
        }
    }

    #[test]
    fn any_product_of_views_is_that_of_plain_loops(
        sizes in (0usize..9, 0usize..9, 0usize..9),
        batch in prop::collection::vec(0usize..4, 0..3),
        left_ones in any::<bool>(),
        right_drops in any::<bool>(),
        transposed in (any::<bool>(), any::<bool>()),
    ) {
        let (m, n, k) = sizes;
        let make = |batch: &[usize], rows: usize, columns: usize, transposed: bool| {
            let tail = if transposed { [columns, rows] } else { [rows, columns] };
            let tensor = numbers::<f32>(&[batch, &tail[..]].concat());
            let rank = tensor.shape().len();
            let mut axes: Vec<usize> = (0..rank).collect();
            if transposed {
                axes.swap(rank - 2, rank - 1);
            }
            tensor.permuted(&axes).unwrap()
        };
        let left: Vec<usize> = batch.iter().map(|&size| if left_ones { 1 } else { size }).collect();
        let right: &[usize] = if right_drops { &[] } else { &batch };
        check_matmul(&make(&left, m, k, transposed.0), &make(right, k, n, transposed.1));
    }

    #[test]
    fn any_text_is_a_problem_that_round_trips_or_an_error(
        text in "(matmul|elementwise[.](add|exp)|reduce[.]sum|transpose|custom[.]x|x)?[:.,x]?(f32|i32)?:?[0-9x,:.an]{0,24}",
        noise in any::<String>(),
    ) {
        for text in [text, noise] {
            if let Ok(problem) = text.parse::<Problem>() {
                prop_assert_eq!(problem.to_string().parse::<Problem>().unwrap(), problem);
                let _ = (problem.operand_lens(), problem.operand_bytes(), problem.flops());
            }
        }
    }

    #[test]
    fn any_sizes_make_a_problem_with_countable_operands_or_an_error(
        sizes in prop::collection::vec(prop_oneof![Just(0u64), Just(1), 2u64..9, any::<u64>()], 1..5),
        other in prop::collection::vec(prop_oneof![Just(0u64), Just(1), 2u64..9, any::<u64>()], 1..5),
        axis in 0usize..4,
    ) {
        use trimtab::core::{DType, Operand};
        let (f32, i32) = (DType::F32, DType::I32);
        let mut problems: Vec<Option<Problem>> = vec![
            Elementwise::unary(UnaryOp::Neg, i32, &sizes).ok().map(Problem::from),
            Elementwise::binary(BinaryOp::Add, f32, &sizes, &other).ok().map(Problem::from),
            Reduce::new(ReduceOp::Sum, f32, &sizes, Some(axis)).ok().map(Problem::from),
            Reduce::new(ReduceOp::Sum, f32, &sizes, None).ok().map(Problem::from),
            Transpose::new(i32, &sizes, &(0..sizes.len()).rev().collect::<Vec<_>>()).ok().map(Problem::from),
        ];
        if let [batch, m, n, k] = sizes[..] {
            let shared = Operand { shared: true, transposed: axis == 0 };
            problems.push(Matmul::batched(f32, batch, m, n, k, shared, Operand::PLAIN).ok().map(Problem::from));
            problems.push(Matmul::batched(f32, batch, m, n, k, Operand::PLAIN, shared).ok().map(Problem::from));
        }
        for problem in problems.into_iter().flatten() {
            let _ = (problem.operand_lens(), problem.operand_bytes(), problem.flops(), problem.to_string());
            prop_assert_eq!(problem.to_string().parse::<Problem>().unwrap(), problem);
            let _ = runtime().explain(&problem).unwrap();
        }
    }
}
