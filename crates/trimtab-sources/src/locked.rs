//! The versions of the crates a build goes by.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The version of our crates, all of them.
pub(crate) const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The versions in the lock file of whoever builds, else in the one this crate came with, by the crates' names in paths; several
/// versions of a crate together. Lock files are looked for upwards from `starts`, and know the crate called `"name"`.
pub(crate) fn locked_versions(name: &str, starts: [&Path; 2]) -> (BTreeMap<String, String>, Vec<PathBuf>) {
    let starts = starts.into_iter().filter_map(|start| start.canonicalize().ok()).collect::<Vec<_>>();
    let mut locks = starts.iter().flat_map(|start| start.ancestors()).map(|dir| dir.join("Cargo.lock"));
    let known = |lock: PathBuf| {
        let text = fs::read_to_string(&lock).ok()?;
        text.lines().any(|line| line.strip_prefix("name = ") == Some(name)).then_some((text, lock))
    };
    let Some((text, lock)) = locks.find_map(known) else { return (BTreeMap::new(), Vec::new()) };
    let mut versions = BTreeMap::<String, String>::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("name = ") {
            name = found.trim_matches('"').replace('-', "_");
        } else if let Some(version) = line.strip_prefix("version = ").filter(|_| !name.is_empty()) {
            let known = versions.entry(name.clone()).or_default();
            known.push_str(if known.is_empty() { "" } else { "," });
            known.push_str(version.trim_matches('"'));
        }
    }
    (versions, vec![lock])
}
