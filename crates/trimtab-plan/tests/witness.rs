//! Whoever wants to hear of it is told which plans the background replaces, and what live calls took.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::{Arc, Mutex};
use trimtab_core::{Custom, Device, Nanos, Problem, Terms};
use trimtab_plan::{Decision, Plan, Planner, Reason, Settings, TermsId, Witness};
use trimtab_wisdom::Wisdom;

#[derive(Default)]
struct Heard {
    changes: Mutex<Vec<(u32, Reason, String)>>,
    calls: Mutex<Vec<(u32, u64, u64)>>,
}

impl Witness for Heard {
    fn changed(&self, plan: &Plan, decision: &Decision) {
        let name = decision.winner().unwrap().name.to_string();
        self.changes.lock().unwrap().push((plan.number(), decision.reason, name));
    }

    fn ran(&self, plan: u32, calls: u64, total: Nanos) {
        self.calls.lock().unwrap().push((plan, calls, total.0));
    }
}

fn calls(planner: &Planner, device: &Scripted, problem: &Problem, count: usize) {
    for _ in 0..count {
        let plan = *planner.for_call(problem, TermsId::default()).unwrap().1;
        planner.report(&plan, Nanos(device.ns(plan.kernel, &plan.point)));
        planner.drain();
    }
}

#[test]
fn a_plan_that_live_calls_replaced_is_told_with_its_reason_and_so_is_every_timed_call() {
    let device = Scripted::new(vec![
        kernel("first", &[(1, 120_000)]),
        kernel("fast", &[(1, 100_000)]),
        reference(900_000),
    ]);
    let devices = vec![Arc::clone(&device) as Arc<dyn Device>];
    let planner = Planner::new(devices, Arc::new(Wisdom::in_memory()), Settings::default(), Terms::default());
    let heard = Arc::<Heard>::default();
    planner.tell(Arc::clone(&heard) as Arc<dyn Witness>);
    let problem: Problem = Custom::new("op", &[8]).unwrap().into();
    let (first, made) = planner.decide(&problem, TermsId::default()).unwrap();
    assert_eq!(made.unwrap().reason, Reason::Raced);
    assert!(planner.decide(&problem, TermsId::default()).unwrap().1.is_none(), "known by now");
    calls(&planner, &device, &problem, 30);
    assert!(heard.changes.lock().unwrap().is_empty());
    let counted: u64 = heard.calls.lock().unwrap().iter().map(|(_, calls, _)| calls).sum();
    assert_eq!(counted, 30);
    assert!(
        heard.calls.lock().unwrap().iter().all(|&(plan, n, ns)| plan == first.number() && ns == n * 100_000)
    );
    device.slow_down("fast", 1.5);
    calls(&planner, &device, &problem, 20);
    let changes = heard.changes.lock().unwrap().clone();
    let now = planner.known(&problem, TermsId::default()).unwrap().1.number();
    assert_eq!(changes, [(now, Reason::Raced, "first".to_string())]);
}
