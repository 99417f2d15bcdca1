//! Rows under headings, as wide as they need to be or as the terminal is: what does not fit goes to a second line of its row, by name.

use crate::output::printable;
use crate::terminal::{Style, wrapped};

/// How far in a row's second line begins.
const SECOND: &str = "    ";

/// Where a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
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
        let mut cells: Vec<String> = cells.iter().map(|text| printable(text)).collect();
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

    /// The lines, each with how it is shown; of at most so many characters where a width is given and no single cell is wider.
    pub fn lines(&self, most: Option<usize>) -> Vec<(Style, String)> {
        let indent = if self.rows.iter().any(|(marked, _)| *marked) { "  " } else { "" };
        let widest = |index: usize| self.rows.iter().map(|(_, cells)| wide(&cells[index])).max().unwrap_or(0);
        let shown: Vec<(usize, usize)> = (0..self.columns.len())
            .map(|index| (index, widest(index)))
            .filter(|&(_, widest)| widest > 0)
            .map(|(index, widest)| (index, widest.max(wide(&self.columns[index].0))))
            .collect();
        let (columns, below) = self.fitted(shown, most.map(|most| most.saturating_sub(indent.len())));
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
        let mut lines = vec![
            (Style::Strong, render(indent, &|index| self.columns[index].0.clone())),
            (Style::Plain, format!("{indent}{}", "─".repeat(total(&columns)))),
        ];
        for (marked, cells) in &self.rows {
            let (mark, style) = if *marked { ("▶ ", Style::Chosen) } else { (indent, Style::Plain) };
            lines.push((style, render(mark, &|index| cells[index].clone())));
            let more: Vec<String> = below
                .iter()
                .filter(|&&index| !cells[index].is_empty())
                .map(|&index| format!("{} {}", self.columns[index].0, cells[index]))
                .collect();
            if !more.is_empty() {
                let text = format!("{indent}{SECOND}{}", more.join(" · "));
                let broken = most.map_or_else(|| vec![text.clone()], |most| wrapped(&text, most));
                lines.extend(broken.into_iter().map(|line| (Style::Plain, line)));
            }
        }
        lines
    }

    /// Which columns stand in a row, and which below it: texts go before numbers, the widest first, the first column never.
    fn fitted(
        &self,
        mut columns: Vec<(usize, usize)>,
        most: Option<usize>,
    ) -> (Vec<(usize, usize)>, Vec<usize>) {
        let mut below = Vec::new();
        while most.is_some_and(|most| total(&columns) > most) && columns.len() > 1 {
            let rest = columns.iter().enumerate().skip(1);
            let is_text = |index: usize| self.columns[index].1 == Align::Left;
            let Some((at, _)) = rest.max_by_key(|(at, (index, width))| match is_text(*index) {
                true => (1, *width),
                false => (0, *at),
            }) else {
                break;
            };
            below.push(columns.remove(at).0);
        }
        below.sort_unstable();
        (columns, below)
    }
}

fn wide(text: &str) -> usize {
    text.chars().count()
}

/// How wide these columns are together, with two spaces between them.
fn total(columns: &[(usize, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2)
}

fn column(heading: &str) -> (String, Align) {
    match heading.strip_prefix('>') {
        Some(heading) => (heading.to_string(), Align::Right),
        None => (heading.to_string(), Align::Left),
    }
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
            cells.push(printable(&says(item)));
        }
        self
    }

    pub fn table(self) -> Table {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &Table, most: Option<usize>) -> String {
        let lines: Vec<String> = table.lines(most).into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    fn rivals() -> Table {
        let mut table = Table::new(&["rival", "point", ">time", ">n", "note"]);
        table.marked_row(
            true,
            vec!["blocked".into(), "kc=256,mc=64,threads=2".into(), "9 ns".into(), "10".into()],
        );
        table.row(vec!["gemm".into(), "-".into(), "10.0 µs".into(), "3".into(), "was cut short".into()]);
        table
    }

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
        .assert_eq(&text(&table, None));
    }

    #[test]
    fn what_does_not_fit_goes_to_a_second_line_by_name() {
        expect_test::expect![[r"
              rival       time   n  note
              ───────────────────────────────────
            ▶ blocked     9 ns  10
                  point kc=256,mc=64,threads=2
              gemm     10.0 µs   3  was cut short
                  point -"]]
        .assert_eq(&text(&rivals(), Some(40)));
        expect_test::expect![[r"
              rival       time   n
              ────────────────────
            ▶ blocked     9 ns  10
                  point
                    kc=256,mc=64,threads=2
              gemm     10.0 µs   3
                  point - · note
                    was cut short"]]
        .assert_eq(&text(&rivals(), Some(22)));
    }

    #[test]
    fn long_texts_are_whole_where_there_is_no_terminal() {
        let long = "because ".repeat(40);
        let mut table = Table::new(&["kernel", "reason"]);
        table.row(vec!["one".into(), long.clone()]);
        assert!(text(&table, None).contains(long.trim_end()));
        let narrow = table.lines(Some(80));
        assert!(narrow.iter().all(|(_, line)| line.chars().count() <= 80), "{narrow:?}");
        let words =
            narrow.iter().flat_map(|(_, line)| line.split_whitespace()).filter(|word| *word == "because");
        assert_eq!(words.count(), 40);
    }
}
