//! `trimtab bench`: every rival of a problem in one interleaved run. Chooses and remembers nothing.

use super::{add_speed, kernel_view};
use crate::args::Bench;
use crate::failure::FAILED;
use crate::output::{Speed, counted, percent, spread, time, times};
use crate::progress::{Bar, HowLong};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab::Comparison;
use trimtab::advanced::plan::Rival;
use trimtab::advanced::tune::{Budget, Raced, Rules};
use trimtab::{Nanos, Problem};

pub fn run(session: &Session, problems: &[Problem], args: &Bench) -> Result<ExitCode> {
    let rules = Rules { min_samples: args.rounds, max_samples: args.rounds, ..Rules::thorough() };
    let budget = Budget::time(args.budget);
    let what = format!("measuring {}", counted(problems.len(), "problem"));
    let bar = Bar::announced(problems.len(), &what, HowLong::AtMost(args.budget), "nothing is remembered");
    let mut nothing = false;
    for (done, problem) in problems.iter().enumerate() {
        let share = Nanos(budget.left().0 / (problems.len() - done) as u64);
        let mut show = |progress: &trimtab::advanced::tune::Progress| bar.show(problem, progress);
        let mut comparison = session.runtime.compare(problem, &rules, share, args.points, &mut show)?;
        let by = rank(&mut comparison);
        nothing |= comparison.rows.is_empty();
        bar.around(|| match session.out.is_json() {
            true => session.out.object(&view(&comparison, by)),
            false => show_table(session, &comparison, by, done > 0),
        })?;
        bar.next();
    }
    Ok(ExitCode::from(if nothing { FAILED } else { 0 }))
}

/// What rivals are ranked by. Both are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Min,
    Median,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Min => "min",
            By::Median => "median",
        }
    }

    fn of(self, raced: &Raced) -> Option<f64> {
        match self {
            By::Min => raced.min(),
            By::Median => raced.median(),
        }
    }

    /// Who leads by this.
    fn first<R>(self, rows: &[(R, Raced)]) -> Option<usize> {
        let timed = rows.iter().enumerate().filter_map(|(at, (_, raced))| Some((at, self.of(raced)?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }
}

/// Puts the fastest first: by the least time, which others disturb least, unless the medians say that another is ahead. A least time that a
/// rival reaches once is not what calls will see.
fn order<R>(rows: &mut [(R, Raced)]) -> By {
    let by = if By::Min.first(rows) == By::Median.first(rows) { By::Min } else { By::Median };
    let key = |raced: &Raced| by.of(raced).unwrap_or(f64::MAX);
    rows.sort_by(|a, b| key(&a.1).total_cmp(&key(&b.1)));
    by
}

fn rank(comparison: &mut Comparison) -> By {
    let rows = &mut comparison.rows;
    let place = |rival: &Rival| (rival.device, rival.kernel, rival.point);
    let chosen = comparison.chosen.and_then(|at| rows.get(at)).map(|(rival, _)| place(rival));
    let by = order(rows);
    comparison.chosen = rows.iter().position(|(rival, _)| Some(place(rival)) == chosen);
    by
}

fn best(comparison: &Comparison, by: By) -> Option<f64> {
    comparison.rows.first().and_then(|(_, raced)| by.of(raced)).filter(|&ns| ns > 0.0)
}

fn view(comparison: &Comparison, by: By) -> Value {
    let best = best(comparison, by);
    let over = |raced: &Raced| by.of(raced).zip(best).map(|(ns, best)| ns / best);
    let row = |(index, (rival, raced)): (usize, &(Rival, Raced))| {
        let more = json!({
            "min_ns": raced.min(),
            "median_ns": raced.median(),
            "spread_log2": raced.spread(),
            "samples": raced.samples.len(),
            "interfered": raced.interfered,
            "vs_best": over(raced),
            "chosen": comparison.chosen == Some(index),
        });
        let mut view = kernel_view(rival, more);
        add_speed(&mut view, raced.min().and_then(|ns| Speed::of(&comparison.problem, ns)));
        view
    };
    let chosen = comparison.chosen.and_then(|index| comparison.rows.get(index));
    let out = comparison.out.iter().map(|(kernel, reason)| json!({ "kernel": kernel, "reason": reason }));
    json!({
        "problem": comparison.problem.to_string(),
        // The least time, or the median where that puts another first.
        "ranked_by": by.name(),
        "rivals": comparison.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
        "out": out.collect::<Vec<_>>(),
        "chosen": chosen.map(|(rival, _)| rival.name.to_string()),
        // Best time over the chosen one's: 1 is as good as it gets.
        "chosen_vs_best": chosen.and_then(|(_, raced)| over(raced)).map(|ratio| 1.0 / ratio),
    })
}

fn show_table(session: &Session, comparison: &Comparison, by: By, gap: bool) -> Result<()> {
    let out = &session.out;
    if gap {
        out.line("")?;
    }
    out.line(comparison.problem.to_string())?;
    let best = best(comparison, by);
    let mut table = Table::new(&["rival", "point", ">min", ">median", ">spread", ">speed", ">vs best", ">n"]);
    for (index, (rival, raced)) in comparison.rows.iter().enumerate() {
        let min = raced.min();
        let speed = min.and_then(|ns| Speed::of(&comparison.problem, ns));
        table.marked_row(
            comparison.chosen == Some(index),
            vec![
                rival.name.to_string(),
                rival.point_name.clone(),
                min.map(time).unwrap_or_default(),
                raced.median().map(time).unwrap_or_default(),
                raced.spread().map(spread).unwrap_or_default(),
                speed.map(|speed| speed.to_string()).unwrap_or_default(),
                by.of(raced).zip(best).map(|(ns, best)| times(ns / best)).unwrap_or_default(),
                raced.samples.len().to_string(),
            ],
        );
    }
    if !table.is_empty() {
        out.table(&table)?;
    }
    if !comparison.out.is_empty() {
        let table = Table::of(&comparison.out)
            .column("not measured", |(kernel, _)| kernel.clone())
            .column("because", |(_, reason)| reason.clone())
            .table();
        out.line("")?;
        out.table(&table)?;
    }
    let chosen = comparison.chosen.and_then(|index| comparison.rows.get(index));
    let line = match chosen.and_then(|(_, raced)| by.of(raced)).zip(best) {
        Some((ns, best)) => {
            format!("▶ is the plan in force: {} of the best one's speed", percent(best / ns))
        }
        None => "the plan in force was not measured".to_string(),
    };
    out.line("")?;
    if let Some(summary) = summary(comparison, by) {
        out.summary(summary)?;
    }
    if let Some(doubt) = doubt(comparison, by) {
        out.line(doubt)?;
    }
    out.line(line)
}

fn label(rival: &Rival) -> String {
    match rival.point_name.as_str() {
        "" | "-" => rival.name.to_string(),
        point => format!("{} at {point}", rival.name),
    }
}

/// Who is the fastest, and by how much.
fn summary(comparison: &Comparison, by: By) -> Option<String> {
    let ((first, its), rest) = comparison.rows.split_first()?;
    let Some((next, other)) = rest.first() else {
        return Some(format!("{} is the only one that was measured", label(first)));
    };
    let ratio = by.of(other)? / by.of(its)?;
    // Independent errors, in doublings.
    let error = its.spread().zip(other.spread()).map(|(a, b)| a.hypot(b));
    let error = error.map(|log2| format!(" {}", spread(log2))).unwrap_or_default();
    Some(format!("{} is the fastest: {}{error} as fast as {}", label(first), times(ratio), label(next)))
}

/// That the two statistics do not agree.
fn doubt(comparison: &Comparison, by: By) -> Option<String> {
    let at = By::Min.first(&comparison.rows).filter(|_| by == By::Median)?;
    let (rival, _) = comparison.rows.get(at)?;
    let more = "more --rounds may tell";
    Some(format!(
        "ranked by median: {} has the least time of all, but not in the middle; {more}",
        label(rival)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(rows: &[(&'static str, &[f64])]) -> (By, Vec<&'static str>) {
        let raced = |samples: &[f64]| Raced { samples: samples.to_vec(), ..Raced::default() };
        let mut rows: Vec<(&str, Raced)> =
            rows.iter().map(|(name, samples)| (*name, raced(samples))).collect();
        let by = order(&mut rows);
        (by, rows.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn the_least_time_ranks_unless_the_medians_say_that_another_is_ahead() {
        let (steady, slow): (&[f64], &[f64]) = (&[10.0, 10.5, 11.0], &[20.0, 21.0, 22.0]);
        let agreed = ordered(&[("slow", slow), ("steady", steady), ("none", &[])]);
        assert_eq!(agreed, (By::Min, vec!["steady", "slow", "none"]));
        // Fast once, and behind everybody else otherwise.
        let torn = ordered(&[("once", &[9.0, 24.0, 25.0]), ("steady", steady), ("slow", slow)]);
        assert_eq!(torn, (By::Median, vec!["steady", "slow", "once"]));
    }
}
