//! Profile files: a JSON list of category, shapes and mean time, or what `calibrate --json` printed. Read liberally; what cannot be
//! read is said with its place.

use crate::failure::bad_input;
use crate::output::time;
use crate::session::warn;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::path::Path;
use trimtab::Runtime;
use trimtab::advanced::core::{Bytes, Device, DeviceKind, Flops, Work};
use trimtab::advanced::plan::calibration::{DeviceTimes, Origin};
use trimtab::advanced::plan::{Class, IMPLAUSIBLE, least_ns};
use trimtab::advanced::wisdom::files;

/// An entry as it should be, for messages.
const EXAMPLE: &str = r#"{"category": "elementwise", "input_shapes": [[1024, 1024], [1024, 1024]], "mean_time_us": 85.2, "device": "gpu0"}"#;

/// What entries may be of. The work of a convolution does not follow from its shapes.
const CATEGORIES: &str = "unary, elementwise, reduction, transpose, matmul, pool, rows, scan or sort";

/// Calibrations are of f32.
const F32_BYTES: u64 = 4;

/// The largest file that is read.
const MAX_PROFILE_BYTES: u64 = 64 << 20;

/// One entry of a file.
#[derive(Debug, PartialEq)]
pub struct Sample {
    entry: usize,
    class: Class,
    size: u64,
    ns: f64,
    /// The device it speaks of; the first GPU if it says nothing.
    device: Option<String>,
}

/// The entries of a file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<Sample>> {
    let bytes = match path.to_str() {
        Some("-") => {
            files::read_at_most(std::io::stdin().lock(), MAX_PROFILE_BYTES).context("standard input")
        }
        _ => files::read(path, MAX_PROFILE_BYTES).with_context(|| path.display().to_string()),
    };
    let bytes = bytes.map_err(|error| bad_input(format!("{error:#}")))?;
    let text = String::from_utf8(bytes).map_err(|_| bad_input(format!("{} is not text", path.display())))?;
    parse(&text).map_err(|why| bad_input(format!("{}: {why}", path.display())))
}

fn parse(text: &str) -> Result<Vec<Sample>, String> {
    if let Some(samples) = own(text)? {
        return Ok(samples);
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; write a list of entries like {EXAMPLE}"))?;
    let list = match &value {
        Value::Array(list) => list,
        Value::Object(object) => ["entries", "profiles", "samples", "results"]
            .iter()
            .find_map(|key| object.get(*key)?.as_array())
            .ok_or_else(|| format!("not a list; write a list of entries like {EXAMPLE}"))?,
        _ => return Err(format!("not a list; write a list of entries like {EXAMPLE}")),
    };
    if list.is_empty() {
        return Err(format!("the list is empty; write entries like {EXAMPLE}"));
    }
    let entry = |(at, value): (usize, &Value)| {
        let object = value.as_object().ok_or_else(|| "is not an object".to_string());
        object.and_then(|object| sample(at + 1, object)).map_err(|why| format!("entry {}: {why}", at + 1))
    };
    list.iter().enumerate().map(entry).collect()
}

/// The samples of lines `calibrate --json` printed, here or on another machine; nothing if the text is none.
fn own(text: &str) -> Result<Option<Vec<Sample>>, String> {
    let mut samples = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Ok(Value::Object(object)) = serde_json::from_str(line) else { return Ok(None) };
        let Some(seen) = object.get("seen").and_then(Value::as_array) else { continue };
        let word = |key: &str| object.get(key).and_then(Value::as_str);
        let class = word("class").and_then(Class::parse);
        let device = word("device").map(str::to_string);
        let damaged = || format!("line {}: not as `trimtab calibrate --json` prints it", at + 1);
        let class = class.ok_or_else(damaged)?;
        for pair in seen {
            let size = pair.get(0).and_then(Value::as_u64).filter(|size| *size > 0);
            let ns = pair.get(1).and_then(Value::as_f64).filter(|ns| *ns > 0.0);
            let (size, ns) = size.zip(ns).ok_or_else(damaged)?;
            samples.push(Sample { entry: at + 1, class, size, ns, device: device.clone() });
        }
    }
    Ok(Some(samples).filter(|samples| !samples.is_empty()))
}

fn sample(entry: usize, object: &Map<String, Value>) -> Result<Sample, String> {
    let word = |keys: &[&str]| keys.iter().find_map(|key| object.get(*key)?.as_str());
    let category = word(&["category", "class", "operation", "op"])
        .ok_or_else(|| format!("`category` is missing; use {CATEGORIES}"))?;
    let class =
        class(category).ok_or_else(|| format!("`category` {category:?} is not known; use {CATEGORIES}"))?;
    if let Some(dtype) = word(&["dtype", "type"])
        && !matches!(dtype.to_ascii_lowercase().as_str(), "f32" | "float32" | "single" | "float")
    {
        return Err(format!(
            "`dtype` is {dtype:?}; calibrations are of f32: leave entries of other types out"
        ));
    }
    let ns = [("mean_time_ns", 1.0), ("mean_time_us", 1e3), ("mean_time_ms", 1e6)]
        .iter()
        .find_map(|(key, unit)| Some((key, object.get(*key)?.as_f64().unwrap_or(f64::NAN) * unit)));
    let (key, ns) = ns.ok_or("`mean_time_us` (or mean_time_ns, mean_time_ms) is missing")?;
    if !(ns > 0.0 && ns.is_finite()) {
        return Err(format!("`{key}` must be a number above zero"));
    }
    let shapes = object
        .get("input_shapes")
        .or_else(|| object.get("shapes"))
        .and_then(Value::as_array)
        .ok_or("`input_shapes` is missing; write [[1024, 1024]]")?;
    // One shape may stand without the list around it.
    let shapes: Vec<Vec<u64>> = match shapes.iter().all(Value::is_u64) && !shapes.is_empty() {
        true => vec![numbers(shapes)?],
        false => shapes
            .iter()
            .map(|shape| shape.as_array().ok_or_else(wrong_shape).and_then(|shape| numbers(shape)))
            .collect::<Result<_, _>>()?,
    };
    let size = size(class, &shapes)?;
    let device = word(&["device"]).map(|device| device.trim().to_ascii_lowercase());
    Ok(Sample { entry, class, size, ns, device })
}

fn wrong_shape() -> String {
    "`input_shapes` must be lists of whole numbers such as [[64, 32], [32, 16]]".to_string()
}

fn numbers(shape: &[Value]) -> Result<Vec<u64>, String> {
    shape.iter().map(|size| size.as_u64().filter(|size| *size > 0).ok_or_else(wrong_shape)).collect()
}

fn class(category: &str) -> Option<Class> {
    let category = category.trim().to_ascii_lowercase();
    Class::parse(&category).filter(|class| *class != Class::Conv).or(match category.as_str() {
        "elementwise_unary" | "unary_elementwise" => Some(Class::Unary),
        "binary" | "elementwise_binary" | "pointwise" => Some(Class::Elementwise),
        "reduce" => Some(Class::Reduction),
        "gemm" | "mat_mul" | "mm" | "matrix_multiply" => Some(Class::Matmul),
        "softmax" | "layer_norm" | "rms_norm" | "normalization" => Some(Class::Rows),
        "pooling" => Some(Class::Pool),
        "cumsum" => Some(Class::Scan),
        _ => None,
    })
}

fn size(class: Class, shapes: &[Vec<u64>]) -> Result<u64, String> {
    let elements = |shape: &Vec<u64>| shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
    let too_large = || "`input_shapes` are too large".to_string();
    if class != Class::Matmul {
        let sizes = shapes.iter().map(|shape| elements(shape).ok_or_else(too_large));
        let sizes = sizes.collect::<Result<Vec<u64>, _>>()?;
        return sizes.into_iter().max().ok_or_else(wrong_shape);
    }
    let [lhs, rhs] = shapes else {
        return Err("a product needs two shapes: [[m, k], [k, n]]".to_string());
    };
    match (lhs.as_slice(), rhs.as_slice()) {
        ([batch @ .., m, k], [.., inner, n]) if k == inner => {
            let all = [*m, *n, *k, 2].into_iter().chain(batch.iter().copied());
            all.into_iter().try_fold(1u64, |all, size| all.checked_mul(size)).ok_or_else(too_large)
        }
        _ => Err(format!("shapes {lhs:?} and {rhs:?} make no product: write [[m, k], [k, n]]")),
    }
}

/// The samples by device.
pub fn times(runtime: &Runtime, samples: &[Sample]) -> Result<Vec<DeviceTimes>> {
    let devices = runtime.devices();
    let known: Vec<&str> = devices.iter().map(|device| device.facts().id.as_str()).collect();
    let mut all: Vec<DeviceTimes> =
        devices.iter().map(|device| DeviceTimes::new(device.as_ref(), Origin::Imported)).collect();
    for sample in samples {
        let at = match &sample.device {
            Some(name) => devices
                .iter()
                .position(|device| device.facts().id == *name || device.facts().kind.name() == name),
            None => devices.iter().position(|device| device.facts().kind != DeviceKind::Cpu),
        };
        let Some(at) = at else {
            let name = sample.device.as_deref().map_or("a GPU".to_string(), |name| format!("{name:?}"));
            let known = known.join(", ");
            return Err(bad_input(format!(
                "entry {}: there is no {name} here; add \"device\" with one of: {known}",
                sample.entry
            )));
        };
        if let Some(least) = out_of_reach(devices[at].as_ref(), sample) {
            let Sample { entry, size, class, ns, .. } = sample;
            let (took, unit, id) = (time(*ns), class.unit(), &devices[at].facts().id);
            warn(&format!(
                "entry {entry} is implausible and left out: {took} for {size} {unit}; at full speed {id} takes {}",
                time(least)
            ));
            continue;
        }
        all[at].note(sample.class, sample.size, sample.ns);
    }
    all.retain(|times| !times.steps.is_empty());
    if all.is_empty() {
        return Err(bad_input(
            "no entry is plausible for the devices here; measure with `trimtab calibrate`".to_string(),
        ));
    }
    Ok(all)
}

/// The least time a device takes for a sample, if that is far more than the sample says.
fn out_of_reach(device: &dyn Device, sample: &Sample) -> Option<f64> {
    let facts = device.facts();
    // At least one operand is read, and of each element something is computed.
    let (flops, bytes) = match sample.class {
        Class::Matmul | Class::Conv => (sample.size, 0),
        _ => (0, sample.size.saturating_mul(F32_BYTES)),
    };
    let threads = if facts.kind == DeviceKind::Cpu { facts.threads } else { 1 };
    let work = Work { flops: Flops(flops), bytes: Bytes(bytes), threads, ..Work::default() };
    let least = least_ns(&work, F32_BYTES, &device.rates());
    (IMPLAUSIBLE * sample.ns < least).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_liberally() {
        let text = r#"[
            {"category": "Elementwise", "input_shapes": [[10, 20], [20]], "mean_time_us": 2.5},
            {"category": "reduce", "input_shapes": [100], "mean_time_ns": 70, "dtype": "float32", "device": "CPU"},
            {"category": "gemm", "input_shapes": [[8, 4], [4, 2]], "mean_time_ms": 0.001, "extra": null}
        ]"#;
        let samples = parse(text).unwrap();
        let seen: Vec<_> = samples.iter().map(|s| (s.class, s.size, s.ns, s.device.as_deref())).collect();
        assert_eq!(
            seen,
            [
                (Class::Elementwise, 200, 2500.0, None),
                (Class::Reduction, 100, 70.0, Some("cpu")),
                (Class::Matmul, 128, 1000.0, None),
            ]
        );
        assert_eq!(parse(&format!("{{\"entries\": {text}}}")).unwrap(), samples);
    }

    #[test]
    fn what_calibrate_prints_is_read_again() {
        let text = r#"{"class":"matmul","device":"gpu0","unit":"flops","seen":[[8192,900.5],[65536,1000.0]],"used":true}
{"measured":true,"committed":false,"devices":2}
"#;
        let samples = parse(text).unwrap();
        let seen: Vec<_> = samples.iter().map(|s| (s.class, s.size, s.ns, s.device.as_deref())).collect();
        let gpu = Some("gpu0");
        assert_eq!(seen, [(Class::Matmul, 8192, 900.5, gpu), (Class::Matmul, 65536, 1000.0, gpu)]);
        let damaged = parse(&text.replace("65536", "\"much\"")).unwrap_err();
        assert!(damaged.contains("line 1"), "{damaged}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, parts) in [
            ("[{]", ["not JSON", "line 1"]),
            ("7", ["not a list", "category"]),
            ("[]", ["empty", "category"]),
            ("[7]", ["entry 1", "object"]),
            (r#"[{"input_shapes": [[1]], "mean_time_us": 1}]"#, ["entry 1", "`category` is missing"]),
            (r#"[{"category": "frob", "input_shapes": [[1]], "mean_time_us": 1}]"#, ["frob", "use unary"]),
            (r#"[{"category": "unary", "input_shapes": [[1]]}]"#, ["entry 1", "`mean_time_us`"]),
            (
                r#"[{"category": "unary", "input_shapes": [[1]], "mean_time_us": 0}]"#,
                ["entry 1", "above zero"],
            ),
            (
                r#"[{"category": "unary", "input_shapes": [[-1]], "mean_time_us": 1}]"#,
                ["entry 1", "whole numbers"],
            ),
            (r#"[{"category": "unary", "mean_time_us": 1}]"#, ["entry 1", "`input_shapes` is missing"]),
            (
                r#"[{"category": "matmul", "input_shapes": [[2, 3], [2, 3]], "mean_time_us": 1}]"#,
                ["no product", "[m, k]"],
            ),
            (
                r#"[{"category": "unary", "dtype": "f64", "input_shapes": [[1]], "mean_time_us": 1}]"#,
                ["f64", "leave"],
            ),
        ] {
            let why = parse(text).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        }
    }
}
