//! A profile file, as `trimtab calibrate --from` takes it: decisions can be made with whatever is taken.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use trimtab::Runtime;
use trimtab::advanced::plan::calibration::Calibration;
use trimtab_fuzz::{place, put};

// The command is a program, so its parser is built here once more, with what it uses of the rest of the command.
#[path = "../../../crates/trimtab-cli/src/commands/calibrate/import.rs"]
mod import;

mod failure {
    pub fn bad_input(why: impl Into<String>) -> anyhow::Error {
        anyhow::Error::msg(why.into())
    }
}

mod output {
    pub fn time(ns: f64) -> String {
        format!("{ns} ns")
    }
}

mod session {
    pub fn warn(_: &str) {}
}

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| place("profile"));
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::builder().wisdom_in_memory().build().expect("there is a processor"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = PLACE.join("profile.json");
    put(&path, data);
    let Ok(samples) = import::read(&path) else { return };
    let Ok(times) = import::times(&RUNTIME, &samples) else { return };
    for times in times {
        let steps = times.steps.values().flatten();
        assert!(steps.flat_map(|step| &step.ns).all(|ns| *ns > 0.0 && ns.is_finite()), "{times:?}");
        let _ = Calibration::new(vec![Some(times.clone()), Some(times)], 0);
    }
});
