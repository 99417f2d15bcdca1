//! Every model in every order of events. How many orders there were is printed with `--nocapture`.

use trimtab_interleavings::{explore, of_blas, of_feedback, of_pool, of_table};

/// Fewer orders than this, and the threads of a model never met.
const FEWEST: u64 = 3;

fn check(name: &str, model: fn(), preemptions: usize) {
    let orders = explore(model, preemptions);
    eprintln!("{name}: {orders} orders of events");
    assert!(orders >= FEWEST, "{name}: {orders} orders of events");
}

/// The models of a module, by how many involuntary switches are tried.
macro_rules! models {
    ($($module:ident, $preemptions:literal: $($name:ident)+;)+) => {$($(
        #[test]
        fn $name() {
            check(stringify!($name), $module::$name, $preemptions);
        }
    )+)+};
}

models! {
    of_blas, 3: two_callers_of_a_library;
    of_blas, 2: three_callers_of_a_library;
    of_pool, 3: a_sleeper_is_woken a_caller_that_leaves_early those_not_wanted_stay_away;
    // With three these take minutes.
    of_pool, 2: jobs_one_after_the_other two_callers_at_once;
    of_table, 3: a_plan_is_always_found a_plan_is_found_in_the_second_level a_plan_is_found_when_the_table_is_full
        two_writers_leave_one a_try_goes_to_one a_try_never_outlives_the_plan_in_force a_forgotten_plan_is_not_replaced;
    of_feedback, 3: no_report_is_lost_or_doubled who_is_woken_finds_the_report one_of_two_changes_what_is_waited_for;
}
