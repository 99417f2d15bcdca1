//! Says early that the number asked for is never there: what was written instead, and what to ask for.

use crate::output::{counted, printable};
use crate::session::warn;
use std::io::Write;
use trimtab::advanced::study::{Fault, StudyFile, never_read};

/// Points without it after which it is said, while the search goes on.
const SAID_AFTER: usize = 3;
/// The last lines of output that are shown.
const SHOWN_LINES: usize = 6;

/// Says it once.
#[derive(Debug, Default)]
pub struct NoNumber {
    is_said: bool,
}

impl NoNumber {
    /// After a point: says it where several had no number and none had one.
    pub fn look(&mut self, file: &StudyFile) {
        if never_read(file.study.evaluations()) >= SAID_AFTER {
            self.say(file);
        }
    }

    /// In the end: also where there were fewer points than that.
    pub fn end(&mut self, file: &StudyFile) {
        if never_read(file.study.evaluations()) > 0 {
            self.say(file);
        }
    }

    fn say(&mut self, file: &StudyFile) {
        if std::mem::replace(&mut self.is_said, true) {
            return;
        }
        let mut unreadable = file.study.evaluations().iter().filter_map(|known| {
            known
                .outcome
                .failed()
                .filter(|failed| failed.fault == Fault::Unreadable)
                .map(|failed| (known, failed))
        });
        let Some((known, failed)) = unreadable.next_back() else { return };
        let what = &file.definition().what;
        let metric = what["metric"].as_str().unwrap_or_default();
        let also = what["also"].as_array().into_iter().flatten().filter_map(|also| also.as_str());
        let asked: Vec<String> = std::iter::once(format!("--metric '{metric}'"))
            .chain(also.map(|also| format!("--also '{also}'")))
            .collect();
        warn(&format!(
            "{} ran without the number asked for ({}), and none had it. At {}: {}",
            counted(never_read(file.study.evaluations()), "point"),
            asked.join(", "),
            file.study.space().point(known.at).words(),
            failed.message
        ));
        let mut stderr = std::io::stderr().lock();
        let lines = &failed.output[failed.output.len().saturating_sub(SHOWN_LINES)..];
        let head = if lines.is_empty() { "it wrote nothing" } else { "it wrote last:" };
        let _ = writeln!(stderr, "    {head}");
        for line in lines {
            let _ = writeln!(stderr, "      {}", printable(line));
        }
        for fix in fixes(&asked.join(" ")) {
            let _ = writeln!(stderr, "    {fix}");
        }
    }
}

/// What to do, for the kinds of metrics that were asked for.
fn fixes(asked: &str) -> Vec<&'static str> {
    let kinds = [
        (
            "regex:",
            "regex: takes the last match of a pattern in the output, its first group: of `time: 1.5 ms` regex:'time: ([0-9.]+)'",
        ),
        (
            "json:",
            "json: takes a place in standard output, or in its last line that is JSON: of {\"results\": [{\"ms\": 1.5}]} json:/results/0/ms",
        ),
        (
            "file:",
            "file: takes a file that holds the number and nothing else, relative to where the command runs, written anew by every run",
        ),
    ];
    kinds.into_iter().filter(|(kind, _)| asked.contains(kind)).map(|(_, fix)| fix).collect()
}
