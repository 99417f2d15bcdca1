//! What is counted, by kind of fault and in all.

use super::faults::Injected;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Examples that are told of each thing that must not happen.
const EXAMPLES: usize = 12;

/// Counts of one kind of fault.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    injected: u64,
    live: u64,
    survived: u64,
    before_audit: u64,
    wrong: u64,
    unexplained: u64,
}

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kinds: BTreeMap<&'static str, Kind>,
    pub(crate) calls: u64,
    pub(crate) processes: u64,
    pub(crate) deaths: u64,
    pub(crate) stuck: u64,
    pub(crate) panics: u64,
    pub(crate) errors: u64,
    pub(crate) lost: u64,
    pub(crate) restarts_into_crash: u64,
    pub(crate) not_loaded: u64,
    /// The longest that a caller waited, in milliseconds, and for what.
    longest: (u64, String),
    /// Wrong results nobody's fault explains.
    unattributed: u64,
    examples: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Tally {
    pub(crate) fn injected(&self) -> u64 {
        self.kinds.values().map(|kind| kind.injected).sum()
    }

    fn kind(&mut self, injected: &Injected) -> &mut Kind {
        self.kinds.entry(injected.fault.name()).or_default()
    }

    /// Keeps some examples of what must not happen.
    pub(crate) fn example(&mut self, of: &'static str, text: String) {
        let kept = self.examples.entry(of).or_default();
        if kept.len() < EXAMPLES {
            kept.insert(text);
        }
    }

    /// A call was answered, or the attempt ended the process (`None`).
    pub(crate) fn call(&mut self, faults: &[Injected], line: Option<&Value>) {
        for injected in faults {
            let kind = self.kind(injected);
            kind.injected += 1;
            kind.live += u64::from(injected.is_live);
        }
        let Some(line) = line else { return };
        self.calls += 1;
        let ms = line["ms"].as_u64().unwrap_or(0);
        if ms > self.longest.0 {
            let faults: Vec<String> = faults.iter().map(Injected::line).collect();
            self.longest = (ms, format!("{} {}", line["ask"], faults.join(", ")));
        }
        let panics = line["panics"].as_u64().unwrap_or(0);
        self.panics += panics;
        if panics > 0 {
            self.example("panics", line["ask"].to_string());
        }
        if let Some(error) = line["error"].as_str() {
            self.errors += 1;
            self.example("errors", error.to_string());
        }
        if line["right"] == true {
            self.survived(faults);
        }
        let lists: [&'static str; 3] = ["wrong", "before_audit", "unexplained"];
        for list in lists {
            for text in line[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
                // The culprit and what it was asked name the fault that was noted; what reached a caller was live.
                let of = |injected: &&Injected| {
                    let its = text.contains(&injected.culprit) && text.contains(&injected.problem);
                    its && (list == "unexplained" || injected.is_live && injected.fault.is_wrong())
                };
                let Some(injected) = faults.iter().find(of).cloned() else {
                    self.unattributed += 1;
                    self.example("unattributed", text.to_string());
                    continue;
                };
                let kind = self.kind(&injected);
                match list {
                    "wrong" => kind.wrong += 1,
                    "before_audit" => kind.before_audit += 1,
                    _ => kind.unexplained += 1,
                }
                self.example(list, text.to_string());
            }
        }
    }

    /// The call of these faults was answered rightly in the end.
    pub(crate) fn survived(&mut self, faults: &[Injected]) {
        faults.iter().for_each(|injected| self.kind(injected).survived += 1);
    }

    /// Nobody can say what this fault did.
    pub(crate) fn unexplained(&mut self, injected: &Injected) {
        self.kind(injected).unexplained += 1;
        self.example("unexplained", injected.line());
    }

    /// All of it.
    pub(crate) fn json(&self) -> Value {
        let sum = |of: fn(&Kind) -> u64| self.kinds.values().map(of).sum::<u64>();
        let kind = |kind: &Kind| {
            json!({
                "injected": kind.injected, "live": kind.live, "survived": kind.survived, "wrong": kind.wrong,
                "before_audit": kind.before_audit, "unexplained": kind.unexplained,
            })
        };
        let kinds: BTreeMap<&str, Value> =
            self.kinds.iter().map(|(name, counts)| (*name, kind(counts))).collect();
        let unexplained = sum(|kind| kind.unexplained);
        json!({
            "injected": self.injected(), "survived": sum(|kind| kind.survived),
            "wrong": sum(|kind| kind.wrong) + self.unattributed, "before_audit": sum(|kind| kind.before_audit),
            "panics": self.panics, "lost": self.lost, "stuck": self.stuck, "errors": self.errors,
            "restarts_into_crash": self.restarts_into_crash, "not_loaded": self.not_loaded,
            "unexplained": unexplained, "explained": self.injected() - unexplained,
            "calls": self.calls, "processes": self.processes, "deaths": self.deaths,
            "longest_call_ms": self.longest.0, "longest_call": self.longest.1, "by_kind": kinds, "examples": self.examples,
        })
    }
}
