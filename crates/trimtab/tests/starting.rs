//! Starting: once, from many threads and from an executor, without waiting for each other; and not at all for what is switched off.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier, OnceLock};
use std::task::{Context, Poll, Waker};
use support::fresh;
use trimtab::advanced::core::{DeviceKind, Patience};
use trimtab::advanced::plan::{Offload, Why};
use trimtab::{Error, Runtime, Tensor};

const THREADS: usize = 16;

/// The runtime all threads here share, as a library would keep it.
fn shared() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = fresh();
        builder.patience(Patience::Estimate).build().unwrap()
    })
}

/// Polls until it is ready: the least an executor does.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn product() -> f32 {
    let a = Tensor::full(&[33, 17], 2.0f32).unwrap();
    let b = Tensor::full(&[17, 29], 0.5f32).unwrap();
    shared().matmul(&a, &b).unwrap().get(&[32, 28]).unwrap()
}

#[test]
fn many_threads_and_an_executor_start_at_once_and_get_the_same_runtime() {
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads = (0..THREADS).map(|nth| {
        let barrier = Arc::clone(&barrier);
        std::thread::spawn(move || {
            barrier.wait();
            let value = if nth % 4 == 0 { block_on(async { product() }) } else { product() };
            (value, std::ptr::from_ref(shared()) as usize)
        })
    });
    let threads: Vec<_> = threads.collect();
    let seen: Vec<(f32, usize)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(seen.iter().all(|one| *one == seen[0] && one.0 == 17.0), "{seen:?}");
}

#[test]
fn with_offload_off_no_gpu_is_looked_for_and_explain_says_so() {
    let builder = || fresh().patience(Patience::Estimate);
    let off = || Offload { off: true, ..Offload::default() };
    let runtime = builder().offload(off()).build().unwrap();
    let kinds: Vec<DeviceKind> = runtime.devices().iter().map(|device| device.facts().kind).collect();
    assert_eq!(kinds, [DeviceKind::Cpu]);
    // What is missing on a machine is told by whoever looks; here nobody did.
    assert_eq!(runtime.unusable(), ["offload is off (TRIMTAB_OFFLOAD): no GPU was looked for"]);
    let decision = runtime.explain(&"elementwise.add:f32:1000".parse().unwrap()).unwrap();
    assert_eq!(decision.overruled, Some(Why::Disabled));
    assert!(decision.notes().iter().any(|note| note.contains("offload is off")), "{:?}", decision.notes());
    let pinned = builder().offload(off()).device("gpu0").build();
    let Err(Error::NoSuchDevice { known, .. }) = &pinned else { unreachable!("{pinned:?}") };
    assert!(known.contains("offload is off"), "{known}");
}
