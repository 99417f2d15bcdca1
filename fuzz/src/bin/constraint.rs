//! A constraint of a recorded space: read once, evaluated at several points, the same each time.
#![no_main]

use trimtab_replay::Expression;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = trimtab_fuzz::text(data);
    let axes = ["a".to_string(), "b".to_string(), "tile".to_string()];
    let fixed = [("max_threads".to_string(), 1024.0), ("none".to_string(), f64::NAN)];
    let Ok(read) = Expression::parse(text, &axes, &fixed) else { return };
    assert_eq!(read.text(), text);
    for values in [&[0, 0, 0][..], &[1, 2, 32], &[u32::MAX; 3], &[7], &[]] {
        assert_eq!(read.holds(values), read.holds(values));
    }
});
