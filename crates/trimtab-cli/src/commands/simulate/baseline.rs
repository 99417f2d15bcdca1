//! What other tuners reach on the same recordings: `baseline.csv` beside the index, if there is one.

use serde::Serialize;
use std::path::Path;
use trimtab::advanced::tune::median;
use trimtab::advanced::wisdom::files;
use trimtab_replay::MAX_TABLE_BYTES;

/// Strategies that learn from other devices are compared with warm searches only.
const WARM: &str = "transfer";

struct Known {
    space: String,
    strategy: String,
    evals: usize,
    median: f64,
    mean: f64,
    share: f64,
}

/// The table.
pub struct Baseline(Vec<Known>);

/// The best of others after so many evaluations: by median, by mean and by share, each the best of any strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    pub evals: usize,
    /// Recordings it was tried on, of those searched here.
    pub spaces: usize,
    /// The best by median.
    pub strategy: String,
    pub median_fraction: f64,
    pub mean_fraction: Option<f64>,
    pub share_within_5pct: Option<f64>,
}

impl Baseline {
    /// Reads the table of a directory; nothing if there is none.
    pub fn read(data: &Path) -> Result<Option<Baseline>, String> {
        let path = data.join("baseline.csv");
        if !path.exists() {
            return Ok(None);
        }
        let bytes = files::read(&path, MAX_TABLE_BYTES).map_err(|error| error.to_string())?;
        Baseline::parse(&String::from_utf8_lossy(&bytes)).map(Some)
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| {
            let at = header.iter().position(|column| *column == name);
            at.ok_or_else(|| format!("no column `{name}`"))
        };
        let (space, strategy, budget) = (column("space")?, column("strategy")?, column("budget")?);
        let (middle, mean, share) = (column("median")?, column("mean")?, column("share_ge_0.95")?);
        let mut known = Vec::new();
        for (line, content) in lines.enumerate() {
            let cells: Vec<&str> = content.split(',').collect();
            let text = |at: usize| cells.get(at).copied().unwrap_or_default();
            // A cell that is empty was not computed: that row says nothing about its column.
            let number = |at: usize| match text(at) {
                "" => Ok(f64::NAN),
                cell => {
                    cell.parse::<f64>().map_err(|_| format!("line {}: `{cell}` is not a number", line + 2))
                }
            };
            known.push(Known {
                space: text(space).to_string(),
                strategy: text(strategy).to_string(),
                evals: number(budget)? as usize,
                median: number(middle)?,
                mean: number(mean)?,
                share: number(share)?,
            });
        }
        Ok(Baseline(known))
    }

    /// The best over these recordings. Cold searches are compared with strategies that were tried on every one of them;
    /// warm ones with those that learn from other devices, on the recordings for which there were any.
    pub fn best(&self, spaces: &[String], evals: usize, warm: bool) -> Option<Best> {
        let mut names: Vec<&str> = self.0.iter().map(|known| known.strategy.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut best: Option<Best> = None;
        for name in names.into_iter().filter(|name| name.starts_with(WARM) == warm) {
            let on = |space: &String| {
                let is_it =
                    |known: &&Known| known.space == *space && known.strategy == name && known.evals == evals;
                self.0.iter().find(is_it)
            };
            let its: Vec<&Known> = spaces.iter().filter_map(on).collect();
            let all = |value: fn(&Known) -> f64| its.iter().map(|known| value(known)).collect::<Vec<f64>>();
            let Some(middle) = median(&all(|known| known.median)) else { continue };
            if !warm && its.len() < spaces.len() {
                continue;
            }
            let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
            let given = |value: f64| (!value.is_nan()).then_some(value);
            let mut found = Best {
                evals,
                spaces: its.len(),
                strategy: name.to_string(),
                median_fraction: middle,
                mean_fraction: given(mean(all(|known| known.mean))),
                share_within_5pct: given(mean(all(|known| known.share))),
            };
            if let Some(best) = best {
                if best.median_fraction >= middle {
                    (found.strategy, found.spaces, found.median_fraction) =
                        (best.strategy, best.spaces, best.median_fraction);
                }
                let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).max_by(f64::total_cmp);
                found.mean_fraction = larger(found.mean_fraction, best.mean_fraction);
                found.share_within_5pct = larger(found.share_within_5pct, best.share_within_5pct);
            }
            best = Some(found);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "space,strategy,budget,seeds,median,mean,p10,p90,share_ge_0.95\n\
        a,one,20,51,0.5,0.6,0,0,0.1\na,two,20,51,0.7,0.5,0,0,0.3\nb,one,20,51,0.9,0.8,0,0,0.2\nb,two,20,51,0.8,0.7,0,0,0.0\n\
        a,partial,20,51,1,1,0,0,1\na,transfer_x,20,1,0.99,,,,\n";

    #[test]
    fn the_best_is_among_strategies_tried_on_all_recordings_and_warm_ones_only_for_warm_searches() {
        let baseline = Baseline::parse(TABLE).unwrap();
        let spaces = ["a".to_string(), "b".to_string()];
        let cold = baseline.best(&spaces, 20, false).unwrap();
        assert_eq!((cold.strategy.as_str(), cold.median_fraction), ("two", 0.75));
        assert!((cold.mean_fraction.unwrap() - 0.7).abs() < 1e-9);
        assert!((cold.share_within_5pct.unwrap() - 0.15).abs() < 1e-9);
        let warm = baseline.best(&spaces, 20, true).unwrap();
        assert_eq!((warm.strategy.as_str(), warm.spaces, warm.mean_fraction), ("transfer_x", 1, None));
        assert_eq!(baseline.best(&spaces[..1], 20, false).unwrap().strategy, "partial");
        assert_eq!(baseline.best(&spaces, 50, false), None);
        assert_eq!(baseline.best(&["c".to_string()], 20, false), None);
    }

    #[test]
    fn a_table_of_another_form_is_refused() {
        assert!(Baseline::parse("space,strategy\n").is_err_and(|reason| reason.contains("`budget`")));
        let text = "space,strategy,budget,median,mean,share_ge_0.95\na,b,20,x,1,1\n";
        assert!(Baseline::parse(text).is_err_and(|reason| reason.contains("line 2: `x`")));
    }
}
