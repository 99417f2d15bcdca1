//! Elements by index on tensors and views against plain loops, eager and lazy; what bad indices get.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its tensors has failed")]

mod support;

use support::{indices, message, runtime};
use trimtab::Tensor;
use trimtab::advanced::operands::Element;

/// The element that an index names along an axis.
fn taken<T: Element>(x: &Tensor<T>, at: &[usize], axis: usize, index: i64) -> T {
    let mut at = at.to_vec();
    at[axis] = index.rem_euclid(x.shape()[axis] as i64) as usize;
    x.get(&at).unwrap()
}

fn numbers(shape: &[usize]) -> Tensor<f32> {
    Tensor::from_fn(shape, |at| (at * 37 % 101) as f32 - 50.0).unwrap()
}

#[test]
fn taking_along_every_axis_of_views_agrees_with_plain_loops() {
    let rt = runtime();
    let given = numbers(&[5, 4, 6]);
    for x in [given.clone(), given.transposed(), given.slice(1, 1..4).unwrap()] {
        for axis in 0..3 {
            let len = x.shape()[axis] as i64;
            let list: Vec<i64> = (0..14).map(|at| (at * 5 % (2 * len)) - len).collect();
            let list = Tensor::from_vec(list, &[7, 2]).unwrap();
            let made = rt.take(&x, &list, axis).unwrap();
            let mut shape = x.shape().to_vec();
            shape.splice(axis..=axis, [7, 2]);
            assert_eq!(made.shape(), shape);
            assert_eq!(rt.lazy(&x).take(&list, axis).eval().unwrap().to_vec(), made.to_vec());
            for at in indices(&shape) {
                let index = list.get(&at[axis..axis + 2]).unwrap();
                let mut of = at.clone();
                of.splice(axis..axis + 2, [0]);
                assert_eq!(made.get(&at).unwrap(), taken(&x, &of, axis, index));
            }
            let mut own = x.shape().to_vec();
            own[axis] = 3;
            let each = Tensor::from_fn(&own, |at| (at as i32 * 7) % len as i32 - 1).unwrap();
            let made = rt.take_along(&x, &each, axis).unwrap();
            assert_eq!(rt.lazy(&x).take_along(&each, axis).eval().unwrap().to_vec(), made.to_vec());
            for at in indices(&own) {
                let index = i64::from(each.get(&at).unwrap());
                assert_eq!(made.get(&at).unwrap(), taken(&x, &at, axis, index));
            }
        }
    }
}

#[test]
fn adding_along_every_axis_agrees_with_plain_loops() {
    let rt = runtime();
    let given = numbers(&[5, 4, 6]);
    for x in [given.clone(), given.transposed()] {
        for axis in 0..3 {
            let len = x.shape()[axis] as i64;
            let list = Tensor::from((0..9).map(|at| at * 5 % (2 * len) - len).collect::<Vec<i64>>());
            let mut shape = x.shape().to_vec();
            shape[axis] = 9;
            let added = numbers(&shape);
            let made = rt.scatter_add(&x, &list, &added, axis).unwrap();
            let lazy = rt.lazy(&x).scatter_add(&list, &added, axis).eval().unwrap();
            assert_eq!(lazy.to_vec(), made.to_vec());
            for at in indices(x.shape()) {
                let mut sum = x.get(&at).unwrap();
                for nth in 0..9 {
                    let mut from = at.clone();
                    from[axis] = nth;
                    let place = list.get(&[nth]).unwrap().rem_euclid(len) as usize;
                    sum += if place == at[axis] { added.get(&from).unwrap() } else { 0.0 };
                }
                assert_eq!(made.get(&at).unwrap(), sum, "{at:?}");
            }
            let each = Tensor::from_fn(&shape, |at| (at as i32 * 7) % len as i32).unwrap();
            let made = rt.scatter_add_along(&x, &each, &added, axis).unwrap();
            let sums: f32 = made.to_vec().iter().sum();
            assert_eq!(sums, x.to_vec().iter().chain(&added.to_vec()).sum::<f32>());
            let lazy = rt.lazy(&x).scatter_add_along(&each, &added, axis).eval().unwrap();
            assert_eq!(lazy.to_vec(), made.to_vec());
        }
    }
}

#[test]
fn sorting_by_indices_and_looking_words_up_in_one_expression() {
    let rt = runtime();
    let x = rt.lazy(&numbers(&[6, 33]));
    let sorted = x.take_along(x.argsort(1, false), 1);
    assert_eq!(sorted.eval().unwrap().to_vec(), x.sort(1).eval().unwrap().to_vec());
    let table = Tensor::from_fn(&[50, 8], |at| at as f32).unwrap();
    let words = Tensor::from_vec(vec![3i32, 49, 0, -1], &[2, 2]).unwrap();
    let looked_up = rt.embedding(&table, &words).unwrap();
    assert_eq!(looked_up.shape(), [2, 2, 8]);
    assert_eq!(looked_up.to_vec()[8], 392.0);
    let doubled = rt.lazy(&table).take(&words, 0) * 2.0;
    assert_eq!(doubled.eval().unwrap().to_vec()[8], 784.0);
}

#[test]
fn wrong_indices_shapes_and_types_are_told() {
    let rt = runtime();
    let x = numbers(&[3, 4]);
    let list = Tensor::from(vec![0i64, 4, 1]);
    message(rt.take(&x, &list, 0), &["index 4, number 1 of the indices", "axis of 3 elements", "-3 to 2"]);
    assert_eq!(rt.take(&x, &Tensor::from(vec![3i64, -4]), 1).unwrap().shape(), [3, 2]);
    message(rt.lazy(&x).take(&list, 0).eval(), &["index 4, number 1"]);
    message(rt.take(&x, &list, 2), &["no such axis"]);
    message(rt.take(&x, &Tensor::from(vec![0.0f32]), 0), &["indices are i32 or i64"]);
    message(rt.take(&Tensor::<f32>::zeros(&[0, 2]).unwrap(), &list, 0), &["of no elements"]);
    assert_eq!(rt.take(&x, &Tensor::<i64>::zeros(&[0]).unwrap(), 0).unwrap().shape(), [0, 4]);
    message(rt.take_along(&x, &list, 0), &["same sizes along every axis but axis 0"]);
    message(rt.scatter_add(&x, &list, &numbers(&[3, 3]), 0), &["[3, 4]", "place of axis 0"]);
    let added = numbers(&[3, 4]);
    message(rt.scatter_add(&x, &list, &added, 0), &["index 4, number 1 of the indices"]);
    let huge = Tensor::from(vec![i64::MIN, 0, 1]);
    message(rt.scatter_add(&x, &huge, &added, 0), &["number 0 of the indices"]);
    message(
        rt.scatter_add(&Tensor::from(vec![true]), &Tensor::from(vec![0i64]), &Tensor::from(vec![true]), 0),
        &["not defined for bool"],
    );
}
