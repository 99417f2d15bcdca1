//! A T4 file, compressed or not: what is read is written as a file that says the same.
#![no_main]

use trimtab_replay::{T4Names, read_t4, write_t4};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for complete in [false, true] {
        let names = T4Names { complete, ..T4Names::default() };
        let Ok(read) = read_t4(data, &names) else { return };
        let recording = &read.recording;
        let _ = (recording.space(), recording.optimum_ms());
        for row in 0..recording.rows.len() {
            let _ = (recording.repeat_ms(row, 0), recording.repeat_ms(row, usize::MAX));
        }
        let written = write_t4(recording).to_string();
        let again = read_t4(written.as_bytes(), &T4Names::default());
        let again =
            again.unwrap_or_else(|error| panic!("what was written cannot be read: {error}\n{written}"));
        assert_eq!(again.recording.rows.len(), recording.rows.len());
        assert_eq!(again.recording.axes, recording.axes);
    }
});
