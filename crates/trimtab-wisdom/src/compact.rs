//! Compaction: the segments of dead writers become one, written in full before they are removed. Nothing that could
//! not be read is ever deleted, and segments of living writers are not touched.

use crate::disk::{Disk, new_origin};
use crate::line::{Line, encode};
use crate::segment::{self, Progress, Reading, Writer, name_of};
use crate::store::{MAX_WRITE_BYTES, Wisdom};
use crate::union::{MAX_FACTS, Union};
use crate::wall;
use crate::warning::{Warning, WarningKind};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// More segments of dead writers than this are compacted at the next flush.
pub const MAX_SEGMENTS: usize = 32;
/// With more than this even opening waits for it: processes too short for a flush in the background leave them.
pub(crate) const MAX_SEGMENTS_AT_OPEN: usize = 256;
/// More bytes in them than this are, too; and a compaction leaves at most half of it.
pub const MAX_BYTES: u64 = 128 * 1024 * 1024;
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

/// A segment taken for removal; the file is open because that holds its lock.
struct Taken {
    path: PathBuf,
    _locked: File,
    malformed: bool,
}

impl Wisdom {
    /// Merges the segments of dead writers into one, now.
    pub fn compact(&self) -> CompactReport {
        self.write_queued();
        let mut disk = self.disk();
        self.compact_with(&mut disk)
    }

    pub(crate) fn compact_if_needed(&self, segments_max: usize, bytes_max: u64) {
        let mut disk = self.disk();
        let needed = disk.dead > segments_max.max(disk.compact_above) || disk.dead_bytes > bytes_max;
        if needed {
            self.compact_with(&mut disk);
        }
    }

    fn compact_with(&self, disk: &mut Disk) -> CompactReport {
        let Some(dir) = disk.dir.clone() else { return CompactReport::default() };
        let mut report = CompactReport::default();
        let forgets: Vec<Line> = self.state().union.forgets().map(Line::Forget).collect();
        if let Err(error) = compact(&dir, disk, forgets, &mut report) {
            let dir = dir.display();
            let message =
                format!("cannot compact {dir}: {error}; its segments stay as they are, make it writable");
            self.state().warnings.add(Warning::new(WarningKind::NotWritable, message));
            report.error = Some(error.to_string());
        }
        if report.facts_dropped > 0 {
            let message = format!(
                "{} old facts were dropped to keep {} below its bounds; forget devices that are gone",
                report.facts_dropped,
                dir.display()
            );
            self.state().warnings.add(Warning::new(WarningKind::Dropped, message));
        }
        // What could not be merged now is not tried again before twice as many have gathered.
        disk.dead = disk.dead.saturating_sub(report.segments_merged) + report.segments_written;
        disk.compact_above = 2 * disk.dead;
        disk.dead_bytes = report.bytes_after;
        report
    }
}

fn compact(dir: &Path, disk: &Disk, forgets: Vec<Line>, report: &mut CompactReport) -> io::Result<()> {
    let (names, _) = segment::list(dir)?;
    let mut union = Union::default();
    let mut taken = Vec::new();
    let (mut lines, mut found) = (0, 0);
    for name in names {
        let path = dir.join(&name);
        let read = if disk.is_own(&name) { None } else { take(&path) };
        let Some((file, read, bytes)) = read else {
            report.segments_kept += 1;
            continue;
        };
        report.bytes_before += bytes;
        lines += read.lines.len();
        taken.push(Taken { path, _locked: file, malformed: read.malformed_count > 0 });
        for line in read.lines {
            union.insert(line);
        }
        // Work is bounded: what is beyond is for the next time.
        found += bytes;
        if found > 2 * MAX_BYTES {
            break;
        }
    }
    for line in forgets {
        union.insert(line);
    }
    union.drop_done_before(wall::now_ms().saturating_sub(DONE_KEPT_MS));
    report.facts_dropped = union.trim(MAX_FACTS);
    let origin = new_origin();
    let mut text = encoded(&union, &origin);
    while text.iter().map(String::len).sum::<usize>() as u64 > MAX_BYTES / 2 && union.entries() > 0 {
        report.facts_dropped += union.trim(union.entries() / 2);
        text = encoded(&union, &origin);
    }
    let single = taken.len() == 1 && text.len() == lines;
    if taken.is_empty() || single {
        report.segments_kept += taken.len();
        report.bytes_before = 0;
        return Ok(());
    }
    report.facts = union.entries();
    (report.segments_written, report.bytes_after) = write_all(dir, &origin, &text)?;
    segment::sync_dir(dir);
    for Taken { path, malformed, .. } in &taken {
        let gone = if *malformed { segment::set_aside(path).map(drop) } else { fs::remove_file(path) };
        match gone {
            Ok(()) => report.segments_merged += 1,
            // Another process compacted it just before us.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    segment::sync_dir(dir);
    segment::remove_leftovers(dir);
    Ok(())
}

/// A dead segment that can be read to its end, locked; `None` if it is none.
fn take(path: &Path) -> Option<(File, Reading, u64)> {
    let mut file = segment::open(path).ok()?;
    if !segment::take(&file) {
        return None;
    }
    let mut progress = Progress::default();
    let read = segment::read_on(&mut file, &mut progress).ok()?;
    (read.trouble.is_none() && !read.cut).then_some((file, read, progress.offset))
}

fn encoded(union: &Union, origin: &str) -> Vec<String> {
    let facts = union.unmerged().map(Line::Fact);
    let verdicts = union.unmerged_verdicts().cloned().map(Line::Verdict);
    let intents = union.intents().map(Line::Intent);
    let lines = union.forgets().map(Line::Forget).chain(intents).chain(verdicts).chain(facts);
    lines.filter_map(|line| encode(&line, origin).ok()).collect()
}

/// Writes the lines into as few segments as they need, to the disk itself; says how many and their size. They carry
/// their final names from the start: a half-written one is a true part of the union, and the old ones are still there.
fn write_all(dir: &Path, origin: &str, lines: &[String]) -> io::Result<(usize, u64)> {
    let mut files: Vec<Writer> = Vec::new();
    let written = write_into(&mut files, dir, origin, lines);
    if let Err(error) = written {
        files.iter().for_each(Writer::remove);
        return Err(error);
    }
    Ok((files.len(), files.iter().map(Writer::bytes).sum()))
}

fn write_into(files: &mut Vec<Writer>, dir: &Path, origin: &str, lines: &[String]) -> io::Result<()> {
    let mut buffer = String::new();
    let mut lines = lines.iter().peekable();
    while lines.peek().is_some() {
        buffer.clear();
        while let Some(line) =
            lines.next_if(|line| buffer.is_empty() || buffer.len() + line.len() < MAX_WRITE_BYTES)
        {
            buffer.push_str(line);
        }
        if files.last().is_none_or(|writer| writer.is_full(buffer.len())) {
            let number = u32::try_from(files.len()).unwrap_or(u32::MAX);
            files.push(Writer::create(dir, &name_of(origin, number), origin)?);
        }
        if let Some(writer) = files.last_mut() {
            writer.append(buffer.as_bytes())?;
        }
    }
    files.iter().try_for_each(Writer::sync)
}
