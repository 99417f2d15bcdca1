//! What the terminal is like: how wide, and whether it shows bold and colours. A pipe has no width and no colours: nothing is broken or cut there.

use clap::ValueEnum;
use console::Term;

/// When text is bold or coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On terminals, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Also in a pipe
    Always,
    /// Nowhere
    Never,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// Bold: headings, and the line that sums up.
    Strong,
    /// Bold and green: what was chosen.
    Chosen,
}

impl Style {
    /// The text in this style.
    pub fn paint(self, text: &str) -> String {
        match self {
            Style::Strong if !text.is_empty() => format!("\x1b[1m{text}\x1b[0m"),
            Style::Chosen if !text.is_empty() => format!("\x1b[1;32m{text}\x1b[0m"),
            _ => text.to_string(),
        }
    }
}

/// How wide standard output is, where that is known.
pub fn width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns)).filter(|&columns| columns > 0)
}

/// Whether standard output shows styles.
pub fn shows(colour: Colour) -> bool {
    match colour {
        Colour::Auto => Term::stdout().features().colors_supported(),
        Colour::Always => true,
        Colour::Never => false,
    }
}

/// The same of standard error, for what warns.
pub fn warns_in_colour() -> bool {
    Term::stderr().features().colors_supported()
}

/// The text in lines of at most `width` characters, broken between words. Later lines begin under the second column where the text is a
/// label and what is said of it, and a little further in otherwise. A word that is longer than a line stays whole.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_string()];
    }
    let under = hanging(text).filter(|&under| under <= width / 2);
    let indent = under.unwrap_or_else(|| (leading(text) + 2).min(width / 2));
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for (gap, word) in words(text) {
        let (gap_wide, word_wide) = (gap.chars().count(), word.chars().count());
        // A label keeps what is said of it, however long that is.
        if used > indent && used + gap_wide + word_wide > width {
            lines.push(std::mem::take(&mut line));
            line.push_str(&" ".repeat(indent));
            line.push_str(word);
            used = indent + word_wide;
        } else {
            line.push_str(gap);
            line.push_str(word);
            used += gap_wide + word_wide;
        }
    }
    lines.push(line);
    lines
}

fn leading(text: &str) -> usize {
    text.chars().take_while(|letter| *letter == ' ').count()
}

/// Where the second column begins: behind the first gap of two spaces or more within the line.
fn hanging(text: &str) -> Option<usize> {
    let start = leading(text);
    let body = text.get(start..)?;
    let gap = body.find("  ")?;
    let rest = body.get(gap..)?;
    Some(start + body.get(..gap)?.chars().count() + leading(rest))
}

/// Units that stay with their number.
const UNITS: [&str; 11] = ["ns", "µs", "ms", "s", "%", "GB/s", "GFLOP/s", "B", "KiB", "MiB", "GiB"];

/// Words, each with the spaces before it; a number and its unit are one.
fn words(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let gap = leading(rest);
        let Some(word) = rest.get(gap..).filter(|word| !word.is_empty()) else { break };
        let mut end = word.find(' ').unwrap_or(word.len());
        if word.get(..end).is_some_and(|word| word.ends_with(|last: char| last.is_ascii_digit())) {
            end += word.get(end..).and_then(unit).unwrap_or(0);
        }
        found.extend(rest.get(..gap).zip(word.get(..end)));
        rest = word.get(end..).unwrap_or_default();
    }
    found
}

/// How long the unit is that a text begins with, and the space before it.
fn unit(rest: &str) -> Option<usize> {
    let text = rest.strip_prefix(' ')?;
    let word = text.split(' ').next()?;
    UNITS.contains(&word.trim_end_matches([',', ';', '.', ':', ')'])).then_some(1 + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_go_on_under_what_is_said() {
        let text = "why       the race was cut short by its budget, and this one led";
        assert_eq!(
            wrapped(text, 30),
            ["why       the race was cut", "          short by its budget,", "          and this one led"]
        );
        assert_eq!(wrapped("note: a b c d e f", 9), ["note: a b", "  c d e f"]);
        assert_eq!(wrapped("short", 9), ["short"]);
        assert_eq!(wrapped("it took 12.5 µs, all of it", 13), ["it took", "  12.5 µs,", "  all of it"]);
    }

    #[test]
    fn no_word_is_lost_or_cut_whatever_the_width() {
        let text = "  device  cpu/x86_64/a_very_long_fingerprint and ± more  words here";
        for width in 1..80 {
            let lines = wrapped(text, width);
            let together: Vec<&str> =
                lines.iter().flat_map(|line| line.split(' ')).filter(|word| !word.is_empty()).collect();
            assert_eq!(
                together,
                text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>(),
                "{width}"
            );
            let fits = |line: &String| line.chars().count() <= width || line.split_whitespace().count() == 1;
            assert!(fits(&lines[0]) || lines[0].starts_with("  device  cpu/"), "{width}: {lines:?}");
            assert!(lines.iter().skip(1).all(fits), "{width}: {lines:?}");
        }
    }
}
