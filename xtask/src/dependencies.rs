//! What the project may depend on (deny.toml): licences, sources, requirements; versions that occur twice are listed.
//!
//! Reads `cargo metadata`, so that a fresh machine need not build `cargo deny` first. Where that is installed it runs too, and looks at
//! more: the texts of licences.

mod licences;

use crate::cargo;
use anyhow::{Context, Result, bail};
use licences::allows;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The workspaces of the project: what is published, fuzz targets, what builds the book, and who is measured beside us.
const MANIFESTS: [&str; 4] = ["Cargo.toml", "fuzz/Cargo.toml", "book/Cargo.toml", "partners/Cargo.toml"];

/// The lists of deny.toml that are read here.
#[derive(Debug, Default, PartialEq)]
struct Policy {
    licences: Vec<String>,
    /// Licences that one crate alone may have.
    exceptions: Vec<(String, Vec<String>)>,
    registries: Vec<String>,
    /// The oldest compiler that is promised for what is published, which is `rust-version` in Cargo.toml.
    rust: Option<String>,
}

pub fn check(root: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml says what is allowed")?;
    let mut policy = policy(&text)?;
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    policy.rust = Some(oldest(&manifest).context("Cargo.toml has no line `rust-version`")?.to_string());
    let (mut problems, mut twice, mut count) = (Vec::new(), BTreeSet::new(), 0);
    for manifest in MANIFESTS {
        let packages = packages(root, manifest)?;
        count += packages.len();
        packages.iter().for_each(|package| look_at(package, &policy, &mut problems));
        twice.extend(repeated(&packages));
        // The other workspaces are for those who work on the project.
        policy.rust = None;
    }
    for line in &twice {
        println!("more than one version: {line}");
    }
    if !problems.is_empty() {
        problems.sort();
        problems.dedup();
        bail!("dependencies against deny.toml:\n  {}", problems.join("\n  "));
    }
    println!("dependencies: {count} packages in order, {} of them in more than one version", twice.len());
    let deny = Command::new(env!("CARGO")).args(["deny", "--version"]).output();
    if deny.is_ok_and(|output| output.status.success()) {
        return cargo(root, &["deny", "check", "licenses", "bans", "sources"]);
    }
    Ok(())
}

fn packages(root: &Path, manifest: &str) -> Result<Vec<Value>> {
    let words = ["metadata", "--format-version", "1", "--all-features", "--manifest-path", manifest];
    let output = Command::new(env!("CARGO")).args(words).current_dir(root).output()?;
    if !output.status.success() {
        bail!("cargo {} failed:\n{}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    let mut metadata: Value = serde_json::from_slice(&output.stdout)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata names no packages"),
    }
}

/// What of a package is against the policy.
fn look_at(package: &Value, policy: &Policy, problems: &mut Vec<String>) {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_string();
    let (name, version) = (text(package, "name"), text(package, "version"));
    match package["source"].as_str().map(|source| source.split_once('+').unwrap_or(("", source))) {
        // A part of the project.
        None => {}
        Some(("registry" | "sparse", place)) if policy.registries.iter().any(|known| known == place) => {}
        Some((kind, _)) => {
            problems.push(format!("{name} {version} comes from a source ({kind}) that is not allowed"))
        }
    }
    let licence = text(package, "license");
    let own = policy.exceptions.iter().filter(|(known, _)| *known == name).flat_map(|(_, licences)| licences);
    let allowed: Vec<&str> = policy.licences.iter().chain(own).map(String::as_str).collect();
    if !allows(&licence, &allowed) {
        problems.push(format!("{name} {version} has the licence `{licence}`, which is not allowed"));
    }
    if let (Some(needs), Some(promised)) = (package["rust_version"].as_str(), &policy.rust)
        && is_newer(needs, promised)
    {
        problems.push(format!("{name} {version} needs Rust {needs}, and we promise {promised}"));
    }
    // Requirements are ours to write; those of others are in Cargo.lock.
    let is_private = package["publish"].as_array().is_some_and(Vec::is_empty);
    let ours = package["source"].is_null();
    for dependency in package["dependencies"].as_array().into_iter().flatten().filter(|_| ours) {
        let of_path = dependency["source"].is_null() && (is_private || dependency["kind"] == "dev");
        if dependency["req"] == "*" && !of_path {
            problems.push(format!("{name} takes any version of {}", text(dependency, "name")));
        }
    }
}

/// The oldest compiler that a manifest promises.
pub fn oldest(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(line.trim().trim_matches('"'))
}

/// Whether a version of the compiler is newer than another.
fn is_newer(version: &str, than: &str) -> bool {
    let parts = |version: &str| -> Vec<u32> {
        let mut parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect();
        parts.resize(3, 0);
        parts
    };
    parts(version) > parts(than)
}

/// Packages of which there are several versions.
fn repeated(packages: &[Value]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let (name, version) = (package["name"].as_str(), package["version"].as_str());
        versions.entry(name.unwrap_or_default()).or_default().extend(version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| format!("{name} {}", Vec::from_iter(versions).join(", "))).collect()
}

/// Reads the lists of deny.toml: each on one line, as they are written there.
fn policy(text: &str) -> Result<Policy> {
    let line = |section: &str, key: &str| {
        let mut lines = text.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
        let mut own = lines.by_ref().take_while(|line| !line.starts_with('['));
        let found = own.find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        found.with_context(|| format!("deny.toml has no line `{key}` in [{section}]"))
    };
    let names = |list: &str| list.split('"').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
    let mut exceptions = Vec::new();
    for entry in line("licenses", "exceptions")?.split('{').skip(1) {
        if let [name, licences @ ..] = &names(entry)[..] {
            exceptions.push((name.clone(), licences.to_vec()));
        }
    }
    let policy = Policy {
        licences: names(line("licenses", "allow")?),
        exceptions,
        registries: names(line("sources", "allow-registry")?),
        rust: None,
    };
    if policy.licences.is_empty() || policy.registries.is_empty() {
        bail!("deny.toml allows nothing: its lists stand on one line each");
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = r#"
[licenses]
allow = ["MIT", "Zlib"]
exceptions = [{ crate = "odd", allow = ["NCSA"] }]
[sources]
allow-registry = ["https://example.invalid/index"]
"#;

    fn problems_of(package: Value) -> Vec<String> {
        let mut problems = Vec::new();
        let policy = Policy { rust: Some("1.89".to_string()), ..policy(TEXT).unwrap() };
        look_at(&package, &policy, &mut problems);
        problems
    }

    #[test]
    fn each_rule_can_be_broken() {
        let good = json!({"name": "a", "version": "1.0.0", "license": "MIT", "source": "registry+https://example.invalid/index"});
        assert_eq!(problems_of(good.clone()), Vec::<String>::new());
        let odd = json!({"name": "odd", "version": "1.0.0", "license": "MIT AND NCSA", "source": null});
        assert_eq!(problems_of(odd), Vec::<String>::new());
        assert!(is_newer("1.90", "1.89.2") && !is_newer("1.89.0", "1.89") && !is_newer("1.9", "1.89"));
        let with = |key: &str, value: Value| {
            let mut package = good.clone();
            package[key] = value;
            problems_of(package)
        };
        let wild = json!([{"name": "b", "req": "*", "kind": null, "source": null}]);
        for (problems, part) in [
            (with("source", json!("git+https://example.invalid/a")), "a source (git)"),
            (with("source", json!("registry+https://example.invalid/other")), "a source (registry)"),
            (with("license", json!("NCSA")), "`NCSA`, which is not allowed"),
            (with("license", json!(null)), "``, which is not allowed"),
            (with("rust_version", json!("1.89.1")), "a 1.0.0 needs Rust 1.89.1, and we promise 1.89"),
            (problems_of(json!({"name": "a", "license": "MIT", "dependencies": wild})), "any version of b"),
        ] {
            assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
        }
        let private = json!({"name": "a", "license": "MIT", "publish": [], "dependencies": wild});
        assert_eq!(problems_of(private), Vec::<String>::new());
    }

    #[test]
    fn the_projects_own_lists_are_read() {
        let text = include_str!("../../deny.toml");
        let policy = policy(text).unwrap();
        assert!(policy.licences.iter().any(|licence| licence == "MIT"));
        assert!(policy.exceptions.contains(&("libfuzzer-sys".to_string(), vec!["NCSA".to_string()])));
        assert_eq!(policy.registries.len(), 1);
        assert!(super::policy("[licenses]\n").is_err());
    }

    #[test]
    fn versions_that_occur_twice_are_listed() {
        let package = |name: &str, version: &str| json!({"name": name, "version": version});
        let all =
            [package("a", "1.0.0"), package("b", "1.0.0"), package("a", "2.0.0"), package("b", "1.0.0")];
        assert_eq!(repeated(&all), ["a 1.0.0, 2.0.0"]);
    }
}
