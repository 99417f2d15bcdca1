//! How results are written: aligned tables, numbers with units, JSON lines. Knows no command.

use anyhow::Result;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use trimtab::core::{Nanos, Operation, Problem, is_steering};

/// Widest a cell of free text gets before it is cut, so that one long reason does not push a table apart.
const WIDEST_TEXT: usize = 72;

/// Standard output, or a text that is kept, as text or JSON lines. A closed pipe is an error here, never a panic. Text passes through [`printable`] on its way: names
/// come from files and libraries, and must not steer a terminal.
pub struct Output {
    json: bool,
    /// What was written, where it is not for standard output.
    kept: Option<RefCell<String>>,
}

impl Output {
    pub fn new(json: bool) -> Output {
        Output { json, kept: None }
    }

    /// Keeps what is written: see [`Output::take`].
    pub fn kept(json: bool) -> Output {
        Output { json, kept: Some(RefCell::default()) }
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

    /// Writes one line of text.
    pub fn line(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&printable(text.as_ref()))
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
        table.to_text().lines().try_for_each(|line| self.line(line))
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

/// Where a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows under headings. Columns in which every cell is empty are left out.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<(bool, Vec<String>)>,
}

impl Table {
    /// A heading that begins with `>` stands right, like the numbers under it.
    pub fn new<T: AsRef<str>>(headings: &[T]) -> Table {
        Table { columns: headings.iter().map(|heading| column(heading.as_ref())).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.marked_row(false, cells);
    }

    /// A row with a mark before it, for the chosen one.
    pub fn marked_row(&mut self, marked: bool, cells: Vec<String>) {
        let mut cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push((marked, cells));
    }

    /// A table of so many rows, to be filled column by column.
    pub fn of<T>(items: &[T]) -> Listing<'_, T> {
        let table = Table { columns: Vec::new(), rows: vec![(false, Vec::new()); items.len()] };
        Listing { items, table }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn to_text(&self) -> String {
        let width = |text: &str| text.chars().count();
        let any_marked = self.rows.iter().any(|(marked, _)| *marked);
        let columns: Vec<(usize, usize)> = (0..self.columns.len())
            .map(|index| (index, self.rows.iter().map(|(_, cells)| width(&cells[index])).max().unwrap_or(0)))
            .filter(|&(_, widest)| widest > 0)
            .map(|(index, widest)| (index, widest.max(width(&self.columns[index].0))))
            .collect();
        let render = |mark: &str, cells: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = columns
                .iter()
                .map(|&(index, width)| match self.columns[index].1 {
                    Align::Left => format!("{:<width$}", cells(index)),
                    Align::Right => format!("{:>width$}", cells(index)),
                })
                .collect();
            format!("{mark}{}", cells.join("  ")).trim_end().to_string()
        };
        let indent = if any_marked { "  " } else { "" };
        let total = columns.iter().map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2);
        let mut lines = vec![render(indent, &|index| self.columns[index].0.clone())];
        lines.push(format!("{indent}{}", "─".repeat(total)));
        for (marked, cells) in &self.rows {
            let mark = if *marked { "▶ " } else { indent };
            lines.push(render(mark, &|index| cells[index].clone()));
        }
        lines.join("\n")
    }
}

fn column(heading: &str) -> (String, Align) {
    match heading.strip_prefix('>') {
        Some(heading) => (heading.to_string(), Align::Right),
        None => (heading.to_string(), Align::Left),
    }
}

fn cell(text: &str) -> String {
    short(&printable(text), WIDEST_TEXT)
}

/// A table with a row for each of some things, while its columns are said.
pub struct Listing<'a, T> {
    items: &'a [T],
    table: Table,
}

impl<T> Listing<'_, T> {
    /// Adds a column: its heading, and what it says of each thing.
    pub fn column(mut self, heading: &str, says: impl Fn(&T) -> String) -> Self {
        self.table.columns.push(column(heading));
        for ((_, cells), item) in self.table.rows.iter_mut().zip(self.items) {
            cells.push(cell(&says(item)));
        }
        self
    }

    pub fn table(self) -> Table {
        self.table
    }
}

/// The text without control characters.
pub fn printable(text: &str) -> String {
    trimtab::core::printable(text).into_owned()
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

fn short(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_string();
    }
    text.chars().take(limit - 1).chain(['…']).collect()
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
    fn tables_align_numbers_right_and_leave_out_empty_columns() {
        let mut table = Table::new(&["name", ">time", "note"]);
        table.marked_row(true, vec!["a".into(), "9 ns".into()]);
        table.row(vec!["longer\n".into(), "10.0 µs".into()]);
        expect_test::expect![[r"
              name         time
              ─────────────────
            ▶ a            9 ns
              longer\n  10.0 µs"]]
        .assert_eq(&table.to_text());
    }

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
