//! Faults on purpose, by the thousand: wrong results, errors, panics, hangs, slow-downs, memory that is not to be had, devices that are
//! lost, processes that end. What a caller gets is compared with plain loops, and what is remembered with what was written.
//!
//! Workers are this program started again, two at a time on one directory of wisdom, at the runtime's default settings. The parent counts;
//! see [`tally`]. Then processes that tune and write are killed at random moments; see [`kills`].
//!
//! - A fault is counted once for each culprit in a call, however often the culprit was launched.
//! - The first wrong result of a kernel at a problem that reaches a caller is `before_audit`, every further one is `wrong`.
//! - A kernel that hangs never comes back, in the caller's own launch too, and a device not before its caller was answered. Only a launch on
//!   the caller's own thread, which no library can leave behind, comes back after 300 ms, and is counted as `stall`.

mod device;
mod faults;
mod kernels;
mod kills;
mod load;
mod processes;
mod tally;
mod worker;

use anyhow::{Context, Result, bail};
use faults::{Fault, Injected};
use processes::{End, Process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tally::Tally;
use trimtab::advanced::core::RandomNumbers;
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::wisdom::{CRASHES, Outcome, Wisdom};
use worker::Role;

/// The word that makes this program a worker, and the one of a process that is to be killed.
pub(crate) const WORKER: &str = "chaos-worker";
pub(crate) const VICTIM: &str = "chaos-victim";
/// Workers at a time.
const LANES: usize = 2;
/// Workers that share a directory.
const WORKERS_A_DIRECTORY: u64 = 12;
/// One worker in so many has kernels that end the process.
const DEADLY_ONE_IN: u64 = 4;
/// A worker that dies is started again so many times: more than kernels of it can end.
const ATTEMPTS: u64 = 12;

/// What was asked for.
struct Options {
    faults: u64,
    kills: u64,
    seed: u64,
}

fn parse(words: &[String]) -> Result<(Options, bool)> {
    let (mut options, mut json) = (Options { faults: 10_000, kills: 500, seed: 1 }, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let value = words.next().with_context(|| format!("what follows `{word}`?"))?;
            value.parse().with_context(|| format!("`{value}` is not a number"))
        };
        match word.as_str() {
            "--faults" => options.faults = number()?,
            "--kills" => options.kills = number()?,
            "--seed" => options.seed = number()?,
            "--json" => json = true,
            other => bail!("there is no option `{other}`; there are --faults N, --kills N, --seed S, --json"),
        }
    }
    Ok((options, json))
}

/// Starts a process of the run.
pub(crate) fn start(words: &[&str]) -> Option<Result<()>> {
    match words {
        [WORKER, rest @ ..] => Some(worker::run(rest)),
        [VICTIM, rest @ ..] => Some(kills::victim(rest)),
        _ => None,
    }
}

/// The whole run.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (options, json) = parse(words)?;
    let watch = Stopwatch::start();
    let place = tempfile::tempdir()?;
    let run =
        Run { place: place.path().to_path_buf(), options, next: AtomicU64::new(0), shared: Mutex::default() };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(|| run.lane())).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked")))
    })?;
    run.look_back();
    let seconds = |watch: &Stopwatch| watch.elapsed().0 as f64 / 1e9;
    let faults_seconds = seconds(&watch);
    let killed = kills::run(&place.path().join("kills"), run.options.kills, run.options.seed)?;
    let mut summary = run.shared().tally.json();
    let all = [("kills", killed), ("seed", json!(run.options.seed)), ("seconds", json!(seconds(&watch)))];
    for (name, value) in all.into_iter().chain([("faults_seconds", json!(faults_seconds)), ("load", load())])
    {
        match (&value, summary.as_object_mut()) {
            // What killing showed stands beside the rest.
            (Value::Object(inner), Some(outer)) => outer.extend(inner.clone()),
            (_, Some(outer)) => drop(outer.insert(name.to_string(), value)),
            _ => (),
        }
    }
    if json {
        println!("{summary}");
    } else {
        println!("{summary:#}");
    }
    Ok(())
}

/// Load of the machine over the last minute, where it can be read.
fn load() -> Value {
    let text = std::fs::read_to_string("/proc/loadavg").ok();
    text.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).map_or(Value::Null, Value::from)
}

/// What lanes share.
#[derive(Default)]
struct Shared {
    tally: Tally,
    /// By directory: what processes said is written.
    kept: BTreeMap<PathBuf, BTreeSet<u64>>,
    /// By directory: who ended processes, with the faults of that.
    killers: BTreeMap<PathBuf, Vec<Injected>>,
}

struct Run {
    place: PathBuf,
    options: Options,
    next: AtomicU64,
    shared: Mutex<Shared>,
}

impl Run {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until there were enough faults.
    fn lane(&self) -> Result<()> {
        while self.shared().tally.injected() < self.options.faults {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let role = match nth {
                0 => Role::Gpu,
                _ if nth % DEADLY_ONE_IN == 2 => Role::Deadly,
                _ => Role::Mixed,
            };
            self.job(nth, role).with_context(|| format!("worker {nth}"))?;
        }
        Ok(())
    }

    /// One worker, started again as often as it dies.
    fn job(&self, nth: u64, role: Role) -> Result<()> {
        let dir = self.place.join(format!("wisdom-{}", nth / WORKERS_A_DIRECTORY));
        let seed = RandomNumbers::new(self.options.seed ^ (nth << 32)).bits() >> 1;
        // Faults of calls that ended a process, by call.
        let mut open: HashMap<u64, Vec<Injected>> = HashMap::new();
        let mut deaths: HashMap<String, usize> = HashMap::new();
        for attempt in 0..ATTEMPTS {
            let log = self.place.join(format!("faults-{nth}-{attempt}"));
            std::fs::write(&log, "")?;
            let words =
                [WORKER, &dir.to_string_lossy(), &log.to_string_lossy(), &seed.to_string(), role.name()];
            let mut answered = None;
            let end = Process::start(&words, role == Role::Gpu)?.follow(|line| {
                let mut shared = self.shared();
                if let Some(kept) = line["kept"].as_array() {
                    let known = shared.kept.entry(dir.clone()).or_default();
                    known.extend(kept.iter().filter_map(Value::as_u64));
                    return;
                }
                let Some(call) = line["call"].as_u64() else { return };
                answered = Some(call);
                let lines = line["faults"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let faults: Vec<Injected> = lines.filter_map(Injected::parse).collect();
                shared.tally.call(&faults, Some(line));
                if line["right"] == true {
                    open.remove(&call).into_iter().for_each(|faults| shared.tally.survived(&faults));
                }
            })?;
            let mut shared = self.shared();
            shared.tally.processes += 1;
            match end {
                End::Done => return Ok(()),
                End::Died if role == Role::Gpu && answered.is_none() => return Ok(()),
                End::Died => shared.tally.deaths += 1,
                End::Stuck => {
                    shared.tally.stuck += 1;
                    shared
                        .tally
                        .example("stuck", format!("worker {nth} seed {seed} after call {answered:?}"));
                }
            }
            let last = last_faults(&log, answered);
            shared.tally.call(&last, None);
            let killer = last.iter().rev().find(|injected| injected.fault == Fault::Abort).cloned();
            match killer {
                Some(killer) => {
                    let count = deaths.entry(killer.culprit.clone()).or_default();
                    if *count >= CRASHES {
                        shared.tally.restarts_into_crash += 1;
                        shared.tally.example("restarts_into_crash", killer.line());
                    }
                    *count += 1;
                    shared.killers.entry(dir.clone()).or_default().push(killer);
                }
                None => {
                    shared.tally.example("died", format!("worker {nth} seed {seed} after call {answered:?}"))
                }
            }
            if let Some(call) = last.first().map(|injected| injected.call) {
                open.entry(call).or_default().extend(last);
            }
        }
        Ok(())
    }

    /// After all processes: whether wisdom loads, has all that was written, and names who ended processes.
    fn look_back(&self) {
        let mut shared = self.shared();
        let Shared { tally, kept, killers } = &mut *shared;
        for (dir, kept) in kept.iter() {
            let wisdom = Wisdom::open(dir);
            if let Some(trouble) = kills::trouble(&wisdom) {
                tally.not_loaded += 1;
                tally.example("not_loaded", trouble);
            }
            let there: BTreeSet<u64> = worker::kept(&wisdom).into_iter().collect();
            tally.lost += kept.difference(&there).count() as u64;
            let deaths = wisdom.deaths();
            let facts = wisdom.all_facts();
            for killer in killers.get(dir).into_iter().flatten() {
                let died = deaths.iter().any(|death| death.kernel == killer.culprit);
                let failed = facts.iter().any(|fact| {
                    fact.key.kernel == killer.culprit && matches!(fact.outcome, Outcome::Failed { .. })
                });
                if !died && !failed {
                    tally.unexplained(killer);
                }
            }
        }
    }
}

/// Faults of the call that was not answered.
fn last_faults(log: &Path, answered: Option<u64>) -> Vec<Injected> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let faults = text.lines().filter_map(Injected::parse);
    faults.filter(|injected| answered.is_none_or(|answered| injected.call > answered)).collect()
}
