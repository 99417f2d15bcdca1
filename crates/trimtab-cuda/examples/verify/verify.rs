//! One compiler for one architecture: everything is compiled and assembled, and a part of it runs.

use crate::Line;
use crate::cases::Case;
use crate::compilers::{Assembled, Toolchain};
use crate::interpret::{self, Answers};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trimtab_cuda::LaunchStep;
use trimtab_cuda::occupancy::{Multiprocessor, Usage};
use trimtab_ptx::Module;

/// Threads that compile and run.
const WORKERS: usize = 2;
/// Steps of one source that are compiled at once.
const AT_ONCE: usize = 8;
/// What is compiled alike: text and macros.
type Key<'a> = (&'a str, &'a [(&'static str, String)]);

/// A step that is compiled: the PTX it is in, with others, and its name there.
struct Compiled {
    module: std::sync::Arc<Module>,
    entry: String,
}

/// A step with the kernel it is of, what came of it, and where it is.
type Done<'s> = ((&'s str, &'s LaunchStep), Line, Compiled);

pub struct Run<'a> {
    toolchain: &'a Toolchain,
    architecture: u32,
    /// Which of so many architectures it is: each case is interpreted for one of them.
    turn: [usize; 2],
    answers: &'a Answers,
    /// Kernels that were compiled alone, too, assembled by ptxas and looked into by nvdisasm: entry point and type.
    seen: Mutex<BTreeSet<(&'static str, Option<String>)>>,
}

fn key(step: &LaunchStep) -> Key<'_> {
    (step.source.as_ref(), &step.macros)
}

/// Does work for each number below a count on all workers. What fails is told together.
fn on_all<T: Send>(count: usize, work: impl Fn(usize, usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (next, results, work) = (&next, &results, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = work(worker, at);
                    if let Ok(mut results) = results.lock() {
                        results.push((at, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    results.sort_by_key(|(at, _)| *at);
    all_or_failures(results.into_iter().map(|(_, result)| result))
}

/// What was done, or in words all that failed.
pub fn all_or_failures<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(result) => done.push(result),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if failed.is_empty() { Ok(done) } else { bail!("{} failed:\n{}", failed.len(), failed.join("\n")) }
}

impl<'a> Run<'a> {
    pub fn new(
        toolchain: &'a Toolchain,
        architecture: u32,
        turn: [usize; 2],
        answers: &'a Answers,
    ) -> Run<'a> {
        Run { toolchain, architecture, turn, answers, seen: Mutex::default() }
    }

    /// Whether nobody has looked into a kernel for this type: ptxas takes its own start, and reading machine code four times as long as making it.
    fn is_first(&self, step: &LaunchStep) -> bool {
        let of = step.macros.iter().find(|(name, _)| *name == "NUMBER").map(|(_, value)| value.clone());
        self.seen.lock().is_ok_and(|mut seen| seen.insert((step.entry, of)))
    }

    fn at(&self, kernel: &str, step: &LaunchStep) -> String {
        let Run { toolchain, architecture, .. } = self;
        format!("{toolchain}, sm_{architecture}, {kernel}, {}, {:?}", step.entry, step.macros)
    }

    /// All cases, by kernel.
    pub fn verify(&self, all: &[Case], work: &Path) -> Result<Vec<(String, Line)>> {
        // What differs in sizes only is compiled once, for whichever kernel it is.
        let mut steps: BTreeMap<Key<'_>, (&str, &LaunchStep)> = BTreeMap::new();
        for case in all {
            for step in &case.program.steps {
                steps.entry(key(step)).or_insert((&case.kernel, step));
            }
        }
        let mut batches: Vec<Vec<(&str, &LaunchStep)>> = Vec::new();
        for (_, found) in steps {
            let fits = |batch: &&mut Vec<(&str, &LaunchStep)>| {
                batch.len() < AT_ONCE && batch.iter().all(|(_, step)| step.source == found.1.source)
            };
            match batches.last_mut().filter(fits) {
                Some(batch) => batch.push(found),
                None => batches.push(vec![found]),
            }
        }
        let compiled = on_all(batches.len(), |worker, at| {
            let file = work.join(format!("kernel-{worker}.ptx"));
            self.batch(&batches[at], &file)
        })?;
        let mut lines = Vec::new();
        let mut modules = BTreeMap::new();
        for (step, line, compiled) in compiled.into_iter().flatten() {
            lines.push((step.0.to_string(), line));
            modules.insert(key(step.1), compiled);
        }
        let [first, each] = self.turn;
        let due: Vec<&Case> = all.iter().skip(first).step_by(each.max(1)).collect();
        lines.extend(on_all(due.len(), |_, at| self.interpret(due[at], &modules))?);
        Ok(lines)
    }

    /// Steps of one source: compiled and assembled together, and one of each kernel and type alone.
    fn batch<'s>(&self, steps: &[(&'s str, &'s LaunchStep)], file: &Path) -> Result<Vec<Done<'s>>> {
        let Run { toolchain, architecture, .. } = *self;
        let all: Vec<&LaunchStep> = steps.iter().map(|(_, step)| *step).collect();
        let at = || steps.first().map_or(String::new(), |(kernel, step)| self.at(kernel, step));
        let (ptx, assembled) = toolchain.compile_all(architecture, &all).with_context(at)?;
        let module = std::sync::Arc::new(Module::parse(&ptx).with_context(at)?);
        let mut done = Vec::new();
        for ((kernel, step), (entry, assembled)) in steps.iter().zip(assembled) {
            let at = || self.at(kernel, step);
            let mut line = Line::default();
            check(architecture, step, &assembled).with_context(at)?;
            let registers = (assembled.registers, assembled.registers);
            let spills = u32::from(assembled.spilled > 0);
            line.add(&Line { compiled: 1, spills, registers, ..Line::default() });
            let named = expected(step.entry);
            if let Some((inner, _)) = named
                && !part(&ptx, &entry).contains(inner)
            {
                bail!("{}: no {inner} in the PTX", at());
            }
            if self.is_first(step) {
                self.alone(step, &assembled, file, &mut line).with_context(at)?;
            }
            let compiled = Compiled { module: std::sync::Arc::clone(&module), entry };
            done.push(((*kernel, *step), line, compiled));
        }
        Ok(done)
    }

    /// As the device compiles it, and by ptxas: with the same outcome. The machine code has the instructions the kernel is named for.
    fn alone(&self, step: &LaunchStep, among: &Assembled, file: &Path, line: &mut Line) -> Result<()> {
        let (listing, alone) = self.toolchain.compile(self.architecture, step)?;
        let by_ptxas = self.toolchain.assemble(self.architecture, &listing.ptx, file)?;
        if alone != *among || by_ptxas != *among {
            bail!("NVRTC says {alone:?}, ptxas {by_ptxas:?}, and NVRTC of several kernels {among:?}");
        }
        line.by_ptxas += 1;
        if let Some((_, machine)) = expected(step.entry) {
            match self.toolchain.disassembled(file)? {
                Some(text) if !text.contains(machine) => bail!("no {machine} in the machine code"),
                Some(_) => line.disassembled += 1,
                None => {}
            }
        }
        Ok(())
    }

    fn interpret(&self, case: &Case, modules: &BTreeMap<Key<'_>, Compiled>) -> Result<(String, Line)> {
        let Run { toolchain, architecture, .. } = self;
        let at =
            || format!("{toolchain}, sm_{architecture}, {}, {}, {}", case.kernel, case.problem, case.setting);
        let mut kernels = Vec::new();
        for step in &case.program.steps {
            let compiled = modules.get(&key(step)).context("it was not compiled")?;
            kernels.push(compiled.module.kernel(&compiled.entry).context("the kernel is not in its module")?);
        }
        let counters = interpret::run(&kernels, case, self.answers).with_context(at)?;
        Ok((case.kernel.clone(), Line { launches: 1, counters, ..Line::default() }))
    }
}

/// The text of one kernel among others.
fn part<'t>(ptx: &'t str, entry: &str) -> &'t str {
    let Some(begin) = ptx.find(&format!(".entry {entry}(")) else { return "" };
    let rest = &ptx[begin + 1..];
    &rest[..rest.find(".entry ").unwrap_or(rest.len())]
}

/// The instructions by which a kernel is faster than others, in PTX and in machine code.
fn expected(entry: &str) -> Option<(&'static str, &'static str)> {
    match entry {
        "matmul_tensor" | "matmul_tf32" => Some(("mma.sync", "HMMA")),
        "matmul_pipelined" => Some(("cp.async", "LDGSTS")),
        _ => None,
    }
}

/// A kernel that assembles must be one a device can hold.
fn check(architecture: u32, step: &LaunchStep, assembled: &Assembled) -> Result<()> {
    let multiprocessor = Multiprocessor::of(architecture).context("an architecture without a table")?;
    let usage = Usage {
        threads: step.block.iter().product(),
        registers: assembled.registers,
        shared_bytes: assembled.shared_bytes,
        barriers: assembled.barriers,
    };
    let occupancy = multiprocessor.occupancy(&usage);
    if occupancy.blocks == 0 {
        bail!("no block fits: {usage:?}, limited by {}", occupancy.limited_by);
    }
    Ok(())
}
