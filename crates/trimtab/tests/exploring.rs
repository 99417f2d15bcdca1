//! Exploring with real kernels: whatever calls try, results are right and the budget holds.

mod support;

use support::fresh;
use trimtab::Tensor;
use trimtab::advanced::plan::TermsId;
use trimtab::advanced::plan::learn::PROCESS_SHARE;
use trimtab::{Nanos, Problem};

const CALLS: usize = 4_000;

#[test]
fn results_are_right_whatever_is_tried_and_it_stays_within_its_budget() {
    // Too little for a race: plans rest on estimates.
    let builder = fresh().device("cpu");
    let rt = builder.budget(Nanos(1)).live_resize(false).build().unwrap();
    let a = Tensor::from_fn(&[40, 56], |i| (i % 5) as f32).unwrap();
    let b = Tensor::from_fn(&[56, 48], |i| (i % 3) as f32).unwrap();
    let right = rt.matmul(&a, &b).unwrap().to_vec();
    let mut before = rt.planner().ledger();
    for call in 0..CALLS {
        // Small whole numbers: every kernel computes them exactly.
        assert_eq!(rt.matmul(&a, &b).unwrap().to_vec(), right, "call {call}");
        if call % 8 == 0 {
            rt.planner().drain();
            let now = rt.planner().ledger();
            // Nothing is started in debt; the one call that takes longer than it might is all that is ever owed.
            let in_debt = before.explored_ns > PROCESS_SHARE * now.total_ns;
            assert!(now.explored == before.explored || !in_debt, "{before:?} {now:?}");
            before = now;
        }
    }
    rt.planner().drain();
    let stats = rt.stats();
    assert!(stats.timed > 0 && stats.ledger.total_ns > 0.0, "{stats:?}");
    assert_eq!(stats.failed, 0);
    let problem: Problem = "matmul:f32:40x48x56".parse().unwrap();
    assert!(rt.planner().known(&problem, TermsId::default()).is_some());
}
