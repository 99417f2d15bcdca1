//! A value of a parameter: a whole number, a number, a text or a flag.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The largest code of an axis whose values are told apart by doublings alone.
const MOST_DOUBLINGS: usize = 31;
/// The code of the smallest of positive numbers that are no whole ones: others keep their ratio to it.
const SMALLEST_CODE: f64 = 1000.0;

/// One value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// On or off.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Setting {
    /// The value of a word on the command line: a number or a flag where it reads as one.
    pub fn parse(word: &str) -> Setting {
        if let Ok(integer) = word.parse::<i64>() {
            // `007` and `+7` are texts: a command gets what was written.
            if integer.to_string() == word {
                return Setting::Integer(integer);
            }
        }
        match word {
            "true" => return Setting::Flag(true),
            "false" => return Setting::Flag(false),
            _ => {}
        }
        let padded = word.len() > 1 && word.starts_with('0') && !word.starts_with("0.");
        let looks_like_one =
            word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') && !padded;
        match word.parse::<f64>() {
            Ok(number) if looks_like_one && number.is_finite() => Setting::Number(number),
            _ => Setting::Text(word.to_string()),
        }
    }

    /// The value of a word of JSON, if it is one.
    pub fn of_json(value: &Value) -> Option<Setting> {
        Some(match value {
            Value::Bool(on) => Setting::Flag(*on),
            Value::String(text) => Setting::Text(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Setting::Integer(integer),
                None => Setting::Number(number.as_f64()?),
            },
            _ => return None,
        })
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Setting::Flag(on) => Value::Bool(*on),
            Setting::Integer(integer) => Value::from(*integer),
            Setting::Number(number) => Value::from(*number),
            Setting::Text(text) => Value::String(text.clone()),
        }
    }

    /// The number constraints see; nothing of a text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Setting::Flag(on) => Some(f64::from(u8::from(*on))),
            Setting::Integer(integer) => Some(*integer as f64),
            Setting::Number(number) => Some(*number),
            Setting::Text(_) => None,
        }
    }

    /// What tells values of one kind apart: equal where [`means`](Self::means) holds.
    pub(crate) fn meaning(&self) -> Result<u64, &str> {
        match self {
            Setting::Text(text) => Err(text),
            // Zero has two signs and one meaning.
            other => Ok((other.number().unwrap_or_default() + 0.0).to_bits()),
        }
    }

    /// Whether two values mean the same: 2 and 2.0, and a text that reads as the number.
    pub fn means(&self, other: &Setting) -> bool {
        match (self.number(), other.number()) {
            (Some(one), Some(another)) => one == another,
            (None, None) => self == other,
            _ => self.to_string() == other.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Flag(on) => write!(f, "{on}"),
            Setting::Integer(integer) => write!(f, "{integer}"),
            Setting::Number(number) => write!(f, "{number}"),
            Setting::Text(text) => f.write_str(text),
        }
    }
}

/// The code of each value for the search, which knows whole numbers on a scale of doublings.
///
/// Whole numbers are their own code, so that a search here is the same as one on a recording. Other positive numbers keep their ratios.
/// Texts, and numbers below zero, lie one doubling apart in their order, and beyond 31 of them one step.
pub(crate) fn codes(values: &[Setting]) -> Vec<u32> {
    let whole = |value: &Setting| match value {
        Setting::Flag(on) => Some(u32::from(*on)),
        Setting::Integer(integer) => u32::try_from(*integer).ok(),
        _ => None,
    };
    if let Some(codes) = values.iter().map(whole).collect::<Option<Vec<u32>>>() {
        return codes;
    }
    let numbers: Option<Vec<f64>> = values.iter().map(Setting::number).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    if let Some(numbers) = &numbers {
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        let smallest = numbers[order[0]];
        let scaled = |at: usize| numbers[at] / smallest * SMALLEST_CODE;
        let fits = smallest > 0.0 && scaled(order[order.len() - 1]) < f64::from(u32::MAX);
        let apart = order.windows(2).all(|pair| scaled(pair[1]).round() > scaled(pair[0]).round());
        if fits && apart {
            return (0..values.len()).map(|at| scaled(at).round() as u32).collect();
        }
    }
    let mut codes = vec![0; values.len()];
    for (rank, at) in order.into_iter().enumerate() {
        codes[at] = if values.len() <= MOST_DOUBLINGS { 1 << rank } else { rank as u32 + 1 };
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_what_they_look_like() {
        for (word, value) in [
            ("16", Setting::Integer(16)),
            ("-3", Setting::Integer(-3)),
            ("0.5", Setting::Number(0.5)),
            ("1e-3", Setting::Number(0.001)),
            ("true", Setting::Flag(true)),
            ("gcc", Setting::Text("gcc".into())),
            ("007", Setting::Text("007".into())),
            ("inf", Setting::Text("inf".into())),
            ("-O3", Setting::Text("-O3".into())),
            ("", Setting::Text(String::new())),
        ] {
            assert_eq!(Setting::parse(word), value, "{word}");
        }
    }

    #[test]
    fn values_lie_apart_for_the_search() {
        let of = |words: &[&str]| codes(&words.iter().map(|word| Setting::parse(word)).collect::<Vec<_>>());
        assert_eq!(of(&["64", "16", "32"]), [64, 16, 32]);
        assert_eq!(of(&["0.5", "1.0", "2.0"]), [1000, 2000, 4000]);
        assert_eq!(of(&["a", "b", "c"]), [1, 2, 4]);
        assert_eq!(of(&["2", "-1", "0"]), [4, 1, 2]);
        assert_eq!(of(&["true", "false"]), [1, 0]);
        let many: Vec<Setting> = (0..40).map(|at| Setting::Text(format!("t{at}"))).collect();
        assert_eq!(codes(&many)[39], 40);
    }
}
