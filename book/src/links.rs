//! Where the links of built pages lead.

use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with the links of pages, given the other files that were built.
pub fn broken(pages: &BTreeMap<String, String>, others: &[String]) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(name, text)| (name.as_str(), values(text, "id").collect())).collect();
    let mut problems = Vec::new();
    for (name, text) in pages {
        for target in targets(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { Some(name.clone()) } else { resolved(name, file) };
            let wrong = match path.as_deref().map(|path| (anchors.get(path), path)) {
                None => Some("leaves the book"),
                Some((Some(known), _)) if anchor.is_empty() || known.contains(anchor) => None,
                Some((Some(_), _)) => Some("names an anchor that is not there"),
                Some((None, path)) if others.iter().any(|other| other == path) => None,
                Some((None, _)) => Some("leads nowhere"),
            };
            problems.extend(wrong.map(|wrong| format!("{name}: `{target}` {wrong}")));
        }
    }
    problems
}

/// Links and pictures of a page that do not lead to another site.
pub fn targets(text: &str) -> impl Iterator<Item = &str> {
    let elsewhere = |target: &str| {
        ["http://", "https://", "mailto:", "data:", "javascript:"]
            .iter()
            .any(|scheme| target.starts_with(scheme))
    };
    values(text, "href").chain(values(text, "src")).filter(move |target| !elsewhere(target))
}

/// Values of an attribute. mdBook writes them in quotes and escapes quotes in text.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {attribute}=\"");
    let starts: Vec<usize> = text.match_indices(&opening).map(|(at, _)| at + opening.len()).collect();
    starts.into_iter().filter_map(|start| Some(&text[start..start + text[start..].find('"')?]))
}

/// A path as a link from a page means it; none outside the book.
fn resolved(page: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." | "" => (),
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let page = |name: &str, text: &str| (name.to_string(), text.to_string());
        let b = page("deep/b.html", "<h1 id=\"b\">B</h1><a class=\"x\" href=\"../a.html\">a</a>");
        broken(&BTreeMap::from([page("a.html", text), b]), &["images/a.svg".to_string()])
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for fine in [
            "<a href=\"deep/b.html#b\">x</a> <img src=\"images/a.svg\">",
            "<h2 id=\"here\"></h2><a href=\"#here\">x</a>",
            "<a href=\"https://example.org/gone\">x</a>",
        ] {
            assert_eq!(problems(fine), Vec::<String>::new(), "{fine}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for (text, part) in [
            ("<a href=\"gone.html\">x</a>", "a.html: `gone.html` leads nowhere"),
            ("<a href=\"deep/b.html#gone\">x</a>", "an anchor that is not there"),
            ("<a href=\"#gone\">x</a>", "an anchor that is not there"),
            ("<img src=\"images/b.svg\">", "leads nowhere"),
            ("<a href=\"../README.html\">x</a>", "leaves the book"),
        ] {
            let found = problems(text);
            assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
        }
    }
}
