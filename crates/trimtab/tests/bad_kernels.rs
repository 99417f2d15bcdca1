//! A bad kernel of a user's own costs itself: others go on, and what it did is said.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{Negates, fresh};
use trimtab::advanced::core::{Bytes, LaunchError, Problem};
use trimtab::advanced::plan::{Decision, Reason, Rival};
use trimtab::{Runtime, Tensor};

/// A runtime at default settings with a user's kernel that does something else before it negates.
fn with(name: &'static str, first: impl Fn() -> Result<(), LaunchError> + Send + Sync + 'static) -> Runtime {
    // So little to do that it is tried first.
    fresh().kernel(Negates { name, bytes: |_| Bytes(1), first }).build().unwrap()
}

fn decided(rt: &Runtime, size: usize) -> Arc<Decision> {
    let x = Tensor::full(&[size], 1.0f32).unwrap();
    assert_eq!(rt.neg(&x).unwrap(), Tensor::full(&[size], -1.0).unwrap());
    let problem: Problem = format!("elementwise.neg:f32:{size}").parse().unwrap();
    rt.explain(&problem).unwrap()
}

fn its<'a>(decision: &'a Decision, name: &str) -> &'a Rival {
    decision.rivals.iter().find(|rival| &*rival.name == name).unwrap()
}

#[test]
fn a_kernel_that_hangs_is_started_once_and_others_go_on_being_measured() {
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let rt = with("user.hangs", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        loop {
            std::thread::park();
        }
    });
    let decisions: Vec<Arc<Decision>> = (1..=12).map(|nth| decided(&rt, nth * 1000)).collect();
    let last = &decisions[11];
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    assert!(matches!(last.reason, Reason::Raced | Reason::Learned), "{:?}", last.reason);
    let last = rt.planner().survey(last);
    let why = its(&last, "user.hangs").out_because().unwrap();
    assert!(why.contains("still hangs in this process"), "{why}");
}

#[test]
fn a_panic_is_a_launch_failure_and_explain_says_so() {
    let rt = with("user.panics", || panic!("out of ideas"));
    let decision = decided(&rt, 100);
    let why = its(&decision, "user.panics").out_because().unwrap();
    assert!(why.contains("launch: panicked: out of ideas"), "{why}");
    let notes: Vec<String> = decision.events.iter().filter_map(|event| event.note()).collect();
    assert!(
        notes.iter().any(|note| note.starts_with("user.panics") && note.contains("panicked")),
        "{notes:?}"
    );
}
