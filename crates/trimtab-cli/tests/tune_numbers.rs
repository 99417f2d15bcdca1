//! Numbers of `trimtab tune-command`: files with one, numbers that never come, budgets, workers, values whatever they hold, answers for
//! serving engines.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use support::{Ended, Machine, json};

fn run(machine: &Machine, args: &[&str]) -> Ended {
    let mut command = machine.command(&[&["tune-command"], args].concat());
    Ended::of(command.current_dir(machine.path()))
}

/// The lines of a search, and the last line.
fn searched(machine: &Machine, args: &[&str]) -> (Vec<Value>, Value) {
    let ended = run(machine, &[args, &["--json"]].concat());
    assert!(matches!(ended.code, Some(0 | 1)), "{}{}", ended.out, ended.err);
    let mut lines = json(&ended.out);
    let last = lines.pop().unwrap();
    (lines, last)
}

fn read(machine: &Machine, name: &str) -> String {
    std::fs::read_to_string(machine.path().join(name)).unwrap()
}

const SHELL: &str = "--shell";

#[test]
fn a_number_is_read_from_a_file_and_never_the_one_of_another_run() {
    let machine = Machine::new();
    // The odd ones write nothing, and end well.
    let bench = "[ $(($1 % 2)) = 1 ] || echo $1 > out.txt; echo $(($1 * 2)) > more.txt\n";
    std::fs::write(machine.path().join("bench"), bench).unwrap();
    let args =
        ["sh bench {n}", "--param", "n=1..6", "--metric", "file:out.txt", "--also", "more=file:more.txt"];
    let (lines, last) = searched(&machine, &args);
    assert_eq!(last["best"], json!({"point": {"n": 2}, "value": 2.0, "numbers": {"more": 4.0}}));
    assert_eq!((&last["evaluations"], &last["failed"]), (&json!(6), &json!(3)));
    for line in lines.iter().filter(|line| line["point"]["n"].as_i64().unwrap() % 2 == 1) {
        assert_eq!(line["failure"], "metric: the run did not write out.txt", "{line}");
    }
    // Nor one that was there before.
    std::fs::write(machine.path().join("out.txt"), "0.1").unwrap();
    let (_, last) = searched(&machine, &[&args[..], &["--fresh"]].concat());
    assert_eq!(last["best"]["value"], 2.0);
}

#[test]
fn a_file_that_cannot_be_removed_is_no_metric() {
    let machine = Machine::new();
    let ended = run(&machine, &["true {n}", "--param", "n=1,2", "--metric", "file:/"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(
        ended.err.contains("cannot be removed before a run") && ended.err.contains("Name a file"),
        "{}",
        ended.err
    );
}

#[test]
fn workers_never_share_a_file_with_a_number() {
    let machine = Machine::new();
    let args = ["echo {n} > out.txt", SHELL, "--param", "n=1..30", "--workers", "3", "--evals", "30"];
    let with = |metric: &str, more: &[&str]| [&args[..], &["--metric", metric], more].concat().join("\u{1}");
    let of = |joined: String| run(&machine, &joined.split('\u{1}').collect::<Vec<_>>());
    let ended = of(with("file:out.txt", &[]));
    assert!(ended.code == Some(2) && ended.err.contains("add --workdir-per-worker"), "{}", ended.err);
    let ended = of(with("regex:.+", &["--also", "b=file:out.txt"]));
    assert!(ended.code == Some(2) && ended.err.contains("add --workdir-per-worker"), "{}", ended.err);
    let absolute = format!("file:{}", machine.file("out.txt"));
    let ended = of(with(&absolute, &["--workdir-per-worker"]));
    assert!(ended.code == Some(2) && ended.err.contains("relative to their directories"), "{}", ended.err);
    // In directories of their own every point has its own number.
    let ended = of(with("file:out.txt", &["--workdir-per-worker", "--json"]));
    let lines = json(&ended.out);
    assert_eq!(lines.len(), 31, "{}", ended.err);
    for line in &lines[..30] {
        assert_eq!(line["value"].as_f64(), line["point"]["n"].as_f64(), "{line}");
    }
}

#[test]
fn directories_of_workers_differ_and_each_worker_stays_in_its_own() {
    let machine = Machine::new();
    // Who begins waits until there are three: then three are at it at once.
    let text = "echo {worker} >> mine; pwd >> ../../../all; i=0; \
                while [ $(sort -u ../../../all | wc -l) -lt 3 ] && [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.01; done; echo value {n}";
    let more = ["--workers", "3", "--workdir-per-worker", "--metric", "regex:value (.+)", "--name", "dirs"];
    let (lines, _) = searched(&machine, &[&[text, SHELL, "--param", "n=1..9"][..], &more].concat());
    assert_eq!(lines.len(), 9);
    let mut all: Vec<String> = read(&machine, "all").lines().map(str::to_string).collect();
    all.sort();
    all.dedup();
    let place = std::fs::canonicalize(machine.path().join("studies/dirs")).unwrap();
    let dirs: Vec<String> =
        (0..3).map(|at| place.join(format!("worker-{at}")).display().to_string()).collect();
    assert_eq!(all, dirs);
    for (at, dir) in dirs.iter().enumerate() {
        let mine = std::fs::read_to_string(format!("{dir}/mine")).unwrap();
        assert!(mine.lines().all(|worker| worker == at.to_string()), "{dir}: {mine}");
    }
}

#[test]
fn a_number_that_never_comes_is_said_early_and_ends_the_search_in_the_end() {
    let machine = Machine::new();
    let args = ["echo took {n} ms; echo done", SHELL, "--param", "n=1..200", "--evals", "200"];
    let ended = run(&machine, &[&args[..], &["--metric", "regex:time: (.+)", "--json"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let lines = json(&ended.out);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["ended_by"], &last["evaluations"], &last["best"]),
        (&json!("metric"), &json!(25), &json!(null))
    );
    // Once, after three, with what was written and what to do.
    for part in [
        "3 points ran without the number asked for (--metric 'regex:time: (.+)')",
        "took ",
        "done",
        "regex:'time: ([0-9.]+)'",
    ] {
        assert_eq!(ended.err.matches(part).count(), 1, "{part}: {}", ended.err);
    }
    // Fewer points than that end as they would, and it is said too; for people, with the reason at the end.
    let few = ["true {n}", "--param", "n=1,2", "--metric", "json:/ms", "--also", "p99=file:p99"];
    let ended = run(&machine, &few);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    for part in [
        "2 points ran without the number asked for (--metric 'json:/ms', --also 'p99=file:p99')",
        "it wrote nothing",
        "json:/results/0/ms",
        "written anew",
    ] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert!(ended.out.contains("nothing ran: at n="), "{}", ended.out);
}

#[test]
fn a_number_that_comes_once_ends_nothing() {
    let machine = Machine::new();
    // The default is the first.
    std::fs::write(
        machine.path().join("space.toml"),
        "[parameters]\nn = { from = 1, to = 60, default = 2 }\n",
    )
    .unwrap();
    let mixed = ["if [ {n} = 2 ]; then echo value 5; fi", SHELL, "--space", "space.toml"];
    let ended = run(&machine, &[&mixed[..], &["--metric", "regex:value (.+)", "--json"]].concat());
    let last = json(&ended.out).pop().unwrap();
    assert_eq!((&last["best"]["point"]["n"], &last["evaluations"]), (&json!(2), &json!(60)));
    assert!(!ended.err.contains("without the number"), "{}", ended.err);
    assert_eq!(
        (ended.code, &last["failed"]),
        (Some(0), &json!(59)),
        "a best was found, whatever failed on the way"
    );
}

#[test]
fn a_budget_ends_a_search_and_counts_what_earlier_processes_spent() {
    let machine = Machine::new();
    let args = ["sleep 0.02; echo value {n}", SHELL, "--param", "n=1..60000", "--metric", "regex:value (.+)"];
    let with = |budget| searched(&machine, &[&args[..], &["--budget", budget, "--name", "b"]].concat());
    let (first, last) = with("300ms");
    assert_eq!(last["ended_by"], "budget");
    assert!(!first.is_empty() && first.len() < 20, "{}", first.len());
    let (again, last) = with("300ms");
    assert_eq!(last["ended_by"], "budget");
    assert!(again.len() <= first.len() + 1, "nothing is left of it: {} and {}", first.len(), again.len());
    let (more, _) = with("700ms");
    assert!(more.len() > again.len());
}

/// Values that would do something wherever a shell read them.
const HOSTILE: [&str; 5] =
    ["a b;touch x", "$(touch x)`touch x`", "'\"\\*?~|&>x", "two\nlines\ntouch x", "-n --"];

#[test]
fn values_reach_every_command_and_variable_as_they_are() {
    let machine = Machine::new();
    // A text of JSON is one of TOML.
    let space = format!("[parameters]\ntext = {}\n", json!(HOSTILE));
    std::fs::write(machine.path().join("space.toml"), space).unwrap();
    let note = "printf '%s\\0' \"$2\" >> \"$1\"; printf '%s\\0' \"$V\" >> v; [ -z \"$3\" ] || : > \"$3\"; echo value 1\n";
    std::fs::write(machine.path().join("note"), note).unwrap();
    let plain = [
        "sh note run {text}",
        "--compile",
        "sh note compile {text} {out}",
        "--prepare",
        "sh note prepare {text}",
        "--check",
        "sh note check {text}",
    ];
    // In a shell's text they stand in and out of quotes.
    let shell = [
        "sh note run {text}",
        "--compile",
        "sh note compile \"{text}\" {out}",
        "--prepare",
        "sh note prepare '{text}'",
        "--check",
        "true; sh note check ''{text}\"\"",
        "--shell",
    ];
    for commands in [&plain[..], &shell[..]] {
        let more = [
            "--env",
            "V={text}",
            "--space",
            "space.toml",
            "--metric",
            "regex:value (.+)",
            "--strategy",
            "sweep",
        ];
        let (lines, last) = searched(&machine, &[commands, &more].concat());
        assert_eq!((&last["evaluations"], &last["failed"]), (&json!(5), &json!(0)), "{lines:?}");
        for role in ["compile", "prepare", "run", "check"] {
            let seen = read(&machine, role);
            let mut seen: Vec<&str> = seen.split_terminator('\0').collect();
            seen.sort_unstable();
            let mut all = HOSTILE;
            all.sort_unstable();
            assert_eq!(seen, all, "{role} of {commands:?}");
            std::fs::remove_file(machine.path().join(role)).unwrap();
        }
        let variables = read(&machine, "v");
        assert!(variables.split_terminator('\0').all(|value| HOSTILE.contains(&value)), "{variables}");
        assert_eq!(variables.split_terminator('\0').count(), 20);
        std::fs::remove_file(machine.path().join("v")).unwrap();
        assert!(!machine.path().join("x").exists(), "a value was run by {commands:?}");
    }
}

#[test]
fn serving_engines_get_their_keys_by_batch_size() {
    let machine = Machine::new();
    let names = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"];
    let values = ["16,32,64", "32,64", "64,128", "1,16", "4,8", "2,3"];
    let params: Vec<String> =
        names.iter().zip(values).map(|(name, values)| format!("{name}={values}")).collect();
    let holes: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
    // The larger the batch, the larger the best block.
    let command = format!(
        "sh -c 'd=$(( $1 - $2 )); [ $d -lt 0 ] && d=$(( 0 - d )); echo value $(( 1 + d + $3 + $4 + $5 + $6 + $7 ))' bench {{batch}} {}",
        holes.join(" ")
    );
    let mut args = vec![
        command.as_str(),
        "--size",
        "batch=16,32,64",
        "--name",
        "moe",
        "--evals",
        "96",
        "--metric",
        "regex:value (.+)",
    ];
    params.iter().for_each(|param| args.extend(["--param", param.as_str()]));
    searched(&machine, &args);
    let of = |format: &str| -> Value {
        serde_json::from_str(&machine.ok(&["best", "moe", "--format", format])).unwrap()
    };
    let vllm = of("vllm");
    for batch in ["16", "32", "64"] {
        let keys: Vec<&String> = vllm[batch].as_object().unwrap().keys().collect();
        assert!(names.iter().all(|name| keys.contains(&&name.to_string())) && keys.len() == 6, "{keys:?}");
        assert_eq!(vllm[batch]["BLOCK_SIZE_M"].to_string(), batch);
        assert!(vllm[batch].as_object().unwrap().values().all(Value::is_u64), "{vllm}");
    }
    assert_eq!(
        vllm["16"],
        json!({"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 2})
    );
    assert_eq!(of("sglang"), vllm);
}
