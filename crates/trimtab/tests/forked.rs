//! A forked child goes on with the runtime it inherited: it has the memory, and none of the threads. A test program of its own, so that
//! no other test's thread holds a lock at that moment.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use support::{Negates, kept_in, numbers};
use trimtab::advanced::wisdom::Wisdom;
use trimtab::{Bytes, Device, Problem};
use trimtab::{Runtime, Tensor};

/// What only the child computes.
const CHILDS: &str = "matmul:f32:37x43x41";
/// Seconds after which a child that hangs is ended.
const LONG: u32 = 120;

fn computes(rt: &Runtime, [m, n, k]: [usize; 3]) {
    let (a, b): (Tensor<f32>, Tensor<f32>) = (numbers(&[m, k]), numbers(&[k, n]));
    let product = rt.matmul(&a, &b).unwrap();
    let right = |row: usize, column: usize| {
        (0..k).map(|at| a.get(&[row, at]).unwrap() * b.get(&[at, column]).unwrap()).sum::<f32>()
    };
    assert_eq!(product.get(&[m - 1, n / 2]).unwrap(), right(m - 1, n / 2));
    // Large enough for several threads, a user's kernel, and an expression.
    let x: Tensor<f32> = numbers(&[300_000]);
    let negative = rt.neg(&x).unwrap();
    assert!((0..300_000).step_by(997).all(|at| negative.get(&[at]).unwrap() == -x.get(&[at]).unwrap()));
    let whole = (rt.lazy(&x) + rt.lazy(&negative)).to_vec().unwrap();
    assert!(whole.iter().all(|sum| *sum == 0.0));
}

/// Runs something in a child; whether it came to its end there.
fn in_child(run: impl FnOnce()) -> bool {
    // SAFETY: the child runs what it is given and ends without returning from here. Threads of this process do nothing that it would wait
    // for: those of the runtime sleep, and there is no other test.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends the child, sooner or later.
            unsafe { libc::alarm(LONG) };
            let ended = catch_unwind(AssertUnwindSafe(run));
            // SAFETY: ends the child at once: the rest of this program is the parent's.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process, and a number that lives.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

fn files(dir: &Path, start: &str) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
    names.sort();
    names
}

#[test]
fn a_forked_child_computes_and_drops_the_runtime_and_the_parent_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = |problem: &trimtab::advanced::core::Elementwise| Bytes(problem.out_len() / 8 + 1);
    let users = Negates { name: "user.negates", bytes, first: || Ok(()) };
    let rt = kept_in(dir.path()).settle(false).kernel(users).force("user.negates").build().unwrap();
    computes(&rt, [200, 200, 200]);
    rt.wisdom().flush();
    let (segments, notes) = (files(dir.path(), "seg-"), files(dir.path(), "running-"));
    assert_eq!((segments.len(), notes.len()), (1, 1), "the user's kernel is noted while it runs");
    let mut rt = Some(rt);
    assert!(in_child(|| drop(rt.take())), "it drops the runtime");
    let (threads, problem) =
        (rt.as_ref().unwrap().cpu().pool().threads(), CHILDS.parse::<Problem>().unwrap());
    let works = in_child(|| {
        let rt = rt.take().unwrap();
        assert_eq!(rt.cpu().pool().threads(), 1);
        computes(&rt, [200, 200, 200]);
        computes(&rt, [37, 43, 41]);
        assert!(!rt.wisdom().facts(&rt.cpu().facts().fingerprint.to_string(), CHILDS).is_empty());
        rt.wisdom().flush();
        // A child of the child.
        assert!(in_child(|| computes(&rt, [37, 43, 41])));
        drop(rt);
    });
    assert!(works, "it computes");
    let rt = rt.unwrap();
    assert_eq!(rt.cpu().pool().threads(), threads);
    assert!(rt.planner().known(&problem, rt.planner().terms(rt.terms()).unwrap()).is_none());
    computes(&rt, [200, 200, 200]);
    assert_eq!((files(dir.path(), "seg-"), files(dir.path(), "running-")), (segments, notes));
    drop(rt);
    assert!(files(dir.path(), "running-").is_empty());
    let wisdom = Wisdom::open(dir.path());
    assert!(wisdom.warnings().is_empty(), "{:?}", wisdom.warnings());
    let facts = wisdom.all_facts();
    assert!(facts.iter().any(|fact| fact.key.problem == "matmul:f32:200x200x200"));
    assert!(facts.iter().all(|fact| fact.key.problem != CHILDS), "what the child measured is its own");
}
