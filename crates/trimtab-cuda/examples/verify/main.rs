//! Verifies the kernels without a GPU, with NVIDIA's own compilers: `cargo xtask cuda` installs them and runs this.
//!
//! Every kernel × point is compiled and assembled by NVRTC for seven architectures, one of each kernel and type by ptxas, too, and what
//! NVRTC emitted is run by trimtab-ptx on ragged shapes against a reference. Our occupancy is compared with NVIDIA's calculator.

mod cases;
mod compilers;
mod device;
mod interpret;
mod occupancy;
mod reference;
mod spilling;

use anyhow::{Context, Result, bail};
use cases::{Case, cases};
use compilers::{Assembled, Toolchain};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trimtab_cuda::occupancy::{Multiprocessor, Usage};
use trimtab_cuda::{BUNDLED_FOR, LaunchStep, Nvrtc, bundle_entry, bundle_steps};
use trimtab_ptx::Counters;

/// Architectures from Turing to Blackwell.
const ARCHITECTURES: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];
/// Threads that compile.
const WORKERS: usize = 2;
/// Of the cases one in this many is interpreted on an architecture, another part on each.
const SHARE: usize = 3;

/// Cases that are compiled alike, by number.
type Group<'a> = Vec<(usize, &'a Case)>;

/// What one kernel came to over all its points.
#[derive(Clone, Copy, Default)]
struct Line {
    compiled: u32,
    spills: u32,
    /// Kernels that ptxas assembled, too.
    by_ptxas: u32,
    /// Kernels whose machine code was looked into.
    disassembled: u32,
    registers: (u32, u32),
    launches: u32,
    counters: Counters,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (mut toolchains, mut files, mut header, mut driver) = (Vec::new(), Vec::new(), None, None);
    let (mut work, mut nvdisasm) = (PathBuf::from("target/cuda"), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--toolchain" => {
                let (nvrtc, ptxas) = (PathBuf::from(next()?), PathBuf::from(next()?));
                files.push(nvrtc.clone());
                toolchains.push(Toolchain::new(nvrtc, ptxas)?);
            }
            "--nvdisasm" => nvdisasm = Some(PathBuf::from(next()?)),
            "--bundle" => {
                let (nvrtc, file) = (PathBuf::from(next()?), PathBuf::from(next()?));
                return bundle(&nvrtc, &file);
            }
            "--driver" => driver = Some(PathBuf::from(next()?)),
            "--header" => header = Some(PathBuf::from(next()?)),
            "--work" => work = PathBuf::from(next()?),
            other => bail!("there is no option `{other}`"),
        }
    }
    for toolchain in &mut toolchains {
        toolchain.nvdisasm = nvdisasm.clone();
    }
    std::fs::create_dir_all(&work)?;
    if let Some(header) = header {
        occupancy::compare(&header, &work)?;
    }
    if let Some(driver) = driver {
        device::verify_with_each(&driver, &files, &work)?;
    }
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for toolchain in &toolchains {
        for (number, architecture) in ARCHITECTURES.into_iter().enumerate() {
            let all = cases(architecture)?;
            let found = verify(toolchain, architecture, number, &all, &work)?;
            let launches: u32 = found.iter().map(|(_, line)| line.launches).sum();
            let compiled: u32 = found.iter().map(|(_, line)| line.compiled).sum();
            println!(
                "{toolchain}, sm_{architecture}: {compiled} compiled and assembled, {launches} launches right"
            );
            for (name, line) in found {
                lines.entry(name).or_default().add(&line);
            }
        }
    }
    let mut total = Line::default();
    for (name, line) in &lines {
        let (least, most) = line.registers;
        println!(
            "{name}: {} compiled, {least} to {most} registers, {} spill, {} launches",
            line.compiled, line.spills, line.launches
        );
        println!("    {}", line.counters);
        total.add(line);
    }
    println!(
        "{} compiled and assembled, {} of them by ptxas with the same outcome, of {} the machine code has the instructions it should, {} launches interpreted, all right",
        total.compiled, total.by_ptxas, total.disassembled, total.launches
    );
    Ok(())
}

/// Compiles what is shipped for machines without a compiler.
fn bundle(nvrtc: &Path, file: &Path) -> Result<()> {
    let nvrtc = Nvrtc::load(nvrtc).with_context(|| format!("{}", nvrtc.display()))?;
    let mut text = String::new();
    for step in bundle_steps() {
        let ptx =
            nvrtc.ptx(BUNDLED_FOR, &step.source, &step.options()).with_context(|| step.entry.to_string())?;
        text.push_str(&bundle_entry(&step, &ptx));
    }
    std::fs::write(file, &text)?;
    println!("{} kernels, {} bytes in {}", bundle_steps().len(), text.len(), file.display());
    Ok(())
}

impl Line {
    fn add(&mut self, other: &Line) {
        let least =
            if self.registers.0 == 0 { other.registers.0 } else { self.registers.0.min(other.registers.0) };
        self.registers = (least, self.registers.1.max(other.registers.1));
        self.compiled += other.compiled;
        self.spills += other.spills;
        self.by_ptxas += other.by_ptxas;
        self.disassembled += other.disassembled;
        self.launches += other.launches;
        self.counters += other.counters;
    }
}

/// One compiler for one architecture.
struct Run<'a> {
    toolchain: &'a Toolchain,
    architecture: u32,
    /// Which of the architectures it is.
    number: usize,
    /// Kernels that ptxas assembled and nvdisasm looked into: entry point and type.
    seen: Mutex<BTreeSet<(&'static str, Option<String>)>>,
}

impl Run<'_> {
    /// Whether nobody has looked into a kernel for this type: NVRTC assembles like ptxas and saves its start, and reading machine code takes four
    /// times as long as making it.
    fn is_first(&self, step: &LaunchStep) -> bool {
        let of = step.macros.iter().find(|(name, _)| *name == "NUMBER").map(|(_, value)| value.clone());
        self.seen.lock().is_ok_and(|mut seen| seen.insert((step.entry, of)))
    }
}

/// All cases with one compiler for one architecture, by kernel.
fn verify(
    toolchain: &Toolchain,
    architecture: u32,
    number: usize,
    all: &[Case],
    work: &Path,
) -> Result<Vec<(String, Line)>> {
    // Cases that differ in sizes only share what is compiled.
    let mut groups: BTreeMap<Vec<(&str, Vec<String>)>, Group<'_>> = BTreeMap::new();
    for (at, case) in all.iter().enumerate() {
        let key = case.program.steps.iter().map(|step| (step.source.as_ref(), step.options())).collect();
        groups.entry(key).or_default().push((at, case));
    }
    let groups: Vec<Group<'_>> = groups.into_values().collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = Run { toolchain, architecture, number, seen: Mutex::default() };
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (next, results, groups, run) = (&next, &results, &groups, &run);
            scope.spawn(move || {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let file = work.join(format!("kernel-{worker}.ptx"));
                    let result = one(run, group, &file);
                    let failed = result.is_err();
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                    if failed {
                        next.store(groups.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    results.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?.into_iter().collect()
}

/// Cases that are compiled alike: compiled and assembled once, run as often as it is their turn.
fn one(run: &Run<'_>, group: &[(usize, &Case)], file: &Path) -> Result<(String, Line)> {
    let Run { toolchain, architecture, number, .. } = *run;
    let case = group.first().context("a group has a case")?.1;
    let mut line = Line::default();
    let mut texts = Vec::new();
    for step in &case.program.steps {
        let at =
            || format!("{toolchain}, sm_{architecture}, {}, {}, {:?}", case.kernel, step.entry, step.macros);
        let (listing, assembled) = toolchain.compile(architecture, step).with_context(at)?;
        let is_first = run.is_first(step);
        if is_first {
            let alone = toolchain.assemble(architecture, &listing.ptx, file).with_context(at)?;
            if alone != assembled {
                bail!("{}: NVRTC says {assembled:?}, ptxas {alone:?}", at());
            }
            line.by_ptxas += 1;
        }
        let ptx = listing.ptx;
        check(architecture, step, &assembled).with_context(at)?;
        let registers = (assembled.registers, assembled.registers);
        let spills = u32::from(assembled.spilled > 0);
        line.add(&Line { compiled: 1, spills, registers, ..Line::default() });
        // Which instructions a kernel is named for, and that the machine code has them.
        if let Some((inner, machine)) = expected(step.entry) {
            if !ptx.contains(inner) {
                bail!("{}: no {inner} in the PTX", at());
            }
            if is_first {
                match toolchain.disassembled(file).with_context(at)? {
                    Some(text) if !text.contains(machine) => {
                        bail!("{}: no {machine} in the machine code", at())
                    }
                    Some(_) => line.disassembled += 1,
                    None => {}
                }
            }
        }
        texts.push(ptx);
    }
    let at = || format!("{toolchain}, sm_{architecture}, {}", case.kernel);
    for (index, case) in group {
        if index % SHARE == number % SHARE {
            let counters = interpret::run(&texts, case)
                .with_context(|| format!("{}, {}, {}", at(), case.problem, case.setting))?;
            line.launches += 1;
            line.counters += counters;
        }
    }
    Ok((case.kernel.clone(), line))
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
