//! Silence while a time is taken: processes that build ahead pause, and go on afterwards.
//!
//! A lower priority alone does not keep a compiler from sharing caches, or a core's other half, with what is timed.

use crate::process::{Signal, make_way, signal_group};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// Who may be paused, and whether they are.
#[derive(Debug, Default)]
pub struct Quiet {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Silences that are kept.
    kept: usize,
    since: Option<Stopwatch>,
    /// How long silences before lasted together.
    before: Nanos,
    /// Groups of processes that pause, by their leaders.
    groups: Vec<u32>,
}

/// Silence for as long as it is held.
#[derive(Debug)]
pub struct Silence<'a>(&'a Quiet);

/// A group of processes that pauses in every silence, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Pausing {
    quiet: Arc<Quiet>,
    group: u32,
}

impl Quiet {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody pauses.
    pub fn keep(&self) -> Silence<'_> {
        let mut state = self.state();
        state.kept += 1;
        if state.kept == 1 {
            state.since = Some(Stopwatch::start());
            state.groups.iter().for_each(|group| signal_group(*group, Signal::Pause));
        }
        drop(state);
        Silence(self)
    }

    /// Starts a process that pauses in every silence, when there is none. It leads a group of its own.
    pub(crate) fn start(
        self: &Arc<Quiet>,
        spawn: impl FnOnce() -> std::io::Result<Child>,
    ) -> std::io::Result<(Child, Pausing)> {
        let mut state = self.state();
        while state.kept > 0 {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Under the lock: a silence that begins now must know of it.
        let child = spawn()?;
        let group = child.id();
        state.groups.push(group);
        drop(state);
        make_way(&child);
        Ok((child, Pausing { quiet: Arc::clone(self), group }))
    }

    /// How long all silences lasted together: no time of those who paused.
    pub(crate) fn lasted(&self) -> Nanos {
        let state = self.state();
        Nanos(state.before.0 + state.since.map_or(0, |since| since.elapsed().0))
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.kept -= 1;
        if state.kept == 0 {
            state.before.0 += state.since.take().map_or(0, |since| since.elapsed().0);
            state.groups.iter().for_each(|group| signal_group(*group, Signal::GoOn));
            self.0.over.notify_all();
        }
    }
}

impl Drop for Pausing {
    fn drop(&mut self) {
        let mut state = self.quiet.state();
        state.groups.retain(|group| *group != self.group);
    }
}

/// How long something took, without the silences in which it paused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock<'a> {
    pub(crate) watch: Stopwatch,
    quiet: Option<&'a Quiet>,
    silent_before: Nanos,
}

impl Clock<'_> {
    pub(crate) fn start(quiet: Option<&Quiet>) -> Clock<'_> {
        Clock { watch: Stopwatch::start(), quiet, silent_before: quiet.map_or(Nanos(0), Quiet::lasted) }
    }

    pub(crate) fn elapsed(&self) -> Nanos {
        let silent = self.quiet.map_or(Nanos(0), |quiet| quiet.lasted().saturating_sub(self.silent_before));
        self.watch.elapsed().saturating_sub(silent)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::process::{Launch, run};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn who_makes_way_pauses_in_a_silence_and_that_is_no_time_of_its_own() {
        let quiet = Arc::new(Quiet::default());
        let launch = |script: &str| Launch {
            words: ["sh", "-c", script].map(str::to_string).to_vec(),
            makes_way_for: Some(Arc::clone(&quiet)),
            time_limit: Some(Nanos::from_millis(900)),
            ..Launch::default()
        };
        let counts = launch("i=0; while [ $i -lt 5 ]; do sleep 0.05; i=$((i+1)); done; echo counted");
        std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&counts, &AtomicBool::new(false)).unwrap());
            std::thread::sleep(Duration::from_millis(60));
            let silence = quiet.keep();
            std::thread::sleep(Duration::from_millis(1500));
            assert!(!running.is_finished());
            // Who would start now waits.
            let waits = scope.spawn(|| run(&launch("echo late"), &AtomicBool::new(false)).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!waits.is_finished());
            drop(silence);
            let (ended, late) = (running.join().unwrap(), waits.join().unwrap());
            assert_eq!((ended.ended_for, ended.stdout.text().as_str()), (None, "counted\n"));
            assert_eq!(late.stdout.text(), "late\n");
        });
        assert!(quiet.lasted() >= Nanos::from_millis(1500));
        assert!(quiet.state().groups.is_empty());
    }
}
