//! The most frequent line, a timed fact, read without a JSON parser: the form [`encode`](crate::line::encode) writes and no other. Whatever differs
//! goes the long way, so what a line means is decided in one place. A million facts open in half the time.

use crate::fact::Stats;
use crate::line::MAX_ORIGIN_BYTES;
use crate::names::hash;
use crate::wall::MAX_MS;
use std::ops::Range;

/// A timed fact whose texts are places in the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quick {
    /// The texts, in the order of [`FIELDS`].
    pub texts: [Told; FIELDS.len()],
    pub stats: Stats,
    pub at_ms: u64,
}

/// Where a text is in what was read, and its hash. What the line before says too is where that line says it: then it is the same name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Told {
    from: u32,
    to: u32,
    pub hash: u32,
}

impl Default for Told {
    /// Nothing.
    fn default() -> Told {
        Told { from: 0, to: 0, hash: hash("") }
    }
}

impl Told {
    pub fn in_text(self, text: &str) -> &str {
        text.get(self.from as usize..self.to as usize).unwrap_or_default()
    }
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
    /// Reads the JSON at that place of a text; `last` are the texts of the fact before it in the same text.
    pub fn read(text: &str, json: Range<usize>, last: &[Told; FIELDS.len()]) -> Option<Quick> {
        let end = json.end;
        let mut at = Cursor { text: text.get(..end)?, at: json.start };
        at.skip(b"{\"kind\":\"fact\",")?;
        let mut texts = [Told::default(); FIELDS.len()];
        for ((told, field), last) in texts.iter_mut().zip(FIELDS).zip(last) {
            if at.skip(field).is_some() {
                *told = match at.same(last.in_text(text)) {
                    Some(()) => *last,
                    None => at.string()?,
                };
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
        let possible = at_ms > 0
            && at_ms <= MAX_MS
            && texts[0].in_text(text).len() <= MAX_ORIGIN_BYTES
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

    /// That string and its quote. It was read before, so nothing in it is escaped.
    fn same(&mut self, string: &str) -> Option<()> {
        let rest = self.rest();
        let is_same = rest.starts_with(string.as_bytes()) && rest.get(string.len()) == Some(&b'"');
        is_same.then(|| self.at += string.len() + 1)
    }

    /// A string up to its quote, if nothing in it is escaped.
    fn string(&mut self) -> Option<Told> {
        let length = self.rest().iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let from = self.at;
        self.at += length;
        let to = self.at;
        self.skip(b"\"")?;
        let hash = hash(self.text.get(from..to)?);
        Some(Told { from: u32::try_from(from).ok()?, to: u32::try_from(to).ok()?, hash })
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
        let texts = quick.texts.map(|told| told.in_text(text).to_string());
        let [own, device, kernel, version, problem, point, condition] = texts;
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
            if let Some(quick) = Quick::read(&text, json, &Default::default()) {
                prop_assert_eq!(line_of(&text, &quick, "own"), long);
            } else {
                // Only what is escaped, or cannot have been measured, goes the long way.
                prop_assert!(text.contains('\\'), "{text}");
            }
        }

        #[test]
        fn what_the_line_before_says_too_is_read_the_same(facts in proptest::collection::vec(facts(), 2..5), copied in any::<[u8; 4]>()) {
            // Some of the texts are those of the fact before, or begin like them.
            let (mut all, mut last) = (String::new(), <[Told; FIELDS.len()]>::default());
            let mut facts = facts;
            for at in 1..facts.len() {
                let before = facts[at - 1].key.clone();
                let key = &mut facts[at].key;
                if copied[at - 1] & 1 > 0 { key.device = before.device; }
                if copied[at - 1] & 2 > 0 { key.kernel = before.kernel + if copied[at - 1] & 4 > 0 { "x" } else { "" }; }
                if copied[at - 1] & 8 > 0 { key.problem = before.problem; }
            }
            for fact in facts {
                let start = all.len() + 9;
                all += &encode(&Line::Fact(fact), "own").unwrap();
                let json = start..all.len() - 1;
                if let Some(quick) = Quick::read(&all, json.clone(), &last) {
                    let long = decode_json(&all.as_bytes()[json], "own").unwrap();
                    prop_assert_eq!(line_of(&all, &quick, "own"), long);
                    for told in quick.texts { prop_assert_eq!(told.hash, hash(told.in_text(&all))); }
                    last = quick.texts;
                }
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
            if let Some(quick) = Quick::read(&json, 0..json.len(), &Default::default()) {
                prop_assert_eq!(Ok(line_of(&json, &quick, "own")), decode_json(json.as_bytes(), "own"));
            }
        }
    }
}
