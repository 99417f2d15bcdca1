//! A study on disk: what it is about, then every question and answer, a line each. Nothing is ever rewritten.
//!
//! Going on is replaying: the questions are asked again in the same order, so that the search is where it was, to the last random number. A
//! line that was being written when the machine went down is not there; what is damaged is passed over and told.

use crate::goals::Goals;
use crate::outcome::{Failed, Outcome, Ran};
use crate::space::{ParameterSpace, SpaceDefinition};
use crate::study::{Asked, Evaluation, SearchOptions, Study};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_tune::search::{Donor, DonorPoint};
use trimtab_wisdom::files;

/// The version of the format.
const VERSION: u32 = 1;
/// The largest log that is read: some million evaluations.
pub const MAX_LOG_BYTES: u64 = 1 << 30;
/// How a log's name ends.
pub const LOG_ENDING: &str = "jsonl";
/// Points of a donor that are written down, the best first.
const MAX_DONOR_POINTS: usize = 500;

/// What a study is about. The same words are the same study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The space.
    pub space: SpaceDefinition,
    /// What it is after.
    pub goals: Goals,
    /// The strategy.
    pub strategy: String,
    /// The seed.
    pub seed: u64,
    /// The sizes of the problem, by name; none where the study is not about sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<(String, Value)>,
    /// The unit of the value: `s` for times, nothing where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What is run, and how, in the words of whoever runs it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub what: Value,
}

/// Why a study could not be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum StudyError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// What it says is not possible.
    #[error("{0}")]
    Wrong(String),
    /// Another process is at it.
    #[error("{0} is being searched by another process; wait for it, or choose another --name")]
    Busy(PathBuf),
    /// There is a study of that name about something else.
    #[error("{path} is about something else ({differs}); choose another --name, or begin anew with --fresh")]
    Other { path: PathBuf, differs: String },
}

/// What a donor knows: codes by name, and a time unless it failed.
type DonorRow = (Vec<(String, u32)>, Option<f64>);
type DonorRows = Vec<DonorRow>;

/// A line of a log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogLine {
    Study { version: u32, definition: Definition },
    Donors(Vec<DonorRows>),
    Ask(usize),
    Tell(Told),
    Again { at: usize, samples: Vec<f64>, value: f64 },
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    at: usize,
    /// For people: what counts is the place.
    point: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ran: Option<Ran>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
    repeats: u32,
    seconds: f64,
}

/// A study and its file.
pub struct StudyFile {
    /// The study.
    pub study: Study,
    definition: Definition,
    path: PathBuf,
    /// Nothing where it is only read.
    file: Option<File>,
    /// Evaluations that were there when it was opened.
    earlier: usize,
    warnings: Vec<String>,
}

impl StudyFile {
    /// Opens a study of that space, or begins one. `fresh` forgets what is there.
    pub fn open(
        path: &Path,
        definition: Definition,
        space: Arc<ParameterSpace>,
        donors: Vec<Donor>,
        fresh: bool,
    ) -> Result<StudyFile, StudyError> {
        let failed = |source| StudyError::File { path: path.to_path_buf(), source };
        if let Some(dir) = path.parent() {
            files::make_private(dir).map_err(failed)?;
        }
        let mut file = files::open_to_append(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(StudyError::Busy(path.to_path_buf())),
            // A file system without locks: nothing can be told.
            Err(std::fs::TryLockError::Error(_)) => {}
        }
        if fresh {
            file.set_len(0).map_err(failed)?;
        }
        let text = whole_lines(&mut file).map_err(failed)?;
        let mut log = Log::read(&text);
        if let Some(known) = &log.definition
            && let Some(differs) = difference(known, &definition)
        {
            return Err(StudyError::Other { path: path.to_path_buf(), differs });
        }
        let mut damaged = Vec::new();
        if log.definition.is_none() && !text.is_empty() {
            // Its first line says what it is about: without it nothing can be used, and nothing is thrown away.
            let aside = path.with_extension(format!("{LOG_ENDING}.damaged"));
            files::replace(&aside, text.as_bytes()).map_err(failed)?;
            file.set_len(0).map_err(failed)?;
            damaged.push(format!(
                "{} cannot be read and was set aside as {}; the study begins anew",
                path.display(),
                aside.display()
            ));
            log = Log::default();
        }
        let is_new = log.definition.is_none();
        let donors = if is_new { shortened(donors) } else { std::mem::take(&mut log.donors) };
        let mut opened = StudyFile::replay(path, definition, space, donors.clone(), &log)?;
        opened.warnings.extend(damaged);
        opened.file = Some(file);
        if is_new {
            opened.write(&LogLine::Study { version: VERSION, definition: opened.definition.clone() })?;
            if !donors.is_empty() {
                opened.write(&LogLine::Donors(donors.iter().map(written).collect()))?;
            }
        }
        Ok(opened)
    }

    /// A study that is not kept.
    pub fn in_memory(
        definition: Definition,
        space: Arc<ParameterSpace>,
        donors: Vec<Donor>,
    ) -> Result<StudyFile, StudyError> {
        StudyFile::replay(Path::new(""), definition, space, donors, &Log::default())
    }

    /// Reads a study that is there.
    pub fn read(path: &Path) -> Result<StudyFile, StudyError> {
        let failed = |source| StudyError::File { path: path.to_path_buf(), source };
        let bytes = files::read(path, MAX_LOG_BYTES).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut log = Log::read(&text);
        let donors = std::mem::take(&mut log.donors);
        let definition = log.definition.clone().ok_or_else(|| {
            StudyError::Wrong(format!(
                "{} is no study: its first line does not say what it is about",
                path.display()
            ))
        })?;
        let space = ParameterSpace::new(definition.space.clone());
        let space = Arc::new(space.map_err(|error| StudyError::Wrong(error.reason))?);
        StudyFile::replay(path, definition, space, donors, &log)
    }

    fn replay(
        path: &Path,
        definition: Definition,
        space: Arc<ParameterSpace>,
        donors: Vec<Donor>,
        log: &Log,
    ) -> Result<StudyFile, StudyError> {
        let options = SearchOptions { strategy: definition.strategy.clone(), seed: definition.seed, donors };
        let mut study = Study::new(space, definition.goals.clone(), options).map_err(StudyError::Wrong)?;
        let mut warnings = Vec::new();
        if log.unreadable > 0 {
            warnings.push(format!(
                "{}: {} lines cannot be read and were passed over",
                path.display(),
                log.unreadable
            ));
        }
        let mut in_step = true;
        for line in &log.lines {
            match line {
                LogLine::Ask(at) => {
                    // Nobody else asks as this version does: then what was told is all that is known.
                    in_step = in_step && study.ask().is_some_and(|asked| asked.at == *at);
                    if !in_step {
                        study.expect(*at);
                    }
                }
                LogLine::Tell(told) => {
                    let outcome = match (&told.failed, &told.ran) {
                        (Some(failed), _) => Outcome::Failed(failed.clone()),
                        (None, Some(ran)) => Outcome::Ran(ran.clone()),
                        (None, None) => continue,
                    };
                    // Told twice, or of a point that does not exist: the first counts.
                    let _ = study.tell(told.at, outcome, told.repeats, told.seconds);
                }
                LogLine::Again { at, samples, value } => study.again(*at, samples, *value),
                LogLine::Study { .. } | LogLine::Donors(_) => {}
            }
        }
        if !in_step {
            study.begin_anew().map_err(StudyError::Wrong)?;
        }
        let earlier = study.evaluations().len();
        Ok(StudyFile { study, definition, path: path.to_path_buf(), file: None, earlier, warnings })
    }

    /// What it is about.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many evaluations were there when it was opened.
    pub fn earlier(&self) -> usize {
        self.earlier
    }

    /// What was wrong with the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The points that were being tried when it was left, then further ones. Written down before they are tried.
    pub fn ask(&mut self) -> Result<Option<Asked>, StudyError> {
        let Some(asked) = self.study.ask() else { return Ok(None) };
        self.write(&LogLine::Ask(asked.at))?;
        Ok(Some(asked))
    }

    /// Points that were asked for in an earlier process and never told.
    pub fn left_over(&self) -> Vec<Asked> {
        let space = self.study.space();
        self.study.pending().iter().map(|at| Asked { at: *at, point: space.point(*at) }).collect()
    }

    /// What came of a point, written down at once.
    pub fn tell(
        &mut self,
        at: usize,
        outcome: Outcome,
        repeats: u32,
        seconds: f64,
    ) -> Result<Evaluation, StudyError> {
        let told = self.study.tell(at, outcome, repeats, seconds).map_err(StudyError::Wrong)?.clone();
        let (ran, failed) = match told.outcome.clone() {
            Outcome::Ran(ran) => (Some(ran), None),
            Outcome::Failed(failed) => (None, Some(failed)),
        };
        let point = self.study.space().point(at).to_json();
        self.write(&LogLine::Tell(Told { at, point, ran, failed, repeats, seconds }))?;
        Ok(told)
    }

    /// Further samples of a point.
    pub fn again(&mut self, at: usize, samples: Vec<f64>, value: f64) -> Result<(), StudyError> {
        self.study.again(at, &samples, value);
        self.write(&LogLine::Again { at, samples, value })
    }

    /// When the last answer came, in seconds of searching.
    pub fn seconds(&self) -> f64 {
        self.study.evaluations().iter().map(|known| known.seconds).fold(0.0, f64::max)
    }

    fn write(&mut self, line: &LogLine) -> Result<(), StudyError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let failed = |source| StudyError::File { path: self.path.clone(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        // In one piece: a process that is killed leaves a whole line or none.
        file.write_all(&text).map_err(failed)
    }
}

#[derive(Default)]
struct Log {
    definition: Option<Definition>,
    donors: Vec<Donor>,
    lines: Vec<LogLine>,
    unreadable: usize,
}

impl Log {
    fn read(text: &str) -> Log {
        let mut log = Log::default();
        for (number, line) in text.lines().enumerate() {
            match serde_json::from_str::<LogLine>(line) {
                Ok(LogLine::Study { version: VERSION, definition }) if number == 0 => {
                    log.definition = Some(definition)
                }
                Ok(LogLine::Donors(donors)) => log.donors = donors.into_iter().map(read_donor).collect(),
                Ok(line) => log.lines.push(line),
                Err(_) => log.unreadable += 1,
            }
        }
        log
    }
}

/// What is in the file, without a line that was never finished, which is cut off.
fn whole_lines(file: &mut File) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    Read::by_ref(file).take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        bytes.truncate(whole);
        file.set_len(whole as u64)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first thing in which two studies differ.
fn difference(known: &Definition, wanted: &Definition) -> Option<String> {
    let [known, wanted] = [known, wanted].map(|definition| json!(definition));
    let keys = wanted.as_object().into_iter().flatten().map(|(key, _)| key);
    let also = known.as_object().into_iter().flatten().map(|(key, _)| key);
    let short = |value: Option<&Value>| {
        let text = value.map_or("nothing".to_string(), Value::to_string);
        if text.chars().count() > 80 {
            format!("{}…", text.chars().take(80).collect::<String>())
        } else {
            text
        }
    };
    keys.chain(also)
        .find(|key| known.get(key.as_str()) != wanted.get(key.as_str()))
        .map(|key| format!("its {key} is {}, not {}", short(known.get(key)), short(wanted.get(key))))
}

fn shortened(donors: Vec<Donor>) -> Vec<Donor> {
    let short = |mut donor: Donor| {
        let time = |point: &DonorPoint| point.time.unwrap_or(f64::MAX);
        donor.points.sort_by(|a, b| time(a).total_cmp(&time(b)));
        donor.points.truncate(MAX_DONOR_POINTS);
        donor
    };
    donors.into_iter().map(short).filter(|donor| !donor.points.is_empty()).collect()
}

fn written(donor: &Donor) -> DonorRows {
    donor.points.iter().map(|point| (point.values.clone(), point.time)).collect()
}

fn read_donor(points: DonorRows) -> Donor {
    Donor { points: points.into_iter().map(|(values, time)| DonorPoint { values, time }).collect() }
}
