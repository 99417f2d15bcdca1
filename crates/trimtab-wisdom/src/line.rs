//! One line of the format: a checksum and a JSON object. Encoding and decoding only; FORMAT.md is its description.

use crate::fact::{Extent, Fact, FactKey, Filter, Outcome, Stats, Verdict};
use crate::wall::MAX_MS;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use trimtab_core::{Condition, FailureKind};

/// The format this build writes and the newest it reads.
pub const FORMAT_VERSION: u64 = 1;
/// The longest line that is written or read, the newline not counted.
pub const MAX_LINE_BYTES: usize = 16 * 1024;
/// The longest origin that is read.
pub(crate) const MAX_ORIGIN_BYTES: usize = 64;

/// That a risky first run is about to happen, or that it came back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Intent {
    pub device: String,
    pub kernel: String,
    pub version: String,
    pub point: String,
    pub origin: String,
    pub at_ms: u64,
    pub done: bool,
}

/// That everything matching up to that time is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forget {
    pub filter: Filter,
    pub before_ms: u64,
}

/// Any line but the header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Fact(Fact),
    Verdict(Verdict),
    Intent(Intent),
    Forget(Forget),
}

/// A fact without its outcome, as texts that lie elsewhere: in a file that was read, or in a [`Fact`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FactLine<'a> {
    pub device: &'a str,
    pub kernel: &'a str,
    pub version: &'a str,
    pub problem: &'a str,
    pub point: &'a str,
    pub condition: &'a str,
    pub origin: &'a str,
    pub at_ms: u64,
}

impl FactLine<'_> {
    pub fn of(fact: &Fact) -> FactLine<'_> {
        let Fact { key, origin, last_seen_ms, .. } = fact;
        FactLine {
            device: &key.device,
            kernel: &key.kernel,
            version: &key.version,
            problem: &key.problem,
            point: &key.point,
            condition: key.condition.name(),
            origin,
            at_ms: *last_seen_ms,
        }
    }
}

impl Line {
    /// When it was written down; of a forget line, up to when it forgets.
    pub fn at_ms(&self) -> u64 {
        match self {
            Line::Fact(fact) => fact.last_seen_ms,
            Line::Verdict(verdict) => verdict.last_seen_ms,
            Line::Intent(intent) => intent.at_ms,
            Line::Forget(forget) => forget.before_ms,
        }
    }
}

/// The first line of a file. Its form is the same in every version of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub trimtab: u64,
    /// Whose lines these are, unless a line says otherwise.
    #[serde(default)]
    pub origin: String,
    #[serde(default)]
    pub created_ms: u64,
}

/// All kinds in one flat struct: serde's tagged enums copy every line into a tree first, which doubles the load time.
#[derive(Default, Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    origin: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    device: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    kernel: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    version: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    problem: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    point: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    condition: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    terms: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    on: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    patience: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    candidates: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    failed: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    message: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum_sq_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_uj: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<Filter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extent: Option<Extent>,
    at_ms: u64,
}

/// The line with its newline, leaving the origin out where it is the file's own. An error says why it cannot be written.
pub(crate) fn encode(line: &Line, file_origin: &str) -> Result<String, String> {
    let origin = |origin: &str| -> Cow<'_, str> {
        if origin == file_origin { Cow::Borrowed("") } else { Cow::Owned(origin.to_string()) }
    };
    let wire = match line {
        Line::Fact(fact) => {
            let mut wire = Wire {
                kind: "fact".into(),
                origin: origin(&fact.origin),
                device: fact.key.device.as_str().into(),
                kernel: fact.key.kernel.as_str().into(),
                version: fact.key.version.as_str().into(),
                problem: fact.key.problem.as_str().into(),
                point: fact.key.point.as_str().into(),
                condition: fact.key.condition.name().into(),
                at_ms: fact.last_seen_ms,
                ..Wire::default()
            };
            match &fact.outcome {
                Outcome::Timed(stats) => {
                    wire.n = Some(stats.n);
                    wire.sum_ns = Some(stats.sum_ns);
                    wire.sum_sq_ns = Some(stats.sum_sq_ns);
                    wire.min_ns = Some(stats.min_ns);
                    wire.energy_uj = stats.energy_uj;
                }
                Outcome::Failed { kind, message } => {
                    wire.failed = kind.name().into();
                    wire.message = message.as_str().into();
                }
            }
            wire
        }
        Line::Verdict(verdict) => Wire {
            kind: "verdict".into(),
            origin: origin(&verdict.origin),
            device: verdict.device.as_str().into(),
            kernel: verdict.kernel.as_str().into(),
            version: verdict.version.as_str().into(),
            problem: verdict.problem.as_str().into(),
            point: verdict.point.as_str().into(),
            terms: verdict.terms.as_str().into(),
            on: verdict.on.as_str().into(),
            patience: verdict.extent.text().unwrap_or_default().into(),
            extent: Some(verdict.extent.clone()).filter(|extent| extent.text().is_none()),
            // Text, because many JSON readers keep only 53 bits of a number.
            candidates: format!("{:016x}", verdict.candidates).into(),
            at_ms: verdict.last_seen_ms,
            ..Wire::default()
        },
        Line::Intent(intent) => Wire {
            kind: if intent.done { "done" } else { "intent" }.into(),
            origin: origin(&intent.origin),
            device: intent.device.as_str().into(),
            kernel: intent.kernel.as_str().into(),
            version: intent.version.as_str().into(),
            point: intent.point.as_str().into(),
            at_ms: intent.at_ms,
            ..Wire::default()
        },
        Line::Forget(forget) => Wire {
            kind: "forget".into(),
            filter: Some(forget.filter.clone()),
            at_ms: forget.before_ms,
            ..Wire::default()
        },
    };
    sealed(&wire)
}

/// The header line with its newline.
pub(crate) fn encode_header(header: &Header) -> Result<String, String> {
    sealed(header)
}

fn sealed<T: Serialize>(value: &T) -> Result<String, String> {
    let json = serde_json::to_string(value).map_err(|error| error.to_string())?;
    if json.len() + 9 > MAX_LINE_BYTES {
        return Err(format!("its line would have {} bytes, limit {MAX_LINE_BYTES}", json.len() + 9));
    }
    Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())))
}

/// The JSON of a line whose checksum is right; else the reason.
pub(crate) fn opened(line: &[u8]) -> Result<&[u8], String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("it has {} bytes, limit {MAX_LINE_BYTES}", line.len()));
    }
    let (Some(sum), Some(b' '), Some(json)) = (line.get(..8), line.get(8), line.get(9..)) else {
        return Err("it does not start with a checksum".to_string());
    };
    let sum = std::str::from_utf8(sum).ok().and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let Some(sum) = sum else { return Err("it does not start with a checksum".to_string()) };
    let found = crc32fast::hash(json);
    if sum != found {
        return Err(format!("its checksum says {sum:08x} and its text has {found:08x}"));
    }
    Ok(json)
}

/// The header in a line without its newline; else the reason.
pub(crate) fn decode_header(line: &[u8]) -> Result<Header, String> {
    let header: Header = serde_json::from_slice(opened(line)?).map_err(|error| error.to_string())?;
    if header.origin.len() > MAX_ORIGIN_BYTES {
        return Err(format!("its origin is longer than {MAX_ORIGIN_BYTES} bytes"));
    }
    Ok(header)
}

/// What a line without its newline says; else the reason.
pub(crate) fn decode(line: &[u8], file_origin: &str) -> Result<Line, String> {
    decode_json(opened(line)?, file_origin)
}

/// What the JSON of a line says; else the reason.
pub(crate) fn decode_json(json: &[u8], file_origin: &str) -> Result<Line, String> {
    let wire: Wire<'_> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if wire.at_ms == 0 || wire.at_ms > MAX_MS {
        return Err(format!("its time {} is not between 1 and the year 9999", wire.at_ms));
    }
    if wire.origin.len() > MAX_ORIGIN_BYTES {
        return Err(format!("its origin is longer than {MAX_ORIGIN_BYTES} bytes"));
    }
    let origin = if wire.origin.is_empty() { file_origin.to_string() } else { wire.origin.into_owned() };
    Ok(match wire.kind.as_ref() {
        "fact" => {
            let outcome = if wire.failed.is_empty() {
                let (Some(n), Some(sum_ns), Some(sum_sq_ns), Some(min_ns)) =
                    (wire.n, wire.sum_ns, wire.sum_sq_ns, wire.min_ns)
                else {
                    return Err("a fact needs n, sum_ns, sum_sq_ns and min_ns, or failed".to_string());
                };
                let stats = Stats { n, sum_ns, sum_sq_ns, min_ns, energy_uj: wire.energy_uj };
                if let Some(why) = stats.impossible() {
                    return Err(why.to_string());
                }
                Outcome::Timed(stats)
            } else {
                let kind = FailureKind::parse(&wire.failed)
                    .ok_or_else(|| format!("`{}` is not a kind of failure", wire.failed))?;
                Outcome::Failed { kind, message: wire.message.into_owned() }
            };
            Line::Fact(Fact {
                key: FactKey {
                    device: wire.device.into_owned(),
                    kernel: wire.kernel.into_owned(),
                    version: wire.version.into_owned(),
                    problem: wire.problem.into_owned(),
                    point: wire.point.into_owned(),
                    condition: Condition::named(&wire.condition),
                },
                origin,
                outcome,
                last_seen_ms: wire.at_ms,
            })
        }
        "verdict" => Line::Verdict(Verdict {
            device: wire.device.into_owned(),
            problem: wire.problem.into_owned(),
            terms: wire.terms.into_owned(),
            last_seen_ms: wire.at_ms,
            origin,
            kernel: wire.kernel.into_owned(),
            version: wire.version.into_owned(),
            point: wire.point.into_owned(),
            on: wire.on.into_owned(),
            extent: wire.extent.unwrap_or_else(|| Extent::of_text(&wire.patience)),
            candidates: u64::from_str_radix(&wire.candidates, 16)
                .map_err(|_| format!("candidates `{}` is not a hexadecimal number", wire.candidates))?,
        }),
        kind @ ("intent" | "done") => Line::Intent(Intent {
            done: kind == "done",
            device: wire.device.into_owned(),
            kernel: wire.kernel.into_owned(),
            version: wire.version.into_owned(),
            point: wire.point.into_owned(),
            origin,
            at_ms: wire.at_ms,
        }),
        "forget" => Line::Forget(Forget {
            filter: wire.filter.ok_or("a forget line needs a filter")?,
            before_ms: wire.at_ms,
        }),
        other => return Err(format!("`{other}` is not a kind of line in format {FORMAT_VERSION}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = f64> {
        (0.001..1e12f64).boxed()
    }

    prop_compose! {
        fn facts()(texts in proptest::array::uniform6(".*"), origin in "[0-9a-f]{16}", at in 1..MAX_MS,
                   n in 1..u64::MAX, min in time(), extra in 0.0..1e6f64, square in time(),
                   energy in proptest::option::of(time()), failed in proptest::option::of((0..5usize, ".*"))) -> Fact {
            let [device, kernel, version, problem, point, condition] = texts;
            let stats = Stats { n, sum_ns: min * n as f64 + extra, sum_sq_ns: square, min_ns: min, energy_uj: energy };
            let outcome = match failed {
                Some((kind, message)) => Outcome::Failed { kind: FailureKind::ALL[kind], message },
                None => Outcome::Timed(stats),
            };
            let condition = Condition::named(&condition);
            let key = FactKey { device, kernel, version, problem, point, condition };
            Fact { key, origin, outcome, last_seen_ms: at }
        }
    }

    proptest! {
        #[test]
        fn any_fact_reads_back_as_it_was_written(fact in facts(), same in any::<bool>()) {
            let line = Line::Fact(fact.clone());
            let file_origin = if same { fact.origin.clone() } else { "someone-else".to_string() };
            let text = encode(&line, &file_origin).unwrap();
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(decode(text.trim_end_matches('\n').as_bytes(), &file_origin), Ok(line));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, "o");
            let _ = decode_header(&bytes);
        }
    }

    fn sealed_json(json: &str) -> String {
        format!("{:08x} {json}", crc32fast::hash(json.as_bytes()))
    }

    #[test]
    fn the_examples_in_the_description_are_lines() {
        let text = include_str!("../FORMAT.md");
        let examples =
            text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.ends_with('}'));
        let (headers, lines): (Vec<&str>, Vec<&str>) = examples.partition(|line| line.contains("trimtab\""));
        assert_eq!((headers.len(), lines.len()), (1, 5));
        assert_eq!(decode_header(headers[0].as_bytes()).unwrap().trimtab, FORMAT_VERSION);
        for example in lines {
            let line = decode(example.as_bytes(), "o").unwrap();
            assert_eq!(encode(&line, "o").unwrap().trim_end(), example);
        }
    }

    #[test]
    fn verdicts_of_versions_before_are_read_and_written_again_with_named_fields() {
        let old = |patience: &str| {
            let rest = r#""terms":"default","candidates":"00c0ffee00c0ffee","at_ms":1790000000125"#;
            sealed_json(&format!(
                r#"{{"kind":"verdict","device":"d","kernel":"k","patience":"{patience}",{rest}}}"#
            ))
        };
        for (patience, written) in [
            ("measure", r#""patience":"measure""#),
            ("partial:35:auto", r#""extent":{"partial":true,"session_ms":35,"strategy":"auto"}"#),
            ("search:hill:60:0.9", r#""extent":{"strategy":"hill","evals":60,"good_enough_ppm":900000}"#),
            ("unheard of", r#""extent":{}"#),
        ] {
            let line = decode(old(patience).as_bytes(), "o").unwrap();
            let text = encode(&line, "o").unwrap();
            assert!(text.contains(written), "{text}");
            assert_eq!(decode(text.trim_end().as_bytes(), "o"), Ok(line));
        }
        let extent =
            Extent { patience: Some(trimtab_core::Patience::Exhaustive), partial: true, ..Extent::default() };
        let line =
            Line::Verdict(Verdict { extent, last_seen_ms: 1, origin: "o".into(), ..Verdict::default() });
        let text = encode(&line, "o").unwrap();
        assert!(text.contains(r#""extent":{"patience":"exhaustive","partial":true}"#), "{text}");
        assert_eq!(decode(text.trim_end().as_bytes(), "o"), Ok(line));
    }

    #[test]
    fn a_flipped_bit_is_seen() {
        let line = Line::Forget(Forget { filter: Filter::everything(), before_ms: 7 });
        let mut bytes = encode(&line, "o").unwrap().trim_end().as_bytes().to_vec();
        assert_eq!(decode(&bytes, "o"), Ok(line));
        bytes[20] ^= 1;
        assert!(decode(&bytes, "o").unwrap_err().contains("checksum"));
    }

    #[test]
    fn impossible_lines_say_why() {
        let fact = |rest: &str| sealed_json(&format!(r#"{{"kind":"fact","device":"d",{rest}}}"#));
        for (line, reason) in [
            (fact(r#""n":0,"sum_ns":1,"sum_sq_ns":1,"min_ns":1,"at_ms":1"#), "no samples"),
            (fact(r#""n":1,"sum_ns":-1,"sum_sq_ns":1,"min_ns":1,"at_ms":1"#), "negative"),
            (fact(r#""n":2,"sum_ns":2,"sum_sq_ns":2,"min_ns":5,"at_ms":1"#), "above its mean"),
            (fact(r#""n":1,"at_ms":1"#), "needs n, sum_ns"),
            (fact(r#""failed":"sleepy","at_ms":1"#), "`sleepy`"),
            (fact(r#""failed":"wrong","at_ms":18446744073709551615"#), "year 9999"),
            (sealed_json(r#"{"kind":"rumour","at_ms":1}"#), "`rumour`"),
            ("short".to_string(), "checksum"),
            ("x".repeat(MAX_LINE_BYTES + 1), "limit 16384"),
        ] {
            let error = decode(line.as_bytes(), "o").unwrap_err();
            assert!(error.contains(reason), "{error} / {reason}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_written() {
        let key = FactKey { device: "x".repeat(MAX_LINE_BYTES), ..FactKey::default() };
        let outcome = Outcome::Timed(Stats::single(1.0));
        let line = Line::Fact(Fact { key, origin: "o".into(), outcome, last_seen_ms: 1 });
        assert!(encode(&line, "o").unwrap_err().contains("limit 16384"));
    }
}
