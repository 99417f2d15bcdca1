//! T4 results of the auto-tuning community: written from a study, and read as a space or as what others know of one.
//!
//! Recordings (`trimtab-replay`) read T4 too, of kernels whose settings are whole numbers and whose objective is a time. A study takes any
//! value and any objective.

use crate::outcome::{Fault, Outcome};
use crate::parameter::Parameter;
use crate::space::SpaceDefinition;
use crate::space_file::SpaceFileError;
use crate::study::Study;
use crate::{ParameterSpace, Setting};
use serde_json::{Map, Value, json};
use trimtab_core::FailureKind;
use trimtab_tune::search::Donor;

/// The version of the schema that is written.
const VERSION: &str = "1.0.0";

/// One result: the configuration and the objective, unless it failed.
type Entry<'a> = (&'a Map<String, Value>, Option<f64>);

fn entries(value: &Value) -> Result<Vec<Entry<'_>>, SpaceFileError> {
    let results = value.get("results").and_then(Value::as_array);
    let results = results.ok_or_else(|| SpaceFileError::new("no list `results`: not a T4 results file"))?;
    let mut entries = Vec::with_capacity(results.len());
    for (at, result) in results.iter().enumerate() {
        let wrong = |reason: &str| SpaceFileError::new(format!("result {}: {reason}", at + 1));
        let configuration = result.get("configuration").and_then(Value::as_object);
        let configuration = configuration.ok_or_else(|| wrong("no `configuration`"))?;
        match result.get("invalidity").and_then(Value::as_str).unwrap_or("correct") {
            "correct" | "valid" | "" => entries.push((
                configuration,
                Some(
                    measured(result)
                        .ok_or_else(|| wrong("it ran, but no measurement of its objective says how well"))?,
                ),
            )),
            // Outside of the space the file is about.
            "constraints" => {}
            _ => entries.push((configuration, None)),
        }
    }
    Ok(entries)
}

fn measured(result: &Value) -> Option<f64> {
    let objective =
        result.get("objectives").and_then(|names| names.get(0)).and_then(Value::as_str).unwrap_or("time");
    let measurements = result.get("measurements").and_then(Value::as_array).into_iter().flatten();
    let mut named = measurements.filter(|entry| entry.get("name").and_then(Value::as_str) == Some(objective));
    if let Some(value) = named.next().and_then(|entry| entry.get("value")).and_then(Value::as_f64) {
        return Some(value);
    }
    let runtimes = result.get("times").and_then(|times| times.get("runtimes")).and_then(Value::as_array)?;
    let runtimes: Vec<f64> = runtimes.iter().filter_map(Value::as_f64).collect();
    (!runtimes.is_empty()).then(|| runtimes.iter().sum::<f64>() / runtimes.len() as f64)
}

/// The space of the configurations, in their order: a search here is the same as one on the recording of that file.
pub(crate) fn space_of(value: &Value) -> Result<SpaceDefinition, SpaceFileError> {
    let entries = entries(value)?;
    let Some((first, _)) = entries.first() else {
        return Err(SpaceFileError::new("no result can be used: the list `results` is empty"));
    };
    // A recording of ours says in which order its axes are.
    let axes = value.get("metadata").and_then(|metadata| metadata.get("axes")).and_then(Value::as_array);
    let ordered: Option<Vec<String>> =
        axes.and_then(|axes| axes.iter().map(|axis| Some(axis.get("name")?.as_str()?.to_string())).collect());
    let names: Vec<String> = ordered
        .filter(|names| names.len() == first.len() && names.iter().all(|name| first.contains_key(name)))
        .unwrap_or_else(|| first.keys().cloned().collect());
    let mut values: Vec<Vec<Setting>> = vec![Vec::new(); names.len()];
    let mut listed = Vec::with_capacity(entries.len());
    for (at, (configuration, _)) in entries.iter().enumerate() {
        let wrong = |reason: String| SpaceFileError::new(format!("result {}: {reason}", at + 1));
        if let Some(other) = configuration.keys().find(|key| !names.contains(key)) {
            return Err(wrong(format!(
                "the parameter `{other}` is not in the first result; all must have the same"
            )));
        }
        let mut places = Vec::with_capacity(names.len());
        for (name, values) in names.iter().zip(&mut values) {
            let given = configuration.get(name).and_then(Setting::of_json);
            let given =
                given.ok_or_else(|| wrong(format!("`{name}` is missing, or no number, text or flag")))?;
            let place = values.iter().position(|known| *known == given).unwrap_or_else(|| {
                values.push(given);
                values.len() - 1
            });
            places.push(u16::try_from(place).map_err(|_| wrong(format!("`{name}` has too many values")))?);
        }
        listed.push(places);
    }
    let parameters = names.iter().zip(values).map(|(name, values)| Parameter::new(name, values));
    let parameters = parameters.collect::<Result<Vec<_>, _>>().map_err(SpaceFileError::new)?;
    Ok(SpaceDefinition { parameters, constraints: Vec::new(), listed: Some(listed) })
}

/// What T4 results of others teach about a space. Parameters it does not have are passed over; a file of other parameters only is refused.
pub fn t4_donor(space: &ParameterSpace, bytes: &[u8]) -> Result<Donor, SpaceFileError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| SpaceFileError { line: Some(error.line()), reason: format!("not JSON: {error}") })?;
    let entries = entries(&value)?;
    let known = |name: &String| space.parameters().iter().any(|parameter| parameter.name == *name);
    if !entries.iter().any(|(configuration, _)| configuration.keys().any(known)) {
        return Err(SpaceFileError::new(
            "no configuration has a parameter of this space: it teaches nothing here",
        ));
    }
    Ok(space.donor(entries.into_iter()))
}

/// The evaluations of a study as T4 results.
pub fn write_t4(study: &Study, name: &str, unit: &str) -> Value {
    let objective = if unit == "s" { "time" } else { "value" };
    let results: Vec<Value> = study
        .evaluations()
        .iter()
        .map(|known| {
            let measurement =
                |name: &str, value: f64, unit: &str| json!({"name": name, "value": value, "unit": unit});
            let ran = match &known.outcome {
                Outcome::Ran(ran) => Some(ran),
                Outcome::Failed(failed) => failed.ran.as_ref(),
            };
            let measurements: Vec<Value> = ran.map_or_else(Vec::new, |ran| {
                let others = ran.others.iter().map(|(name, value)| measurement(name, *value, ""));
                std::iter::once(measurement(objective, ran.value, unit)).chain(others).collect()
            });
            let invalidity = known.outcome.failed().map_or("correct", |failed| match failed.fault {
                // It ran, and was not allowed to: nobody should take it for a crash.
                Fault::Limit => "constraints",
                fault => match fault.kind() {
                    FailureKind::Compile => "compile",
                    FailureKind::Wrong => "correctness",
                    FailureKind::TimedOut => "timeout",
                    _ => "runtime",
                },
            });
            let runtimes: &[f64] = ran.filter(|_| unit == "s").map_or(&[], |ran| &ran.samples);
            json!({
                "configuration": study.space().point(known.at).to_json(),
                "objectives": [objective],
                "times": {"runtimes": runtimes},
                "invalidity": invalidity,
                "correctness": if known.outcome.ran().is_some() { 1.0 } else { 0.0 },
                "measurements": measurements,
            })
        })
        .collect();
    json!({
        "schema_version": VERSION,
        "metadata": {"timeunit": "seconds", "space": name, "maximise": study.goals().maximise},
        "results": results,
    })
}
