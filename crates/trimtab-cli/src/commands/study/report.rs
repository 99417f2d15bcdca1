//! `trimtab study report`: what a study found, as text, as JSON, or as a page for a browser.

use super::{best_view, evaluation_view, kept, page, shown};
use crate::args::Global;
use crate::failure::bad_input;
use crate::output::{Output, counted, percent};
use crate::table::Table;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use trimtab::advanced::study::{
    Answers, Effect, FailureCount, Outcome, StudyFile, convergence, effects, failures, random_order,
};

/// Points listed as text; the page and JSON have all.
const LISTED: usize = 15;
/// Effects listed as text.
const EFFECTS: usize = 8;

/// Everything about one study.
#[derive(Serialize)]
pub struct Findings {
    pub name: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub sizes: Map<String, Value>,
    pub unit: String,
    pub maximise: bool,
    /// What was run.
    pub what: Value,
    pub strategy: String,
    pub seed: u64,
    /// Legal points.
    pub points: usize,
    pub evaluations: usize,
    pub failed: usize,
    pub seconds: f64,
    pub best: Value,
    /// The value of the default settings, where there are some and they ran.
    pub default_value: Option<f64>,
    /// The best value after one, two, … points.
    pub convergence: Vec<Option<f64>>,
    /// The same of the same points in random order, on average.
    pub random: Vec<f64>,
    pub parameters: Vec<Effect>,
    pub pairs: Vec<Effect>,
    pub failures: Vec<FailureCount>,
    /// The points no other is better than in everything, where there are several objectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub front: Vec<Value>,
    pub tried: Vec<Map<String, Value>>,
}

impl Findings {
    fn of(name: &str, file: &StudyFile) -> Findings {
        let (study, definition) = (&file.study, file.definition());
        let (parameters, pairs) = effects(study);
        let default = study.space().default_point().and_then(|at| study.evaluation(at));
        let front = if study.goals().objectives.is_empty() { Vec::new() } else { study.front() };
        Findings {
            name: name.to_string(),
            sizes: definition.sizes.iter().cloned().collect(),
            unit: definition.unit.clone(),
            maximise: study.goals().maximise,
            what: definition.what.clone(),
            strategy: definition.strategy.clone(),
            seed: definition.seed,
            points: study.space().len(),
            evaluations: study.evaluations().len(),
            failed: study.failed(),
            seconds: file.seconds(),
            best: best_view(file),
            default_value: default.and_then(|known| Some(known.outcome.ran()?.value)),
            convergence: convergence(study),
            random: random_order(study),
            parameters,
            pairs,
            failures: failures(study),
            front: front.into_iter().filter_map(|known| super::best_of(file, known)).collect(),
            tried: study.evaluations().iter().map(|known| evaluation_view(file, known)).collect(),
        }
    }

    /// A value in words.
    pub fn shown(&self, value: f64) -> String {
        shown(value, &self.unit)
    }

    /// The best point in words, and its value.
    pub fn best_words(&self) -> Option<(String, f64)> {
        let point = self.best.get("point")?.as_object()?;
        let words: Vec<String> =
            point.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        Some((words.join(" "), self.best.get("value")?.as_f64()?))
    }
}

/// A value without quotes.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

pub fn run(global: &Global, name: &str, html: Option<&Path>, dir: Option<&Path>) -> Result<ExitCode> {
    let to_output = html == Some(Path::new("-"));
    if to_output && global.json {
        return Err(bad_input("--html - and --json both want standard output; give the page a file"));
    }
    let answers = Answers::read(&kept(global, dir, name)?)?;
    let found: Vec<Findings> = answers.files().iter().map(|file| Findings::of(name, file)).collect();
    let out = Output::new(global);
    if to_output {
        std::io::stdout().lock().write_all(page::html(name, &found).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = html {
        trimtab_replay::write_whole(file, page::html(name, &found).as_bytes())
            .with_context(|| format!("{} could not be written", file.display()))?;
    }
    match html {
        _ if global.json => found.iter().try_for_each(|found| out.object(found))?,
        Some(file) => out.line(format!("The page is in {}.", file.display()))?,
        None => {
            for (found, file) in found.iter().zip(answers.files()) {
                show(&out, found, file)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(out: &Output, found: &Findings, file: &StudyFile) -> Result<()> {
    let sizes: Vec<String> =
        found.sizes.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
    out.line(format!("study   {} {}", found.name, sizes.join(" ")).trim_end())?;
    for name in ["command", "kernel"] {
        if let Some(text) = found.what.get(name).and_then(Value::as_str) {
            out.line(format!("{name:<7} {text}"))?;
        }
    }
    out.line(format!(
        "tried   {} of {}, {} failed",
        found.evaluations,
        counted(found.points, "point"),
        found.failed
    ))?;
    if let Some((words, value)) = found.best_words() {
        out.line(format!("best    {} at {words}", found.shown(value)))?;
        if let Some(default) = found.default_value {
            let factor = if found.maximise { value / default } else { default / value };
            out.line(format!(
                "default {}: the best is {} better",
                found.shown(default),
                crate::output::times(factor)
            ))?;
        }
    }
    let milestones: Vec<usize> = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        .into_iter()
        .filter(|at| *at < found.evaluations)
        .chain([found.evaluations])
        .collect();
    let mut table = Table::new(&[">after", ">best", ">random order"]);
    for at in milestones.into_iter().filter(|at| *at > 0) {
        let best = found.convergence.get(at - 1).copied().flatten().map(|value| found.shown(value));
        let random = found.random.get(at - 1).map(|value| found.shown(*value));
        table.row(vec![at.to_string(), best.unwrap_or_else(|| "-".to_string()), random.unwrap_or_default()]);
    }
    out.line("")?;
    out.table_if_any(&table)?;
    let rows: Vec<&Effect> = found
        .parameters
        .iter()
        .chain(&found.pairs)
        .take(found.parameters.len().min(EFFECTS) + EFFECTS / 2)
        .collect();
    let table = Table::of(&rows)
        .column("what matters", |effect| effect.parameters.join(" × "))
        .column(">explains", |effect| percent(effect.share))
        .column("best on average", |effect| effect.best.clone().unwrap_or_default())
        .table();
    out.table_if_any(&table)?;
    let table = Table::of(&found.failures)
        .column("failed", |kind| kind.fault.to_string())
        .column(">points", |kind| kind.count.to_string())
        .column("first", |kind| kind.example.clone())
        .column("why", |kind| kind.message.clone())
        .column("last words", |kind| kind.output.last().cloned().unwrap_or_default())
        .table();
    out.table_if_any(&table)?;
    let mut ran: Vec<(f64, &trimtab::advanced::study::Evaluation)> = file
        .study
        .evaluations()
        .iter()
        .filter_map(|known| Some((known.outcome.ran()?.value, known)))
        .collect();
    ran.sort_by(|a, b| if found.maximise { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
    ran.truncate(LISTED);
    let table = Table::of(&ran)
        .column(">value", |(value, _)| found.shown(*value))
        .column(">runs", |(_, known)| known.repeats.to_string())
        .column("numbers", |(_, known)| match &known.outcome {
            Outcome::Ran(ran) => ran.others.iter().map(|(name, value)| format!("{name}={value} ")).collect(),
            Outcome::Failed(_) => String::new(),
        })
        .column("point", |(_, known)| file.study.space().point(known.at).words())
        .table();
    out.table_if_any(&table)
}
