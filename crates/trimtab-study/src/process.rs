//! A child process: no shell, nothing on its standard input, a limit on time, memory and what is kept of its output, ended as a group.

use crate::quiet::{Clock, Quiet};
use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// What is kept of a stream from its beginning, for metrics; what comes behind is read and dropped, but for the last of it.
const KEPT_FIRST: usize = 8 << 20;
/// What is kept of its end.
const KEPT_LAST: usize = 16 << 10;
/// How often Ctrl-C and the time limit are looked at; memory more often.
pub(crate) const TICK: Duration = Duration::from_millis(20);
pub(crate) const MEMORY_TICK: Duration = Duration::from_millis(4);
/// How long the output of a process that ended is waited for: somebody it left behind may hold it open.
pub(crate) const OUTPUT_WAIT: Duration = Duration::from_millis(200);

/// What to run, and under which limits.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables set besides those of this process.
    pub environment: Vec<(String, String)>,
    /// Where it runs.
    pub dir: Option<PathBuf>,
    /// It is ended after that.
    pub time_limit: Option<Nanos>,
    /// It is ended when it and its children hold more bytes than that in memory.
    pub memory_limit: Option<u64>,
    /// What it leaves running in the background stays: a server that is prepared.
    pub leaves_children: bool,
    /// It makes way for what is measured: at a lower priority, and paused while a time is taken.
    pub makes_way_for: Option<Arc<Quiet>>,
}

/// Why a process was ended by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedFor {
    /// It took too long.
    Time,
    /// It held too much memory, so many bytes.
    Memory(u64),
    /// Everything was to end.
    Stop,
}

/// A process that ended.
#[derive(Debug)]
pub struct Ended {
    /// From before it was started until it had ended.
    pub seconds: f64,
    /// How it ended; nothing if it was ended by us before that was known.
    pub status: Option<ExitStatus>,
    /// Why we ended it, if we did.
    pub ended_for: Option<EndedFor>,
    /// What it wrote.
    pub stdout: Captured,
    /// What it wrote as errors.
    pub stderr: Captured,
}

/// What was kept of a stream.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    first: Vec<u8>,
    last: VecDeque<u8>,
}

impl Captured {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = KEPT_FIRST - self.first.len().min(KEPT_FIRST);
        let (kept, rest) = bytes.split_at(bytes.len().min(room));
        self.first.extend_from_slice(kept);
        self.last.extend(rest);
        let over = self.last.len().saturating_sub(KEPT_LAST);
        self.last.drain(..over);
    }

    /// As text. Of more than eight megabytes the middle is left out.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn bytes(&self) -> Vec<u8> {
        self.first.iter().chain(&self.last).copied().collect()
    }

    fn end(&self) -> Vec<u8> {
        let (first, last) = (&self.first, self.last.len());
        let from = first.len().saturating_sub(KEPT_LAST.saturating_sub(last));
        first[from..].iter().chain(&self.last).copied().collect()
    }
}

impl Ended {
    /// The end of what it wrote, errors last.
    pub fn last_output(&self) -> Vec<u8> {
        let mut written = self.stdout.end();
        if !written.is_empty() && !written.ends_with(b"\n") {
            written.push(b'\n');
        }
        written.extend(self.stderr.end());
        written
    }

    #[cfg(test)]
    pub(crate) fn of_text(written: &str) -> Ended {
        let mut stdout = Captured::default();
        stdout.push(written.as_bytes());
        Ended { seconds: 0.25, status: None, ended_for: None, stdout, stderr: Captured::default() }
    }
}

/// Runs a process to its end. An error means that it could not be started.
pub fn run(launch: &Launch, stop: &AtomicBool) -> std::io::Result<Ended> {
    let Some((program, arguments)) = launch.words.split_first() else {
        return Err(std::io::Error::other("the command is empty for this point"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &launch.dir {
        command.current_dir(dir);
    }
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let watch = Clock::start(launch.makes_way_for.as_deref());
    let (mut child, pausing) = match &launch.makes_way_for {
        Some(quiet) => {
            let (child, pausing) = quiet.start(|| command.spawn())?;
            (child, Some(pausing))
        }
        None => (command.spawn()?, None),
    };
    let (closed, closing) = channel();
    let streams = [
        child.stdout.take().map(|stream| keep(stream, closed.clone())),
        child.stderr.take().map(|stream| keep(stream, closed.clone())),
    ];
    drop(closed);
    let (seconds, ended_for) = wait(&mut child, launch, stop, watch);
    if !launch.leaves_children {
        end_group(&child);
    }
    // Once it is collected its number may be somebody else's.
    drop(pausing);
    let status = child.wait().ok();
    let waited = Stopwatch::start();
    let mut open = streams.len();
    while open > 0 {
        let left = OUTPUT_WAIT.saturating_sub(Duration::from_nanos(waited.elapsed().0));
        match closing.recv_timeout(left) {
            Ok(()) => open -= 1,
            Err(_) => break,
        }
    }
    let [stdout, stderr] = streams.map(|kept| {
        kept.map(|kept| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    });
    Ok(Ended { seconds, status, ended_for, stdout, stderr })
}

/// Reads a stream to its end on a thread of its own: a child must never wait for a full pipe.
pub(crate) fn keep(mut stream: impl Read + Send + 'static, closed: Sender<()>) -> Arc<Mutex<Captured>> {
    let kept = Arc::new(Mutex::new(Captured::default()));
    let keeping = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut buffer = vec![0u8; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            keeping.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
        }
        // Nobody may be waiting any more.
        let _ = closed.send(());
    });
    kept
}

/// Waits until a process ends or has to be ended: how long that took, and why we ended it.
#[cfg(unix)]
fn wait(child: &mut Child, launch: &Launch, stop: &AtomicBool, watch: Clock<'_>) -> (f64, Option<EndedFor>) {
    let (ended, ending) = channel();
    let (id, since_start) = (child.id(), watch.watch);
    // It waits without collecting: until the child is collected below nobody else can get its number, so that no stranger is ended.
    std::thread::spawn(move || {
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        if let Some(pid) = pid(id) {
            while let Err(rustix::io::Errno::INTR) =
                rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)
            {}
        }
        let _ = ended.send(since_start.elapsed());
    });
    watch_over(child, launch, stop, watch, &ending)
}

#[cfg(unix)]
fn watch_over(
    child: &Child,
    launch: &Launch,
    stop: &AtomicBool,
    watch: Clock<'_>,
    ending: &std::sync::mpsc::Receiver<Nanos>,
) -> (f64, Option<EndedFor>) {
    use std::sync::mpsc::RecvTimeoutError;
    let mut why = None;
    let tick = if launch.memory_limit.is_some() { MEMORY_TICK } else { TICK };
    loop {
        let left = launch
            .time_limit
            .map_or(tick, |limit| Duration::from_nanos(limit.saturating_sub(watch.elapsed()).0));
        match ending.recv_timeout(left.min(tick)) {
            Ok(elapsed) => return (elapsed.0 as f64 / 1e9, why),
            Err(RecvTimeoutError::Disconnected) => return (watch.elapsed().0 as f64 / 1e9, why),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let held =
            launch.memory_limit.and_then(|limit| resident_bytes(child.id()).filter(|held| *held > limit));
        let too_long = launch.time_limit.is_some_and(|limit| watch.elapsed() >= limit);
        let now = match held {
            Some(held) => Some(EndedFor::Memory(held)),
            None if too_long => Some(EndedFor::Time),
            None => stop.load(Ordering::Relaxed).then_some(EndedFor::Stop),
        };
        if now.is_some() {
            why = why.or(now);
            end_group(child);
        }
    }
}

#[cfg(not(unix))]
fn wait(child: &mut Child, launch: &Launch, stop: &AtomicBool, watch: Clock<'_>) -> (f64, Option<EndedFor>) {
    let mut why = None;
    while let Ok(None) = child.try_wait() {
        let too_long = launch.time_limit.is_some_and(|limit| watch.elapsed() >= limit);
        let now = if too_long {
            Some(EndedFor::Time)
        } else {
            stop.load(Ordering::Relaxed).then_some(EndedFor::Stop)
        };
        if now.is_some() {
            why = why.or(now);
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (watch.elapsed().0 as f64 / 1e9, why)
}

#[cfg(unix)]
fn pid(id: u32) -> Option<rustix::process::Pid> {
    i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw)
}

/// Ends a process that was not collected yet, and everybody in its group.
#[cfg(unix)]
pub(crate) fn end_group(child: &Child) {
    if let Some(pid) = pid(child.id()) {
        // Nobody may be left.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
pub(crate) fn end_group(_: &Child) {}

/// Whether a process has ended; it is not collected, so that its number stays its own.
#[cfg(unix)]
pub(crate) fn has_ended(child: &mut Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    pid(child.id()).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

#[cfg(not(unix))]
pub(crate) fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// What is done to groups of processes that make way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Pause,
    GoOn,
}

/// Tells a group of processes, by its leader, which was not collected yet.
#[cfg(unix)]
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    let signal = match signal {
        Signal::Pause => rustix::process::Signal::STOP,
        Signal::GoOn => rustix::process::Signal::CONT,
    };
    if let Some(pid) = pid(leader) {
        // It may have ended.
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

#[cfg(not(unix))]
pub(crate) fn signal_group(_: u32, _: Signal) {}

/// Below what is measured, but not below strangers: a compiler at the lowest priority hardly runs on a machine that others use.
#[cfg(unix)]
pub(crate) fn make_way(child: &Child) {
    /// A third of the time where both want all of it.
    const NICER: i32 = 5;
    // It may have ended.
    if let Ok(own) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(pid(child.id()), own + NICER);
    }
}

#[cfg(not(unix))]
pub(crate) fn make_way(_: &Child) {}

/// Bytes a process and its descendants hold in memory, where the system tells.
#[cfg(target_os = "linux")]
pub(crate) fn resident_bytes(id: u32) -> Option<u64> {
    /// Processes of one candidate that are looked at.
    const MOST: usize = 256;
    let mut waiting = vec![id];
    let mut held = None;
    let mut seen = 0;
    while let Some(id) = waiting.pop() {
        seen += 1;
        if seen > MOST {
            break;
        }
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        held = resident.map(|kib| held.unwrap_or(0) + (kib << 10)).or(held);
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        waiting.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    held
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn resident_bytes(_: u32) -> Option<u64> {
    None
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Launch {
        Launch { words: vec!["sh".into(), "-c".into(), script.into()], ..Launch::default() }
    }

    fn ended(launch: &Launch) -> Ended {
        run(launch, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let ended = ended(&sh("echo out; echo err >&2; exit 3"));
        assert_eq!((ended.stdout.text().as_str(), ended.stderr.text().as_str()), ("out\n", "err\n"));
        assert_eq!((ended.status.unwrap().code(), ended.ended_for), (Some(3), None));
        assert_eq!(ended.last_output(), b"out\nerr\n");
    }

    #[test]
    fn a_time_limit_ends_the_whole_group() {
        let limit = Some(Nanos::from_millis(100));
        let ended = ended(&Launch { time_limit: limit, ..sh("sleep 60 & echo started; sleep 60") });
        assert_eq!(ended.ended_for, Some(EndedFor::Time));
        assert!(ended.seconds < 30.0, "{}", ended.seconds);
        assert_eq!(ended.stdout.text(), "started\n");
    }

    #[test]
    fn a_child_in_the_background_does_not_hold_anybody_up() {
        let watch = Stopwatch::start();
        assert!(ended(&sh("sleep 60 & echo on")).status.unwrap().success());
        assert!(watch.elapsed() < Nanos::from_millis(30_000));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_memory_limit_ends_it() {
        // dd holds its block in memory while it waits for a reader that never comes.
        let script = "dd if=/dev/zero bs=200M count=100 2>&1 | sleep 60";
        let launch = Launch {
            memory_limit: Some(100 << 20),
            time_limit: Some(Nanos::from_millis(50_000)),
            ..sh(script)
        };
        assert!(matches!(ended(&launch).ended_for, Some(EndedFor::Memory(held)) if held > 100 << 20));
    }

    #[test]
    fn more_output_than_is_kept_is_dropped_in_the_middle() {
        let ended = ended(&sh("echo first; yes x | head -c 20000000; echo last"));
        let text = ended.stdout.text();
        assert!(
            text.len() <= KEPT_FIRST + KEPT_LAST && text.starts_with("first\n") && text.ends_with("last\n")
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let launch = Launch { words: vec!["no-such-program-anywhere".into()], ..Launch::default() };
        assert_eq!(run(&launch, &AtomicBool::new(false)).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn everything_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        assert_eq!(run(&sh("sleep 60"), &stop).unwrap().ended_for, Some(EndedFor::Stop));
    }
}
