//! Lists as Python writes them, which is how T1 files give values: `[16, 32]`, `range(1, 9)`, `[1] + list(range(32, 1025, 32))`,
//! `[2**i for i in range(6) if i != 3]`. Nothing is run: numbers are those of the constraint language.

use crate::Setting;
use crate::parameter::MAX_VALUES;
use rustc_hash::FxHashSet;
use trimtab_tune::Expression;

/// Lists within lists, to this depth.
const MAX_DEPTH: u32 = 8;

/// The values of such a text; each once, as it came first.
pub(crate) fn read(text: &str) -> Result<Vec<Setting>, String> {
    let values = sum(text.trim(), 0)
        .ok_or_else(|| format!("`Values` is {text}; write a list such as \"[16, 32, 64]\""))?;
    let mut seen = FxHashSet::default();
    Ok(values.iter().filter(|value| seen.insert(value.meaning())).cloned().collect())
}

/// Lists one behind the other.
fn sum(text: &str, depth: u32) -> Option<Vec<Setting>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut values = Vec::new();
    for part in apart(text, "+") {
        values.extend(list(part, depth)?);
        if values.len() > MAX_VALUES {
            return None;
        }
    }
    Some(values)
}

fn list(text: &str, depth: u32) -> Option<Vec<Setting>> {
    let text = text.trim();
    if let Some(inside) = called(text, "range") {
        return range(inside);
    }
    for name in ["list", "tuple", "sorted"] {
        if let Some(inside) = called(text, name) {
            let mut values = sum(inside, depth + 1)?;
            if name == "sorted" {
                values
                    .sort_by(|a, b| a.number().partial_cmp(&b.number()).unwrap_or(std::cmp::Ordering::Equal));
            }
            return Some(values);
        }
    }
    let (open, close) = if text.starts_with('[') { ('[', ']') } else { ('(', ')') };
    let inside = text.strip_prefix(open)?.strip_suffix(close)?;
    // `(a) + (b)` begins and ends with brackets that do not belong together.
    if !is_balanced(inside) {
        return None;
    }
    match apart(inside, " for ")[..] {
        [each, over] => comprehension(each, over, depth),
        [_] => apart(inside, ",").into_iter().filter(|word| !word.is_empty()).map(item).collect(),
        _ => None,
    }
}

/// `2**i` for `i in range(6)`, perhaps with `if …`.
fn comprehension(each: &str, over: &str, depth: u32) -> Option<Vec<Setting>> {
    let (name, rest) = over.split_once(" in ")?;
    let name = [name.trim().to_string()];
    let (given, condition) = match apart(rest, " if ")[..] {
        [given] => (given, None),
        [given, condition] => (given, Some(Expression::parse(condition, &name, &[]).ok()?)),
        _ => return None,
    };
    let each = Expression::parse(each, &name, &[]).ok()?;
    let mut values = Vec::new();
    for one in sum(given, depth + 1)? {
        let one = [one.number()?];
        if condition.as_ref().is_none_or(|condition| condition.holds_for(&one)) {
            values.push(number(each.value(&one))?);
        }
    }
    Some(values)
}

fn range(inside: &str) -> Option<Vec<Setting>> {
    let numbers: Option<Vec<i64>> = apart(inside, ",").into_iter().map(whole).collect();
    let (from, to, step) = match numbers?[..] {
        [to] => (0, to, 1),
        [from, to] => (from, to, 1),
        [from, to, step] if step != 0 => (from, to, step),
        _ => return None,
    };
    let (mut value, mut values) = (from, Vec::new());
    while (step > 0 && value < to) || (step < 0 && value > to) {
        if values.len() == MAX_VALUES {
            return None;
        }
        values.push(Setting::Integer(value));
        value = value.checked_add(step)?;
    }
    Some(values)
}

fn item(word: &str) -> Option<Setting> {
    for quote in ['\'', '"'] {
        let text = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(text) = text {
            return Some(Setting::Text(text.to_string()));
        }
    }
    match (word, Setting::parse(word)) {
        ("True", _) => Some(Setting::Flag(true)),
        ("False", _) => Some(Setting::Flag(false)),
        (word, Setting::Text(_)) => number(Expression::parse(word, &[], &[]).ok()?.value(&[])),
        (_, value) => Some(value),
    }
}

fn whole(word: &str) -> Option<i64> {
    match number(Expression::parse(word, &[], &[]).ok()?.value(&[]))? {
        Setting::Integer(whole) => Some(whole),
        _ => None,
    }
}

/// A whole number where it is one that a float holds exactly.
fn number(value: f64) -> Option<Setting> {
    const EXACT: f64 = (1u64 << 53) as f64;
    match value.fract() == 0.0 && value.abs() <= EXACT {
        true => Some(Setting::Integer(value as i64)),
        false => value.is_finite().then_some(Setting::Number(value)),
    }
}

/// What stands between the brackets of a call.
fn called<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let inside = text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    is_balanced(inside).then_some(inside)
}

/// Whether every bracket outside of quotes is closed, and none before it was opened.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0i32;
    let all = outside_quotes(text).all(|(_, c)| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth >= 0
    });
    all && depth == 0
}

/// The characters that stand in no quotes, with their places.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    text.char_indices().filter(move |(_, c)| match quote {
        Some(open) => {
            if *c == open {
                quote = None;
            }
            false
        }
        None if matches!(c, '\'' | '"') => {
            quote = Some(*c);
            false
        }
        None => true,
    })
}

/// The parts of a text between separators that stand outside of quotes and brackets.
fn apart<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0i32);
    for (at, c) in outside_quotes(text) {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        if depth == 0 && at >= from && text[at..].starts_with(separator) {
            parts.push(text[from..at].trim());
            from = at + separator.len();
        }
    }
    parts.push(text[from..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::read;

    fn shown(text: &str) -> String {
        let values = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_are_read_as_python_reads_them() {
        for (text, values) in [
            ("[16, 32, 64]", "16 32 64"),
            ("(1,)", "1"),
            ("[]", ""),
            ("range(3)", "0 1 2"),
            ("list(range(32, 128+1, 32))", "32 64 96 128"),
            ("range(5, 0, -2)", "5 3 1"),
            ("[1, 2, 4] + list(range(32, 97, 32))", "1 2 4 32 64 96"),
            ("[2**i for i in range(0, 6)]", "1 2 4 8 16 32"),
            ("[1] + [2*i for i in range(1,4)]", "1 2 4 6"),
            ("[32 * i for i in range(1, 6) if i != 2 and i < 5]", "32 96 128"),
            ("[x / 2 for x in [1, 2, 3]]", "0.5 1 1.5"),
            ("sorted([4, 1] + [2])", "1 2 4"),
            ("[32*1, 32*2, -1, 1e-3]", "32 64 -1 0.001"),
            ("[True, False]", "true false"),
            ("['a,b', \"c ] d\", 'x for y in z']", "a,b c ] d x for y in z"),
            // A value twice is one value.
            ("[1, 2] + [i for i in range(1, 4)]", "1 2 3"),
        ] {
            assert_eq!(shown(text), values, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_and_nothing_grows_without_end() {
        let deep = format!("{}1{}", "list(".repeat(2000), ")".repeat(2000));
        for text in [
            "2**x",
            "[1, 2",
            "[a, b]",
            "range(1, 9000000000000000000)",
            "range(1, 9, 0)",
            "[i for i in range(3) for j in range(3)]",
            "__import__('os')",
            "(1) + 2",
            "[1](2)",
            "[1/0]",
            "",
            "é",
            deep.as_str(),
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
