//! What a process left that died in a live call: a file in wisdom's directory.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use trimtab::advanced::cpu::Running;
use trimtab_fuzz::{APART, place, put};

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| place("running"));

/// The file's form (`crates/trimtab-cpu/src/running.rs`): numbers of the process and of each thread, then texts.
const THREADS: usize = 256;
const LINE: usize = 8;
const KIND_IS: u64 = 0x7472_696d_7461_6202;
const TEXT_BYTES: usize = 512;

/// A file made of a short input: the signal of the process, entry and signal of threads, then texts.
fn file(data: &[u8]) -> Vec<u8> {
    let mut parts = data.split(|byte| *byte == APART);
    let said = parts.next().unwrap_or_default();
    let mut numbers = vec![0u64; (1 + THREADS) * LINE];
    (numbers[0], numbers[1]) = (said.first().copied().unwrap_or(0).into(), KIND_IS);
    let threads = numbers[LINE..].iter_mut().step_by(LINE);
    for (number, pair) in threads.zip(said.get(1..).unwrap_or_default().chunks_exact(2)) {
        *number = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    for text in parts {
        let from = bytes.len();
        bytes.extend(&text[..text.len().min(TEXT_BYTES)]);
        bytes.resize(from + TEXT_BYTES, 0);
    }
    bytes
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = PLACE.join("running-0123456789abcdef");
    for bytes in [data, &file(data)] {
        put(&path, bytes);
        for ran in Running::left_by_the_dead(&path).ok().flatten().into_iter().flatten() {
            assert!(!ran.text.is_empty() && ran.signal > 0, "{ran:?}");
        }
    }
});
