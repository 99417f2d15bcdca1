//! Models of the ring in which calls leave what they took.

use crate::feedback::Feedback;
use crate::join;
use crate::plan::Plan;
use loom::sync::Arc;
use loom::thread;
use trimtab_core::{KernelId, Nanos, Point};

/// Long enough that a report wakes who drains.
const LONG_NS: u64 = 1_000_000;

fn plan(id: u32) -> Plan {
    Plan { id, ..Plan::new(0, KernelId(0), Point::EMPTY, Nanos(1)) }
}

/// Two callers and who drains, with a ring that is soon full: each report is taken once, or counted as dropped.
pub fn no_report_is_lost_or_doubled() {
    let feedback = Arc::new(Feedback::new());
    let callers = [1, 2].map(|id| {
        let shared = Arc::clone(&feedback);
        thread::spawn(move || shared.report(&plan(id), u64::from(id)))
    });
    let mut taken: Vec<u32> = feedback.take().into_iter().map(|report| report.plan_id).collect();
    for caller in callers {
        join(caller);
    }
    while let Some(report) = feedback.take() {
        assert_eq!(u64::from(report.plan_id), report.elapsed_ns, "a report is whole");
        taken.push(report.plan_id);
    }
    taken.dedup();
    assert_eq!(taken.len() as u64 + feedback.dropped(), 2);
}

/// Who waits for a plan's reports and is woken finds one.
pub fn who_is_woken_finds_the_report() {
    let feedback = Arc::new(Feedback::new());
    let shared = Arc::clone(&feedback);
    let drainer = thread::spawn(move || {
        let report = loop {
            match shared.take() {
                Some(report) => break report,
                None => thread::park(),
            }
        };
        assert_eq!(report.plan_id, 7);
    });
    feedback.drained_by(drainer.thread());
    feedback.await_reports(0, 7);
    feedback.report(&plan(7), LONG_NS);
    join(drainer);
}

/// Of two who change what is waited for, one does; the other knows no better.
pub fn one_of_two_changes_what_is_waited_for() {
    let feedback = Arc::new(Feedback::new());
    let shared = Arc::clone(&feedback);
    let other = thread::spawn(move || shared.await_reports(0, 1));
    feedback.await_reports(0, 2);
    join(other);
    let first = feedback.awaited();
    assert!(first == 1 || first == 2);
    feedback.await_reports(0, 3);
    assert_eq!(feedback.awaited(), first);
}
