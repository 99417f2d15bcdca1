//! Small files of `/proc` and `/sys` under a root that tests can move. Damaged or missing contents read as absent.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// Most bytes read of one file; `/proc/cpuinfo` of 512 hardware threads takes 900 KiB.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// Most entries looked at in one folder.
const MAX_ENTRIES: usize = 4096;

/// The text of a file, without white space around it; absent if it is empty.
pub(super) fn text(root: &Path, path: &str) -> Option<String> {
    let file = File::open(root.join(path)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The number a file consists of.
pub(super) fn number<T: FromStr>(root: &Path, path: &str) -> Option<T> {
    text(root, path)?.parse().ok()
}

/// The entries of a folder that are `prefix` and a number, in the order of the numbers.
pub(super) fn numbered(root: &Path, folder: &str, prefix: &str) -> Vec<String> {
    let numbered = |path: String| {
        let number = path[folder.len() + 1..].strip_prefix(prefix)?.parse().ok()?;
        Some((number, path))
    };
    let mut found: Vec<(u32, String)> = entries(root, folder).into_iter().filter_map(numbered).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

/// All entries of a folder, sorted.
pub(super) fn entries(root: &Path, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .take(MAX_ENTRIES)
        .filter_map(|entry| Some(format!("{folder}/{}", entry.ok()?.file_name().into_string().ok()?)))
        .collect();
    found.sort_unstable();
    found
}

/// The value of `key` in lines of `key: value` or `key value`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start();
        let value = rest.strip_prefix(':').unwrap_or(rest).trim();
        // `cpu` must not find `cpu cores`: a key ends at a colon, or the text has no colons at all.
        (rest.starts_with(':') || !line.contains(':')).then_some(value)
    })
}

/// A field of `/proc/meminfo`, in bytes.
pub(super) fn meminfo(root: &Path, key: &str) -> Option<u64> {
    let text = text(root, "proc/meminfo")?;
    let kib: u64 = field(&text, key)?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A file of the memory control group this process is in, in bytes; absent for `max`.
pub(super) fn cgroup_memory(root: &Path, file: &str) -> Option<u64> {
    let groups = text(root, "proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("");
    // Inside a container the group is mounted as the root, whatever it is called outside.
    [format!("sys/fs/cgroup/{own}/{file}"), format!("sys/fs/cgroup/{file}")]
        .iter()
        .find_map(|path| number(root, path))
}

/// How many numbers a list like `0-3,8,10-11` names.
pub(super) fn list_len(list: &str) -> Option<u32> {
    let mut count = 0u32;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted_and_damaged_ones_are_absent() {
        assert_eq!(list_len("0-3,8,10-11\n"), Some(7));
        for damaged in ["", "x", "3-1", "0-", "0-4294967295"] {
            assert_eq!(list_len(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_key_is_found_whole() {
        let text = "cpu cores\t: 4\ncpu MHz : 2000.5\nmodel name : A: B\nmodel : 17";
        assert_eq!(field(text, "cpu MHz"), Some("2000.5"));
        assert_eq!(field(text, "model"), Some("17"));
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "cpu"), None);
    }
}
