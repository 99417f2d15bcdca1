//! What the tests of operations share: a runtime, numbers, and how results are read.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::OnceLock;
use trimtab::core::Patience;
use trimtab::cpu::Element;
use trimtab::{Error, Runtime, Tensor};

/// Chooses by estimates, so that hundreds of small problems cost no races; each kernel is still checked before use.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = Runtime::builder().ignore_environment().wisdom_in_memory();
        builder.patience(Patience::Estimate).build().unwrap()
    })
}

/// Small whole numbers, so that every order of summation is exact.
pub fn numbers<T: Element>(shape: &[usize]) -> Tensor<T> {
    Tensor::from_fn(shape, |index| T::from_f64((index * 7 % 11) as f64 - 5.0)).unwrap()
}

/// Every index of a shape in row-major order.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
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
pub fn read<T: Element>(tensor: &Tensor<T>) -> Vec<f64> {
    indices(tensor.shape()).iter().map(|index| tensor.get(index).unwrap().to_f64()).collect()
}

/// The call failed with these words in its message.
pub fn message<R: std::fmt::Debug>(outcome: Result<R, Error>, parts: &[&str]) {
    let text = outcome.unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in `{text}`");
    }
}
