//! A parameter: its name, the values it may take, the one it has by default, and when it exists at all.

use crate::Setting;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

/// The most values of a parameter; the search tells no more apart.
pub const MAX_VALUES: usize = 65_536;

/// Something that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// The values, in the order they are tried by a sweep.
    pub values: Vec<Setting>,
    /// The value it has unless somebody says so, by place. Where every parameter that has one is at it, a search begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<usize>,
    /// What must hold of earlier parameters for this one to exist.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "if")]
    pub condition: Option<String>,
}

impl Parameter {
    /// A parameter of these values; an error says what is wrong with them.
    pub fn new(name: &str, values: Vec<Setting>) -> Result<Parameter, String> {
        check_name(name)?;
        if values.is_empty() {
            return Err(format!("`{name}` has no values; give at least one"));
        }
        if values.len() > MAX_VALUES {
            return Err(format!("`{name}` has {} values; at most {MAX_VALUES} are possible", values.len()));
        }
        let values = of_one_kind(name, values)?;
        let mut seen = FxHashSet::default();
        for value in &values {
            if !seen.insert(value.meaning()) {
                return Err(format!("`{name}` has the value {value} twice; keep one of them"));
            }
            if let Setting::Text(text) = value
                && text.contains('\0')
            {
                return Err(format!(
                    "a value of `{name}` holds a NUL character, which no command can be given; leave it out"
                ));
            }
        }
        Ok(Parameter { name: name.to_string(), values, default: None, condition: None })
    }

    /// Reads `NAME=V1,V2,…`, `NAME=1..8`, `NAME=0..64:8` (steps of 8) or `NAME=1..64:*2` (doubling).
    pub fn parse(text: &str) -> Result<Parameter, String> {
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!("`{text}` has no values; write NAME=V1,V2,… or NAME=FROM..TO"));
        };
        let name = name.trim();
        check_name(name)?;
        if let Some(range) = Range::parse(values) {
            return Parameter::new(
                name,
                range.map_err(|reason| format!("`{name}`: {reason}"))?.values(name)?,
            );
        }
        if values.is_empty() {
            return Err(format!("`{name}` has no values; write {name}=V1,V2,…"));
        }
        let words: Vec<Setting> = values.split(',').map(Setting::parse).collect();
        // One word that is no number makes all of them texts: a command gets what was written.
        let texts = |words: Vec<Setting>| match words.iter().any(|word| matches!(word, Setting::Text(_))) {
            true => values.split(',').map(|word| Setting::Text(word.to_string())).collect(),
            false => words,
        };
        Parameter::new(name, texts(words))
    }

    /// The same with that default, which must be one of its values.
    pub fn with_default(mut self, default: &Setting) -> Result<Parameter, String> {
        let place = self.values.iter().position(|value| value.means(default));
        let place = place.ok_or_else(|| {
            format!("the default {default} of `{}` is none of its values: {}", self.name, self.listed())
        })?;
        self.default = Some(place);
        Ok(self)
    }

    /// The place of its default; the first value where none was given.
    pub fn default_place(&self) -> usize {
        self.default.unwrap_or(0)
    }

    /// Its texts, if it takes texts.
    pub fn texts(&self) -> Vec<String> {
        let texts = self.values.iter().map(|value| match value {
            Setting::Text(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Option<Vec<String>>>().unwrap_or_default()
    }

    /// Its first values, for people.
    pub(crate) fn listed(&self) -> String {
        const SHOWN: usize = 12;
        let mut shown: Vec<String> = self.values.iter().take(SHOWN).map(Setting::to_string).collect();
        if self.values.len() > SHOWN {
            shown.push("…".to_string());
        }
        shown.join(", ")
    }
}

/// Names are words of the constraint language, of environments and of C.
fn check_name(name: &str) -> Result<(), String> {
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let taken = ["and", "or", "not", "in", "min", "max", "true", "false", "True", "False", "out", "worker"];
    if !good {
        return Err(format!("`{name}` cannot be the name of a parameter; use letters, digits and `_`"));
    }
    if taken.contains(&name) {
        return Err(format!("`{name}` means something else already; choose another name for the parameter"));
    }
    Ok(())
}

/// Numbers of both kinds are numbers; anything else must not be mixed.
fn of_one_kind(name: &str, values: Vec<Setting>) -> Result<Vec<Setting>, String> {
    let kind = |value: &Setting| match value {
        Setting::Flag(_) => "flags",
        Setting::Integer(_) | Setting::Number(_) => "numbers",
        Setting::Text(_) => "texts",
    };
    let first = kind(&values[0]);
    if let Some(other) = values.iter().find(|value| kind(value) != first) {
        let also = kind(other);
        return Err(format!("`{name}` mixes {first} and {also}; write all of them as texts, in quotes"));
    }
    if values.iter().any(|value| matches!(value, Setting::Number(number) if !number.is_finite())) {
        return Err(format!("`{name}` has a value that is no finite number; leave it out"));
    }
    Ok(values)
}

/// Numbers from one to another, both included, by a step or doubling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) step: Step,
    /// Whether only whole numbers come out.
    pub(crate) whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    Add(f64),
    Times(f64),
}

impl Range {
    /// Reads `1..8`, `0..64:8`, `1..64:*2`; nothing if it is no range.
    fn parse(text: &str) -> Option<Result<Range, String>> {
        let (from, rest) = text.split_once("..")?;
        let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
        // `a..b` of texts is a text.
        let (from, to) = (number(from)?, number(to)?);
        let (step, step_is_whole) = match step {
            None => (Step::Add(1.0), true),
            Some(step) => {
                let (times, digits) = step.strip_prefix('*').map_or((false, step), |digits| (true, digits));
                let Some((step, whole)) = number(digits) else {
                    return Some(Err(format!("`{step}` is no step; write a number, or *2 for doubling")));
                };
                (if times { Step::Times(step) } else { Step::Add(step) }, whole)
            }
        };
        Some(Ok(Range { from: from.0, to: to.0, step, whole: from.1 && to.1 && step_is_whole }))
    }

    pub(crate) fn values(&self, name: &str) -> Result<Vec<Setting>, String> {
        if self.from > self.to {
            return Err(format!(
                "`{name}` goes from {} to {}: the wrong way round; write the smaller number first",
                self.from, self.to
            ));
        }
        let count = match self.step {
            Step::Add(step) if step > 0.0 => ((self.to - self.from) / step + 1e-9).floor() + 1.0,
            Step::Times(factor) if factor > 1.0 && self.from > 0.0 => {
                ((self.to / self.from).log2() / factor.log2() + 1e-9).floor() + 1.0
            }
            Step::Add(step) => {
                return Err(format!("the step {step} of `{name}` never arrives; write one above zero"));
            }
            Step::Times(factor) if self.from > 0.0 => {
                return Err(format!(
                    "multiplying `{name}` by {factor} never arrives; write a factor above one"
                ));
            }
            Step::Times(_) => {
                return Err(format!(
                    "`{name}` starts at {}, which does not grow by doubling; start above zero",
                    self.from
                ));
            }
        };
        if count > MAX_VALUES as f64 {
            return Err(format!(
                "`{name}` has {count} values; at most {MAX_VALUES} are possible: take a larger step"
            ));
        }
        let mut value = self.from;
        let mut values = Vec::new();
        for at in 0..count as u32 {
            if let Step::Add(step) = self.step {
                // No error adds up: 0.1 five times is 0.5, to the digits people write.
                value = ((self.from + step * f64::from(at)) * 1e12).round() / 1e12;
            }
            values.push(match self.whole {
                true => Setting::Integer(value as i64),
                false => Setting::Number(value),
            });
            if let Step::Times(factor) = self.step {
                value *= factor;
            }
        }
        Ok(values)
    }
}

/// A number, and whether it is a whole one.
fn number(text: &str) -> Option<(f64, bool)> {
    let text = text.trim();
    match Setting::parse(text) {
        Setting::Integer(integer) => Some((integer as f64, true)),
        Setting::Number(number) => Some((number, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Parameter::parse(text) {
            Ok(parameter) => parameter.listed(),
            Err(reason) => format!("error: {reason}"),
        }
    }

    #[test]
    fn values_are_listed_or_counted_out() {
        assert_eq!(shown("block=16,32,64"), "16, 32, 64");
        assert_eq!(shown("u=1..8"), "1, 2, 3, 4, 5, 6, 7, 8");
        assert_eq!(shown("u=0..64:16"), "0, 16, 32, 48, 64");
        assert_eq!(shown("u=1..64:*2"), "1, 2, 4, 8, 16, 32, 64");
        assert_eq!(shown("u=0.1..0.5:0.1"), "0.1, 0.2, 0.3, 0.4, 0.5");
        assert_eq!(shown("opt=-O2,-O3"), "-O2, -O3");
        assert_eq!(shown("threads=1,2,auto"), "1, 2, auto");
        assert_eq!(shown("fast=true,false"), "true, false");
        assert_eq!(shown("flag=,-x"), ", -x");
    }

    #[test]
    fn as_many_values_as_there_may_be_are_read() {
        // Compared with each other they took half a minute; the fuzzer found `a=1.1..42222`.
        assert_eq!(Parameter::parse("u=1..65536").unwrap().values.len(), MAX_VALUES);
        assert_eq!(Parameter::parse("a=1.1..42222").unwrap().values.len(), 42_221);
    }

    #[test]
    fn every_mistake_is_named_with_what_to_do() {
        for (text, part) in [
            ("block", "has no values"),
            ("block=", "has no values"),
            ("1x=3", "cannot be the name"),
            ("and=3", "means something else"),
            ("u=8..1", "wrong way round"),
            ("u=1..8:0", "never arrives"),
            ("u=1..8:*1", "never arrives"),
            ("u=0..8:*2", "start above zero"),
            ("u=1..8:x", "is no step"),
            ("u=1..1000000", "take a larger step"),
            ("u=1,2,1", "twice"),
            ("u=1,1.0", "twice"),
            ("u=0,-0.0", "twice"),
            ("u=a,b,a", "twice"),
            ("u=a\0b", "NUL"),
        ] {
            let said = shown(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
