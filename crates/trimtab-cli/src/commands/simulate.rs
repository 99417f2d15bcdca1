//! `trimtab simulate`: replays strategies on recordings and says how near to the optimum they come. Measures nothing.

mod baseline;
mod searches;

use super::recording::read;
use crate::args::{Global, Simulate};
use crate::failure::bad_input;
use crate::interrupt;
use crate::output::{Output, counted, percent, time};
use crate::plot::{self, Curve, Marker, Plot};
use crate::session::warn;
use crate::table::Table;
use anyhow::{Context, Result};
use baseline::{Baseline, Best};
use searches::{Replayed, Searches};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use trimtab::advanced::tune::median;
use trimtab::advanced::tune::search::{Donor, STRATEGIES};
use trimtab_replay::{Completeness, Recording, Run, Stats, donor_of, list_recordings, stats};

/// Every recording of the same kernel on another device, in `--warm-from`.
const OTHERS: &str = "others";
/// Recordings of one measurement a setting repeat others: not part of the published comparison.
const ONE_MEASUREMENT: &str = "ktt";

/// A strategy on a recording after so many evaluations.
#[derive(Serialize)]
struct Line {
    space: String,
    strategy: String,
    #[serde(flatten)]
    stats: Stats,
}

/// A strategy over all recordings after so many evaluations.
#[derive(Serialize)]
struct TotalLine {
    strategy: String,
    evals: usize,
    /// The median over spaces of the median over seeds.
    median_fraction: f64,
    /// The mean over spaces and seeds.
    mean_fraction: f64,
    share_within_5pct: f64,
    median_evals_to_5pct: Option<f64>,
}

/// The last line.
#[derive(Serialize)]
struct Total {
    spaces: Vec<String>,
    seeds: u64,
    seed: u64,
    noise: bool,
    warm_from: Vec<String>,
    medians: Vec<TotalLine>,
    /// What deciding the next point took, by strategy, in milliseconds.
    ask_ms_mean: BTreeMap<String, f64>,
    ask_ms_p99: BTreeMap<String, f64>,
    /// Measurements an evaluation, by strategy: more than one where noise made settings be measured again.
    measurements_per_eval: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<Vec<Best>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plot: Option<String>,
}

pub fn run(global: &Global, args: &Simulate) -> Result<ExitCode> {
    let strategies = strategies(args)?;
    let recordings = recordings(args)?;
    let spaces = chosen(args, global.device.as_deref(), &recordings)?;
    let donors: Vec<Vec<Donor>> = spaces.iter().map(|space| donors(args, space, &recordings)).collect();
    doubts(args, &spaces, &donors);
    let mut budgets = args.evals.clone();
    budgets.sort_unstable();
    budgets.dedup();
    interrupt::would_say(
        "nothing of these searches is kept; --seeds and --evals make it shorter".to_string(),
    );
    interrupt::watch_alone();
    let searches = Searches {
        recordings: &spaces,
        donors: &donors,
        strategies: &strategies,
        evals: budgets.last().copied().unwrap_or(1),
        seeds: args.seed..args.seed.saturating_add(args.seeds),
        noise: args.noise,
    };
    let replayed = searches.replay(global.threads);
    let names: Vec<String> = spaces.iter().map(|space| space.name.clone()).collect();
    let lines: Vec<Line> =
        replayed.iter().flat_map(|known| lines(known, &names, &strategies, &budgets)).collect();
    let known = Baseline::read(&args.data).unwrap_or_else(|reason| {
        warn(&format!("baseline.csv was passed over: {reason}"));
        None
    });
    let warm = !args.warm_from.is_empty();
    let best =
        known.map(|known| budgets.iter().filter_map(|&evals| known.best(&names, evals, warm)).collect());
    let mut total = total(&lines, &strategies, &budgets, args, names);
    total.baseline = best.filter(|best: &Vec<Best>| !best.is_empty());
    costs(&mut total, &replayed, &strategies);
    if let Some(path) = &args.plot {
        let plot = draw(&replayed, &strategies, searches.evals, &total);
        std::fs::write(path, plot::svg(&plot)).with_context(|| format!("writing {}", path.display()))?;
        total.plot = Some(path.display().to_string());
    }
    let out = Output::new(global);
    if global.json {
        lines.iter().try_for_each(|line| out.object(line))?;
        out.object(&total)?;
    } else {
        show(&out, &lines, &total, &budgets)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn strategies(args: &Simulate) -> Result<Vec<String>> {
    let mut wanted: Vec<String> = args.strategy.iter().map(|name| name.trim().to_string()).collect();
    if let Some(unknown) = wanted.iter().find(|name| !STRATEGIES.contains(&name.as_str())) {
        return Err(bad_input(format!(
            "there is no strategy `{unknown}`; there are: {}",
            STRATEGIES.join(", ")
        )));
    }
    if wanted.is_empty() {
        wanted = STRATEGIES.iter().map(|name| name.to_string()).collect();
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|name| seen.insert(name.clone()));
    Ok(wanted)
}

/// What has to be read: all of the directory, or only what is named.
fn recordings(args: &Simulate) -> Result<Vec<Recording>> {
    let named =
        |names: &'_ [String]| -> Vec<String> { names.iter().map(|name| name.trim().to_string()).collect() };
    let (spaces, warm) = (named(&args.space), named(&args.warm_from));
    if spaces.is_empty() || warm.iter().any(|name| name == OTHERS) {
        let all = read(&args.data, &[])?;
        let unknown = spaces
            .iter()
            .chain(&warm)
            .find(|name| *name != OTHERS && !all.iter().any(|recording| recording.name == **name));
        // Read by name, it is refused with the names there are.
        return if let Some(unknown) = unknown { read(&args.data, &[unknown]) } else { Ok(all) };
    }
    let wanted: Vec<&str> = spaces.iter().chain(&warm).map(String::as_str).collect();
    read(&args.data, &wanted)
}

fn chosen<'a>(
    args: &Simulate,
    device: Option<&str>,
    recordings: &'a [Recording],
) -> Result<Vec<&'a Recording>> {
    let named = |recording: &&Recording| args.space.iter().any(|name| name.trim() == recording.name);
    let complete = |recording: &&Recording| {
        args.all
            || (recording.completeness == Completeness::Everything && recording.variant != ONE_MEASUREMENT)
    };
    let spaces: Vec<&Recording> = match args.space.is_empty() {
        true => recordings.iter().filter(complete).collect(),
        false => recordings.iter().filter(named).collect(),
    };
    let Some(device) = device else { return some(args, spaces) };
    // By its short name, or by a part of the name people know.
    let is_its = |of: &Recording| {
        let wanted = device.trim().to_lowercase();
        of.device.to_lowercase() == wanted || of.device_name.to_lowercase().contains(&wanted)
    };
    let devices: BTreeSet<&str> = spaces.iter().map(|space| space.device.as_str()).collect();
    let spaces: Vec<&Recording> = spaces.into_iter().filter(|space| is_its(space)).collect();
    if spaces.is_empty() && !devices.is_empty() {
        let known = devices.into_iter().collect::<Vec<_>>().join(", ");
        return Err(bad_input(format!("--device {device}: these recordings are of {known}")));
    }
    some(args, spaces)
}

/// The same, or what to say where there are none.
fn some<'a>(args: &Simulate, spaces: Vec<&'a Recording>) -> Result<Vec<&'a Recording>> {
    if spaces.is_empty() {
        let known = list_recordings(&args.data).unwrap_or_default().join(", ");
        let what = "no recording here has every legal setting";
        return Err(bad_input(format!(
            "{what}; take samples too with --all, or name some with --space: {known}"
        )));
    }
    Ok(spaces)
}

/// The recordings a search of a space may learn from; never the space itself.
fn donors(args: &Simulate, space: &Recording, recordings: &[Recording]) -> Vec<Donor> {
    let named = |other: &Recording| args.warm_from.iter().any(|name| name.trim() == other.name);
    let others = args.warm_from.iter().any(|name| name.trim() == OTHERS);
    let gives = |other: &&Recording| {
        let elsewhere = others && other.kernel == space.kernel && other.device != space.device;
        other.name != space.name && (named(other) || elsewhere)
    };
    recordings.iter().filter(gives).map(donor_of).collect()
}

/// What was asked for and will have no effect.
fn doubts(args: &Simulate, spaces: &[&Recording], donors: &[Vec<Donor>]) {
    for (space, donors) in spaces.iter().zip(donors) {
        if !args.warm_from.is_empty() && donors.is_empty() {
            warn(&format!("{}: no other recording to learn from, searched cold", space.name));
        }
        if args.noise && (0..space.rows.len()).all(|row| space.repeat_count(row) == 0) {
            warn(&format!("{}: no repeats were recorded, searched without noise", space.name));
        }
    }
}

fn lines(known: &Replayed, spaces: &[String], strategies: &[String], budgets: &[usize]) -> Vec<Line> {
    let line = |&evals: &usize| Line {
        space: spaces[known.space].clone(),
        strategy: strategies[known.strategy].clone(),
        stats: stats(&known.runs, evals),
    };
    budgets.iter().map(line).collect()
}

fn total(
    lines: &[Line],
    strategies: &[String],
    budgets: &[usize],
    args: &Simulate,
    spaces: Vec<String>,
) -> Total {
    let mut medians = Vec::new();
    for strategy in strategies {
        for &evals in budgets {
            let its = lines.iter().filter(|line| line.strategy == *strategy && line.stats.evals == evals);
            let its: Vec<&Stats> = its.map(|line| &line.stats).collect();
            let all = |value: fn(&Stats) -> f64| its.iter().map(|stats| value(stats)).collect::<Vec<f64>>();
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
            let needed =
                median(&all(|stats| stats.median_evals_to_5pct.map_or(f64::INFINITY, |evals| evals as f64)));
            medians.push(TotalLine {
                strategy: strategy.clone(),
                evals,
                median_fraction: median(&all(|stats| stats.median_fraction)).unwrap_or(0.0),
                mean_fraction: mean(&all(|stats| stats.mean_fraction)),
                share_within_5pct: mean(&all(|stats| stats.share_within_5pct)),
                median_evals_to_5pct: needed.filter(|needed| needed.is_finite()),
            });
        }
    }
    Total {
        spaces,
        seeds: args.seeds,
        seed: args.seed,
        noise: args.noise,
        warm_from: args.warm_from.clone(),
        medians,
        ask_ms_mean: BTreeMap::new(),
        ask_ms_p99: BTreeMap::new(),
        measurements_per_eval: BTreeMap::new(),
        baseline: None,
        plot: None,
    }
}

/// What the searches cost: deciding, and measurements.
fn costs(total: &mut Total, replayed: &[Replayed], strategies: &[String]) {
    for (at, strategy) in strategies.iter().enumerate() {
        let its = || replayed.iter().filter(|known| known.strategy == at);
        let runs = || its().flat_map(|known| &known.runs);
        let evaluated: usize = runs().map(|run| run.fractions.len()).sum();
        let measured: usize = runs().map(|run| run.measurements).sum();
        total.measurements_per_eval.insert(strategy.clone(), measured as f64 / evaluated.max(1) as f64);
        let mut nanos: Vec<u32> = its().flat_map(|known| known.ask_ns.iter().copied()).collect();
        nanos.sort_unstable();
        let mean = nanos.iter().map(|&ns| f64::from(ns)).sum::<f64>() / nanos.len().max(1) as f64;
        let p99 = nanos.get(nanos.len() * 99 / 100).map_or(0.0, |&ns| f64::from(ns));
        total.ask_ms_mean.insert(strategy.clone(), mean / 1e6);
        total.ask_ms_p99.insert(strategy.clone(), p99 / 1e6);
    }
}

fn show(out: &Output, lines: &[Line], total: &Total, budgets: &[usize]) -> Result<()> {
    let after: Vec<String> = budgets.iter().map(|evals| format!(">after {evals}")).collect();
    let after = || after.iter().map(String::as_str);
    let headings: Vec<&str> = ["space", "strategy"].into_iter().chain(after()).chain([">to 5 %"]).collect();
    let mut table = Table::new(&headings);
    let mut last = "";
    for group in lines.chunks(budgets.len()) {
        let Some(first) = group.first() else { continue };
        let space = if first.space == last { String::new() } else { first.space.clone() };
        last = &first.space;
        let mut cells = vec![space, first.strategy.clone()];
        cells.extend(group.iter().map(|line| reached(&line.stats)));
        cells.push(first.stats.median_evals_to_5pct.map_or("never".to_string(), |evals| evals.to_string()));
        table.row(cells);
    }
    out.line(
        "Median fraction of the optimum and share of searches within 5 % of it, after so many evaluations",
    )?;
    out.line("")?;
    out.table(&table)?;
    out.line("")?;
    let over = counted(total.spaces.len(), "recording");
    out.line(format!("Median over {over} of these medians, mean over everything, share within 5 %"))?;
    out.line("")?;
    let headings: Vec<&str> =
        ["strategy"].into_iter().chain(after()).chain([">to 5 %", ">ask mean", ">ask p99"]).collect();
    let mut table = Table::new(&headings);
    let totalled =
        |median: f64, mean: f64, share: f64| format!("{median:.3} {mean:.3} {:>5}", percent(share));
    for group in total.medians.chunks(budgets.len()) {
        let Some(first) = group.first() else { continue };
        let mut cells = vec![first.strategy.clone()];
        cells.extend(
            group
                .iter()
                .map(|line| totalled(line.median_fraction, line.mean_fraction, line.share_within_5pct)),
        );
        cells.push(first.median_evals_to_5pct.map_or("never".to_string(), |evals| evals.to_string()));
        for cost in [&total.ask_ms_mean, &total.ask_ms_p99] {
            cells.push(cost.get(&first.strategy).map(|ms| time(ms * 1e6)).unwrap_or_default());
        }
        table.row(cells);
    }
    if let Some(baseline) = &total.baseline {
        let mut cells = vec!["best baseline".to_string()];
        for &evals in budgets {
            let best = baseline.iter().find(|best| best.evals == evals);
            cells.push(best.map_or(String::new(), |best| {
                let mean = best.mean_fraction.map_or("    –".to_string(), |mean| format!("{mean:.3}"));
                let share = best.share_within_5pct.map_or("–".to_string(), percent);
                format!("{:.3} {mean} {share:>5}", best.median_fraction)
            }));
        }
        table.row(cells);
    }
    out.table(&table)?;
    if let Some(baseline) = &total.baseline {
        let named = baseline.iter().map(|best| match best.spaces == total.spaces.len() {
            true => format!("{} after {}", best.strategy, best.evals),
            false => format!("{} after {} on {} of them", best.strategy, best.evals, best.spaces),
        });
        let named: Vec<String> = named.collect();
        out.line(format!(
            "best baseline by median: {}; mean and share are the best of any",
            named.join(", ")
        ))?;
    }
    if total.noise {
        let each = total.measurements_per_eval.iter().map(|(name, count)| format!("{name} {count:.2}"));
        let each: Vec<String> = each.collect();
        out.line(format!(
            "measurements an evaluation, settings near the best measured again: {}",
            each.join(", ")
        ))?;
    }
    match &total.plot {
        Some(plot) => out.line(format!("drawn in {plot}")),
        None => Ok(()),
    }
}

fn reached(stats: &Stats) -> String {
    format!("{:.3} {:>5}", stats.median_fraction, percent(stats.share_within_5pct))
}

/// Median over spaces of the median over seeds, after one, two, … evaluations.
fn draw(replayed: &[Replayed], strategies: &[String], evals: usize, total: &Total) -> Plot {
    let curve = |(at, strategy): (usize, &String)| {
        let its: Vec<&Replayed> = replayed.iter().filter(|known| known.strategy == at).collect();
        let after = |evals: usize| {
            let middle = |known: &&Replayed| {
                median(&known.runs.iter().map(|run: &Run| run.after(evals)).collect::<Vec<f64>>())
                    .unwrap_or(0.0)
            };
            median(&its.iter().map(middle).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        Curve { name: strategy.clone(), values: (1..=evals).map(after).collect() }
    };
    let markers = total.baseline.iter().flatten();
    let recordings = if total.spaces.len() == 1 {
        total.spaces[0].clone()
    } else {
        format!("{} recordings", total.spaces.len())
    };
    let kind = match (total.warm_from.is_empty(), total.noise) {
        (true, false) => "",
        (false, false) => ", warm start",
        (true, true) => ", noisy measurements",
        (false, true) => ", warm start, noisy measurements",
    };
    Plot {
        title: format!(
            "How near to the best setting searches come: {recordings}, {} seeds{kind}",
            total.seeds
        ),
        x: "settings measured".to_string(),
        y: "fraction of the optimum (median)".to_string(),
        curves: strategies.iter().enumerate().map(curve).collect(),
        markers: markers.map(|best| Marker { x: best.evals as f64, y: best.median_fraction }).collect(),
        markers_name: "best baseline".to_string(),
    }
}
