//! Large expressions: what building, deciding, computing and dropping them takes, and how that grows with their size.

use anyhow::Result;
use serde_json::{Map, Value, json};
use trimtab::Patience;
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Expression, Runtime, Tensor};

/// Operations of an expression, each about twice as many as the one before.
const SIZES: [usize; 4] = [10_000, 20_000, 40_000, 80_000];
/// Times each is computed; the least counts.
const ROUNDS: usize = 3;
/// Elements of every tensor: so few that what is measured is not the arithmetic.
const ELEMENTS: usize = 8;

type Build = fn(&Runtime, &[Tensor<f32>], usize) -> Expression<f32>;

const SHAPES: [(&str, Build); 6] = [
    ("chain", chain),
    ("sum_of_leaves", sum_of_leaves),
    ("tree", tree),
    ("numbers", numbers),
    ("shared", shared),
    ("products", products),
];

/// One operation after the other.
fn chain(rt: &Runtime, leaves: &[Tensor<f32>], count: usize) -> Expression<f32> {
    (0..count).fold(rt.lazy(&leaves[0]), |value, at| if at % 2 == 0 { value.abs() } else { -value })
}

/// A sum of as many different tensors as there are operations.
fn sum_of_leaves(rt: &Runtime, leaves: &[Tensor<f32>], count: usize) -> Expression<f32> {
    leaves[1..=count].iter().fold(rt.lazy(&leaves[0]), |sum, leaf| sum + leaf)
}

/// The same as a tree of which all branches are as long.
fn tree(rt: &Runtime, leaves: &[Tensor<f32>], count: usize) -> Expression<f32> {
    let mut level: Vec<Expression<f32>> = leaves[..=count].iter().map(|leaf| rt.lazy(leaf)).collect();
    while level.len() > 1 {
        let pairs = level.chunks(2);
        level = pairs.map(|two| two.iter().skip(1).fold(two[0].clone(), |a, b| a + b)).collect();
    }
    level.remove(0)
}

/// A chain with another number in every operation.
fn numbers(rt: &Runtime, leaves: &[Tensor<f32>], count: usize) -> Expression<f32> {
    (0..count).fold(rt.lazy(&leaves[0]), |value, at| value.maximum(at as f32 * 1e-9))
}

/// A chain whose every operation uses the value before last too, and a value that all of them share.
fn shared(rt: &Runtime, leaves: &[Tensor<f32>], count: usize) -> Expression<f32> {
    let all = rt.lazy(&leaves[0]).abs();
    let (mut before, mut last) = (all.clone(), -&all);
    for at in 0..count {
        let next = if at % 3 == 0 { last.minimum(&all) } else { last.maximum(&before) };
        (before, last) = (last, next);
    }
    last
}

/// Products, which nothing runs as one, of a matrix that all of them share.
fn products(rt: &Runtime, _: &[Tensor<f32>], count: usize) -> Expression<f32> {
    let unit = Tensor::from_fn(&[2, 2], |at| if at % 3 == 0 { 1.0f32 } else { 0.0 });
    let Ok(unit) = unit else { return rt.lazy(&Tensor::from(vec![0.0])) };
    (0..count).fold(rt.lazy(&unit), |value, _| value.matmul(&unit))
}

/// One line, on one device or all there are: for each shape and size milliseconds of a new expression, of one that is known, and how many times more each operation
/// takes in the largest than in the smallest: one where time grows as size does, eight where it grows as its square.
pub(crate) fn line(on: Option<&str>) -> Result<Value> {
    let leaves: Vec<Tensor<f32>> =
        (0..=SIZES[3]).map(|at| Tensor::from(vec![(at % 7) as f32; ELEMENTS])).collect();
    let mut line = Map::from_iter([("devices".to_string(), json!(on.unwrap_or("all")))]);
    for (name, build) in SHAPES {
        let mut each = [[f64::INFINITY; 2]; SIZES.len()];
        for _ in 0..ROUNDS {
            for (count, best) in SIZES.into_iter().zip(&mut each) {
                let rt = Runtime::builder().ignore_environment().wisdom_in_memory().no_blas();
                let rt = on.into_iter().fold(rt, |rt, device| rt.device(device));
                let rt = rt.patience(Patience::Estimate).build()?;
                for best in best {
                    let stopwatch = Stopwatch::start();
                    let value = build(&rt, &leaves, count);
                    std::hint::black_box(value.eval()?);
                    drop(value);
                    *best = best.min(stopwatch.elapsed().0 as f64);
                }
            }
        }
        for (count, [new, known]) in SIZES.into_iter().zip(each) {
            line.insert(format!("{name}_{count}_new_ms"), json!(new / 1e6));
            line.insert(format!("{name}_{count}_known_ms"), json!(known / 1e6));
        }
        for (which, word) in ["new", "known"].into_iter().enumerate() {
            let of = |at: usize| each[at][which] / SIZES[at] as f64;
            line.insert(format!("{name}_{word}_growth"), json!(of(SIZES.len() - 1) / of(0)));
        }
    }
    Ok(line.into())
}
