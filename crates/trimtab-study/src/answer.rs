//! The answer of a study in a form others can use: the best settings, for the sizes asked for or the nearest known ones.

use crate::Setting;
use crate::space::NamedPoint;
use crate::study_file::{LOG_ENDING, StudyError, StudyFile};
use serde_json::{Map, Value, json};
use std::path::Path;

trimtab_core::named! {
    /// How an answer is written.
    pub enum Format {
        /// For people.
        Table = "table",
        /// One object.
        Json = "json",
        /// Lines for a shell to read: `BLOCK=64`.
        Env = "env",
        /// Macros for a C compiler.
        CHeader = "c-header",
        /// A table of TOML.
        Toml = "toml",
        /// Arguments: `--block 64`.
        Args = "args",
        /// The file of configurations by batch size that vLLM reads.
        Vllm = "vllm",
        /// The same, that SGLang reads.
        Sglang = "sglang",
    }
}

/// The best of one study.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The sizes it was found for; none where the study is not about sizes.
    pub sizes: Vec<(String, Value)>,
    /// The settings.
    pub point: NamedPoint,
    /// Their value.
    pub value: f64,
    /// Points tried.
    pub evaluations: usize,
    /// Points that failed.
    pub failed: usize,
}

/// The studies of one name: one, or one for each sizes.
pub struct Answers {
    files: Vec<StudyFile>,
}

/// An answer for sizes that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The answer.
    pub answer: Answer,
    /// Whether these very sizes were searched.
    pub exact: bool,
    /// The share of the value that is expected to be lost by using the settings of other sizes, where enough is known to say.
    pub expected_loss: Option<f64>,
}

impl Answers {
    /// Reads every study in a directory.
    pub fn read(dir: &Path) -> Result<Answers, StudyError> {
        let failed = |source| StudyError::File { path: dir.to_path_buf(), source };
        let mut paths: Vec<_> = std::fs::read_dir(dir)
            .map_err(failed)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == LOG_ENDING))
            .collect();
        paths.sort();
        let files = paths.iter().map(|path| StudyFile::read(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Answers { files })
    }

    /// The studies.
    pub fn files(&self) -> &[StudyFile] {
        &self.files
    }

    /// The best of each sizes, by sizes.
    pub fn all(&self) -> Vec<Answer> {
        let mut all: Vec<Answer> = self.files.iter().filter_map(answer).collect();
        all.sort_by(|a, b| key(&a.sizes).partial_cmp(&key(&b.sizes)).unwrap_or(std::cmp::Ordering::Equal));
        all
    }

    /// The best for these sizes, or for the nearest.
    pub fn choose(&self, sizes: &[(String, f64)]) -> Result<Chosen, String> {
        let known: Vec<(&StudyFile, Answer)> =
            self.files.iter().filter_map(|file| Some((file, answer(file)?))).collect();
        let names: Vec<&str> = known
            .first()
            .map_or_else(Vec::new, |(_, one)| one.sizes.iter().map(|(name, _)| name.as_str()).collect());
        if let Some((unknown, _)) = sizes.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err(format!("the study has no size `{unknown}`; there are: {known}"));
        }
        let nearest = known.iter().min_by(|a, b| far(&a.1.sizes, sizes).total_cmp(&far(&b.1.sizes, sizes)));
        let (file, answer) = nearest.ok_or("nothing that ran is known yet")?;
        let distance = far(&answer.sizes, sizes);
        let exact = distance == 0.0;
        let expected_loss = if exact { Some(0.0) } else { self.loss(file, answer, distance) };
        Ok(Chosen { answer: answer.clone(), exact, expected_loss })
    }

    /// What these settings lose at other sizes where they were tried too: the mean over those no farther than twice the distance, or the
    /// nearest of all.
    fn loss(&self, of: &StudyFile, answer: &Answer, distance: f64) -> Option<f64> {
        let named = answer.point.to_json();
        let wanted: Vec<(String, f64)> =
            answer.sizes.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
        let mut losses: Vec<(f64, f64)> = Vec::new();
        for other in self.files.iter().filter(|other| other.path() != of.path()) {
            let Ok(at) = other.study.space().find(named.as_object()?) else { continue };
            let tried = other.study.evaluation(at).and_then(|known| Some(known.outcome.ran()?.value));
            let best = other.study.best().and_then(|known| Some(known.outcome.ran()?.value));
            let (Some(tried), Some(best)) = (tried, best) else { continue };
            let loss =
                if other.definition().goals.maximise { 1.0 - tried / best } else { tried / best - 1.0 };
            losses.push((far(&other.definition().sizes, &wanted), loss.max(0.0)));
        }
        losses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let nearest = losses.first()?.0;
        let near: Vec<f64> = losses
            .iter()
            .filter(|(far, _)| *far <= (2.0 * distance).max(nearest))
            .map(|(_, loss)| *loss)
            .collect();
        Some(near.iter().sum::<f64>() / near.len() as f64)
    }
}

fn answer(file: &StudyFile) -> Option<Answer> {
    let best = file.study.best()?;
    Some(Answer {
        sizes: file.definition().sizes.clone(),
        point: file.study.space().point(best.at),
        value: best.outcome.ran()?.value,
        evaluations: file.study.evaluations().len(),
        failed: file.study.failed(),
    })
}

fn key(sizes: &[(String, Value)]) -> Vec<f64> {
    sizes.iter().map(|(_, value)| value.as_f64().unwrap_or(0.0)).collect()
}

/// How many doublings sizes are apart.
fn far(known: &[(String, Value)], wanted: &[(String, f64)]) -> f64 {
    let doublings = |size: f64| size.max(1e-9).log2();
    let apart = |(name, wanted): &(String, f64)| {
        let size = known.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_f64());
        size.map_or(f64::INFINITY, |size| (doublings(size) - doublings(*wanted)).abs())
    };
    wanted.iter().map(apart).sum()
}

/// The settings alone, for a program to read. A table, JSON and files by size are not of this kind: nothing then.
pub fn written(point: &NamedPoint, format: Format) -> Option<String> {
    let lines = |line: &dyn Fn(&str, &Setting) -> String| {
        point.0.iter().map(|(name, value)| line(name, value)).collect::<Vec<String>>().join("\n")
    };
    Some(match format {
        Format::Env => {
            lines(&|name, value| format!("{}={}", name.to_ascii_uppercase(), shell_word(&value.to_string())))
        }
        Format::CHeader => {
            let defines = lines(&|name, value| {
                let value = match value {
                    Setting::Flag(on) => u8::from(*on).to_string(),
                    Setting::Text(text) => c_text(text),
                    number => number.to_string(),
                };
                format!("#define {} {value}", name.to_ascii_uppercase())
            });
            format!("/* Made by trimtab best. */\n#pragma once\n{defines}")
        }
        Format::Toml => lines(&|name, value| match value {
            Setting::Text(text) => format!("{name} = {}", json!(text)),
            Setting::Number(number) if number.fract() == 0.0 => format!("{name} = {number:.1}"),
            value => format!("{name} = {value}"),
        }),
        Format::Args => {
            let words = point.0.iter().flat_map(|(name, value)| match value {
                Setting::Flag(true) => vec![format!("--{name}")],
                Setting::Flag(false) => Vec::new(),
                value => vec![format!("--{name}"), shell_word(&value.to_string())],
            });
            words.collect::<Vec<String>>().join(" ")
        }
        Format::Table | Format::Json | Format::Vllm | Format::Sglang => return None,
    })
}

/// The file that vLLM and SGLang read: settings by batch size. The study must be about one size.
pub fn by_batch(answers: &[Answer]) -> Result<Value, String> {
    let mut file = Map::new();
    for answer in answers {
        let [(_, size)] = answer.sizes.as_slice() else {
            return Err(
                "this format has one size, the batch; search with one --size NAME=1,2,4,…".to_string()
            );
        };
        file.insert(size.to_string(), answer.point.to_json());
    }
    if file.is_empty() {
        return Err("nothing that ran is known yet".to_string());
    }
    Ok(Value::Object(file))
}

/// A word as a shell reads it back.
fn shell_word(text: &str) -> String {
    let plain =
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c));
    if plain { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn c_text(text: &str) -> String {
    let mut written = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                written.push('\\');
                written.push(char::from(byte));
            }
            b' '..=b'~' => written.push(char::from(byte)),
            byte => written.push_str(&format!("\\{byte:03o}")),
        }
    }
    written.push('"');
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_for_every_reader() {
        let point = NamedPoint(vec![
            ("block".into(), Setting::Integer(64)),
            ("fast".into(), Setting::Flag(true)),
            ("slow".into(), Setting::Flag(false)),
            ("cc".into(), Setting::Text("it's \"x\"".into())),
            ("alpha".into(), Setting::Number(2.0)),
        ]);
        let of = |format| written(&point, format).unwrap();
        assert_eq!(of(Format::Env), "BLOCK=64\nFAST=true\nSLOW=false\nCC='it'\\''s \"x\"'\nALPHA=2");
        assert!(of(Format::CHeader).ends_with(
            "#define BLOCK 64\n#define FAST 1\n#define SLOW 0\n#define CC \"it's \\\"x\\\"\"\n#define ALPHA 2"
        ));
        assert_eq!(
            of(Format::Toml),
            "block = 64\nfast = true\nslow = false\ncc = \"it's \\\"x\\\"\"\nalpha = 2.0"
        );
        assert_eq!(of(Format::Args), "--block 64 --fast --cc 'it'\\''s \"x\"' --alpha 2");
        assert_eq!(written(&point, Format::Vllm), None);
    }
}
