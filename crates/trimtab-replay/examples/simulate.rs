//! Replays strategies on recordings and prints how near to the optimum they come:
//! `simulate DIR [--space NAME]… [--strategy NAME]… [--seeds 50] [--seed 0] [--noise] [--warm] [--all]`.
//!
//! `--warm` takes every recording of the same kernel on another device as a donor. `--all` includes spaces of which only a
//! sample was recorded. Everything is one process and one thread.

use std::path::Path;
use std::sync::Arc;
use trimtab_replay::{BUDGETS, Completeness, Recording, Run, donor_of, read_recordings, simulate, stats};
use trimtab_tune::Stopwatch;
use trimtab_tune::search::{Donor, STRATEGIES, SearchSpace, Seen, Strategy, strategy};

/// Also reported: the goals are at 60 and 150 evaluations.
const REPORTED: [usize; 6] = [20, 50, 60, 100, 150, 200];

/// Times every question of the strategy inside.
struct Timed {
    inside: Box<dyn Strategy>,
    nanos: Vec<u64>,
}

impl Strategy for Timed {
    fn name(&self) -> &'static str {
        self.inside.name()
    }

    fn ask(&mut self) -> Option<usize> {
        let watch = Stopwatch::start();
        let at = self.inside.ask();
        self.nanos.push(watch.elapsed().0);
        at
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.inside.tell(at, seen);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let given = |flag: &str| -> Vec<&str> {
        let follows = args.windows(2).filter(|pair| pair[0] == flag);
        follows.map(|pair| pair[1].as_str()).collect()
    };
    let number =
        |flag: &str, default: u64| given(flag).first().and_then(|n| n.parse().ok()).unwrap_or(default);
    let directory = args.first().map_or("/work/shared/data", String::as_str);
    let recordings = match read_recordings(Path::new(directory), &[]) {
        Ok(recordings) => recordings,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let (spaces, mut names) = (given("--space"), given("--strategy"));
    if names.is_empty() {
        names = STRATEGIES.to_vec();
    }
    // Spaces of one measurement a point repeat other spaces of the same kernel: not part of the published comparison.
    let compared = |recording: &&Recording| {
        let complete = recording.completeness == Completeness::Everything && recording.variant != "ktt";
        if spaces.is_empty() { complete || has("--all") } else { spaces.contains(&recording.name.as_str()) }
    };
    for name in names {
        let mut table: Vec<Vec<f64>> = vec![Vec::new(); REPORTED.len()];
        let mut totals = vec![(0.0, 0.0); REPORTED.len()];
        let (mut needed, mut nanos, mut count) = (Vec::new(), Vec::new(), 0.0);
        for recording in recordings.iter().filter(compared) {
            let space = Arc::new(SearchSpace::new(&recording.space()));
            let elsewhere = |other: &&Recording| {
                has("--warm") && other.kernel == recording.kernel && other.device != recording.device
            };
            let donors: Vec<Donor> = recordings.iter().filter(elsewhere).map(donor_of).collect();
            let mut runs: Vec<Run> = Vec::new();
            for seed in number("--seed", 0)..number("--seed", 0) + number("--seeds", 50) {
                let Some(inside) = strategy(name, &space, seed, &donors) else {
                    eprintln!("there is no strategy `{name}`; there are {}", STRATEGIES.join(", "));
                    std::process::exit(2);
                };
                let mut timed = Timed { inside, nanos: Vec::new() };
                runs.push(simulate(
                    recording,
                    &mut timed,
                    BUDGETS[BUDGETS.len() - 1],
                    has("--noise").then_some(seed),
                ));
                nanos.extend(timed.nanos);
            }
            let mut line = format!("{name:8} {:30}", recording.name);
            for (place, evals) in REPORTED.into_iter().enumerate() {
                let stats = stats(&runs, evals);
                let (mean, share) = (stats.mean_fraction, stats.share_within_5pct);
                line += &format!("  {:.3} {mean:.3} {share:.2}", stats.median_fraction);
                table[place].push(stats.median_fraction);
                totals[place].0 += mean;
                totals[place].1 += share;
            }
            let to_5pct = stats(&runs, REPORTED[5]).median_evals_to_5pct;
            needed.push(to_5pct.map_or(f64::INFINITY, |evals| evals as f64));
            count += 1.0;
            println!("{line}  {}", to_5pct.map_or("-".to_string(), |evals| evals.to_string()));
        }
        nanos.sort_unstable();
        let mut line = format!("{name:8} {:30}", "median over spaces, means");
        for (medians, (mean, share)) in table.iter().zip(&totals) {
            let median = trimtab_tune::median(medians).unwrap_or(0.0);
            line += &format!("  {median:.3} {:.3} {:.2}", mean / count, share / count);
        }
        let of =
            |share: f64| nanos.get((nanos.len() as f64 * share) as usize).map_or(0.0, |ns| *ns as f64 / 1e6);
        let mean = nanos.iter().sum::<u64>() as f64 / nanos.len().max(1) as f64 / 1e6;
        println!(
            "{line}  {}  ask: mean {mean:.2} ms, median {:.2}, p99 {:.2}",
            trimtab_tune::median(&needed).unwrap_or(0.0),
            of(0.5),
            of(0.99)
        );
    }
}
