//! A report for a terminal.

use super::view::{DecisionView, SideView, View};
use crate::commands::calibrate::{Row, unit_time};
use crate::commands::devices::TransferView;
use crate::commands::stats;
use crate::output::{counted, printable, time, times};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use std::collections::BTreeMap;
use trimtab::{Bytes, Nanos};

pub(super) fn show(session: &Session, view: &View) -> Result<()> {
    let out = &session.out;
    let heading = |text: &str| {
        out.apart(text)?;
        out.line("═".repeat(text.chars().count()))
    };
    out.line(format!("trimtab {} report, {}", view.version, date(view.made_ms)))?;
    for line in standing(view) {
        out.line(line)?;
    }

    heading("Devices")?;
    out.table(&devices(view))?;
    for reason in &view.unusable {
        out.line(printable(reason))?;
    }

    heading("What a call costs")?;
    out.table(&costs(view))?;

    heading("Which device")?;
    out.table(&thresholds(view))?;
    for line in rules(view) {
        out.line(line)?;
    }

    heading("Decisions")?;
    for line in tally(view) {
        out.line(line)?;
    }
    out.line("")?;
    out.table(&decisions(view))?;

    heading("How good choices were")?;
    stats::show(&session.out, &view.stats)?;

    heading("Wisdom")?;
    wisdom(view).iter().try_for_each(|line| out.line(line))
}

/// What is to be said first.
pub(super) fn standing(view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    if !view.choice {
        let only = view.devices.first().map(|device| device.id.as_str()).unwrap_or("none");
        lines.push(format!("There is one device only, {only}: nothing to choose between."));
    } else if !view.calibrated {
        let what = "decisions between devices rest on the built-in model where nothing was measured";
        lines.push(format!("Nothing is calibrated: {what}. `trimtab calibrate` measures whole calls."));
    }
    if view.stats.facts == 0 {
        lines.push("Nothing is measured yet; `trimtab tune` measures what is typical.".to_string());
    }
    lines
}

fn devices(view: &View) -> Table {
    let way = |way: &Option<TransferView>| way.as_ref().map(transfer).unwrap_or_default();
    Table::of(&view.devices)
        .column("device", |device| device.id.clone())
        .column("name", |device| device.name.clone())
        .column("kind", |device| device.class.unwrap_or(device.kind).to_string())
        .column(">GFLOP/s", |device| format!("{:.1}", device.peak_gflops))
        .column(">GB/s", |device| format!("{:.1}", device.bandwidth_gb_s))
        .column(">upload", |device| way(&device.upload))
        .column(">download", |device| way(&device.download))
        .column(">hand-over", |device| device.submit_ns.map(|ns| Nanos(ns).to_string()).unwrap_or_default())
        .table()
}

/// From which size on each class goes to another device.
pub(super) fn thresholds(view: &View) -> Table {
    Table::of(&view.thresholds)
        .column("class", |row| row.class.to_string())
        .column("decided by", |row| source(row.source).to_string())
        .column("from which size on another device is used", |row| row.words.clone())
        .table()
}

/// A way between memories: `12.3 µs + 8.1 GB/s`.
pub(super) fn transfer(way: &TransferView) -> String {
    format!("{} + {:.1} GB/s", Nanos(way.latency_ns), way.gb_s)
}

fn costs(view: &View) -> Table {
    let rows: Vec<&Row> = view.calibration.iter().map(|cost| &cost.row).collect();
    Table::of(&rows)
        .column("class", |row| row.class.to_string())
        .column("device", |row| row.device.clone())
        .column("from", |row| row.origin.to_string())
        .column(">start", |row| time(row.after.start_ns))
        .column(">per unit", |row| unit_time(row.after.unit_ns))
        .column("unit", |row| one(row.unit).to_string())
        .column(">before", |row| row.before_unit())
        .column(">ratio", |row| row.ratio.map(times).unwrap_or_default())
        .column("faster than the processor", |row| row.faster())
        .table()
}

/// One of a unit.
pub(super) fn one(unit: &str) -> &str {
    unit.strip_suffix('s').unwrap_or(unit)
}

/// Where a threshold comes from, in words.
pub(super) fn source(source: &str) -> &str {
    match source {
        "set" => "a rule",
        "calibrated" => "calibration",
        _ => "costs",
    }
}

/// Rules for all classes.
pub(super) fn rules(view: &View) -> Vec<String> {
    let off =
        view.offload.off.then(|| "Offload is off (TRIMTAB_OFFLOAD): only the processor is used.".into());
    let batch = view.offload.small_batch.map(|least| {
        format!("Batches of fewer than {least} small products stay on the processor (TRIMTAB_SMALL_BATCH).")
    });
    off.into_iter().chain(batch).collect()
}

/// How many problems run where, and for which reasons.
pub(super) fn tally(view: &View) -> Vec<String> {
    let mut devices: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for decision in &view.decisions {
        *devices.entry(&decision.device).or_default().entry(decision.why).or_default() += 1;
    }
    let line = |(device, reasons): (&str, BTreeMap<&str, usize>)| {
        let all: usize = reasons.values().sum();
        let each: Vec<String> = reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
        format!("{} on {}: {}", counted(all, "problem"), printable(device), each.join(", "))
    };
    let mut lines: Vec<String> = devices.into_iter().map(line).collect();
    if view.decisions_left_out > 0 {
        lines.push(format!("{} more were measured here and are not shown", view.decisions_left_out));
    }
    lines
}

fn decisions(view: &View) -> Table {
    Table::of(&view.decisions)
        .column("problem", |decision| decision.problem.clone())
        .column("runs on", |decision| decision.device.clone())
        .column("why", |decision| decision.why.to_string())
        .column(">processor", |decision| decision.processor.as_ref().map(expected).unwrap_or_default())
        .column(">other", other)
        .column(">measured", |decision| decision.measured_ns.map(time).unwrap_or_default())
        .column("kernel", |decision| decision.kernel.clone())
        .table()
}

/// A whole call with a mark of what it rests on: `=` measured, `~` otherwise.
pub(super) fn expected(side: &SideView) -> String {
    let mark = if side.estimate.basis == "measured" { "=" } else { "~" };
    format!("{mark} {}", time(side.call_ns()))
}

/// The best other device, or what it takes at least.
pub(super) fn other(decision: &DecisionView) -> String {
    match (&decision.other, decision.other_at_least_ns) {
        (Some(side), _) => expected(side),
        (None, Some(least)) => format!("> {}", time(least as f64)),
        (None, None) => String::new(),
    }
}

/// How much is remembered, and where.
pub(super) fn wisdom(view: &View) -> Vec<String> {
    let wisdom = &view.wisdom;
    let size = wisdom.bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
    let place = match &wisdom.dir {
        Some(dir) => format!("in {}", printable(dir)),
        None => "not kept: wisdom is off".to_string(),
    };
    let first = format!("{} facts, {} races decided{size}, {place}", wisdom.facts, wisdom.verdicts);
    std::iter::once(first).chain(wisdom.warnings.iter().cloned()).collect()
}

/// The day and minute in UTC: `2026-11-16 09:41 UTC`.
pub(super) fn date(ms: u64) -> String {
    let (minutes, days) = (ms / 60_000 % 1440, (ms / 86_400_000) as i64);
    // Days are counted from 1 March of the year 0, so that the leap day is a year's last.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_735_689_540_000, "2024-12-31 23:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ];
        for (ms, shown) in known {
            assert_eq!(date(ms), shown);
        }
    }
}
