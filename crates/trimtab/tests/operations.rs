//! Operations on tensors and views against naive loops, and what bad input gets: a clear error or the right answer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set up its tensors has failed")]

mod support;

use proptest::prelude::*;
use support::{indices, message, numbers, read, runtime};
use trimtab::advanced::core::{BinaryOp, Elementwise, Matmul, Problem, Reduce, ReduceOp, Transpose, UnaryOp};
use trimtab::advanced::cpu::Element;
use trimtab::{Axis, Tensor};

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
        for op in ReduceOp::ALL {
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
                let _ = (problem.input_lens(), problem.out_len(), problem.operand_bytes(), problem.flops());
            }
        }
    }

    #[test]
    fn any_sizes_make_a_problem_with_countable_operands_or_an_error(
        sizes in prop::collection::vec(prop_oneof![Just(0u64), Just(1), 2u64..9, any::<u64>()], 1..5),
        other in prop::collection::vec(prop_oneof![Just(0u64), Just(1), 2u64..9, any::<u64>()], 1..5),
        axis in 0usize..4,
    ) {
        use trimtab::advanced::core::{DType, Operand};
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
            let _ = (problem.input_lens(), problem.out_len(), problem.operand_bytes(), problem.flops(), problem.to_string());
            prop_assert_eq!(problem.to_string().parse::<Problem>().unwrap(), problem);
            let _ = runtime().explain(&problem).unwrap();
        }
    }
}
