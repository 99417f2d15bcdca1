//! Comparisons, choices, limits, and blocks on tensors and views against plain loops, eager and lazy; what bad input gets.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its tensors has failed")]

mod support;

use support::{indices, message, runtime};
use trimtab::Tensor;
use trimtab::advanced::core::MaskOp;

fn numbers(shape: &[usize]) -> Tensor<f32> {
    Tensor::from_fn(shape, |at| if at % 7 == 3 { f32::NAN } else { (at * 37 % 11) as f32 - 5.0 }).unwrap()
}

/// The element of a tensor that is repeated to a larger shape.
fn at<T: trimtab::advanced::operands::Element>(x: &Tensor<T>, index: &[usize]) -> T {
    let own = &index[index.len() - x.shape().len()..];
    let own: Vec<usize> = own.iter().zip(x.shape()).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
    x.get(&own).unwrap()
}

#[test]
fn comparisons_and_choices_of_repeated_views_agree_with_plain_loops() {
    let rt = runtime();
    let whole = numbers(&[5, 6, 7]);
    let shapes =
        [numbers(&[5, 6, 7]), numbers(&[6, 1]), numbers(&[7]), numbers(&[]), whole.slice(1, 2..3).unwrap()];
    for b in &shapes {
        for op in MaskOp::ALL.into_iter().filter(|op| *op != MaskOp::Where) {
            let mask = rt.mask(op, &whole, b).unwrap();
            assert_eq!(mask.shape(), whole.shape());
            assert_eq!(rt.lazy(&whole).mask(op, b).eval().unwrap().to_vec(), mask.to_vec());
            for index in indices(whole.shape()) {
                let (x, y) = (at(&whole, &index), at(b, &index));
                let wanted = match op {
                    MaskOp::Eq => x == y,
                    MaskOp::Ne => x != y,
                    MaskOp::Lt => x < y,
                    MaskOp::Le => x <= y,
                    MaskOp::Gt => x > y,
                    _ => x >= y,
                };
                assert_eq!(mask.get(&index).unwrap(), wanted, "{x} {op} {y}");
            }
        }
        let mask = rt.gt(&whole, 0.0).unwrap();
        let chosen = rt.select(&mask, b, 9.5).unwrap();
        let lazy = rt.lazy(&whole).gt(0.0).select(b, 9.5).eval().unwrap();
        for index in indices(whole.shape()) {
            let wanted = if at(&whole, &index) > 0.0 { at(b, &index) } else { 9.5 };
            for found in [&chosen, &lazy] {
                let found = found.get(&index).unwrap();
                assert!(found == wanted || found.is_nan() && wanted.is_nan());
            }
        }
    }
}

#[test]
fn clipping_keeps_limits_and_what_is_not_a_number() {
    let rt = runtime();
    let x = Tensor::from(vec![-7.0f32, f32::NAN, 0.25, 7.0]);
    for made in [rt.clip(&x, -1.0, 1.0).unwrap(), rt.lazy(&x).clip(-1.0, 1.0).eval().unwrap()] {
        let made = made.to_vec();
        assert!(made[1].is_nan());
        assert_eq!([made[0], made[2], made[3]], [-1.0, 0.25, 1.0]);
    }
    assert_eq!(rt.clip(&Tensor::from(vec![3, 9]), 5, 1).unwrap().to_vec(), [1, 1]);
    let low = Tensor::from(vec![0.0f32, 1.0, 2.0, 9.0]);
    assert_eq!(rt.clip(&x, &low, 8.0).unwrap().to_vec()[2..], [2.0, 8.0]);
}

#[test]
fn blocks_go_side_by_side_and_into_each_other() {
    let rt = runtime();
    let x = Tensor::from_fn(&[3, 4], |at| at as i64).unwrap();
    let turned = Tensor::from_fn(&[4, 3], |at| 100 + at as i64).unwrap().transposed();
    for axis in 0..2 {
        let parts = [&x, &turned, &x, &x, &turned, &x, &x];
        let made = rt.concat(&parts, axis).unwrap();
        let lazy: Vec<_> = parts.iter().map(|part| rt.lazy(part)).collect();
        let others: Vec<_> = lazy[1..].iter().collect();
        assert_eq!(lazy[0].concat(&others, axis).eval().unwrap().to_vec(), made.to_vec());
        for index in indices(made.shape()) {
            let size = x.shape()[axis];
            let (part, mut own) = (index[axis] / size, index.clone());
            own[axis] %= size;
            assert_eq!(made.get(&index), parts[part].get(&own));
        }
    }
    let padded = rt.pad(&turned, &[(2, 1), (0, 3)], -1).unwrap();
    assert_eq!(padded.shape(), [6, 7]);
    assert_eq!(rt.lazy(&turned).pad(&[(2, 1), (0, 3)], -1).eval().unwrap().to_vec(), padded.to_vec());
    for index in indices(padded.shape()) {
        let inside = (2..5).contains(&index[0]) && index[1] < 4;
        let wanted = if inside { turned.get(&[index[0] - 2, index[1]]).unwrap() } else { -1 };
        assert_eq!(padded.get(&index).unwrap(), wanted);
    }
    let block = turned.slice(0, 0..2).unwrap().slice(1, 1..3).unwrap();
    let assigned = rt.slice_assign(&x, &[1, 2], &block).unwrap();
    assert_eq!(rt.lazy(&x).slice_assign(&[1, 2], &block).eval().unwrap().to_vec(), assigned.to_vec());
    assert_eq!(x.to_vec()[6], 6, "a copy is changed, not the tensor");
    for index in indices(x.shape()) {
        let inside = index[0] >= 1 && index[1] >= 2;
        let from = if inside { block.get(&[index[0] - 1, index[1] - 2]) } else { x.get(&index) };
        assert_eq!(assigned.get(&index), from);
    }
}

#[test]
fn shapes_and_types_that_do_not_fit_are_told() {
    let rt = runtime();
    let x = numbers(&[3, 4]);
    message(rt.lt(&x, &numbers(&[3])), &["neither equal nor one"]);
    message(rt.select(&Tensor::from(vec![true, false]), &x, 0.0), &["neither equal nor one"]);
    message(rt.concat(&[&x, &numbers(&[2, 4])], 1), &["the same but along axis 1"]);
    message(rt.concat(&[&x], 2), &["no such axis"]);
    message(rt.concat::<f32>(&[], 0), &["nothing to put side by side"]);
    message(rt.pad(&x, &[(1, 1)], 0.0), &["a pair, before and behind, for each axis"]);
    message(rt.pad(&x, &[(usize::MAX, 1), (0, 0)], 0.0), &["can address"]);
    message(rt.slice_assign(&x, &[2, 0], &numbers(&[2, 4])), &["2 from 2 on do not fit 3 along axis 0"]);
    message(rt.slice_assign(&x, &[0], &numbers(&[1])), &["as many axes"]);
    assert_eq!(rt.concat(&[&x, &numbers(&[0, 4])], 0).unwrap().shape(), [3, 4]);
    assert_eq!(rt.slice_assign(&x, &[3, 0], &numbers(&[0, 4])).unwrap().shape(), [3, 4]);
    assert_eq!(rt.pad(&numbers(&[0, 2]), &[(1, 1), (0, 0)], 4.0).unwrap().to_vec(), [4.0; 4]);
}
