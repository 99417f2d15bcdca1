//! One segment as text: its name, its header, its lines read on from where the last look ended. Decides nothing about
//! what the lines mean.

use crate::fact::DAY_MS;
use crate::line::{FORMAT_VERSION, Header, Line, decode_header, decode_json, encode_header, opened};
use crate::quick::Quick;
use crate::store::{MAX_SEGMENT_BYTES, Store};
use crate::union::{Change, Union};
use crate::wall;
use std::io::{self, BufRead};

/// The most segments that are looked at in one store.
pub const MAX_LISTED: usize = 4096;
/// The most malformed lines of one segment that are told one by one.
const MAX_TOLD: usize = 16;
/// The most that is read of one segment: writers stop long before, and those of earlier versions at half of it, give or take a last write.
pub(crate) const MAX_READ_BYTES: u64 = 8 * MAX_SEGMENT_BYTES;

/// The last time that is believed now. A line from later than that says nothing yet: it would be the newest for ever, and whatever forgets
/// it would forget all that comes after. A day, because clocks of machines that share wisdom differ.
pub(crate) fn latest_ms() -> u64 {
    wall::now_ms().saturating_add(DAY_MS)
}

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

/// One line that was read.
#[derive(Debug)]
enum Read {
    /// A timed fact; its texts are places in the segment's text.
    Quick(Quick),
    Line(Box<Line>),
}

/// What was read of a segment: its text and what its lines say, as long as they are taken in.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    text: String,
    lines: Vec<Read>,
    origin: String,
    /// Malformed lines with their numbers, the first [`MAX_TOLD`].
    pub malformed: Vec<(usize, String)>,
    pub malformed_count: usize,
    /// Lines dated later than [`latest_ms`].
    pub ahead: usize,
    /// The number of a last line without newline.
    pub torn: Option<usize>,
    /// More bytes than are read of one segment.
    pub cut: bool,
    pub size: u64,
    pub alive: bool,
    pub trouble: Option<Trouble>,
}

impl Reading {
    /// The number of lines that count.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Takes the lines in and says how many were news.
    pub fn take_in(self, union: &mut Union) -> usize {
        let Reading { text, lines, origin, .. } = self;
        let (mut news, mut last) = (0, None);
        for line in lines {
            let change = match line {
                Read::Line(line) => {
                    last = None;
                    union.insert(*line)
                }
                Read::Quick(quick) => union.insert_quick(&text, &origin, &quick, &mut last),
            };
            news += usize::from(change != Change::Unchanged);
        }
        news
    }
}

/// Reads what was added since the last time. Lines are returned even of a segment in trouble; the caller decides.
pub(crate) fn read_on(store: &dyn Store, name: &str, progress: &mut Progress) -> io::Result<Reading> {
    let mut part = store.read(name, progress.offset, MAX_READ_BYTES.saturating_sub(progress.offset))?;
    if part.size < progress.offset {
        *progress = Progress::default();
        part = store.read(name, 0, MAX_READ_BYTES)?;
    }
    let (size, alive, latest_ms) = (part.size, part.alive, latest_ms());
    let mut read = Reading { cut: size > MAX_READ_BYTES, size, alive, ..Reading::default() };
    // What is not text as a whole has lines that are; they go the long way.
    let (text, bytes) = match String::from_utf8(part.bytes) {
        Ok(text) => (text, Vec::new()),
        Err(error) => (String::new(), error.into_bytes()),
    };
    let bytes = if bytes.is_empty() { text.as_bytes() } else { bytes.as_slice() };
    let (mut at, mut last) = (0, Default::default());
    loop {
        let length = (&bytes[at..]).skip_until(b'\n')?;
        let Some((b'\n', line)) = bytes[at..at + length].split_last() else { break };
        let start = at;
        at += length;
        progress.offset += length as u64;
        progress.lines += 1;
        if progress.lines == 1 {
            match decode_header(line) {
                Ok(header) if header.trimtab > FORMAT_VERSION => {
                    read.trouble = Some(Trouble::Newer(header.trimtab));
                    return Ok(read);
                }
                // Whoever carries its lines on writes an origin to them, and an empty one would be the carrier's.
                Ok(header) if header.origin.is_empty() => {
                    progress.origin = format!("unnamed-{:08x}", crc32fast::hash(line));
                }
                Ok(header) => progress.origin = header.origin,
                Err(why) => {
                    read.trouble = Some(Trouble::Damaged(format!("its first line is no header: {why}")));
                    return Ok(read);
                }
            }
        } else if !line.is_empty() {
            let said = opened(line).and_then(|json| {
                let end = start + line.len();
                match Quick::read(&text, end - json.len()..end, &last) {
                    Some(quick) => {
                        last = quick.texts;
                        Ok((quick.at_ms, Read::Quick(quick)))
                    }
                    None => {
                        let line = decode_json(json, &progress.origin)?;
                        Ok((line.at_ms(), Read::Line(Box::new(line))))
                    }
                }
            });
            match said {
                Ok((at_ms, _)) if at_ms > latest_ms => read.ahead += 1,
                Ok((_, line)) => read.lines.push(line),
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
    if at < bytes.len() {
        read.torn = Some(progress.lines + 1);
        if progress.lines == 0 {
            read.trouble = Some(Trouble::Damaged("its first line is no header: it has no end".to_string()));
        }
    }
    if progress.bad * 2 > progress.lines {
        let (bad, lines) = (progress.bad, progress.lines);
        read.trouble = Some(Trouble::Damaged(format!("{bad} of its {lines} lines are malformed")));
    }
    read.origin = progress.origin.clone();
    read.text = text;
    Ok(read)
}
