//! Runs work on a thread that can be left behind: a hanging candidate costs its time-out, not the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use trimtab_core::{Failure, FailureKind, Nanos, panic_message};

/// Most threads that may hang at the same time; with more, nothing new is tried until one ends.
pub const MAX_ABANDONED: u32 = 8;

type Task = Box<dyn FnOnce() + Send>;

/// A thread for risky work, replaced when it has to be left behind.
#[derive(Debug, Default)]
pub struct Sandbox {
    worker: Option<SyncSender<Task>>,
    abandoned: Arc<AtomicU32>,
}

impl Sandbox {
    /// A sandbox that counts the threads it leaves behind in `abandoned`, shared by all sandboxes of a device.
    pub fn new(abandoned: Arc<AtomicU32>) -> Sandbox {
        Sandbox { worker: None, abandoned }
    }

    /// Runs `task` and waits for it at most `timeout`. A panic is a launch failure, a late answer is dropped.
    pub fn run<R: Send + 'static>(
        &mut self,
        timeout: Nanos,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let (answer, answers) = sync_channel(1);
        let task: Task = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(task));
            // Nobody listens after a time-out.
            let _ = answer.send(outcome.map_err(|panic| panic_message(panic.as_ref())));
        });
        self.submit(task)?;
        match answers.recv_timeout(timeout.duration()) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(message)) => Err(Failure::new(FailureKind::Launch, format!("panicked: {message}"))),
            Err(RecvTimeoutError::Timeout) => {
                // The thread ends by itself after the task, when its queue is gone; until then it counts.
                self.abandoned.fetch_add(1, Ordering::Relaxed);
                let abandoned = Arc::clone(&self.abandoned);
                if let Some(worker) = self.worker.take() {
                    let back: Task = Box::new(move || {
                        abandoned.fetch_sub(1, Ordering::Relaxed);
                    });
                    let _ = worker.try_send(back);
                }
                Err(Failure::new(FailureKind::TimedOut, format!("no result within {timeout}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.worker = None;
                Err(Failure::new(FailureKind::Launch, "its thread ended without an answer"))
            }
        }
    }

    fn submit(&mut self, task: Task) -> Result<(), Failure> {
        let stuck = self.abandoned.load(Ordering::Relaxed);
        if stuck >= MAX_ABANDONED {
            let message = format!("not tried: {stuck} earlier candidates still hang in this process");
            return Err(Failure::new(FailureKind::Untried, message));
        }
        if self.worker.is_none() {
            // Room for one task and the note that the thread came back.
            let (sender, tasks) = sync_channel::<Task>(2);
            let run = move || tasks.into_iter().for_each(|task| task());
            std::thread::Builder::new().name("trimtab-bench".to_string()).spawn(run).map_err(|error| {
                Failure::new(FailureKind::Untried, format!("no thread to measure on: {error}"))
            })?;
            self.worker = Some(sender);
        }
        match self.worker.as_ref().map(|worker| worker.send(task)) {
            Some(Ok(())) => Ok(()),
            _ => Err(Failure::new(FailureKind::Launch, "the measuring thread is gone")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_back_and_a_panic_is_a_launch_failure() {
        let mut sandbox = Sandbox::default();
        assert_eq!(sandbox.run(Nanos::from_millis(10_000), || 7), Ok(7));
        let failure = sandbox.run(Nanos::from_millis(10_000), || -> u32 { panic!("boom") }).unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Launch, "panicked: boom"));
        assert_eq!(sandbox.run(Nanos::from_millis(10_000), || 8), Ok(8));
    }

    #[test]
    fn a_hanging_task_costs_its_time_out_and_is_counted_until_it_ends() {
        let abandoned = Arc::new(AtomicU32::new(0));
        let mut sandbox = Sandbox::new(Arc::clone(&abandoned));
        let (let_go, wait) = sync_channel::<()>(0);
        let failure = sandbox.run(Nanos::from_millis(5), move || wait.recv().is_ok()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert_eq!(abandoned.load(Ordering::Relaxed), 1);
        assert_eq!(sandbox.run(Nanos::from_millis(10_000), || 1), Ok(1));
        let_go.send(()).unwrap();
        while abandoned.load(Ordering::Relaxed) != 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn too_many_hanging_tasks_stop_new_ones() {
        let mut sandbox = Sandbox::new(Arc::new(AtomicU32::new(MAX_ABANDONED)));
        let failure = sandbox.run(Nanos(1), || ()).unwrap_err();
        assert!(failure.kind == FailureKind::Untried && failure.message.contains("still hang"));
    }
}
