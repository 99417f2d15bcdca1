//! `trimtab models`: every kind of model judged on this machine's measurements. Measures only fitting and predicting.

use crate::args::Models;
use crate::failure::bad_input;
use crate::output::{percent, time, times};
use crate::plot::{self, Curve, Plot};
use crate::representative::is_of;
use crate::session::Session;
use crate::table::Table;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use trimtab::advanced::core::Operation;
use trimtab::advanced::plan::TrainingTable;
use trimtab::advanced::plan::learn::{self, Learned, ModelKind};
use trimtab::advanced::tune::Stopwatch;

/// Fewer problems than this are not judged.
const FEWEST: usize = 8;
/// Predictions timed at least.
const PREDICTIONS: usize = 200;

/// One model on the problems of one family.
#[derive(Serialize)]
pub(super) struct Judged {
    device: String,
    /// One of the problems.
    like: String,
    model: &'static str,
    problems: usize,
    rivals: usize,
    /// Time of the choice over that of the best, on problems the model has not seen: geometric mean, …
    geomean: f64,
    /// … and 95th percentile.
    p95: f64,
    /// Share of problems whose choice was the best or within the noise of it.
    accuracy: f64,
    fit_ms: f64,
    /// Time to predict all rivals of one problem.
    predict_ns: f64,
    /// Whether calls go by it: so many problems were measured, and it is the model asked for, or of all the one that loses least.
    used: bool,
    /// The choice's speed as a share of the best's, the worst first.
    #[serde(skip)]
    shares: Vec<f64>,
}

#[cfg(test)]
impl Judged {
    /// The same with made-up numbers: which problems a model is right on depends on the order in which they came.
    pub fn made_up(&mut self) {
        (self.geomean, self.p95, self.accuracy) = (1.04, 1.36, 0.75);
        (self.fit_ms, self.predict_ns) = (1.23, 456.0);
    }
}

pub fn run(session: &Session, args: &Models) -> Result<ExitCode> {
    for operation in &args.op {
        let name = operation.split('.').next().unwrap_or_default();
        if Operation::parse(name).is_none() {
            let known: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
            return Err(bad_input(format!("--op {operation}: use one of {}", known.join(", "))));
        }
    }
    let (judged, few) = judged(session, &args.op);
    if session.out.is_json() {
        judged.iter().try_for_each(|judged| session.out.object(judged))?;
    } else {
        show(session, &judged, &few)?;
    }
    if let (Some(path), false) = (&args.plot, judged.is_empty()) {
        draw(&judged, path)?;
        if !session.out.is_json() {
            session.out.line(format!("drawn in {}", path.display()))?;
        }
    }
    if judged.is_empty() && session.out.is_json() {
        crate::session::warn(&too_few(&few));
    }
    Ok(ExitCode::SUCCESS)
}

/// Every model on every family of these operations with problems enough; and the families with fewer.
pub(super) fn judged(session: &Session, operations: &[String]) -> (Vec<Judged>, Vec<TrainingTable>) {
    let wanted = |training_table: &TrainingTable| {
        operations.is_empty() || operations.iter().any(|operation| is_of(&training_table.family, operation))
    };
    let all = session.runtime.planner().training_tables(1).into_iter().filter(wanted);
    let (enough, few): (Vec<TrainingTable>, Vec<TrainingTable>) =
        all.partition(|training_table| training_table.problems.len() >= FEWEST);
    (enough.iter().flat_map(|training_table| judge(session, training_table)).collect(), few)
}

fn judge(session: &Session, training_table: &TrainingTable) -> Vec<Judged> {
    let device = session.runtime.devices().get(training_table.device as usize);
    let device = device.map(|device| device.facts().id.clone()).unwrap_or_default();
    let middle = training_table.problems.get(training_table.problems.len() / 2);
    let (kinds, all): (Vec<ModelKind>, Vec<Learned>) =
        ModelKind::ALL.into_iter().filter_map(|kind| Some((kind, training_table.judge(kind)?))).unzip();
    let used = training_table.in_use(&all);
    let judged = kinds.into_iter().zip(&all).enumerate().map(|(at, (kind, learned))| {
        let losses = learned.losses();
        let (fit_ms, predict_ns) = speeds(kind, &training_table.table);
        // Whoever is within the noise of the best is told to be as fast.
        let right = losses.iter().filter(|loss| **loss == 0.0).count();
        Judged {
            device: device.clone(),
            like: middle.map(ToString::to_string).unwrap_or_default(),
            model: kind.name(),
            problems: training_table.problems.len(),
            rivals: training_table.rivals.len(),
            geomean: learned.regret(),
            p95: learned.regret_p95(),
            accuracy: right as f64 / losses.len() as f64,
            fit_ms,
            predict_ns,
            used: used == Some(at),
            shares: losses.iter().rev().map(|loss| (-loss).exp2()).collect(),
        }
    });
    judged.collect()
}

/// Milliseconds to fit everything, nanoseconds to predict one problem.
fn speeds(kind: ModelKind, table: &learn::Table) -> (f64, f64) {
    let mut model = kind.make(0);
    let stopwatch = Stopwatch::start();
    model.fit(table);
    let fit_ms = stopwatch.elapsed().0 as f64 / 1e6;
    let (mut log2, mut spread) = (vec![0.0; table.rivals()], vec![0.0; table.rivals()]);
    let rounds = PREDICTIONS.div_ceil(table.len().max(1));
    let stopwatch = Stopwatch::start();
    for row in (0..rounds).flat_map(|_| 0..table.len()) {
        model.predict(table.at(row), &mut log2, &mut spread, &mut []);
        std::hint::black_box(&log2);
    }
    (fit_ms, stopwatch.elapsed().0 as f64 / (rounds * table.len()).max(1) as f64)
}

pub(super) fn show(session: &Session, judged: &[Judged], few: &[TrainingTable]) -> Result<()> {
    let out = &session.out;
    for family in judged.chunk_by(|a, b| (&a.device, &a.like) == (&b.device, &b.like)) {
        let Some(first) = family.first() else { continue };
        out.line(format!(
            "{} problems like {} on {}, {} rivals that matter",
            first.problems, first.like, first.device, first.rivals
        ))?;
        let table = Table::of(family)
            .column("model", |judged| judged.model.to_string())
            .column(">regret", |judged| times(judged.geomean))
            .column(">95th percentile", |judged| times(judged.p95))
            .column(">right", |judged| percent(judged.accuracy))
            .column(">fit", |judged| time(judged.fit_ms * 1e6))
            .column(">prediction", |judged| time(judged.predict_ns))
            .column("", |judged| if judged.used { "calls go by this one" } else { "" }.to_string())
            .table();
        out.table(&table)?;
        out.line("")?;
    }
    if !few.is_empty() || judged.is_empty() {
        out.line(too_few(few))?;
    }
    Ok(())
}

fn too_few(few: &[TrainingTable]) -> String {
    let advice = "run `trimtab tune` or `trimtab tune --active`";
    let most = few.iter().max_by_key(|training_table| training_table.problems.len());
    match most.and_then(|training_table| Some((training_table, training_table.problems.first()?))) {
        Some((training_table, like)) => format!(
            "too few measured problems to judge models: {} {} fewer than {FEWEST}, at most {} (like {like}); {advice}",
            few.len(),
            if few.len() == 1 { "family of problems has" } else { "families of problems have" },
            training_table.problems.len()
        ),
        None => format!("nothing was measured here that a model could learn from; {advice}"),
    }
}

/// The family with most problems, a curve a model.
fn draw(judged: &[Judged], path: &Path) -> Result<()> {
    let most = judged.iter().map(|judged| judged.problems).max().unwrap_or(0);
    let Some(first) = judged.iter().find(|judged| judged.problems == most) else { return Ok(()) };
    let same = judged.iter().filter(|other| (&other.device, &other.like) == (&first.device, &first.like));
    let plot = Plot {
        title: format!("Learned choices on {} problems like {}", first.problems, first.like),
        x: "problem, the worst of each model first".to_string(),
        y: "speed of the choice over the best's".to_string(),
        curves: same
            .map(|judged| Curve { name: judged.model.to_string(), values: judged.shares.clone() })
            .collect(),
        markers: Vec::new(),
        markers_name: String::new(),
    };
    std::fs::write(path, plot::svg(&plot)).with_context(|| format!("writing {}", path.display()))
}
