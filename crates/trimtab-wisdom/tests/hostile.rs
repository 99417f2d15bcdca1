//! What may lie in a directory that is not ours: pipes, devices, files of others, times to come. And who may read what we write.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_wisdom::{FactKey, Filter, Outcome, Stats, WarningKind, Wisdom};

fn key(kernel: &str) -> FactKey {
    FactKey { device: "cpu".into(), kernel: kernel.into(), problem: "p".into(), ..FactKey::default() }
}

fn timed() -> Outcome {
    Outcome::Timed(Stats::single(1.0))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

fn only_blob(dir: &Path) -> PathBuf {
    files(&dir.join("blobs")).remove(0)
}

/// A line with that time, as a segment or an export holds it.
fn line(kind: &str, rest: &str, at_ms: u64) -> String {
    let json = format!(r#"{{"kind":"{kind}",{rest},"at_ms":{at_ms}}}"#);
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

fn fact_at(kernel: &str, at_ms: u64) -> String {
    let times = r#""n":1,"sum_ns":5.5,"sum_sq_ns":30.25,"min_ns":5.5"#;
    line("fact", &format!(r#""device":"cpu","kernel":"{kernel}","problem":"p",{times}"#), at_ms)
}

fn header() -> String {
    let json = r#"{"trimtab":1,"origin":"elsewhere","created_ms":1790000000000}"#;
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// The last day a line may have.
const YEAR_9999: u64 = 253_402_300_700_000;
const DAY_MS: u64 = 24 * 3600 * 1000;

#[test]
fn what_is_written_is_for_its_owner_alone_and_a_directory_of_a_version_before_becomes_so() {
    let place = tempfile::tempdir().unwrap();
    for before in [None, Some(0o755)] {
        let dir = place.path().join(format!("{before:?}"));
        if let Some(before) = before {
            fs::create_dir(&dir).unwrap();
            fs::create_dir(dir.join("blobs")).unwrap();
            [dir.clone(), dir.join("blobs")].iter().for_each(|dir| allow(dir, before));
        }
        let wisdom = Wisdom::open(&dir);
        wisdom.record(key("a"), timed());
        wisdom.keep_blob("built", b"kernels").unwrap();
        drop(wisdom);
        Wisdom::open(&dir).record(key("b"), timed());
        Wisdom::open(&dir).compact();
        assert_eq!((mode(&dir), mode(&dir.join("blobs"))), (0o700, 0o700));
        let all = files(&dir).into_iter().chain(files(&dir.join("blobs")));
        all.for_each(|file| assert_eq!(mode(&file), 0o600, "{}", file.display()));
        let wisdom = Wisdom::open(&dir);
        assert_eq!((wisdom.len(), wisdom.blob("built").is_some(), wisdom.warnings()), (2, true, vec![]));
    }
}

#[test]
fn a_directory_that_is_shared_on_purpose_stays_so_and_its_readers_can_read() {
    for shared in [0o2770, 0o2755, 0o1777] {
        let dir = tempfile::tempdir().unwrap();
        allow(dir.path(), shared);
        let wisdom = Wisdom::open(dir.path());
        wisdom.record(key("a"), timed());
        wisdom.flush();
        assert_eq!(mode(dir.path()), shared);
        for file in files(dir.path()) {
            // The umask of whoever runs the tests may take more away; nobody else may ever write.
            assert_eq!(mode(&file) & !(0o600 | shared & 0o044), 0, "{:o}", mode(&file));
        }
    }
}

#[test]
fn a_blob_that_somebody_else_can_have_written_is_not_handed_out_and_the_warning_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.keep_blob("built", b"kernels").unwrap();
    let blob = only_blob(dir.path());
    for loose in [0o620, 0o602, 0o666] {
        allow(&blob, loose);
        let wisdom = Wisdom::open(dir.path());
        assert_eq!(wisdom.blob("built"), None, "{loose:o}");
        let warnings = wisdom.warnings();
        assert_eq!(warnings[0].kind, WarningKind::Unreadable);
        let message = &warnings[0].message;
        assert!(message.contains(&format!("mode {loose:o}")) && message.contains("chmod go-w"), "{message}");
    }
    allow(&blob, 0o644);
    assert_eq!(Wisdom::open(dir.path()).blob("built").as_deref(), Some(&b"kernels"[..]));
    // Only root can give a file away.
    if std::os::unix::fs::chown(&blob, Some(65534), None).is_ok() {
        let wisdom = Wisdom::open(dir.path());
        assert_eq!(wisdom.blob("built"), None);
        assert!(wisdom.warnings()[0].message.contains("belongs to user 65534"), "{}", wisdom.warnings()[0]);
        // Keeping it again puts one of ours in its place.
        wisdom.keep_blob("built", b"anew").unwrap();
        assert_eq!(Wisdom::open(dir.path()).blob("built").as_deref(), Some(&b"anew"[..]));
    }
}

#[test]
fn pipes_and_devices_in_place_of_blobs_and_segments_are_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.keep_blob("built", b"kernels").unwrap();
    let blob = only_blob(dir.path());
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    pipe(&dir.path().join("seg-pipe.jsonl"));
    symlink("/dev/zero", dir.path().join("seg-zero.jsonl")).unwrap();
    for what in ["pipe", "zero", "folder", "large"] {
        fs::remove_file(&blob).or_else(|_| fs::remove_dir(&blob)).unwrap();
        match what {
            "pipe" => pipe(&blob),
            "zero" => symlink("/dev/zero", &blob).unwrap(),
            "folder" => fs::create_dir(&blob).unwrap(),
            // It takes no room, and nobody would want to read it.
            _ => fs::File::create(&blob).unwrap().set_len(1 << 40).unwrap(),
        }
        let wisdom = Wisdom::open(dir.path());
        assert_eq!((wisdom.blob("built"), wisdom.has_blob("built")), (None, true), "{what}");
        assert!(wisdom.warnings().iter().all(|warning| warning.kind == WarningKind::Unreadable));
        assert_eq!(wisdom.warnings().len(), 3, "{what}: {:?}", wisdom.warnings());
        wisdom.record(key(what), timed());
        assert_eq!(wisdom.compact().error, None);
    }
    assert_eq!(Wisdom::open(dir.path()).len(), 4);
}

#[test]
fn an_import_from_the_year_9999_is_forgotten_like_any_other_and_what_comes_after_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    let verdict = r#""device":"cpu","kernel":"k","problem":"p","terms":"t","candidates":"00""#;
    let text = header() + &fact_at("k", YEAR_9999) + &line("verdict", verdict, YEAR_9999);
    assert_eq!(wisdom.import(&text, true).unwrap().new, 2);
    assert!(wisdom.all_facts()[0].last_seen_ms <= wisdom.now_ms());
    assert_eq!(wisdom.forget(&Filter::everything()), 2);
    wisdom.record(key("k"), timed());
    drop(wisdom);
    let wisdom = Wisdom::open(dir.path());
    assert_eq!((wisdom.len(), wisdom.verdicts().len(), wisdom.warnings()), (1, 0, vec![]));
    let until = wisdom.now_ms() + 2 * DAY_MS;
    assert!(wisdom.all_facts()[0].last_seen_ms < until);
}

#[test]
fn lines_of_days_to_come_say_nothing_yet_and_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let now_ms = Wisdom::in_memory().now_ms();
    let forget = line("forget", r#""filter":{"all":true}"#, YEAR_9999);
    let text = [
        header(),
        fact_at("now", now_ms),
        fact_at("soon", now_ms + DAY_MS / 2),
        fact_at("9999", YEAR_9999),
        forget,
    ];
    let path = dir.path().join("seg-ahead.jsonl");
    fs::write(&path, text.concat()).unwrap();
    Wisdom::open(dir.path()).record(key("after"), timed());
    let wisdom = Wisdom::open(dir.path());
    let kernels: Vec<String> = wisdom.all_facts().into_iter().map(|fact| fact.key.kernel).collect();
    assert_eq!(kernels, ["after", "now", "soon"]);
    assert_eq!(wisdom.warnings().len(), 1, "{:?}", wisdom.warnings());
    assert!(
        wisdom.warnings()[0].message.contains("2 lines dated more than a day ahead"),
        "{}",
        wisdom.warnings()[0]
    );
    assert_eq!(wisdom.forget(&Filter::everything()), 3);
    wisdom.record(key("later"), timed());
    // A clock that is wrong today costs nothing: what looks like days to come stays where it is.
    wisdom.compact();
    assert_eq!(fs::read_to_string(&path).unwrap(), text.concat());
    drop(wisdom);
    let again = Wisdom::open(dir.path());
    assert_eq!(again.all_facts().iter().map(|fact| &*fact.key.kernel).collect::<Vec<_>>(), ["later"]);
}
