//! Settings of the caller's own code, found while it runs: the first calls for given sizes try settings, within a budget, later ones use the best.

use crate::error::Error;
use crate::runtime::Runtime;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trimtab_core::panic_message;
use trimtab_study::{
    Asked, Definition, Failed, Fault, Goals, Json, LOG_ENDING, NamedPoint, Outcome, Parameter,
    ParameterSpace, Ran, SpaceDefinition, StudyFile,
};
use trimtab_tune::{Stopwatch, minimum};

/// Settings tried for each sizes unless somebody says otherwise.
const EVALUATIONS: usize = 40;
/// The best settings are called this often more before the search is over: one call each may have been disturbed.
const FINALISTS: usize = 3;
const FINAL_CALLS: usize = 2;
/// Sizes that are searched; for others the nearest known ones answer.
const MAX_SIZES: usize = 4_096;

/// Collects what is tuned. See [`Runtime::tuned`].
#[derive(Debug)]
pub struct TunedBuilder {
    name: String,
    dir: Option<PathBuf>,
    space: SpaceDefinition,
    wrong: Option<String>,
    evaluations: usize,
    budget: Option<Duration>,
    seed: u64,
}

/// Settings that are found while the caller's code runs.
#[derive(Debug)]
pub struct Tuned {
    name: String,
    dir: Option<PathBuf>,
    space: Arc<ParameterSpace>,
    evaluations: usize,
    budget: Option<Duration>,
    seed: u64,
    searches: Mutex<BTreeMap<Vec<u64>, Arc<Mutex<Search>>>>,
}

/// The search for some sizes.
struct Search {
    file: StudyFile,
    /// Calls of the best settings beyond their first.
    finals: Vec<(usize, Vec<f64>)>,
    settled: Option<NamedPoint>,
    /// Seconds of calls that tried settings, those of earlier processes included.
    spent: f64,
    watch: Stopwatch,
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Search({} tried)", self.file.study.evaluations().len())
    }
}

/// What a call does.
enum Turn {
    /// Uses these settings; nothing is learned.
    Use(NamedPoint),
    /// Tries settings for the first time.
    Try(Asked),
    /// Calls good settings once more.
    Again(usize, NamedPoint),
}

impl Runtime {
    /// Finds settings for code of your own while it runs: tile sizes, thread counts, the way to do it. For each sizes the first calls try
    /// settings, each of them a real call with a real answer; later calls, also of later processes, use the best.
    ///
    /// ```
    /// use trimtab::Runtime;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=64..1024:*2").evaluations(5).build()?;
    /// let numbers: Vec<u64> = (0..10_000).collect();
    /// for _ in 0..20 {
    ///     let total = sum.run(&[numbers.len() as u64], |settings| {
    ///         let chunk = settings.get("chunk").and_then(|value| value.number()).unwrap_or(64.0) as usize;
    ///         numbers.chunks(chunk).map(|part| part.iter().sum::<u64>()).sum::<u64>()
    ///     });
    ///     assert_eq!(total, 49_995_000);
    /// }
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn tuned(&self, name: &str) -> TunedBuilder {
        TunedBuilder {
            name: name.to_string(),
            dir: self.wisdom().dir().map(|dir| dir.join("studies")),
            space: SpaceDefinition::default(),
            wrong: None,
            evaluations: EVALUATIONS,
            budget: None,
            seed: 0,
        }
    }
}

impl TunedBuilder {
    /// Adds a parameter: `tile=8,16,32`, `threads=1..8`, `chunk=64..4096:*2`, `way=rows,columns`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=64..1024:*2").parameter("way=rows,columns").build()?;
    /// sum.run(&[1000], |settings| assert!(settings.get("chunk").is_some() && settings.get("way").is_some()));
    /// assert!(rt.tuned("sum").parameter("chunk=8..1").build().is_err()); // the wrong way round
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parameter(mut self, text: &str) -> TunedBuilder {
        match Parameter::parse(text) {
            Ok(parameter) => self.space.parameters.push(parameter),
            Err(reason) => self.wrong = self.wrong.or(Some(reason)),
        }
        self
    }

    /// Adds what must hold: `tile * threads <= 256`.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let product = rt
    ///     .tuned("product")
    ///     .parameter("tile=8,16,32")
    ///     .parameter("threads=1..4")
    ///     .constraint("tile * threads <= 64")
    ///     .build()?;
    /// product.run(&[1000], |settings| println!("{}", settings.words()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn constraint(mut self, text: &str) -> TunedBuilder {
        self.space.constraints.push(text.to_string());
        self
    }

    /// How many settings are tried for each sizes; 40 without.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=1..100").evaluations(2).build()?;
    /// (0..10).for_each(|_| sum.run(&[1000], |_| ()));
    /// assert_eq!(sum.tried(&[1000]), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn evaluations(mut self, evaluations: usize) -> TunedBuilder {
        self.evaluations = evaluations.max(1);
        self
    }

    /// How long calls that try settings may take together, for each sizes and in all processes; whichever is spent first, this or
    /// [`evaluations`](TunedBuilder::evaluations), ends the search. The call that exceeds it runs to its end: it is yours.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// use std::time::Duration;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=1..100").budget(Duration::from_micros(1)).build()?;
    /// let numbers: Vec<u64> = (0..100_000).collect();
    /// for _ in 0..10 {
    ///     let total = sum.run(&[100_000], |settings| {
    ///         let chunk = settings.get("chunk").and_then(|value| value.number()).unwrap_or(1.0) as usize;
    ///         numbers.chunks(chunk).map(|part| part.iter().sum::<u64>()).sum::<u64>()
    ///     });
    ///     assert_eq!(total, 4_999_950_000);
    /// }
    /// assert_eq!(sum.tried(&[100_000]), 1); // the first took longer than that
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn budget(mut self, budget: Duration) -> TunedBuilder {
        self.budget = Some(budget);
        self
    }

    /// The same seed tries the same settings, given the same times.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let first = |seed: u64| -> Result<String, Error> {
    ///     let sum = rt.tuned("sum").parameter("chunk=1..100").seed(seed).build()?;
    ///     Ok(sum.run(&[1000], |settings| settings.words()))
    /// };
    /// assert_eq!(first(7)?, first(7)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> TunedBuilder {
        self.seed = seed;
        self
    }

    /// Ready to run.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert!(rt.tuned("sum").parameter("chunk=1,2,4").build().is_ok());
    /// assert!(rt.tuned("sum").build().is_err()); // there is no parameter
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Tuned, Error> {
        let wrong = |reason: String| Error::Tuned { name: self.name.clone(), reason };
        let named = !self.name.is_empty()
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !named || self.name.starts_with('.') {
            return Err(wrong(
                "use letters, digits, `-`, `_` and `.` in its name: it is a directory's too".to_string(),
            ));
        }
        if let Some(reason) = self.wrong {
            return Err(Error::Tuned { name: self.name, reason });
        }
        let space = ParameterSpace::new(self.space)
            .map_err(|error| Error::Tuned { name: self.name.clone(), reason: error.reason })?;
        Ok(Tuned {
            name: self.name,
            dir: self.dir,
            space: Arc::new(space),
            evaluations: self.evaluations,
            budget: self.budget,
            seed: self.seed,
            searches: Mutex::default(),
        })
    }
}

impl Tuned {
    /// Runs a closure with settings for these sizes: ones to try while there are calls left for that, else the best known.
    ///
    /// What the closure panics with reaches the caller, and the settings are not tried again.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=2,3").build()?;
    /// let total = sum.run(&[5], |settings| {
    ///     let chunk = settings.get("chunk").and_then(|value| value.number()).unwrap_or(2.0) as usize;
    ///     [1, 2, 3, 4, 5].chunks(chunk).map(|part| part.iter().sum::<i32>()).sum::<i32>()
    /// });
    /// assert_eq!(total, 15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<R>(&self, sizes: &[u64], call: impl FnOnce(&NamedPoint) -> R) -> R {
        let Some(search) = self.search(sizes) else { return call(&self.first()) };
        let turn = {
            let mut search = held(&search);
            search.turn(self.evaluations, self.budget)
        };
        let (at, point) = match turn {
            Turn::Use(point) => return call(&point),
            Turn::Try(asked) => (asked.at, asked.point),
            Turn::Again(at, point) => (at, point),
        };
        let watch = Stopwatch::start();
        let called = catch_unwind(AssertUnwindSafe(|| call(&point)));
        let seconds = watch.elapsed().0 as f64 / 1e9;
        let outcome = match &called {
            Ok(_) => Outcome::Ran(Ran::of(seconds)),
            Err(panic) => {
                Outcome::Failed(Failed::new(Fault::Crashed, format!("panicked: {}", panic_message(&**panic))))
            }
        };
        held(&search).tell(at, outcome, seconds);
        called.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The best settings known for these sizes, or for the nearest.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=2,3").build()?;
    /// sum.run(&[5], |_| ());
    /// assert!(sum.best(&[5]).is_some_and(|best| best.get("chunk").is_some()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn best(&self, sizes: &[u64]) -> Option<NamedPoint> {
        let search = self.search(sizes)?;
        let search = held(&search);
        search.best()
    }

    /// How many settings were tried for these sizes.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum = rt.tuned("sum").parameter("chunk=2,3").build()?;
    /// assert_eq!(sum.tried(&[5]), 0);
    /// sum.run(&[5], |_| ());
    /// assert_eq!(sum.tried(&[5]), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tried(&self, sizes: &[u64]) -> usize {
        self.search(sizes).map_or(0, |search| held(&search).file.study.evaluations().len())
    }

    /// The first legal settings: where nothing can be searched.
    fn first(&self) -> NamedPoint {
        self.space.point(self.space.default_point().unwrap_or(0))
    }

    fn search(&self, sizes: &[u64]) -> Option<Arc<Mutex<Search>>> {
        let mut searches = held(&self.searches);
        if let Some(search) = searches.get(sizes) {
            return Some(Arc::clone(search));
        }
        if searches.len() >= MAX_SIZES {
            return nearest(&searches, sizes);
        }
        let donors = searches.values().map(|search| held(search).file.study.donor()).collect();
        let named = |(at, size): (usize, &u64)| (format!("size{at}"), (*size).into());
        let definition = Definition {
            space: self.space.definition().clone(),
            goals: Goals::default(),
            strategy: "auto".to_string(),
            seed: self.seed,
            sizes: sizes.iter().enumerate().map(named).collect(),
            unit: "s".to_string(),
            what: Json::Null,
        };
        let key: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let key = if key.is_empty() { "study".to_string() } else { key.join("x") };
        let path = self
            .dir
            .as_ref()
            .map(|dir| dir.join(format!("tuned-{}", self.name)).join(format!("{key}.{LOG_ENDING}")));
        // Trouble with the disk, or another process at it: the search is kept in memory, the call goes on.
        let kept = path.and_then(|path| {
            let open = |fresh| {
                StudyFile::open(
                    &path,
                    definition.clone(),
                    Arc::clone(&self.space),
                    Vec::clone(&donors),
                    fresh,
                )
            };
            // Of other parameters than now: what was learned means nothing any more.
            open(false)
                .or_else(|error| {
                    if matches!(error, trimtab_study::StudyError::Other { .. }) {
                        open(true)
                    } else {
                        Err(error)
                    }
                })
                .ok()
        });
        let file = kept.or_else(|| StudyFile::in_memory(definition, Arc::clone(&self.space), donors).ok())?;
        let ran = file.study.evaluations().iter().filter_map(|known| known.outcome.ran());
        let spent = ran.flat_map(|ran| &ran.samples).sum();
        let search = Search { file, finals: Vec::new(), settled: None, spent, watch: Stopwatch::start() };
        let search = Arc::new(Mutex::new(search));
        searches.insert(sizes.to_vec(), Arc::clone(&search));
        Some(search)
    }
}

/// What is held, also if somebody panicked while holding it: every change is whole.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The search of the sizes that are the fewest doublings away.
fn nearest(searches: &BTreeMap<Vec<u64>, Arc<Mutex<Search>>>, sizes: &[u64]) -> Option<Arc<Mutex<Search>>> {
    let doublings = |size: u64| (size.max(1) as f64).log2();
    let far = |other: &Vec<u64>| -> f64 {
        other.iter().zip(sizes).map(|(a, b)| (doublings(*a) - doublings(*b)).abs()).sum()
    };
    let alike = searches.iter().filter(|(other, _)| other.len() == sizes.len());
    alike.min_by(|a, b| far(a.0).total_cmp(&far(b.0))).map(|(_, search)| Arc::clone(search))
}

impl Search {
    fn best(&self) -> Option<NamedPoint> {
        let best = self.file.study.best()?;
        Some(self.file.study.space().point(best.at))
    }

    fn turn(&mut self, evaluations: usize, budget: Option<Duration>) -> Turn {
        if let Some(settled) = &self.settled {
            return Turn::Use(settled.clone());
        }
        // Somebody else is trying: this call learns nothing, and is as fast as is known.
        if !self.file.study.pending().is_empty()
            && let Some(best) = self.best()
        {
            return Turn::Use(best);
        }
        let is_spent = budget.is_some_and(|budget| self.spent >= budget.as_secs_f64());
        if self.file.study.evaluations().len() < evaluations && !is_spent {
            let left = self.file.left_over().into_iter().next();
            if let Some(asked) = left.or_else(|| self.file.ask().ok().flatten()) {
                return Turn::Try(asked);
            }
        }
        let space = Arc::clone(self.file.study.space());
        if let Some(at) = self.finalist() {
            return Turn::Again(at, space.point(at));
        }
        let best = self.best().unwrap_or_else(|| space.point(space.default_point().unwrap_or(0)));
        self.settled = Some(best.clone());
        Turn::Use(best)
    }

    /// Which of the best is to be called once more.
    fn finalist(&mut self) -> Option<usize> {
        if self.finals.is_empty() {
            let mut ran: Vec<(f64, usize)> = self
                .file
                .study
                .evaluations()
                .iter()
                .filter_map(|known| Some((known.outcome.ran()?.value, known.at)))
                .collect();
            ran.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.finals = ran.into_iter().take(FINALISTS).map(|(_, at)| (at, Vec::new())).collect();
        }
        self.finals
            .iter()
            .filter(|(_, times)| times.len() < FINAL_CALLS)
            .min_by_key(|(_, times)| times.len())
            .map(|(at, _)| *at)
    }

    fn tell(&mut self, at: usize, outcome: Outcome, took: f64) {
        if let Some((_, times)) = self.finals.iter_mut().find(|(known, _)| *known == at) {
            let before = self.file.study.evaluation(at).and_then(|known| Some(known.outcome.ran()?.value));
            // A panic of settings that ran before counts as a call: their time stays.
            let time = outcome.ran().map_or(f64::INFINITY, |ran| ran.value);
            times.push(time);
            if let Some(value) =
                before.and_then(|before| minimum(&[before, time])).filter(|_| time.is_finite())
            {
                let _ = self.file.again(at, vec![time], value);
            }
            return;
        }
        self.spent += took;
        let seconds = self.file.seconds().max(self.watch.elapsed().0 as f64 / 1e9);
        // A disk that is full: the answer is known here all the same.
        let _ = self.file.tell(at, outcome, 1, seconds);
    }
}
