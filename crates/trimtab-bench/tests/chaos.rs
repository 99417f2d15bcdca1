//! A small run of `cargo xtask chaos`: whatever goes wrong, nothing panics, hangs, is forgotten, or is run into again.
#![expect(clippy::unwrap_used, reason = "a run that does not end in a line of JSON has failed")]

use serde_json::Value;

fn chaos(options: &[&str]) -> Value {
    let mut command = trimtab_testing::command(env!("CARGO_BIN_EXE_trimtab-bench"));
    let output = command.arg("chaos").arg("--json").args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn sixty_faults_and_a_few_kills_cost_no_process_no_fact_and_no_healthy_point() {
    let counts = chaos(&["--faults", "60", "--kills", "3", "--seed", "7"]);
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("injected") >= 60 && count("survived") > 0, "{counts:#}");
    for name in
        ["panics", "lost", "stuck", "errors", "not_loaded", "lost_by_kills", "barred", "suspects_by_ctrl_c"]
    {
        assert_eq!(count(name), 0, "{name}: {counts:#}");
    }
    assert_eq!((count("kills"), count("loads")), (6, 6), "{counts:#}");
    // Every kernel that says itself that it fails is answered for by another.
    for kind in ["error", "memory", "loss", "panic"] {
        assert_eq!(counts["by_kind"][kind]["wrong"].as_u64().unwrap_or(0), 0, "{kind}: {counts:#}");
    }
}
