//! Export and import: wisdom as a text to carry to another machine, with a report of what it would change.

use crate::fact::{DAY_MS, Fact, Filter, Outcome};
use crate::line::{FORMAT_VERSION, FactLine, Line, decode, decode_header, encode};
use crate::segment;
use crate::union::{Change, Union, just_after};
use crate::warning::WisdomError;
use crate::wisdom::{Queued, State, Wisdom};
use std::collections::{BTreeMap, BTreeSet};

/// The largest text that is imported.
pub const MAX_IMPORT_BYTES: usize = 128 * 1024 * 1024;
/// The most rejected lines that are told one by one; all are counted.
pub const MAX_REJECTED: usize = 1000;

/// A line that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// The fastest known way to solve a problem on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The kernel.
    pub kernel: String,
    /// Its version.
    pub version: String,
    /// Its settings.
    pub point: String,
    /// Its mean time.
    pub mean_ns: f64,
}

/// What an import does to a problem on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct BestChange {
    /// Fingerprint of the device.
    pub device: String,
    /// The problem's text form.
    pub problem: String,
    /// The fastest before.
    pub before: Option<Best>,
    /// The fastest after.
    pub after: Option<Best>,
    /// Mean time after / before, where both are known.
    pub ratio: Option<f64>,
}

/// What an import did, or would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportReport {
    /// Whether it took effect.
    pub committed: bool,
    /// Lines whose key was not known.
    pub new: usize,
    /// Lines that add to or replace what was known.
    pub updated: usize,
    /// Lines that say nothing new.
    pub unchanged: usize,
    /// How many lines were not taken.
    pub rejected_count: usize,
    /// The first [`MAX_REJECTED`] of them.
    pub rejected: Vec<Rejected>,
    /// What the facts do to each problem they are about.
    pub changes: Vec<BestChange>,
}

impl ImportReport {
    fn reject(&mut self, line: usize, reason: impl Into<String>) {
        self.rejected_count += 1;
        if self.rejected.len() < MAX_REJECTED {
            self.rejected.push(Rejected { line, reason: reason.into() });
        }
    }
}

impl Wisdom {
    /// The facts and verdicts the filter matches, as a text that [`import`](Wisdom::import) takes: the lines of the
    /// files, with a header. What crashed and what was forgotten stays here.
    pub fn export(&self, filter: &Filter) -> String {
        let mut text = segment::header(self.origin()).unwrap_or_default();
        let state = self.state();
        let facts = state.union.unmerged();
        let facts =
            facts.filter(|Fact { key, .. }| filter.matches(&key.device, &key.kernel, Some(&key.problem)));
        let verdicts = state.union.verdicts();
        let verdicts = verdicts.filter(|old| filter.matches(&old.device, &old.kernel, Some(&old.problem)));
        let lines = facts.map(Line::Fact).chain(verdicts.map(Line::Verdict));
        for line in lines.filter_map(|line| encode(&line, self.origin()).ok()) {
            text.push_str(&line);
        }
        text
    }

    /// Takes in an exported text or the text of a segment, a damaged one included: each good line counts. Without
    /// `commit` nothing changes and the report says what would. An import is an explicit act, so a line that was
    /// forgotten here before is taken with the time just after that.
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        if text.len() > MAX_IMPORT_BYTES {
            return Err(WisdomError::TooLarge { bytes: text.len(), limit: MAX_IMPORT_BYTES });
        }
        let mut report = ImportReport::default();
        let lines = parse(text, &mut report)?;
        let mut state = self.state();
        let now_ms = self.now_ms();
        let known_here = |line| as_known_here(&state.union, line, now_ms);
        let lines: Vec<Line> = lines.into_iter().map(known_here).collect();

        let mut touched: BTreeMap<(&str, &str), Vec<&Fact>> = BTreeMap::new();
        for line in &lines {
            if let Line::Fact(fact) = line {
                touched.entry((&fact.key.device, &fact.key.problem)).or_default().push(fact);
            }
        }
        for ((device, problem), facts) in touched {
            let mut part = state.union.part(device, problem);
            let before = best(&part.facts(device, problem));
            for fact in facts {
                report.count(part.insert_fact(FactLine::of(fact), fact.outcome.clone()));
            }
            let after = best(&part.facts(device, problem));
            let (device, problem) = (device.to_string(), problem.to_string());
            let ratio =
                before.as_ref().zip(after.as_ref()).map(|(before, after)| after.mean_ns / before.mean_ns);
            let ratio = ratio.filter(|ratio| ratio.is_finite());
            report.changes.push(BestChange { device, problem, before, after, ratio });
        }
        // Verdicts are few and stand alone: they are tried on a copy of nothing but themselves.
        let mut verdicts = Union::default();
        for old in state.union.unmerged_verdicts() {
            verdicts.insert(Line::Verdict(old));
        }
        for line in lines.iter().filter(|line| matches!(line, Line::Verdict(_))) {
            report.count(verdicts.insert(line.clone()));
        }
        if commit {
            lines.into_iter().for_each(|line| take(&mut state, line));
            state.trim(0);
            drop(state);
            self.write_queued();
            report.committed = true;
        }
        Ok(report)
    }
}

impl ImportReport {
    fn count(&mut self, change: Change) {
        match change {
            Change::New => self.new += 1,
            Change::Updated => self.updated += 1,
            Change::Unchanged => self.unchanged += 1,
        }
    }
}

fn parse(text: &str, report: &mut ImportReport) -> Result<Vec<Line>, WisdomError> {
    let mut lines =
        text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).enumerate().peekable();
    // Without a header its lines have a name of their own, the same at every attempt.
    let mut origin = format!("import-{:08x}", crc32fast::hash(text.as_bytes()));
    let mut first_reason = None;
    if let Some((_, first)) = lines.peek() {
        match decode_header(first.as_bytes()) {
            Ok(header) if header.trimtab > FORMAT_VERSION => {
                return Err(WisdomError::NewerVersion { found: header.trimtab, known: FORMAT_VERSION });
            }
            Ok(header) => {
                if !header.origin.is_empty() {
                    origin = header.origin;
                }
                lines.next();
            }
            Err(reason) => first_reason = Some(reason),
        }
    }
    let mut taken = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match decode(line.as_bytes(), &origin) {
            Ok(line @ (Line::Fact(_) | Line::Verdict(_))) => taken.push(line),
            Ok(Line::Intent(_)) => {
                seen.insert(index);
                report.reject(index + 1, "it says what a process was about to run; that is not imported");
            }
            Ok(Line::Forget(_)) => {
                seen.insert(index);
                report.reject(index + 1, "it says what was forgotten; forget it here if that is wanted");
            }
            Err(reason) => report.reject(index + 1, reason),
        }
    }
    match first_reason {
        Some(reason) if taken.is_empty() && seen.is_empty() => Err(WisdomError::NotWisdom { reason }),
        _ => Ok(taken),
    }
}

/// The line with a time that no earlier forgetting covers, and that is not to come: what is said to be from then is from now.
fn as_known_here(union: &Union, mut line: Line, now_ms: u64) -> Line {
    let time = |at_ms: u64, until: u64| match at_ms > now_ms.saturating_add(DAY_MS) {
        true => now_ms.max(just_after(until)),
        false => at_ms.max(just_after(until)),
    };
    match &mut line {
        Line::Fact(Fact { key, last_seen_ms, .. }) => {
            let until = union.forgotten_until(&key.device, &key.kernel, Some(&key.problem));
            *last_seen_ms = time(*last_seen_ms, until);
        }
        Line::Verdict(verdict) => {
            let until = union.forgotten_until(&verdict.device, &verdict.kernel, Some(&verdict.problem));
            verdict.last_seen_ms = time(verdict.last_seen_ms, until);
        }
        Line::Intent(_) | Line::Forget(_) => {}
    }
    line
}

fn take(state: &mut State, line: Line) {
    let queued = match &line {
        Line::Fact(fact) => Queued::Fact { key: fact.key.clone(), origin: fact.origin.clone() },
        Line::Verdict(verdict) => Queued::Verdict {
            device: verdict.device.clone(),
            problem: verdict.problem.clone(),
            terms: verdict.terms.clone(),
        },
        Line::Intent(_) | Line::Forget(_) => return,
    };
    if state.union.insert(line) != Change::Unchanged {
        state.enqueue(queued);
    }
}

fn best(facts: &[Fact]) -> Option<Best> {
    let timed = facts.iter().filter_map(|Fact { key, outcome, .. }| match outcome {
        Outcome::Timed(stats) => Some((key, stats.mean())),
        Outcome::Failed { .. } => None,
    });
    timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(key, mean_ns)| Best {
        kernel: key.kernel.clone(),
        version: key.version.clone(),
        point: key.point.clone(),
        mean_ns,
    })
}
