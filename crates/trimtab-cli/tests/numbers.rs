//! Every field and column that commands print is in docs/numbers.md with where it comes from, and what is there is printed. Needs an
//! adapter and fails without; `cargo xtask test` installs Mesa's.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use support::fields::{listed, unlike, walk};
use support::{Ended, Machine, json};
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};

const PAGE: &str = include_str!("../../../docs/numbers.md");
const MATMULS: [&str; 9] = [
    "matmul:f32:8x8x8",
    "matmul:f32:16x16x16",
    "matmul:f32:24x24x24",
    "matmul:f32:32x32x32",
    "matmul:f32:40x40x40",
    "matmul:f32:48x48x48",
    "matmul:f32:56x56x56",
    "matmul:f32:64x64x64",
    "matmul:f32:72x72x72",
];

/// The headings of tables: the line above a rule.
fn headings(text: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = text.lines().collect();
    let above = lines.windows(2).filter(|pair| {
        let rule = pair[1].trim();
        !rule.is_empty() && rule.chars().all(|letter| letter == '─')
    });
    above
        .flat_map(|pair| pair[0].split("  ").map(str::trim).filter(|name| !name.is_empty()))
        .map(str::to_string)
        .collect()
}

/// What a command printed in several runs.
#[derive(Default)]
struct Printed {
    fields: BTreeSet<String>,
    columns: BTreeSet<String>,
}

struct Runs {
    machine: Machine,
    printed: BTreeMap<&'static str, Printed>,
}

impl Runs {
    fn see(&mut self, command: &'static str, args: &[&str], variable: Option<(&str, &str)>) {
        let run = |more: &[&str]| {
            let mut run = self.machine.command(&[&[command], args, more].concat());
            Ended::of(run.envs(variable)).ok()
        };
        let printed = self.printed.entry(command).or_default();
        json(&run(&["--json"])).iter().for_each(|object| walk(object, "", &mut printed.fields));
        printed.columns.extend(headings(&run(&[])));
    }
}

fn record(wisdom: &Wisdom, kernel: &str, condition: &str, samples: &[f64]) {
    let key = FactKey {
        device: "elsewhere".into(),
        kernel: kernel.into(),
        problem: MATMULS[0].into(),
        condition: condition.into(),
        ..FactKey::default()
    };
    wisdom.record(key, Outcome::Timed(Stats::of(samples).unwrap()));
}

#[test]
fn what_is_printed_is_listed_with_where_it_comes_from_and_what_is_listed_is_printed() {
    let machine = Machine::with_gpus();
    machine.ok(&[&["tune", "--device", "cpu", "--budget", "20s"][..], &MATMULS].concat());
    {
        let wisdom = Wisdom::open(machine.path());
        record(&wisdom, "own", "quiet", &[100.0, 101.0, 102.0]);
        record(&wisdom, "own", "live", &[125.0; 8]);
        record(&wisdom, "own", "chosen", &[125.0; 4]);
        record(&wisdom, "other", "explored", &[100.0; 3]);
        wisdom.flush();
    }
    let mut runs = Runs { machine, printed: BTreeMap::new() };
    let add = "elementwise.add:f32:100000";
    runs.see("explain", &[MATMULS[3], "--device", "cpu"], None);
    runs.see("explain", &[add, "--tune", "estimate"], Some(("TRIMTAB_THRESHOLD_ALL", "0")));
    runs.see("explain", &[add, "--tune", "estimate", "--all"], None);
    runs.see("calibrate", &["--quick"], None);
    runs.see("stats", &[], None);
    runs.see("stats", &["--device", "cpu"], None);
    runs.see("models", &["--device", "cpu"], None);
    runs.see("bench", &[MATMULS[3], "transpose:f32:64x64", "--rounds", "3", "--device", "cpu"], None);
    runs.see("report", &[], None);

    let all = listed(PAGE);
    let mut wrong = Vec::new();
    for (command, printed) in &runs.printed {
        let (listed, stats) = (&all[*command], &all["stats"]);
        wrong.extend(unlike(command, "docs/numbers.md", listed, &printed.fields));
        let of_stats = |column: &String| *command == "report" && stats.columns.contains_key(column);
        let unlisted = printed
            .columns
            .iter()
            .filter(|column| !listed.columns.contains_key(*column) && !of_stats(column));
        wrong.extend(
            unlisted.map(|column| {
                format!("{command} has a column `{column}` that docs/numbers.md does not list")
            }),
        );
        let gone =
            listed.columns.iter().filter(|(column, sure)| **sure && !printed.columns.contains(*column));
        wrong.extend(gone.map(|(column, _)| {
            format!("docs/numbers.md lists the column `{column}` of {command}, which is not shown")
        }));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
