//! `kill -9` and Ctrl-C at random moments of tuning and writing: wisdom loads afterwards, has what was written, and bars nobody.
//!
//! All interrupted processes share a directory: Ctrl-C is no kernel's fault, however often. `kill -9` cannot be told from a crash, so
//! half of the kills have a directory of their own, and the other half share one, as nobody's machine would: `barred_same_directory`
//! says how many healthy points two kills met by chance.

use super::faults::FaultLog;
use super::kernels::{Shop, When};
use super::processes::Process;
use super::worker::kept;
use super::{Fault, VICTIM};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::core::{Condition, Nanos, Patience, RandomNumbers};
use trimtab::advanced::wisdom::{CRASHES, FactKey, Outcome, Stats, WarningKind, Wisdom};

/// The latest moment after a process began to work, in microseconds.
const LATEST_US: usize = 150_000;
/// Time to tune a problem.
const TUNE: Nanos = Nanos::from_millis(60);
/// The largest size along an axis: first runs take some hundred microseconds, long enough to be hit.
const LARGEST: usize = 240;
/// Healthy kernels of a user's.
const HEALTHY: usize = 12;
/// Facts between two flushes of a writer.
const FACTS: u64 = 50;
/// What a shell reports of a command that was interrupted.
const INTERRUPTED: i32 = 130;

#[derive(Default)]
struct Counts {
    kills: u64,
    loads: u64,
    lost: u64,
    barred: BTreeSet<String>,
    /// Notes that Ctrl-C left open, and directories where `kill -9` left some: kernels were hit while they ran.
    suspects: u64,
    hit: u64,
    barred_same_directory: usize,
    troubles: BTreeSet<String>,
}

/// Kills so many processes each way, and says what was left of their wisdom.
pub(super) fn run(place: &Path, kills: u64, seed: u64) -> Result<Value> {
    let (next, counts) = (AtomicU64::new(0), Mutex::new(Counts::default()));
    let lane = || -> Result<()> {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= 2 * kills {
                return Ok(());
            }
            one(place, nth, seed, &counts).with_context(|| format!("kill {nth}"))?;
        }
    };
    // In lanes, so that processes share a directory while one of them dies.
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..super::LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked")))
    })?;
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(json!({
        "kills": counts.kills, "loads": counts.loads, "barred": counts.barred.len(), "lost_by_kills": counts.lost,
        "suspects_by_ctrl_c": counts.suspects, "suspects_by_kill": counts.hit, "barred_same_directory": counts.barred_same_directory,
        "barred_points": counts.barred, "load_troubles": counts.troubles,
    }))
}

/// The directory of a kill: all of Ctrl-C in one, `kill -9` in one of its own or in one for all.
fn directory(place: &Path, nth: u64) -> PathBuf {
    match nth % 4 {
        0 | 2 => place.join("interrupted"),
        1 => place.join(format!("killed-{nth}")),
        _ => place.join("killed"),
    }
}

fn one(place: &Path, nth: u64, seed: u64, counts: &Mutex<Counts>) -> Result<()> {
    let draws = &mut RandomNumbers::new(seed ^ (nth << 20));
    let dir = directory(place, nth);
    std::fs::create_dir_all(&dir)?;
    let what = if nth / 4 % 3 == 2 { "writes" } else { "tunes" };
    let words = [VICTIM, what, &dir.to_string_lossy(), &(draws.bits() >> 1).to_string()];
    let mut process = Process::start(&words, false)?;
    let mut written = BTreeSet::new();
    if process.line().ok().flatten().is_none() {
        bail!("it ended before it began");
    }
    std::thread::sleep(Duration::from_micros(draws.below(LATEST_US) as u64));
    if nth.is_multiple_of(2) {
        Command::new("kill").args(["-INT", &process.child.id().to_string()]).status()?;
    } else {
        process.child.kill()?;
    }
    while let Ok(Some(line)) = process.line() {
        written.extend(line["kept"].as_array().into_iter().flatten().filter_map(Value::as_u64));
    }
    process.child.wait()?;
    let wisdom = Wisdom::open(&dir.join("wisdom"));
    let there: BTreeSet<u64> = kept(&wisdom).into_iter().collect();
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.kills += 1;
    counts.lost += written.difference(&there).count() as u64;
    match trouble(&wisdom) {
        None => counts.loads += 1,
        Some(trouble) => drop(counts.troubles.insert(trouble)),
    }
    let deaths = wisdom.deaths();
    let barred = deaths.iter().filter(|death| death.count >= CRASHES);
    let named = |death: &trimtab::advanced::wisdom::Death| format!("{} at {}", death.kernel, death.point);
    counts.hit += u64::from(nth % 4 == 1 && !deaths.is_empty());
    match nth % 4 {
        3 => counts.barred_same_directory = barred.count().max(counts.barred_same_directory),
        1 => counts.barred.extend(barred.map(named)),
        _ => {
            counts.barred.extend(barred.map(named));
            counts.suspects = counts.suspects.max(deaths.iter().map(|death| death.count as u64).sum());
        }
    }
    Ok(())
}

/// What keeps wisdom from loading whole, beside a last line that was cut off.
pub(super) fn trouble(wisdom: &Wisdom) -> Option<String> {
    let warnings = wisdom.warnings();
    warnings.iter().find(|warning| warning.kind != WarningKind::TornLine).map(|warning| warning.to_string())
}

/// A process that is to be killed: `tunes|writes DIRECTORY SEED`.
pub(super) fn victim(words: &[&str]) -> Result<()> {
    let [what, dir, seed] = words else { bail!("a victim is started by its parent") };
    let (dir, draws) = (Path::new(dir), &mut RandomNumbers::new(seed.parse()?));
    match *what {
        "tunes" => tunes(dir, draws),
        "writes" => writes(dir, draws),
        other => bail!("nobody {other}"),
    }
}

/// As the command does it: Ctrl-C takes the note back that something is running.
fn withdraws(wisdom: &Arc<Wisdom>) -> Result<()> {
    let wisdom = Arc::downgrade(wisdom);
    Ok(ctrlc::set_handler(move || {
        wisdom.upgrade().iter().for_each(|wisdom| wisdom.withdraw());
        std::process::exit(INTERRUPTED);
    })?)
}

fn say(value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{value}\n").as_bytes())?;
    Ok(out.flush()?)
}

fn tunes(dir: &Path, draws: &mut RandomNumbers) -> Result<()> {
    let log = Arc::new(FaultLog::open(&dir.join("no-faults"))?);
    let (shop, names) = (Shop::new(&log), &mut RandomNumbers::new(7));
    let builder = Runtime::builder().ignore_environment().wisdom_dir(dir.join("wisdom"));
    let add = |builder, _| shop.add(builder, Fault::Slow, When::Never, names);
    let rt = (0..HEALTHY).fold(builder, add).build()?;
    withdraws(rt.planner().wisdom())?;
    say(&json!({ "begins": true }))?;
    loop {
        let (m, n) = (1 + draws.below(LARGEST), 1 + draws.below(LARGEST));
        let text = match draws.below(4) {
            0 => format!("matmul:f32:{m}x{n}x{}", 1 + draws.below(LARGEST)),
            1 => format!("elementwise.add:f32:{}", m * n),
            2 => format!("reduce.sum:f32:{m}x{n}:axis1"),
            _ => format!("transpose:f32:{m}x{n}:1.0"),
        };
        rt.tune(&text.parse()?, &TuneRequest::new(Patience::Measure, TUNE), &mut |_| ())?;
        rt.wisdom().flush();
        say(&json!({ "kept": kept(rt.wisdom()) }))?;
    }
}

fn writes(dir: &Path, draws: &mut RandomNumbers) -> Result<()> {
    let wisdom = Arc::new(Wisdom::open(&dir.join("wisdom")));
    withdraws(&wisdom)?;
    say(&json!({ "begins": true }))?;
    loop {
        for _ in 0..FACTS {
            let key = FactKey {
                device: "a device".to_string(),
                kernel: "a kernel".to_string(),
                version: "1".to_string(),
                problem: format!("elementwise.add:f32:{}", draws.below(2000)),
                point: format!("width={}", draws.below(4)),
                condition: Condition::default(),
            };
            wisdom.record(key, Outcome::Timed(Stats::single(1.0 + draws.unit())));
        }
        wisdom.flush();
        say(&json!({ "kept": kept(&wisdom) }))?;
    }
}
