//! What the tests of the runtime share: how one is made, numbers, how results are read, and a kernel of a user.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part of this, and fails where that fails"
)]

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;
use trimtab::advanced::core::{
    Bytes, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError, Patience,
    UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu, Element};
use trimtab::{Builder, Error, Runtime, Tensor};

/// What every runtime of a test starts from: nothing of the environment, nothing remembered.
pub fn fresh() -> Builder {
    Runtime::builder().ignore_environment().wisdom_in_memory()
}

/// The same with what is remembered in a directory.
pub fn kept_in(dir: &Path) -> Builder {
    Runtime::builder().ignore_environment().wisdom_dir(dir)
}

/// Chooses among our own kernels by estimates.
pub fn builder() -> Builder {
    fresh().no_blas().patience(Patience::Estimate)
}

/// Chooses by estimates, so that hundreds of small problems cost no races; each kernel is still checked before use.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| fresh().patience(Patience::Estimate).build().unwrap())
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

trimtab::advanced::core::config! { pub struct NoSettings {} }

/// A user's kernel that negates f32, after it did something of its own.
pub struct Negates<F> {
    pub name: &'static str,
    /// What it says it reads and writes: the less, the sooner it is tried.
    pub bytes: fn(&Elementwise) -> Bytes,
    pub first: F,
}

impl<F: Fn() -> Result<(), LaunchError> + Send + Sync + 'static> Variant<Cpu> for Negates<F> {
    type Problem = Elementwise;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        let mine = problem.op == ElementwiseOp::Unary(UnaryOp::Neg) && problem.dtype == DType::F32;
        (!mine).then(|| Decline::because("does neg of f32 only"))
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, problem: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: (self.bytes)(problem), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        (self.first)()?;
        let args = args.typed::<f32>([problem.lhs_len(), 0, problem.out_len()])?;
        args.out.iter_mut().zip(args.lhs).for_each(|(out, x)| *out = -x);
        Ok(())
    }
}
