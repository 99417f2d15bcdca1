//! `trimtab report` as a user runs it: what is missing is said, the page is whole and safe, and every form says the same.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Ended, Machine};
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};

/// Anything a kernel, a device or a problem may be called.
const ODD: &str = "x\"'><script>alert(1)</script>&amp;]]>\u{7}\u{202e}ü";

/// Times of live calls under odd names: regret, exploration and most used kernels speak of them.
fn odd_wisdom(dir: &Path) {
    let wisdom = Wisdom::open(dir);
    let problem = "matmul:f32:8x8x8";
    let facts: [(&str, &str, &[f64]); 4] = [
        ("own", "live", &[125.0; 8]),
        ("own", "chosen", &[125.0; 4]),
        ("other", "explored", &[100.0; 3]),
        ("own", "quiet", &[120.0; 3]),
    ];
    for (kernel, condition, samples) in facts {
        let key = FactKey {
            device: ODD.to_string(),
            kernel: format!("{kernel} {ODD}"),
            problem: problem.to_string(),
            condition: condition.into(),
            ..FactKey::default()
        };
        wisdom.record(key, Outcome::Timed(Stats::of(samples).unwrap()));
    }
    wisdom.flush();
}

/// Every tag is closed in order and every text is escaped; the names of the elements, in order.
fn elements(page: &str) -> Vec<&str> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let (mut open, mut seen): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    while let Some(start) = rest.find('<') {
        let words = &rest[..start];
        // A style sheet is not text.
        if open.last() != Some(&"style") {
            assert!(!words.contains('>'), "{words}");
            for (at, _) in words.match_indices('&') {
                let end = words[at..].find(';').unwrap_or_else(|| unreachable!("{words}"));
                assert!(
                    ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&&words[at..=at + end]),
                    "{words}"
                );
            }
        }
        // Values are escaped, so that the next one ends the tag.
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed where another is open");
        } else {
            let name = tag.split([' ', '/']).next().unwrap();
            seen.push(name);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} are never closed");
    seen
}

/// The page is whole, needs nothing from outside and runs nothing.
fn check(page: &str) {
    let elements = elements(page);
    for unwanted in ["script", "link", "iframe", "img", "object", "embed", "base", "form", "foreignObject"] {
        assert!(!elements.contains(&unwanted), "{unwanted}");
    }
    for unwanted in ["http:", "https:", "src=", "url(", "@import", "javascript:", " on", "xlink"] {
        let tags = page.split('<').filter_map(|part| part.split('>').next());
        let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
        let within = tags.filter(|tag| tag.contains(unwanted)).collect::<Vec<_>>();
        // Values may say anything: only names of attributes count for `on…`.
        let is_value =
            |tag: &&str| unwanted == " on" && !tag.split('"').step_by(2).any(|name| name.starts_with(" on"));
        assert!(within.iter().all(is_value), "{unwanted} in {within:?}");
        assert!(unwanted == " on" || !style.contains(unwanted), "{unwanted} in the style");
    }
    for link in page.split("href=\"").skip(1) {
        let anchor = link.split('"').next().unwrap();
        let id = anchor.strip_prefix('#').unwrap_or_else(|| unreachable!("{anchor} leads outside"));
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{anchor}");
    }
    for section in [
        "speed",
        "trouble",
        "devices",
        "crossovers",
        "calibration",
        "rules",
        "decisions",
        "quality",
        "wisdom",
    ] {
        assert!(page.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
    // Each drawing says in words what it shows.
    let drawings = elements.iter().filter(|name| **name == "svg").count();
    assert!(elements.iter().filter(|name| **name == "desc").count() == drawings);
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn with_one_device_and_nothing_measured_that_is_said_with_the_command_to_run() {
    let dir = Machine::new();
    let text = dir.ok(&["report"]);
    assert!(text.contains("There is one device only, cpu"), "{text}");
    assert!(text.contains("Nothing is measured yet; `trimtab tune`"), "{text}");
    for heading in
        ["Devices", "What a call costs", "Which device", "Decisions", "How good choices were", "Wisdom"]
    {
        assert!(text.contains(&format!("\n{heading}\n═")), "{heading}: {text}");
    }
    let view = dir.lines(&["report", "--json"]).remove(0);
    assert_eq!((&view["choice"], &view["calibrated"]), (&false.into(), &false.into()));
    assert_eq!((&view["advice"], view["devices"].as_array().unwrap().len()), (&"trimtab tune".into(), 1));
    let names =
        ["version", "made_ms", "unusable", "thresholds", "offload", "decisions_left_out", "stats", "wisdom"];
    for name in names {
        assert!(!view[name].is_null(), "{name}");
    }
    let decisions = view["decisions"].as_array().unwrap();
    assert!(decisions.len() >= 80);
    for decision in decisions {
        assert_eq!((&decision["device"], &decision["other"]), (&"cpu".into(), &Value::Null), "{decision}");
        assert!(
            decision["measured_ns"].is_null() && decision["processor"]["estimate"]["ns"].as_u64() > Some(0)
        );
    }
    for row in view["calibration"].as_array().unwrap() {
        assert_eq!((&row["origin"], &row["device"]), (&"built-in".into(), &"cpu".into()), "{row}");
        assert!(row["after"]["unit_ns"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn what_was_measured_is_among_the_decisions() {
    let dir = Machine::new();
    dir.ok(&["tune", "matmul:f32:37x41x43", "--budget", "5s"]);
    let view = dir.lines(&["report", "--json"]).remove(0);
    let decisions = view["decisions"].as_array().unwrap();
    let found = decisions.iter().find(|decision| decision["problem"] == "matmul:f32:37x41x43").unwrap();
    assert_eq!((&found["why"], &found["reason"]), (&"measured".into(), &"remembered".into()), "{found}");
    assert_eq!(found["processor"]["estimate"]["basis"], "measured");
    assert!(found["measured_ns"].as_f64().unwrap() > 0.0, "{found}");
    assert!(
        view["wisdom"]["bytes"].as_u64().unwrap() > 0 && view["wisdom"]["verdicts"] == 1,
        "{}",
        view["wisdom"]
    );
    assert_eq!(view["wisdom"]["dir"], dir.path().to_str().unwrap());
    let stats = dir.lines(&["stats", "--json"]).remove(0);
    for same in ["facts", "verdicts", "regret", "kernels", "explored", "drifted"] {
        assert_eq!(view["stats"][same], stats[same], "{same}");
    }
    assert!(dir.ok(&["report"]).contains("matmul:f32:37x41x43"));
}

#[test]
fn the_page_is_whole_and_says_odd_names_as_words() {
    let dir = Machine::new();
    let file = dir.path().join("a & b.html");
    odd_wisdom(dir.path());
    let said = dir.ok(&["report", "--html", file.to_str().unwrap()]);
    assert!(said.contains("a & b.html"), "{said}");
    let page = std::fs::read_to_string(&file).unwrap();
    check(&page);
    assert!(
        page.contains("own x&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;]]&gt;\\u{7}"),
        "{page}"
    );
    assert!(page.contains("class=\"bar\"") && page.contains("1.25×"), "regret is drawn");
    assert!(page.contains("3 calls tried another kernel"));
    // The same on standard output, and beside JSON.
    let shown = dir.ok(&["report", "--html", "-"]);
    assert!(shown.starts_with("<!DOCTYPE html>") && shown.ends_with("</html>\n"));
    let both = dir.ok(&["report", "--json", "--html", file.to_str().unwrap()]);
    assert!(serde_json::from_str::<Value>(&both).is_ok());
    let output = dir.run(&["report", "--json", "--html", "-"]);
    assert_eq!(output.code, Some(2));
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_and_leaves_what_was_there() {
    let dir = Machine::new();
    let nowhere = dir.path().join("nowhere").join("report.html");
    let output = dir.run(&["report", "--html", nowhere.to_str().unwrap()]);
    let error = output.err;
    assert_eq!(output.code, Some(1), "{error}");
    assert!(error.contains("nowhere") && error.contains("could not be written"), "{error}");
    let output = dir.run(&["report", "--html", dir.path().to_str().unwrap()]);
    let error = output.err;
    assert_eq!((output.code, error.contains("is a directory")), (Some(2), true), "{error}");
    // Written anew over an old one, with nothing left beside it.
    let pages = tempfile::tempdir().unwrap();
    let file = pages.path().join("report.html");
    std::fs::write(&file, "old").unwrap();
    dir.ok(&["report", "--html", file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(std::fs::read_dir(pages.path()).unwrap().count(), 1);
}

/// Needs an adapter and fails without; `cargo xtask test` installs Mesa's.
#[cfg(feature = "wgpu")]
mod two_devices {
    use super::*;

    fn report(dir: &Machine) -> Value {
        dir.lines(&["report", "--json"]).remove(0)
    }

    fn row<'a>(view: &'a Value, class: &str, device: &str) -> &'a Value {
        let rows = view["calibration"].as_array().unwrap();
        rows.iter().find(|row| row["class"] == class && row["device"] == device).unwrap()
    }

    fn threshold<'a>(view: &'a Value, class: &str) -> &'a Value {
        view["thresholds"].as_array().unwrap().iter().find(|row| row["class"] == class).unwrap()
    }

    /// A GPU that overtakes the processor at a hundred thousand elements, and one that never does.
    fn calibrate(dir: &Machine) {
        let entry = |category: &str, device: &str, size: u64, ns: u64| {
            let shapes =
                if category == "unary" { format!("[[{size}]]") } else { format!("[[{size}], [{size}]]") };
            format!(
                r#"{{"category": "{category}", "input_shapes": {shapes}, "mean_time_ns": {ns}, "device": "{device}"}}"#
            )
        };
        let mut entries = Vec::new();
        for size in (10..=24).step_by(2).map(|power| 1u64 << power) {
            // Slow enough to be believed of every device, also while others use the machine.
            entries.push(entry("elementwise", "cpu", size, 200 + 20 * size));
            entries.push(entry("elementwise", "gpu0", size, 1_800_000 + 2 * size));
            entries.push(entry("unary", "cpu", size, 200 + 20 * size));
            entries.push(entry("unary", "gpu0", size, 1_800_000 + 40 * size));
        }
        let file = dir.path().join("profile.json");
        std::fs::write(&file, format!("[{}]", entries.join(","))).unwrap();
        dir.ok(&["calibrate", "--from", file.to_str().unwrap(), "--commit"]);
    }

    #[test]
    fn without_a_calibration_the_model_is_shown_and_the_command_that_measures() {
        let dir = Machine::with_gpus();
        let view = report(&dir);
        assert_eq!((&view["choice"], &view["calibrated"]), (&true.into(), &false.into()));
        assert_eq!(view["advice"], "trimtab calibrate");
        for device in ["cpu", "gpu0"] {
            let row = row(&view, "matmul", device);
            assert_eq!((&row["origin"], &row["samples"]), (&"built-in".into(), &0.into()), "{row}");
        }
        let gpu = view["devices"].as_array().unwrap().iter().find(|device| device["id"] == "gpu0").unwrap();
        for way in ["upload", "download"] {
            assert!(
                gpu[way]["latency_ns"].as_u64() > Some(0) && gpu[way]["gb_s"].as_f64() > Some(0.0),
                "{gpu}"
            );
        }
        let text = dir.ok(&["report"]);
        assert!(text.contains("Nothing is calibrated") && text.contains("`trimtab calibrate`"), "{text}");
        let page = dir.ok(&["report", "--html", "-"]);
        check(&page);
        assert!(page.contains("expected, not measured"));
    }

    #[test]
    fn a_calibration_is_shown_with_what_was_before_and_where_devices_cross() {
        let dir = Machine::with_gpus();
        calibrate(&dir);
        let view = report(&dir);
        assert_eq!(view["calibrated"], true);
        let gpu = row(&view, "elementwise", "gpu0");
        assert_eq!((&gpu["origin"], &gpu["before_from"]), (&"imported".into(), &"built-in".into()), "{gpu}");
        let (before, after) =
            (gpu["before"]["unit_ns"].as_f64().unwrap(), gpu["after"]["unit_ns"].as_f64().unwrap());
        assert!(
            (gpu["ratio"].as_f64().unwrap() - after / before).abs() < 1e-9 && (after - 2.0).abs() < 0.2,
            "{gpu}"
        );
        let at = &threshold(&view, "elementwise")["crossovers"][0][1];
        assert_eq!(
            (&at["kind"], threshold(&view, "elementwise")["source"].as_str()),
            (&"at".into(), Some("calibrated"))
        );
        let (low, size, high) = (at["low"].as_u64(), at["size"].as_u64().unwrap(), at["high"].as_u64());
        assert!(low <= Some(size) && Some(size) <= high && (90_000..110_000).contains(&size), "{at}");
        assert_eq!(threshold(&view, "unary")["crossovers"][0][1]["tried_to"], 1 << 24);
        assert_eq!(row(&view, "matmul", "gpu0")["origin"], "built-in", "not in the file");
        let page = dir.ok(&["report", "--html", "-"]);
        check(&page);
        assert!(page.contains("gpu0 is never faster, tried up to 16.8 M elements"));
        assert!(page.contains("class=\"band\"") && page.contains("id=\"plot-decisions-title\""));
        // What decides is what is reported.
        let decisions = view["decisions"].as_array().unwrap();
        let of = |problem: &str| decisions.iter().find(|decision| decision["problem"] == problem).unwrap();
        assert_eq!(of("elementwise.add:f32:16777216")["device"], "gpu0");
        assert_eq!(of("elementwise.add:f32:256")["device"], "cpu");
    }

    #[test]
    fn rules_of_the_user_are_named_as_what_decides() {
        let dir = Machine::with_gpus();
        calibrate(&dir);
        let mut asked = dir.command(&["report", "--json"]);
        asked
            .env("TRIMTAB_THRESHOLD_ALL", "5000")
            .env("TRIMTAB_THRESHOLD_MATMUL", "7000")
            .env("TRIMTAB_SMALL_BATCH", "4");
        let view: Value = serde_json::from_str(&Ended::of(&mut asked).ok()).unwrap();
        let row_there = row(&view, "elementwise", "gpu0");
        assert_eq!(
            (&row_there["origin"], &row_there["times_from"]),
            (&"override".into(), &"imported".into())
        );
        for (class, size, variable) in [("elementwise", 5000, "ALL"), ("matmul", 7000, "MATMUL")] {
            let row = threshold(&view, class);
            assert_eq!((&row["source"], &row["size"]), (&"set".into(), &size.into()), "{row}");
            assert_eq!(row["variable"], format!("TRIMTAB_THRESHOLD_{variable}"));
        }
        assert_eq!(view["offload"]["small_batch"], 4);
        let whys: Vec<&str> =
            view["decisions"].as_array().unwrap().iter().filter_map(|d| d["why"].as_str()).collect();
        assert!(whys.contains(&"threshold"), "{whys:?}");
        let mut off = dir.command(&["report"]);
        let text = Ended::of(off.env("TRIMTAB_OFFLOAD", "off")).ok();
        assert!(text.contains("Offload is off") && text.contains("disabled"), "{text}");
    }
}
