//! What README and docs tell people to type is what the command reads: commands, problems, spaces, profiles, variables.

use crate::args::{self, Cli};
use clap::Parser;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use trimtab::VARIABLES;
use trimtab::advanced::study::{KERNEL_TABLES, read_space_beside};
use trimtab::{DType, Problem};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and all pages of the book, with their names.
fn pages() -> Vec<(String, String)> {
    let (mut folders, mut pages) = (vec![root().join("docs")], vec![root().join("README.md")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
    pages.into_iter().map(read).collect()
}

/// Snippets of a language, with where each begins.
fn snippets(language: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let mut inside: Option<(usize, bool, String)> = None;
        for (number, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), inside.as_mut()) {
                (Some(said), None) => inside = Some((number + 1, said == language, String::new())),
                (Some(_), Some(_)) => {
                    let (start, is_wanted, text) = inside.take().unwrap();
                    found.extend(is_wanted.then(|| (format!("{page}:{start}"), text)));
                }
                (None, Some((.., text))) => *text += &format!("{line}\n"),
                (None, None) => (),
            }
        }
    }
    found
}

/// Words of a line as a shell reads them, up to a comment, a pipe or a redirection.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | ';') => break,
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_in_readme_and_docs_is_understood() {
    let mut count = 0;
    for (at, text) in snippets("sh") {
        for line in text.replace("\\\n", " ").lines() {
            let words = shell_words(line);
            // `cargo run … -- tune` is the command, too.
            let own = match (words.first().map(String::as_str), words.iter().position(|word| word == "--")) {
                (Some("trimtab"), _) => words.clone(),
                (Some("cargo"), Some(dashes)) if words[1] == "run" => {
                    std::iter::once("trimtab".to_string()).chain(words[dashes + 1..].to_vec()).collect()
                }
                (Some("cargo" | "pip"), _) | (None, _) => continue,
                _ => panic!("{at}: `{line}` is no command of ours"),
            };
            count += 1;
            let read: Vec<OsString> = args::words(own.iter().map(OsString::from).collect());
            let parsed = Cli::try_parse_from(read);
            assert!(parsed.is_ok(), "{at}: `{line}`: {}", parsed.unwrap_err());
        }
    }
    assert!(count > 30, "only {count} commands were found");
}

#[test]
fn every_problem_in_readme_and_docs_is_one() {
    let mut count = 0;
    for (page, text) in pages() {
        for word in text.split(|c: char| c.is_whitespace() || "`'\"".contains(c)) {
            let word = word.trim_matches([',', '.', ';']);
            let mut parts = word.split(':');
            let (operation, dtype, sizes) = (parts.next().unwrap(), parts.next(), parts.next());
            let is_type = dtype.is_some_and(|dtype| DType::parse(dtype).is_some());
            if operation.is_empty()
                || !is_type
                || sizes.is_none_or(|sizes| sizes.is_empty())
                || word.contains('…')
            {
                continue;
            }
            count += 1;
            let parsed: Result<Problem, _> = word.parse();
            assert!(parsed.is_ok(), "{page}: `{word}`: {}", parsed.unwrap_err());
        }
    }
    assert!(count > 40, "only {count} problems were found");
}

#[test]
fn spaces_and_dependencies_in_docs_are_read() {
    let features = std::fs::read_to_string(root().join("crates/trimtab/Cargo.toml")).unwrap();
    for (at, text) in snippets("toml") {
        if text.starts_with("[dependencies]") {
            let named = text.split_once("features = [").and_then(|(_, rest)| rest.split_once(']'));
            for feature in
                named.map_or("", |(named, _)| named).split(", ").filter(|feature| !feature.is_empty())
            {
                let line = format!("\n{} = [", feature.trim_matches('"'));
                assert!(features.contains(&line), "{at}: there is no feature {feature}");
            }
            continue;
        }
        let read = read_space_beside(text.as_bytes(), &KERNEL_TABLES);
        assert!(read.is_ok(), "{at}: {}", read.unwrap_err());
    }
}

#[test]
fn json_in_docs_is_json() {
    for (at, text) in snippets("json") {
        let read: Result<serde_json::Value, _> = serde_json::from_str(&text);
        assert!(read.is_ok(), "{at}: {}", read.unwrap_err());
    }
}

#[test]
fn the_page_of_variables_lists_all_of_them_and_no_others() {
    let page = std::fs::read_to_string(root().join("docs/variables.md")).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `TRIMTAB_")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let mut known: Vec<&str> =
        VARIABLES.iter().map(|(name, _)| name.trim_start_matches("TRIMTAB_")).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    known.sort_unstable();
    assert_eq!(sorted, known);
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(shell_words("a 'b {c} d'  e\"f\" # g"), ["a", "b {c} d", "ef"]);
    assert_eq!(shell_words("trimtab explain x --json | jq '.a'"), ["trimtab", "explain", "x", "--json"]);
    assert_eq!(shell_words("fused.a(b,#0):f32:1"), ["fused.a(b,#0):f32:1"]);
}
