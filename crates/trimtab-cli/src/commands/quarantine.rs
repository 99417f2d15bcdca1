//! `trimtab wisdom quarantine`: what is barred, why and since when; and lifting it.

use crate::output::{axes, counted, printable};
use crate::session::{Kept, Session};
use crate::table::Table;
use anyhow::Result;
use serde_json::json;
use trimtab::wisdom::{CRASHES, Death, Fact, Filter, Outcome, Wisdom};

/// One point of a kernel, on all problems or on one.
struct Barred {
    device: String,
    kernel: String,
    version: String,
    point: String,
    /// None: all.
    problem: Option<String>,
    why: String,
    /// Whether one more such event is needed before calls keep away from it.
    is_suspect: bool,
    since_ms: u64,
}

impl From<Death> for Barred {
    fn from(death: Death) -> Barred {
        let Death { device, kernel, version, point, count, last_ms: since_ms } = death;
        let why = format!("{} died while it ran", counted(count, "process").replace("processs", "processes"));
        Barred { device, kernel, version, point, problem: None, why, is_suspect: count < CRASHES, since_ms }
    }
}

fn failed(fact: Fact) -> Option<Barred> {
    let Outcome::Failed { kind, message } = fact.outcome else { return None };
    let is_suspect = fact.key.condition.name() == "suspect";
    let (why, problem) = (format!("{}: {message}", kind.name()), Some(fact.key.problem));
    let (device, kernel, version, point) =
        (fact.key.device, fact.key.kernel, fact.key.version, fact.key.point);
    Some(Barred { device, kernel, version, point, problem, why, is_suspect, since_ms: fact.last_seen_ms })
}

fn barred(wisdom: &Wisdom, kernel: Option<&str>) -> Vec<Barred> {
    let facts = wisdom.all_facts().into_iter().filter_map(failed);
    let all = wisdom.deaths().into_iter().map(Barred::from).chain(facts);
    all.filter(|barred| kernel.is_none_or(|kernel| *kernel == barred.kernel)).collect()
}

pub fn list(kept: &Kept, kernel: Option<&str>) -> Result<()> {
    let (out, barred) = (&kept.out, barred(&kept.wisdom, kernel));
    let now_ms = kept.wisdom.now_ms();
    let days = |barred: &Barred| now_ms.saturating_sub(barred.since_ms) / (24 * 60 * 60 * 1000);
    if out.is_json() {
        return barred.iter().try_for_each(|one| {
            out.object(&json!({
                "device": one.device,
                "kernel": one.kernel,
                "version": one.version,
                "point": axes(&one.point),
                "problem": one.problem,
                "why": one.why,
                "suspect": one.is_suspect,
                "since_ms": one.since_ms,
            }))
        });
    }
    let state = |one: &&Barred| if one.is_suspect { "suspect" } else { "out" }.to_string();
    let rows: Vec<&Barred> = barred.iter().collect();
    let table = Table::of(&rows)
        .column("kernel", |one| printable(&one.kernel))
        .column("point", |one| printable(&one.point))
        .column("problem", |one| one.problem.as_deref().map_or_else(|| "all".to_string(), printable))
        .column("state", state)
        .column("why", |one| printable(&one.why))
        .column(">days", |one| days(one).to_string())
        .table();
    out.table_if_any(&table)?;
    out.line(format!("{} barred or suspect, {}", counted(barred.len(), "point"), kept.place()))
}

/// Forgets as little as lifts each: of a failure its kernel on that problem, of a death its kernel on that device.
pub fn lift(session: &Session, kernel: Option<&str>) -> Result<()> {
    let barred = barred(session.runtime.wisdom(), kernel);
    for Barred { device, kernel, problem, .. } in &barred {
        let (device, kernel) = (Some(device.clone()), Some(kernel.clone()));
        session.runtime.forget(&Filter { device, kernel, problem: problem.clone(), ..Filter::default() });
    }
    super::wisdom::is_written(session, "nothing was lifted")?;
    let words = match barred.len() {
        0 => "nothing was barred".to_string(),
        all => format!("lifted {}; what is lifted is measured anew", counted(all, "point")),
    };
    session.out.either(&json!({ "lifted": barred.len() }), || session.out.line(words))
}
