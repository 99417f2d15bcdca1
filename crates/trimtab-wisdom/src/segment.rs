//! One segment as text: its name, its header, its lines read on from where the last look ended. Decides nothing about
//! what the lines mean.

use crate::line::{FORMAT_VERSION, Header, Line, decode, decode_header, encode_header};
use crate::store::{MAX_SEGMENT_BYTES, Store};
use crate::wall;
use std::io;

/// The most segments that are looked at in one store.
pub const MAX_LISTED: usize = 4096;
/// The most malformed lines of one segment that are told one by one.
const MAX_TOLD: usize = 16;
/// The most that is read of one segment: writers stop at half of it, give or take a last write.
pub(crate) const MAX_READ_BYTES: u64 = 2 * MAX_SEGMENT_BYTES;

/// The name of an origin's segment; the first has no number.
pub(crate) fn name_of(origin: &str, number: u32) -> String {
    match number {
        0 => format!("seg-{origin}.jsonl"),
        _ => format!("seg-{origin}-{number}.jsonl"),
    }
}

/// The first line of a segment.
pub(crate) fn header(origin: &str) -> io::Result<String> {
    let header = Header { trimtab: FORMAT_VERSION, origin: origin.to_string(), created_ms: wall::now_ms() };
    encode_header(&header).map_err(io::Error::other)
}

/// The names of the segments in a store, in order, and whether there were more than are looked at.
pub(crate) fn list(store: &dyn Store) -> io::Result<(Vec<String>, bool)> {
    let mut names = store.list()?;
    names.retain(|name| name.starts_with("seg-") && name.ends_with(".jsonl"));
    names.sort();
    let more = names.len() > MAX_LISTED;
    names.truncate(MAX_LISTED);
    Ok((names, more))
}

/// How far a segment was read, and what was found until there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub offset: u64,
    pub lines: usize,
    pub bad: usize,
    pub origin: String,
    /// It cannot be used; that was reported.
    pub unusable: bool,
}

/// Why a segment cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was written by a newer trimtab.
    Newer(u64),
    /// Its header or most of its lines are damaged.
    Damaged(String),
}

/// What was read of a segment.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub lines: Vec<Line>,
    /// Malformed lines with their numbers, the first [`MAX_TOLD`].
    pub malformed: Vec<(usize, String)>,
    pub malformed_count: usize,
    /// The number of a last line without newline.
    pub torn: Option<usize>,
    /// More bytes than are read of one segment.
    pub cut: bool,
    pub size: u64,
    pub alive: bool,
    pub trouble: Option<Trouble>,
}

/// Reads what was added since the last time. Lines are returned even of a segment in trouble; the caller decides.
pub(crate) fn read_on(store: &dyn Store, name: &str, progress: &mut Progress) -> io::Result<Reading> {
    let mut part = store.read(name, progress.offset, MAX_READ_BYTES.saturating_sub(progress.offset))?;
    if part.size < progress.offset {
        *progress = Progress::default();
        part = store.read(name, 0, MAX_READ_BYTES)?;
    }
    let (size, alive) = (part.size, part.alive);
    let mut read = Reading { cut: size > MAX_READ_BYTES, size, alive, ..Reading::default() };
    let mut rest = part.bytes.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        progress.offset += end as u64 + 1;
        progress.lines += 1;
        if progress.lines == 1 {
            match decode_header(line) {
                Ok(header) if header.trimtab > FORMAT_VERSION => {
                    read.trouble = Some(Trouble::Newer(header.trimtab));
                    return Ok(read);
                }
                Ok(header) => progress.origin = header.origin,
                Err(why) => {
                    read.trouble = Some(Trouble::Damaged(format!("its first line is no header: {why}")));
                    return Ok(read);
                }
            }
        } else if !line.is_empty() {
            match decode(line, &progress.origin) {
                Ok(line) => read.lines.push(line),
                Err(why) => {
                    progress.bad += 1;
                    read.malformed_count += 1;
                    if read.malformed.len() < MAX_TOLD {
                        read.malformed.push((progress.lines, why));
                    }
                }
            }
        }
    }
    if !rest.is_empty() {
        read.torn = Some(progress.lines + 1);
        if progress.lines == 0 {
            read.trouble = Some(Trouble::Damaged("its first line is no header: it has no end".to_string()));
        }
    }
    if progress.bad * 2 > progress.lines {
        let (bad, lines) = (progress.bad, progress.lines);
        read.trouble = Some(Trouble::Damaged(format!("{bad} of its {lines} lines are malformed")));
    }
    Ok(read)
}
