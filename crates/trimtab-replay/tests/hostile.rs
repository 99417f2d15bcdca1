//! Recordings from strangers: archives that unpack to anything, tables that are pipes or lie elsewhere, constraints without end.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::Path;
use trimtab_replay::{
    MAX_INDEX_BYTES, MAX_T4_BYTES, MAX_TABLE_BYTES, Recording, SameName, T4Names, WriteError, add_recording,
    list_recordings, read_recordings, read_t4, write_recordings,
};

/// So many zeros or spaces, packed a thousandfold.
fn packed(byte: u8, bytes: u64) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut std::io::repeat(byte).take(bytes), &mut encoder).unwrap();
    encoder.finish().unwrap()
}

fn recording() -> Recording {
    let text = json!({"results": [{"configuration": {"a": 1}, "times": {"runtimes": [1.0]}}]}).to_string();
    read_t4(text.as_bytes(), &T4Names::default()).unwrap().recording
}

/// A directory with one recording, and the path of its table.
fn written() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    write_recordings(dir.path(), &[recording()]).unwrap();
    let table = dir.path().join("spaces/imported__unknown.csv.gz");
    assert!(table.exists());
    (dir, table)
}

fn refused(dir: &Path) -> String {
    read_recordings(dir, &[]).unwrap_err().to_string()
}

#[test]
fn archives_are_unpacked_up_to_a_limit_and_the_error_says_what_to_do() {
    let bomb = packed(b' ', MAX_T4_BYTES + 1);
    assert!((bomb.len() as u64) < MAX_T4_BYTES / 100);
    let error = read_t4(&bomb, &T4Names::default()).unwrap_err().to_string();
    assert!(error.contains("at most 134217728 bytes are read; give a part of it"), "{error}");
    // One byte less is looked at, and is not JSON.
    let error = read_t4(&packed(b' ', MAX_T4_BYTES), &T4Names::default()).unwrap_err().to_string();
    assert!(error.contains("not JSON"), "{error}");
    let (dir, table) = written();
    std::fs::write(&table, packed(b'x', MAX_TABLE_BYTES + 1)).unwrap();
    let error = refused(dir.path());
    assert!(
        error.contains("imported__unknown.csv.gz") && error.contains("at most 268435456 bytes"),
        "{error}"
    );
}

#[test]
fn an_index_or_a_table_that_is_too_large_or_no_text_is_refused() {
    let (dir, table) = written();
    std::fs::write(&table, packed(0xff, 9)).unwrap();
    assert!(refused(dir.path()).contains("cannot be read"));
    let index = std::fs::File::options().write(true).open(dir.path().join("index.json")).unwrap();
    index.set_len(MAX_INDEX_BYTES + 1).unwrap();
    assert!(refused(dir.path()).contains("at most 67108864 bytes are read"), "{}", refused(dir.path()));
    assert!(list_recordings(dir.path()).is_err());
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_tables_elsewhere_are_refused() {
    let (dir, table) = written();
    let pipe =
        |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    std::fs::remove_file(&table).unwrap();
    pipe(&table);
    assert!(refused(dir.path()).contains("not a regular file"), "{}", refused(dir.path()));
    std::fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &table).unwrap();
    assert!(refused(dir.path()).contains("not a regular file"), "{}", refused(dir.path()));
    let index = dir.path().join("index.json");
    let mut entries: Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    for elsewhere in ["/etc/passwd", "../../secret.csv.gz", "spaces/../../x", ""] {
        entries[0]["csv"] = json!(elsewhere);
        std::fs::write(&index, entries.to_string()).unwrap();
        let error = refused(dir.path());
        assert!(error.contains("not in this directory"), "{error}");
    }
    std::fs::remove_file(&index).unwrap();
    pipe(&index);
    assert!(refused(dir.path()).contains("not a regular file"));
    assert!(matches!(write_recordings(dir.path(), &[recording()]), Err(WriteError::Index(_))));
}

#[test]
fn a_constraint_of_two_hundred_thousand_terms_is_refused_wherever_it_is_read() {
    let long = vec!["a == 1"; 200_000].join(" and ");
    let text = json!({"results": [{"configuration": {"a": 1}, "times": {"runtimes": [1.0]}}],
                      "metadata": {"constraints": [long]}});
    let error = read_t4(text.to_string().as_bytes(), &T4Names::default()).unwrap_err().to_string();
    assert!(error.contains("more than 4096 terms"), "{error}");
    let (dir, _) = written();
    let index = dir.path().join("index.json");
    let mut entries: Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    entries[0]["constraints"] = json!([long]);
    std::fs::File::create(&index).unwrap().write_all(entries.to_string().as_bytes()).unwrap();
    assert!(refused(dir.path()).contains("more than 4096 terms"));
    // Nested JSON is the parser's to refuse.
    let nested = "[".repeat(200_000);
    assert!(read_t4(nested.as_bytes(), &T4Names::default()).unwrap_err().to_string().contains("not JSON"));
}

#[test]
fn a_recording_of_a_name_that_is_taken_is_numbered_refused_or_put_in_its_place() {
    let (dir, _) = written();
    let add = |same| add_recording(dir.path(), &recording(), same);
    assert_eq!(add(SameName::IsNumbered).unwrap(), "imported__unknown_2");
    assert_eq!(add(SameName::IsNumbered).unwrap(), "imported__unknown_3");
    assert!(matches!(add(SameName::IsRefused), Err(WriteError::Exists { .. })));
    assert_eq!(add(SameName::Replaces).unwrap(), "imported__unknown");
    assert_eq!(list_recordings(dir.path()).unwrap().len(), 3);
    // Several at once get a name each.
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(|| add(SameName::IsNumbered).unwrap()))));
    assert_eq!(list_recordings(dir.path()).unwrap().len(), 11);
    assert_eq!(read_recordings(dir.path(), &[]).unwrap().len(), 11);
}
