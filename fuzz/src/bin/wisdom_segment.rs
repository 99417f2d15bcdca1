//! A segment of wisdom as a whole, in a store and as an import: reading it twice says the same, and an export of it is taken in whole.
#![no_main]

use std::sync::Arc;
use trimtab::advanced::wisdom::{Filter, Memory, Store, Wisdom};

const NAME: &str = "seg-0123456789abcdef.jsonl";

/// Lines that begin as JSON get the right checksum: no fuzzer guesses one.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"{") {
            let json = line.strip_suffix(b"\n").unwrap_or(line);
            text.extend(format!("{:08x} ", crc32fast::hash(json)).bytes());
        }
        text.extend(line);
    }
    text
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = sealed(data);
    let store = Memory::default();
    drop(store.create(NAME, &text).expect("a store that is empty takes a segment"));
    let wisdom = Wisdom::on(Arc::new(store.clone()));
    let all = |wisdom: &Wisdom| {
        let mut facts: Vec<String> = wisdom.all_facts().iter().map(|fact| format!("{fact:?}")).collect();
        facts.sort();
        facts
    };
    let (facts, verdicts) = (all(&wisdom), wisdom.verdicts());
    wisdom.reload();
    assert_eq!((all(&wisdom), wisdom.verdicts()), (facts.clone(), verdicts.clone()), "read again");
    let _ = (wisdom.warnings(), wisdom.deaths());

    // An export holds everything that counts, and nothing that is refused.
    let elsewhere = Wisdom::in_memory();
    let export = wisdom.export(&Filter { all: true, ..Filter::default() });
    let report = elsewhere.import(&export, true).unwrap_or_else(|error| panic!("{error}\n{export}"));
    assert_eq!(report.rejected, [], "{export}");
    assert_eq!((all(&elsewhere), elsewhere.verdicts()), (facts.clone(), verdicts.clone()), "{export}");

    // Compacting says nothing else.
    wisdom.compact();
    let compacted = Wisdom::on(Arc::new(store));
    assert_eq!((all(&compacted), compacted.verdicts()), (facts, verdicts), "compacted");

    // A text may also be imported as it is.
    let _ = Wisdom::in_memory().import(&String::from_utf8_lossy(&text), true);
});
