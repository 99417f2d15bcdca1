//! Models of the table of plans: readers beside writers.

use crate::join;
use crate::plan::Plan;
use crate::table::{Table, TermsId};
use loom::sync::Arc;
use loom::thread;
use trimtab_core::{Custom, KernelId, Nanos, Point, Problem};

const TERMS: TermsId = TermsId(0);

fn problem() -> Problem {
    match Custom::new("p", &[1]) {
        Ok(problem) => problem.into(),
        Err(error) => unreachable!("{error}"),
    }
}

fn plan(kernel: u32) -> Plan {
    Plan::new(0, KernelId(kernel), Point::EMPTY, Nanos(1))
}

/// Four slots are enough for a chain of three; of the second level where the first is half full.
fn table() -> Arc<Table> {
    Arc::new(Table::sized([4, 4, 4]))
}

fn kernel(table: &Table) -> Option<u32> {
    table.get(&problem(), TERMS).map(|(_, plan)| plan.kernel.0)
}

/// While one plan replaces another, and goes back, a reader finds one of them.
pub fn a_plan_is_always_found() {
    let table = table();
    table.publish(&problem(), TERMS, plan(1));
    let shared = Arc::clone(&table);
    let writer = thread::spawn(move || {
        shared.publish(&problem(), TERMS, plan(2));
        shared.publish(&problem(), TERMS, plan(1));
    });
    assert!(matches!(kernel(&table), Some(1 | 2)), "one of them is in force at any time");
    join(writer);
    assert_eq!(kernel(&table), Some(1));
}

/// The same where the third plan is in the second level of the table.
pub fn a_plan_is_found_in_the_second_level() {
    let table = table();
    table.publish(&problem(), TERMS, plan(1));
    table.publish(&problem(), TERMS, plan(2));
    let shared = Arc::clone(&table);
    let writer = thread::spawn(move || shared.publish(&problem(), TERMS, plan(3)).id);
    assert!(matches!(kernel(&table), Some(2 | 3)), "one of them is in force at any time");
    assert!(join(writer) > 4, "it is in the second level");
    assert_eq!(kernel(&table), Some(3));
}

/// A plan that comes when the table is full is found in the map once the one before is over.
pub fn a_plan_is_found_when_the_table_is_full() {
    let table = Arc::new(Table::sized([2, 1, 1]));
    table.publish(&problem(), TERMS, plan(1));
    table.publish(&problem(), TERMS, plan(2));
    let shared = Arc::clone(&table);
    let writer = thread::spawn(move || shared.publish(&problem(), TERMS, plan(3)).id);
    let found = kernel(&table);
    let found = found.or_else(|| table.get_overflow(&problem(), TERMS).map(|plan| plan.kernel.0));
    assert!(matches!(found, Some(2 | 3)), "one of them is in force at any time: {found:?}");
    assert_eq!(join(writer), 0, "it is in the map");
}

/// Two writers leave one plan in force, whoever came last.
pub fn two_writers_leave_one() {
    let table = table();
    let shared = Arc::clone(&table);
    let other = thread::spawn(move || shared.publish(&problem(), TERMS, plan(2)));
    table.publish(&problem(), TERMS, plan(1));
    let second = join(other);
    let (id, last) = match kernel(&table) {
        Some(2) => (second.id, 2),
        _ => (table.publish(&problem(), TERMS, plan(1)).id, 1),
    };
    assert_eq!(kernel(&table), Some(last));
    table.clear(|plan| plan.id == id);
    assert_eq!(kernel(&table), None, "the other is over");
}

/// A plan that is to be tried goes to one of two calls, or is taken back: never two of these, and never none.
pub fn a_try_goes_to_one() {
    let table = table();
    let force = table.publish(&problem(), TERMS, plan(1));
    let Some(tried) = table.try_once(&problem(), TERMS, force.id, plan(2)) else { unreachable!() };
    let takes = |table: &Table| table.take(&problem(), TERMS).map(|(_, plan)| plan.id);
    let shared = Arc::clone(&table);
    let other = thread::spawn(move || takes(&shared));
    let mine = takes(&table);
    let back = table.take_back(force.id, tried.id);
    let theirs = join(other);
    let got = [mine, theirs].into_iter().filter(|id| *id == Some(tried.id)).count();
    assert_eq!(got + usize::from(back), 1);
    assert!([mine, theirs].into_iter().all(|id| id == Some(tried.id) || id == Some(force.id)));
    assert_eq!(kernel(&table), Some(1));
}

/// A plan that is to be tried while the plan in force is replaced never brings that back.
pub fn a_try_never_outlives_the_plan_in_force() {
    let table = table();
    let force = table.publish(&problem(), TERMS, plan(1));
    table.try_once(&problem(), TERMS, force.id, plan(2));
    let shared = Arc::clone(&table);
    let writer = thread::spawn(move || shared.publish(&problem(), TERMS, plan(3)));
    let taken = table.take(&problem(), TERMS).map(|(_, plan)| plan.kernel.0);
    assert!(taken.is_some(), "a call always gets a plan");
    join(writer);
    assert_eq!(kernel(&table), Some(3));
    assert_eq!(table.in_force(force.id), None);
}

/// What is forgotten stays so: who replaces a plan meanwhile comes before or not at all.
pub fn a_forgotten_plan_is_not_replaced() {
    let table = table();
    let force = table.publish(&problem(), TERMS, plan(1));
    let shared = Arc::clone(&table);
    let writer = thread::spawn(move || shared.replace(&problem(), TERMS, force.id, plan(2)));
    table.clear(|_| true);
    join(writer);
    assert_eq!(kernel(&table), None);
}
