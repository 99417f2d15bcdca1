//! How results are written: lines and tables as wide as the terminal, numbers with units, JSON lines. Knows no command.

use crate::args::Global;
use crate::table::Table;
use crate::terminal::{self, Style, wrapped};
use anyhow::Result;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use trimtab::advanced::core::{Nanos, Operation, Problem, is_steering};

/// Standard output, or a text that is kept, as text or JSON lines. A closed pipe is an error here, never a panic. Text passes through [`printable`] on its way: names
/// come from files and libraries, and must not steer a terminal.
pub struct Output {
    json: bool,
    /// Where lines are broken; nowhere in a pipe.
    width: Option<usize>,
    /// Whether anything is bold or coloured.
    styled: bool,
    /// What was written, where it is not for standard output.
    kept: Option<RefCell<String>>,
}

impl Output {
    /// Standard output as the options and the terminal have it.
    pub fn new(global: &Global) -> Output {
        let width = global.columns.map(usize::from).or_else(terminal::width);
        Output { json: global.json, width, styled: terminal::shows(global.color), kept: None }
    }

    /// Keeps what is written: see [`Output::take`].
    pub fn kept(json: bool) -> Output {
        Output { json, width: None, styled: false, kept: Some(RefCell::default()) }
    }

    /// The same as on a terminal of so many columns.
    #[cfg(test)]
    pub fn kept_at(columns: usize) -> Output {
        Output { width: Some(columns), ..Output::kept(false) }
    }

    /// What was kept so far.
    pub fn take(&self) -> String {
        self.kept.as_ref().map(RefCell::take).unwrap_or_default()
    }

    fn write(&self, line: &str) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.borrow_mut().extend([line, "\n"]),
            None => writeln!(std::io::stdout().lock(), "{line}")?,
        }
        Ok(())
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a line of text, broken between words where the terminal ends.
    pub fn line(&self, text: impl AsRef<str>) -> Result<()> {
        self.styled(Style::Plain, text.as_ref())
    }

    /// Writes the line that sums up: bold where that can be.
    pub fn summary(&self, text: impl AsRef<str>) -> Result<()> {
        self.styled(Style::Strong, text.as_ref())
    }

    /// Writes a line that others read, never broken.
    pub fn verbatim(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&printable(text.as_ref()))
    }

    /// Writes a line of ours that is a file's: a script, a page. Nothing in it comes from outside.
    pub fn written(&self, text: &str) -> Result<()> {
        self.write(text)
    }

    fn styled(&self, style: Style, text: &str) -> Result<()> {
        let text = printable(text);
        let lines = self.width.map_or_else(|| vec![text.clone()], |width| wrapped(&text, width));
        lines.iter().try_for_each(|line| self.painted(style, line))
    }

    fn painted(&self, style: Style, line: &str) -> Result<()> {
        if self.styled { self.write(&style.paint(line)) } else { self.write(line) }
    }

    /// Writes an empty line and a line of text.
    pub fn apart(&self, text: impl AsRef<str>) -> Result<()> {
        self.line("")?;
        self.line(text)
    }

    /// Writes an object as one line of JSON.
    pub fn object(&self, object: &impl Serialize) -> Result<()> {
        self.write(&printable_json(&serde_json::to_string(object)?))
    }

    /// Writes an object as one line of JSON, or as text.
    pub fn either(&self, object: &impl Serialize, text: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.json { self.object(object) } else { text() }
    }

    /// Writes a table.
    pub fn table(&self, table: &Table) -> Result<()> {
        table.lines(self.width).iter().try_for_each(|(style, line)| self.painted(*style, line))
    }

    /// Writes a table and an empty line behind it, or nothing where it has no rows.
    pub fn table_if_any(&self, table: &Table) -> Result<()> {
        if table.is_empty() {
            return Ok(());
        }
        self.table(table)?;
        self.line("")
    }
}

/// The text without control characters.
pub fn printable(text: &str) -> String {
    trimtab::advanced::core::printable(text).into_owned()
}

/// JSON with such characters as JSON writes them. They stand in texts only: what serde writes has none elsewhere.
pub fn printable_json(json: &str) -> String {
    if !json.contains(is_steering) {
        return json.to_string();
    }
    let mut shown = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match is_steering(c) {
            // None of them is above sixteen bits.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// How many of something: `1 fact`, `2 facts`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A time; three digits, also below a hundred nanoseconds.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 10.0 => format!("{ns:.2} ns"),
        ns if ns < 100.0 => format!("{ns:.1} ns"),
        ns => Nanos(ns.round() as u64).to_string(),
    }
}

/// A factor: `1.85×`.
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 0.1 => format!("{ratio:.3}×"),
        ratio if ratio < 10.0 => format!("{ratio:.2}×"),
        ratio if ratio < 1000.0 => format!("{ratio:.1}×"),
        ratio => format!("{ratio:.0}×"),
    }
}

/// A share: `2 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 && percent.fract().abs() > 0.05 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A spread in doublings as a share: `±3 %`.
pub fn spread(log2: f64) -> String {
    if log2.is_finite() { format!("±{}", percent(log2.exp2() - 1.0)) } else { String::new() }
}

/// What a problem's speed is measured in: arithmetic for products, operand bytes moved for everything else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub value: f64,
    pub unit: &'static str,
}

impl Speed {
    /// Arithmetic or bytes per nanosecond are giga per second.
    pub fn of(problem: &Problem, ns: f64) -> Option<Speed> {
        let (amount, unit) = match problem.operation() {
            Operation::Matmul => (problem.flops(), "GFLOP/s"),
            _ => (problem.operand_bytes().0, "GB/s"),
        };
        (amount > 0 && ns > 0.0).then(|| Speed { value: amount as f64 / ns, unit })
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.value < 10.0 { 2 } else { 1 };
        write!(f, "{:.digits$} {}", self.value, self.unit)
    }
}

/// A point's name (`kc=256,mc=64`, `-`) as axes and values.
pub fn axes(point_name: &str) -> BTreeMap<String, u32> {
    let pairs = point_name.split(',').filter_map(|part| part.split_once('='));
    pairs.filter_map(|(axis, value)| Some((axis.to_string(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown = [
            time(3.251),
            time(31.4159),
            time(31_415.9),
            times(1.849),
            times(0.0026),
            times(12.34),
            percent(0.02),
            percent(0.004),
        ];
        assert_eq!(shown, ["3.25 ns", "31.4 ns", "31.4 µs", "1.85×", "0.003×", "12.3×", "2 %", "0.4 %"]);
    }

    #[test]
    fn json_stays_json_and_says_the_same() {
        let name = "\x1b[31m\u{9b}2J\u{7f}\u{202e}\n";
        let json = printable_json(&serde_json::to_string(&[name]).unwrap());
        assert!(json.is_ascii() && !json.contains(char::is_control), "{json}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [name]);
    }

    #[test]
    fn a_point_becomes_axes_and_values() {
        assert_eq!(
            axes("kc=256,mc=64").into_iter().collect::<Vec<_>>(),
            [("kc".into(), 256), ("mc".into(), 64)]
        );
        assert!(axes("-").is_empty());
    }
}
