//! Tunes anything: a space of settings, a search that asks for points and is told what came of them, and commands as candidates.
//!
//! [`Study`] is the whole of it: `ask`, `tell`, `best`. [`StudyFile`] keeps one on disk, so that a search goes on where it ended.
//! [`Runner`] is what turns a point into an outcome; [`CommandRunner`] runs a command, and [`drive()`] spends a budget on it.
#![forbid(unsafe_code)]

mod answer;
mod build_cache;
mod command;
mod conversation;
mod drive;
mod findings;
mod fingerprint;
mod goals;
mod included;
mod measure;
mod metric;
mod outcome;
mod parameter;
mod process;
mod python_list;
mod quiet;
mod runner;
mod setting;
mod space;
mod space_file;
mod study;
mod study_file;
mod t1;
mod t4;
mod template;
mod verdict;

pub use answer::{Answer, Answers, Chosen, Format, by_batch, written};
pub use build_cache::BuildCache;
pub use command::{CommandRunner, Commands};
pub use conversation::Conversation;
pub use drive::{DriveError, EndedBy, Spending, drive, never_read};
pub use findings::{Effect, FailureCount, convergence, effects, failures, random_order};
pub use fingerprint::{Fingerprint, fingerprint_of};
pub use goals::{Goals, Objective, VALUE};
pub use included::{include_dirs, included, includes_others};
pub use measure::{Effort, Measured, OUTLIER, Rival, measure, outliers};
pub use metric::Metric;
pub use outcome::{Failed, Fault, KEPT_LINES, Outcome, Ran};
pub use parameter::{MAX_VALUES, Parameter};
pub use process::{Captured, Ended, EndedFor, Launch, run};
pub use quiet::{Quiet, Silence};
pub use runner::{Runner, Trouble};
/// What definitions say in words of their own.
pub use serde_json::Value as Json;
pub use setting::Setting;
pub use space::{Blame, MAX_PARAMETERS, MAX_POINTS, NamedPoint, ParameterSpace, SpaceDefinition, SpaceError};
pub use space_file::{
    KERNEL_TABLES, MAX_SPACE_BYTES, SpaceFileError, Written, in_order, open_space, read_space,
    read_space_beside,
};
pub use study::{Asked, Evaluation, SearchOptions, Study};
pub use study_file::{Definition, LOG_ENDING, MAX_LOG_BYTES, StudyError, StudyFile};
pub use t1::entry as t1_entry;
pub use t4::{t4_donor, write_t4};
pub use template::{Fill, Template};
/// What space files are read with.
pub use toml;
pub use verdict::succeeded;
