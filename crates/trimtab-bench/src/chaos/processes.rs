//! Processes of the run: this program started again, its lines read as they come, and an end to whoever says nothing for too long.

use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Who says nothing for so long is stuck: a launch of unknown time has half a minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It did all it was to do.
    Done,
    /// It ended before.
    Died,
    /// It said nothing for too long and was killed.
    Stuck,
}

/// A process that was started, and its lines.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Receiver<Value>,
}

impl Process {
    /// Starts this program with other words. Without `gpus` it finds none: one made of software costs every process a second.
    pub(crate) fn start(words: &[&str], gpus: bool) -> Result<Process> {
        let mut command: Command = trimtab_testing::command(std::env::current_exe()?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        if !gpus {
            command.env("VK_DRIVER_FILES", "none").env("VK_ICD_FILENAMES", "none");
        }
        let mut child = command.spawn()?;
        let out = child.stdout.take().context("its output is a pipe")?;
        let (to, lines) = channel();
        std::thread::spawn(move || {
            // A line that was cut off by the end of the process is none.
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines
                .filter_map(|line| serde_json::from_str(&line).ok())
                .try_for_each(|line: Value| to.send(line))
        });
        Ok(Process { child, lines })
    }

    /// The next line; nothing at the end, an error if there is none for too long.
    pub(crate) fn line(&self) -> Result<Option<Value>, End> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(End::Stuck),
        }
    }

    /// Hands every line over until it ends.
    pub(crate) fn follow(mut self, mut each: impl FnMut(&Value)) -> Result<End> {
        let mut end = End::Died;
        loop {
            match self.line() {
                Ok(Some(line)) if line["end"] == true => end = End::Done,
                Ok(Some(line)) => each(&line),
                Ok(None) => break,
                Err(stuck) => {
                    end = stuck;
                    self.child.kill()?;
                    break;
                }
            }
        }
        let status = self.child.wait()?;
        // Done and then ended by a signal is a death too.
        Ok(if end == End::Done && !status.success() { End::Died } else { end })
    }
}
