//! The environment: read here and nowhere else, once, when a runtime is built. Wrong values are errors that list the right ones.

use crate::error::Error;
use std::path::PathBuf;
use trimtab_core::{Nanos, Patience};
use trimtab_cpu::Isolation;
use trimtab_plan::learn::ModelChoice;
use trimtab_plan::{Class, KernelRules, Offload, StrategyName, TuneMode};

/// Every variable trimtab reads, with what it does.
pub const VARIABLES: [(&str, &str); 26] = [
    ("TRIMTAB_TUNE", "effort for a new problem: off, estimate, measure, exhaustive, or a search strategy"),
    (
        "TRIMTAB_MODEL",
        "what decides about problems nobody measured: auto, or a model by name (`trimtab models` lists them)",
    ),
    ("TRIMTAB_BUDGET", "foreground time a new problem may cost: 40ms, 2s"),
    ("TRIMTAB_DEVICE", "the device to use: cpu, gpu, gpu0, part of a name, or auto"),
    ("TRIMTAB_OFFLOAD", "whether GPUs are used at all: auto, or off, which looks for none"),
    (
        "TRIMTAB_THRESHOLD_UNARY",
        "elements from which on a unary operation or a cast runs on a GPU, below on the processor",
    ),
    ("TRIMTAB_THRESHOLD_ELEMENTWISE", "the same for two operands, a chain, comparisons, concat and put"),
    ("TRIMTAB_THRESHOLD_REDUCTION", "the same for reductions, argmin and argmax"),
    ("TRIMTAB_THRESHOLD_TRANSPOSE", "the same for transposes"),
    ("TRIMTAB_THRESHOLD_MATMUL", "the same for products and attention, in arithmetic operations (2 m n k)"),
    ("TRIMTAB_THRESHOLD_CONV", "the same for convolutions, in arithmetic operations"),
    ("TRIMTAB_THRESHOLD_POOL", "the same for pooling"),
    ("TRIMTAB_THRESHOLD_ROWS", "the same for softmax, norms and variance"),
    ("TRIMTAB_THRESHOLD_SCAN", "the same for scans"),
    ("TRIMTAB_THRESHOLD_SORT", "the same for sorting, argsort and top-k"),
    ("TRIMTAB_THRESHOLD_INDEX", "the same for taking and adding elements by index"),
    ("TRIMTAB_THRESHOLD_FFT", "the same for Fourier transforms"),
    ("TRIMTAB_THRESHOLD_ALL", "the same for every class without a threshold of its own"),
    ("TRIMTAB_SMALL_BATCH", "batches of fewer small products than this stay on the processor"),
    (
        "TRIMTAB_KERNELS",
        "kernels that may not run (-cpu.matmul.gemm, -cpu.matmul.*) and kernels that alone may (cpu.matmul.gemm)",
    ),
    (
        "TRIMTAB_SETTLE",
        "whether plans nobody is sure of are checked and raced again in the background: on, off",
    ),
    (
        "TRIMTAB_ISOLATE",
        "which kernels of the processor run for the first time in a child process: auto (users' and suspects), all, off",
    ),
    ("TRIMTAB_WISDOM_DIR", "where measurements are kept, or off"),
    ("TRIMTAB_THREADS", "most threads a kernel may use"),
    ("TRIMTAB_BLAS", "BLAS libraries to try first, separated like PATH, or off"),
    ("TRIMTAB_LOG", "warnings on standard error: on, off"),
];

/// What the environment asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub patience: Option<Patience>,
    pub strategy: Option<StrategyName>,
    pub model: Option<ModelChoice>,
    pub budget: Option<Nanos>,
    pub device: Option<String>,
    pub wisdom: Option<WisdomPlace>,
    pub threads: Option<u32>,
    pub blas: Option<Blas>,
    pub log: Option<bool>,
    pub offload: Option<Offload>,
    pub kernels: Option<KernelRules>,
    pub settle: Option<bool>,
    pub isolation: Option<Isolation>,
}

/// Where wisdom is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WisdomPlace {
    Nowhere,
    Directory(PathBuf),
}

/// Which BLAS libraries to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blas {
    None,
    First(Vec<PathBuf>),
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.trim().is_empty())
}

/// Where wisdom is kept when nobody says otherwise: the user's cache directory.
///
/// ```
/// # use trimtab::prelude::*;
/// println!("{:?}", trimtab::default_wisdom_dir());
/// ```
pub fn default_wisdom_dir() -> Option<PathBuf> {
    let from = |name: &str, tail: &str| variable(name).map(|dir| PathBuf::from(dir).join(tail));
    from("XDG_CACHE_HOME", "trimtab")
        .or_else(|| from("LOCALAPPDATA", "trimtab"))
        .or_else(|| from("HOME", ".cache/trimtab"))
}

/// Where wisdom is kept as the environment says, or by default; nothing where it is off. Opens no device.
///
/// ```
/// # use trimtab::prelude::*;
/// println!("{:?}", trimtab::wisdom_dir()); // as TRIMTAB_WISDOM_DIR says
/// ```
pub fn wisdom_dir() -> Option<PathBuf> {
    match variable("TRIMTAB_WISDOM_DIR") {
        Some(value) => (!is_off(&value)).then(|| PathBuf::from(value)),
        None => default_wisdom_dir(),
    }
}

impl Environment {
    pub(crate) fn read() -> Result<Environment, Error> {
        Environment::from(&variable)
    }

    pub(crate) fn from(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Environment, Error> {
        let wrong = |variable, value: String, valid: String| Error::Environment { variable, value, valid };
        let mut environment = Environment::default();
        if let Some(value) = lookup("TRIMTAB_TUNE") {
            let valid = format!("use one of: {}", TuneMode::words());
            let mode: TuneMode = value.parse().map_err(|_| wrong("TRIMTAB_TUNE", value, valid))?;
            (environment.patience, environment.strategy) = (Some(mode.patience), mode.strategy);
        }
        if let Some(value) = lookup("TRIMTAB_MODEL") {
            let valid = format!("use one of: {}", ModelChoice::words());
            environment.model = Some(value.parse().map_err(|_| wrong("TRIMTAB_MODEL", value, valid))?);
        }
        if let Some(value) = lookup("TRIMTAB_BUDGET") {
            let budget = parse_duration(&value).ok_or_else(|| {
                wrong("TRIMTAB_BUDGET", value, "write a time such as 40ms, 2s or 500us".to_string())
            })?;
            environment.budget = Some(budget);
        }
        if let Some(value) = lookup("TRIMTAB_THREADS") {
            let threads =
                value.trim().parse().ok().filter(|threads| (1..=trimtab_cpu::MAX_THREADS).contains(threads));
            let valid = format!("use a number from 1 to {}", trimtab_cpu::MAX_THREADS);
            environment.threads = Some(threads.ok_or_else(|| wrong("TRIMTAB_THREADS", value, valid))?);
        }
        environment.device = lookup("TRIMTAB_DEVICE").map(|value| value.trim().to_ascii_lowercase());
        environment.wisdom = lookup("TRIMTAB_WISDOM_DIR").map(|value| match is_off(&value) {
            true => WisdomPlace::Nowhere,
            false => WisdomPlace::Directory(PathBuf::from(value)),
        });
        environment.blas = lookup("TRIMTAB_BLAS").map(|value| match is_off(&value) {
            true => Blas::None,
            false => Blas::First(std::env::split_paths(&value).collect()),
        });
        let switch = |variable| -> Result<Option<bool>, Error> {
            let Some(value) = lookup(variable) else { return Ok(None) };
            let on = matches!(value.trim().to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes");
            if !on && !is_off(&value) {
                let valid = "use on (also 1, true) or off (also 0, false)".to_string();
                return Err(wrong(variable, value, valid));
            }
            Ok(Some(on))
        };
        environment.log = switch("TRIMTAB_LOG")?;
        environment.settle = switch("TRIMTAB_SETTLE")?;
        if let Some(value) = lookup("TRIMTAB_ISOLATE") {
            let valid = format!("use one of: {}", Isolation::ALL.map(Isolation::name).join(", "));
            let isolation = Isolation::parse(value.trim());
            environment.isolation = Some(isolation.ok_or_else(|| wrong("TRIMTAB_ISOLATE", value, valid))?);
        }
        environment.offload = offload(lookup)?;
        if let Some(value) = lookup("TRIMTAB_KERNELS") {
            let valid = KernelRules::WORDS.to_string();
            environment.kernels = Some(value.parse().map_err(|_| wrong("TRIMTAB_KERNELS", value, valid))?);
        }
        Ok(environment)
    }
}

/// The variables of thresholds, by [`Class::ALL`], and what each class counts.
const THRESHOLDS: [&str; Class::ALL.len()] = [
    "TRIMTAB_THRESHOLD_UNARY",
    "TRIMTAB_THRESHOLD_ELEMENTWISE",
    "TRIMTAB_THRESHOLD_REDUCTION",
    "TRIMTAB_THRESHOLD_TRANSPOSE",
    "TRIMTAB_THRESHOLD_MATMUL",
    "TRIMTAB_THRESHOLD_CONV",
    "TRIMTAB_THRESHOLD_POOL",
    "TRIMTAB_THRESHOLD_ROWS",
    "TRIMTAB_THRESHOLD_SCAN",
    "TRIMTAB_THRESHOLD_SORT",
    "TRIMTAB_THRESHOLD_INDEX",
    "TRIMTAB_THRESHOLD_FFT",
];

/// What is said about using GPUs, if anything is.
fn offload(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Offload>, Error> {
    let mut said = Offload::default();
    if let Some(value) = lookup("TRIMTAB_OFFLOAD") {
        said.off = is_off(&value);
        if !said.off && !matches!(value.trim().to_ascii_lowercase().as_str(), "auto" | "on" | "1" | "true") {
            let valid = "use auto (also on, 1, true) or off (also 0, false)".to_string();
            return Err(Error::Environment { variable: "TRIMTAB_OFFLOAD", value, valid });
        }
    }
    let number = |variable: &'static str| -> Result<Option<u64>, Error> {
        let Some(value) = lookup(variable) else { return Ok(None) };
        let valid = "write a whole number such as 65536".to_string();
        let parsed = value.trim().replace('_', "").parse::<u64>();
        parsed.map(Some).map_err(|_| Error::Environment { variable, value, valid })
    };
    for (class, variable) in Class::ALL.into_iter().zip(THRESHOLDS) {
        *said.own(class) = number(variable)?;
    }
    said.all = number("TRIMTAB_THRESHOLD_ALL")?;
    said.small_batch = number("TRIMTAB_SMALL_BATCH")?;
    Ok(Some(said).filter(|said| *said != Offload::default()))
}

/// `off`, `Off`, `0`, `false` and `no` all mean off.
fn is_off(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "off" | "0" | "false" | "no")
}

/// A time written as `30s`, `1.5s`, `40ms`, `500us`, `2m`.
///
/// ```
/// # use trimtab::prelude::*;
/// use trimtab::{Nanos, parse_duration};
/// assert_eq!(parse_duration("2s"), Some(Nanos::from_millis(2_000)));
/// assert_eq!(parse_duration("soon"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(Nanos::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Environment, Error> {
        Environment::from(&|asked: &str| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn off_can_be_written_in_many_ways() {
        for value in ["off", "Off", "0", "false", "FALSE", "no"] {
            assert_eq!(with("TRIMTAB_TUNE", value).unwrap().patience, Some(Patience::Off));
            assert_eq!(with("TRIMTAB_WISDOM_DIR", value).unwrap().wisdom, Some(WisdomPlace::Nowhere));
            assert_eq!(with("TRIMTAB_BLAS", value).unwrap().blas, Some(Blas::None));
            assert_eq!(with("TRIMTAB_LOG", value).unwrap().log, Some(false));
        }
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_the_variable_and_the_right_values() {
        for (name, value, part) in [
            ("TRIMTAB_TUNE", "fast", "off (also 0, false), estimate, measure, exhaustive"),
            ("TRIMTAB_TUNE", "fast", "auto, model, hill"),
            ("TRIMTAB_MODEL", "clever", "auto, default, linear, tree"),
            ("TRIMTAB_BUDGET", "soon", "40ms"),
            ("TRIMTAB_BUDGET", "-1s", "40ms"),
            ("TRIMTAB_THREADS", "0", "1 to"),
            ("TRIMTAB_THREADS", "many", "1 to"),
            ("TRIMTAB_LOG", "loud", "on (also 1, true)"),
            ("TRIMTAB_OFFLOAD", "maybe", "auto (also on, 1, true) or off"),
            ("TRIMTAB_THRESHOLD_MATMUL", "large", "65536"),
            ("TRIMTAB_SMALL_BATCH", "-1", "65536"),
            ("TRIMTAB_KERNELS", "-cpu.*.gemm", "-cpu.matmul.gemm to forbid"),
        ] {
            let message = with(name, value).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(value) && message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_search_strategy_is_a_tuning_mode_too() {
        let read = with("TRIMTAB_TUNE", "Natural").unwrap();
        assert_eq!((read.patience, read.strategy), (Some(Patience::Measure), "natural".parse().ok()));
        let read = with("TRIMTAB_TUNE", "race").unwrap();
        assert_eq!(read.strategy.map(StrategyName::name), Some("halving"));
        assert_eq!(with("TRIMTAB_TUNE", "measure").unwrap().strategy, None);
    }

    #[test]
    fn a_model_is_chosen_by_its_name() {
        use trimtab_plan::learn::ModelKind;
        assert!(matches!(with("TRIMTAB_MODEL", "Auto").unwrap().model, Some(ModelChoice::Auto)));
        let tree = with("TRIMTAB_MODEL", "tree").unwrap().model;
        assert!(matches!(tree, Some(ModelChoice::Kind(ModelKind::Tree))), "{tree:?}");
        assert!(with("TRIMTAB_LOG", "on").unwrap().model.is_none());
    }

    #[test]
    fn what_is_said_about_gpus_is_read_and_silence_is_nothing() {
        assert_eq!(with("TRIMTAB_LOG", "on").unwrap().offload, None);
        assert!(with("TRIMTAB_OFFLOAD", "Off").unwrap().offload.unwrap().off);
        assert_eq!(with("TRIMTAB_OFFLOAD", "auto").unwrap().offload, None);
        for (at, variable) in THRESHOLDS.into_iter().enumerate() {
            let said = with(variable, "1_000").unwrap().offload.unwrap();
            assert_eq!(said.threshold(Class::ALL[at]), Some(1000), "{variable}");
            assert!(variable.ends_with(&Class::ALL[at].name().to_ascii_uppercase()), "{variable}");
        }
        let all = with("TRIMTAB_THRESHOLD_ALL", "7").unwrap().offload.unwrap();
        assert!(Class::ALL.iter().all(|class| all.threshold(*class) == Some(7)));
        assert_eq!(with("TRIMTAB_SMALL_BATCH", "8").unwrap().offload.unwrap().small_batch, Some(8));
    }

    #[test]
    fn kernels_are_forbidden_and_forced_by_name() {
        let said = with("TRIMTAB_KERNELS", "-cpu.matmul.*, cpu.reduce.vector").unwrap().kernels.unwrap();
        assert_eq!(said.to_string(), "-cpu.matmul.*,cpu.reduce.vector");
        assert_eq!(with("TRIMTAB_LOG", "on").unwrap().kernels, None);
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, nanos) in
            [("40ms", 40_000_000), ("1.5s", 1_500_000_000), ("500us", 500_000), ("2m", 120_000_000_000)]
        {
            assert_eq!(parse_duration(text), Some(Nanos(nanos)), "{text}");
        }
        for text in ["", "40", "ms", "40 parsecs", "nans"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
