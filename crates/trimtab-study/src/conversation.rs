//! A child process that stays: it gets a line, answers with a line, and is ended with its group when it takes too long, holds too much or
//! everything is to end.

use crate::process::{
    Captured, Ended, EndedFor, Launch, MEMORY_TICK, OUTPUT_WAIT, TICK, end_group, has_ended, keep,
    resident_bytes,
};
use crate::quiet::{Clock, Pausing, Quiet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// The longest answer that is read.
const MAX_ANSWER: u64 = 1 << 20;

/// A child that answers.
#[derive(Debug)]
pub struct Conversation {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    errors: Arc<Mutex<Captured>>,
    errors_closed: Receiver<()>,
    asked: u32,
    /// Held where it pauses while a time is taken.
    pausing: Option<Pausing>,
    quiet: Option<Arc<Quiet>>,
    /// It was ended and collected.
    is_over: bool,
}

impl Conversation {
    /// Starts it. The limits are those of each question.
    pub fn start(launch: &Launch) -> std::io::Result<Conversation> {
        let Some((program, arguments)) = launch.words.split_first() else {
            return Err(std::io::Error::other("there is nothing to start"));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &launch.dir {
            command.current_dir(dir);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let quiet = launch.makes_way_for.clone();
        let (start, started) = channel();
        let (answer, answers) = channel();
        // The thread that starts it reads its answers too and ends no sooner than it: a child may ask to be killed when whoever started it
        // ends, and the system means the thread.
        std::thread::spawn(move || {
            let spawned = match &quiet {
                Some(quiet) => quiet.start(|| command.spawn()).map(|(child, pausing)| (child, Some(pausing))),
                None => command.spawn().map(|child| (child, None)),
            };
            let (mut child, pausing) = match spawned {
                Ok(spawned) => spawned,
                Err(error) => {
                    let _ = start.send(Err(error));
                    return;
                }
            };
            let output = child.stdout.take();
            // They wait for it.
            let _ = start.send(Ok((child, pausing)));
            let Some(output) = output else { return };
            let mut lines = BufReader::new(output);
            loop {
                let mut line = String::new();
                match std::io::Read::take(&mut lines, MAX_ANSWER).read_line(&mut line) {
                    Ok(1..) if answer.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        let (mut child, pausing) = started.recv().map_err(std::io::Error::other)??;
        let (closed, errors_closed) = channel();
        let errors = child.stderr.take().map(|stream| keep(stream, closed)).unwrap_or_default();
        let input = child.stdin.take();
        let quiet = launch.makes_way_for.clone();
        Ok(Conversation {
            child,
            input,
            answers,
            errors,
            errors_closed,
            asked: 0,
            pausing,
            quiet,
            is_over: false,
        })
    }

    /// How often it was asked.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// Asks, and waits for the answer, until one of `stops` is set. Without one the child has ended, or was ended: nothing can be asked any more.
    pub fn ask(
        &mut self,
        question: &str,
        time_limit: Option<Nanos>,
        memory_limit: Option<u64>,
        stops: &[&AtomicBool],
    ) -> Result<String, Box<Ended>> {
        self.asked += 1;
        // What it said about earlier questions is no evidence for this one.
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = Captured::default();
        while self.answers.try_recv().is_ok() {}
        let quiet = self.quiet.clone();
        let clock = Clock::start(quiet.as_deref());
        let watch = clock.watch;
        let line = format!("{question}\n");
        let written = self.input.as_mut().map(|input| input.write_all(line.as_bytes()));
        if !matches!(written, Some(Ok(()))) {
            return Err(Box::new(self.end(watch, None)));
        }
        let tick = if memory_limit.is_some() { MEMORY_TICK } else { TICK };
        loop {
            let left = time_limit
                .map_or(tick, |limit| Duration::from_nanos(limit.saturating_sub(clock.elapsed()).0));
            match self.answers.recv_timeout(left.min(tick)) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(Box::new(self.end(watch, None))),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let id = self.child.id();
            let held = memory_limit.and_then(|limit| resident_bytes(id).filter(|held| *held > limit));
            let too_long = time_limit.is_some_and(|limit| clock.elapsed() >= limit);
            let is_stopped = stops.iter().any(|stop| stop.load(Ordering::Relaxed));
            let why = match held {
                Some(held) => Some(EndedFor::Memory(held)),
                None if too_long => Some(EndedFor::Time),
                None => is_stopped.then_some(EndedFor::Stop),
            };
            if why.is_some() {
                return Err(Box::new(self.end(watch, why)));
            }
        }
    }

    /// How it ended. One that only stopped answering is ended now.
    fn end(&mut self, watch: Stopwatch, why: Option<EndedFor>) -> Ended {
        /// Who closes its output is about to end by itself: its own exit code says more than our signal.
        const ENDING: Nanos = Nanos::from_millis(500);
        self.input = None;
        if std::mem::replace(&mut self.is_over, true) {
            let (status, stdout, stderr) = (None, Captured::default(), Captured::default());
            return Ended { seconds: 0.0, status, ended_for: why, stdout, stderr };
        }
        let seconds = watch.elapsed().0 as f64 / 1e9;
        let ending = Stopwatch::start();
        while why.is_none() && ending.elapsed() < ENDING && !has_ended(&mut self.child) {
            std::thread::sleep(Duration::from_millis(1));
        }
        end_group(&self.child);
        let _ = self.child.kill();
        self.pausing = None;
        let status = self.child.wait().ok();
        // Somebody it left behind may hold it open.
        let _ = self.errors_closed.recv_timeout(OUTPUT_WAIT);
        let stderr = std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner));
        Ended { seconds, status, ended_for: why, stdout: Captured::default(), stderr }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // One that was collected is nobody's any more.
        if !self.is_over {
            end_group(&self.child);
            let _ = self.child.kill();
            self.pausing = None;
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Conversation {
        Conversation::start(&Launch {
            words: vec!["sh".into(), "-c".into(), script.into()],
            ..Launch::default()
        })
        .unwrap()
    }

    #[test]
    fn it_answers_as_long_as_it_lives_and_then_says_how_it_ended() {
        let stop = AtomicBool::new(false);
        let mut child =
            sh("while read line; do [ $line = end ] && { echo why >&2; exit 7; }; echo got $line; done");
        assert_eq!(child.ask("a", None, None, &[&stop]).unwrap(), "got a\n");
        assert_eq!(child.ask("b", None, None, &[&stop]).unwrap(), "got b\n");
        let ended = child.ask("end", None, None, &[&stop]).unwrap_err();
        assert_eq!(ended.status.unwrap().code(), Some(7));
        assert_eq!(ended.last_output(), b"why\n");
        assert_eq!(child.asked(), 3);
        assert!(child.ask("more", None, None, &[&stop]).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_outlives_the_thread_that_asked_for_it() {
        let script = "while read line; do echo got $line; done";
        let words = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", script].map(str::to_string).to_vec();
        let launch = Launch { words, ..Launch::default() };
        let mut child = std::thread::spawn(move || Conversation::start(&launch).unwrap()).join().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(child.ask("a", None, None, &[]).unwrap(), "got a\n");
    }

    #[test]
    fn one_that_takes_too_long_is_ended_with_everything_it_started() {
        let mut child = sh("read line; sleep 60 & sleep 60");
        let limit = Some(Nanos::from_millis(50));
        let ended = child.ask("x", limit, None, &[&AtomicBool::new(false)]).unwrap_err();
        assert_eq!(ended.ended_for, Some(EndedFor::Time));
        let mut child = sh("read line; sleep 60");
        let ended = child.ask("x", None, None, &[&AtomicBool::new(true)]).unwrap_err();
        assert_eq!(ended.ended_for, Some(EndedFor::Stop));
    }
}
