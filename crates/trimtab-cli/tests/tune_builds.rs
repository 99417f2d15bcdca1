//! What is compiled for points: again when anything it is made of changed, else once, also by later processes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use support::{Ended, Machine, json};

fn write(machine: &Machine, name: &str, text: &str) {
    std::fs::write(machine.path().join(name), text).unwrap();
}

/// A compiler whose program prints what `value.h` holds, and that notes every call. Where there is a file `off` it makes nothing.
fn compiler(machine: &Machine) {
    let text = "#!/bin/sh\n[ -e off ] && exit 0\necho made >> made\nprintf '#!/bin/sh\\necho value %s\\n' \"$(cat value.h)\" > $2\nchmod +x $2\n";
    write(machine, "cc", text);
    std::fs::set_permissions(machine.path().join("cc"), std::fs::Permissions::from_mode(0o755)).unwrap();
    write(machine, "main.c", "#include \"middle.h\"\n");
    write(machine, "middle.h", "#include \"value.h\"\n");
    write(machine, "value.h", "7");
}

/// Calls of that compiler.
fn made(machine: &Machine) -> usize {
    std::fs::read_to_string(machine.path().join("made")).unwrap_or_default().lines().count()
}

/// The values of a search of so many points, one after the other.
fn values(machine: &Machine, compile: &[&str], evals: &str) -> Vec<f64> {
    let args = ["tune-command", "{out} {n}", "--param", "n=1..9", "--metric", "regex:value (.+)"];
    let more = ["--name", "built", "--evals", evals, "--json"];
    let mut command = machine.command(&[&args[..], &more, compile].concat());
    let lines = json(&Ended::of(command.current_dir(machine.path())).ok());
    lines.iter().filter_map(|line| line["value"].as_f64()).collect()
}

#[test]
fn a_header_that_is_edited_is_compiled_again_and_one_that_is_not_is_not() {
    for compile in
        [&["--compile", "./cc main.c {out}"][..], &["--shell", "--compile", "true && ./cc main.c {out}"]]
    {
        let machine = Machine::new();
        compiler(&machine);
        assert_eq!(values(&machine, compile, "2"), [7.0; 2]);
        // A later process finds what this one made.
        assert_eq!((values(&machine, compile, "3"), made(&machine)), (vec![7.0; 3], 1));
        write(&machine, "value.h", "5");
        assert_eq!(values(&machine, compile, "5"), [7.0, 7.0, 7.0, 5.0, 5.0], "{compile:?}");
        assert_eq!(made(&machine), 2);
        write(&machine, "value.h", "4");
        assert_eq!(values(&machine, &[compile, &["--fresh"]].concat(), "2"), [4.0; 2]);
    }
}

#[test]
fn what_compiling_depends_on_can_be_said() {
    let machine = Machine::new();
    compiler(&machine);
    // Names no source: only --depends tells what it reads.
    let compile = ["--compile", "./cc all {out}", "--depends", "main.c"];
    assert_eq!(values(&machine, &compile, "1"), [7.0]);
    assert_eq!((values(&machine, &compile, "2"), made(&machine)), (vec![7.0; 2], 1));
    write(&machine, "value.h", "6");
    assert_eq!(values(&machine, &compile, "3"), [7.0, 7.0, 6.0]);
}

#[test]
fn where_it_is_not_known_what_compiling_depends_on_every_process_compiles_once() {
    let machine = Machine::new();
    compiler(&machine);
    let compile = ["--compile", "./cc all {out}"];
    assert_eq!((values(&machine, &compile, "2"), made(&machine)), (vec![7.0; 2], 1));
    write(&machine, "value.h", "3");
    assert_eq!((values(&machine, &compile, "4"), made(&machine)), (vec![7.0, 7.0, 3.0, 3.0], 2));
}

#[test]
fn what_compiling_writes_beside_its_result_does_not_lose_it() {
    let machine = Machine::new();
    compiler(&machine);
    // `parts` is named, and is another after each call.
    let compile = ["--shell", "--compile", "./cc main.c {out} && cat made > parts && test -s parts"];
    assert_eq!(values(&machine, &compile, "4"), [7.0; 4]);
    assert_eq!(made(&machine), 1);
}

#[test]
fn fresh_forgets_what_was_compiled() {
    let machine = Machine::new();
    compiler(&machine);
    let compile = ["--compile", "./cc main.c {out}"];
    assert_eq!(values(&machine, &compile, "2"), [7.0; 2]);
    assert_eq!(values(&machine, &[&compile[..], &["--fresh"]].concat(), "2"), [7.0; 2]);
    assert_eq!(made(&machine), 2);
}

#[test]
fn half_of_a_result_that_a_killed_compiler_left_is_none() {
    let machine = Machine::new();
    compiler(&machine);
    assert_eq!(values(&machine, &["--compile", "./cc main.c {out}"], "1"), [7.0]);
    let built = machine.path().join("studies/built/built");
    let done = std::fs::read_dir(&built).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(&done, done.with_extension("unfinished")).unwrap();
    // From now on the compiler makes nothing, and says that all is well.
    write(&machine, "off", "");
    let args =
        ["tune-command", "{out} {n}", "--param", "n=1..9", "--metric", "regex:value (.+)", "--name", "built"];
    let mut command =
        machine.command(&[&args[..], &["--compile", "./cc main.c {out}", "--evals", "2", "--json"]].concat());
    let lines = json(&Ended::of(command.current_dir(machine.path())).ok());
    assert_eq!(lines[1]["failure_kind"], "compile", "{lines:?}");
}

#[test]
fn a_header_of_a_kernel_in_a_file_is_part_of_it() {
    let machine = Machine::new();
    let space = "[parameters]\nstep = [1, 2]\n[sizes]\nn = 100\n[kernel]\nentry = \"twice\"\n\
         [[arguments]]\nname = \"out\"\ntype = \"f32\"\nshape = \"n\"\noutput = true\n\
         [[arguments]]\nname = \"n\"\ntype = \"i32\"\nvalue = \"n\"\n[reference]\nkernel = \"plain.c\"\n";
    write(&machine, "space.toml", space);
    write(&machine, "twice.c", "#include \"twice.h\"\n");
    // The parameter is used in the header alone.
    let header = "static const float by = 2;\nvoid twice(float *out, int n) { for (int s = 0; s < step; s++) for (int i = s; i < n; i += step) out[i] = by * i; }\n";
    write(&machine, "twice.h", header);
    write(
        &machine,
        "plain.c",
        "#include \"plain.h\"\nvoid plain(float *out, int n) { for (int i = 0; i < n; i++) out[i] = by * i; }\n",
    );
    write(&machine, "plain.h", "static const float by = 2;\n");
    let search = |more: &[&str]| {
        let args = ["tune", "twice.c", "--space", "space.toml", "--name", "t", "--json", "--repeats", "1"];
        let ended = Ended::of(machine.command(&[&args[..], more].concat()).current_dir(machine.path()));
        (json(&ended.out), ended)
    };
    let failed = |lines: &[Value]| lines.last().unwrap()["failed"].as_u64();
    let (lines, ended) = search(&[]);
    assert_eq!(failed(&lines), Some(0), "{}{}", ended.out, ended.err);
    write(&machine, "twice.h", &header.replace("by = 2", "by = 3"));
    let (_, ended) = search(&[]);
    assert!(
        ended.code == Some(2) && ended.err.contains("about something else"),
        "{}{}",
        ended.out,
        ended.err
    );
    let (lines, _) = search(&["--fresh"]);
    assert_eq!(failed(&lines), Some(2), "{lines:?}");
    // And one of the reference, whose results are kept too.
    write(&machine, "plain.h", "static const float by = 3;\n");
    let (lines, _) = search(&["--name", "t2"]);
    assert_eq!(failed(&lines), Some(0), "{lines:?}");
    write(&machine, "plain.h", "static const float by = 4;\n");
    let (lines, _) = search(&["--name", "t2", "--fresh"]);
    assert_eq!(failed(&lines), Some(2), "{lines:?}");
}
