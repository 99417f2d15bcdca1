//! Models of the thread pool: callers and helpers at its board.

use crate::board::Board;
use crate::join;
use crate::sync::{AtomicUsize, Ordering, UnsafeCell};
use loom::sync::{Arc, Notify};
use loom::thread::{self, JoinHandle};

/// What tasks write to: one place each.
struct Output([UnsafeCell<usize>; 2]);

// SAFETY: each task runs once and has a place of its own, and is read after the job is closed; loom checks just that.
unsafe impl Sync for Output {}
// SAFETY: numbers may go anywhere.
unsafe impl Send for Output {}

#[derive(Clone)]
struct Job {
    output: Arc<Output>,
    number: usize,
}

impl Job {
    fn new(number: usize) -> Job {
        Job { output: Arc::new(Output([UnsafeCell::new(0), UnsafeCell::new(0)])), number }
    }

    fn take_tasks(&self, board: &Board<Job>) {
        while let Some(task) = board.next_task(self.output.0.len()) {
            // SAFETY: each task has its own place, and runs once.
            self.output.0[task].with_mut(|place| unsafe { *place += self.number });
        }
    }

    fn is_done(&self) {
        for place in &self.output.0 {
            // SAFETY: the job is closed: nobody writes.
            assert_eq!(place.with(|place| unsafe { *place }), self.number, "each task runs once");
        }
    }
}

fn board_and_helper() -> (Arc<Board<Job>>, JoinHandle<()>) {
    let board = Arc::new(Board::new(Job::new(0), 1));
    let shared = Arc::clone(&board);
    let helper = thread::spawn(move || shared.help(0, |job| job.take_tasks(&shared)));
    (board, helper)
}

fn go_home(board: &Board<Job>, helper: JoinHandle<()>) {
    board.take_down();
    helper.thread().unpark();
    join(helper);
}

/// Runs a job as `Pool::run` does.
fn run(board: &Board<Job>, number: usize, wake: impl Fn(usize)) {
    let job = Job::new(number);
    match board.open(job.clone(), 1, wake) {
        None => job.output.0.iter().for_each(|place| {
            // SAFETY: nobody else has this job.
            place.with_mut(|place| unsafe { *place += number });
        }),
        Some(mut open) => {
            job.take_tasks(board);
            open.close();
        }
    }
    job.is_done();
}

/// Two jobs one after the other: each task runs once, on the job it belongs to, and what it wrote is there at the end.
pub fn jobs_one_after_the_other() {
    let (board, helper) = board_and_helper();
    for number in [1, 2] {
        run(&board, number, |_| helper.thread().unpark());
    }
    go_home(&board, helper);
}

/// Two callers at once: one has the helper, the other computes by itself, and both get what they asked for.
pub fn two_callers_at_once() {
    let (board, helper) = board_and_helper();
    let shared = Arc::clone(&board);
    let wake = helper.thread().clone();
    let other = thread::spawn(move || run(&shared, 2, |_| wake.unpark()));
    run(&board, 1, |_| helper.thread().unpark());
    join(other);
    go_home(&board, helper);
}

/// A helper that goes to sleep while a job is put up comes to it: the caller waits until it did.
pub fn a_sleeper_is_woken() {
    let board = Arc::new(Board::new((), 1));
    let came = Arc::new(Notify::new());
    let (shared, notes) = (Arc::clone(&board), Arc::clone(&came));
    let helper = thread::spawn(move || shared.help(0, |()| notes.notify()));
    let open = board.open((), 1, |_| helper.thread().unpark());
    came.wait();
    drop(open);
    board.take_down();
    helper.thread().unpark();
    join(helper);
}

/// A job that is dropped before it is closed, as by a caller that unwinds, is still nobody's after that.
pub fn a_caller_that_leaves_early() {
    let (board, helper) = board_and_helper();
    let job = Job::new(1);
    drop(board.open(job.clone(), 1, |_| helper.thread().unpark()));
    for place in &job.output.0 {
        // SAFETY: the job is closed: nobody else has it.
        place.with_mut(|place| unsafe { *place = 0 });
    }
    go_home(&board, helper);
}

/// Helpers beyond the number asked for stay away.
pub fn those_not_wanted_stay_away() {
    let board = Arc::new(Board::new((), 2));
    let count = Arc::new(AtomicUsize::new(0));
    let (shared, counts) = (Arc::clone(&board), Arc::clone(&count));
    let second = thread::spawn(move || {
        shared.help(1, |()| {
            counts.fetch_add(1, Ordering::Relaxed);
        });
    });
    drop(board.open((), 1, |_| second.thread().unpark()));
    board.take_down();
    second.thread().unpark();
    join(second);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}
