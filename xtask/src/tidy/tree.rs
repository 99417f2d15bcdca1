//! Rules about the tree as a whole: names that are taken, paths of one machine, paragraphs that are too long.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Names a reader takes for std's. (Those of one module of std, like `Entry` or `Layout`, are not among them.)
const STD: [&str; 40] = [
    "Any",
    "Arc",
    "AsMut",
    "AsRef",
    "BTreeMap",
    "Borrow",
    "Box",
    "Cell",
    "Clone",
    "Copy",
    "Cow",
    "Debug",
    "Default",
    "Deref",
    "Display",
    "Drop",
    "Duration",
    "Eq",
    "Extend",
    "From",
    "Hash",
    "HashMap",
    "HashSet",
    "Instant",
    "Into",
    "IntoIterator",
    "Iterator",
    "Mutex",
    "Option",
    "Ord",
    "Path",
    "PathBuf",
    "Rc",
    "RefCell",
    "Result",
    "Send",
    "Sized",
    "String",
    "Sync",
    "Vec",
];

/// Most types of one name: whoever reads a name used five times for five things has to look it up.
const MOST_OF_A_NAME: usize = 4;

/// Directories below `/` that are somebody's own. Written without the slash, so that this file keeps its own rule.
const OF_ONE_MACHINE: [&str; 5] = ["home", "root", "tmp", "work", "Users"];

/// Lines of a paragraph, where a line is at most so wide.
const PARAGRAPH: usize = 8;
const WIDTH: usize = 120;

/// Where each type is defined, by name.
#[derive(Default)]
pub struct Types(BTreeMap<String, Vec<String>>);

impl Types {
    /// Items of a file: what is indented belongs to a trait, an implementation or a function.
    pub fn note(&mut self, shown: &str, code: &str, problems: &mut Vec<String>) {
        for (number, line) in code.lines().enumerate() {
            let Some(name) = defined(line) else { continue };
            let at = format!("{shown}:{}", number + 1);
            if STD.contains(&name) {
                problems.push(format!("{at}: `{name}` is a name of std's"));
            }
            self.0.entry(name.to_string()).or_default().push(at);
        }
    }

    pub fn check(&self, problems: &mut Vec<String>) {
        for (name, places) in self.0.iter().filter(|(_, places)| places.len() > MOST_OF_A_NAME) {
            let count = places.len();
            problems.push(format!(
                "{}: {count} types are called `{name}`: {}",
                places[0],
                places[1..].join(", ")
            ));
        }
    }
}

/// The type an unindented line defines.
fn defined(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let rest = ["struct ", "enum ", "trait ", "type ", "unsafe trait ", "union "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Files of the project: what git tracks, and what is new and not ignored.
pub fn files(root: &Path) -> Result<Vec<String>> {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output =
        Command::new("git").args(listed).current_dir(root).output().context("git lists the files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_string).collect())
}

/// A path that exists on the machine it was written on only.
pub fn machine_paths(shown: &str, text: &str, problems: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        for directory in OF_ONE_MACHINE {
            let path = format!("/{directory}/");
            let starts = |at: usize| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !"_-./}>)*~$".contains(c))
            };
            if line.match_indices(&path).any(|(at, _)| starts(at)) {
                problems.push(format!("{shown}:{}: `{path}…` is a path of one machine", number + 1));
            }
        }
    }
}

/// Paragraphs and items of lists end at a blank line, a heading or the next item; tables and code are neither.
pub fn paragraphs(shown: &str, text: &str, problems: &mut Vec<String>) {
    let (mut code, mut start, mut lines, mut letters) = (false, 0, 0usize, 0usize);
    for (number, line) in text.lines().chain([""]).enumerate() {
        let words = line.trim_start();
        let fence = words.starts_with("```");
        code ^= fence;
        let apart =
            code || fence || words.is_empty() || words.starts_with(['|', '#']) || line.starts_with("    ");
        let item = words.starts_with("- ") || words.starts_with("* ") || is_numbered(words);
        if apart || item {
            // Long lines do not hide a long paragraph.
            let count = lines.max(letters.div_ceil(WIDTH));
            if count > PARAGRAPH {
                problems.push(format!(
                    "{shown}:{start}: a paragraph of {count} lines of {WIDTH} characters, limit {PARAGRAPH}: one idea each"
                ));
            }
            (lines, letters) = (0, 0);
        }
        if !apart {
            start = if lines == 0 { number + 1 } else { start };
            (lines, letters) = (lines + 1, letters + words.chars().count());
        }
    }
}

fn is_numbered(words: &str) -> bool {
    words.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_stds_is_refused_where_a_type_is_defined() {
        for (code, is_wrong) in [
            ("pub(crate) enum From<'a> {", true),
            ("struct Copy;", true),
            ("pub trait Iterator {", true),
            ("type Result<T> = std::result::Result<T, Error>;", true),
            ("    type Vec<S>;", false),
            ("use std::sync::Arc;", false),
            ("pub struct Copies;", false),
            ("impl From<u8> for Wide {", false),
        ] {
            let mut problems = Vec::new();
            Types::default().note("a.rs", code, &mut problems);
            assert_eq!(problems.len(), usize::from(is_wrong), "{code}: {problems:?}");
        }
    }

    #[test]
    fn a_fifth_type_of_a_name_is_refused_with_all_places() {
        let (mut types, mut problems) = (Types::default(), Vec::new());
        for file in ["a.rs", "b.rs", "c.rs", "d.rs"] {
            types.note(file, "struct Place;\nimpl X {\n    type Place = u8;\n}", &mut problems);
        }
        types.check(&mut problems);
        assert_eq!(problems, Vec::<String>::new());
        types.note("e.rs", "//! E.\npub enum Place<T> {", &mut problems);
        types.check(&mut problems);
        assert_eq!(problems, ["a.rs:1: 5 types are called `Place`: b.rs:1, c.rs:1, d.rs:1, e.rs:2"]);
    }

    #[test]
    fn a_path_of_one_machine_is_refused() {
        for directory in OF_ONE_MACHINE {
            let mut problems = Vec::new();
            machine_paths("a", &format!("fine\nread(\"/{directory}/me/data\")"), &mut problems);
            assert_eq!(problems.len(), 1, "{directory}");
            assert!(problems[0].starts_with("a:2: "), "{problems:?}");
            for fine in
                [format!("target/{directory}/x"), format!("~/{directory}/x"), format!("/{directory}s")]
            {
                machine_paths("a", &fine, &mut problems);
            }
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
    }

    #[test]
    fn a_paragraph_of_nine_lines_is_refused_where_it_starts() {
        let told = |text: &str| {
            let mut problems = Vec::new();
            paragraphs("A.md", text, &mut problems);
            problems
        };
        let (eight, nine) = ("words\n".repeat(8), "words\n".repeat(9));
        assert_eq!(told(&format!("# One\n{eight}\n{eight}")), Vec::<String>::new());
        assert!(told(&format!("# One\n\n{nine}"))[0].starts_with("A.md:3: a paragraph of 9 lines"));
        assert!(told(&format!("- item\n- {nine}- item"))[0].starts_with("A.md:2: "));
        assert!(told(&format!("1. {nine}"))[0].starts_with("A.md:1: "));
        assert_eq!(told(&"- item\n".repeat(20)), Vec::<String>::new());
        assert_eq!(told(&format!("```\n{nine}```\n{}", "| a |\n".repeat(20))), Vec::<String>::new());
        assert_eq!(told(&format!("{}\n", "x".repeat(8 * WIDTH + 1))).len(), 1);
    }
}
