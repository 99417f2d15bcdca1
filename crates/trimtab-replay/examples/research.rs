//! Tries strategies on recordings: `research DIR STRATEGY SEEDS [name=value…] [--space NAME] [--noise]`.
use std::sync::Arc;
use trimtab_replay::{Run, donor_of, read_recordings, simulate, stats};
use trimtab_tune::search::{Donor, SearchSpace, strategy};

const SPACES: [&str; 7] = [
    "gemm__nvidia_rtx_3090",
    "gemm__nvidia_rtx_2080ti",
    "conv2d_m__nvidia_a4000",
    "conv2d_m__amd_w6600",
    "conv2d_m1__amd_mi50",
    "conv2d_o__nvidia_rtx_3090",
    "conv2d_o__nvidia_rtx_2080ti",
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = args[2].parse().unwrap();
    let mut spaces: Vec<&str> = Vec::new();
    let mut noise = false;
    let mut verbose = false;
    let mut warm = false;
    for arg in &args[3..] {
        if let Some((name, value)) = arg.split_once('=') {
            if name == "space" { spaces.push(value) }
        }
        noise |= arg == "--noise";
        verbose |= arg == "-v";
        warm |= arg == "--warm";
    }
    if spaces.is_empty() {
        spaces = SPACES.to_vec();
    }
    let recordings = read_recordings(std::path::Path::new(&args[0]), &spaces).unwrap();
    let everything = if warm { read_recordings(std::path::Path::new(&args[0]), &[]).unwrap() } else { vec![] };
    let budgets = [5, 20, 50, 60, 100, 150, 200];
    let mut medians = vec![Vec::new(); budgets.len()];
    let mut means = vec![0.0; budgets.len()];
    let mut shares = vec![0.0; budgets.len()];
    let mut evals_to = Vec::new();
    let mut asks = 0usize;
    let started = std::time::Instant::now();
    for recording in &recordings {
        let space = Arc::new(SearchSpace::new(&recording.space()));
        let donors: Vec<Donor> = everything
            .iter()
            .filter(|other| other.kernel == recording.kernel && other.device != recording.device)
            .map(donor_of)
            .collect();
        let runs: Vec<Run> = (0..seeds)
            .map(|seed| {
                let mut strategy = strategy(&args[1], &space, seed, &donors).unwrap();
                let run = simulate(recording, strategy.as_mut(), 200, noise.then_some(seed + 1000));
                asks += run.fractions.len();
                run
            })
            .collect();
        let mut line = format!("{:30}", recording.name);
        for (i, b) in budgets.iter().enumerate() {
            let s = stats(&runs, *b);
            medians[i].push(s.median_fraction);
            means[i] += s.mean_fraction / recordings.len() as f64;
            shares[i] += s.share_within_5pct / recordings.len() as f64;
            line += &format!(" {:.3}/{:.3}/{:.2}", s.median_fraction, s.mean_fraction, s.share_within_5pct);
        }
        let e = stats(&runs, 200).median_evals_to_5pct;
        evals_to.push(e.unwrap_or(999));
        if verbose {
            println!("{line} {e:?}");
        }
    }
    evals_to.sort();
    let mut line = format!("{} ", args[1..].join(" "));
    for i in 0..budgets.len() {
        medians[i].sort_by(f64::total_cmp);
        line += &format!(" {}: {:.3}/{:.3}/{:.2}", budgets[i], medians[i][medians[i].len() / 2], means[i], shares[i]);
    }
    println!("{line} to5 {} {:.2}ms", evals_to[evals_to.len() / 2], started.elapsed().as_secs_f64() * 1e3 / asks as f64);
}
