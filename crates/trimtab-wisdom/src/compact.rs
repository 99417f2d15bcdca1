//! Compaction: the segments of dead writers become one, written in full before they are removed. Nothing that could
//! not be read is ever deleted, and segments of living writers are not touched.

use crate::line::{Line, encode};
use crate::segment::{self, MAX_LISTED, Progress, Reading, name_of};
use crate::store::{MAX_SEGMENT_BYTES, NewSegment, Old, Store};
use crate::union::{MAX_FACTS, MAX_LIVE_FACTS, Union};
use crate::view::{View, new_origin};
use crate::wall;
use crate::warning::{Warning, WarningKind};
use crate::wisdom::Wisdom;
use std::io;

/// More segments of dead writers than this are compacted at the next flush.
pub const MAX_SEGMENTS: usize = 32;
/// With more than this even opening waits for it: processes too short for a flush in the background leave them.
pub(crate) const MAX_SEGMENTS_AT_OPEN: usize = 256;
/// More bytes in them than this are, too; and a compaction leaves at most half of it.
pub const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// The most segments that are merged at once: each is open meanwhile, and macOS lets a process have 256 files open. Twice in a row is enough
/// for all that are listed.
const MAX_MERGED: usize = 64;
/// A writer's own full segments are compacted once they hold more than this many times what the last compaction left,
const MAX_GARBAGE: u64 = 1;
/// and more than this: a program that runs for months needs no more room than one that ran for a day.
const MIN_GARBAGE_BYTES: u64 = 2 * MAX_SEGMENT_BYTES;
/// What is read may grow to this many times the bounds before the oldest of it go.
const HELD: f64 = 1.05;
/// How long a discharged intent is kept: as long as an old copy of the line it discharges may turn up.
const DONE_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Segments of dead writers that were merged and removed.
    pub segments_merged: usize,
    /// Segments they became.
    pub segments_written: usize,
    /// Segments that were left alone: of living writers, or unusable.
    pub segments_kept: usize,
    /// Size of the merged ones.
    pub bytes_before: u64,
    /// Size of what they became.
    pub bytes_after: u64,
    /// Facts that were written, counted per key and origin.
    pub facts: usize,
    /// The oldest facts, dropped to keep the bounds.
    pub facts_dropped: usize,
    /// Why nothing was done, if it failed.
    pub error: Option<String>,
}

impl Wisdom {
    /// Merges the segments of dead writers into one, now.
    pub fn compact(&self) -> CompactReport {
        self.write_queued();
        self.compact_with(&mut self.view())
    }

    pub(crate) fn compact_if_needed(&self, segments_max: usize, bytes_max: u64) {
        let mut view = self.view();
        let garbage = view.let_go_bytes > MIN_GARBAGE_BYTES.max(MAX_GARBAGE * view.compact_bytes);
        if garbage || view.dead > segments_max.max(view.compact_above) || view.dead_bytes > bytes_max {
            self.compact_with(&mut view);
        }
    }

    fn compact_with(&self, view: &mut View) -> CompactReport {
        let Some(store) = self.store.as_ref().filter(|_| self.is_here()) else {
            return CompactReport::default();
        };
        let mut report = CompactReport::default();
        let forgets: Vec<Line> = self.state().union.forgets().map(Line::Forget).collect();
        if let Err(error) = compact(store.as_ref(), view, forgets, &mut report) {
            let place = store.place();
            let message =
                format!("cannot compact {place}: {error}; its segments stay as they are, make it writable");
            self.state().warnings.add(Warning::new(WarningKind::NotWritable, message));
            report.error = Some(error.to_string());
        }
        if report.facts_dropped > 0 {
            let message = format!(
                "{} old facts were dropped to keep {} below its bounds; forget devices that are gone",
                report.facts_dropped,
                store.place()
            );
            self.state().warnings.add(Warning::new(WarningKind::Dropped, message));
        }
        // What could not be merged now is not tried again before twice as many have gathered.
        view.dead = view.dead.saturating_sub(report.segments_merged) + report.segments_written;
        view.compact_above = 2 * view.dead;
        view.dead_bytes = report.bytes_after;
        (view.let_go_bytes, view.compact_bytes) = (0, report.bytes_after);
        report
    }
}

fn compact(store: &dyn Store, view: &View, forgets: Vec<Line>, report: &mut CompactReport) -> io::Result<()> {
    let (names, _) = segment::list(store)?;
    let is_other = |name: &String| !view.is_own(name);
    let (others, own): (Vec<String>, Vec<String>) = names.into_iter().partition(is_other);
    report.segments_kept = own.len();
    let mut made = Vec::new();
    let lots = others.len().div_ceil(MAX_MERGED);
    for names in others.chunks(MAX_MERGED) {
        made.extend(merge(store, names, &forgets, lots == 1, report)?);
    }
    // What several lots became is one lot now.
    if lots > 1 && made.len() > 1 {
        const { assert!(MAX_LISTED <= MAX_MERGED * MAX_MERGED) };
        let before = (report.segments_merged, report.bytes_before);
        report.segments_written = 0;
        report.bytes_after = 0;
        report.facts = 0;
        for names in made.chunks(MAX_MERGED) {
            merge(store, names, &forgets, made.len() <= MAX_MERGED, report)?;
        }
        (report.segments_merged, report.bytes_before) = before;
    }
    Ok(())
}

/// Merges the dead among these segments into new ones and says which. If they are all there are, no other can hold an intent that
/// a discharge among them is about.
fn merge(
    store: &dyn Store,
    names: &[String],
    forgets: &[Line],
    all: bool,
    report: &mut CompactReport,
) -> io::Result<Vec<String>> {
    let mut union = Union::default();
    let mut old = Vec::new();
    let (mut lines, mut bytes) = (0, 0);
    for (at, name) in names.iter().enumerate() {
        // Work is bounded: what is beyond is for the next time.
        if bytes > 2 * MAX_BYTES {
            report.segments_kept += names.len() - at;
            break;
        }
        let Some(read) = read_dead(store, name) else {
            report.segments_kept += 1;
            continue;
        };
        bytes += read.size;
        lines += read.len();
        old.push(Old { name: name.clone(), size: read.size, set_aside: read.malformed_count > 0 });
        read.take_in(&mut union);
        union.bound(HELD);
    }
    for line in forgets {
        union.insert(line.clone());
    }
    if all {
        union.drop_done_before(wall::now_ms().saturating_sub(DONE_KEPT_MS));
    }
    union.trim_live(MAX_LIVE_FACTS);
    let mut dropped = union.trim(MAX_FACTS);
    let origin = new_origin();
    // Counted before any of it is made, and made one segment at a time: a process that compacts has everything it knows in memory already.
    let count = |union: &Union| {
        lines_of(union, &origin).fold((0, 0), |(lines, bytes), line| (lines + 1, bytes + line.len() as u64))
    };
    let (mut written, mut size) = count(&union);
    while size > MAX_BYTES / 2 && union.entries() > 0 {
        dropped += union.trim(union.entries() / 2);
        (written, size) = count(&union);
    }
    // One that is compact already stays.
    if old.is_empty() || (old.len() == 1 && written == lines) {
        report.segments_kept += old.len();
        return Ok(old.into_iter().map(|old| old.name).collect());
    }
    let (mut made, mut bytes_after) = (Vec::new(), 0);
    let new = segments(&union, &origin, segment::header(&origin)?, size);
    let mut new = new.inspect(|(name, text)| {
        made.push(name.clone());
        bytes_after += text.len() as u64;
    });
    let merged = store.replace(&old, &mut new)?;
    drop(new);
    report.segments_kept += old.len() - merged.min(old.len());
    if merged == 0 {
        return Ok(Vec::new());
    }
    report.segments_merged += merged;
    report.segments_written += made.len();
    report.bytes_before += bytes;
    report.bytes_after += bytes_after;
    report.facts += union.entries();
    report.facts_dropped += dropped;
    Ok(made)
}

/// A dead segment that can be read to its end; `None` if it is none.
fn read_dead(store: &dyn Store, name: &str) -> Option<Reading> {
    let read = segment::read_on(store, name, &mut Progress::default()).ok()?;
    // Lines from the future are kept where they are until their time comes.
    (!read.alive && read.trouble.is_none() && !read.cut && read.ahead == 0).then_some(read)
}

/// Everything as lines.
fn lines_of<'a>(union: &'a Union, origin: &'a str) -> impl Iterator<Item = String> + 'a {
    let facts = union.unmerged().map(Line::Fact);
    let verdicts = union.unmerged_verdicts().map(Line::Verdict);
    let intents = union.intents().map(Line::Intent);
    let lines = union.forgets().map(Line::Forget).chain(intents).chain(verdicts).chain(facts);
    lines.filter_map(move |line| encode(&line, origin).ok())
}

/// Everything as as few segments as it needs, each made when it is asked for.
fn segments<'a>(
    union: &'a Union,
    origin: &'a str,
    header: String,
    size: u64,
) -> impl Iterator<Item = NewSegment> + 'a {
    let room = usize::try_from(size.min(MAX_SEGMENT_BYTES)).unwrap_or(0);
    let mut lines = lines_of(union, origin).peekable();
    let mut number = 0;
    std::iter::from_fn(move || {
        let mut text = Vec::with_capacity(room);
        text.extend_from_slice(header.as_bytes());
        // The first line however long it is, or there would be no end.
        text.extend_from_slice(lines.next()?.as_bytes());
        while let Some(line) = lines.next_if(|line| (text.len() + line.len()) as u64 <= MAX_SEGMENT_BYTES) {
            text.extend_from_slice(line.as_bytes());
        }
        number += 1;
        Some((name_of(origin, number - 1), text))
    })
}
