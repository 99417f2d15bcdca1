//! The README and the book in `docs`: links and anchors, what is in the table of contents, and that every snippet is one that tests look at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Words of the README: more is for the book.
const README_WORDS: usize = 900;

/// The file whose doc tests compile the Rust code of pages.
const COMPILED: &str = "crates/trimtab/src/book.rs";

/// Languages of snippets. Rust is compiled by doc tests, `sh`, `toml` and `json` are read by tests of the command, `python` by tests of the
/// package; `text` is what a program prints.
const LANGUAGES: [&str; 6] = ["rust", "sh", "toml", "json", "python", "text"];

/// Folders whose files pages name in backticks.
const FOLDERS: [&str; 8] =
    ["book/", "crates/", "docs/", "examples/", "fuzz/", "partners/", "python/", "xtask/"];

/// What commands write, and git does not know.
const WRITTEN: [&str; 1] = ["fuzz/found"];

/// Everything written for people, by its path.
pub struct Pages<'a> {
    pub texts: BTreeMap<String, String>,
    /// What there is beside pages.
    pub files: &'a BTreeSet<String>,
    /// The project's commands, as its help lists them.
    pub commands: &'a str,
}

/// A page in pieces: what is outside code, with line numbers, and snippets.
struct Parts<'a> {
    prose: Vec<(usize, &'a str)>,
    /// Line, language, text.
    snippets: Vec<(usize, &'a str, Vec<&'a str>)>,
    /// Lines of code that is only indented.
    indented: Vec<usize>,
}

impl Pages<'_> {
    pub fn check(&self, problems: &mut Vec<String>) {
        for (shown, text) in &self.texts {
            let parts = parts(text);
            for (line, target) in links(&parts.prose) {
                if let Err(reason) = self.reaches(shown, &target) {
                    problems.push(format!("{shown}:{line}: the link `{target}` {reason}"));
                }
            }
            for (line, path) in named(&parts.prose).filter(|(_, path)| !self.exists(path)) {
                problems.push(format!("{shown}:{line}: there is no `{path}`"));
            }
            for (line, name) in own_commands(text).filter(|(_, name)| !self.is_command(name)) {
                problems.push(format!("{shown}:{line}: there is no `cargo xtask {name}`"));
            }
            if shown == "README.md" || shown.starts_with("docs/") {
                self.snippets(shown, &parts, problems);
            }
        }
        self.contents(problems);
        let words = self.texts.get("README.md").map_or(0, |text| text.split_whitespace().count());
        if words > README_WORDS {
            problems
                .push(format!("README.md has {words} words, limit {README_WORDS}: the rest is for docs/"));
        }
    }

    /// Every page is in the table of contents once, and pages lead nowhere that a built book does not have.
    fn contents(&self, problems: &mut Vec<String>) {
        const SUMMARY: &str = "docs/SUMMARY.md";
        let Some(summary) = self.texts.get(SUMMARY) else { return };
        let listed: Vec<String> =
            links(&parts(summary).prose).map(|(_, target)| format!("docs/{target}")).collect();
        for page in self.texts.keys().filter(|page| page.starts_with("docs/") && *page != SUMMARY) {
            let count = listed.iter().filter(|listed| *listed == page).count();
            if count != 1 {
                problems.push(format!("{page} is {count} times in {SUMMARY}, should be once"));
            }
        }
    }

    fn snippets(&self, shown: &str, parts: &Parts<'_>, problems: &mut Vec<String>) {
        for (line, language, _) in &parts.snippets {
            if !LANGUAGES.contains(language) {
                let known = LANGUAGES.join(", ");
                problems.push(format!("{shown}:{line}: a snippet says its language: {known}"));
            }
        }
        for line in &parts.indented {
            problems.push(format!("{shown}:{line}: code stands between fences that say its language"));
        }
        let has_rust = parts.snippets.iter().any(|(_, language, _)| *language == "rust");
        let included = self.texts.get(COMPILED).is_some_and(|text| text.contains(&format!("/{shown}\"")));
        if has_rust != included {
            let wrong = if has_rust { "has Rust code and is not in" } else { "has no Rust code and is in" };
            problems.push(format!("{shown} {wrong} {COMPILED}"));
        }
    }

    fn is_command(&self, name: &str) -> bool {
        self.commands.lines().any(|line| line.trim_start().split([' ', '…']).next() == Some(name))
    }

    fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.files.contains(path)
            || self.files.range(inside.clone()..).next().is_some_and(|file| file.starts_with(&inside))
    }

    /// Whether a link of a page leads somewhere, or why not.
    fn reaches(&self, shown: &str, target: &str) -> Result<(), String> {
        if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
            return Ok(());
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            shown.to_string()
        } else {
            resolved(shown, file).ok_or("leaves the project")?
        };
        if shown.starts_with("docs/") && !path.starts_with("docs/") {
            return Err("leaves the book: name the file in backticks instead".to_string());
        }
        if !self.exists(&path) {
            return Err("leads nowhere".to_string());
        }
        if anchor.is_empty() {
            return Ok(());
        }
        let text = self.texts.get(&path).ok_or("has an anchor in what is no page")?;
        let anchors = anchors(text);
        match anchors.iter().any(|known| known == anchor) {
            true => Ok(()),
            false => Err(format!("has an anchor that is none of: {}", anchors.join(", "))),
        }
    }
}

/// A path as a link from a page means it.
fn resolved(shown: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = shown.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => (),
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn parts(text: &str) -> Parts<'_> {
    let mut parts = Parts { prose: Vec::new(), snippets: Vec::new(), indented: Vec::new() };
    let (mut open, mut blank, mut in_list) = (false, true, false);
    for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
        let words = line.trim_start();
        if let Some(info) = words.strip_prefix("```") {
            if !open {
                let language = info.split([',', ' ']).next().unwrap_or_default();
                parts.snippets.push((number, language, Vec::new()));
            }
            open = !open;
            continue;
        }
        if open {
            parts.snippets.iter_mut().last().into_iter().for_each(|(.., lines)| lines.push(line));
            continue;
        }
        let item = words.starts_with("- ") || words.starts_with("* ") || numbered(words);
        in_list = item || (in_list && (words.is_empty() || line.starts_with(' ')));
        if blank && line.starts_with("    ") && !words.is_empty() && !in_list {
            parts.indented.push(number);
        } else {
            parts.prose.push((number, line));
        }
        blank = words.is_empty();
    }
    parts
}

fn numbered(words: &str) -> bool {
    words.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// A line without what stands in backticks, and what stood there.
fn apart(line: &str) -> (String, Vec<&str>) {
    let pieces: Vec<&str> = line.split('`').collect();
    // An open backtick at the end is only a character.
    let closed = if pieces.len() % 2 == 1 { pieces.len() } else { pieces.len() - 1 };
    let prose = pieces[..closed].iter().step_by(2).copied().chain(pieces[closed..].iter().copied()).collect();
    (prose, pieces[..closed].iter().skip(1).step_by(2).copied().collect())
}

/// Targets of links and pictures, with their lines.
fn links(prose: &[(usize, &str)]) -> impl Iterator<Item = (usize, String)> {
    prose.iter().flat_map(|(line, text)| {
        let (text, _) = apart(text);
        let targets = text.match_indices("](").filter_map(|(at, _)| {
            let rest = &text[at + 2..];
            Some((*line, rest[..rest.find(')')?].to_string()))
        });
        targets.collect::<Vec<_>>()
    })
}

/// Files of the project that stand in backticks, with their lines. What has a hole or a pattern is not one file.
fn named<'a>(prose: &[(usize, &'a str)]) -> impl Iterator<Item = (usize, &'a str)> {
    let is_one = |path: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        FOLDERS.iter().any(|folder| path.starts_with(folder))
            && path.chars().all(plain)
            && !WRITTEN.contains(path)
    };
    prose.iter().flat_map(move |(line, text)| {
        apart(text).1.into_iter().filter(is_one).map(move |path| (*line, path)).collect::<Vec<_>>()
    })
}

/// The project's commands that a text names, with their lines.
fn own_commands(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(number, line)| {
        let said = line.split("cargo xtask ").skip(1);
        said.filter_map(move |rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
            Some((number + 1, &rest[..end])).filter(|(_, name)| !name.is_empty() && !name.starts_with('-'))
        })
    })
}

/// What links may name on a page: its headings as GitHub and mdBook write them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in parts(text).prose {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let anchor: String = heading.trim().to_lowercase().chars().filter_map(slug).collect();
        let same = found.iter().filter(|known| **known == anchor).count();
        found.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    found
}

/// Everything written for people, and the file that lists what is compiled.
pub fn pages<'a>(root: &Path, files: &'a BTreeSet<String>, commands: &'a str) -> Pages<'a> {
    let is_page = |file: &&String| file.ends_with(".md") || file.as_str() == COMPILED;
    let read = |file: &String| Some((file.clone(), std::fs::read_to_string(root.join(file)).ok()?));
    Pages { texts: files.iter().filter(is_page).filter_map(read).collect(), files, commands }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &str = "  tidy            rules\n  bench NAME…     figures\n";

    fn problems(pages: &[(&str, &str)]) -> Vec<String> {
        let files: BTreeSet<String> =
            pages.iter().map(|(path, _)| path.to_string()).chain(["docs/images/a.svg".to_string()]).collect();
        let texts = pages.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        let mut problems = Vec::new();
        Pages { texts, files: &files, commands: COMMANDS }.check(&mut problems);
        problems
    }

    #[test]
    fn links_anchors_and_pictures_are_followed() {
        let summary = ("docs/SUMMARY.md", "[A](a.md)\n- [B](deep/b.md)\n");
        let b = ("docs/deep/b.md", "# B\n\n## Say `what`, you want\n\n## Twice\n\n## Twice\n");
        let page = |text: &'static str| problems(&[summary, b, ("docs/a.md", text)]);
        for fine in [
            "[x](deep/b.md) ![y](images/a.svg) [z](https://example.org/#x)",
            "[x](deep/b.md#say-what-you-want), [`y`](deep/b.md#twice-1)",
            "# Here\n[x](#here)",
            "`[x](nowhere.md)`\n```text\n[x](nowhere.md)\n```\n",
        ] {
            assert_eq!(page(fine), Vec::<String>::new(), "{fine}");
        }
        for (text, part) in [
            ("fine\n[x](gone.md)", "docs/a.md:2: the link `gone.md` leads nowhere"),
            ("[x](deep/b.md#gone)", "has an anchor that is none of: b, say-what-you-want"),
            ("[x](../README.md)", "leaves the book"),
            ("[x](../../elsewhere)", "leaves the project"),
            ("[x](images/a.svg#there)", "what is no page"),
        ] {
            let found = page(text);
            assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
        }
    }

    #[test]
    fn every_page_is_in_the_contents_once() {
        let found =
            problems(&[("docs/SUMMARY.md", "[A](a.md)\n[A](a.md)\n"), ("docs/a.md", ""), ("docs/b.md", "")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/a.md is 2 times") && found[1].contains("docs/b.md is 0 times"));
    }

    #[test]
    fn snippets_say_their_language_and_rust_is_compiled() {
        let readme = |text: &'static str| problems(&[("README.md", text)]);
        assert!(readme("```\nx\n```\n")[0].starts_with("README.md:1: a snippet says its language"));
        assert!(
            readme("So:\n\n    trimtab tune\n")[0].starts_with("README.md:3: code stands between fences")
        );
        assert_eq!(readme("- item\n\n    still the item\n"), Vec::<String>::new());
        assert!(readme("```rust,no_run\nf();\n```\n")[0].contains("is not in"));
        let compiled = (COMPILED, "#![doc = include_str!(\"../../../README.md\")]");
        assert_eq!(problems(&[("README.md", "```rust\nf();\n```\n"), compiled]), Vec::<String>::new());
        assert!(problems(&[("README.md", "text"), compiled])[0].contains("has no Rust code"));
    }

    #[test]
    fn commands_and_files_that_are_named_are_there() {
        let found = problems(&[(
            "README.md",
            "`cargo xtask tidy`, `cargo xtask bench all`, cargo xtask gone, `cargo xtask --help`",
        )]);
        assert!(found.len() == 1 && found[0].contains("there is no `cargo xtask gone`"), "{found:?}");
        let found =
            problems(&[("README.md", "`docs/images`, `docs/images/a.svg`, `docs/*.md`, `docs/gone.md`")]);
        assert!(found.len() == 1 && found[0].contains("there is no `docs/gone.md`"), "{found:?}");
    }

    #[test]
    fn a_long_readme_is_refused() {
        let long = "word ".repeat(README_WORDS + 1);
        let mut problems = Vec::new();
        let texts = BTreeMap::from([("README.md".to_string(), long)]);
        Pages { texts, files: &BTreeSet::new(), commands: "" }.check(&mut problems);
        assert!(problems[0].contains("901 words"), "{problems:?}");
    }
}
