//! Verifies the kernels without a GPU, with NVIDIA's own compilers: `cargo xtask cuda` installs them and runs this.
//!
//! Every kernel × point is compiled and assembled by NVRTC for seven architectures, one of each kernel and type by ptxas, too, and what
//! NVRTC emitted is run by trimtab-ptx on ragged shapes against a reference, every case once for each compiler. Our occupancy is compared with
//! NVIDIA's calculator.

mod cases;
mod compilers;
mod device;
mod interpret;
mod occupancy;
mod reference;
mod spilling;
mod verify;

use anyhow::{Context, Result, bail};
use cases::cases;
use compilers::Toolchain;
use interpret::Answers;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trimtab_cuda::{BUNDLED_FOR, Nvrtc, bundle_entry, bundle_steps};
use trimtab_ptx::Counters;
use trimtab_tune::Stopwatch;
use verify::Run;

/// Architectures from Turing to Blackwell.
const ARCHITECTURES: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];
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
    let (mut words, mut architectures) = (words.iter(), ARCHITECTURES.to_vec());
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
            // Fewer, for who works on a kernel.
            "--architectures" => {
                let wanted = next()?;
                architectures.retain(|known| wanted.split(',').any(|one| one == known.to_string()));
            }
            "--work" => work = PathBuf::from(next()?),
            other => bail!("there is no option `{other}`"),
        }
    }
    for toolchain in &mut toolchains {
        toolchain.nvdisasm = nvdisasm.clone();
    }
    std::fs::create_dir_all(&work)?;
    let started = Stopwatch::start();
    if let Some(header) = header {
        occupancy::compare(&header, &work)?;
    }
    if let Some(driver) = driver {
        device::verify_with_each(&driver, &files, &work)?;
        println!("the device was verified after {}", started.elapsed());
    }
    let (mut lines, answers): (BTreeMap<String, Line>, Answers) = Default::default();
    for toolchain in &toolchains {
        for (number, architecture) in architectures.iter().copied().enumerate() {
            let all = cases(architecture)?;
            let found = Run::new(toolchain, architecture, [number, architectures.len()], &answers)
                .verify(&all, &work)?;
            let launches: u32 = found.iter().map(|(_, line)| line.launches).sum();
            let compiled: u32 = found.iter().map(|(_, line)| line.compiled).sum();
            println!(
                "{toolchain}, sm_{architecture}: {compiled} compiled and assembled, {launches} launches right, after {}",
                started.elapsed()
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
        // What only ran has none.
        let least =
            [self.registers.0, other.registers.0].into_iter().filter(|least| *least > 0).min().unwrap_or(0);
        self.registers = (least, self.registers.1.max(other.registers.1));
        self.compiled += other.compiled;
        self.spills += other.spills;
        self.by_ptxas += other.by_ptxas;
        self.disassembled += other.disassembled;
        self.launches += other.launches;
        self.counters += other.counters;
    }
}
