//! A program that uses OpenBLAS by itself finds the number of threads it had set, whatever a runtime does beside it. A test program of its
//! own: the number is the process's.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use libloading::Library;
use std::ffi::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{fresh, numbers};
use trimtab::Patience;
use trimtab::{Runtime, Tensor};

/// What the program had set.
const THEIRS: c_int = 2;

/// OpenBLAS as any program uses it.
struct OpenBlas(Library);

impl OpenBlas {
    fn threads(&self) -> c_int {
        // SAFETY: OpenBLAS declares `int openblas_get_num_threads(void)`.
        unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>("openblas_get_num_threads").unwrap()() }
    }

    fn set_threads(&self, threads: c_int) {
        // SAFETY: OpenBLAS declares `void openblas_set_num_threads(int)`.
        unsafe { self.0.get::<unsafe extern "C" fn(c_int)>("openblas_set_num_threads").unwrap()(threads) }
    }
}

fn multiplies(rt: &Runtime, size: usize) {
    let (a, ones): (Tensor<f32>, _) = (numbers(&[size, size]), Tensor::full(&[size, 1], 1.0f32).unwrap());
    let sums = rt.matmul(&a, &ones).unwrap().to_vec();
    let right = |row: usize| (0..size).map(|at| a.get(&[row, at]).unwrap()).sum::<f32>();
    assert!(sums.iter().enumerate().all(|(row, sum)| *sum == right(row)));
}

#[test]
fn openblas_has_the_threads_its_user_set() {
    // SAFETY: a library of the system, whose initialisers any program trusts that links it.
    let Ok(library) = (unsafe { Library::new("libopenblas.so.0") }) else {
        let _ = std::io::stderr().write_all(b"not run: threads of OpenBLAS: there is no libopenblas.so.0\n");
        return;
    };
    let library = OpenBlas(library);
    library.set_threads(THEIRS);
    if library.threads() != THEIRS {
        let _ = std::io::stderr().write_all(b"not run: threads of OpenBLAS: this one has one only\n");
        return;
    }
    let build_with = |settles: bool| {
        let builder = fresh().patience(Patience::Estimate).settle(settles);
        builder.force("cpu.matmul.openblas").build().unwrap()
    };
    let build = || build_with(true);
    let rt = build();
    assert_eq!(library.threads(), THEIRS, "a runtime was built");
    for size in [3, 64, 200] {
        multiplies(&rt, size);
        let winner = rt.explain(&format!("matmul:f32:{size}x1x{size}").parse().unwrap()).unwrap();
        assert_eq!(&*winner.winner().unwrap().name, "cpu.matmul.openblas");
        assert_eq!(library.threads(), THEIRS, "a product of {size}");
    }
    // Several threads, and two runtimes: whoever leaves first must not let the library loose under the others.
    let (other, over) = (build(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let callers = [&rt, &rt, &other, &other]
            .map(|rt| scope.spawn(move || (0..2_000).for_each(|call| multiplies(rt, 3 + call % 40))));
        let seen = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                seen.insert(library.threads());
            }
            seen
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        over.store(true, Ordering::Relaxed);
        let seen = seen.join().unwrap();
        assert!(seen.iter().all(|threads| [1, THEIRS].contains(threads)), "{seen:?}");
    });
    assert_eq!(library.threads(), THEIRS, "calls of several threads");
    drop((rt, other));
    assert_eq!(library.threads(), THEIRS, "the runtimes are gone");
    // One thread is a number like any other, and so is a number set later, but for one that is set while we are inside: nothing in the
    // background, where plans are checked.
    let rt = build_with(false);
    for theirs in [1, THEIRS] {
        library.set_threads(theirs);
        multiplies(&rt, 50);
        assert_eq!(library.threads(), theirs);
    }
}
