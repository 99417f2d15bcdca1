//! The runner of a study about a kernel in a file: builds libraries ahead, and asks the child about points.

use crate::job::{Compared, Job, Question, Reply};
use crate::language::{Language, words_of};
use crate::shim;
use crate::spec::KernelSpec;
use crate::warm::Warmers;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::Nanos;
use trimtab_study::{
    BuildCache, Conversation, Failed, Fault, Fingerprint, Launch, NamedPoint, Quiet, Ran, Runner, Setting,
    Trouble, include_dirs, included, includes_others, run, succeeded,
};
use trimtab_tune::Stopwatch;
use trimtab_wisdom::files;

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A run is ended after that.
    pub time: Nanos,
    /// Compiling, and making a reference, are ended after that.
    pub build: Nanos,
    /// A run is ended when the child holds more bytes.
    pub memory: Option<u64>,
}

/// Runs a kernel in a child process.
#[derive(Debug)]
pub struct KernelRunner {
    spec: KernelSpec,
    sizes: Vec<(String, Setting)>,
    limits: Limits,
    /// The words that start the child.
    child: Vec<String>,
    built: BuildCache,
    quiet: Arc<Quiet>,
    stop: Arc<AtomicBool>,
    talk: Mutex<Option<Conversation>>,
    warmers: Warmers,
    /// References that were made, or found.
    references: Mutex<BTreeSet<String>>,
}

impl KernelRunner {
    /// Runs that kernel at these sizes. `child` are the words that start a process which [`serve_parent`](crate::serve_parent)s; what is built is kept
    /// in `dir`.
    pub fn new(
        spec: KernelSpec,
        sizes: Vec<(String, Setting)>,
        limits: Limits,
        child: Vec<String>,
        dir: PathBuf,
        stop: Arc<AtomicBool>,
    ) -> KernelRunner {
        let (built, talk, references) = (BuildCache::new(dir), Mutex::default(), Mutex::default());
        let (quiet, warmers) = (Arc::default(), Warmers::default());
        KernelRunner { spec, sizes, limits, child, built, quiet, stop, talk, warmers, references }
    }

    /// The words that compile a job's library, but for where it goes.
    fn compiler_words(&self, job: &Job) -> Vec<String> {
        let usual = job.language.usual_compiler().to_string();
        // What is said of the kernel's compiler is not about a reference in another language.
        let own = self.spec.compiler.clone().filter(|_| job.language == self.spec.language);
        let mut words = vec![own.unwrap_or(usual)];
        match job.language {
            Language::Rust => {
                words.extend(
                    ["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "kernel"]
                        .map(str::to_string),
                );
                let on = job.defines.iter().filter(|(_, value)| *value == Setting::Flag(true));
                words.extend(on.flat_map(|(name, _)| ["--cfg".to_string(), name.clone()]));
            }
            _ => {
                words.extend(["-shared", "-fPIC"].map(str::to_string));
                words.extend(job.defines.iter().map(|(name, value)| shim::define(name, value)));
            }
        }
        words.extend(job.flags.iter().cloned());
        words
    }

    /// Compiles the library of a job, unless it was.
    fn compile(&self, job: &Job, makes_way: bool) -> Result<Option<PathBuf>, Trouble> {
        if !job.language.is_compiled() {
            return Ok(None);
        }
        let text = shim::text(job).map_err(Trouble::Fatal)?;
        let words = self.compiler_words(job);
        let mut key = Fingerprint::default();
        words.iter().for_each(|word| key.text(word));
        key.text(&text);
        let dirs = include_dirs(words.iter().map(String::as_str));
        key.source(&job.source, &dirs);
        self.spec.depends.iter().for_each(|path| key.source(path, &dirs));
        let key = format!("{}.so", key.finish());
        let built =
            self.built.get(&key, true, |unfinished| self.make(job, &text, words, unfinished, makes_way));
        built.map(Some)
    }

    fn make(
        &self,
        job: &Job,
        text: &str,
        mut words: Vec<String>,
        unfinished: &Path,
        makes_way: bool,
    ) -> Result<(), Trouble> {
        let ending = match job.language {
            Language::Cpp => "cpp",
            Language::Rust => "rs",
            _ => "c",
        };
        let shim = unfinished.with_extension(ending);
        files::replace(&shim, text.as_bytes())
            .map_err(|error| Trouble::Fatal(format!("{} cannot be written: {error}", shim.display())))?;
        // The source before the flags: libraries to link (-lm) come after what needs them.
        words.insert(1, shim.display().to_string());
        words.extend(["-o".to_string(), unfinished.display().to_string()]);
        let program = words[0].clone();
        let makes_way_for = makes_way.then(|| Arc::clone(&self.quiet));
        let launch =
            Launch { words, time_limit: Some(self.limits.build), makes_way_for, ..Launch::default() };
        let ended = run(&launch, &self.stop).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Trouble::Fatal(format!(
                "there is no program `{program}` to compile {}; install it, or name another: compiler = \"…\" in [kernel]",
                job.source.display()
            )),
            _ => Trouble::Fatal(format!("`{program}` could not be started: {error}")),
        })?;
        let compiled = succeeded(&ended, "compiling", Fault::Compile);
        // Only its library is of use.
        let _ = std::fs::remove_file(&shim);
        compiled
    }

    /// The job of a point, compiled, with what its outputs are compared with.
    fn job(&self, point: &NamedPoint, makes_way: bool) -> Result<Job, Trouble> {
        let mut job = self.spec.job(point, &self.sizes)?;
        job.library = self.compile(&job, makes_way)?;
        Ok(job)
    }

    /// Asks the child. After an answer it stays; a failure counts only of a child that ran nothing else: who ran before may have spoilt it.
    fn ask(&self, question: &Question) -> Result<Reply, Trouble> {
        let line = serde_json::to_string(question).map_err(|error| Trouble::Fatal(error.to_string()))?;
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if talk.is_none() {
                let launch = Launch { words: self.child.clone(), ..Launch::default() };
                let started = Conversation::start(&launch).map_err(|error| {
                    Trouble::Fatal(format!("the child process cannot be started: {error}"))
                })?;
                *talk = Some(started);
            }
            let Some(child) = talk.as_mut() else { continue };
            let is_fresh = child.asked() == 0;
            let time = match question {
                Question::Run { .. } => self.limits.time,
                Question::Make { .. } | Question::Warm { .. } => self.limits.build,
            };
            let answered = child.ask(&line, Some(time), self.limits.memory, &[&self.stop]);
            let failed = match answered {
                Ok(answer) => match serde_json::from_str::<Reply>(&answer) {
                    Ok(Reply::Failed(failed)) if failed.fault == Fault::Compile => return Err(failed.into()),
                    Ok(Reply::Failed(failed)) => Trouble::Failed(failed),
                    Ok(Reply::Fatal(reason)) => return Err(Trouble::Fatal(reason)),
                    Ok(reply) => return Ok(reply),
                    Err(_) => Failed::new(Fault::Crashed, "the child's answer makes no sense")
                        .with_output(answer.as_bytes())
                        .into(),
                },
                Err(ended) => match succeeded(&ended, "the kernel's process", Fault::Exit) {
                    Ok(()) => {
                        Failed::new(Fault::Exit, "the kernel's process ended by itself, without an answer")
                            .with_output(&ended.last_output())
                            .into()
                    }
                    Err(trouble) => trouble,
                },
            };
            // Dropped: whatever went wrong may have left traces.
            *talk = None;
            let fault = match &failed {
                Trouble::Failed(failed) => Some(failed.fault),
                _ => None,
            };
            let comes_back = matches!(fault, None | Some(Fault::TimedOut | Fault::Memory));
            // Alone in the end: those who build ahead may hold what it lacks.
            let is_alone = fault == Some(Fault::Wrong) || !self.warmers.rest();
            if comes_back || (is_fresh && is_alone) {
                return Err(failed);
            }
        }
    }

    /// Runs a point once, unchecked, and writes its outputs to files, each its plain elements: by their places among the arguments.
    pub fn outputs(&self, point: &NamedPoint) -> Result<Vec<(usize, PathBuf)>, Trouble> {
        let job = self.job(point, false)?;
        let is_output = |at: &usize| job.arguments[*at].is_output();
        let outputs: Vec<(usize, PathBuf)> = (0..job.arguments.len())
            .filter(is_output)
            .map(|at| (at, self.built.path(&format!("output-{at}"))))
            .collect();
        self.ask(&Question::Make { job, outputs: outputs.clone() })?;
        Ok(outputs)
    }

    /// Makes what a job's outputs are compared with, unless it is there.
    fn refer(&self, job: &mut Job, point: &NamedPoint) -> Result<(), Trouble> {
        let Some(against) = &self.spec.reference else { return Ok(()) };
        let mut reference = self.spec.reference_job(against, job, point, &self.sizes)?;
        let source = files::read(&against.path, u64::MAX)
            .map_err(|error| Trouble::Fatal(format!("{} cannot be read: {error}", against.path.display())))?;
        let text = String::from_utf8_lossy(&source);
        let mut all = text.to_string();
        for header in included(&against.path, &[]).iter().filter(|_| includes_others(&against.path)) {
            let header = files::read(header, u64::MAX).unwrap_or_default();
            all.push('\n');
            all.push_str(&String::from_utf8_lossy(&header));
        }
        let words = words_of(&all);
        let fixed: Vec<&str> = self.spec.defines.iter().map(|(name, _)| name.as_str()).collect();
        // What it does not name cannot change its result: then one result serves every point.
        reference
            .defines
            .retain(|(name, _)| words.contains(&name.as_str()) || fixed.contains(&name.as_str()));
        let mut key = Fingerprint::default();
        key.text(&all);
        key.text(&serde_json::to_string(&reference).unwrap_or_default());
        let key = key.finish();
        let outputs: Vec<(usize, PathBuf)> = (0..job.arguments.len())
            .filter(|at| job.arguments[*at].is_output() && job.arguments[*at].compared.is_none())
            .map(|at| (at, self.built.path(&format!("reference-{key}-{at}"))))
            .collect();
        let mut known = self.references.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&key) {
            if outputs.iter().any(|(_, path)| !path.exists()) {
                self.make_reference(&mut reference, &outputs)?;
            }
            known.insert(key);
        }
        for (at, with) in outputs {
            job.arguments[at].compared = Some(Compared { with, tolerance: self.spec.tolerance_of(at) });
        }
        Ok(())
    }

    fn make_reference(&self, reference: &mut Job, outputs: &[(usize, PathBuf)]) -> Result<(), Trouble> {
        let told = |trouble: Trouble| match trouble {
            Trouble::Failed(failed) => {
                let output: String = failed.output.iter().map(|line| format!("\n    {line}")).collect();
                Trouble::Fatal(format!(
                    "the reference {} fails: {failed}{output}",
                    reference.source.display()
                ))
            }
            trouble => trouble,
        };
        let compiled = self.compile(reference, false).map_err(&told)?;
        let mut job = reference.clone();
        job.library = compiled;
        let question = Question::Make { job, outputs: outputs.to_vec() };
        self.ask(&question).map(drop).map_err(told)
    }
}

impl Runner for KernelRunner {
    fn measures_time(&self) -> bool {
        true
    }

    fn quiet(&self) -> Option<&Quiet> {
        Some(&self.quiet)
    }

    fn builds_ahead(&self) -> bool {
        self.spec.language.is_compiled() || self.spec.language == Language::OpenCl
    }

    fn build(&self, point: &NamedPoint, makes_way: bool) -> Result<(), Trouble> {
        if self.spec.language.is_compiled() {
            return self.job(point, makes_way).map(drop);
        }
        // Whoever is next is built where it is measured.
        if makes_way
            && self.builds_ahead()
            && let Ok(job) = self.job(point, true)
        {
            let Limits { build, memory, .. } = self.limits;
            self.warmers.warm(&job, &self.child, build, memory, &self.quiet, &self.stop);
        }
        Ok(())
    }

    fn run(&self, point: &NamedPoint, _worker: usize, first: bool) -> Result<Ran, Trouble> {
        let mut job = self.job(point, false)?;
        if first {
            self.refer(&mut job, point)?;
        } else {
            job.arguments.iter_mut().for_each(|given| given.compared = None);
        }
        let question = Question::Run { job, check: first };
        let watch = Stopwatch::start();
        let reply = self.ask(&question)?;
        if let Question::Run { job, check: true } = &question {
            self.warmers.measured(job, watch.elapsed().0 as f64 / 1e9);
        }
        match reply {
            Reply::Ran { seconds, .. } => Ok(Ran::of(seconds)),
            reply => Err(Trouble::Fatal(format!("the child answered something else: {reply:?}"))),
        }
    }
}
