//! What fuzz targets found, as segments: what they say, an export of them says too.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::sync::Arc;
use trimtab_wisdom::{Fact, Filter, Memory, Store, Verdict, Wisdom};

fn sealed(json: &str) -> String {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// What a store with one segment of these lines says.
fn opened(lines: &[&str]) -> Wisdom {
    let store = Memory::default();
    let text: String = lines.iter().map(|line| sealed(line)).collect();
    drop(store.create("seg-0123456789abcdef.jsonl", text.as_bytes()).unwrap());
    Wisdom::on(Arc::new(store))
}

fn all(wisdom: &Wisdom) -> (Vec<Fact>, Vec<Verdict>) {
    (wisdom.all_facts(), wisdom.verdicts())
}

/// What an export says elsewhere.
fn carried(wisdom: &Wisdom) -> (Vec<Fact>, Vec<Verdict>) {
    let elsewhere = Wisdom::in_memory();
    let export = wisdom.export(&Filter { all: true, ..Filter::default() });
    let report = elsewhere.import(&export, true).unwrap();
    assert_eq!(report.rejected, [], "{export}");
    all(&elsewhere)
}

const FACT: &str = r#"{"kind":"fact","device":"d","kernel":"k","problem":"p","n":3,"sum_ns":30.5,"sum_sq_ns":310.3,"min_ns":9.5,"at_ms":1690000000123}"#;

#[test]
fn facts_of_a_segment_that_names_no_origin_are_not_taken_for_those_of_whoever_exports_them() {
    let wisdom = opened(&[r#"{"trimtab":1,"created_ms":1690000000000}"#, FACT]);
    assert_eq!(wisdom.len(), 1);
    assert_eq!(carried(&wisdom), all(&wisdom));
    // The same segment under another name is still the same.
    let again = opened(&[r#"{"trimtab":1,"created_ms":1690000000000}"#, FACT]);
    assert_eq!(all(&again), all(&wisdom));
    assert_ne!(all(&opened(&[r#"{"trimtab":1,"created_ms":1690000000001}"#, FACT])), all(&wisdom));
}
