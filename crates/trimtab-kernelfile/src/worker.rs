//! The child: reads a question a line, runs the kernel it is about, answers with a line. What kernels print goes elsewhere.

use crate::arguments::{bytes_of, elements_of};
use crate::compare::difference;
use crate::host::Host;
use crate::job::{GivenArgument, GivenData, Job, Question, Reply};
use crate::language::Language;
use crate::opencl::OpenCl;
use crate::spec::Fill;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use trimtab_study::{Failed, Fault};
use trimtab_wisdom::files;

/// A run is launches until this much time is over, in seconds: the shortest of many short ones says more than one.
const RUN_SECONDS: f64 = 0.015;
/// The most launches of a run.
const MAX_LAUNCHES: u32 = 50;

/// Why something did not run.
pub(crate) enum Refusal {
    /// This point.
    Point(Failed),
    /// No point can: a driver is missing.
    All(String),
}

impl From<Failed> for Refusal {
    fn from(failed: Failed) -> Refusal {
        Refusal::Point(failed)
    }
}

/// Where kernels run. It has the memory of the arguments; kernels that were built share it.
pub(crate) trait Target {
    /// Builds or loads a kernel, unless it is there: the next launch is of this one.
    fn load(&mut self, job: &Job) -> Result<(), Refusal>;

    /// Puts bytes into the memory of an argument, which is made where it is not there or has another size.
    fn write(&mut self, at: usize, given: &GivenArgument, bytes: &[u8]) -> Result<(), Refusal>;

    /// Runs the kernel once: seconds, by the device's clock where it has one.
    fn launch(&mut self, job: &Job) -> Result<f64, Refusal>;

    /// Reads the memory of an argument.
    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Refusal>;

    /// Whether nothing was written beside the arguments, as far as that shows.
    fn intact(&self, _job: &Job) -> Result<(), Failed> {
        Ok(())
    }
}

/// What a target holds, and what is known of it.
struct Place {
    target: Box<dyn Target>,
    /// The arguments as they were put there last, with their bytes.
    held: Vec<(GivenArgument, Vec<u8>)>,
}

/// A worker between two questions.
#[derive(Default)]
struct Worker {
    places: BTreeMap<(Language, Option<String>), Place>,
    /// What results are compared with, by file; the last few.
    wanted: Vec<(PathBuf, Vec<u8>)>,
}

/// Answers the questions of the process that started this one, on whose word libraries are loaded and called: only a process that is started
/// for nothing else calls this. What kernels print goes to standard error, and this process ends with the other.
pub fn serve_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    #[cfg(unix)]
    {
        let answers = rustix::io::dup(std::io::stdout())?;
        rustix::stdio::dup2_stdout(std::io::stderr())?;
        serve(std::io::stdin().lock(), std::fs::File::from(answers))
    }
    #[cfg(not(unix))]
    serve(std::io::stdin().lock(), std::io::stdout())
}

/// Answers questions until there are no more.
pub(crate) fn serve(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut worker = Worker::default();
    for line in input.lines() {
        let reply = match serde_json::from_str::<Question>(&line?) {
            Ok(question) => worker.answer(&question),
            Err(error) => Reply::Fatal(format!("the question is not understood: {error}")),
        };
        let mut text = serde_json::to_string(&reply).map_err(std::io::Error::other)?;
        text.push('\n');
        output.write_all(text.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

impl Worker {
    fn answer(&mut self, question: &Question) -> Reply {
        let answered = match question {
            Question::Run { job, check } => self.run(job, *check),
            Question::Warm { job } => self.warm(job),
            Question::Make { job, outputs } => self.make(job, outputs),
        };
        match answered {
            Ok(reply) => reply,
            Err(Refusal::Point(failed)) => Reply::Failed(failed),
            Err(Refusal::All(reason)) => Reply::Fatal(reason),
        }
    }

    fn place(&mut self, job: &Job) -> Result<&mut Place, Refusal> {
        let key = (job.language, job.device.clone());
        if !self.places.contains_key(&key) {
            let device = job.device.as_deref();
            let target: Box<dyn Target> = match job.language {
                Language::C | Language::Cpp | Language::Rust => Box::new(Host::default()),
                Language::OpenCl => Box::new(OpenCl::open(device).map_err(Refusal::All)?),
                #[cfg(feature = "wgpu")]
                Language::Wgsl => Box::new(crate::wgsl::Wgsl::open(device).map_err(Refusal::All)?),
                #[cfg(not(feature = "wgpu"))]
                Language::Wgsl => {
                    let reason = "this trimtab was built without GPUs; build it with its feature `wgpu`";
                    return Err(Refusal::All(reason.to_string()));
                }
                #[cfg(feature = "cuda")]
                Language::Cuda => {
                    let told = |reason| match crate::language::cuda_missing(&job.source) {
                        Some(missing) => format!("{reason}. {missing}"),
                        None => reason,
                    };
                    Box::new(crate::cuda::Cuda::open(device).map_err(told).map_err(Refusal::All)?)
                }
                #[cfg(not(feature = "cuda"))]
                Language::Cuda => {
                    return Err(Refusal::All(crate::language::cuda_missing(&job.source).unwrap_or_default()));
                }
            };
            self.places.insert(key.clone(), Place { target, held: Vec::new() });
        }
        self.places.get_mut(&key).ok_or_else(|| Refusal::All("the device is not there".to_string()))
    }

    fn run(&mut self, job: &Job, check: bool) -> Result<Reply, Refusal> {
        let place = self.place(job)?;
        place.target.load(job)?;
        // A check starts from what arguments hold before any run, also those the kernel should only read.
        place.put(job, check)?;
        if check {
            place.target.launch(job)?;
            place.target.intact(job)?;
            self.check(job)?;
        }
        let place = self.place(job)?;
        let (mut best, mut total, mut launches) = (f64::INFINITY, 0.0, 0);
        while launches == 0 || (total < RUN_SECONDS && launches < MAX_LAUNCHES) {
            let seconds = place.target.launch(job)?;
            (best, total, launches) = (best.min(seconds), total + seconds, launches + 1);
        }
        Ok(Reply::Ran { seconds: best, launches })
    }

    /// Drivers compile some of it only when it is launched.
    fn warm(&mut self, job: &Job) -> Result<Reply, Refusal> {
        let job = Job { groups: [1; 3], ..job.clone() };
        let place = self.place(&job)?;
        place.target.load(&job)?;
        place.put(&job, false)?;
        place.target.launch(&job)?;
        Ok(Reply::Made)
    }

    fn check(&mut self, job: &Job) -> Result<(), Refusal> {
        for (at, given) in job.arguments.iter().enumerate() {
            let (Some(compared), GivenData::Array { shape, .. }) = (&given.compared, &given.data) else {
                continue;
            };
            let mut got = vec![0; given.bytes()];
            self.place(job)?.target.read(at, &mut got)?;
            if !self.wanted.iter().any(|(path, _)| *path == compared.with) {
                let bytes = elements_of(&compared.with, given.dtype, shape).map_err(Refusal::All)?;
                // As many as a kernel has outputs, and those of a second size.
                self.wanted.truncate(15);
                self.wanted.insert(0, (compared.with.clone(), bytes));
            }
            let Some((_, wanted)) = self.wanted.iter().find(|(path, _)| *path == compared.with) else {
                continue;
            };
            if let Some(message) =
                difference(&given.name, given.dtype, shape, &got, wanted, compared.tolerance)
            {
                return Err(Failed::new(Fault::Wrong, message).into());
            }
        }
        Ok(())
    }

    fn make(&mut self, job: &Job, outputs: &[(usize, PathBuf)]) -> Result<Reply, Refusal> {
        let place = self.place(job)?;
        place.target.load(job)?;
        place.put(job, true)?;
        place.target.launch(job)?;
        place.target.intact(job)?;
        for (at, path) in outputs {
            let mut bytes = vec![0; job.arguments.get(*at).map_or(0, GivenArgument::bytes)];
            place.target.read(*at, &mut bytes)?;
            files::replace(path, &bytes)
                .map_err(|error| Refusal::All(format!("{} cannot be written: {error}", path.display())))?;
        }
        Ok(Reply::Made)
    }
}

impl Place {
    /// Gives every argument its bytes: all of them, or those that changed and those a kernel adds to.
    fn put(&mut self, job: &Job, all: bool) -> Result<(), Refusal> {
        for (at, given) in job.arguments.iter().enumerate() {
            let known = self
                .held
                .get(at)
                .is_some_and(|(held, _)| held.dtype == given.dtype && held.data == given.data);
            if !known {
                let bytes = bytes_of(given).map_err(|reason| Failed::new(Fault::Prepare, reason))?;
                self.held.truncate(at);
                self.held.push((given.clone(), bytes));
            }
            let adds = matches!(&given.data, GivenData::Array { fill, is_output: true, .. } if *fill != Fill::Poison);
            if !known || all || adds {
                let written = self.target.write(at, given, &self.held[at].1);
                if written.is_err() {
                    // It holds something else, or nothing: what comes next must not take it for known.
                    self.held.truncate(at);
                }
                written?;
            }
        }
        Ok(())
    }
}
