//! Random expressions agree with one operation at a time: on the processor, on a GPU, and divided between them.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use proptest::prelude::*;
use std::sync::OnceLock;
use support::builder;
use trimtab::advanced::core::{Channels, ScanOp, UnaryOp};
use trimtab::{Axis, Error, Expression, Float, Runtime, Tensor, Windows};

fn cpu() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| builder().device("cpu").build().unwrap())
}

/// One operation on values so far, and a number.
#[derive(Clone, Debug)]
struct Op {
    code: u8,
    lhs: usize,
    rhs: usize,
    number: f64,
}

/// Operations that every device has kernels for, and all of them.
const EVERYWHERE: u8 = 22;
const ALL: u8 = 49;

fn ops(codes: u8) -> impl Strategy<Value = Vec<Op>> {
    let op = (0..codes, 0..100usize, 0..100usize, -2.0..2.0f64);
    prop::collection::vec(op.prop_map(|(code, lhs, rhs, number)| Op { code, lhs, rhs, number }), 1..14)
}

/// The same operation both ways. What cannot be done cannot be done either way.
fn step<T: Float>(
    rt: &Runtime,
    op: &Op,
    (lazy_a, a): &(Expression<T>, Tensor<T>),
    (lazy_b, b): &(Expression<T>, Tensor<T>),
) -> (Expression<T>, Result<Tensor<T>, Error>) {
    let number = T::from_f64(op.number);
    let turned = |x: &Tensor<T>| rt.transpose(x);
    match op.code {
        0 => (-lazy_a, rt.neg(a)),
        1 => (lazy_a.abs(), rt.abs(a)),
        2 => (lazy_a.relu(), rt.relu(a)),
        3 => (lazy_a.tanh(), rt.tanh(a)),
        4 => (lazy_a.sigmoid(), rt.sigmoid(a)),
        5 => (lazy_a * number, rt.mul(a, number)),
        6 => (lazy_a + number, rt.add(a, number)),
        7 => (lazy_a.maximum(number), rt.maximum(a, number)),
        8 => (lazy_a.minimum(number), rt.minimum(a, number)),
        9 => (lazy_a + lazy_b, rt.add(a, b)),
        10 => (lazy_a - lazy_b, rt.sub(a, b)),
        11 => (lazy_a * lazy_b, rt.mul(a, b)),
        12 => (lazy_a.maximum(lazy_b), rt.maximum(a, b)),
        13 => (lazy_a.minimum(b), rt.minimum(a, b)),
        14 => (lazy_a.sum(0) * T::from_f64(0.1), rt.sum(a, 0).and_then(|a| rt.mul(&a, T::from_f64(0.1)))),
        15 => (lazy_a.mean(1), rt.mean(a, 1)),
        16 => (lazy_a.max(Axis::All), rt.max(a, Axis::All)),
        17 => (lazy_a.min(1), rt.min(a, 1)),
        18 => (lazy_a.transpose(), turned(a)),
        19 => (
            lazy_a.matmul(lazy_b) * T::from_f64(0.05),
            rt.matmul(a, b).and_then(|ab| rt.mul(&ab, T::from_f64(0.05))),
        ),
        20 => (
            lazy_a.transpose().matmul(lazy_b) * T::from_f64(0.05),
            turned(a).and_then(|a| rt.matmul(&a, b)).and_then(|ab| rt.mul(&ab, T::from_f64(0.05))),
        ),
        21 => (lazy_a / (lazy_b.abs() + T::from_f64(1.0)), {
            let below = rt.abs(b).and_then(|b| rt.add(&b, T::from_f64(1.0)));
            below.and_then(|below| rt.div(a, &below))
        }),
        _ => called(rt, op, (lazy_a, a), (lazy_b, b)),
    }
}

/// Operations along an axis and over windows. What is sensitive to large numbers gets small ones.
fn called<T: Float>(
    rt: &Runtime,
    op: &Op,
    (lazy_a, a): (&Expression<T>, &Tensor<T>),
    (lazy_b, b): (&Expression<T>, &Tensor<T>),
) -> (Expression<T>, Result<Tensor<T>, Error>) {
    let axis = op.rhs % 3;
    type Eager<'a, T> = dyn Fn(&Tensor<T>) -> Result<Tensor<T>, Error> + 'a;
    let tame = |of: &Eager<'_, T>| rt.tanh(a).and_then(|a| of(&a));
    let small = lazy_a.tanh();
    let last = Windows { channels: Channels::Last, pad: &[1], ..Windows::default() };
    let windows = Windows { pad: &[1], stride: &[2], ..Windows::default() };
    // Weights that fit twelve channels behind the space.
    let weights = Tensor::from_fn(&[4, 3, 12], |at| T::from_f64((at * 7 % 13) as f64 / 40.0 - 0.15)).unwrap();
    let bias = Tensor::from_fn(&[4], |at| T::from_f64(at as f64 / 4.0 - 0.5)).unwrap();
    match op.code {
        22 => (small.softmax(axis), tame(&|a| rt.softmax(a, axis))),
        23 => (small.log_softmax(axis), tame(&|a| rt.log_softmax(a, axis))),
        24 => (lazy_a.logsumexp(axis), rt.logsumexp(a, axis)),
        25 => (small.variance(axis), tame(&|a| rt.variance(a, axis))),
        26 => (small.layer_norm(axis, None, None, 0.1), tame(&|a| rt.layer_norm(a, axis, None, None, 0.1))),
        27 => (
            small.layer_norm(axis, Some(lazy_b), Some(lazy_b), 0.1),
            tame(&|a| rt.layer_norm(a, axis, Some(b), Some(b), 0.1)),
        ),
        28 => (small.rms_norm(axis, Some(lazy_b), 0.1), tame(&|a| rt.rms_norm(a, axis, Some(b), 0.1))),
        29 => (small.cumsum(axis), tame(&|a| rt.cumsum(a, axis))),
        30 => (lazy_a.scan(ScanOp::Max, axis, false), rt.scan(ScanOp::Max, a, axis, false)),
        31 => (lazy_a.sort(axis), rt.sort(a, axis)),
        32 => (lazy_a.sort_descending(axis), rt.sort_descending(a, axis)),
        33 => (lazy_a.max_pool(&[3], &windows), rt.max_pool(a, &[3], &windows)),
        34 => (lazy_a.mean_pool(&[2], &last), rt.mean_pool(a, &[2], &last)),
        35 => (lazy_a.conv(&weights, &last), rt.conv(a, &weights, &last)),
        37.. => placed(rt, op, (lazy_a, a), (lazy_b, b)),
        _ => (
            (lazy_a.conv(&weights, &last) + &bias).sigmoid() * lazy_b.tanh(),
            rt.conv_ending(a, &weights, &last, Some(&bias), Some(UnaryOp::Sigmoid))
                .and_then(|ended| rt.mul(&ended, &rt.tanh(b)?)),
        ),
    }
}

/// Elements by index, masks and blocks. Indices are of either type, some counted from the end.
fn placed<T: Float>(
    rt: &Runtime,
    op: &Op,
    (lazy_a, a): (&Expression<T>, &Tensor<T>),
    (lazy_b, b): (&Expression<T>, &Tensor<T>),
) -> (Expression<T>, Result<Tensor<T>, Error>) {
    let axis = op.rhs % 3;
    let len = a.shape().get(axis).copied().unwrap_or(1).max(1);
    let number = T::from_f64(op.number);
    let wide = Tensor::from(
        (0..7).map(|at| (at * 5 + op.lhs as i64) % (2 * len as i64) - len as i64).collect::<Vec<_>>(),
    );
    let narrow = Tensor::from((0..4).map(|at| (at * 3 + op.lhs as i32) % len as i32).collect::<Vec<_>>());
    let first = vec![0; a.shape().len()];
    let by: Vec<(usize, usize)> = (0..a.shape().len()).map(|at| (at % 2, (at + op.lhs) % 3)).collect();
    // What rows are added to themselves: as many as there are.
    let own = Tensor::from((0..len as i64).map(|at| at * 3 % len as i64).collect::<Vec<_>>());
    match op.code {
        37 => (lazy_a.take(&wide, axis), rt.take(a, &wide, axis)),
        38 => (lazy_a.take(&narrow, axis), rt.take(a, &narrow, axis)),
        39 => (
            lazy_a.take_along(lazy_a.argsort(axis, false), axis),
            rt.argsort(a, axis, false).and_then(|order| rt.take_along(a, &order, axis)),
        ),
        40 => (lazy_a.tanh().scatter_add(&own, lazy_a.tanh(), axis), {
            rt.tanh(a).and_then(|a| rt.scatter_add(&a, &own, &a, axis))
        }),
        41 => (lazy_a.lt(lazy_b).select(lazy_a, lazy_b), rt.lt(a, b).and_then(|less| rt.select(&less, a, b))),
        42 => (
            lazy_a.ge(number).select(lazy_b, number),
            rt.ge(a, number).and_then(|mask| rt.select(&mask, b, number)),
        ),
        43 => (lazy_a.ne(lazy_b).cast::<T>(), rt.ne(a, b).and_then(|mask| rt.cast(&mask))),
        44 => (lazy_a.clip(T::from_f64(-0.5), number), rt.clip(a, T::from_f64(-0.5), number)),
        45 => (lazy_a.concat(&[lazy_b], axis), rt.concat(&[a, b], axis)),
        46 => (lazy_a.concat(&[lazy_a, lazy_a], axis), rt.concat(&[a, a, a], axis)),
        47 if by.len() < 4 => (lazy_a.pad(&by, number), rt.pad(a, &by, number)),
        _ => (lazy_a.slice_assign(&first, lazy_b), rt.slice_assign(a, &first, b)),
    }
}

fn agree<T: Float>(rt: &Runtime, ops: &[Op], size: usize, tolerance: f64) -> Result<(), TestCaseError> {
    let given = |shape: &[usize], seed: usize| {
        let value = |index: usize| T::from_f64(((index * 37 + seed * 11) % 61) as f64 / 20.0 - 1.5);
        Tensor::from_fn(shape, value).unwrap()
    };
    let tensors = [
        given(&[size, 12], 1),
        given(&[size, 12], 2),
        given(&[12], 3),
        given(&[size, 1], 4),
        given(&[], 5),
        given(&[2, size, 12], 6),
        given(&[12, size], 7).transposed(),
    ];
    let mut values: Vec<(Expression<T>, Tensor<T>)> =
        tensors.iter().map(|tensor| (rt.lazy(tensor), tensor.clone())).collect();
    for op in ops {
        let (mut a, b) = (&values[op.lhs % values.len()], &values[op.rhs % values.len()]);
        if (33..37).contains(&op.code) {
            // Windows need a batch, channels and space.
            let spaces: Vec<_> = values.iter().filter(|(_, eager)| eager.shape().len() == 3).collect();
            a = spaces[op.lhs % spaces.len()];
        }
        let (lazy, eager) = step(cpu(), op, a, b);
        match eager {
            Ok(eager) => values.push((lazy, eager)),
            Err(_) => prop_assert!(lazy.error().is_some() && lazy.eval().is_err(), "{lazy:?}"),
        }
    }
    for (lazy, eager) in values.iter().rev().take(3) {
        let made = lazy.eval().unwrap();
        prop_assert_eq!(made.shape(), eager.shape());
        let largest = eager.to_vec().iter().fold(1.0f64, |most, x| most.max(x.to_f64().abs()));
        for (own, expected) in made.to_vec().iter().zip(eager.to_vec()) {
            let off = (own.to_f64() - expected.to_f64()).abs();
            prop_assert!(off <= tolerance * largest, "{own} {expected}: {:?}", lazy.explain());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_the_processor(ops in ops(ALL), size in 1..40usize) {
        agree::<f32>(cpu(), &ops, size, 2e-5)?;
        agree::<f64>(cpu(), &ops, size, 1e-12)?;
    }
}

#[cfg(feature = "wgpu")]
mod gpu {
    use super::*;
    use trimtab::Offload;

    fn runtime(offload: Offload) -> Runtime {
        let rt = builder().offload(offload).build().unwrap();
        assert!(rt.devices().len() > 1, "{:?}", rt.unusable());
        rt
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn on_a_gpu(ops in ops(EVERYWHERE), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let rt = RUNTIME.get_or_init(|| builder().device("gpu0").build().unwrap());
            agree::<f32>(rt, &ops, size, 1e-4)?;
        }

        #[test]
        fn everything_a_gpu_takes_on_a_gpu_and_the_rest_on_the_processor(ops in ops(ALL), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let rt = RUNTIME.get_or_init(|| runtime(Offload { all: Some(0), ..Offload::default() }));
            agree::<f32>(rt, &ops, size, 1e-4)?;
        }

        #[test]
        fn products_and_reductions_on_a_gpu_and_the_rest_on_the_processor(ops in ops(ALL), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let mixed = || Offload {
                matmul: Some(0),
                reduction: Some(0),
                all: Some(u64::MAX),
                ..Offload::default()
            };
            let rt = RUNTIME.get_or_init(|| runtime(mixed()));
            agree::<f32>(rt, &ops, size, 1e-4)?;
            agree::<f64>(rt, &ops, size, 1e-12)?;
        }

        #[test]
        fn elementwise_operations_on_a_gpu_from_some_size_on(ops in ops(ALL), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let mixed = || Offload { elementwise: Some(200), all: Some(u64::MAX), ..Offload::default() };
            let rt = RUNTIME.get_or_init(|| runtime(mixed()));
            agree::<f32>(rt, &ops, size, 1e-4)?;
        }
    }
}
