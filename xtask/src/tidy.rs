//! The rules no compiler checks: dependency direction, file length, opening sentences, banned calls and words, unsafe where
//! allowed; names, paths and paragraphs in `tree`, the public face in `facade`, README and docs in `book`.

mod book;
mod facade;
mod tree;

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files may not be longer; split at a seam instead.
const MAX_LINES: usize = 600;

/// Crates by level: a crate depends only on crates of lower levels (ARCHITECTURE.md, Crates).
const LEVELS: [(&str, u32); 20] = [
    ("trimtab-core", 0),
    ("trimtab-ptx", 0),
    ("trimtab-sources", 0),
    ("trimtab-model", 1),
    ("trimtab-tune", 1),
    ("trimtab-wisdom", 1),
    ("trimtab-operands", 1),
    ("trimtab-standin-cuda", 1),
    ("trimtab-cuda", 2),
    ("trimtab-replay", 2),
    ("trimtab-wgpu", 2),
    ("trimtab-plan", 2),
    ("trimtab-cpu", 2),
    ("trimtab-study", 2),
    ("trimtab", 3),
    ("trimtab-kernelfile", 3),
    ("trimtab-testing", 3),
    ("trimtab-cli", 4),
    ("trimtab-bench", 4),
    ("trimtab-py", 5),
];

/// Crates that may use `unsafe`: those that talk to hardware, foreign libraries or NumPy; the benchmark counts allocations.
const UNSAFE_ALLOWED: [&str; 7] = [
    "trimtab-cpu",
    "trimtab-wgpu",
    "trimtab-cuda",
    "trimtab-standin-cuda",
    "trimtab-kernelfile",
    "trimtab-bench",
    "trimtab-py",
];

/// For tests, and for what is measured beside them: nothing that is published may need it.
const FOR_TESTS: &str = "trimtab-testing";

/// What may be called in one place only, apart from tests: (text, crate that may).
const ONE_PLACE: [(&str, &str); 4] = [
    ("Instant::now", "trimtab-tune"),
    ("SystemTime::now", "trimtab-wisdom"),
    ("env::var", "trimtab"),
    ("std::fs::", "trimtab-wisdom"),
];

/// Crates below the command that may read files of the operating system.
const FILES_ALLOWED: [&str; 8] = [
    "trimtab-wisdom",
    "trimtab-cpu",
    "trimtab-replay",
    "trimtab-study",
    "trimtab-kernelfile",
    "trimtab-cli",
    "trimtab-bench",
    "trimtab-sources",
];

/// Single files that read or write files: those the caller names, and the processor time of a thread.
const FILE_ALLOWED: [&str; 2] = ["crates/trimtab/src/npy.rs", "crates/trimtab-tune/src/threads.rs"];

/// Words that may not stand in a crate, or in any (""): the field has better ones, and the planner asks a device's facts what it is
/// like, not what it is.
const BANNED_WORDS: [(&str, &str, &str); 4] = [
    ("trimtab-plan", "devicekind", "the facts' habits"),
    ("", "handover", "transfer overhead"),
    ("", "outpaced", "dominated"),
    ("", "lessons", "training table"),
];

/// Names that say nothing.
const BANNED_NAMES: [&str; 4] = ["utils.rs", "common.rs", "types.rs", "helpers.rs"];

pub fn check(root: &Path) -> Result<()> {
    let (mut problems, mut types) = (Vec::new(), tree::Types::default());
    let mut files = 0;
    for (krate, level) in LEVELS {
        let dir = root.join("crates").join(krate);
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml"))
            .with_context(|| format!("{krate} has a manifest"))?;
        dependencies(&manifest, krate, level, &mut problems);
        for file in rust_files(&dir)? {
            files += 1;
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            source(krate, &shown, &text, &mut problems);
            if shown.starts_with(&format!("crates/{krate}/src/")) && krate != FOR_TESTS {
                types.note(&shown, &text, &mut problems);
            }
        }
    }
    types.check(&mut problems);
    facade::check(&root.join("crates/trimtab/src"), &mut problems);
    let listed: BTreeSet<String> =
        tree::files(root)?.into_iter().filter(|shown| root.join(shown).exists()).collect();
    for shown in &listed {
        // It may be no text.
        let Ok(text) = std::fs::read_to_string(root.join(shown)) else { continue };
        tree::machine_paths(shown, &text, &mut problems);
        if shown == "ARCHITECTURE.md" || shown == "README.md" {
            tree::paragraphs(shown, &text, &mut problems);
        }
    }
    let pages = book::pages(root, &listed, crate::HELP);
    pages.check(&mut problems);
    let listed = std::fs::read_dir(root.join("crates"))?;
    for entry in listed.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !LEVELS.iter().any(|(krate, _)| *krate == name) {
            problems.push(format!("crates/{name} has no level; give it one in xtask/src/tidy.rs"));
        }
    }
    if problems.is_empty() {
        println!("tidy: {files} files and {} pages in order", pages.texts.len() - 1);
        return Ok(());
    }
    bail!("tidy found {} problems:\n  {}", problems.len(), problems.join("\n  "));
}

/// Only downwards, never sideways.
fn dependencies(manifest: &str, krate: &str, level: u32, problems: &mut Vec<String>) {
    let mut in_dependencies = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line == "[dependencies]";
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let Some((_, other)) = LEVELS.iter().find(|(known, _)| *known == name) else { continue };
        if in_dependencies && name == FOR_TESTS && krate != "trimtab-bench" {
            problems.push(format!("{krate} depends on {FOR_TESTS}: that is for [dev-dependencies]"));
        } else if in_dependencies && *other >= level {
            problems
                .push(format!("{krate} (level {level}) depends on {name} (level {other}): only downwards"));
        }
    }
}

fn source(krate: &str, shown: &str, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{shown} has {lines} lines, limit {MAX_LINES}: is there a seam?"));
    }
    if !text.starts_with("//!") {
        problems.push(format!("{shown} does not open with a //! sentence"));
    }
    if BANNED_NAMES.iter().any(|name| shown.ends_with(&format!("/{name}"))) {
        problems.push(format!("{shown}: the name says nothing"));
    }
    let is_source = !shown.contains("/tests/") && !shown.contains("/examples/");
    for (number, line) in text.lines().enumerate().filter(|_| is_source) {
        for (home, word, instead) in BANNED_WORDS {
            if (home.is_empty() || home == krate) && line.to_lowercase().contains(word) {
                problems.push(format!("{shown}:{}: not `{word}` but {instead}", number + 1));
            }
        }
    }
    // Tests may do what they need to set up a machine.
    let is_test = !is_source || shown.ends_with("tests.rs") || krate == FOR_TESTS;
    if is_test {
        return;
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    for (number, line) in code.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("//") {
            continue;
        }
        let at = format!("{shown}:{}", number + 1);
        if line.contains("unsafe ") && !UNSAFE_ALLOWED.contains(&krate) && !line.contains("unsafe_code") {
            problems.push(format!("{at}: unsafe is for {}", UNSAFE_ALLOWED.join(", ")));
        }
        for (call, home) in ONE_PLACE {
            let files =
                FILES_ALLOWED.contains(&krate) || FILE_ALLOWED.iter().any(|file| shown.ends_with(file));
            // A build script is told by the environment where to write.
            let builds = krate == "trimtab-sources" && call == "env::var";
            let allowed = krate == home || (call == "std::fs::" && files) || builds;
            if line.contains(call) && !allowed {
                problems.push(format!("{at}: `{call}` belongs to {home}"));
            }
        }
        if line.starts_with("pub use") && line.contains("::*") {
            problems.push(format!("{at}: name what is exported"));
        }
    }
}

fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(krate: &str, shown: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        source(krate, shown, text, &mut problems);
        problems
    }

    #[test]
    fn dependencies_go_downwards_and_what_is_for_tests_stays_with_tests() {
        for (krate, level, manifest, part) in [
            ("trimtab-plan", 2, "[dependencies]\ntrimtab-core.workspace = true\n", None),
            ("trimtab-plan", 2, "[dependencies]\ntrimtab-cpu.workspace = true\n", Some("only downwards")),
            ("trimtab-plan", 2, "[dev-dependencies]\ntrimtab-testing.workspace = true\n", None),
            (
                "trimtab-cli",
                4,
                "[dependencies]\ntrimtab-testing.workspace = true\n",
                Some("dev-dependencies"),
            ),
            ("trimtab-bench", 4, "[dependencies]\ntrimtab-testing.workspace = true\n", None),
        ] {
            let mut problems = Vec::new();
            dependencies(manifest, krate, level, &mut problems);
            let told = problems.first().map(String::as_str);
            assert_eq!(told.is_some(), part.is_some(), "{manifest}: {told:?}");
            assert!(told.unwrap_or_default().contains(part.unwrap_or_default()), "{told:?}");
        }
    }

    #[test]
    fn each_rule_can_be_broken() {
        assert_eq!(problems_of("trimtab-core", "a/fine.rs", "//! Fine.\nfn f() {}\n"), Vec::<String>::new());
        for (krate, shown, text, part) in [
            ("trimtab-core", "a/b.rs", "fn f() {}\n", "//! sentence"),
            ("trimtab-core", "a/utils.rs", "//! x\n", "says nothing"),
            ("trimtab-core", "a/b.rs", "//! x\nunsafe { f() }\n", "unsafe is for"),
            ("trimtab-plan", "a/b.rs", "//! x\nInstant::now();\n", "belongs to trimtab-tune"),
            ("trimtab-plan", "a/b.rs", "//! x\nstd::fs::read(p);\n", "belongs to trimtab-wisdom"),
            ("trimtab-cpu", "a/b.rs", "//! x\nstd::env::var(p);\n", "belongs to trimtab"),
            ("trimtab-cpu", "a/b.rs", "//! x\npub use a::*;\n", "name what is exported"),
            ("trimtab-plan", "a/b.rs", "//! x\n// A DeviceKind.\n", "the facts' habits"),
            ("trimtab-cpu", "a/b.rs", "//! x\nlet handover_ns = 1;\n", "transfer overhead"),
            ("trimtab-plan", "a/b.rs", "//! x\nReason::Outpaced\n", "dominated"),
            ("trimtab-model", "a/b.rs", "//! Lessons.\n", "training table"),
        ] {
            let found = problems_of(krate, shown, text);
            assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
        }
        assert_eq!(problems_of("trimtab-cpu", "a/b.rs", "//! A DeviceKind.\n"), Vec::<String>::new());
        let long = format!("//! x\n{}", "\n".repeat(MAX_LINES));
        assert!(problems_of("trimtab", "a/b.rs", &long)[0].contains("is there a seam"));
    }
}
