//! A line of wisdom: both parsers read the same or one leaves it to the other, and what is read is written as a line that says the same.
#![no_main]

use trimtab::advanced::wisdom::fuzzing::{Readings, readings};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let json = trimtab_fuzz::text(data);
    let Readings { quick, long, again } = readings(json);
    if let Some(quick) = quick {
        assert_eq!(Ok(&quick), long.as_ref(), "the two parsers differ");
    }
    if let Some(again) = again {
        assert_eq!(again, long, "written and read again");
    }
});
