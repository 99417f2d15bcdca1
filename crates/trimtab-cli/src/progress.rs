//! How far a long command is, on standard error: a bar on a terminal, drawn between measurements, never during one; elsewhere a line now and then.

use crate::output::{counted, printable, time};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use trimtab::advanced::tune::{Progress, Stopwatch};
use trimtab::{Nanos, Problem};

/// What may take longer says so beforehand, wherever standard error goes.
const LONG: Nanos = Nanos(60_000_000_000);
/// Where there is no terminal a line is written that often.
const EVERY: Nanos = Nanos(30_000_000_000);
/// Before each such line, so that scripts know it from warnings.
const MARK: &str = "trimtab: ";

/// How long something takes, as far as that is known beforehand.
#[derive(Clone, Copy, Debug)]
pub enum HowLong {
    /// No longer than its budget.
    AtMost(Nanos),
    /// By what is known of its parts.
    About(Nanos),
    /// As long as so many points take, each of which may take what it likes.
    Points(usize),
}

impl HowLong {
    /// Whether it is said wherever standard error goes.
    fn is_long(self) -> bool {
        match self {
            HowLong::AtMost(time) | HowLong::About(time) => time >= LONG,
            HowLong::Points(_) => true,
        }
    }
}

impl fmt::Display for HowLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HowLong::AtMost(time) => write!(f, "for at most {time}"),
            HowLong::About(time) => write!(f, "for about {time}"),
            HowLong::Points(points) => write!(f, "at most {}", counted(*points, "point")),
        }
    }
}

/// A bar over problems or other work; a line every half a minute where standard error is not a terminal.
pub struct Bar {
    bar: ProgressBar,
    stopwatch: Stopwatch,
    /// When a line was last written, in nanoseconds since the start.
    told: AtomicU64,
    done: AtomicUsize,
    all: usize,
}

impl Bar {
    /// One that says nothing beforehand, because another did.
    pub fn new(problems: usize) -> Bar {
        // No ticking thread: it would take a core away from what is being measured.
        let target = match std::io::stderr().is_terminal() && problems > 0 {
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(problems as u64), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (told, done) = (AtomicU64::new(0), AtomicUsize::new(0));
        Bar { bar, stopwatch: Stopwatch::start(), told, done, all: problems }
    }

    /// The same, which says beforehand what is done, how long that may take, and what is kept of it.
    pub fn announced(problems: usize, what: &str, how_long: HowLong, then: &str) -> Bar {
        if std::io::stderr().is_terminal() || how_long.is_long() {
            line(&format!("{what}, {how_long}; {then}"));
        }
        Bar::new(problems)
    }

    /// Shows how far the race of a problem is.
    pub fn show(&self, problem: &Problem, progress: &Progress) {
        self.say(|| {
            let best = progress.best.map(|(_, ns)| format!(", best {}", time(ns))).unwrap_or_default();
            format!("{problem}: {} racing, {} runs{best}", progress.racing, progress.runs)
        });
    }

    /// Shows what is going on.
    pub fn say(&self, text: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(printable(&text()));
            return;
        }
        let (spent, told) = (self.stopwatch.elapsed(), self.told.load(Ordering::Relaxed));
        let is_due = self.all > 0 && spent.0 >= told.saturating_add(EVERY.0);
        // Of several threads one writes.
        let is_ours =
            || self.told.compare_exchange(told, spent.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due && is_ours() {
            line(&format!(
                "{} of {} done in {spent}; {}",
                self.done.load(Ordering::Relaxed),
                self.all,
                text()
            ));
        }
    }

    /// Takes the bar away while something is written.
    pub fn around<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }

    /// One of them is finished.
    pub fn next(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{MARK}{}", printable(text));
}
