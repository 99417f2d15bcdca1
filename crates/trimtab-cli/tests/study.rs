//! Studies as users have them: killed and gone on with, the same trace as `simulate`, driven by others, reported, exchanged.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::{Ended, Machine, json};
use trimtab::Nanos;
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::tune::search::{SearchSpace, Seen, Strategy, strategy};
use trimtab_testing::NOT_RUN;
use trimtab_testing::browser::{self, BROWSERS, Wanted};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
const SPACE: &str = "gpu.transpose.registers__transpose-f32-512x512__llvmpipe";

/// Notes what is asked.
struct Noted(Box<dyn Strategy>, Vec<usize>);

impl Strategy for Noted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn ask(&mut self) -> Option<usize> {
        let at = self.0.ask();
        self.1.extend(at);
        at
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.0.tell(at, seen);
    }
}

/// The recording's times as files, and the words of a command that looks one up.
fn looked_up(machine: &Machine, recording: &trimtab_replay::Recording) -> String {
    let dir = machine.path().join("times");
    std::fs::create_dir(&dir).unwrap();
    for row in &recording.rows {
        let name: Vec<String> = row.point.values().iter().map(u32::to_string).collect();
        if let Some(ms) = row.outcome.mean_ms() {
            std::fs::write(dir.join(name.join("-")), format!("{ms}\n")).unwrap();
        }
    }
    let holes: Vec<String> = recording.axes.iter().map(|axis| format!("{{{}}}", axis.name)).collect();
    format!("cat times/{}", holes.join("-"))
}

#[test]
fn a_recorded_space_through_processes_gives_the_trace_simulate_gives() {
    let machine = Machine::new();
    let recording = trimtab_replay::read_recordings(Path::new(DATA), &[SPACE]).unwrap().remove(0);
    let command = looked_up(&machine, &recording);
    let t4 = trimtab_replay::write_t4(&recording);
    std::fs::write(machine.path().join("space.json"), t4.to_string()).unwrap();
    let evals = 40.min(recording.rows.len());
    for seed in [0u64, 7] {
        let space = Arc::new(SearchSpace::new(&recording.space()));
        let mut noted = Noted(strategy("auto", &space, seed, &[]).unwrap(), Vec::new());
        let run = trimtab_replay::simulate(&recording, &mut noted, evals, None);
        let (seed, evals) = (seed.to_string(), evals.to_string());
        let args =
            ["tune-command", &command, "--space", "space.json", "--metric", "regex:.+", "--retries", "0"];
        let mut tuned =
            machine.command(&[&args[..], &["--seed", &seed, "--evals", &evals, "--json"]].concat());
        let lines = json(&Ended::of(tuned.current_dir(machine.path())).ok());
        let (last, lines) = lines.split_last().unwrap();
        let named = |at: &usize| -> Value {
            let values = recording.rows[*at].point.values();
            recording
                .axes
                .iter()
                .zip(values)
                .map(|(axis, value)| (axis.name.clone(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let asked: Vec<Value> = noted.1.iter().map(named).collect();
        let tried: Vec<Value> = lines.iter().map(|line| line["point"].clone()).collect();
        assert_eq!(tried, asked, "seed {seed}");
        let fraction = recording.optimum_ms().unwrap() / last["best"]["value"].as_f64().unwrap();
        assert_eq!(Some(&fraction), run.fractions.last());
    }
}

/// Kills a search so often at random moments, each while it runs, and lets it end. Gives its lines back, and those of one nobody kills.
fn killed(machine: &Machine, args: &[&str], evals: usize, kills: usize) -> [Vec<Value>; 2] {
    let evaluations = evals.to_string();
    let search = |name: &str| {
        let more = ["--evals", &evaluations, "--name", name, "--json"];
        let mut command = machine.command(&[args, &more[..]].concat());
        command.current_dir(machine.path());
        command
    };
    let whole = json(&Ended::of(&mut search("whole")).ok());
    let said = machine.path().join("said");
    let log = machine.path().join("studies/killed/study.jsonl");
    let told = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"tell\"")).count()
    };
    let mut random = trimtab::advanced::core::RandomNumbers::new(5);
    for kill in 0..kills {
        // Some answers later, and a little: anywhere between two lines, and enough left for those to come.
        let share = (evals - evals / 4).saturating_sub(told()) / (kills - kill);
        let after = told() + random.below(share.max(1));
        let errors = std::fs::File::create(&said).unwrap();
        let mut child = search("killed").stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        let mut is_running = || {
            let ended = child.try_wait().unwrap();
            let said = std::fs::read_to_string(&said).unwrap();
            assert!(ended.is_none(), "kill {kill} of {kills} finds a search that ended: {said}");
        };
        while told() < after {
            is_running();
            std::thread::yield_now();
        }
        // About as long as a point takes, whoever else uses the machine.
        let (since, moment) = (Stopwatch::start(), Nanos(random.below(3_000_000) as u64));
        while since.elapsed() < moment {
            std::thread::yield_now();
        }
        let known = told();
        is_running();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told() >= known, "what was written is there");
    }
    [whole, json(&Ended::of(&mut search("killed")).ok())]
}

/// The points of all lines; of the last, none.
fn points(lines: &[Value]) -> Vec<Value> {
    lines.iter().map(|line| line["point"].clone()).collect()
}

/// How often a search is killed: more with TRIMTAB_KILLS=100.
fn kills(usual: usize) -> usize {
    trimtab_testing::variable("TRIMTAB_KILLS").map_or(usual, |kills| kills.parse().unwrap())
}

#[test]
fn a_search_killed_at_any_moment_goes_on_and_ends_with_the_same_best() {
    let machine = Machine::new();
    let bench = "echo value $(( ($1 - 23) * ($1 - 23) + ($2 - 9) * ($2 - 9) + 1 ))\n";
    std::fs::write(machine.path().join("bench"), bench).unwrap();
    let args = ["tune-command", "sh bench {a} {b}", "--param", "a=1..40", "--param", "b=1..40"];
    let kills = kills(12);
    // So many that each kill finds it running.
    let evals = 40 + 6 * kills;
    let [whole, ended] =
        killed(&machine, &[&args[..], &["--metric", "regex:value (.+)"]].concat(), evals, kills);
    assert_eq!(ended.last().unwrap()["best"], whole.last().unwrap()["best"]);
    assert_eq!(points(&ended), points(&whole), "not one point is lost, tried twice or another");
}

#[test]
fn a_search_that_compiles_and_is_killed_goes_on_by_wall_time() {
    let machine = Machine::new();
    // Half of a program is there for a while, and the next one is compiled while a point runs.
    let compiler =
        "printf '#!/bin/sh\\n' > $3; sleep 0.005; printf 'sleep 0.0%s%s; exit 0' $1 $2 >> $3; chmod +x $3\n";
    std::fs::write(machine.path().join("cc"), compiler).unwrap();
    let args =
        ["tune-command", "{out}", "--compile", "sh cc {a} {b} {out} k.c", "--repeats", "1", "--warmup", "0"];
    let space = ["--param", "a=0..5", "--param", "b=1..9"];
    std::fs::write(machine.path().join("k.c"), "").unwrap();
    let kills = kills(6).min(18);
    let [whole, ended] = killed(&machine, &[&args[..], &space].concat(), 54, kills);
    // Times differ from run to run: the order of points may, the points may not.
    for lines in [&whole, &ended] {
        let (last, lines) = lines.split_last().unwrap();
        assert_eq!(
            (&last["evaluations"], &last["failed"], &last["ended_by"]),
            (&json!(54), &json!(0), &json!("evals"))
        );
        let mut tried: Vec<String> = points(lines).iter().map(Value::to_string).collect();
        tried.sort();
        tried.dedup();
        assert_eq!(tried.len(), 54, "no point is lost or tried twice");
        assert_eq!(last["best"]["point"]["a"], 0, "{last}");
    }
}

#[test]
fn a_search_that_is_interrupted_keeps_everything_and_says_so() {
    let machine = Machine::new();
    let args = [
        "tune-command",
        "sleep 0.0{a}",
        "--param",
        "a=1..9",
        "--param",
        "b=1..50",
        "--env",
        "B={b}",
        "--name",
        "i",
        "--evals",
        "300",
    ];
    let mut child = machine.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let log = machine.path().join("studies/i/study.jsonl");
    let told = || {
        std::fs::read_to_string(&log)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.contains("\"tell\""))
            .count()
    };
    while told() < 3 {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = Ended::from(child.wait_with_output().unwrap());
    let (code, out) = (ended.code, ended.out);
    assert_eq!(code, Some(0), "{out}");
    assert!(
        out.contains("interrupted; everything measured is kept, the same command goes on from here"),
        "{out}"
    );
    assert!(told() >= 3);
}

#[test]
fn a_loop_in_another_language_drives_a_search() {
    let machine = Machine::new();
    let args = [
        "ask-tell", "--param", "a=1..30", "--param", "b=x,y", "--limit", "cost<900", "--also", "cost",
        "--name", "driven",
    ];
    let talk = |steps: usize, check_last: bool| {
        let mut child = machine.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut say = |line: Value| {
            writeln!(to, "{line}").unwrap();
            let mut answer = String::new();
            from.read_line(&mut answer).unwrap();
            serde_json::from_str::<Value>(&answer).unwrap()
        };
        let mut seen = Vec::new();
        for _ in 0..steps {
            let asked = say(json!({"ask": 3}))["asked"].clone();
            for one in asked.as_array().unwrap() {
                let a = one["point"]["a"].as_f64().unwrap();
                let b = if one["point"]["b"] == "x" { 0.0 } else { 100.0 };
                seen.push(one["id"].as_u64().unwrap());
                let told = match a {
                    30.0 => say(json!({"tell": one["id"], "failure": "no memory"})),
                    a => say(
                        json!({"tell": one["id"], "value": (a - 17.0).powi(2) + b, "numbers": {"cost": a * a}}),
                    ),
                };
                assert_eq!(told["told"], one["id"], "{told}");
            }
        }
        assert!(say(json!({"ask": 0}))["error"].as_str().unwrap().contains("from 1 to"));
        assert!(
            say(json!({"tell": {"a": 99}, "value": 1}))["error"].as_str().unwrap().contains("never is 99")
        );
        assert!(say(json!("x"))["error"].as_str().unwrap().contains("{\"ask\": 1}"));
        let best = say(json!({"best": true}));
        if check_last {
            assert_eq!(
                best["best"],
                json!({"point": {"a": 17, "b": "x"}, "value": 0.0, "numbers": {"cost": 289.0}})
            );
        }
        // Asked and never told: whoever comes next gets it first.
        let left = say(json!({"ask": 1}))["asked"][0]["id"].as_u64();
        drop(to);
        assert!(child.wait().unwrap().success());
        (seen, left)
    };
    let (first, left) = talk(5, false);
    let (second, _) = talk(10, true);
    assert_eq!(second.first().copied(), left);
    let all: std::collections::BTreeSet<u64> = first.iter().chain(&second).copied().collect();
    assert_eq!(all.len(), first.len() + second.len(), "nothing is asked twice");
}

#[test]
fn a_report_says_what_matters_and_what_failed_and_a_page_is_well_formed() {
    let machine = Machine::new();
    let bench = "[ $2 = 4 ] && { echo '<b>boom</b>'; exit 9; }; echo value $(( $1 * 100 + $3 ))";
    let args = ["tune-command", "sh -c 'eval \"$0\"' 'x'", "--param", "a=1"];
    assert_eq!(machine.run(&args).code, Some(2), "a parameter that is never used");
    std::fs::write(machine.path().join("bench"), bench).unwrap();
    let params = ["--param", "a=1..6", "--param", "b=1..4", "--param", "c=1..3"];
    let args = [
        "tune-command",
        "sh bench {a} {b} {c}",
        "--metric",
        "regex:value (.+)",
        "--name",
        "told",
        "--evals",
        "80",
    ];
    Ended::of(machine.command(&[&args[..], &params].concat()).current_dir(machine.path())).ok();
    let text = machine.ok(&["study", "report", "told"]);
    assert!(
        text.contains("what matters") && text.contains("exit code 9") && text.contains("<b>boom</b>"),
        "{text}"
    );
    let found = machine.lines(&["study", "report", "told", "--json"]).remove(0);
    assert_eq!(found["parameters"][0]["parameters"], json!(["a"]));
    assert_eq!(
        (&found["failures"][0]["fault"], &found["failures"][0]["count"]),
        (&json!("exit"), &json!(18))
    );
    assert_eq!(found["tried"].as_array().unwrap().len(), 72);
    let page = machine.ok(&["study", "report", "told", "--html", "-"]);
    assert!(
        page.contains("&lt;b&gt;boom&lt;/b&gt;") && !page.contains("<b>boom") && page.contains("<polyline")
    );
    for tag in ["section", "table", "svg", "details", "p", "td"] {
        assert_eq!(
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count(),
            page.matches(&format!("</{tag}>")).count(),
            "{tag}"
        );
    }
}

#[test]
fn results_go_out_as_t4_and_those_of_others_seed_a_search() {
    let machine = Machine::new();
    std::fs::write(
        machine.path().join("bench"),
        "echo value $(( ($1 - 61) * ($1 - 61) + ($2 - 17) * ($2 - 17) + 1 ))\n",
    )
    .unwrap();
    let what = [
        "tune-command",
        "sh bench {a} {b}",
        "--param",
        "a=1..100",
        "--param",
        "b=1..100",
        "--metric",
        "regex:value (.+)",
    ];
    let run = |more: &[&str]| {
        json(
            &Ended::of(machine.command(&[&what[..], more, &["--json"]].concat()).current_dir(machine.path()))
                .ok(),
        )
    };
    let first = run(&["--evals", "60", "--name", "first"]);
    machine.ok(&["study", "export", "first", &machine.file("first.json")]);
    let t4: Value =
        serde_json::from_slice(&std::fs::read(machine.path().join("first.json")).unwrap()).unwrap();
    assert_eq!((t4["results"].as_array().unwrap().len(), &t4["schema_version"]), (60, &json!("1.0.0")));
    let seeded = run(&["--evals", "4", "--name", "second", "--seed-from", "first.json"]);
    let best = first.last().unwrap()["best"]["value"].as_f64().unwrap();
    assert!(
        seeded.last().unwrap()["best"]["value"].as_f64().unwrap() <= best,
        "four points find what sixty found"
    );
    let said = machine
        .command(&[&what[..], &["--seed-from", "bench"]].concat())
        .current_dir(machine.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("bench: line 1: not JSON"));
}

#[test]
fn the_examples_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tune");
    // Those with a kernel in a file are in tests/tune_kernel.rs.
    for name in ["flags", "tiles", "server"] {
        let machine = Machine::new();
        let mut command = trimtab_testing::command(examples.join(name).join("run.sh"));
        command.env("TRIMTAB", env!("CARGO_BIN_EXE_trimtab")).env("TRIMTAB_WISDOM_DIR", machine.path());
        let lines = json(&Ended::of(command.args(["--evals", "4", "--json"])).ok());
        assert_eq!((lines.len(), lines[4]["best"].is_object()), (5, true), "{name}: {lines:?}");
    }
}

#[test]
fn the_page_of_a_study_is_whole_in_a_browser() {
    let Some(browser) = browser::find() else {
        let what = format!(
            "{NOT_RUN} the page of a study in a browser: none of {} is installed\n",
            BROWSERS.join(", ")
        );
        let _ = std::io::stderr().write_all(what.as_bytes());
        return;
    };
    let machine = Machine::new();
    let search = [
        "tune-command",
        "sh -c 'echo value $(( {a} * {b} )); [ {a} -lt 4 ]'",
        "--param",
        "a=1..4",
        "--param",
        "b=1..5",
    ];
    let more = ["--metric", "regex:value (.+)", "--evals", "20", "--name", "page", "--json"];
    machine.ok(&[&search[..], &more].concat());
    let page = machine.file("page.html");
    machine.ok(&["study", "report", "page", "--html", &page]);
    let text = std::fs::read_to_string(&page).unwrap();
    let wanted = Wanted { sections: 1..=1, plots: 3 };
    browser::check(browser, &text, machine.path(), &wanted, &[(390, true)]).unwrap();
}
