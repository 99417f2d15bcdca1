//! `trimtab ask-tell`: a study that others drive, in JSON lines on standard input and output. Every line gets one line back.

use super::search::said;
use super::{best_of, best_view, check_name, donors, goals, opened, space, studies};
use crate::args::Global;
use crate::args::study::AskTell;
use crate::failure::bad_input;
use crate::output::printable_json;
use crate::session::warn;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use trimtab::advanced::study::{Asked, Definition, Failed, Fault, Json, LOG_ENDING, Outcome, Ran, StudyFile};
use trimtab::advanced::tune::Stopwatch;

/// The longest line that is read.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The most points of one question.
const MOST_AT_ONCE: u64 = 10_000;

pub fn run(global: &Global, args: &AskTell) -> Result<ExitCode> {
    let space = Arc::new(space(&args.space)?);
    let donors = donors(&args.search, &space)?;
    let definition = Definition {
        space: space.definition().clone(),
        goals: goals(&args.search, args.also.clone())?,
        strategy: args.search.strategy.clone(),
        seed: args.search.seed,
        sizes: Vec::new(),
        unit: String::new(),
        what: Json::Null,
    };
    let file = match &args.name {
        Some(name) => {
            check_name(name)?;
            let studies = studies(global, args.kept.dir.as_deref()).ok_or_else(|| {
                bad_input("wisdom is off; say where the study is kept: --dir DIR, or give no --name")
            })?;
            let path = studies.join(name).join(format!("study.{LOG_ENDING}"));
            opened(&path, &definition, &space, &donors, args.kept.fresh)?
        }
        None => StudyFile::in_memory(definition, space, donors).map_err(said)?,
    };
    file.warnings().iter().for_each(|warning| warn(warning));
    let left_over = file.left_over().into();
    let (before, watch) = (file.seconds(), Stopwatch::start());
    let mut talk = Talk { file, left_over, before, watch };
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let line = String::from_utf8_lossy(&line);
        if line.trim().is_empty() {
            continue;
        }
        let answer = talk.answer(line.trim()).unwrap_or_else(|reason| json!({ "error": reason }));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", printable_json(&answer.to_string()))?;
        // Whoever asks waits for it.
        out.flush()?;
    }
}

struct Talk {
    file: StudyFile,
    /// Points that were asked for by an earlier process and never told.
    left_over: VecDeque<Asked>,
    before: f64,
    watch: Stopwatch,
}

impl Talk {
    fn answer(&mut self, line: &str) -> Result<Value, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("not JSON: {error}; write {{\"ask\": 1}}"))?;
        let words = "write {\"ask\": 1}, {\"tell\": ID, \"value\": 1.5}, {\"tell\": ID, \"failure\": \"…\"}, {\"best\": true} or {\"status\": true}";
        let request = value.as_object().ok_or_else(|| format!("not an object; {words}"))?;
        if let Some(count) = request.get("ask") {
            return self.ask(count);
        }
        if let Some(which) = request.get("tell") {
            return self.tell(which, request);
        }
        if request.contains_key("best") {
            let front = self.file.study.front();
            let mut answer = json!({ "best": best_view(&self.file) });
            if !self.file.study.goals().objectives.is_empty() {
                answer["front"] = front.into_iter().filter_map(|known| best_of(&self.file, known)).collect();
            }
            return Ok(answer);
        }
        if request.contains_key("status") {
            let study = &self.file.study;
            return Ok(json!({
                "points": study.space().len(), "evaluations": study.evaluations().len(), "failed": study.failed(),
                "pending": study.pending().len(), "expected_gain": study.expected_gain(1),
            }));
        }
        Err(format!("nothing is asked; {words}"))
    }

    fn ask(&mut self, count: &Value) -> Result<Value, String> {
        let count = match count {
            Value::Bool(true) => Some(1),
            other => other.as_u64(),
        };
        let count = count.filter(|count| (1..=MOST_AT_ONCE).contains(count));
        let count = count.ok_or_else(|| format!("`ask` is a number of points from 1 to {MOST_AT_ONCE}"))?;
        let mut asked = Vec::new();
        for _ in 0..count {
            let next = match self.left_over.pop_front() {
                Some(asked) => Some(asked),
                None => self.file.ask().map_err(|error| error.to_string())?,
            };
            match next {
                Some(next) => asked.push(json!({ "id": next.at, "point": next.point.to_json() })),
                None => break,
            }
        }
        Ok(json!({ "asked": asked }))
    }

    /// By the id of a question, or by the point itself.
    fn tell(&mut self, which: &Value, request: &Map<String, Value>) -> Result<Value, String> {
        let at = match which {
            Value::Number(id) => id
                .as_u64()
                .and_then(|id| usize::try_from(id).ok())
                .ok_or("`tell` is an id that was asked, or a point")?,
            Value::Object(point) => self.file.study.space().find(point)?,
            _ => return Err("`tell` is an id that was asked, or a point".to_string()),
        };
        let outcome = match (request.get("value"), request.get("failure")) {
            (Some(value), None) => {
                let value = value.as_f64().ok_or("`value` is a number")?;
                let mut others = std::collections::BTreeMap::new();
                for (name, number) in request.get("numbers").and_then(Value::as_object).into_iter().flatten()
                {
                    others.insert(
                        name.clone(),
                        number.as_f64().ok_or_else(|| format!("`{name}` is a number"))?,
                    );
                }
                Outcome::Ran(Ran { others, ..Ran::of(value) })
            }
            (None, Some(failure)) => {
                let message = failure.as_str().map_or_else(|| failure.to_string(), str::to_string);
                Outcome::Failed(Failed::new(Fault::Told, message))
            }
            _ => return Err("a tell has either `value` or `failure`".to_string()),
        };
        let seconds = self.before + self.watch.elapsed().0 as f64 / 1e9;
        let told = self.file.tell(at, outcome, 1, seconds).map_err(|error| error.to_string())?;
        self.left_over.retain(|asked| asked.at != at);
        let mut answer = json!({ "told": at, "evaluations": self.file.study.evaluations().len() });
        if let Some(failed) = told.outcome.failed() {
            answer["failure"] = json!(failed.to_string());
        }
        answer["best"] = best_view(&self.file);
        Ok(answer)
    }
}
