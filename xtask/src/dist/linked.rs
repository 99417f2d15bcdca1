//! What is linked into the command and the wheel beside our own code, and the texts of its licences: whoever hands out a program of others'
//! code hands these out with it.

use super::said;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What is published with others' code inside, and the features it is built with.
const PUBLISHED: [(&str, &str); 2] = [("trimtab-cli", "cuda,wgpu"), ("trimtab-py", "cuda,wgpu")];

/// How names of files begin that hold terms.
const TEXTS: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];

/// A package of somebody else: name and version.
type Name = (String, String);

/// A page of all of them: each with the licence it states, then every text once.
pub fn licences(root: &Path) -> Result<String> {
    let mut linked = BTreeSet::new();
    for (package, features) in PUBLISHED {
        let words = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
        let mut tree = Command::new(env!("CARGO"));
        tree.current_dir(root).args(words).args(["--package", package, "--features", features]);
        linked.extend(said(&mut tree)?.lines().filter_map(package_of));
    }
    let mut metadata = Command::new(env!("CARGO"));
    metadata.current_dir(root).args(["metadata", "--format-version", "1", "--all-features", "--locked"]);
    let metadata: Value = serde_json::from_str(&said(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let (mut stated, mut texts) = (BTreeMap::new(), BTreeMap::new());
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_string();
        let name = (text("name"), text("version"));
        if !linked.contains(&name) {
            continue;
        }
        let manifest = text("manifest_path");
        let place = Path::new(&manifest).parent().context("a manifest lies in a folder")?;
        for terms in terms(place)? {
            texts.entry(terms).or_insert_with(BTreeSet::new).insert(name.clone());
        }
        stated.insert(name, text("license"));
    }
    if stated.is_empty() {
        bail!("nothing of others is linked, which cannot be");
    }
    Ok(page(&stated, &texts))
}

/// A line of `cargo tree` as a package of others. Ours have a path, and macros run in the compiler alone.
fn package_of(line: &str) -> Option<Name> {
    let line = line.trim().trim_end_matches(" (*)");
    let (name, version) = line.split_once(" v")?;
    (!version.contains(' ')).then(|| (name.to_string(), version.to_string()))
}

/// The texts in a package's folder, without differences that nobody sees.
fn terms(place: &Path) -> Result<Vec<String>> {
    let mut files: Vec<_> = std::fs::read_dir(place)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let is_text = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_file() && TEXTS.iter().any(|start| name.starts_with(start))
    };
    let read = |path: std::path::PathBuf| anyhow::Ok(plain(&String::from_utf8_lossy(&std::fs::read(path)?)));
    files.into_iter().filter(|path| is_text(path)).map(read).collect()
}

fn plain(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_string()
}

fn page(stated: &BTreeMap<Name, String>, texts: &BTreeMap<String, BTreeSet<Name>>) -> String {
    let mut page =
        String::from("What is linked into the command and the wheel beside trimtab's own code.\n\n");
    let shown = |(name, version): &Name| format!("{name} {version}");
    for (name, licence) in stated {
        let has_text = texts.values().any(|names| names.contains(name));
        let note = if has_text { "" } else { " (its package has no text of it)" };
        page += &format!("{}: {licence}{note}\n", shown(name));
    }
    for (text, names) in texts {
        let names: Vec<String> = names.iter().map(shown).collect();
        page += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_packages_of_others_or_not() {
        let some = |name: &str, version: &str| Some((name.to_string(), version.to_string()));
        assert_eq!(package_of("ash v0.38.0+1.3.281 (*)"), some("ash", "0.38.0+1.3.281"));
        assert_eq!(package_of("syn v3.0.9"), some("syn", "3.0.9"));
        assert_eq!(package_of("thiserror-impl v2.0.1 (proc-macro)"), None);
        assert_eq!(package_of("trimtab v0.2.0 (/somewhere/trimtab)"), None);
        assert_eq!(package_of(""), None);
    }

    #[test]
    fn a_text_of_several_packages_is_there_once() {
        let name = |name: &str| (name.to_string(), "1.0.0".to_string());
        let stated = ["a", "b", "c"].map(|of| (name(of), "MIT".to_string()));
        let texts = [("Do what you like.".to_string(), BTreeSet::from([name("a"), name("b")]))];
        let page = page(&BTreeMap::from(stated), &BTreeMap::from(texts));
        assert_eq!(page.matches("Do what you like.").count(), 1);
        assert!(page.contains("\na 1.0.0, b 1.0.0\n\nDo what") && page.contains("a 1.0.0: MIT\n"), "{page}");
        assert!(page.contains("c 1.0.0: MIT (its package has no text of it)\n"), "{page}");
    }

    #[test]
    fn what_is_linked_here_is_found_with_its_texts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = licences(root).unwrap();
        for part in
            ["\nanyhow 1.", "\npyo3 0.", "\nwgpu 30.", "Permission is hereby granted", "Apache License"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("\ntrimtab") && !page.contains("\nproptest "), "{}", &page[..4000]);
    }
}
