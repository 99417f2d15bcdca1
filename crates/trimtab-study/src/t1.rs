//! T1 input files of the auto-tuning community: the space they describe, read as it is.

use crate::parameter::Parameter;
use crate::space::SpaceDefinition;
use crate::space_file::SpaceFileError;
use crate::{Setting, python_list};
use serde_json::Value;

/// The parameters and conditions of a T1 file.
pub(crate) fn read(value: &Value) -> Result<SpaceDefinition, SpaceFileError> {
    let space = entry(value, "ConfigurationSpace").ok_or_else(|| {
        SpaceFileError::new(
            "neither `ConfigurationSpace` (a T1 input file) nor `results` (T4 results) is in this JSON; a space of our own is TOML",
        )
    })?;
    let written = entry(space, "TuningParameters").and_then(Value::as_array);
    let written =
        written.ok_or_else(|| SpaceFileError::new("`ConfigurationSpace` has no list `TuningParameters`"))?;
    let mut definition = SpaceDefinition::default();
    for (at, given) in written.iter().enumerate() {
        let wrong = |reason: String| SpaceFileError::new(format!("tuning parameter {}: {reason}", at + 1));
        let name =
            entry(given, "Name").and_then(Value::as_str).ok_or_else(|| wrong("it has no `Name`".into()))?;
        let kind = entry(given, "Type").and_then(Value::as_str).unwrap_or_default();
        let values = entry(given, "Values").ok_or_else(|| wrong(format!("`{name}` has no `Values`")))?;
        let values = values_of(values).map_err(|reason| wrong(format!("`{name}`: {reason}")))?;
        let values = values.into_iter().map(|value| of_type(kind, value)).collect();
        let parameter = Parameter::new(name, values).map_err(wrong)?;
        // Files have defaults that are none of the values, and lists of one: such a default says nothing.
        let default = entry(given, "Default").and_then(|default| match default {
            Value::Array(items) if items.len() == 1 => items.first().and_then(Setting::of_json),
            other => Setting::of_json(other),
        });
        let with = default.and_then(|default| parameter.clone().with_default(&of_type(kind, default)).ok());
        definition.parameters.push(with.unwrap_or(parameter));
    }
    for given in entry(space, "Conditions").and_then(Value::as_array).into_iter().flatten() {
        let text = entry(given, "Expression").and_then(Value::as_str);
        let text = text.ok_or_else(|| SpaceFileError::new("a condition has no `Expression`"))?;
        definition.constraints.push(in_python(text));
    }
    Ok(definition)
}

/// What stands under a name; older files begin names with a small letter.
pub fn entry<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let known = value.as_object()?;
    known
        .get(name)
        .or_else(|| known.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// A list in JSON, or the text of a list in Python.
fn values_of(value: &Value) -> Result<Vec<Setting>, String> {
    let refused = |what: &str| format!("`Values` is {what}; write a list such as \"[16, 32, 64]\"");
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| Setting::of_json(item).ok_or_else(|| refused(&item.to_string())))
            .collect(),
        Value::String(text) => python_list::read(text),
        other => Err(refused(&other.to_string())),
    }
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
    fn what_files_of_the_community_do_beside_the_schema_is_read_too() {
        // As in the benchmark hub and in BAT: comprehensions and sums of lists, defaults that are no value or a list, more than sixteen
        // parameters of which some have one value, chains of comparisons, names that begin with a small letter.
        let fixed: Vec<String> = (0..16)
            .map(|at| {
                format!(r#"{{"Name": "FIXED{at}", "Type": "int", "Values": "[{at}]", "Default": [{at}]}}"#)
            })
            .collect();
        let text = format!(
            r#"{{
            "General": {{"BenchmarkName": "like_hotspot"}},
            "configurationSpace": {{
                "TuningParameters": [
                    {{"Name": "block_size_x", "Type": "int", "Values": "[1, 2, 4, 8, 16] + list(range(32, 1024+1, 32))", "Default": 256}},
                    {{"Name": "block_size_y", "Type": "int", "Values": "[2**i for i in range(0, 6)]", "Default": 1}},
                    {{"Name": "max_tfactor", "Type": "int", "Values": "[10]", "Default": 1}},
                    {}
                ],
                "Conditions": [
                    {{"Expression": "32 <= block_size_x * block_size_y <= 1024 and FIXED3 == 3", "Parameters": ["block_size_x", "block_size_y"]}}
                ]
            }}
        }}"#,
            fixed.join(",")
        );
        let definition = read_space(text.as_bytes()).unwrap();
        assert_eq!(definition.parameters[0].values.len(), 37);
        assert_eq!(definition.parameters[0].default, Some(12));
        assert_eq!(definition.parameters[2].default, None);
        assert_eq!(definition.parameters[3].default, Some(0));
        let legal = |x: u32, y: u32| (32..=1024).contains(&(x * y));
        let xs: Vec<u32> = [1, 2, 4, 8, 16].into_iter().chain((1..=32).map(|at| 32 * at)).collect();
        let expected = (0..6).map(|y| xs.iter().filter(|x| legal(**x, 1 << y)).count()).sum::<usize>();
        let space = ParameterSpace::new(definition).unwrap();
        assert_eq!(space.len(), expected);
        assert_eq!(space.point(0).0.len(), 19);
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
