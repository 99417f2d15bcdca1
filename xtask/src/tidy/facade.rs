//! Rules about the public face: few names at the top of `trimtab`, and an example at every method.

use std::path::Path;

/// Names at the top of the facade. Whoever needs more finds it by crate in `advanced`.
const MOST_NAMES: usize = 60;
/// For fuzz targets; its module is hidden.
const HIDDEN: &str = "fuzzing.rs";
/// What an example in documentation begins with.
const FENCE: &str = "```";

/// What `lib.rs` shows: modules and what is exported, hidden modules left out.
fn names(lib: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut hidden, mut open) = (false, String::new());
    for line in lib.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[") {
            hidden |= line == "#[doc(hidden)]";
            continue;
        }
        open.push_str(line);
        if !open.ends_with(';') {
            continue;
        }
        let item = std::mem::take(&mut open);
        let item = item.trim_end_matches(';');
        if std::mem::take(&mut hidden) {
            continue;
        }
        if let Some(module) = item.strip_prefix("pub mod ") {
            names.push(module.to_string());
        } else if let Some(path) = item.strip_prefix("pub use ") {
            let (_, last) = path.rsplit_once("::").unwrap_or(("", path));
            let many = path.split_once('{').map_or(last, |(_, many)| many.trim_end_matches('}'));
            names.extend(
                many.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| name.to_string()),
            );
        }
    }
    names
}

/// Whether a line below documentation makes a public function: by itself, or as an entry of a macro that makes functions of a table:
/// `name = …;` or `name(…)…;`.
fn makes_function(line: &str) -> bool {
    if let Some(item) = line.strip_prefix("pub ") {
        let words = ["const ", "async ", "unsafe "];
        let item = words.iter().fold(item, |item, word| item.strip_prefix(word).unwrap_or(item));
        // One that is named by a macro's table has its documentation there.
        return item.strip_prefix("fn ").is_some_and(|name| !name.starts_with('$'));
    }
    let name = line.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')).unwrap_or(0);
    name > 0
        && &line[..name] != "pub"
        && (line[name..].starts_with(" = ") || line[name..].starts_with('('))
        && line.ends_with(';')
}

/// Lines with a public function that shows no example.
fn without_example(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut documented, mut shown) = (false, false);
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line == "#[cfg(test)]" {
            break;
        }
        if let Some(said) = line.strip_prefix("///") {
            documented = true;
            shown |= said.trim_start().starts_with(FENCE);
        } else if !line.starts_with("#[") {
            let is_entry = documented || line.starts_with("pub ");
            if is_entry && makes_function(line) && !shown {
                found.push(number + 1);
            }
            (documented, shown) = (false, false);
        }
    }
    found
}

/// The facade's own rules.
pub fn check(src: &Path, problems: &mut Vec<String>) {
    let lib = std::fs::read_to_string(src.join("lib.rs")).unwrap_or_default();
    let names = names(&lib);
    // None at all means that they were not understood.
    if names.is_empty() || names.len() > MOST_NAMES {
        problems.push(format!(
            "crates/trimtab/src/lib.rs has {} public names, limit {MOST_NAMES}: the rest belongs into `advanced`",
            names.len()
        ));
    }
    for file in super::rust_files(src).unwrap_or_default() {
        let shown = file.strip_prefix(src).unwrap_or(&file).display().to_string();
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let missing = if shown == HIDDEN { Vec::new() } else { without_example(&text) };
        problems.extend(missing.into_iter().map(|line| {
            format!("crates/trimtab/src/{shown}:{line}: a public method has an example that runs")
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_the_top_is_counted_by_name() {
        let lib = "//! X.\npub mod a;\nmod b;\n#[doc(hidden)]\npub mod c;\n#[cfg(x)]\nmod d;\npub use a::B;\n\
                   pub use e::{\n    F, G,\n    h,\n};\npub use f::{I, J as K};\n";
        assert_eq!(names(lib), ["a", "B", "F", "G", "h", "I", "J as K"]);
    }

    #[test]
    fn a_method_without_an_example_is_found_wherever_it_is_written() {
        let example = "/// X.\n///\n/// ```\n/// x();\n/// ```\n";
        for (item, found) in [
            ("pub fn f() {}", true),
            ("#[inline]\npub const fn f() {}", true),
            ("abs = Abs;", true),
            ("softmax(axis: usize) = |x| x;", true),
            ("take();", true),
            ("pub(crate) fn f() {}", false),
            ("pub fn $name() {}", false),
            ("pub field: u32,", false),
            ("Variant = 3,", false),
        ] {
            assert_eq!(!without_example(&format!("/// X.\n{item}\n")).is_empty(), found, "{item}");
            assert_eq!(without_example(&format!("{example}{item}\n")), Vec::<usize>::new(), "{item}");
        }
        // Documentation is that of the next item alone.
        assert_eq!(without_example(&format!("{example}pub fn f() {{}}\npub fn g() {{}}\n")), [7]);
        assert_eq!(without_example("#[cfg(test)]\nmod tests {\npub fn f() {}\n}\n"), Vec::<usize>::new());
    }

    #[test]
    fn the_facade_keeps_its_rules() {
        let mut problems = Vec::new();
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/trimtab/src"), &mut problems);
        assert_eq!(problems, Vec::<String>::new());
    }
}
