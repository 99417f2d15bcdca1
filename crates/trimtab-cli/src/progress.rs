//! The progress bar: on standard error, only on a terminal, and drawn between measurements, never during one.

use crate::output::{printable, time};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use trimtab::core::Problem;
use trimtab::tune::Progress;

/// A bar over problems or other work; silent when standard error is not a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn new(problems: usize) -> Bar {
        // No ticking thread: it would take a core away from what is being measured.
        let target = match std::io::stderr().is_terminal() && problems > 0 {
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(problems as u64), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar(bar)
    }

    /// Shows how far the race of a problem is.
    pub fn show(&self, problem: &Problem, progress: &Progress) {
        if self.0.is_hidden() {
            return;
        }
        let best = progress.best.map(|(_, ns)| format!(", best {}", time(ns))).unwrap_or_default();
        self.0.set_message(format!("{problem}: {} racing, {} runs{best}", progress.racing, progress.runs));
    }

    /// Shows what is going on.
    pub fn say(&self, text: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(printable(&text()));
        }
    }

    /// Takes the bar away while something is written.
    pub fn around<R>(&self, write: impl FnOnce() -> R) -> R {
        self.0.suspend(write)
    }

    /// One of them is finished.
    pub fn next(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
