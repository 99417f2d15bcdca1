//! The space file (TOML): parameters, constraints, defaults, conditions. Every mistake is told with its line.
//!
//! ```toml
//! constraints = ["block * unroll <= 256"]
//!
//! [parameters]
//! block = [16, 32, 64]                                  # a list: numbers, texts or flags
//! unroll = { from = 1, to = 8 }                         # step = 1 unless it says otherwise
//! tile = { from = 8, to = 256, times = 2, default = 32 } # doubling
//! simd = "flag"                                         # true or false
//! width = { values = [4, 8], if = "simd" }              # exists only where simd is true
//! ```

use crate::parameter::{Parameter, Range, Step};
use crate::space::{Blame, ParameterSpace, SpaceDefinition, SpaceError};
use crate::{Setting, t1, t4};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The largest space file that is read.
pub const MAX_SPACE_BYTES: u64 = 128 << 20;

/// Why a space file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct SpaceFileError {
    /// The line, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl SpaceFileError {
    /// A mistake of the whole file.
    pub fn new(reason: impl Into<String>) -> SpaceFileError {
        SpaceFileError { line: None, reason: reason.into() }
    }
}

/// Tables of a space file that are about a kernel in a file: `trimtab tune FILE` reads them.
pub const KERNEL_TABLES: [&str; 4] = ["kernel", "sizes", "arguments", "reference"];

/// Reads a space: our TOML, a T1 input file, or the configurations of T4 results.
pub fn read_space(bytes: &[u8]) -> Result<SpaceDefinition, SpaceFileError> {
    read_space_beside(bytes, &[])
}

/// The same where a TOML file has these tables too, which somebody else reads.
pub fn read_space_beside(bytes: &[u8], others: &[&str]) -> Result<SpaceDefinition, SpaceFileError> {
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start == Some(&b'{') {
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| SpaceFileError {
            line: Some(error.line()),
            reason: format!("not JSON: {error}"),
        })?;
        return match value.get("results").is_some() {
            true => t4::space_of(&value),
            false => t1::read(&value),
        };
    }
    read_toml(&Written::of(bytes)?, others)
}

/// The legal points of the space in a file. What leaves none is told with its line too.
pub fn open_space(bytes: &[u8], others: &[&str]) -> Result<ParameterSpace, SpaceFileError> {
    ParameterSpace::new(read_space_beside(bytes, others)?)
        .map_err(|error| SpaceFileError { line: line_of(bytes, &error), reason: error.reason })
}

/// The line of what is to blame in a TOML file.
fn line_of(bytes: &[u8], error: &SpaceError) -> Option<usize> {
    let source = Written::of(bytes).ok()?;
    let table = source.table().ok()?;
    let at = match (error.blame?, table.get_ref()) {
        (Blame::Parameter(at), table) => match table.get("parameters")?.get_ref() {
            DeValue::Table(parameters) => in_order(parameters).get(at)?.0.span(),
            _ => return None,
        },
        (Blame::Constraint(at), table) => match table.get("constraints")?.get_ref() {
            DeValue::Array(constraints) => constraints.get(at)?.span(),
            _ => return None,
        },
    };
    source.wrong(at, "").line
}

/// A TOML file being read: finds lines.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a>(pub &'a str);

impl<'a> Written<'a> {
    /// A file's text.
    pub fn of(bytes: &'a [u8]) -> Result<Written<'a>, SpaceFileError> {
        let text = std::str::from_utf8(bytes);
        text.map(Written)
            .map_err(|error| SpaceFileError::new(format!("not text: {error}; write TOML in UTF-8")))
    }

    /// Its tables.
    pub fn table(&self) -> Result<Spanned<DeTable<'a>>, SpaceFileError> {
        DeTable::parse(self.0).map_err(|error| {
            let reason = format!("not TOML: {}", error.message());
            error
                .span()
                .map_or_else(|| SpaceFileError::new(reason.clone()), |span| self.wrong(span, reason.clone()))
        })
    }

    /// What is wrong at these bytes, with their line.
    pub fn wrong(&self, at: std::ops::Range<usize>, reason: impl Into<String>) -> SpaceFileError {
        let line = self.0[..at.start.min(self.0.len())].matches('\n').count() + 1;
        SpaceFileError { line: Some(line), reason: reason.into() }
    }
}

fn read_toml(source: &Written<'_>, others: &[&str]) -> Result<SpaceDefinition, SpaceFileError> {
    let table = source.table()?;
    let mut space = SpaceDefinition::default();
    for (key, value) in in_order(table.get_ref()) {
        match key.get_ref().as_ref() {
            "parameters" => {
                let DeValue::Table(parameters) = value.get_ref() else {
                    return Err(source.wrong(
                        value.span(),
                        "`parameters` is a table: write [parameters], then a line for each",
                    ));
                };
                for (name, value) in in_order(parameters) {
                    // In TOML everything below a [table] belongs to it.
                    if name.get_ref().as_ref() == "constraints"
                        && matches!(value.get_ref(), DeValue::Array(_))
                    {
                        let reason = "`constraints` stands below [parameters] and would be one of them; put it before that line";
                        return Err(source.wrong(name.span(), reason));
                    }
                    let read = parameter(source, name.get_ref(), value);
                    space.parameters.push(read.map_err(|error| SpaceFileError {
                        line: error.line.or_else(|| source.wrong(name.span(), "").line),
                        reason: error.reason,
                    })?);
                }
            }
            "constraints" => space.constraints = constraints(source, value)?,
            other if others.contains(&other) => {}
            other => {
                let known: Vec<&str> = ["parameters", "constraints"].iter().chain(others).copied().collect();
                let mut reason = format!("`{other}` is not known here; there are: {}", known.join(", "));
                if KERNEL_TABLES.contains(&other) && others.is_empty() {
                    reason.push_str(
                        "; it is about a kernel in a file, which `trimtab tune FILE --space …` tunes",
                    );
                }
                return Err(source.wrong(key.span(), reason));
            }
        }
    }
    check(source, &table, &space)?;
    Ok(space)
}

/// The entries of a table in the order they were written; the table itself has them by name.
pub fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> Vec<(&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

/// Every expression is read once now: then its line is known.
fn check(
    source: &Written<'_>,
    table: &Spanned<DeTable<'_>>,
    space: &SpaceDefinition,
) -> Result<(), SpaceFileError> {
    let names: Vec<String> = space.parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let texts: Vec<Vec<String>> = space.parameters.iter().map(Parameter::texts).collect();
    let read = |text: &str, at: std::ops::Range<usize>| {
        let read = trimtab_tune::Expression::parse_with_texts(text, &names, &[], &texts);
        read.map(|_| ()).map_err(|error| source.wrong(at, error.to_string()))
    };
    if let Some(DeValue::Array(written)) = table.get_ref().get("constraints").map(Spanned::get_ref) {
        for (text, item) in space.constraints.iter().zip(written) {
            read(text, item.span())?;
        }
    }
    if let Some(DeValue::Table(written)) = table.get_ref().get("parameters").map(Spanned::get_ref) {
        for (parameter, (name, _)) in space.parameters.iter().zip(in_order(written)) {
            parameter.condition.as_deref().map_or(Ok(()), |text| read(text, name.span()))?;
        }
    }
    Ok(())
}

fn constraints(source: &Written<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, SpaceFileError> {
    let DeValue::Array(items) = value.get_ref() else {
        return Err(source.wrong(value.span(), "`constraints` is a list of texts: [\"a * b <= 256\"]"));
    };
    let mut texts = Vec::new();
    for item in items {
        match item.get_ref() {
            DeValue::String(text) => texts.push(text.to_string()),
            _ => return Err(source.wrong(item.span(), "a constraint is a text in quotes: \"a * b <= 256\"")),
        }
    }
    Ok(texts)
}

fn parameter(
    source: &Written<'_>,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Parameter, SpaceFileError> {
    let own = |reason: String| source.wrong(value.span(), reason);
    match value.get_ref() {
        DeValue::Array(_) => Parameter::new(name, list(source, name, value)?).map_err(own),
        DeValue::String(word) if word == "flag" => Parameter::new(name, flags()).map_err(own),
        DeValue::Table(table) => described(source, name, table, value),
        _ => Err(own(format!(
            "`{name}` is neither a list of values, {{ from = …, to = … }} nor \"flag\"; of one value write a list of one"
        ))),
    }
}

fn flags() -> Vec<Setting> {
    vec![Setting::Flag(false), Setting::Flag(true)]
}

fn list(
    source: &Written<'_>,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<Setting>, SpaceFileError> {
    let DeValue::Array(items) = value.get_ref() else {
        return Err(source.wrong(value.span(), format!("`values` of `{name}` is a list: [1, 2, 4]")));
    };
    items.iter().map(|item| setting(source, name, item)).collect()
}

fn setting(source: &Written<'_>, name: &str, item: &Spanned<DeValue<'_>>) -> Result<Setting, SpaceFileError> {
    let wrong = |what: &str| {
        source.wrong(item.span(), format!("a value of `{name}` is {what}; use numbers, texts or flags"))
    };
    Ok(match item.get_ref() {
        DeValue::Boolean(on) => Setting::Flag(*on),
        DeValue::String(text) => Setting::Text(text.to_string()),
        DeValue::Integer(integer) => {
            let read = i64::from_str_radix(integer.as_str(), integer.radix());
            Setting::Integer(read.map_err(|_| wrong("a whole number of more than 64 bits"))?)
        }
        DeValue::Float(float) => Setting::Number(float.as_str().parse().map_err(|_| wrong("no number"))?),
        DeValue::Datetime(_) => return Err(wrong("a date")),
        DeValue::Array(_) => return Err(wrong("a list")),
        DeValue::Table(_) => return Err(wrong("a table")),
    })
}

const KEYS: [&str; 8] = ["values", "from", "to", "step", "times", "flag", "default", "if"];

fn described(
    source: &Written<'_>,
    name: &str,
    table: &DeTable<'_>,
    whole: &Spanned<DeValue<'_>>,
) -> Result<Parameter, SpaceFileError> {
    for (key, _) in table {
        if !KEYS.contains(&key.get_ref().as_ref()) {
            let reason =
                format!("`{}` of `{name}` is not known; there are: {}", key.get_ref(), KEYS.join(", "));
            return Err(source.wrong(key.span(), reason));
        }
    }
    let own = |reason: String| source.wrong(whole.span(), reason);
    let number = |key: &str| -> Result<Option<(f64, bool)>, SpaceFileError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        match setting(source, name, value)? {
            Setting::Integer(integer) => Ok(Some((integer as f64, true))),
            Setting::Number(number) => Ok(Some((number, false))),
            _ => Err(source.wrong(value.span(), format!("`{key}` of `{name}` is no number"))),
        }
    };
    let is_flag = table.get("flag").is_some_and(|flag| matches!(flag.get_ref(), DeValue::Boolean(true)));
    let values = match (table.get("values"), number("from")?, number("to")?) {
        (Some(values), None, None) if !is_flag => list(source, name, values)?,
        (None, None, None) if is_flag => flags(),
        (None, Some(from), Some(to)) if !is_flag => {
            let (step, whole_step) = match (number("step")?, number("times")?) {
                (Some(_), Some(_)) => {
                    return Err(own(format!("`{name}` has both `step` and `times`; keep one of them")));
                }
                (Some((step, whole)), None) => (Step::Add(step), whole),
                (None, Some((factor, whole))) => (Step::Times(factor), whole),
                (None, None) => (Step::Add(1.0), true),
            };
            Range { from: from.0, to: to.0, step, whole: from.1 && to.1 && whole_step }
                .values(name)
                .map_err(own)?
        }
        _ => {
            return Err(own(format!(
                "`{name}` needs either `values`, or `from` and `to`, or `flag = true`, and not more than one of them"
            )));
        }
    };
    let mut parameter = Parameter::new(name, values).map_err(own)?;
    if let Some(default) = table.get("default") {
        let default_value = setting(source, name, default)?;
        parameter =
            parameter.with_default(&default_value).map_err(|reason| source.wrong(default.span(), reason))?;
    }
    if let Some(condition) = table.get("if") {
        let DeValue::String(text) = condition.get_ref() else {
            return Err(
                source.wrong(condition.span(), format!("`if` of `{name}` is a text in quotes: \"fast\""))
            );
        };
        parameter.condition = Some(text.to_string());
    }
    Ok(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_parameter_is_read() {
        let text = r#"
            constraints = ["block * unroll <= 256", "mode != 'slow' or block > 16"]
            [parameters]
            block = [16, 32, 64]
            unroll = { from = 1, to = 8 }
            tile = { from = 8, to = 64, times = 2, default = 32 }
            alpha = { from = 0.5, to = 1.5, step = 0.5 }
            simd = "flag"
            mode = { values = ["slow", "fast"], if = "simd" }
        "#;
        let definition = read_space(text.as_bytes()).unwrap();
        let shown: Vec<String> =
            definition.parameters.iter().map(|known| format!("{}: {}", known.name, known.listed())).collect();
        assert_eq!(
            shown,
            [
                "block: 16, 32, 64",
                "unroll: 1, 2, 3, 4, 5, 6, 7, 8",
                "tile: 8, 16, 32, 64",
                "alpha: 0.5, 1, 1.5",
                "simd: false, true",
                "mode: slow, fast"
            ]
        );
        assert_eq!(definition.parameters[2].default, Some(2));
        // 20 pairs of block and unroll × 4 tiles × 3 alphas × (without simd 1, with simd 2, slow only above block 16).
        let space = ParameterSpace::new(definition).unwrap();
        assert_eq!(space.len(), 12 * (8 * 2 + 12 * 3));
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        for (text, line, part) in [
            ("[parameters\na = [1]", 1, "not TOML"),
            (
                "[parameters]\na = [1]\n[metric]\nx = 1",
                3,
                "`metric` is not known here; there are: parameters, constraints",
            ),
            ("[parameters]\n\na = 5", 3, "of one value write a list of one"),
            ("[parameters]\na = [1, 2]\nb = [1, \"x\"]", 3, "mixes numbers and texts"),
            ("[parameters]\na = { from = 8, to = 1 }", 2, "wrong way round"),
            ("[parameters]\na = { from = 1 }", 2, "needs either"),
            ("[parameters]\na = { values = [1], stepp = 2 }", 2, "`stepp` of `a` is not known; there are"),
            ("[parameters]\na = { values = [1, 2], default = 3 }", 2, "none of its values: 1, 2"),
            ("[parameters]\na = { from = 1, to = 8, step = 1, times = 2 }", 2, "keep one of them"),
            ("constraints = [\"a > b\"]\n[parameters]\na = [1]", 1, "`b` is no axis"),
            ("constraints = [1]\n[parameters]\na = [1]", 1, "a text in quotes"),
            ("[parameters]\na = [1]\nb = { values = [1], if = \"c\" }", 3, "`c` is no axis"),
            ("[parameters]\na = []", 2, "has no values"),
            ("[parameters]\na = [1, 1]", 2, "twice"),
            ("[parameters]\n\"a b\" = [1]", 2, "letters, digits"),
            ("[parameters]\na = [1]\na = [2]", 3, "not TOML"),
            ("[parameters]\na = [1979-05-27]", 2, "is a date"),
            ("[parameters]\na = [1]\nconstraints = [\"a > 1\"]", 3, "put it before that line"),
        ] {
            let error = read_space(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, Some(line), "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        for (text, line, part) in [
            (
                "constraints = [\n  \"a > 1\",\n  \"a * b > 99\",\n]\n[parameters]\na = [1, 2]\nb = [1, 2]",
                3,
                "`a * b > 99` rules out what those before it leave: loosen it",
            ),
            ("[parameters]\na = { values = [1], if = \"b > 0\" }\nb = [1]", 2, "put that one first"),
        ] {
            let error = open_space(text.as_bytes(), &[]).unwrap_err();
            assert_eq!(error.line, Some(line), "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        assert!(read_space(b"\xff").unwrap_err().to_string().contains("not text"));
        let kernel = b"[parameters]\na = [1]\n[kernel]\nentry = 'k'";
        let error = read_space(kernel).unwrap_err();
        assert!(error.line == Some(3) && error.reason.contains("trimtab tune FILE"), "{error}");
        assert_eq!(read_space_beside(kernel, &KERNEL_TABLES).unwrap().parameters.len(), 1);
    }
}
