//! `trimtab tune-command` as a user runs it: points, metrics, failures, limits, fronts, workers, mistakes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use support::{Ended, Machine, json};

/// The lines of a search of this command, and the last line.
fn searched(machine: &Machine, args: &[&str]) -> (Vec<Value>, Value) {
    let mut command = machine.command(&[&["tune-command"], args, &["--json"]].concat());
    let ended = Ended::of(command.current_dir(machine.path()));
    assert!(matches!(ended.code, Some(0 | 1)), "{}{}", ended.out, ended.err);
    let mut lines = json(&ended.out);
    let last = lines.pop().unwrap();
    (lines, last)
}

/// What a call that is refused says.
fn refused(machine: &Machine, args: &[&str]) -> String {
    let mut command = machine.command(&[&["tune-command"], args].concat());
    let ended = Ended::of(command.current_dir(machine.path()));
    assert_eq!(ended.code, Some(2), "{args:?}: {}{}", ended.out, ended.err);
    ended.err
}

fn script(machine: &Machine, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = machine.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const VALUE: [&str; 2] = ["--metric", "regex:value (.+)"];

#[test]
fn the_best_point_is_found_and_every_evaluation_is_a_line() {
    let machine = Machine::new();
    script(&machine, "bench", "echo value $(( ($1 - 5) * ($1 - 5) + $2 ))");
    let params = ["--param", "a=1..8", "--param", "b=1,2,3", "--where", "a + b > 2"];
    let (lines, last) =
        searched(&machine, &[&["./bench {a} {b}", "--evals", "1000"], &params[..], &VALUE].concat());
    assert_eq!(last["best"], json!({"point": {"a": 5, "b": 1}, "value": 1.0}));
    assert_eq!(
        (&last["evaluations"], &last["failed"], &last["ended_by"]),
        (&json!(23), &json!(0), &json!("space"))
    );
    assert_eq!(lines.len(), 23);
    for line in &lines {
        assert!(line["point"]["a"].is_i64() && line["value"].is_f64() && line["repeats"] == 1, "{line}");
    }
    // The same command goes on where it ended: nowhere.
    let (again, last) =
        searched(&machine, &[&["./bench {a} {b}", "--evals", "1000"], &params[..], &VALUE].concat());
    assert!(again.iter().all(|line| line["earlier"] == true) && again.len() == 23);
    assert_eq!(last["best"]["value"], 1.0);
    let (fresh, _) =
        searched(&machine, &[&["./bench {a} {b}", "--evals", "4", "--fresh"], &params[..], &VALUE].concat());
    assert!(fresh.iter().all(|line| line.get("earlier").is_none()) && fresh.len() == 4);
}

#[test]
fn one_candidate_never_ends_a_search_and_every_failure_has_its_evidence() {
    let machine = Machine::new();
    script(
        &machine,
        "bench",
        r#"echo trying $1; case $1 in
            exit) echo it broke >&2; exit 3;; crash) kill -SEGV $$;; hang) sleep 60;; silent) ;; nan) echo value nan;;
            memory) exec dd if=/dev/zero of=/dev/null bs=400M count=1000;; *) echo value 7;; esac"#,
    );
    let way = "way=exit,crash,hang,silent,nan,memory,good";
    let limits = ["--timeout", "1s", "--memory", "100M", "--evals", "100"];
    let (lines, last) =
        searched(&machine, &[&["./bench {way}", "--param", way], &limits[..], &VALUE].concat());
    assert_eq!(last["best"], json!({"point": {"way": "good"}, "value": 7.0}));
    assert_eq!((&last["evaluations"], &last["failed"]), (&json!(7), &json!(6)));
    let line = |way: &str| lines.iter().find(|line| line["point"]["way"] == way).unwrap();
    for (way, kind, part) in [
        ("exit", "exit", "exit code 3"),
        ("crash", "crash", "signal 11"),
        ("hang", "timeout", "ended after 1."),
        ("silent", "metric", "matches"),
        ("nan", "metric", "no finite number"),
        ("memory", "memory", "MiB"),
    ] {
        let failed = line(way);
        assert_eq!(failed["failure_kind"], kind, "{failed}");
        assert!(
            failed["failure"].as_str().unwrap().contains(part) && failed.get("value").is_none(),
            "{failed}"
        );
        assert!(way == "memory" || failed["output"][0] == format!("trying {way}"), "{failed}");
    }
    assert_eq!(line("exit")["output"][1], "it broke");
}

#[test]
fn a_flaky_point_is_repeated_and_said_to_be_flaky() {
    let machine = Machine::new();
    // Every other run of b fails.
    script(&machine, "bench", "[ $1 = b ] && ! rm mark 2>/dev/null && touch mark && exit 1; echo value 1");
    let (lines, last) = searched(&machine, &[&["./bench {way}", "--param", "way=a,b"], &VALUE[..]].concat());
    let flaky = lines.iter().find(|line| line["point"]["way"] == "b").unwrap();
    assert_eq!((&flaky["failure_kind"], &flaky["repeats"]), (&json!("flaky"), &json!(2)));
    assert_eq!(last["best"]["point"]["way"], "a");
}

#[test]
fn values_reach_the_command_as_they_are_whatever_characters_they_hold() {
    let machine = Machine::new();
    script(&machine, "bench", r#"printf '%s\n' "$@" >> seen; echo value 1"#);
    let hostile = "text=$(touch x);`touch y`,a b|c>z & d,'\"*?~\\";
    searched(&machine, &[&["./bench --text {text}", "--param", hostile], &VALUE[..]].concat());
    let seen = std::fs::read_to_string(machine.path().join("seen")).unwrap();
    let values: Vec<&str> = seen.lines().filter(|line| *line != "--text").collect();
    assert_eq!(values, ["$(touch x);`touch y`", "a b|c>z & d", "'\"*?~\\"]);
    // By a shell they are in its environment, not in its text.
    let text = "printf '%s\\n' {text} >> shell; echo value 1 | cat";
    searched(&machine, &[&[text, "--shell", "--param", hostile], &VALUE[..]].concat());
    assert_eq!(
        std::fs::read_to_string(machine.path().join("shell")).unwrap().lines().collect::<Vec<_>>(),
        values
    );
    for made in ["x", "y", "z"] {
        assert!(!machine.path().join(made).exists(), "{made} was made: a value was run");
    }
}

#[test]
fn limits_bar_points_and_several_objectives_give_a_front() {
    let machine = Machine::new();
    script(&machine, "bench", r#"echo "{\"rps\": $(( $1 * 10 )), \"p99\": $(( $1 * $1 ))}""#);
    let what = [
        "./bench {n}",
        "--param",
        "n=1..12",
        "--metric",
        "json:/rps",
        "--maximise",
        "--also",
        "p99=json:/p99",
        "--evals",
        "50",
    ];
    let (lines, last) = searched(&machine, &[&what[..], &["--limit", "p99<50"]].concat());
    assert_eq!(last["best"], json!({"point": {"n": 7}, "value": 70.0, "numbers": {"p99": 49.0}}));
    assert_eq!(last["failed"], 5);
    let barred = lines.iter().find(|line| line["point"]["n"] == 8).unwrap();
    assert_eq!(barred["failure"], "limit: `p99<50` does not hold: p99 = 64");
    let (_, last) = searched(&machine, &[&what[..], &["--objective", "min:p99", "--name", "two"]].concat());
    // More is faster and slower: every point is on the front.
    assert_eq!(last["front"].as_array().unwrap().len(), 12);
    assert_eq!(machine.lines(&["best", "two", "--json"])[0]["front"].as_array().unwrap().len(), 12);
    assert_eq!(machine.ok(&["best", "two"]).lines().count(), 14);
}

#[test]
fn times_are_repeated_and_workers_are_only_for_what_is_no_time() {
    let machine = Machine::new();
    script(&machine, "bench", "sleep 0.0$1; echo value $1");
    let (lines, last) = searched(&machine, &["./bench {n}", "--param", "n=1,9"]);
    assert_eq!(last["best"]["point"]["n"], 1);
    assert!(lines[0]["repeats"].as_u64().unwrap() >= 2, "{lines:?}");
    let said = refused(&machine, &["./bench {n}", "--param", "n=1,2", "--workers", "2"]);
    assert!(said.contains("times would be wrong") && said.contains("a metric that is no time"), "{said}");
    // A time that the command takes itself is raced in the same way, and nothing runs beside it.
    let own = [&["./bench {n}", "--param", "n=1,9", "--is-time"], &VALUE[..]].concat();
    let (lines, _) = searched(&machine, &own);
    assert!(lines[0]["repeats"].as_u64().unwrap() >= 2 && lines[1]["repeats"] == 1, "{lines:?}");
    let said = refused(&machine, &[&own[..], &["--workers", "2"]].concat());
    assert!(said.contains("times would be wrong"), "{said}");
    let workers = ["--workers", "4", "--workdir-per-worker", "--shell", "--evals", "100"];
    let text = "pwd > where; echo value {n}";
    let (lines, last) = searched(&machine, &[&[text, "--param", "n=1..40"], &workers[..], &VALUE].concat());
    assert_eq!((lines.len(), &last["best"]["point"]["n"]), (40, &json!(1)));
}

#[test]
fn what_is_compiled_of_the_same_words_is_compiled_once_and_its_failure_is_one_points() {
    let machine = Machine::new();
    script(
        &machine,
        "cc",
        "[ $1 = 3 ] && { echo no such flag >&2; exit 1; }; echo made >> made; printf '#!/bin/sh\\necho value $(( $1 + '$1' ))\\n' > $2; chmod +x $2",
    );
    let params = ["--param", "flag=1,2,3", "--param", "n=1..5", "--evals", "100"];
    let (_, last) =
        searched(&machine, &[&["{out} {n}", "--compile", "./cc {flag} {out}"], &params[..], &VALUE].concat());
    assert_eq!(
        (&last["best"], &last["failed"]),
        (&json!({"point": {"flag": 1, "n": 1}, "value": 2.0}), &json!(5))
    );
    assert_eq!(std::fs::read_to_string(machine.path().join("made")).unwrap().lines().count(), 2);
}

#[test]
fn a_check_a_preparation_and_variables_are_part_of_a_run() {
    let machine = Machine::new();
    let commands = ["--prepare", "touch ready", "--check", "./check {n}", "--env", "N={n}", "--shell"];
    script(&machine, "check", "[ $1 != 1 ] || { echo wrong answer; exit 1; }");
    let text = "rm ready && echo value $N";
    let (lines, last) = searched(&machine, &[&[text, "--param", "n=1,2,3"], &commands[..], &VALUE].concat());
    // Said before: a parameter is used in a variable too.
    assert_eq!(last["best"], json!({"point": {"n": 2}, "value": 2.0}));
    assert_eq!(
        (&lines[0]["failure_kind"], &lines[0]["output"][0]),
        (&json!("wrong"), &json!("wrong answer"))
    );
}

#[test]
fn sizes_have_a_search_each_and_the_nearest_answers_for_others() {
    let machine = Machine::new();
    // The best tile grows with the size.
    script(&machine, "bench", "d=$(( $2 * 4 - $1 )); echo value $(( $1 + d * d ))");
    let what = [
        "./bench {m} {tile}",
        "--param",
        "tile=1..16",
        "--size",
        "m=8,16,32,64",
        "--name",
        "sized",
        "--evals",
        "30",
    ];
    let (lines, last) = searched(&machine, &[&what[..], &VALUE].concat());
    assert!(lines.iter().all(|line| line["sizes"]["m"].is_i64()));
    let bests: Vec<&Value> =
        last["bests"].as_array().unwrap().iter().map(|best| &best["best"]["point"]["tile"]).collect();
    assert_eq!(bests, [2, 4, 8, 16]);
    let best = |args: &[&str]| machine.ok(&[&["best", "sized"], args].concat());
    assert_eq!(best(&["--sizes", "m=16", "--format", "env"]), "TILE=4\n");
    let near: Value = serde_json::from_str(&best(&["--sizes", "m=35", "--json"])).unwrap();
    assert_eq!(
        (&near["exact"], &near["best"]["point"]["tile"], &near["sizes"]["m"]),
        (&json!(false), &json!(8), &json!(32))
    );
    assert!(near["expected_loss"].as_f64().unwrap() > 0.0, "{near}");
    let moe: Value = serde_json::from_str(&best(&["--format", "vllm"])).unwrap();
    assert_eq!(moe, json!({"8": {"tile": 2}, "16": {"tile": 4}, "32": {"tile": 8}, "64": {"tile": 16}}));
    assert!(best(&["--sizes", "m=64", "--format", "c-header"]).contains("#define TILE 16"));
    assert_eq!(best(&["--sizes", "m=64", "--format", "args"]), "--tile 16\n");
    assert_eq!(machine.run(&["best", "sized", "--format", "env"]).code, Some(2));
    assert!(machine.run(&["best", "nothing"]).err.contains("there are: sized"));
}

#[test]
fn every_mistake_is_named_with_what_to_do() {
    let machine = Machine::new();
    std::fs::write(machine.path().join("space.toml"), "[parameters]\na = [1, 2]\nb = { from = 9, to = 1 }\n")
        .unwrap();
    let empty = "constraints = [\n  \"a > 0\",\n  \"a > 7\",\n]\n[parameters]\na = [1, 2]\n";
    std::fs::write(machine.path().join("empty.toml"), empty).unwrap();
    for (args, part) in [
        (
            vec!["./x {blok}", "--param", "block=1,2"],
            "asks for {blok}, which is no parameter; there are: block",
        ),
        (vec!["./x", "--param", "block=1,2"], "`block` is never used"),
        (
            vec!["./x {a}", "--param", "a=1,2", "--where", "a > 7"],
            "no combination of values is left after the constraints: a > 7",
        ),
        (vec!["./x {a}", "--param", "a=1,2", "--where", "b > 7"], "`b` is no axis"),
        (vec!["./x {a}"], "there is no parameter; give --param"),
        (vec!["./x {a}", "--param", "a=8..1"], "wrong way round"),
        (vec!["./x {a}", "--param", "a=1", "--param", "a=2"], "there twice"),
        (vec!["./x {a} 'b", "--param", "a=1"], "without its end"),
        (vec!["./x {a}", "--param", "a=1", "--metric", "time"], "use wall, regex:PATTERN"),
        (vec!["./x {a}", "--param", "a=1", "--metric", "regex:("], "cannot be read"),
        (vec!["./x {a}", "--param", "a=1", "--limit", "p99<20"], "`p99` is no axis"),
        (vec!["./x {a}", "--param", "a=1", "--objective", "p99"], "is no number that is read"),
        (vec!["./x {a} {out}", "--param", "a=1"], "which --compile makes"),
        (
            vec!["no-such-program-anywhere {a}", "--param", "a=1,2"],
            "there is no program `no-such-program-anywhere`; install it",
        ),
        (
            vec!["{out}", "--param", "a=1,2", "--compile", "no-such-compiler -O{a} {out}"],
            "--compile: there is no program `no-such-compiler`",
        ),
        (vec!["./x {a} {b}", "--space", "space.toml"], "space.toml: line 3: `b` goes from 9 to 1"),
        (
            vec!["./x {a}", "--space", "empty.toml"],
            "empty.toml: line 3: no combination of values is left after the constraints: a > 0; a > 7; `a > 7` rules out",
        ),
        (vec!["./x {a}", "--space", "nowhere.toml"], "nowhere.toml cannot be read"),
        (vec!["./x {a}", "--param", "a=1", "--strategy", "magic"], "there is no strategy `magic`"),
        (vec!["./x {a}", "--param", "a=1", "--name", "../x"], "cannot be the name of a study"),
        (vec!["./x {a}", "--param", "a=1", "--env", "A"], "has no value"),
        (vec!["./x {a}", "--param", "a=1", "--size", "a=2"], "the name is taken"),
    ] {
        let said = refused(&machine, &args);
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn a_study_of_another_kind_under_the_same_name_is_not_mixed_up() {
    let machine = Machine::new();
    script(&machine, "bench", "echo value $1");
    let what = ["./bench {a}", "--param", "a=1,2,3", "--name", "mine"];
    searched(&machine, &[&what[..], &VALUE].concat());
    let said = refused(&machine, &[&what[..], &VALUE, &["--seed", "4"]].concat());
    assert!(said.contains("its seed is 0, not 4") && said.contains("--fresh"), "{said}");
    searched(&machine, &[&what[..], &VALUE, &["--seed", "4", "--fresh"]].concat());
    assert!(machine.ok(&["study", "list"]).contains("mine"));
}

#[test]
fn a_million_points_start_at_once() {
    let machine = Machine::new();
    script(&machine, "bench", "echo value 1");
    let params = ["--param", "a=1..100", "--param", "b=1..100", "--param", "c=1..100"];
    let (lines, last) =
        searched(&machine, &[&["./bench {a} {b} {c}", "--evals", "3"], &params[..], &VALUE].concat());
    assert_eq!((lines.len(), &last["ended_by"]), (3, &json!("evals")));
}
