//! `cargo xtask screenshot`: runs the command and draws what a terminal would show, as SVG.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask screenshot [--program FILE] [--problem PROBLEM] [--columns N]

Builds `trimtab` for release with the processor alone, tunes a problem for ten seconds with wisdom of its own, runs `trimtab explain` on it in
a terminal of N columns (by `script` where it is installed, else in a pipe), and draws the output to docs/images/explain.svg. Run it on a
machine that is otherwise left alone: the times are real.

  --program FILE      this `trimtab` instead of building one
  --problem PROBLEM   what is explained [default: matmul:f32:512x512x512]
  --columns N         columns of the terminal [default: 100]
";

/// What is drawn: sizes in pixels of a font whose letters are 0.6 of its height wide.
const FONT: f64 = 13.0;
const WIDE: f64 = 0.6 * FONT;
const LINE: f64 = 18.0;
const MARGIN: f64 = 16.0;
const BAR: f64 = 28.0;

/// Colours 0 to 7 of a terminal and their bright forms, readable on the ground.
const COLOURS: [&str; 16] = [
    "#7f848e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4", "#7f848e",
    "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff",
];
const GROUND: &str = "#1e2127";
const INK: &str = "#dcdfe4";

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut program, mut problem, mut columns) = (None, "matmul:f32:512x512x512", 100usize);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().with_context(|| format!("{word} needs a value\n\n{HELP}"));
        match *word {
            "--program" => program = Some(PathBuf::from(value()?)),
            "--problem" => problem = value()?,
            "--columns" => columns = value()?.parse().context("--columns is a number")?,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":,.#@()_-".contains(c);
    if !problem.chars().all(is_plain) {
        bail!("`{problem}` is no problem");
    }
    let program = match program {
        Some(program) => std::path::absolute(program)?,
        None => {
            crate::cargo(root, &["build", "--release", "--package", "trimtab-cli", "--no-default-features"])?;
            root.join("target/release/trimtab")
        }
    };
    let wisdom = std::env::temp_dir().join(format!("trimtab-screenshot-{}", std::process::id()));
    let outcome = shown(&program, problem, columns, &wisdom);
    let _ = std::fs::remove_dir_all(&wisdom);
    let picture = svg(&format!("$ trimtab explain {problem}"), &outcome?);
    let file = root.join("docs/images/explain.svg");
    std::fs::write(&file, picture).with_context(|| format!("writing {}", file.display()))?;
    println!("drew {}", file.display());
    Ok(())
}

/// What the command prints about a problem that was tuned.
fn shown(program: &Path, problem: &str, columns: usize, wisdom: &Path) -> Result<String> {
    let mut tune = trimtab_testing::command(program);
    tune.args(["tune", problem, "--budget", "10s", "--device", "cpu"]).env("TRIMTAB_WISDOM_DIR", wisdom);
    if !tune.status().with_context(|| format!("starting {}", program.display()))?.success() {
        bail!("trimtab tune failed");
    }
    let explain = ["explain", problem, "--device", "cpu"];
    // A terminal of that width, so that colours and wrapping are a user's. Texts are ours, without quotes.
    let line = format!("stty cols {columns} rows 200; '{}' {}", program.display(), explain.join(" "));
    let mut in_terminal = trimtab_testing::command("script");
    in_terminal
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("COLUMNS", columns.to_string());
    let mut in_pipe = trimtab_testing::command(program);
    in_pipe.args(explain);
    let has_script = Command::new("script").arg("--version").output().is_ok();
    let mut command = if has_script { in_terminal } else { in_pipe };
    let output = command.env("TRIMTAB_WISDOM_DIR", wisdom).output()?;
    if !output.status.success() {
        bail!("trimtab explain failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}

/// How letters look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<usize>,
}

impl Style {
    /// What the codes of one escape sequence make of it.
    fn after(mut self, codes: &str) -> Style {
        for code in codes.split(';').map(|code| code.parse::<usize>().unwrap_or(0)) {
            match code {
                0 => self = Style::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                30..=37 => self.colour = Some(code - 30),
                39 => self.colour = None,
                90..=97 => self.colour = Some(code - 82),
                _ => (),
            }
        }
        self
    }

    fn attributes(self) -> String {
        let mut text = String::new();
        if self.bold {
            text.push_str(" font-weight=\"bold\"");
        }
        if self.dim {
            text.push_str(" opacity=\"0.65\"");
        }
        if let Some(colour) = self.colour.and_then(|colour| COLOURS.get(colour)) {
            let _ = write!(text, " fill=\"{colour}\"");
        }
        text
    }
}

/// Lines of a terminal as runs of letters that look alike. Escape sequences that do not colour are left out.
fn runs(text: &str) -> Vec<Vec<(Style, String)>> {
    let mut style = Style::default();
    let line = |line: &str| {
        let mut runs: Vec<(Style, String)> = Vec::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter == '\x1b' {
                if letters.next_if_eq(&'[').is_some() {
                    let mut codes = String::new();
                    let end = loop {
                        match letters.next() {
                            Some(c) if c.is_ascii_digit() || ";?".contains(c) => codes.push(c),
                            other => break other,
                        }
                    };
                    style = if end == Some('m') { style.after(&codes) } else { style };
                }
                continue;
            }
            match runs.last_mut() {
                Some((last, text)) if *last == style => text.push(letter),
                _ => runs.push((style, letter.to_string())),
            }
        }
        runs
    };
    text.trim_end().lines().map(line).collect()
}

/// A window with a prompt and what follows it.
fn svg(prompt: &str, text: &str) -> String {
    let mut lines = vec![vec![(Style { bold: true, ..Style::default() }, prompt.to_string())]];
    lines.extend(runs(text));
    let letters =
        |line: &Vec<(Style, String)>| line.iter().map(|(_, text)| text.chars().count()).sum::<usize>();
    let widest = lines.iter().map(letters).max().unwrap_or(0);
    let (width, height) = (widest as f64 * WIDE + 2.0 * MARGIN, lines.len() as f64 * LINE + BAR + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\"/>\n",
        escaped(prompt)
    );
    for (at, colour) in ["#e06c75", "#e5c07b", "#98c379"].iter().enumerate() {
        let _ = writeln!(out, "<circle cx=\"{}\" cy=\"16\" r=\"5\" fill=\"{colour}\"/>", 20 + 18 * at);
    }
    let _ = writeln!(
        out,
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"{FONT}\" fill=\"{INK}\" xml:space=\"preserve\">"
    );
    for (row, line) in lines.iter().enumerate() {
        let (y, mut column) = (BAR + (row as f64 + 0.8) * LINE, 0usize);
        for (style, text) in line {
            let count = text.chars().count();
            if !text.trim().is_empty() {
                // The length is said, so that columns stay in line whatever the font.
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\"{}>{}</text>",
                    MARGIN + column as f64 * WIDE,
                    count as f64 * WIDE,
                    style.attributes(),
                    escaped(text)
                );
            }
            column += count;
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_weights_of_a_terminal_are_drawn() {
        let lines = runs("plain \x1b[1mbold\x1b[0m\n\x1b[32;2mgreen\x1b[39mdim\x1b[K\x1b[?25l");
        let plain = Style::default();
        assert_eq!(
            lines[0],
            [(plain, "plain ".to_string()), (Style { bold: true, ..plain }, "bold".to_string())]
        );
        let dim = Style { dim: true, ..plain };
        assert_eq!(
            lines[1],
            [(Style { colour: Some(2), ..dim }, "green".to_string()), (dim, "dim".to_string())]
        );
    }

    #[test]
    fn what_is_drawn_is_one_well_formed_picture() {
        let drawn = svg("$ trimtab <x>", "a & b\n\n\x1b[1mend\x1b[0m\n");
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"), "{drawn}");
        assert!(
            drawn.contains("$\u{a0}trimtab\u{a0}&lt;x&gt;") && drawn.contains("a\u{a0}&amp;\u{a0}b"),
            "{drawn}"
        );
        assert!(drawn.contains("font-weight=\"bold\">end"), "{drawn}");
        assert_eq!(drawn.matches("<text ").count(), 3);
        assert!(!drawn.contains('\x1b'));
    }
}
