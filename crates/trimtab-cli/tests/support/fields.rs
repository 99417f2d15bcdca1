//! Fields of JSON: what commands print, against what a page of the book lists.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a page lists of a command: fields or columns, and whether they are in every run.
#[derive(Debug, Default)]
pub struct Listed {
    pub fields: BTreeMap<String, bool>,
    pub columns: BTreeMap<String, bool>,
}

/// What a page lists, by command.
pub fn listed(page: &str) -> BTreeMap<String, Listed> {
    let mut all: BTreeMap<String, Listed> = BTreeMap::new();
    let mut command = String::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## `") {
            command = name.trim_end_matches('`').to_string();
        }
        let Some(cell) = line.strip_prefix("| ").and_then(|rest| rest.split(" | ").next()) else { continue };
        let (cell, sure) = (cell.trim_end_matches(" †"), !cell.ends_with('†'));
        let listed = all.entry(command.clone()).or_default();
        if let Some(field) = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')) {
            listed.fields.insert(field.to_string(), sure);
        } else if let Some(column) = cell.strip_prefix("**").and_then(|cell| cell.strip_suffix("**")) {
            listed.columns.insert(column.to_string(), sure);
        }
    }
    all
}

/// Every path to a value: `rivals[].estimate.ns`.
pub fn walk(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                into.insert(path.clone());
                walk(value, &path, into);
            }
        }
        Value::Array(values) => {
            let inside = if path.ends_with("[]") { path.to_string() } else { format!("{path}[]") };
            values.iter().for_each(|value| walk(value, &inside, into));
        }
        _ => (),
    }
}

/// What of a list covers a path: itself, or `above.*`.
pub fn covering<'a>(listed: &'a Listed, path: &str) -> Option<&'a str> {
    let same = listed.fields.get_key_value(path).map(|(field, _)| field.as_str());
    same.or_else(|| {
        let starred = listed.fields.keys().filter_map(|field| Some((field, field.strip_suffix(".*")?)));
        let below = |above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(['.', '[']));
        starred.filter(|(_, above)| below(above)).map(|(field, _)| field.as_str()).next()
    })
}

/// What is wrong with what a command printed: fields nobody lists, and what is listed and was not printed.
pub fn unlike(command: &str, page: &str, listed: &Listed, printed: &BTreeSet<String>) -> Vec<String> {
    let (mut wrong, mut met) = (Vec::new(), BTreeSet::new());
    for path in printed {
        match covering(listed, path) {
            Some(field) => drop(met.insert(field)),
            None => wrong.push(format!("{command} --json prints `{path}`, which {page} does not list")),
        }
    }
    let unmet = listed.fields.iter().filter(|(field, sure)| **sure && !met.contains(field.as_str()));
    wrong.extend(unmet.map(|(field, _)| format!("{page} lists `{field}` of {command}, which nobody prints")));
    wrong
}
