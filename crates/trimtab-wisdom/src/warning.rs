//! What went wrong without stopping anything: warnings that say what to do, kept up to a bound. And the one error.

use std::collections::BTreeSet;
use std::fmt;

/// The most warnings that are kept; later ones are counted.
pub const MAX_WARNINGS: usize = 256;

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WarningKind {
    /// The directory or a file in it could not be read.
    Unreadable,
    /// Something could not be written; it is kept in memory and tried again.
    NotWritable,
    /// One line was left out.
    MalformedLine,
    /// The last line of a process that died was cut off.
    TornLine,
    /// A file could not be trusted and was set aside.
    DamagedFile,
    /// A file was written by a newer trimtab and left alone.
    NewerVersion,
    /// A bound was reached and the oldest were dropped.
    Dropped,
    /// Something that was handed over cannot be remembered.
    Refused,
}

/// One thing that went wrong without stopping anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What was seen and what to do about it.
    pub message: String,
}

impl Warning {
    pub(crate) fn new(kind: WarningKind, message: impl Into<String>) -> Warning {
        Warning { kind, message: message.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wisdom: {}", self.message)
    }
}

/// The warnings so far: each text once, at most [`MAX_WARNINGS`].
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<Warning>,
    known: BTreeSet<String>,
    left_out: usize,
}

impl Warnings {
    pub fn add(&mut self, warning: Warning) {
        if self.known.contains(&warning.message) {
            return;
        }
        if self.list.len() >= MAX_WARNINGS {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.known.insert(warning.message.clone());
        self.list.push(warning);
    }

    pub fn list(&self) -> Vec<Warning> {
        let mut list = self.list.clone();
        if self.left_out > 0 {
            let message = format!("{} more warnings were left out; settle the first ones", self.left_out);
            list.push(Warning::new(WarningKind::Dropped, message));
        }
        list
    }
}

/// Why a text could not be imported at all. A single bad line is no error: it is listed in the report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum WisdomError {
    /// No line of it is wisdom.
    #[error(
        "no line of this text is trimtab wisdom (first line: {reason}); give a file written by \
         `trimtab wisdom export` or a segment `seg-*.jsonl`"
    )]
    NotWisdom { reason: String },
    /// It was written by a newer trimtab.
    #[error(
        "this wisdom has format {found} and this trimtab reads up to {known}; import it with a newer trimtab"
    )]
    NewerVersion { found: u64, known: u64 },
    /// It is larger than anything export writes.
    #[error(
        "this text has {bytes} bytes, more than the limit of {limit}; export it in parts, one device each"
    )]
    TooLarge { bytes: usize, limit: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_kept_once_and_up_to_a_bound() {
        let mut warnings = Warnings::default();
        for n in 0..MAX_WARNINGS + 3 {
            warnings.add(Warning::new(WarningKind::TornLine, format!("line {n}")));
            warnings.add(Warning::new(WarningKind::TornLine, "line 0"));
        }
        let list = warnings.list();
        assert_eq!(list.len(), MAX_WARNINGS + 1);
        assert!(list[MAX_WARNINGS].to_string().contains("3 more warnings"), "{}", list[MAX_WARNINGS]);
    }
}
