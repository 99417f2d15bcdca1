//! Many searches of many strategies on many recordings, on all cores; the result does not depend on how many there are.

use crate::output::counted;
use crate::progress::{Bar, HowLong};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab::Nanos;
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::tune::search::{Donor, SearchSpace, Seen, Strategy, strategy};
use trimtab_replay::{Recording, Run, simulate};

/// What to replay.
pub struct Searches<'a> {
    pub recordings: &'a [&'a Recording],
    /// What each recording's searches may learn from.
    pub donors: &'a [Vec<Donor>],
    pub strategies: &'a [String],
    pub evals: usize,
    pub seeds: Range<u64>,
    pub noise: bool,
}

/// All searches of a strategy on a recording, by seed.
pub struct Replayed {
    pub space: usize,
    pub strategy: usize,
    pub runs: Vec<Run>,
    /// How long each question for the next point took.
    pub ask_ns: Vec<u32>,
}

/// One search, and how long each of its questions took.
type Searched = (Run, Vec<u32>);

/// Times every question of the strategy inside.
struct Timed {
    inside: Box<dyn Strategy>,
    ask_ns: Vec<u32>,
}

impl Strategy for Timed {
    fn name(&self) -> &'static str {
        self.inside.name()
    }

    fn ask(&mut self) -> Option<usize> {
        let watch = Stopwatch::start();
        let at = self.inside.ask();
        self.ask_ns.push(u32::try_from(watch.elapsed().0).unwrap_or(u32::MAX));
        at
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.inside.tell(at, seen);
    }
}

impl Searches<'_> {
    /// Replays every strategy on every recording with every seed, each from a fresh start.
    pub fn replay(&self, threads: Option<u32>) -> Vec<Replayed> {
        let spaces: Vec<Arc<SearchSpace>> =
            self.recordings.iter().map(|recording| Arc::new(SearchSpace::new(&recording.space()))).collect();
        let seeds = (self.seeds.end - self.seeds.start) as usize;
        let cells = self.recordings.len() * self.strategies.len();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let threads = threads.map_or(cores, |threads| threads as usize).clamp(1, (cells * seeds).max(1));
        let mut first: Vec<Option<Searched>> = vec![None; cells * seeds];
        let about = self.first(&spaces, seeds, &mut first) / threads as u64;
        let what = format!("replaying {}", counted(cells * seeds, "search").replace("searchs", "searches"));
        let bar = Bar::announced(cells * seeds, &what, HowLong::About(Nanos(about)), "nothing is remembered");
        let next = AtomicUsize::new(0);
        let found: Mutex<Vec<Option<Searched>>> = Mutex::new(first);
        let worker = || loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= cells * seeds {
                return;
            }
            let (cell, seed) = (at / seeds, self.seeds.start + (at % seeds) as u64);
            let (space, name) =
                (cell / self.strategies.len(), &self.strategies[cell % self.strategies.len()]);
            bar.say(|| format!("{name} on {}", self.recordings[space].name));
            if found.lock().unwrap_or_else(PoisonError::into_inner)[at].is_some() {
                bar.next();
                continue;
            }
            let run = self.search(space, &spaces[space], name, seed);
            found.lock().unwrap_or_else(PoisonError::into_inner)[at] = run;
            bar.next();
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(worker);
            }
            worker();
        });
        drop(bar);
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut found = found.into_iter();
        let replayed = (0..cells).map(|cell| {
            let (runs, asked): (Vec<Run>, Vec<Vec<u32>>) = found.by_ref().take(seeds).flatten().unzip();
            let (space, strategy) = (cell / self.strategies.len(), cell % self.strategies.len());
            Replayed { space, strategy, runs, ask_ns: asked.concat() }
        });
        replayed.collect()
    }

    /// The first search of each strategy, and what all of them would take at that speed, one after the other.
    fn first(&self, spaces: &[Arc<SearchSpace>], seeds: usize, found: &mut [Option<Searched>]) -> u64 {
        let Some(indexed) = spaces.first() else { return 0 };
        let mut all = 0;
        for (nth, name) in self.strategies.iter().enumerate() {
            let watch = Stopwatch::start();
            if let Some(first) = found.get_mut(nth * seeds) {
                *first = self.search(0, indexed, name, self.seeds.start);
            }
            all += watch.elapsed().0.saturating_mul((spaces.len() * seeds) as u64);
        }
        all
    }

    /// One search; nothing if there is no strategy of that name.
    fn search(&self, space: usize, indexed: &Arc<SearchSpace>, name: &str, seed: u64) -> Option<Searched> {
        let inside = strategy(name, indexed, seed, &self.donors[space])?;
        let mut timed = Timed { inside, ask_ns: Vec::with_capacity(self.evals.min(indexed.len())) };
        let run = simulate(self.recordings[space], &mut timed, self.evals, self.noise.then_some(seed));
        Some((run, timed.ask_ns))
    }
}
