//! Users' kernels in live calls: which one ran when a process died, so that the next does not die of it too.
//!
//! A file beside wisdom's tells what each thread runs, and which signal ended it. Whoever opens the directory next reads what the dead
//! left there, and puts out what they died of. An interruption leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use trimtab_core::{Condition, FailureKind, Problem};
use trimtab_cpu::{Entry, Inside, Running};
use trimtab_plan::{MAX_NUMBER, Plan, Planner};
use trimtab_wisdom::{FactKey, Outcome, Wisdom};

/// How the files' names begin.
const NAME: &str = "running-";
/// Between the parts of a text.
const APART: char = '\u{1f}';

/// What runs in this process, where wisdom is kept in a directory.
#[derive(Default)]
pub(crate) struct InCalls {
    file: Option<(Running, PathBuf)>,
    /// The number of each plan's text, by the plan's number; zero for none yet.
    entries: Vec<AtomicU32>,
    texts: Mutex<Vec<String>>,
}

impl InCalls {
    /// Tells what users' kernels run, of which there are some.
    pub(crate) fn beside(wisdom: &Wisdom) -> InCalls {
        let path = wisdom.dir().map(|dir| dir.join(format!("{NAME}{}", wisdom.origin())));
        // What cannot be written costs what would have been known after a crash, nothing else.
        let file = path.and_then(|path| Some((Running::create(&path).ok()?, path)));
        let entries = (0..=MAX_NUMBER).map(|_| AtomicU32::new(0)).collect();
        InCalls { file, entries, texts: Mutex::default() }
    }

    /// A call of a user's kernel begins; it ends with what is returned.
    pub(crate) fn enter(&self, planner: &Planner, problem: &Problem, plan: &Plan) -> Option<Inside<'_>> {
        let (running, _) = self.file.as_ref()?;
        let number = self.entries.get(plan.number() as usize)?;
        let entry = match Entry::of(number.load(Ordering::Acquire)) {
            Some(entry) => entry,
            None => {
                let entry = self.register(running, planner, problem, plan)?;
                // Plans without a number share a place in the list.
                if plan.number() > 0 {
                    number.store(entry.number(), Ordering::Release);
                }
                entry
            }
        };
        Some(running.enter(entry))
    }

    #[cold]
    fn register(
        &self,
        running: &Running,
        planner: &Planner,
        problem: &Problem,
        plan: &Plan,
    ) -> Option<Entry> {
        let mut parts = planner.names(problem, plan)?.to_vec();
        parts.push(problem.to_string());
        let text = parts.join(&APART.to_string());
        let mut texts = self.texts.lock().ok()?;
        let at = texts.iter().position(|known| *known == text).unwrap_or(texts.len());
        let entry = running.write(at as u32 + 1, &text)?;
        if at == texts.len() {
            texts.push(text);
        }
        Some(entry)
    }
}

impl Drop for InCalls {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            Running::remove(path);
        }
    }
}

/// Remembers what processes died of that kept their wisdom in a directory.
pub(crate) fn note_the_dead(dir: &Path, wisdom: &Wisdom) {
    for path in Running::files(dir, NAME) {
        let Ok(Some(ran)) = Running::left_by_the_dead(&path) else { continue };
        for (text, signal) in ran {
            let [device, kernel, version, point, problem] = text.split(APART).collect::<Vec<_>>()[..] else {
                continue;
            };
            let [device, kernel, version, point, problem] =
                [device, kernel, version, point, problem].map(str::to_string);
            let key = FactKey { device, kernel, version, point, problem, condition: Condition::Quiet };
            let message = format!("signal {signal} ended a process in a live call of it");
            wisdom.record(key, Outcome::Failed { kind: FailureKind::Crashed, message });
        }
        wisdom.flush();
        // Two processes may have read it: both know the same then.
        Running::remove(&path);
    }
}
