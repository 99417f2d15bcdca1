//! The real binary as a user runs it, each test with wisdom of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use expect_test::expect;
use std::path::Path;
use support::{Ended, Machine};
use trimtab::advanced::wisdom::{Filter, Outcome, Stats, Wisdom};

const SMALL: &str = "matmul:f32:8x8x8";
const OTHER: &str = "matmul:f64:5x6x7";

fn tune(machine: &Machine, problem: &str) -> serde_json::Value {
    machine.lines(&["tune", problem, "--budget", "30s", "--json"]).remove(0)
}

/// Runs of digits as one `#`, with the fraction: times differ between runs, words do not.
fn normalised(text: &str) -> String {
    let mut result = String::new();
    for c in text.chars() {
        let digit = c.is_ascii_digit() || c == '.';
        if !digit {
            result.push(c);
        } else if !result.ends_with('#') {
            result.push('#');
        }
    }
    result
}

fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn help_lists_commands_environment_and_problems() {
    let help = Machine::new().ok(&["--help"]);
    for part in
        ["devices", "tune", "explain", "bench", "wisdom", "run", "matmul:f32:512x256x128", "Exit codes"]
    {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
    for (name, _) in trimtab::VARIABLES {
        assert!(help.contains(name), "{name} is missing in\n{help}");
    }
    for command in ["devices", "tune", "explain", "bench", "wisdom", "run"] {
        let help = Machine::new().ok(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
}

#[test]
fn a_wrong_problem_says_what_is_right_and_exits_with_2() {
    let outcome = Machine::new().run(&["explain", "gemm:f32:1x1x1"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""));
    expect![[r#"
        error: `gemm:f32:1x1x1` is not a problem: `gemm` is not an operation; use one of: matmul, elementwise, reduce, transpose, conv, pool, rows, attention, scan, sort, arg, cast, fft, fused, gather, scatter, mask, concat, put, custom; write for example matmul:f32:512x512x512 (m x n x k), elementwise.add:f32:1024x1024,1024, reduce.sum:f32:64x1024:axis1 or transpose:f32:512x256
    "#]]
    .assert_eq(&outcome.err);
    for command in ["tune", "bench", "run"] {
        assert_eq!(Machine::new().run(&[command, "matmul:f32:1x1"]).code, Some(2), "{command}");
    }
}

#[test]
fn a_wrong_environment_value_lists_the_right_ones_and_exits_with_2() {
    let machine = Machine::new();
    let outcome = Ended::of(machine.command(&["explain", SMALL]).env("TRIMTAB_TUNE", "fast"));
    assert_eq!(outcome.code, Some(2));
    expect![[r#"
        error: TRIMTAB_TUNE=`fast` is not understood; use one of: off (also 0, false), estimate, measure, exhaustive; or a search strategy: auto, model, hill, evolve, anneal, halving (also race), natural, random, sweep
    "#]]
    .assert_eq(&outcome.err);
}

#[test]
fn wrong_options_exit_with_2_and_say_what_to_give() {
    for (args, part) in [
        (vec!["--tune", "fast", "devices"], "off (also 0, false), estimate, measure, exhaustive"),
        (vec!["--device", "gpu7", "devices"], "there are: auto, cpu"),
        (vec!["--threads", "0", "devices"], "1..="),
        (vec!["tune", "--budget", "soon"], "30s"),
        (vec!["tune", "--strategy", "guess"], "auto, model, hill"),
        (vec!["tune", "--evals", "0"], "1.."),
        (vec!["tune", "--good-enough", "1.5"], "0.9 or 90%"),
        (vec!["tune", "--exhaustive", "--evals", "3"], "--exhaustive"),
        (vec!["tune", "--tune", "off", "--strategy", "hill"], "leave out --tune off"),
        (vec!["tune", "--op", "convolve"], "matmul, elementwise, reduce, transpose"),
        (vec!["wisdom", "forget"], "--all"),
        (vec!["wisdom", "import", "/dev/null"], "not a regular file"),
        (vec!["explain", "custom.sort:9"], "Choice::explain"),
        (vec!["run", "custom.sort:9"], "program"),
        (vec!["wisdom"], "Usage"),
    ] {
        let outcome = Machine::new().run(&args);
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.err);
        assert!(outcome.err.contains(part), "{args:?}: {}", outcome.err);
        assert_eq!(outcome.out, "", "{args:?}");
    }
}

#[test]
fn explaining_an_unmeasured_problem_says_so_and_measures_nothing() {
    let machine = Machine::new();
    let text = machine.ok(&["explain", SMALL]);
    assert!(text.contains("nothing measured yet; the first call will race"), "{text}");
    assert!(text.contains("What would change it: "), "{text}");
    assert!(machine.lines(&["wisdom", "list", "--json"]).is_empty());
}

#[test]
fn explain_as_json_has_the_promised_keys() {
    let machine = Machine::new();
    let explained = machine.lines(&["explain", SMALL, "--json"]).remove(0);
    for key in
        ["problem", "device", "kernel", "point", "estimate", "rivals", "reason", "complete", "notes", "terms"]
    {
        assert!(keys(&explained).contains(&key), "{key} is missing in {explained}");
    }
    for key in ["ns", "basis", "n", "spread_log2"] {
        assert!(keys(&explained["estimate"]).contains(&key), "{key} is missing in {}", explained["estimate"]);
    }
    assert_eq!((&explained["problem"], &explained["device"]), (&SMALL.into(), &"cpu".into()));
    let rivals = explained["rivals"].as_array().unwrap();
    assert!(rivals.len() >= 3);
    for rival in rivals {
        for key in ["kernel", "point", "version", "class"] {
            assert!(keys(rival).contains(&key), "{key} is missing in {rival}");
        }
        assert!(keys(rival).contains(&"estimate") != keys(rival).contains(&"declined"), "{rival}");
    }
    assert!(
        rivals.iter().any(|rival| rival["kernel"] == "cpu.matmul.matvec" && rival["declined"].is_string())
    );
    let all = machine.lines(&["explain", SMALL, "--json", "--all"]).remove(0);
    assert!(all["rivals"].as_array().unwrap().len() > rivals.len());
}

#[test]
fn explain_says_what_a_tolerance_opens_and_what_it_would() {
    let (machine, conv) = (Machine::new(), "conv:f32:1x16x20x20,16x16x3x3:pad1");
    let closed = machine.ok(&["explain", conv]);
    let kept_out = "cpu.conv.winograd is kept out: may be off by";
    assert!(closed.contains(kept_out), "{closed}");
    // What it says, said again, opens it.
    let rest = &closed[closed.find(kept_out).unwrap() + kept_out.len()..];
    let least = rest.split_whitespace().next().unwrap();
    let notes = |args: &[&str]| machine.lines(args).remove(0)["notes"].to_string();
    let opened = notes(&["explain", conv, "--tolerance", least, "--json"]);
    assert!(opened.contains("cpu.conv.winograd is opened by the tolerance"), "{opened}");
    let closed = notes(&["explain", conv, "--tolerance", "1e-9", "--json"]);
    assert!(closed.contains("tolerance 1e-9"), "{closed}");
}

#[test]
fn what_tune_chose_is_what_explain_shows() {
    let machine = Machine::new();
    let tuned = tune(&machine, SMALL);
    let explained = machine.lines(&["explain", SMALL, "--json"]).remove(0);
    assert_eq!((&explained["kernel"], &explained["point"]), (&tuned["kernel"], &tuned["point"]));
    assert_eq!(explained["reason"], "remembered");
    assert_eq!(explained["estimate"]["basis"], "measured");
}

#[test]
fn mode_off_explains_the_default_where_nothing_is_measured() {
    let machine = Machine::new();
    let explained = machine.lines(&["explain", SMALL, "--json", "--tune", "off"]).remove(0);
    let ran = machine.lines(&["run", SMALL, "--json", "--tune", "off"]).remove(0);
    assert_eq!(explained["reason"], "default order");
    assert_eq!((&explained["kernel"], &explained["point"]), (&ran["kernel"], &ran["point"]));
}

#[test]
fn tuning_twice_measures_nothing_the_second_time_and_chooses_the_same() {
    let machine = Machine::new();
    let first = tune(&machine, SMALL);
    for key in ["problem", "kernel", "point", "ns", "vs_default", "measured", "complete", "reason"] {
        assert!(keys(&first).contains(&key), "{key} is missing in {first}");
    }
    assert!(first["measured"].as_u64().unwrap() > 0);
    assert!(first["vs_default"].as_f64().unwrap() > 0.0);
    let second = tune(&machine, SMALL);
    assert_eq!(second["measured"], 0);
    assert_eq!(second["reason"], "remembered");
    assert_eq!((&second["kernel"], &second["point"]), (&first["kernel"], &first["point"]));
}

#[test]
fn settings_can_be_searched_by_a_named_strategy_within_so_many_evaluations() {
    let machine = Machine::new();
    let ask = ["tune", SMALL, "--budget", "30s", "--strategy", "race", "--evals", "6", "--json"];
    let first = machine.lines(&ask).remove(0);
    assert_eq!(first["strategy"], "halving");
    let points = first["evaluations"].as_u64().unwrap();
    assert!((1..=6).contains(&points) && first["space"].as_u64().unwrap() > 6, "{first}");
    let second = machine.lines(&ask).remove(0);
    assert_eq!((&second["measured"], &second["evaluations"]), (&0.into(), &0.into()));
    let explained = machine.ok(&["explain", SMALL]);
    assert!(explained.contains("searched by `halving`, at most 6 points measured"), "{explained}");
    let text = machine.ok(&["tune", SMALL, "--tune", "natural", "--evals", "9"]);
    assert!(text.contains("settings of 1 problem searched by natural: "), "{text}");
}

#[test]
fn tune_shows_a_table_and_where_it_is_remembered() {
    let machine = Machine::new();
    tune(&machine, SMALL);
    let text = machine.ok(&["tune", SMALL]);
    let kernel = tune(&machine, SMALL)["kernel"].as_str().unwrap().to_string();
    let text = text.replace(&machine.path().display().to_string(), "DIR").replace(&kernel, "KERNEL");
    // Whether others used the machine meanwhile is told, and not this test's to say.
    let is_told = |line: &&str| !line.starts_with('─') && !line.contains("provisional: ");
    let lines: Vec<String> = text.lines().filter(is_told).map(normalised).collect();
    // The columns' widths and the kernel's settings depend on the machine.
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "problem kernel point time vs default points runs reason"
    );
    assert!(
        lines[1].starts_with("matmul:f#:#x#x#  KERNEL") && lines[1].ends_with("#  remembered"),
        "{}",
        lines[1]
    );
    expect![[r##"
        # problem, nothing measured in # UNIT: #× as fast as the default (geometric mean of # problem)
        remembered in DIR"##]]
    .assert_eq(&lines[3..].join("\n").replace("# ms:", "# UNIT:").replace("# µs:", "# UNIT:"));
}

#[test]
fn wisdom_goes_round_by_export_import_and_forget() {
    let (here, there) = (Machine::new(), Machine::new());
    let tuned = tune(&here, SMALL);
    tune(&here, OTHER);
    let facts = here.lines(&["wisdom", "list", "--json"]);
    assert!(facts.iter().any(|fact| fact["kernel"] == tuned["kernel"] && fact["n"].as_u64().unwrap() > 0));
    for key in ["device", "kernel", "version", "problem", "point", "condition", "n", "min_ns", "mean_ns"] {
        assert!(keys(&facts[0]).contains(&key), "{key} is missing in {}", facts[0]);
    }
    let file = there.path().with_extension("exported");
    let file_text = file.display().to_string();
    here.ok(&["wisdom", "export", &file_text]);
    let printed = here.ok(&["wisdom", "export", "--problem", SMALL]);
    assert!(printed.contains(SMALL) && !printed.contains(OTHER));

    let dry = there.ok(&["wisdom", "import", &file_text]);
    assert!(dry.contains("Dry run, nothing changed") && dry.contains(SMALL), "{dry}");
    assert!(there.lines(&["wisdom", "list", "--json"]).is_empty());
    let committed = there.lines(&["wisdom", "import", &file_text, "--commit", "--json"]).remove(0);
    assert_eq!((&committed["committed"], &committed["rejected"]), (&true.into(), &0.into()));
    assert_eq!(committed["changes"].as_array().unwrap().len(), 2);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(there.lines(&["wisdom", "list", "--json"]).len(), facts.len());
    assert_eq!(tune(&there, SMALL)["measured"], 0);

    let forgotten = there.lines(&["wisdom", "forget", "--problem", SMALL, "--json"]).remove(0);
    assert!(forgotten["forgotten"].as_u64().unwrap() > 0);
    let left = there.lines(&["wisdom", "list", "--json"]);
    assert!(!left.is_empty() && left.iter().all(|fact| fact["problem"] == OTHER));
    assert!(there.lines(&["wisdom", "list", "--json", "--device", "elsewhere"]).is_empty());
    assert_eq!(there.lines(&["wisdom", "list", "--json", "--device", "cpu"]).len(), left.len());
    assert!(there.ok(&["wisdom", "forget", "--all"]).starts_with("forgot "));
    assert!(there.lines(&["wisdom", "list", "--json"]).is_empty());
    assert_eq!(
        there.ok(&["wisdom", "forget", "--all"]),
        "nothing matched; `trimtab wisdom list` shows what there is\n"
    );
}

#[test]
fn a_bad_line_is_rejected_alone_and_told() {
    let (here, there) = (Machine::new(), Machine::new());
    tune(&here, SMALL);
    let text = here.ok(&["wisdom", "export"]);
    let spoiled: Vec<&str> = text.lines().chain(["not wisdom at all"]).collect();
    let file = there.path().with_extension("spoiled");
    std::fs::write(&file, spoiled.join("\n")).unwrap();
    let outcome = there.run(&["wisdom", "import", &file.display().to_string(), "--commit", "--json"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome.err.starts_with(&format!("warning: line {} was not taken: ", spoiled.len())),
        "{}",
        outcome.err
    );
    let report: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(report["rejected"], 1);
    assert_eq!(report["new"].as_u64().unwrap() as usize, text.lines().count() - 1);
}

#[test]
fn the_wisdom_path_is_printed_alone_and_options_win_over_the_environment() {
    let (machine, other) = (Machine::new(), Machine::new());
    assert_eq!(machine.ok(&["wisdom", "path"]), format!("{}\n", machine.path().display()));
    let dir = other.path().display().to_string();
    assert_eq!(machine.ok(&["wisdom", "path", "--wisdom-dir", &dir]), format!("{dir}\n"));
    let off = machine.run(&["wisdom", "path", "--wisdom-dir", "Off"]);
    assert_eq!((off.code, off.out.as_str()), (Some(1), ""));
}

#[test]
fn compacting_keeps_the_facts() {
    let machine = Machine::new();
    tune(&machine, SMALL);
    tune(&machine, OTHER);
    let before = machine.lines(&["wisdom", "list", "--json"]);
    let report = machine.lines(&["wisdom", "compact", "--json"]).remove(0);
    assert!(report["segments_merged"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(machine.lines(&["wisdom", "list", "--json"]).len(), before.len());
}

#[test]
fn run_checks_the_result_against_the_reference() {
    let machine = Machine::new();
    for problem in [SMALL, OTHER, "matmul:f32:0x3x2", "matmul:f64:3x4x5x6:t,ns"] {
        let ran = machine.lines(&["run", problem, "--json"]).remove(0);
        assert_eq!(ran["agrees"], true, "{ran}");
        assert!(ran["first_ns"].as_u64().unwrap() > 0);
    }
    let text = machine.ok(&["run", SMALL]);
    assert!(text.contains("agrees with the reference within 4.8e-7"), "{text}");
}

#[test]
fn a_problem_that_does_not_fit_in_memory_is_refused_not_tried() {
    for command in ["run", "bench"] {
        let outcome = Machine::new().run(&[command, "matmul:f32:900000x900000x1"]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.err);
        assert!(outcome.err.starts_with("error: matmul:f32:900000x900000x1 "), "{}", outcome.err);
    }
}

#[test]
fn bench_measures_every_rival_and_marks_the_chosen_one() {
    let machine = Machine::new();
    tune(&machine, SMALL);
    let bench = machine.lines(&["bench", SMALL, "--rounds", "3", "--json"]).remove(0);
    let rivals = bench["rivals"].as_array().unwrap();
    assert!(rivals.len() >= 3);
    assert_eq!(rivals[0]["vs_best"], 1.0);
    assert!(
        rivals.iter().all(|rival| rival["samples"] == 3 && rival["gflops"].as_f64().unwrap() > 0.0),
        "{bench}"
    );
    assert_eq!(rivals.iter().filter(|rival| rival["chosen"] == true).count(), 1);
    assert!(bench["out"].as_array().unwrap().iter().any(|out| out["kernel"] == "cpu.matmul.matvec"));
    let text = machine.ok(&["bench", SMALL, "--rounds", "2"]);
    assert!(text.contains("\n▶ cpu.matmul.") && text.contains("GFLOP/s"), "{text}");
}

#[test]
fn devices_show_facts_speeds_and_kernels() {
    let machine = Machine::new();
    let device = machine.lines(&["devices", "--json"]).remove(0);
    for key in
        ["id", "name", "fingerprint", "threads", "caches", "features", "state", "rates", "kernels", "blas"]
    {
        assert!(keys(&device).contains(&key), "{key} is missing in {device}");
    }
    assert!(device["rates"]["gb_per_s_one_thread"].as_f64().unwrap() > 0.0);
    let kernels = device["kernels"].as_array().unwrap();
    assert!(kernels.iter().any(|kernel| kernel["class"] == "reference"));
    let text = machine.ok(&["devices"]);
    assert!(text.starts_with("cpu: ") && text.contains("  matmul "), "{text}");
    assert!(text.lines().count() < 60 && !text.contains("cpu.matmul.reference"), "{text}");
    let text = machine.ok(&["devices", "-v"]);
    assert!(text.starts_with("cpu: ") && text.contains("cpu.matmul.reference"), "{text}");
}

#[test]
fn a_cap_on_threads_keeps_plans_apart() {
    let machine = Machine::new();
    let problem = "matmul:f32:96x96x96";
    let capped = machine.lines(&["tune", problem, "--threads", "1", "--json"]).remove(0);
    assert_ne!(capped["point"]["threads"], 2);
    let explained = machine.lines(&["explain", problem, "--threads", "1", "--json", "--all"]).remove(0);
    assert!(
        explained["rivals"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r.get("estimate").is_none() || r["threads"] == 1)
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let machine = Machine::new();
    tune(&machine, SMALL);
    for args in [vec!["wisdom", "list", "--json"], vec!["explain", SMALL, "--all"], vec!["--help"]] {
        let mut child = machine
            .command(&args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let outcome = Ended::from(child.wait_with_output().unwrap());
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_a_warning_and_the_answer_still_comes() {
    let machine = Machine::new();
    let file = machine.path().join("a-file");
    std::fs::write(&file, "in the way").unwrap();
    let outcome =
        machine.run(&["run", SMALL, "--wisdom-dir", &Path::new(&file).join("below").display().to_string()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    assert!(outcome.err.starts_with("warning: "), "{}", outcome.err);
    assert!(outcome.out.contains("agrees with the reference"));
}

#[test]
fn one_sample_has_no_spread() {
    let dir = Machine::new();
    let bench = dir.lines(&["bench", "matmul:f32:32x32x32", "--rounds", "1", "--json"]).remove(0);
    for rival in bench["rivals"].as_array().unwrap() {
        assert!(rival["samples"] != 1 || rival["spread_log2"].is_null(), "{rival}");
    }
    assert!(!dir.ok(&["bench", "matmul:f32:32x32x32", "--rounds", "1"]).contains('±'));
}

#[test]
fn an_imported_time_no_device_can_reach_is_marked_and_does_not_decide() {
    let dir = Machine::new();
    let problem = "matmul:f32:256x256x256";
    dir.ok(&["tune", problem, "--budget", "20s"]);
    let winner = dir.lines(&["explain", problem, "--json"]).remove(0);
    // A loser of the race is said to take a nanosecond.
    let known = Wisdom::open(dir.path()).all_facts();
    let loser = known.iter().find(|fact| fact.key.kernel != winner["kernel"].as_str().unwrap()).unwrap();
    let elsewhere = Wisdom::in_memory();
    elsewhere.record(loser.key.clone(), Outcome::Timed(Stats::single(1.0)));
    let other = Machine::new();
    let file = other.file("facts");
    std::fs::write(&file, elsewhere.export(&Filter::everything())).unwrap();
    let report = other.lines(&["wisdom", "import", &file, "--commit", "--json"]).remove(0);
    assert_eq!(report["changes"][0]["implausible"], true, "{report}");
    let explained = other.lines(&["explain", problem, "--all", "--tune", "estimate", "--json"]).remove(0);
    assert!(explained["estimate"]["ns"].as_u64().unwrap() > 1_000, "{explained}");
    let rival =
        explained["rivals"].as_array().unwrap().iter().find(|rival| rival["implausible_ns"] == 1).unwrap();
    assert_eq!(rival["kernel"], loser.key.kernel, "{rival}");
}
