//! The files that sources in C, C++, CUDA C and OpenCL C include: what is built of them depends on those, too.

use crate::fingerprint::Fingerprint;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use trimtab_wisdom::files;

/// Endings of files whose `#include` lines are followed.
const ENDINGS: [&str; 18] = [
    "c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "cu", "cuh", "cl", "clh", "inc", "inl",
    "ipp", "tpp",
];
/// Included files that are followed, and bytes of each: a source is not a whole system's headers.
const MAX_INCLUDED: usize = 1_000;
const MAX_BYTES: u64 = 32 << 20;
/// How options that name a directory for included files begin.
const DIRECTORY_OPTIONS: [&str; 4] = ["-I", "-iquote", "-isystem", "-idirafter"];

/// Whether a file is a source whose `#include` lines are followed, by its ending.
pub fn includes_others(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// The directories that a compiler's options name for included files.
pub fn include_dirs<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut words = words.into_iter();
    let mut dirs = Vec::new();
    while let Some(word) = words.next() {
        let Some(rest) = DIRECTORY_OPTIONS.iter().find_map(|option| word.strip_prefix(option)) else {
            continue;
        };
        let dir = if rest.is_empty() { words.next() } else { Some(rest) };
        dirs.extend(dir.map(PathBuf::from));
    }
    dirs
}

/// The files that a source includes, and those they include, the nearest first: `"in quotes"` beside the file that includes them, and both
/// these and `<others>` in the directories given. Whatever is not there is a system's, or never asked for.
pub fn included(source: &Path, dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<PathBuf> = std::fs::canonicalize(source).into_iter().collect();
    let mut waiting = VecDeque::from([source.to_path_buf()]);
    while let Some(file) = waiting.pop_front() {
        let Ok(bytes) = files::read(&file, MAX_BYTES) else { continue };
        for (name, in_quotes) in named(&String::from_utf8_lossy(&bytes)) {
            let beside = file.parent().filter(|_| in_quotes).map(Path::to_path_buf);
            let places = beside.into_iter().chain(dirs.iter().cloned());
            let there = places.map(|dir| dir.join(&name)).find(|path| path.is_file());
            let Some(path) = there else { continue };
            // By different names it is the same file: those that include each other come to an end.
            let Ok(whole) = std::fs::canonicalize(&path) else { continue };
            if found.len() < MAX_INCLUDED && seen.insert(whole) {
                found.push(path.clone());
                waiting.push_back(path);
            }
        }
    }
    found
}

/// What the lines of a text include, and whether in quotes. Also what a comment or a condition leaves out: one file too many does no harm.
fn named(text: &str) -> Vec<(String, bool)> {
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let rest = rest.strip_prefix("_next").unwrap_or(rest).trim_start();
        let (rest, end) = match rest.strip_prefix('"') {
            Some(rest) => (rest, '"'),
            None => (rest.strip_prefix('<')?, '>'),
        };
        rest.split_once(end).map(|(name, _)| (name.to_string(), end == '"'))
    };
    text.lines().filter_map(name).collect()
}

impl Fingerprint {
    /// Adds what a source holds, and what all it includes holds.
    pub fn source(&mut self, path: &Path, dirs: &[PathBuf]) {
        self.file(path);
        if includes_others(path) {
            for file in included(path, dirs) {
                self.text(&file.display().to_string());
                self.file(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn written(files: &[(&str, &str)]) -> TempDir {
        let dir = TempDir::new().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn included_files_are_followed_beside_each_other_and_in_the_directories_given() {
        let dir = written(&[
            (
                "main.c",
                "#include <stdio.h>\n#include \"one.h\"\n  # include \"sub/two.h\" // why\n#include <far.h>\n",
            ),
            ("one.h", "#include \"main.c\"\n#include \"nowhere.h\"\n"),
            ("sub/two.h", "#include \"three.inc\"\n#include \"../one.h\"\n"),
            ("sub/three.inc", "#define THREE\nint include; // #include \"sub/two.h\"\n"),
            ("far/far.h", "#include \"near.h\"\n"),
            ("far/near.h", ""),
        ]);
        let at = |name: &str| dir.path().join(name);
        let found = included(&at("main.c"), &[at("far")]);
        assert_eq!(found, ["one.h", "sub/two.h", "far/far.h", "sub/three.inc", "far/near.h"].map(at));
        assert_eq!(included(&at("main.c"), &[]).len(), 3);
        assert!(included(&at("nowhere.c"), &[]).is_empty());
    }

    #[test]
    fn a_change_in_any_of_them_is_another_source() {
        let dir =
            written(&[("main.c", "#include \"one.h\""), ("one.h", "#include \"two.h\""), ("two.h", "2")]);
        let of = || {
            let mut sum = Fingerprint::default();
            sum.source(&dir.path().join("main.c"), &[]);
            sum.finish()
        };
        let before = of();
        assert_eq!(of(), before);
        std::fs::write(dir.path().join("two.h"), "3").unwrap();
        assert_ne!(of(), before);
    }

    #[test]
    fn files_that_include_each_other_by_ever_longer_names_come_to_an_end() {
        let dir = written(&[("a/a.h", "#include \"../a/b.h\""), ("a/b.h", "#include \"../a/a.h\"")]);
        assert_eq!(included(&dir.path().join("a/a.h"), &[]).len(), 1);
    }

    #[test]
    fn directories_are_read_of_options() {
        let words = ["gcc", "-Iinclude", "-O3", "-I", "other", "-isystem", "third", "-I"];
        assert_eq!(include_dirs(words), ["include", "other", "third"].map(PathBuf::from));
    }
}
