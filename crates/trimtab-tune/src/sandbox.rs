//! Runs work on a thread that can be left behind: a hanging candidate costs its time-out, not the process.

use crate::allowance::{Allowance, Times};
use crate::clock::Stopwatch;
use crate::leash::counted;
use crate::threads::{ThreadClock, ThreadId};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Once, OnceLock};
use trimtab_core::{Failure, FailureKind, Nanos, panic_message};

/// Most threads that may hang at the same time; with more, nothing new is tried until one ends.
pub const MAX_ABANDONED: u32 = 8;
/// The steps of a wait. One that takes twice as long or more was a pause of the whole process, or of its machine.
const STEP: Nanos = Nanos::from_millis(50);
const STEP_MIN: Nanos = Nanos::from_millis(1);

type Task = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Of a measuring thread: that it panics, for who waits for it.
    static PANICS: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Notes panics of measuring threads as they begin: what the former hook prints, with a backtrace, takes longer than many
/// time-outs, and a panic is none.
fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(watch_now);
}

fn watch_now() {
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A thread that ends has no such note any more.
        let _ = PANICS.try_with(|panics| {
            if let Ok(Some(panics)) = panics.try_borrow().as_deref() {
                panics.store(true, Ordering::Relaxed);
            }
        });
        former(info);
    }));
}

#[derive(Debug)]
struct Worker {
    tasks: SyncSender<Task>,
    panics: Arc<AtomicBool>,
    /// Its processor time, once it runs and where that can be told.
    clock: Arc<OnceLock<Option<ThreadClock>>>,
    /// The process it is a thread of: a forked child needs another.
    process: u32,
}

impl Worker {
    fn start(name: &str) -> std::io::Result<Worker> {
        // Room for one task and the note that the thread came back.
        let (tasks, queue) = sync_channel::<Task>(2);
        let clock = Arc::new(OnceLock::new());
        let panics = Arc::<AtomicBool>::default();
        let own = (Arc::clone(&clock), Arc::clone(&panics));
        watch_panics();
        let run = move || {
            let _ = own.0.set(ThreadId::own().clock());
            PANICS.set(Some(own.1));
            queue.into_iter().for_each(|task| task());
        };
        std::thread::Builder::new().name(name.to_string()).spawn(run)?;
        Ok(Worker { tasks, panics, clock, process: std::process::id() })
    }

    /// How long it ran and how long others kept it from running; nothing before it started.
    fn times(&self) -> Option<Times> {
        self.clock.get().map_or(Some((Nanos(0), Nanos(0))), |clock| clock.as_ref()?.read())
    }
}

/// A thread for risky work, replaced when it has to be left behind.
#[derive(Debug)]
pub struct Sandbox {
    worker: Option<Worker>,
    abandoned: Arc<AtomicU32>,
    name: &'static str,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new(Arc::default())
    }
}

impl Sandbox {
    /// A sandbox that counts the threads it leaves behind in `abandoned`, shared by all sandboxes of a device.
    pub fn new(abandoned: Arc<AtomicU32>) -> Sandbox {
        Sandbox { worker: None, abandoned, name: "trimtab-bench" }
    }

    /// The same for callers' launches, whose threads are called so.
    pub fn for_calls(abandoned: Arc<AtomicU32>) -> Sandbox {
        Sandbox { name: "trimtab-call", ..Sandbox::new(abandoned) }
    }

    /// Runs `task` and waits until it computed for `timeout`: what keeps its thread from running, or stops the process or its
    /// machine, is not counted, so that a pause costs no candidate. One that sleeps gets a little longer by the clock on
    /// the wall. A panic is a launch failure, a late answer is dropped.
    pub fn run<R: Send + 'static>(
        &mut self,
        timeout: Nanos,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let (answer, answers) = sync_channel(1);
        let before = self.start(Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(task));
            // Nobody listens after a time-out.
            let _ = answer.send(outcome.map_err(|panic| panic_message(panic.as_ref())));
        }))?;
        let answer = self.wait(&answers, timeout, before)?;
        answer.map_err(|message| Failure::new(FailureKind::Launch, format!("panicked: {message}")))
    }

    /// Starts something that lives there and answers questions, one after the other, until nobody asks any more.
    pub fn serve<Q: Send + 'static, A: Send + 'static>(
        mut self,
        serve: impl FnOnce(Receiver<Q>, SyncSender<A>) + Send + 'static,
    ) -> Result<Session<Q, A>, Failure> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        self.start(Box::new(move || {
            // Whoever asks learns that nobody answers any more.
            let _ = catch_unwind(AssertUnwindSafe(|| serve(asked, answer)));
        }))?;
        Ok(Session { questions, answers, sandbox: self })
    }

    /// Hands a task over; what the thread's clock showed before.
    fn start(&mut self, task: Task) -> Result<Option<Times>, Failure> {
        let worker = self.worker()?;
        let before = worker.times();
        worker.panics.store(false, Ordering::Relaxed);
        if worker.tasks.send(task).is_err() {
            self.worker = None;
            return Err(Failure::new(FailureKind::Launch, "the measuring thread is gone"));
        }
        Ok(before)
    }

    /// Waits for an answer until the thread had its time; then it is left behind.
    fn wait<T>(
        &mut self,
        answers: &Receiver<T>,
        timeout: Nanos,
        before: Option<Times>,
    ) -> Result<T, Failure> {
        let Some(worker) = &self.worker else {
            return Err(Failure::new(FailureKind::Untried, "a run before it was given up"));
        };
        match wait(answers, timeout, worker, before) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.abandon();
                Err(Failure::new(FailureKind::TimedOut, format!("no result within {timeout}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.worker = None;
                Err(Failure::new(FailureKind::Launch, "its thread ended without an answer"))
            }
        }
    }

    /// Leaves the thread behind. It ends by itself after the task, when its queue is gone; until then it counts.
    fn abandon(&mut self) {
        let hanging = Hanging::new(counted().into_iter().chain([Arc::clone(&self.abandoned)]));
        if let Some(worker) = self.worker.take() {
            let _ = worker.tasks.try_send(Box::new(move || drop(hanging)));
        }
    }

    fn worker(&mut self) -> Result<&Worker, Failure> {
        let stuck = self.abandoned.load(Ordering::Relaxed);
        if stuck >= MAX_ABANDONED {
            let message = format!("not tried: {stuck} earlier candidates still hang in this process");
            return Err(Failure::new(FailureKind::Untried, message));
        }
        let worker = match self.worker.take().filter(|worker| worker.process == std::process::id()) {
            Some(worker) => worker,
            None => Worker::start(self.name).map_err(|error| {
                Failure::new(FailureKind::Untried, format!("no thread to measure on: {error}"))
            })?,
        };
        Ok(self.worker.insert(worker))
    }
}

/// A thread that was left behind, counted until this is dropped: by the thread when it comes back, or with its queue when it
/// ends, by a panic in the midst of a panic, say.
struct Hanging(Vec<Arc<AtomicU32>>);

impl Hanging {
    fn new(counts: impl Iterator<Item = Arc<AtomicU32>>) -> Hanging {
        let counts: Vec<_> = counts.collect();
        for count in &counts {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Hanging(counts)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        for count in &self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Something that answers questions on a thread that can be left behind.
#[derive(Debug)]
pub struct Session<Q, A> {
    questions: SyncSender<Q>,
    answers: Receiver<A>,
    sandbox: Sandbox,
}

impl<Q, A> Session<Q, A> {
    /// Asks, and waits for as long as [`Sandbox::run`] does. After a time-out nobody answers any more.
    pub fn ask(&mut self, timeout: Nanos, question: Q) -> Result<A, Failure> {
        let before = self.sandbox.worker.as_ref().and_then(Worker::times);
        if self.sandbox.worker.is_some() && self.questions.send(question).is_err() {
            self.sandbox.worker = None;
            return Err(Failure::new(FailureKind::Launch, "its thread ended without an answer"));
        }
        self.sandbox.wait(&self.answers, timeout, before)
    }
}

/// Waits for an answer until the worker had its time.
fn wait<T>(
    answers: &Receiver<T>,
    timeout: Nanos,
    worker: &Worker,
    before: Option<Times>,
) -> Result<T, RecvTimeoutError> {
    let (mut allowance, mut step) = (Allowance::new(timeout, before), timeout.clamp(STEP_MIN, STEP));
    loop {
        let watch = Stopwatch::start();
        match answers.recv_timeout(step.duration()) {
            Err(RecvTimeoutError::Timeout) => (),
            answered => return answered,
        }
        let left = allowance.left(watch.elapsed(), step, || worker.times());
        let panics = worker.panics.load(Ordering::Relaxed);
        if left.is_none() && (!panics || allowance.is_over()) {
            return Err(RecvTimeoutError::Timeout);
        }
        step = left.unwrap_or_default().clamp(STEP_MIN, STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leash::Leash;

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
    fn a_hanging_task_whose_thread_ends_instead_of_coming_back_is_no_longer_counted() {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new("once more"));
            }
        }
        let abandoned = Arc::new(AtomicU32::new(0));
        let mut sandbox = Sandbox::new(Arc::clone(&abandoned));
        let (let_go, wait) = sync_channel::<()>(0);
        let ends = move || {
            let _ = wait.recv();
            std::panic::resume_unwind(Box::new(Again));
        };
        let failure = sandbox.run(Nanos::from_millis(5), ends).unwrap_err();
        assert_eq!((failure.kind, abandoned.load(Ordering::Relaxed)), (FailureKind::TimedOut, 1));
        drop(let_go);
        while abandoned.load(Ordering::Relaxed) != 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_panic_whose_backtrace_takes_longer_than_the_time_out_is_a_panic() {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let watch = Stopwatch::start();
            while info.payload_as_str() == Some("slow") && watch.elapsed() < Nanos::from_millis(60) {
                std::hint::spin_loop();
            }
            former(info);
        }));
        // As in the first sandbox of a process.
        watch_now();
        let failure =
            Sandbox::default().run(Nanos::from_millis(10), || -> u32 { panic!("slow") }).unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Launch, "panicked: slow"));
    }

    #[test]
    fn a_pause_is_no_time_out_and_a_task_that_computes_too_long_or_sleeps_for_ever_is() {
        let mut sandbox = Sandbox::default();
        // As a thread that was stopped looks like from outside: time went by and it used none.
        let pause = || std::thread::sleep(std::time::Duration::from_millis(60));
        assert_eq!(sandbox.run(Nanos::from_millis(10), pause), Ok(()));
        let (over, leash) = (Arc::new(AtomicU32::new(0)), Leash::default());
        let ends = Arc::clone(&over);
        let spins = move || {
            while ends.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
        };
        let failure = leash.run(|| sandbox.run(Nanos::from_millis(10), spins)).unwrap_err();
        assert_eq!((failure.kind, leash.why().is_some()), (FailureKind::TimedOut, true));
        let again = leash.run_alone(|| Ok(()));
        assert_eq!(again.map_err(|failure| failure.kind), Err(FailureKind::Untried), "it hangs");
        let impatient = leash.call(Nanos(1), Nanos(1), true, || Ok(()));
        assert_eq!(impatient.map_err(|failure| failure.kind), Err(FailureKind::Untried), "it hangs for long");
        over.store(1, Ordering::Relaxed);
        assert_eq!(
            leash.call(Nanos::from_millis(10_000), Nanos(1), true, || Ok(7)),
            Ok(7),
            "it was just slow"
        );
        let (let_go, wait) = sync_channel::<()>(0);
        let failure = sandbox.run(Nanos::from_millis(10), move || wait.recv().is_ok()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        drop(let_go);
    }

    #[test]
    fn a_session_answers_until_it_hangs_and_nobody_after() {
        let (let_go, wait) = sync_channel::<()>(0);
        let count = move |asked: Receiver<u32>, answer: SyncSender<u32>| {
            for (nth, question) in asked.into_iter().enumerate() {
                if nth == 2 {
                    let _ = wait.recv();
                }
                let _ = answer.send(question + nth as u32);
            }
        };
        let abandoned = Arc::new(AtomicU32::new(0));
        let mut session = Sandbox::new(Arc::clone(&abandoned)).serve(count).unwrap();
        let second = Nanos::from_millis(10_000);
        assert_eq!((session.ask(second, 10), session.ask(second, 10)), (Ok(10), Ok(11)));
        let kind = |answer: Result<u32, Failure>| answer.unwrap_err().kind;
        assert_eq!(kind(session.ask(Nanos::from_millis(5), 10)), FailureKind::TimedOut);
        assert_eq!(kind(session.ask(second, 10)), FailureKind::Untried);
        assert_eq!(abandoned.load(Ordering::Relaxed), 1);
        drop((let_go, session));
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
