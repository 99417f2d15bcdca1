//! What strangers may give the command: names that steer a terminal, files that never end, archives that unpack to anything, names that are
//! taken.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use support::{Ended, Machine, json as lines};
use trimtab::advanced::core::{FailureKind, is_steering};
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};
use trimtab_replay::{read_recordings, write_recordings};

/// Clears the screen, sets the title, in one byte less than ASCII needs, turns the writing around, and fakes a line.
const HOSTILE: &str = "k\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{7f}\u{202e}\nerror: all is lost\r";
const PROBLEM: &str = "transpose:f32:16x16";

/// Nothing of it reaches the terminal, and nobody fakes a line.
fn check(what: &[&str], ended: &Ended) {
    for text in [&ended.out, &ended.err] {
        let steers = |line: &str| line.contains(is_steering);
        assert!(!text.lines().any(steers), "{what:?}: {:?}", text.lines().find(|line| steers(line)));
        let faked = text.lines().any(|line| line.starts_with("error: all is lost"));
        assert!(!faked, "{what:?}: {text}");
    }
}

/// Facts under hostile names, and a failure of a kernel that is really there whose message is hostile.
fn hostile_wisdom(machine: &Machine) {
    machine.ok(&["tune", PROBLEM, "--budget", "100ms"]);
    let known = machine.lines(&["wisdom", "list", "--json"]);
    let wisdom = Wisdom::open(machine.path());
    let real = |fact: &Value, name: &str| fact[name].as_str().unwrap().to_string();
    for fact in &known {
        let key = FactKey {
            device: real(fact, "device"),
            kernel: real(fact, "kernel"),
            version: real(fact, "version"),
            problem: PROBLEM.to_string(),
            point: HOSTILE.to_string(),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Failed { kind: FailureKind::Wrong, message: HOSTILE.to_string() });
    }
    for condition in ["quiet", "live", "chosen", "explored"] {
        for (device, problem) in [(HOSTILE.to_string(), HOSTILE), (real(&known[0], "device"), PROBLEM)] {
            let key = FactKey {
                device,
                kernel: format!("{condition}{HOSTILE}"),
                version: HOSTILE.to_string(),
                problem: problem.to_string(),
                point: HOSTILE.to_string(),
                condition: condition.into(),
            };
            wisdom.record(key.clone(), Outcome::Timed(Stats::of(&[5000.0; 8]).unwrap()));
            let failed = Outcome::Failed { kind: FailureKind::Crashed, message: HOSTILE.to_string() };
            wisdom.record(FactKey { point: "x".to_string(), ..key }, failed);
        }
    }
    wisdom.flush();
}

/// A recording in which every text is hostile but its name, which is the name of a file.
fn hostile_recording(machine: &Machine) -> String {
    let ours = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data"));
    let mut recording = read_recordings(ours, &[]).unwrap().remove(0);
    recording.name = "taken".to_string();
    for text in [
        &mut recording.kernel,
        &mut recording.variant,
        &mut recording.device,
        &mut recording.device_name,
        &mut recording.api,
        &mut recording.op,
        &mut recording.origin,
    ] {
        *text = HOSTILE.to_string();
    }
    let data = machine.file("recordings");
    write_recordings(Path::new(&data), &[recording]).unwrap();
    data
}

#[test]
fn names_and_messages_from_files_steer_no_terminal_whatever_prints_them() {
    let machine = Machine::new();
    hostile_wisdom(&machine);
    let data = hostile_recording(&machine);
    let page = machine.file("page.html");
    let mut shown = 0;
    for args in [
        vec!["explain", PROBLEM, "--all"],
        vec!["explain", PROBLEM],
        vec!["stats"],
        vec!["report"],
        vec!["report", "--html", "-"],
        vec!["report", "--html", &page],
        vec!["wisdom", "list"],
        vec!["wisdom", "quarantine", "list"],
        vec!["wisdom", "compact"],
        vec!["run", PROBLEM],
        vec!["bench", PROBLEM],
        vec!["devices"],
        vec!["recording", "list", "--data", &data],
        vec!["recording", "export", "taken", "--data", &data],
        vec!["simulate", "--data", &data, "--seeds", "1", "--strategy", "auto"],
    ] {
        let ended = machine.run(&args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.err);
        check(&args, &ended);
        shown += usize::from(ended.out.contains("u{1b}") || ended.out.contains("\\u001b"));
        if args.iter().any(|arg| *arg == "--html" || *arg == "export") {
            continue;
        }
        let ended = machine.run(&[&args[..], &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{args:?} --json: {}", ended.err);
        check(&args, &ended);
        assert!(lines(&ended.out).iter().all(Value::is_object), "{args:?}");
    }
    assert!(shown >= 6, "only {shown} commands showed a hostile name at all: the test tests too little");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(!page.lines().any(|line| line.contains(is_steering)));
    // What JSON says is what is there.
    let listed = machine.lines(&["wisdom", "list", "--json"]);
    assert!(listed.iter().any(|fact| fact["problem"] == HOSTILE), "{listed:?}");
    let exported = machine.ok(&["recording", "export", "taken", "--data", &data]);
    assert_eq!(serde_json::from_str::<Value>(&exported).unwrap()["metadata"]["kernel"], HOSTILE);
}

#[test]
fn errors_that_quote_what_was_given_steer_no_terminal() {
    let machine = Machine::new();
    let data = hostile_recording(&machine);
    let file = machine.file("odd.json");
    let odd = json!({"results": [{"configuration": {HOSTILE: HOSTILE}}], "metadata": {"timeunit": HOSTILE}});
    std::fs::write(&file, odd.to_string()).unwrap();
    let constrained = json!({"results": [{"configuration": {"a": 1}, "invalidity": "compile"}],
                             "metadata": {"constraints": [HOSTILE]}});
    let constraint = machine.file("constraint.json");
    std::fs::write(&constraint, constrained.to_string()).unwrap();
    let garbage = machine.file("garbage");
    std::fs::write(&garbage, format!("{HOSTILE}\n00000000 {{\"{HOSTILE}\n")).unwrap();
    for args in [
        vec![HOSTILE],
        vec!["explain", HOSTILE],
        vec!["tune", "--op", HOSTILE],
        vec!["--device", HOSTILE, "devices"],
        vec!["explain", PROBLEM, "--kernel", HOSTILE],
        vec!["recording", "export", HOSTILE, "--data", &data],
        vec!["recording", "list", "--data", HOSTILE],
        vec!["recording", "import", &file, "--data", &data],
        vec!["recording", "import", &constraint, "--data", &data],
        vec!["recording", "import", &file, "--data", &data, "--name", HOSTILE],
        vec!["recording", "import", HOSTILE, "--data", &data],
        vec!["wisdom", "import", HOSTILE],
        vec!["wisdom", "import", &garbage],
        vec!["calibrate", "--from", &garbage],
        vec!["wisdom", "list", "--problem", HOSTILE],
    ] {
        let ended = machine.run(&args);
        assert!(matches!(ended.code, Some(1 | 2)), "{args:?}: {:?} {}", ended.code, ended.out);
        check(&args, &ended);
    }
    let ended = Ended::of(machine.command(&["devices"]).env("TRIMTAB_TUNE", HOSTILE));
    assert_eq!(ended.code, Some(2));
    check(&["TRIMTAB_TUNE"], &ended);
}

#[test]
fn pipes_and_devices_in_place_of_files_are_refused_and_not_waited_for() {
    let machine = Machine::new();
    let pipe = machine.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let data = machine.file("recordings");
    let odd = machine.file("odd");
    std::fs::create_dir(&odd).unwrap();
    assert!(Command::new("mkfifo").arg(machine.file("odd/index.json")).status().unwrap().success());
    for file in [pipe.as_str(), "/dev/zero", odd.as_str()] {
        for args in [
            vec!["recording", "import", file, "--data", &data],
            vec!["wisdom", "import", file],
            vec!["calibrate", "--from", file],
        ] {
            let ended = machine.run(&args);
            assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
            assert!(ended.err.contains("not a regular file"), "{args:?}: {}", ended.err);
        }
    }
    for args in [vec!["recording", "list", "--data", &odd], vec!["simulate", "--data", &odd]] {
        let ended = machine.run(&args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
        assert!(ended.err.contains("not a regular file"), "{args:?}: {}", ended.err);
    }
    // Standard input may be anything that ends, and has the same limit.
    let mut endless = machine.command(&["recording", "import", "-", "--data", &data]);
    let ended = Ended::of(endless.stdin(std::fs::File::open("/dev/zero").unwrap()));
    assert!(ended.code == Some(2) && ended.err.contains("at most 134217728 bytes are read"), "{}", ended.err);
}

#[test]
fn imports_without_a_name_get_names_of_their_own_and_a_name_that_is_taken_is_not_taken_away() {
    let machine = Machine::new();
    let data = machine.file("recordings");
    let result = |a: u32| json!({"configuration": {"a": a}, "times": {"runtimes": [f64::from(a)]}});
    let write = |name: &str, value: &Value| {
        std::fs::write(machine.file(name), value.to_string()).unwrap();
        machine.file(name)
    };
    let import =
        |args: &[&str]| machine.run(&[&["recording", "import", "--json", "--data", &data], args].concat());
    let mut names = Vec::new();
    for a in 1..=5 {
        let file = write("unnamed.json", &json!({"results": [result(a)]}));
        names.push(lines(&import(&[&file]).ok())[0]["space"].as_str().unwrap().to_string());
    }
    assert_eq!(names[..2], ["imported__unknown", "imported__unknown_2"]);
    let there = || read_recordings(Path::new(&data), &[]).unwrap();
    let values: Vec<u32> = there().iter().map(|recording| recording.rows[0].point.values()[0]).collect();
    assert_eq!((there().len(), values), (5, vec![1, 2, 3, 4, 5]));
    assert_eq!(there().iter().map(|recording| recording.name.clone()).collect::<Vec<_>>(), names);

    let named = write("named.json", &json!({"results": [result(6)], "metadata": {"space": "theirs"}}));
    import(&[&named]).ok();
    let other = write("other.json", &json!({"results": [result(7)], "metadata": {"space": "theirs"}}));
    for args in
        [vec![other.as_str()], vec![&other, "--name", "imported__unknown"], vec![&other, "--name", "Theirs"]]
    {
        let ended = import(&args);
        assert_eq!(ended.code, Some(2), "{}", ended.out);
        assert!(ended.err.contains("already") && ended.err.contains("--replace"), "{}", ended.err);
    }
    assert_eq!(there().len(), 6);
    assert_eq!(there()[5].rows[0].point.values()[0], 6);
    import(&[&other, "--replace"]).ok();
    assert_eq!((there().len(), there()[5].rows[0].point.values()[0]), (6, 7));
}
