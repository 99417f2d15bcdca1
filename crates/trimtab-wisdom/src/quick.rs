//! The most frequent line, a timed fact, read without a JSON parser: the form [`encode`](crate::line::encode) writes and no other. Whatever differs
//! goes the long way, so what a line means is decided in one place. A million facts open in half the time.

use crate::fact::Stats;
use crate::line::MAX_ORIGIN_BYTES;
use crate::wall::MAX_MS;
use std::ops::Range;

/// A timed fact whose texts are places in the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quick {
    /// Where the texts are, in the order of [`FIELDS`]: start and end. Empty ones are at 0.
    texts: [(u32, u32); FIELDS.len()],
    pub stats: Stats,
    pub at_ms: u64,
}

/// The fields of text, in the order they are written.
const FIELDS: [&[u8]; 7] = [
    b"\"origin\":\"",
    b"\"device\":\"",
    b"\"kernel\":\"",
    b"\"version\":\"",
    b"\"problem\":\"",
    b"\"point\":\"",
    b"\"condition\":\"",
];

impl Quick {
    /// The texts: origin, device, kernel, version, problem, point, condition.
    pub fn texts<'a>(&self, text: &'a str) -> [&'a str; FIELDS.len()] {
        self.texts.map(|(from, to)| text.get(from as usize..to as usize).unwrap_or_default())
    }

    /// Reads the JSON at that place of a text.
    pub fn read(text: &str, json: Range<usize>) -> Option<Quick> {
        let end = json.end;
        let mut at = Cursor { text: text.get(..end)?, at: json.start };
        at.skip(b"{\"kind\":\"fact\",")?;
        let mut texts = [(0, 0); FIELDS.len()];
        for (place, field) in texts.iter_mut().zip(FIELDS) {
            if at.skip(field).is_some() {
                *place = at.string()?;
                at.skip(b",")?;
            }
        }
        at.skip(b"\"n\":")?;
        let n = at.whole()?;
        at.skip(b",\"sum_ns\":")?;
        let sum_ns = at.real()?;
        at.skip(b",\"sum_sq_ns\":")?;
        let sum_sq_ns = at.real()?;
        at.skip(b",\"min_ns\":")?;
        let min_ns = at.real()?;
        let energy_uj = match at.skip(b",\"energy_uj\":") {
            Some(()) => Some(at.real()?),
            None => None,
        };
        at.skip(b",\"at_ms\":")?;
        let at_ms = at.whole()?;
        at.skip(b"}")?;
        let stats = Stats { n, sum_ns, sum_sq_ns, min_ns, energy_uj };
        let (from, to) = texts[0];
        let possible = at_ms > 0
            && at_ms <= MAX_MS
            && (to - from) as usize <= MAX_ORIGIN_BYTES
            && stats.impossible().is_none();
        (at.at == end && possible).then_some(Quick { texts, stats, at_ms })
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, what: &[u8]) -> Option<()> {
        self.rest().starts_with(what).then(|| self.at += what.len())
    }

    /// A string up to its quote, if nothing in it is escaped.
    fn string(&mut self) -> Option<(u32, u32)> {
        let length = self.rest().iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let from = self.at;
        self.at += length;
        let to = self.at;
        self.skip(b"\"")?;
        Some((u32::try_from(from).ok()?, u32::try_from(to).ok()?))
    }

    /// The digits from here on; as JSON writes them, without a zero in front.
    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn integer(&mut self) -> Option<()> {
        let zero = self.rest().starts_with(b"0");
        match self.digits() {
            0 => None,
            1 => Some(()),
            _ => (!zero).then_some(()),
        }
    }

    fn whole(&mut self) -> Option<u64> {
        let from = self.at;
        self.integer()?;
        self.text.get(from..self.at)?.parse().ok()
    }

    /// A number of JSON that is not negative.
    fn real(&mut self) -> Option<f64> {
        let from = self.at;
        self.integer()?;
        if self.skip(b".").is_some() && self.digits() == 0 {
            return None;
        }
        if self.skip(b"e").is_some() {
            let _sign = self.skip(b"-").or_else(|| self.skip(b"+"));
            if self.digits() == 0 {
                return None;
            }
        }
        self.text.get(from..self.at)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, FactKey, Outcome};
    use crate::line::{Line, decode_json, encode};
    use proptest::prelude::*;

    fn facts() -> impl Strategy<Value = Fact> {
        let text = || prop_oneof![3 => "[ -~]{0,12}", 1 => ".{0,6}", 1 => Just(String::new())];
        let texts = (text(), text(), text(), text(), text(), text(), "[0-9a-f]{0,16}");
        let time = || prop_oneof![0.0..1e9f64, Just(3.0), Just(1e300), Just(5e-324)];
        let numbers = (1..u64::MAX, time(), time(), 0.0..=1.0f64, proptest::option::of(time()), 1..MAX_MS);
        (texts, numbers).prop_map(|(texts, (n, sum_ns, sum_sq_ns, share, energy_uj, last_seen_ms))| {
            let (device, kernel, version, problem, point, condition, origin) = texts;
            let key =
                FactKey { device, kernel, version, problem, point, condition: condition.as_str().into() };
            let min_ns = sum_ns / n as f64 * share;
            let outcome = Outcome::Timed(Stats { n, sum_ns, sum_sq_ns, min_ns, energy_uj });
            Fact { key, origin, outcome, last_seen_ms }
        })
    }

    /// What the quick way reads, as the long way would say it.
    fn line_of(text: &str, quick: &Quick, origin: &str) -> Line {
        let [own, device, kernel, version, problem, point, condition] = quick.texts(text).map(str::to_string);
        let key = FactKey { device, kernel, version, problem, point, condition: condition.as_str().into() };
        let origin = if own.is_empty() { origin.to_string() } else { own };
        Line::Fact(Fact { key, origin, outcome: Outcome::Timed(quick.stats), last_seen_ms: quick.at_ms })
    }

    proptest! {
        #[test]
        fn the_quick_way_reads_what_the_long_way_reads(fact in facts()) {
            let text = encode(&Line::Fact(fact.clone()), "own").unwrap();
            let json = 9..text.len() - 1;
            let long = decode_json(&text.as_bytes()[json.clone()], "own").unwrap();
            if let Some(quick) = Quick::read(&text, json) {
                prop_assert_eq!(line_of(&text, &quick, "own"), long);
            } else {
                // Only what is escaped, or cannot have been measured, goes the long way.
                prop_assert!(text.contains('\\'), "{text}");
            }
        }

        #[test]
        fn a_line_changed_anywhere_is_read_as_the_long_way_reads_it_or_not_at_all(
            fact in facts(), at in any::<prop::sample::Index>(), byte in prop_oneof![any::<u8>(), b'0'..=b'9', Just(b'"'), Just(b','), Just(b'.'), Just(b'e')],
            cut in any::<bool>(),
        ) {
            let text = encode(&Line::Fact(fact), "own").unwrap();
            let mut json = text.as_bytes()[9..text.len() - 1].to_vec();
            let at = at.index(json.len());
            if cut { json.remove(at); } else { json[at] = byte; }
            let Ok(json) = String::from_utf8(json) else { return Ok(()) };
            if let Some(quick) = Quick::read(&json, 0..json.len()) {
                prop_assert_eq!(Ok(line_of(&json, &quick, "own")), decode_json(json.as_bytes(), "own"));
            }
        }
    }
}
