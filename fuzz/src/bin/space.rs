//! A space file, in TOML, T1 or T4: read or refused with a reason, never a panic; what is read keeps its own rules.
#![no_main]

use trimtab::advanced::study::{Parameter, read_space};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match read_space(data) {
        Ok(space) => {
            for parameter in &space.parameters {
                let again = Parameter::new(&parameter.name, parameter.values.clone());
                assert!(again.is_ok(), "{parameter:?} is no parameter: {again:?}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // The same words on the command line.
    let _ = Parameter::parse(&String::from_utf8_lossy(data));
});
