//! Random expressions agree with one operation at a time: on the processor, on a GPU, and divided between them.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use proptest::prelude::*;
use std::sync::OnceLock;
use support::builder;
use trimtab::{Axis, Error, Expression, Float, Runtime, Tensor};

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

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = (0..22u8, 0..100usize, 0..100usize, -2.0..2.0f64);
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
        _ => (lazy_a / (lazy_b.abs() + T::from_f64(1.0)), {
            let below = rt.abs(b).and_then(|b| rt.add(&b, T::from_f64(1.0)));
            below.and_then(|below| rt.div(a, &below))
        }),
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
        let (a, b) = (&values[op.lhs % values.len()], &values[op.rhs % values.len()]);
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
    fn on_the_processor(ops in ops(), size in 1..40usize) {
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
        fn on_a_gpu(ops in ops(), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let rt = RUNTIME.get_or_init(|| builder().device("gpu0").build().unwrap());
            agree::<f32>(rt, &ops, size, 1e-4)?;
        }

        #[test]
        fn products_and_reductions_on_a_gpu_and_the_rest_on_the_processor(ops in ops(), size in 1..24usize) {
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
        fn elementwise_operations_on_a_gpu_from_some_size_on(ops in ops(), size in 1..24usize) {
            static RUNTIME: OnceLock<Runtime> = OnceLock::new();
            let mixed = || Offload { elementwise: Some(200), all: Some(u64::MAX), ..Offload::default() };
            let rt = RUNTIME.get_or_init(|| runtime(mixed()));
            agree::<f32>(rt, &ops, size, 1e-4)?;
        }
    }
}
