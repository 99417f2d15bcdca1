//! `trimtab models` and `trimtab tune --active` as a user runs them.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;

fn command(wisdom: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    for name in ["TUNE", "MODEL", "BUDGET", "THREADS", "BLAS", "LOG"] {
        command.env_remove(format!("TRIMTAB_{name}"));
    }
    command.env("TRIMTAB_DEVICE", "cpu").env("TRIMTAB_WISDOM_DIR", wisdom.path());
    command.args(args);
    command
}

fn run(wisdom: &TempDir, args: &[&str]) -> Output {
    command(wisdom, args).output().unwrap()
}

fn text(wisdom: &TempDir, args: &[&str]) -> String {
    let output = run(wisdom, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn lines(wisdom: &TempDir, args: &[&str]) -> Vec<Value> {
    text(wisdom, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn without_measurements_it_says_what_to_do() {
    let wisdom = tempfile::tempdir().unwrap();
    let told = text(&wisdom, &["models"]);
    assert!(told.contains("trimtab tune"), "{told}");
    assert!(lines(&wisdom, &["models", "--json"]).is_empty());
    assert_eq!(run(&wisdom, &["models", "--op", "matmull"]).status.code(), Some(2));
    for wrong in [
        &["tune", "--active", "--op", "nobody"][..],
        &["tune", "--active", "matmul:f32:2x2x2"],
        &["calibrate-shapes", "--op", "nobody"],
        &["calibrate-shapes", "matmul:f32:2x2x2"],
        &["calibrate-shapes", "--exhaustive"],
    ] {
        assert_eq!(run(&wisdom, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn an_unknown_model_is_an_error_that_lists_the_known_ones() {
    let wisdom = tempfile::tempdir().unwrap();
    let output = command(&wisdom, &["models"]).env("TRIMTAB_MODEL", "clever").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("TRIMTAB_MODEL") && told.contains("clever"), "{told}");
    assert!(told.contains("auto, default, linear, tree, forest, extra, mlp, svm, nearest"), "{told}");
}

#[test]
fn every_kind_is_judged_on_what_was_tuned_and_drawn() {
    let wisdom = tempfile::tempdir().unwrap();
    let sizes = ["2x3x4", "4x4x4", "5x6x7", "8x8x8", "9x4x16", "16x16x16", "3x20x5", "24x24x24", "32x8x8"];
    let problems = sizes.map(|sizes| format!("matmul:f32:{sizes}"));
    let mut args = vec!["tune", "--budget", "3s", "--json"];
    args.extend(problems.iter().map(String::as_str));
    let tuned = lines(&wisdom, &args);
    assert!(tuned.iter().all(|tuned| tuned.as_object().unwrap().contains_key("expected_loss")), "{tuned:?}");
    let drawn = wisdom.path().join("models.svg");
    let plot = ["models", "--op", "matmul", "--json", "--plot", drawn.to_str().unwrap()];
    let judged = lines(&wisdom, &plot);
    let names: Vec<&str> = judged.iter().map(|judged| judged["model"].as_str().unwrap()).collect();
    for name in ["default", "linear", "tree", "forest", "mlp", "svm", "nearest"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for judged in &judged {
        let number = |key: &str| judged[key].as_f64().unwrap();
        assert!(number("geomean") >= 1.0 && number("p95") >= 1.0, "{judged}");
        assert!((0.0..=1.0).contains(&number("accuracy")) && number("problems") == 9.0, "{judged}");
        assert!(number("predict_ns") > 0.0 && judged["used"] == false, "{judged}");
    }
    let svg = std::fs::read_to_string(drawn).unwrap();
    assert_eq!(svg.matches("<polyline").count(), names.len());
    // Of other operations nothing is known.
    assert!(text(&wisdom, &["models", "--op", "reduce"]).contains("nothing was measured"));
}

#[test]
fn active_tuning_ends_with_its_budget_and_says_how_far_it_came() {
    let wisdom = tempfile::tempdir().unwrap();
    let told =
        lines(&wisdom, &["tune", "--active", "--op", "elementwise.add", "--budget", "400ms", "--json"]);
    let reached = told.last().unwrap();
    assert_eq!(reached["measured"].as_u64().unwrap() as usize, told.len() - 1);
    assert!(told.len() > 1 && reached["problems"].as_u64().unwrap() > 0, "{reached}");
    assert!(["budget", "enough"].contains(&reached["ended"].as_str().unwrap()), "{reached}");
    let explained = &lines(&wisdom, &["explain", "elementwise.add:f32:5000", "--json"])[0];
    assert!(explained.as_object().unwrap().contains_key("expected_loss"), "{explained}");
}

#[test]
fn calibrating_shapes_is_active_tuning_and_says_what_ended_it() {
    let wisdom = tempfile::tempdir().unwrap();
    let told = text(&wisdom, &["calibrate-shapes", "--op", "transpose", "--budget", "300ms"]);
    let ends = ["because the budget is spent", "because that is under 2"];
    assert!(ends.iter().any(|end| told.contains(end)), "{told}");
    assert!(told.contains("problems like transpose:f32:"), "{told}");
    // What was measured counts for the next time, whatever it is called.
    let again = lines(&wisdom, &["tune", "--active", "--op", "transpose", "--budget", "200ms", "--json"]);
    let reached = again.last().unwrap();
    assert!(reached["problems"].as_u64().unwrap() > reached["measured"].as_u64().unwrap(), "{reached}");
}
