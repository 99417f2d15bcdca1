//! T1 input files of the auto-tuning community: the space they describe, read as it is.

use crate::Setting;
use crate::parameter::Parameter;
use crate::space::SpaceDefinition;
use crate::space_file::SpaceFileError;
use serde_json::Value;

/// The parameters and conditions of a T1 file.
pub(crate) fn read(value: &Value) -> Result<SpaceDefinition, SpaceFileError> {
    let space = value.get("ConfigurationSpace").ok_or_else(|| {
        SpaceFileError::new(
            "neither `ConfigurationSpace` (a T1 input file) nor `results` (T4 results) is in this JSON; a space of our own is TOML",
        )
    })?;
    let written = space.get("TuningParameters").and_then(Value::as_array);
    let written =
        written.ok_or_else(|| SpaceFileError::new("`ConfigurationSpace` has no list `TuningParameters`"))?;
    let mut definition = SpaceDefinition::default();
    for (at, entry) in written.iter().enumerate() {
        let wrong = |reason: String| SpaceFileError::new(format!("tuning parameter {}: {reason}", at + 1));
        let name =
            entry.get("Name").and_then(Value::as_str).ok_or_else(|| wrong("it has no `Name`".into()))?;
        let kind = entry.get("Type").and_then(Value::as_str).unwrap_or_default();
        let values = entry.get("Values").ok_or_else(|| wrong(format!("`{name}` has no `Values`")))?;
        let values = values_of(values).map_err(|reason| wrong(format!("`{name}`: {reason}")))?;
        let values = values.into_iter().map(|value| of_type(kind, value)).collect();
        let mut parameter = Parameter::new(name, values).map_err(wrong)?;
        if let Some(default) = entry.get("Default").and_then(Setting::of_json) {
            parameter = parameter.with_default(&of_type(kind, default)).map_err(wrong)?;
        }
        definition.parameters.push(parameter);
    }
    for entry in space.get("Conditions").and_then(Value::as_array).into_iter().flatten() {
        let text = entry.get("Expression").and_then(Value::as_str);
        let text = text.ok_or_else(|| SpaceFileError::new("a condition has no `Expression`"))?;
        definition.constraints.push(in_python(text));
    }
    Ok(definition)
}

/// A list in JSON, or the text of a list in Python: `[16, 32]`, `range(1, 9)`.
fn values_of(value: &Value) -> Result<Vec<Setting>, String> {
    let refused = |what: &str| format!("`Values` is {what}; write a list such as \"[16, 32, 64]\"");
    let items: Vec<Value> = match value {
        Value::Array(items) => items.clone(),
        Value::String(text) => {
            let text = text.trim();
            if let Some(range) = text.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')) {
                return python_range(range).ok_or_else(|| refused(text));
            }
            let inside = text.strip_prefix(['[', '(']).and_then(|rest| rest.strip_suffix([']', ')']));
            let inside = inside.ok_or_else(|| refused(text))?;
            return Ok(split(inside).into_iter().map(|word| item(&word)).collect());
        }
        other => return Err(refused(&other.to_string())),
    };
    items.iter().map(|item| Setting::of_json(item).ok_or_else(|| refused(&item.to_string()))).collect()
}

/// The items of a list, apart at commas outside of quotes; one behind the last counts for nothing.
fn split(inside: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut quote = None;
    for c in inside.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ',' => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    items.iter().map(|item| item.trim().to_string()).filter(|item| !item.is_empty()).collect()
}

fn item(word: &str) -> Setting {
    for quote in ['\'', '"'] {
        let text = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(text) = text {
            return Setting::Text(text.to_string());
        }
    }
    match word {
        "True" => Setting::Flag(true),
        "False" => Setting::Flag(false),
        word => Setting::parse(word),
    }
}

fn python_range(inside: &str) -> Option<Vec<Setting>> {
    const MOST: i64 = crate::parameter::MAX_VALUES as i64;
    let numbers: Option<Vec<i64>> = inside.split(',').map(|number| number.trim().parse().ok()).collect();
    let (from, to, step) = match numbers?[..] {
        [to] => (0, to, 1),
        [from, to] => (from, to, 1),
        [from, to, step] if step > 0 => (from, to, step),
        _ => return None,
    };
    let count = (to.checked_sub(from)?.max(0)).div_euclid(step) + 1;
    (count <= MOST + 1).then(|| (from..to).step_by(step as usize).map(Setting::Integer).collect())
}

/// Numbers of a parameter of text are texts, and the other way round where they read as such.
fn of_type(kind: &str, value: Setting) -> Setting {
    match (kind, value) {
        ("string", value) => Setting::Text(value.to_string()),
        ("bool", Setting::Integer(integer)) => Setting::Flag(integer != 0),
        ("bool", Setting::Text(text)) if text == "True" || text == "False" => Setting::Flag(text == "True"),
        ("int" | "uint" | "float", Setting::Text(text)) => Setting::parse(&text),
        (_, value) => value,
    }
}

/// Some files write conditions as C does.
fn in_python(text: &str) -> String {
    text.replace("&&", " and ").replace("||", " or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParameterSpace, read_space};

    #[test]
    fn a_file_of_the_community_is_read_as_it_is() {
        let text = r#"{
            "General": {"FormatVersion": 1, "OutputFormat": "JSON"},
            "ConfigurationSpace": {
                "TuningParameters": [
                    {"Name": "block_size_x", "Type": "int", "Values": "[16, 32, 64]", "Default": 32},
                    {"Name": "vector", "Type": "uint", "Values": "range(1, 5)"},
                    {"Name": "cached", "Type": "bool", "Values": "[True, False]"},
                    {"Name": "method", "Type": "string", "Values": "['a,b', \"c\"]"},
                    {"Name": "scale", "Type": "float", "Values": [0.5, 1.0]}
                ],
                "Conditions": [
                    {"Parameters": ["block_size_x", "vector"], "Expression": "block_size_x * vector <= 128 && vector != 3"},
                    {"Parameters": ["method"], "Expression": "method == 'c' or not cached"}
                ]
            },
            "KernelSpecification": {"Language": "OpenCL", "KernelName": "k", "KernelFile": "k.cl"}
        }"#;
        let definition = read_space(text.as_bytes()).unwrap();
        let shown: Vec<String> = definition.parameters.iter().map(Parameter::listed).collect();
        assert_eq!(shown, ["16, 32, 64", "1, 2, 3, 4", "true, false", "a,b, c", "0.5, 1"]);
        assert_eq!(definition.parameters[0].default, Some(1));
        assert_eq!(ParameterSpace::new(definition).unwrap().len(), (3 + 3 + 2) * 3 * 2);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, part) in [
            ("{}", "neither `ConfigurationSpace`"),
            (r#"{"ConfigurationSpace": {}}"#, "no list `TuningParameters`"),
            (
                r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Type": "int"}]}}"#,
                "`a` has no `Values`",
            ),
            (
                r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Values": "2**x"}]}}"#,
                "write a list such as",
            ),
            (
                r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Values": "range(1, 9000000000000000000)"}]}}"#,
                "write a list",
            ),
            ("{", "line 1: not JSON"),
        ] {
            let error = read_space(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
