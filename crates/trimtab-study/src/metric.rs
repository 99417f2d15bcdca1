//! Where a number comes from: the clock, or what a run wrote.

use crate::outcome::{Failed, Fault};
use crate::process::Ended;
use regex_lite::Regex;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use trimtab_wisdom::files;

/// The largest file a number is read from.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Where a number comes from.
#[derive(Clone, Debug)]
pub enum Metric {
    /// How long the run took, in seconds.
    Wall,
    /// The last match of a pattern in what it wrote: its first group, or all of it.
    Regex(Regex),
    /// A place in the JSON it wrote.
    Json(String),
    /// The number in a file, relative to where it runs.
    File(PathBuf),
}

impl Metric {
    /// Reads `wall`, `regex:PATTERN`, `json:POINTER` or `file:PATH`.
    pub fn parse(text: &str) -> Result<Metric, String> {
        let missing = |what: &str, example: &str| format!("`{text}` names no {what}; write {example}");
        match text.split_once(':') {
            None if text == "wall" => Ok(Metric::Wall),
            Some(("regex", "")) => Err(missing("pattern", "regex:'time: ([0-9.]+)'")),
            Some(("regex", pattern)) => Regex::new(pattern)
                .map(Metric::Regex)
                .map_err(|error| format!("the pattern `{pattern}` cannot be read: {error}")),
            Some(("json", pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
                Ok(Metric::Json(pointer.to_string()))
            }
            Some(("json", pointer)) => {
                Err(format!("`{pointer}` is no JSON pointer; write json:/{}", pointer.replace('.', "/")))
            }
            Some(("file", "")) => Err(missing("file", "file:result.txt")),
            Some(("file", path)) => Ok(Metric::File(path.into())),
            _ => Err(format!("`{text}` is no metric; use wall, regex:PATTERN, json:POINTER or file:PATH")),
        }
    }

    /// Whether it is a time that another process beside it disturbs.
    pub fn is_time(&self) -> bool {
        matches!(self, Metric::Wall)
    }

    /// The file it is read from, if it is.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Metric::File(path) => Some(path),
            _ => None,
        }
    }

    /// Before a run: forgets what another run wrote, which would be taken for this one's.
    pub fn forget(&self, dir: Option<&Path>) -> std::io::Result<()> {
        let Some(path) = self.file() else { return Ok(()) };
        match std::fs::remove_file(dir.map_or_else(|| path.to_path_buf(), |dir| dir.join(path))) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The number of a run that ended well, or why there is none.
    pub fn read(&self, ended: &Ended, dir: Option<&Path>) -> Result<f64, Failed> {
        let unreadable =
            |message: String| Failed::new(Fault::Unreadable, message).with_output(&ended.last_output());
        let number = |text: &str| {
            let text = text.trim();
            let read = text.parse::<f64>().ok().filter(|number| number.is_finite());
            read.ok_or_else(|| {
                unreadable(format!("`{}` is no finite number", text.chars().take(80).collect::<String>()))
            })
        };
        match self {
            Metric::Wall => Ok(ended.seconds),
            Metric::Regex(pattern) => {
                let found = [&ended.stdout, &ended.stderr].into_iter().find_map(|written| {
                    let text = written.text();
                    let last = pattern.captures_iter(&text).last()?;
                    last.get(1).or(last.get(0)).map(|found| found.as_str().to_string())
                });
                let found = found
                    .ok_or_else(|| unreadable(format!("nothing that was written matches `{pattern}`")))?;
                number(&found)
            }
            Metric::Json(pointer) => {
                let text = ended.stdout.text();
                // The whole output, or else its last line that is JSON: many write a log before.
                let whole = serde_json::from_str::<Value>(&text).ok();
                let value = whole
                    .or_else(|| text.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok()));
                let value = value.ok_or_else(|| {
                    unreadable("standard output is no JSON, nor is any line of it".to_string())
                })?;
                match value.pointer(pointer) {
                    Some(Value::Number(found)) => found
                        .as_f64()
                        .filter(|number| number.is_finite())
                        .ok_or_else(|| unreadable(format!("{found} is no finite number"))),
                    Some(Value::String(text)) => number(text),
                    Some(other) => Err(unreadable(format!("`{pointer}` is {other}, not a number"))),
                    None => Err(unreadable(format!("the JSON has nothing at `{pointer}`"))),
                }
            }
            Metric::File(path) => {
                let path = dir.map_or_else(|| path.clone(), |dir| dir.join(path));
                let shown = path.display();
                let bytes = files::read(&path, MAX_FILE_BYTES).map_err(|error| {
                    unreadable(match error.kind() {
                        ErrorKind::NotFound => format!("the run did not write {shown}"),
                        _ => format!("{shown} cannot be read: {error}"),
                    })
                })?;
                number(&String::from_utf8_lossy(&bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metric: &str, written: &str) -> Result<f64, String> {
        let ended = Ended::of_text(written);
        Metric::parse(metric).unwrap().read(&ended, None).map_err(|failed| failed.to_string())
    }

    #[test]
    fn numbers_are_found_by_pattern_pointer_and_clock() {
        assert_eq!(read("regex:time: ([0-9.]+)", "time: 1.5\ntime: 2.5 s"), Ok(2.5));
        assert_eq!(read("regex:[0-9]+", "a 7 b"), Ok(7.0));
        assert_eq!(read("json:/a/0/t", "{\"a\": [{\"t\": 3}]}"), Ok(3.0));
        assert_eq!(read("json:/t", "log\n{\"t\": \"4.5\"}\nbye"), Ok(4.5));
        assert_eq!(read("wall", ""), Ok(0.25));
    }

    #[test]
    fn a_number_in_a_file_is_read_where_the_run_was_and_forgotten_before_the_next() {
        let dir = tempfile::TempDir::new().unwrap();
        let (metric, ended) = (Metric::parse("file:out/n.txt").unwrap(), Ended::of_text(""));
        metric.forget(Some(dir.path())).unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::write(dir.path().join("out/n.txt"), " 2.5e1\n").unwrap();
        assert_eq!(metric.read(&ended, Some(dir.path())), Ok(25.0));
        metric.forget(Some(dir.path())).unwrap();
        assert!(metric.read(&ended, Some(dir.path())).unwrap_err().message.contains("did not write"));
        let whole = Metric::parse(&format!("file:{}", dir.path().join("m").display())).unwrap();
        std::fs::write(dir.path().join("m"), "7").unwrap();
        assert_eq!(whole.read(&ended, None), Ok(7.0));
        assert!(Metric::parse("file:out").unwrap().forget(Some(dir.path())).is_err(), "a directory stays");
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(read("regex:time: (.+)", "nothing").unwrap_err().contains("matches `time: (.+)`"));
        assert!(read("regex:time: (.+)", "time: soon").unwrap_err().contains("`soon` is no finite number"));
        assert!(read("regex:t (.+)", "t nan").unwrap_err().contains("no finite"));
        assert!(read("json:/t", "nothing").unwrap_err().contains("no JSON"));
        assert!(read("json:/t", "{\"u\": 1}").unwrap_err().contains("nothing at `/t`"));
        assert!(read("json:/t", "{\"t\": []}").unwrap_err().contains("not a number"));
        assert!(read("file:no-such-file", "").unwrap_err().contains("did not write no-such-file"));
        assert!(read("file:/", "").unwrap_err().contains("cannot be read"));
        for (text, part) in [
            ("time", "use wall"),
            ("regex:(", "cannot be read"),
            ("regex:", "no pattern"),
            ("json:a.b", "write json:/a/b"),
            ("file:", "no file"),
        ] {
            assert!(Metric::parse(text).unwrap_err().contains(part), "{text}");
        }
    }
}
