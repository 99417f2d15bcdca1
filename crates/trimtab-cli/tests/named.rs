//! Kernels forbidden and forced on the command line and by the environment.

mod support;

use support::{Ended, Machine};

const PROBLEM: &str = "matmul:f32:32x32x32";

#[test]
fn a_kernel_is_forbidden_or_forced_and_explain_says_so() {
    let machine = Machine::new();
    let forbidden = ["--kernel", "-cpu.matmul.gemm", "--kernel", "-cpu.matmul.sm*"];
    let explained = machine.lines(&[&["explain", PROBLEM, "--json"], &forbidden[..]].concat()).remove(0);
    assert_eq!(explained["overruled"], "kernels");
    let notes = explained["notes"].to_string();
    let words = "`-cpu.matmul.gemm,-cpu.matmul.sm*` leaves out cpu.matmul.gemm, cpu.matmul.small";
    assert!(notes.contains(words), "{notes}");
    let shown = machine.ok(&[&["explain", PROBLEM], &forbidden[..]].concat());
    assert!(shown.contains(words) && shown.contains("overruled: forbidden by `-cpu.matmul.gemm"), "{shown}");
    let forced = ["--kernel", "cpu.matmul.blocked", "--json"];
    let tuned = machine.lines(&[&["tune", PROBLEM, "--budget", "2s"], &forced[..]].concat()).remove(0);
    let ran = machine.lines(&[&["run", PROBLEM], &forced[..]].concat()).remove(0);
    for told in [tuned, ran] {
        assert_eq!(told["kernel"], "cpu.matmul.blocked", "{told}");
    }
}

#[test]
fn an_unknown_name_is_wrong_usage_as_an_option_and_a_warning_in_the_environment() {
    let machine = Machine::new();
    for (name, words) in [
        ("-cpu.matmul.gem", "no kernel here is named `cpu.matmul.gem`; near names: cpu.matmul.gemm"),
        ("cpu.*.gemm", "`cpu.*.gemm` names no kernel"),
    ] {
        let ended = machine.run(&["explain", PROBLEM, "--kernel", name]);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    let mut command = machine.command(&["explain", PROBLEM]);
    let ended = Ended::of(command.env("TRIMTAB_KERNELS", "-cpu.matmul.gem,cpu.matmul.blocked"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("warning: no kernel here is named `cpu.matmul.gem`"), "{}", ended.err);
    assert!(ended.out.contains("cpu.matmul.blocked (tiled"), "{}", ended.out);
    let wrong = Ended::of(machine.command(&["explain", PROBLEM]).env("TRIMTAB_KERNELS", "-"));
    assert!(wrong.code == Some(2) && wrong.err.contains("-cpu.matmul.gemm to forbid"), "{}", wrong.err);
}
