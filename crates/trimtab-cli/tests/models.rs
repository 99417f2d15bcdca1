//! `trimtab models` and `trimtab tune --active` as a user runs them.

mod support;

use support::Machine;

#[test]
fn without_measurements_it_says_what_to_do() {
    let wisdom = Machine::new();
    let told = wisdom.ok(&["models"]);
    assert!(told.contains("trimtab tune"), "{told}");
    assert_eq!(wisdom.run(&["models", "--json"]).ok(), "");
    assert_eq!(wisdom.run(&["models", "--op", "matmull"]).code, Some(2));
    for wrong in [
        &["tune", "--active", "--op", "nobody"][..],
        &["tune", "--active", "matmul:f32:2x2x2"],
        &["calibrate-shapes", "--op", "nobody"],
        &["calibrate-shapes", "matmul:f32:2x2x2"],
        &["calibrate-shapes", "--exhaustive"],
    ] {
        assert_eq!(wisdom.run(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn an_unknown_model_is_an_error_that_lists_the_known_ones() {
    let machine = Machine::new();
    let output = machine.command(&["models"]).env("TRIMTAB_MODEL", "clever").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("TRIMTAB_MODEL") && told.contains("clever"), "{told}");
    assert!(told.contains("auto, default, linear, tree, forest, extra, mlp, svm, nearest"), "{told}");
}

#[test]
fn every_kind_is_judged_on_what_was_tuned_and_drawn() {
    let wisdom = Machine::new();
    // Twice as many as are needed: a problem of whose rivals the race dropped all that others know is not judged.
    let sizes = ["2x3x4", "4x4x4", "5x6x7", "8x8x8", "9x4x16", "16x16x16", "3x20x5", "24x24x24", "32x8x8"];
    let longer = ["12x12x12", "7x31x9", "20x6x40", "28x28x28", "1x64x64", "40x24x8", "10x50x10", "36x36x36"];
    let problems: Vec<String> =
        sizes.iter().chain(&longer).map(|sizes| format!("matmul:f32:{sizes}")).collect();
    let mut args = vec!["tune", "--budget", "5s", "--json"];
    args.extend(problems.iter().map(String::as_str));
    let tuned = wisdom.lines(&args);
    assert!(tuned.iter().all(|tuned| tuned.as_object().unwrap().contains_key("expected_loss")), "{tuned:?}");
    let drawn = wisdom.path().join("models.svg");
    let plot = ["models", "--op", "matmul", "--json", "--plot", drawn.to_str().unwrap()];
    let judged = wisdom.lines(&plot);
    let names: Vec<&str> = judged.iter().map(|judged| judged["model"].as_str().unwrap()).collect();
    for name in ["default", "linear", "tree", "forest", "mlp", "svm", "nearest"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for judged in &judged {
        let number = |key: &str| judged[key].as_f64().unwrap();
        assert!(number("geomean") >= 1.0 && number("p95") >= 1.0, "{judged}");
        assert!(
            (0.0..=1.0).contains(&number("accuracy")) && (8.0..=17.0).contains(&number("problems")),
            "{judged}"
        );
        assert!(number("predict_ns") > 0.0 && judged["used"] == false, "{judged}");
    }
    let svg = std::fs::read_to_string(drawn).unwrap();
    assert_eq!(svg.matches("<polyline").count(), names.len());
    // Of other operations nothing is known.
    assert!(wisdom.ok(&["models", "--op", "reduce"]).contains("nothing was measured"));
}

#[test]
fn active_tuning_ends_with_its_budget_and_says_how_far_it_came() {
    let wisdom = Machine::new();
    let told = wisdom.lines(&["tune", "--active", "--op", "elementwise.add", "--budget", "400ms", "--json"]);
    let reached = told.last().unwrap();
    assert_eq!(reached["measured"].as_u64().unwrap() as usize, told.len() - 1);
    assert!(told.len() > 1 && reached["problems"].as_u64().unwrap() > 0, "{reached}");
    assert!(["budget", "enough"].contains(&reached["ended"].as_str().unwrap()), "{reached}");
    let explained = &wisdom.lines(&["explain", "elementwise.add:f32:5000", "--json"])[0];
    assert!(explained.as_object().unwrap().contains_key("expected_loss"), "{explained}");
}

#[test]
fn calibrating_shapes_is_active_tuning_and_says_what_ended_it() {
    let wisdom = Machine::new();
    let told = wisdom.ok(&["calibrate-shapes", "--op", "transpose", "--budget", "300ms"]);
    let ends = ["because the budget is spent", "because that is under 2"];
    assert!(ends.iter().any(|end| told.contains(end)), "{told}");
    assert!(told.contains("problems like transpose:f32:"), "{told}");
    // What was measured counts for the next time, whatever it is called.
    let again = wisdom.lines(&["tune", "--active", "--op", "transpose", "--budget", "200ms", "--json"]);
    let reached = again.last().unwrap();
    assert!(reached["problems"].as_u64().unwrap() > reached["measured"].as_u64().unwrap(), "{reached}");
}
