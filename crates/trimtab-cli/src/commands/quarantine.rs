//! `trimtab wisdom quarantine`: what is barred, why and since when; and lifting it.

use crate::output::{axes, counted, printable};
use crate::session::Deviceless;
use crate::table::Table;
use anyhow::Result;
use serde::{Serialize, Serializer};
use serde_json::json;
use trimtab::advanced::plan::forget;
use trimtab::advanced::wisdom::{CRASHES, Death, Fact, Filter, Outcome, Wisdom};

/// One point of a kernel, on all problems or on one.
#[derive(Serialize)]
pub(super) struct Barred {
    pub device: String,
    pub kernel: String,
    version: String,
    #[serde(serialize_with = "as_axes")]
    pub point: String,
    /// None: all.
    pub problem: Option<String>,
    pub why: String,
    /// Whether one more such event is needed before calls keep away from it.
    #[serde(rename = "suspect")]
    pub is_suspect: bool,
    pub since_ms: u64,
}

fn as_axes<S: Serializer>(point: &str, to: S) -> Result<S::Ok, S::Error> {
    axes(point).serialize(to)
}

/// All that is barred or suspect.
pub(super) fn all(wisdom: &Wisdom) -> Vec<Barred> {
    let facts = wisdom.all_facts().into_iter().filter_map(failed);
    wisdom.deaths().into_iter().map(Barred::from).chain(facts).collect()
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
    let mut barred = all(wisdom);
    barred.retain(|barred| kernel.is_none_or(|kernel| *kernel == barred.kernel));
    barred
}

pub fn list(kept: &Deviceless, kernel: Option<&str>) -> Result<()> {
    let (out, barred) = (&kept.out, barred(&kept.wisdom, kernel));
    let now_ms = kept.wisdom.now_ms();
    let days = |barred: &Barred| now_ms.saturating_sub(barred.since_ms) / (24 * 60 * 60 * 1000);
    if out.is_json() {
        return barred.iter().try_for_each(|one| out.object(one));
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
pub fn lift(kept: &Deviceless, kernel: Option<&str>) -> Result<()> {
    let barred = barred(&kept.wisdom, kernel);
    for Barred { device, kernel, problem, .. } in &barred {
        let (device, kernel) = (Some(device.clone()), Some(kernel.clone()));
        forget(&kept.wisdom, &Filter { device, kernel, problem: problem.clone(), ..Filter::default() });
    }
    super::wisdom::is_written(kept, "nothing was lifted")?;
    let words = match barred.len() {
        0 => "nothing was barred".to_string(),
        all => format!("lifted {}; what is lifted is measured anew", counted(all, "point")),
    };
    kept.out.either(&json!({ "lifted": barred.len() }), || kept.out.line(words))
}
