//! The kernels of products, elementwise work, reductions and transpositions as they are called: every point, special values, accuracy.
//!
//! Apart from the library's unit tests, so that those need not compile every kernel once more.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod device;
mod elementwise;
mod matmul;
mod reduce;
mod transpose;

use trimtab_core::{
    AnyKernel, Bytes, Cache, DeviceFacts, DeviceKind, Fingerprint, Habits, LaunchError, Point, Problem,
};
use trimtab_cpu::{Args, Cpu, Pool};
use trimtab_operands::Element;

/// A device of two threads with caches so small that streamed stores are offered for test sizes.
fn facts() -> DeviceFacts {
    let cache = |level, size| Cache { level, size: Bytes(size), shared_by: 1, line: 64 };
    DeviceFacts {
        adapter: None,
        id: "cpu".to_string(),
        name: "test".to_string(),
        kind: DeviceKind::Cpu,
        habits: Habits::HOST,
        fingerprint: Fingerprint("test".to_string()),
        cores: Some(2),
        threads: 2,
        caches: vec![cache(1, 8 << 10), cache(2, 16 << 10)],
        vector_bytes: None,
        features: vec![],
        numa_nodes: Some(1),
        memory: None,
        notes: vec![],
    }
}

/// A result, or how it failed.
fn launch<T: Element>(
    kernel: &dyn AnyKernel<Cpu>,
    problem: &Problem,
    point: &Point,
    lhs: &[T],
    rhs: &[T],
    pool: &Pool,
) -> Result<Vec<T>, LaunchError> {
    // What the result holds before must not matter.
    let mut out = vec![T::from_f64(77.0); problem.out_len() as usize];
    let args = Args { inputs: &[T::erase(lhs), T::erase(rhs)], out: T::erase_mut(&mut out), pool };
    kernel.launch(problem, point, args).map(|()| out)
}
