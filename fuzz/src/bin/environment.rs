//! The values of `TRIMTAB_*` variables, a line each: `NAME=VALUE`, or a value for each variable in the order of the list.
#![no_main]

use trimtab::VARIABLES;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = trimtab_fuzz::text(data);
    let named = |line: (usize, &str)| match line.1.split_once('=') {
        Some((name, value)) => (format!("TRIMTAB_{name}"), value.to_string()),
        None => (VARIABLES[line.0 % VARIABLES.len()].0.to_string(), line.1.to_string()),
    };
    let said: Vec<(String, String)> = text.lines().take(VARIABLES.len()).enumerate().map(named).collect();
    let lookup = |name: &str| {
        let found = said.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        found.filter(|value| !value.trim().is_empty())
    };
    if let Err(error) = trimtab::fuzzing::environment(&lookup) {
        // People read it, so it names the variable.
        assert!(error.to_string().contains("TRIMTAB_"), "{error}");
    }
});
