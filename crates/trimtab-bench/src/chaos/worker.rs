//! A process of the run: a runtime at default settings with bad kernels, a bad device and bad closures, many calls, and one line of
//! JSON a call: whether the answer was right, which faults struck, and whether somebody can say so afterwards.

use super::device::{Faulty, Spell};
use super::faults::{Fault, FaultLog, Injected, hash_of, in_call};
use super::kernels::{Shop, When};
use super::load::{Ask, Closures};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab::advanced::core::{Custom, Problem, RandomNumbers, panic_message};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::plan::{Decision, Rival};
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::wisdom::{Outcome, Wisdom};
use trimtab::{Builder, Runtime};

/// Calls of a process, and different problems among them.
const CALLS: u64 = 90;
const PROBLEMS: usize = 40;
/// The same where every fault ends the process.
const CALLS_TO_DEATH: u64 = 24;
/// After so many calls what was learned is written, and the parent is told what that is.
const KEEP_EVERY: u64 = 15;
/// The share of its time that the added device tells.
const TOLD: f64 = 0.3;

trimtab::advanced::core::named! {
    /// What a process is there for.
    pub(crate) enum Role {
        /// Faults that a process survives.
        Mixed = "mixed",
        /// Kernels that end the process.
        Deadly = "deadly",
        /// A real GPU with faults beside the processor.
        Gpu = "gpu",
    }
}

/// Panics of this process that are not faults of ours.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Plays a role: `DIRECTORY LOG SEED ROLE`.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let [dir, log, seed, role] = words else { bail!("a worker is started by its parent") };
    let role = Role::parse(role).context("no such role")?;
    let seed: u64 = seed.parse()?;
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !panic_message(info.payload()).starts_with("chaos:") {
            PANICS.fetch_add(1, Ordering::Relaxed);
            former(info);
        }
    }));
    let mut worker = Worker::new(Path::new(dir), Path::new(log), seed, role)?;
    let calls = if role == Role::Deadly { CALLS_TO_DEATH } else { CALLS };
    for call in 0..calls {
        worker.call(call)?;
        if call % KEEP_EVERY == KEEP_EVERY - 1 {
            worker.keep()?;
        }
    }
    worker.keep()?;
    say(&json!({ "end": true }))
}

/// One line, at once: what was said is known to the parent however this process ends.
fn say(value: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{value}\n").as_bytes())?;
    Ok(out.flush()?)
}

struct Worker {
    rt: Runtime,
    choices: Vec<Closures>,
    asks: Vec<Ask>,
    log: Arc<FaultLog>,
    read: std::fs::File,
    seed: u64,
    /// Who gave a wrong result to a caller, at which problem.
    delivered: HashSet<(String, String)>,
}

impl Worker {
    fn new(dir: &Path, log: &Path, seed: u64, role: Role) -> Result<Worker> {
        let draws = &mut RandomNumbers::new(seed);
        let path = log;
        let log = Arc::new(FaultLog::open(path)?);
        let mut read = std::fs::File::open(path)?;
        read.seek(SeekFrom::End(0))?;
        let shop = Shop::new(&log);
        let mut builder = Runtime::builder().ignore_environment().wisdom_dir(dir);
        for (fault, when) in faults_of(role, draws) {
            builder = shop.add(builder, fault, when, draws);
        }
        let rt = with_device(builder, role, draws, &log)?.build()?;
        let choices = if role == Role::Mixed { closures(&rt, seed, &log)? } else { Vec::new() };
        let asks = (0..PROBLEMS).map(|_| Ask::draw(draws, choices.len())).collect();
        Ok(Worker { rt, choices, asks, log, read, seed, delivered: HashSet::new() })
    }

    fn call(&mut self, call: u64) -> Result<()> {
        // New problems come one after the other, those that are known in between.
        let draws = &mut RandomNumbers::new(self.seed ^ (call + 1));
        let newest = (call as usize * self.asks.len()).div_ceil(CALLS as usize).min(self.asks.len() - 1);
        let ask = self.asks[if draws.below(3) == 0 { newest } else { draws.below(newest + 1) }];
        self.log.begin(call);
        let before = PANICS.load(Ordering::Relaxed);
        let watch = Stopwatch::start();
        let answer = catch_unwind(AssertUnwindSafe(|| {
            in_call(|| ask.make(&self.rt, &self.choices, draws)).map_err(|error| error.to_string())
        }));
        let ms = watch.elapsed().0 / 1_000_000;
        let panics = PANICS.load(Ordering::Relaxed) - before + u64::from(answer.is_err());
        let faults = self.news()?;
        let (mut wrong, mut before_audit) = (Vec::new(), Vec::new());
        if matches!(answer, Ok(Ok(false))) {
            let liar = faults.iter().find(|injected| injected.fault.is_wrong() && injected.is_live);
            let (who, what) = liar.map_or_else(
                || ("nobody knows".to_string(), format!("{ask:?}")),
                |liar| (liar.culprit.clone(), liar.problem.clone()),
            );
            let first = liar.is_some() && self.delivered.insert((who.clone(), what.clone()));
            let list = if first { &mut before_audit } else { &mut wrong };
            let decision = what.parse::<Problem>().ok().and_then(|problem| self.rt.explain(&problem).ok());
            let reason = decision.map_or_else(String::new, |decision| {
                format!("{}; {}", decision.reason, decision.notes().join("; "))
            });
            list.push(format!("{who}\t{what}\t{reason}"));
        }
        let silent = faults.iter().filter(|injected| !self.is_explained(ask, injected));
        let unexplained: Vec<String> = silent.map(Injected::line).collect();
        say(&json!({
            "call": call, "ask": format!("{ask:?}"), "right": matches!(answer, Ok(Ok(true))), "panics": panics, "ms": ms,
            "error": match answer { Ok(Err(error)) => Some(error), _ => None },
            "faults": faults.iter().map(Injected::line).collect::<Vec<_>>(),
            "wrong": wrong, "before_audit": before_audit, "unexplained": unexplained,
        }))
    }

    /// Faults since the last look.
    fn news(&mut self) -> Result<Vec<Injected>> {
        let mut text = String::new();
        self.read.read_to_string(&mut text)?;
        Ok(text.lines().filter_map(Injected::parse).collect())
    }

    /// Whether somebody names the culprit and says what it did: the record of the decision, what is remembered, or the journal.
    fn is_explained(&self, ask: Ask, injected: &Injected) -> bool {
        let named = |decision: &Decision| {
            let its =
                |rival: &&Rival| *rival.name == injected.culprit || *rival.device_id == injected.culprit;
            let says = |rival: &Rival| {
                rival.out_because().is_some() || takes_long(injected.fault) && rival.estimate().is_some()
            };
            let note = |note: &String| note.contains(&injected.culprit);
            decision.rivals.iter().filter(its).any(says) || decision.notes().iter().any(note)
        };
        let problems = [ask.problem(), Some(injected.problem.clone())].into_iter().flatten();
        let decided = problems.filter_map(|text| self.rt.explain(&text.parse::<Problem>().ok()?).ok());
        if decided.into_iter().any(|decision| named(&decision) || named(&self.rt.planner().survey(&decision)))
        {
            return true;
        }
        if let Ask::Choice { which, len } = ask
            && self.choices[which].explain(&[len as u64]).is_ok_and(|decision| named(&decision))
        {
            return true;
        }
        let failed = |fact: &trimtab::advanced::wisdom::Fact| {
            let its = fact.key.kernel == injected.culprit || fact.key.device.starts_with(&injected.culprit);
            its && (matches!(fact.outcome, Outcome::Failed { .. }) || takes_long(injected.fault))
        };
        // What the background met with is in the record of whichever problem it was at.
        let others = || self.asks.iter().filter_map(|ask| ask.problem()?.parse::<Problem>().ok());
        self.rt.wisdom().all_facts().iter().any(failed)
            || others().filter_map(|problem| self.rt.explain(&problem).ok()).any(|decision| named(&decision))
            || self.rt.journal().entries().iter().any(|entry| entry.to_string().contains(&injected.culprit))
    }

    /// Writes what was learned, and tells which facts that are.
    fn keep(&self) -> Result<()> {
        self.rt.planner().drain();
        self.rt.wisdom().flush();
        say(&json!({ "kept": kept(self.rt.wisdom()) }))
    }
}

/// The keys of all that is remembered, as hashes.
pub(crate) fn kept(wisdom: &Wisdom) -> Vec<u64> {
    let facts = wisdom.all_facts().into_iter().map(|fact| hash_of(&format!("{:?}", fact.key), 1));
    let verdicts = wisdom.verdicts().into_iter();
    let verdicts = verdicts.map(|old| hash_of(&format!("{} {} {}", old.device, old.problem, old.terms), 2));
    facts.chain(verdicts).collect()
}

/// Faults that are no failure: whoever is slow is known by its time.
fn takes_long(fault: Fault) -> bool {
    matches!(fault, Fault::Slow | Fault::Stall)
}

fn faults_of(role: Role, draws: &mut RandomNumbers) -> Vec<(Fault, When)> {
    let from = 20 + draws.below(50) as u64;
    match role {
        Role::Gpu => Vec::new(),
        Role::Deadly => {
            let kinds = [When::Sizes, When::Sizes, When::Live, When::Live, When::Live, When::Live];
            kinds.map(|when| (Fault::Abort, when)).to_vec()
        }
        // Few, which no check finds out, so that they win races and calls reach them.
        Role::Mixed if draws.below(2) == 0 => (0..2)
            .flat_map(|_| {
                let values = if draws.below(2) == 0 { When::Large } else { When::Bits };
                [
                    (Fault::WrongValue, values),
                    (Fault::WrongValue, When::Bits),
                    (Fault::Error, When::Live),
                    (Fault::Memory, When::Live),
                    (Fault::Panic, When::Live),
                    (Fault::Hang, When::Live),
                    (Fault::Slow, When::Calls(from, from + 20)),
                ]
            })
            .collect(),
        Role::Mixed => {
            let mut faults = vec![(Fault::Hang, When::Sizes), (Fault::Hang, When::Live)];
            for _ in 0..3 {
                let values = [When::Large, When::NotANumber, When::Bits][draws.below(3)];
                faults.extend([
                    (Fault::WrongSize, When::Sizes),
                    (Fault::WrongValue, values),
                    (Fault::Error, When::Sizes),
                    (Fault::Error, When::Live),
                    (Fault::Memory, When::Live),
                    (Fault::Panic, if draws.below(2) == 0 { When::Sizes } else { When::Live }),
                    (Fault::Slow, When::Calls(from, from + 20)),
                ]);
            }
            faults
        }
    }
}

/// A device beside the processor that fails in one way after the other.
fn with_device(
    builder: Builder,
    role: Role,
    draws: &mut RandomNumbers,
    log: &Arc<FaultLog>,
) -> Result<Builder> {
    let mut kinds = [Fault::Memory, Fault::Loss, Fault::Error, Fault::Slow, Fault::Hang, Fault::WrongSize];
    draws.shuffle(&mut kinds);
    let spells = kinds.iter().zip(0..).flat_map(|(&fault, nth)| {
        let last = if fault == Fault::Hang { 1 } else { 4 };
        let from = 3 + 14 * nth;
        [Spell { fault, from, until: from + last }]
    });
    let spells: Vec<Spell> = spells.collect();
    let salt = draws.bits();
    Ok(match role {
        Role::Deadly => builder,
        Role::Mixed => {
            let device = CpuDevice::new(CpuOptions { threads: Some(1), ..CpuOptions::default() });
            builder.add_device(Faulty::new(device, "faulty", spells, TOLD, salt, log))
        }
        Role::Gpu => {
            let options = trimtab::advanced::wgpu::GpuOptions {
                reference: trimtab::device::reference(),
                kernels: Vec::new(),
            };
            let (gpus, problems) = trimtab::advanced::wgpu::GpuDevice::all(options);
            let gpu = gpus.into_iter().next().with_context(|| problems.join("; "))?;
            builder.add_device(Faulty::new(gpu, "faulty-gpu", spells, TOLD / 100.0, salt, log))
        }
    })
}

/// Choices of which one option is wrong, panics, or does not come back.
fn closures(rt: &Runtime, seed: u64, log: &Arc<FaultLog>) -> Result<Vec<Closures>> {
    let double = |numbers: Vec<f32>| numbers.iter().map(|x| 2.0 * x).collect::<Vec<f32>>();
    let kinds = [Fault::WrongSize, Fault::Panic, Fault::Slow, Fault::Hang];
    // One that hangs may cost a call half a minute: one process in eight has it.
    let kinds = &kinds[..if seed.is_multiple_of(8) { 4 } else { 3 }];
    let choice = |&fault: &Fault| {
        let (name, log) = (format!("{fault}{:x}", seed & 0xffff), Arc::clone(log));
        let own = format!("choose.{name}.bad");
        let of = name.clone();
        #[expect(clippy::panic, reason = "a panic is one of the faults")]
        let bad = move |mut numbers: Vec<f32>| {
            let problem =
                Custom::new(&of, &[numbers.len() as u64]).map(|custom| Problem::from(custom).to_string());
            let problem = problem.unwrap_or_default();
            if hash_of(&problem, seed).is_multiple_of(2) {
                log.note(fault, &own, &problem);
                match fault {
                    Fault::Panic => panic!("chaos: no such numbers"),
                    Fault::Hang => loop {
                        std::thread::park();
                    },
                    Fault::Slow => std::thread::sleep(std::time::Duration::from_millis(2)),
                    _ => numbers.iter_mut().for_each(|x| *x += 1.0),
                }
            }
            numbers.iter_mut().for_each(|x| *x *= 2.0);
            numbers
        };
        rt.choose(&name).option("plain", double).option("bad", bad).agree(|a, b| a == b).build()
    };
    Ok(kinds.iter().map(choice).collect::<Result<_, _>>()?)
}
