//! A problem's text: what is read is written as text that means the same.
#![no_main]

use trimtab::Problem;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = trimtab_fuzz::text(data);
    let Ok(problem) = Problem::parse(text) else { return };
    let written = problem.to_string();
    assert_eq!(Problem::parse(&written), Ok(problem), "{text} was written as {written}");
    // Whatever may be asked of a problem can be asked of every problem.
    let _ = (
        problem.operand_bytes(),
        problem.flops(),
        problem.operation(),
        trimtab::advanced::plan::family_of(&problem),
    );
    let _ = trimtab::Class::calibrated(&problem);
});
