//! What fuzz targets need of this crate's inside; nobody else does.

use crate::fact::{Fact, FactKey, Outcome};
use crate::line::{Line, decode, decode_json, encode};
use crate::quick::Quick;

/// The origin of the file that a line is said to come from.
const ORIGIN: &str = "own";

/// What was made of one line's JSON, as text that tells every bit apart.
#[derive(Debug)]
pub struct Readings {
    /// By the parser of timed facts; nothing if it leaves the line to the other.
    pub quick: Option<String>,
    /// By the JSON parser, or why it refuses the line.
    pub long: Result<String, String>,
    /// What that reads in the line it is written as; nothing if it cannot be written.
    pub again: Option<Result<String, String>>,
}

/// Reads a line's JSON in every way there is.
pub fn readings(json: &str) -> Readings {
    let quick = Quick::read(json, 0..json.len(), &Default::default()).map(|quick| {
        let texts = quick.texts.map(|told| told.in_text(json).to_string());
        let [own, device, kernel, version, problem, point, condition] = texts;
        let key = FactKey { device, kernel, version, problem, point, condition: condition.as_str().into() };
        let origin = if own.is_empty() { ORIGIN.to_string() } else { own };
        let outcome = Outcome::Timed(quick.stats);
        format!("{:?}", Line::Fact(Fact { key, origin, outcome, last_seen_ms: quick.at_ms }))
    });
    let long = decode_json(json.as_bytes(), ORIGIN);
    let written = long.as_ref().ok().and_then(|line| encode(line, ORIGIN).ok());
    let again = written.map(|line| decode(line.trim_end_matches('\n').as_bytes(), ORIGIN));
    let shown = |line: Result<Line, String>| line.map(|line| format!("{line:?}"));
    Readings { quick, long: shown(long), again: again.map(shown) }
}
