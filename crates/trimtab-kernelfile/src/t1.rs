//! What a T1 input file of the auto-tuning community says of its kernel (`KernelSpecification`), as the tables of a space file of ours.

use crate::language::Language;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trimtab_study::{SpaceFileError, t1_entry};

/// Names of types there and here. Others are told as they are written.
const TYPES: [(&str, &str); 16] = [
    ("float", "f32"),
    ("double", "f64"),
    ("half", "f16"),
    ("int", "i32"),
    ("uint", "u32"),
    ("int8", "i8"),
    ("char", "i8"),
    ("uint8", "u8"),
    ("int16", "i16"),
    ("short", "i16"),
    ("int32", "i32"),
    ("uint32", "u32"),
    ("int64", "i64"),
    ("long", "i64"),
    ("bool", "bool"),
    ("float32", "f32"),
];

/// Whether a file is JSON: TOML never begins so.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// The tables `[kernel]` and `[[arguments]]`.
pub(crate) fn tables(bytes: &[u8], language: Language) -> Result<String, SpaceFileError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| SpaceFileError { line: Some(error.line()), reason: format!("not JSON: {error}") })?;
    let spec = t1_entry(&value, "KernelSpecification").ok_or_else(|| {
        SpaceFileError::new(
            "this JSON has no `KernelSpecification`, so nothing says how the kernel is called; write a space file (TOML) with [kernel] and [[arguments]]",
        )
    })?;
    let sizes = Sizes::of(spec);
    let mut text = String::from("[kernel]\n");
    if let Some(name) = t1_entry(spec, "KernelName").and_then(Value::as_str) {
        let _ = writeln!(text, "entry = {}", json!(name));
    }
    if !language.is_compiled() {
        let local = sizes.three(t1_entry(spec, "LocalSize").or_else(|| t1_entry(spec, "BlockSize")));
        let _ = writeln!(text, "groups = {}", json!(sizes.groups(spec, &local)));
        if matches!(language, Language::OpenCl | Language::Cuda) {
            let _ = writeln!(text, "workgroup = {}", json!(local));
        }
    }
    let options = t1_entry(spec, "CompilerOptions").and_then(Value::as_array).into_iter().flatten();
    let options: Vec<&str> = options.filter_map(Value::as_str).collect();
    // Files name options of nvcc also where the kernel is OpenCL's.
    if language == Language::Cuda && !options.is_empty() {
        let _ = writeln!(text, "flags = {}", json!(options.join(" ")));
    }
    let arguments = t1_entry(spec, "Arguments").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let says_output = arguments.iter().any(is_output);
    for (at, argument) in arguments.iter().enumerate() {
        let wrong = |reason: String| SpaceFileError::new(format!("argument {}: {reason}", at + 1));
        text.push_str(&table(argument, &sizes, says_output).map_err(wrong)?);
    }
    Ok(text)
}

/// The sizes of the problem, which formulas ask for.
struct Sizes(Vec<String>);

impl Sizes {
    fn of(spec: &Value) -> Sizes {
        Sizes(match t1_entry(spec, "ProblemSize") {
            Some(Value::Array(sizes)) => sizes.iter().map(plain).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(size) => vec![plain(size)],
        })
    }

    /// A formula with numbers for the sizes.
    fn formula(&self, value: &Value) -> String {
        let mut text = plain(value);
        for (at, size) in self.0.iter().enumerate() {
            text = text.replace(&format!("ProblemSize[{at}]"), size);
        }
        match self.0.first() {
            Some(size) => text.replace("ProblemSize", size),
            None => text,
        }
    }

    /// `X`, `Y` and `Z`; one of each that is not there.
    fn three(&self, value: Option<&Value>) -> [String; 3] {
        let along = |axis: &str| value.and_then(|value| t1_entry(value, axis));
        ["X", "Y", "Z"].map(|axis| along(axis).map_or_else(|| "1".to_string(), |one| self.formula(one)))
    }

    /// Workgroups along each axis: the problem's sizes by what divides them, else what stands under `GlobalSize`, which counts workgroups as
    /// CUDA does or invocations as OpenCL does.
    fn groups(&self, spec: &Value, local: &[String; 3]) -> [String; 3] {
        let divisors = ["GridDivX", "GridDivY", "GridDivZ"].map(|name| t1_entry(spec, name));
        let rounded_up = |size: &str, by: &str| format!("(({size}) + ({by}) - 1) // ({by})");
        if !self.0.is_empty() && divisors.iter().any(Option::is_some) {
            return [0, 1, 2].map(|axis| {
                let Some(size) = self.0.get(axis) else { return "1".to_string() };
                let by = divisors[axis].and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let by: Vec<String> = by.iter().map(|one| format!("({})", self.formula(one))).collect();
                if by.is_empty() { size.clone() } else { rounded_up(size, &by.join(" * ")) }
            });
        }
        let global = self.three(t1_entry(spec, "GlobalSize").or_else(|| t1_entry(spec, "GridSize")));
        let kind = t1_entry(spec, "GlobalSizeType").and_then(Value::as_str).unwrap_or("CUDA");
        match kind.eq_ignore_ascii_case("OpenCL") {
            true => [0, 1, 2].map(|axis| rounded_up(&global[axis], &local[axis])),
            false => global,
        }
    }
}

/// As it is written, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn is_output(argument: &Value) -> bool {
    match t1_entry(argument, "Output") {
        Some(Value::Bool(output)) => *output,
        Some(other) => other.as_i64().is_some_and(|output| output != 0),
        None => false,
    }
}

/// The table of an argument.
fn table(argument: &Value, sizes: &Sizes, says_output: bool) -> Result<String, String> {
    let word = |key: &str| t1_entry(argument, key).and_then(Value::as_str).unwrap_or_default();
    let is = |key: &str, wanted: &str| word(key).eq_ignore_ascii_case(wanted);
    let (name, kind) = (word("Name"), word("Type"));
    let kind = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(kind)).map_or(kind, |known| known.1);
    let mut text = format!("[[arguments]]\nname = {}\ntype = {}\n", json!(name), json!(kind));
    let filled = t1_entry(argument, "FillValue").or_else(|| t1_entry(argument, "Value"));
    if is("MemoryType", "Scalar") {
        let value = filled.ok_or_else(|| format!("`{name}` is a number without `FillValue`"))?;
        let _ = writeln!(text, "value = {}", json!(sizes.formula(value)));
        return Ok(text);
    }
    let size = t1_entry(argument, "Size").or_else(|| t1_entry(argument, "Length"));
    let size = size.ok_or_else(|| format!("`{name}` has no `Size`"))?;
    let _ = writeln!(text, "shape = [{}]", json!(sizes.formula(size)));
    let is_output = if says_output { is_output(argument) } else { !is("AccessType", "ReadOnly") };
    if is_output {
        text.push_str("output = true\n");
    }
    let number = filled.and_then(Value::as_f64);
    match word("FillType") {
        // What is only written holds what no kernel gives before: then it shows what was not written.
        "Constant" if is_output && is("AccessType", "WriteOnly") => {}
        "Constant" => {
            let _ = writeln!(text, "fill = {}", json!(number.unwrap_or(0.0)));
        }
        "Random" | "random" => match number.filter(|most| *most != 0.0) {
            Some(most) => {
                let ends = if most > 0.0 { [0.0, most] } else { [most, 0.0] };
                let _ = writeln!(text, "fill = {{ random = {} }}", json!(ends));
            }
            None => text.push_str("fill = \"random\"\n"),
        },
        "Generator" if word("DataSource") == "i" => text.push_str("fill = \"count\"\n"),
        "" | "uninitialized" if is_output => {}
        other => {
            return Err(format!(
                "`{name}` is filled by `{other}`, which is not known here; there are Constant, Random, and Generator of `i`"
            ));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the benchmark hub.
    fn file(more: &str) -> String {
        format!(
            r#"{{
            "ConfigurationSpace": {{"TuningParameters": []}},
            "KernelSpecification": {{
                "Language": "CUDA", "CompilerOptions": ["-std=c++11"], "KernelName": "calculate", "KernelFile": "hotspot.cu",
                "LocalSize": {{"X": "block_x", "Y": "block_y", "Z": "1"}},
                {more}
                "Arguments": [
                    {{"Name": "power", "Type": "float", "Size": "ProblemSize[0] * 4", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Random", "FillValue": 324.0}},
                    {{"Name": "out", "Type": "double", "Size": 4096, "MemoryType": "Vector", "AccessType": "WriteOnly", "FillType": "Constant", "FillValue": 0.0, "Output": 1}},
                    {{"Name": "count", "Type": "int32", "MemoryType": "Scalar", "FillValue": 7}}
                ]
            }}
        }}"#
        )
    }

    #[test]
    fn a_kernel_of_the_community_becomes_tables_of_ours() {
        let divided =
            r#""ProblemSize": [4096, 512], "GridDivX": ["block_x", "tile"], "GridDivY": ["block_y"],"#;
        let text = tables(file(divided).as_bytes(), Language::Cuda).unwrap();
        for part in [
            "entry = \"calculate\"",
            "groups = [\"((4096) + ((block_x) * (tile)) - 1) // ((block_x) * (tile))\",\"((512) + ((block_y)) - 1) // ((block_y))\",\"1\"]",
            "workgroup = [\"block_x\",\"block_y\",\"1\"]",
            "flags = \"-std=c++11\"",
            "type = \"f32\"\nshape = [\"4096 * 4\"]\nfill = { random = [0.0,324.0] }",
            "name = \"out\"\ntype = \"f64\"\nshape = [\"4096\"]\noutput = true\n[[arguments]]",
            "type = \"i32\"\nvalue = \"7\"",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let invocations =
            r#""GlobalSizeType": "OpenCL", "GlobalSize": {"X": "4096 // tile", "Y": "1", "Z": "1"},"#;
        let text = tables(file(invocations).as_bytes(), Language::OpenCl).unwrap();
        assert!(text.contains("groups = [\"((4096 // tile) + (block_x) - 1) // (block_x)\""), "{text}");
        assert!(!text.contains("flags"), "{text}");
        let text = tables(file(invocations).as_bytes(), Language::C).unwrap();
        assert!(!text.contains("groups") && !text.contains("workgroup"), "{text}");
    }

    #[test]
    fn what_a_kernel_lacks_is_named() {
        for (was, is, part) in [
            ("KernelSpecification", "Kernel", "no `KernelSpecification`"),
            ("\"Size\": 4096", "\"Sice\": 4096", "argument 2: `out` has no `Size`"),
            ("\"Random\"", "\"Script\"", "argument 1: `power` is filled by `Script`"),
            ("\"FillValue\": 7", "\"Fill\": 7", "argument 3: `count` is a number without `FillValue`"),
        ] {
            let text = file("").replacen(was, is, 1);
            let error = tables(text.as_bytes(), Language::C).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
