//! A directory of recordings: an index, a table of rows and one of repeats. What is read is written as a directory that says the same.
#![no_main]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use trimtab_fuzz::{parts, place, put};
use trimtab_replay::{list_recordings, read_recordings, write_recordings};

/// The most combinations of settings that are counted.
const COUNTED: u64 = 10_000;

static READ: LazyLock<PathBuf> = LazyLock::new(|| place("recording"));
static WRITTEN: LazyLock<PathBuf> = LazyLock::new(|| place("recording-written"));

fn put_table(path: &Path, text: &[u8]) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    let packed = encoder.write_all(text).and_then(|()| encoder.finish());
    put(path, &packed.expect("memory takes what is written"));
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [index, rows, repeats] = parts(data);
    // The index names its tables; those it names otherwise are not there.
    put(&READ.join("index.json"), index);
    put_table(&READ.join("r.csv.gz"), rows);
    put_table(&READ.join("s.csv.gz"), repeats);
    let _ = list_recordings(&READ);
    let Ok(read) = read_recordings(&READ, &[]) else { return };
    for recording in &read {
        let _ = (recording.space(), recording.optimum_ms());
        if recording.combinations().is_some_and(|all| all <= COUNTED) {
            let _ = recording.count_legal();
        }
        for row in 0..recording.rows.len() {
            let _ = (recording.repeat_ms(row, 0), recording.repeat_ms(row, usize::MAX));
        }
        // Counting legal points for the index is bounded, but takes too long here.
        if recording.combinations().is_none_or(|all| all <= COUNTED)
            && write_recordings(&WRITTEN, std::slice::from_ref(recording)).is_ok()
        {
            let again = read_recordings(&WRITTEN, &[&recording.name]);
            let again = again.unwrap_or_else(|error| panic!("what was written cannot be read: {error}"));
            assert_eq!(again[0].rows.len(), recording.rows.len());
            assert_eq!(again[0].axes, recording.axes);
            let _ = std::fs::remove_file(WRITTEN.join("index.json"));
        }
    }
});
