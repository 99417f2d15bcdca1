//! Commands as candidates: prepare, compile, run, check, and the numbers of a run.

use crate::build_cache::BuildCache;
use crate::fingerprint::Fingerprint;
use crate::included::{include_dirs, includes_others};
use crate::metric::Metric;
use crate::outcome::{Failed, Fault, Ran};
use crate::process::{Ended, Launch, run};
use crate::quiet::Quiet;
use crate::runner::{Runner, Trouble};
use crate::space::{NamedPoint, ParameterSpace};
use crate::template::{Fill, Template};
use crate::verdict::succeeded;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::Nanos;
use trimtab_wisdom::files;

/// Names that holes can have besides those of parameters: what is compiled, and the number of the worker.
const OUT: &str = "out";
const WORKER: &str = "worker";

/// Names of what is compiled that are remembered; after so many they are found anew.
const MAX_KEYS: usize = 10_000;

/// The commands of a study.
#[derive(Clone, Debug)]
pub struct Commands {
    /// What is tuned.
    pub run: Template,
    /// Runs before each run, and is not timed.
    pub prepare: Option<Template>,
    /// Makes `{out}` for a point; what was made of the same words and files is made once.
    pub compile: Option<Template>,
    /// Says by its exit code whether the result of a run is right; after the first run of a point.
    pub check: Option<Template>,
    /// Variables, with holes.
    pub environment: Vec<(String, Template)>,
    /// Files that what is compiled depends on, besides those its command names.
    pub depends: Vec<PathBuf>,
    /// What is minimised or maximised.
    pub metric: Metric,
    /// Whether that is a time: the wall's, or one the command takes itself.
    pub measures_time: bool,
    /// Further numbers.
    pub numbers: Vec<(String, Metric)>,
    /// A run is ended after that.
    pub time_limit: Option<Nanos>,
    /// Compiling and preparing are ended after that.
    pub build_limit: Option<Nanos>,
    /// A run is ended when it holds more memory.
    pub memory_limit: Option<u64>,
    /// Where to run: a directory for each worker, or the one of this process.
    pub worker_dirs: Option<PathBuf>,
}

impl Commands {
    /// Whether every hole has a parameter, and every parameter a hole.
    pub fn check_holes(&self, space: &ParameterSpace, sizes: &[String]) -> Result<(), String> {
        let known: Vec<&str> = space.parameters().iter().map(|parameter| parameter.name.as_str()).collect();
        let mut used: Vec<&str> = Vec::new();
        for (role, template) in self.templates() {
            for hole in template.holes() {
                let is_out = hole == OUT && self.compile.is_some();
                if known.contains(&hole.as_str()) {
                    used.push(hole);
                } else if hole == OUT && !is_out {
                    return Err(format!(
                        "{role} asks for {{out}}, which --compile makes; give --compile, or write {{{{out}}}} for the text itself"
                    ));
                } else if !is_out && hole != WORKER && !sizes.contains(hole) {
                    return Err(format!(
                        "{role} asks for {{{hole}}}, which is no parameter; there are: {}. Correct it, add --param {hole}=…, or write {{{{{hole}}}}} for the text itself",
                        known.join(", ")
                    ));
                }
            }
        }
        if let Some(unused) = known.iter().find(|name| !used.contains(name)) {
            return Err(format!(
                "the parameter `{unused}` is never used; put {{{unused}}} into the command, or --env NAME={{{unused}}}, or leave it out"
            ));
        }
        Ok(())
    }

    /// Whether so many workers keep out of each other's way: a file with a number is one worker's.
    pub fn check_files(&self, workers: usize) -> Result<(), String> {
        if workers < 2 {
            return Ok(());
        }
        for path in self.metrics().filter_map(Metric::file) {
            let shown = path.display();
            if self.worker_dirs.is_none() {
                return Err(format!(
                    "{workers} workers would write one {shown} and read each other's numbers; add --workdir-per-worker, use one worker, or print the number (regex:, json:)"
                ));
            }
            if path.is_absolute() {
                return Err(format!(
                    "{shown} is the same file for all {workers} workers, who would read each other's numbers; give a path relative to their directories"
                ));
            }
        }
        Ok(())
    }

    fn metrics(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.metric).chain(self.numbers.iter().map(|(_, metric)| metric))
    }

    fn templates(&self) -> impl Iterator<Item = (String, &Template)> {
        let named = [("--prepare", &self.prepare), ("--compile", &self.compile), ("--check", &self.check)];
        let named =
            named.into_iter().filter_map(|(role, template)| Some((role.to_string(), template.as_ref()?)));
        let variables = self.environment.iter().map(|(name, template)| (format!("--env {name}"), template));
        std::iter::once(("the command".to_string(), &self.run)).chain(named).chain(variables)
    }
}

/// Runs commands.
#[derive(Debug)]
pub struct CommandRunner {
    commands: Commands,
    /// The sizes this study is about, for holes.
    sizes: Vec<(String, String)>,
    /// What was compiled.
    built: BuildCache,
    /// What it is called, by the words it is compiled with.
    keys: Mutex<BTreeMap<String, CompiledOf>>,
    quiet: Arc<Quiet>,
    stop: Arc<AtomicBool>,
}

/// What something is compiled of.
#[derive(Clone, Debug)]
struct CompiledOf {
    key: String,
    /// Whether that is known to be everything: then what an earlier process compiled of it is as good.
    is_all: bool,
}

impl CommandRunner {
    /// Runs these commands; `{out}` is made in that directory.
    pub fn new(
        commands: Commands,
        sizes: Vec<(String, String)>,
        built_dir: PathBuf,
        stop: Arc<AtomicBool>,
    ) -> CommandRunner {
        let (built, keys, quiet) = (BuildCache::new(built_dir), Mutex::default(), Arc::default());
        CommandRunner { commands, sizes, built, keys, quiet, stop }
    }

    /// What compiling depends on: its words, its variables, the files it names and those they include. Files are looked at once for the
    /// same words: what compiling writes beside its result must not give it another name.
    fn compiled_of(&self, compile: &Template, point: &NamedPoint) -> CompiledOf {
        let mut key = Fingerprint::default();
        let extra = self.extra("", "");
        let fill = Fill { extra: &extra };
        compile.fill(point, fill).iter().for_each(|word| key.text(word));
        for (name, value) in
            self.environment(point, &extra).into_iter().chain(compile.environment(point, fill))
        {
            key.text(&name);
            key.text(&value);
        }
        let asked = key.clone().finish();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = keys.get(&asked) {
            return known.clone();
        }
        let mentioned = compile.mentioned(point, fill);
        let dir = self.worker_dir(0);
        let here = |name: PathBuf| dir.as_ref().map_or(name.clone(), |dir| dir.join(name));
        let dirs: Vec<PathBuf> =
            include_dirs(mentioned.iter().map(String::as_str)).into_iter().map(here).collect();
        let named: Vec<PathBuf> = mentioned.iter().map(|name| here(name.into())).collect();
        named.iter().for_each(|path| key.source(path, &dirs));
        self.commands.depends.iter().for_each(|path| key.source(path, &dirs));
        // Of `make`, a script, another language it is not known what else they read.
        let is_all = !self.commands.depends.is_empty()
            || named.iter().any(|path| includes_others(path) && path.is_file());
        let found = CompiledOf { key: key.finish(), is_all };
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        keys.insert(asked, found.clone());
        found
    }

    fn extra<'a>(&'a self, out: &'a str, worker: &'a str) -> Vec<(&'a str, &'a str)> {
        let sizes = self.sizes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        [(OUT, out), (WORKER, worker)].into_iter().chain(sizes).collect()
    }

    fn environment(&self, point: &NamedPoint, extra: &[(&str, &str)]) -> Vec<(String, String)> {
        let variable = |(name, template): &(String, Template)| {
            (name.clone(), template.fill(point, Fill { extra }).join(" "))
        };
        self.commands.environment.iter().map(variable).collect()
    }

    fn out(&self, point: &NamedPoint) -> String {
        match &self.commands.compile {
            Some(compile) => self.built.path(&self.compiled_of(compile, point).key).display().to_string(),
            None => String::new(),
        }
    }

    fn launch(&self, template: &Template, point: &NamedPoint, out: &str, worker: usize) -> Launch {
        let worker_name = worker.to_string();
        let extra = self.extra(out, &worker_name);
        let fill = Fill { extra: &extra };
        let mut environment = self.environment(point, &extra);
        environment.extend(template.environment(point, fill));
        Launch {
            words: template.fill(point, fill),
            environment,
            dir: self.worker_dir(worker),
            ..Launch::default()
        }
    }

    fn worker_dir(&self, worker: usize) -> Option<PathBuf> {
        let dir = self.commands.worker_dirs.as_ref()?.join(format!("worker-{worker}"));
        // If it cannot be made, starting there says so.
        let _ = files::make_private(&dir);
        Some(dir)
    }

    fn start(
        &self,
        launch: &Launch,
        template: &Template,
        role: &str,
        fault: Fault,
    ) -> Result<Ended, Trouble> {
        run(launch, &self.stop).map_err(|error| {
            let program = launch.words.first().map_or("", String::as_str);
            if error.kind() == ErrorKind::NotFound && template.has_fixed_program() {
                let dir = launch.dir.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
                return Trouble::Fatal(format!(
                    "{role}: there is no program `{program}`{dir}; install it, or give its path"
                ));
            }
            Trouble::Failed(Failed::new(fault, format!("{role}: `{program}` could not be started: {error}")))
        })
    }

    fn compile(
        &self,
        template: &Template,
        point: &NamedPoint,
        out: &str,
        makes_way: bool,
    ) -> Result<(), Trouble> {
        let launch = Launch {
            time_limit: self.commands.build_limit,
            makes_way_for: makes_way.then(|| Arc::clone(&self.quiet)),
            ..self.launch(template, point, out, 0)
        };
        let ended = self.start(&launch, template, "--compile", Fault::Compile)?;
        succeeded(&ended, "compiling", Fault::Compile)?;
        let needs_out = template.holes().iter().any(|hole| hole == OUT);
        if needs_out && !Path::new(out).exists() {
            let message =
                "compiling ended well, but made no {out}; give its command {out} where the result goes";
            return Err(Failed::new(Fault::Compile, message).with_output(&ended.last_output()).into());
        }
        Ok(())
    }
}

impl Runner for CommandRunner {
    fn measures_time(&self) -> bool {
        self.commands.measures_time
    }

    fn quiet(&self) -> Option<&Quiet> {
        Some(&self.quiet)
    }

    fn builds_ahead(&self) -> bool {
        self.commands.compile.as_ref().is_some_and(|compile| compile.holes().iter().any(|hole| hole == OUT))
    }

    fn build(&self, point: &NamedPoint, makes_way: bool) -> Result<(), Trouble> {
        let Some(template) = &self.commands.compile else { return Ok(()) };
        if !self.builds_ahead() {
            // It makes its result always in the same place: nothing can be kept.
            return self.compile(template, point, &self.out(point), makes_way);
        }
        let CompiledOf { key, is_all } = self.compiled_of(template, point);
        self.built
            .get(&key, is_all, |unfinished| {
                self.compile(template, point, &unfinished.display().to_string(), makes_way)
            })
            .map(drop)
    }

    fn run(&self, point: &NamedPoint, worker: usize, first: bool) -> Result<Ran, Trouble> {
        let commands = &self.commands;
        let out = self.out(point);
        if let Some(prepare) = &commands.prepare {
            let limit = commands.build_limit;
            let launch = Launch {
                time_limit: limit,
                leaves_children: true,
                ..self.launch(prepare, point, &out, worker)
            };
            let ended = self.start(&launch, prepare, "--prepare", Fault::Prepare)?;
            succeeded(&ended, "preparing", Fault::Prepare)?;
        }
        let launch = Launch {
            time_limit: commands.time_limit,
            memory_limit: commands.memory_limit,
            ..self.launch(&commands.run, point, &out, worker)
        };
        for metric in commands.metrics() {
            metric.forget(launch.dir.as_deref()).map_err(|error| {
                let shown = metric.file().map(|path| path.display().to_string()).unwrap_or_default();
                Trouble::Fatal(format!(
                    "{shown} cannot be removed before a run: {error}; what another run wrote would be taken for its number. Name a file that the command writes anew"
                ))
            })?;
        }
        let ended = self.start(&launch, &commands.run, "the command", Fault::Start)?;
        succeeded(&ended, "it", Fault::Exit)?;
        let value = commands.metric.read(&ended, launch.dir.as_deref())?;
        let mut others = BTreeMap::new();
        for (name, metric) in &commands.numbers {
            let number = metric
                .read(&ended, launch.dir.as_deref())
                .map_err(|failed| Failed { message: format!("{name}: {}", failed.message), ..failed })?;
            others.insert(name.clone(), number);
        }
        if let Some(check) = commands.check.as_ref().filter(|_| first) {
            let launch =
                Launch { time_limit: commands.build_limit, ..self.launch(check, point, &out, worker) };
            let ended = self.start(&launch, check, "--check", Fault::Wrong)?;
            succeeded(&ended, "the check", Fault::Wrong)?;
        }
        Ok(Ran { value, samples: vec![value], others })
    }
}
