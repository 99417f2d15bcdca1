//! NVRTC, ptxas and nvdisasm.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_cuda::{LaunchStep, Listing, Nvrtc};

pub struct Toolchain {
    nvrtc: Nvrtc,
    ptxas: PathBuf,
    /// Shows machine code, of older releases too.
    pub nvdisasm: Option<PathBuf>,
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.nvrtc.version();
        write!(f, "NVRTC {major}.{minor}")
    }
}

/// What the assembler says of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assembled {
    pub registers: u32,
    pub shared_bytes: u32,
    pub barriers: u32,
    /// Bytes stored because registers ran out.
    pub spilled: u32,
}

impl Assembled {
    fn read(told: &str) -> Result<Assembled> {
        let before = |word: &str| {
            let number = told.split(word).next().filter(|rest| rest.len() < told.len())?;
            number.trim_end().rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        Ok(Assembled {
            registers: before("registers").with_context(|| format!("no registers are named: {told}"))?,
            shared_bytes: before("bytes smem").unwrap_or(0),
            barriers: before("barriers").unwrap_or(0),
            spilled: before("bytes spill stores").unwrap_or(0),
        })
    }
}

impl Toolchain {
    pub fn new(nvrtc: PathBuf, ptxas: PathBuf) -> Result<Toolchain> {
        let nvrtc = Nvrtc::load(&nvrtc).with_context(|| format!("{}", nvrtc.display()))?;
        Ok(Toolchain { nvrtc, ptxas, nvdisasm: None })
    }

    /// Compiles and assembles as the device does.
    pub fn compile(&self, architecture: u32, step: &LaunchStep) -> Result<(Listing, Assembled)> {
        let mut options = self.nvrtc.options_of(step);
        // So that a fault names the line of our source.
        options.push("-lineinfo".to_string());
        let listing = self.nvrtc.listing(architecture, &step.source, &options)?;
        let assembled = Assembled::read(&listing.told)?;
        Ok((listing, assembled))
    }

    /// Several at once, which saves most of the compiler's start: each is in a namespace of its own behind its macros. The PTX has them all; beside each, its name there.
    pub fn compile_all(
        &self,
        architecture: u32,
        steps: &[&LaunchStep],
    ) -> Result<(String, Vec<(String, Assembled)>)> {
        let first = steps.first().context("there is nothing to compile")?;
        let is_shared = |option: &String| !option.starts_with("-D");
        let mut options: Vec<String> = self.nvrtc.options_of(first).into_iter().filter(is_shared).collect();
        options.push("-lineinfo".to_string());
        let name = |number: usize, step: &LaunchStep| format!("{}_{number}", step.entry);
        let mut text = String::new();
        for (number, step) in steps.iter().enumerate() {
            let mut macros: Vec<(&str, String)> =
                step.macros.iter().map(|(name, value)| (*name, value.clone())).collect();
            macros.push((step.entry, name(number, step)));
            for (name, value) in &macros {
                text.push_str(&format!("#define {name} {value}\n"));
            }
            text.push_str(&format!(
                "namespace step_{number} {{\n#line 1 \"kernel.cu\"\n{}\n}}\n",
                step.source
            ));
            // Those the source defines itself, too.
            let own = step.source.lines().filter_map(|line| line.trim_start().strip_prefix("#define "));
            let word =
                |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(String::from);
            let names = own.filter_map(word).chain(macros.iter().map(|(name, _)| name.to_string()));
            names.for_each(|name| text.push_str(&format!("#undef {name}\n")));
        }
        let listing = self.nvrtc.listing(architecture, &text, &options)?;
        let told = |entry: &str| {
            let begin = listing.told.find(&format!("Compiling entry function '{entry}'"))?;
            let rest = &listing.told[begin + 8..];
            Some(&rest[..rest.find("Compiling entry").unwrap_or(rest.len())])
        };
        let each = |(number, step): (usize, &&LaunchStep)| {
            let entry = name(number, step);
            let told =
                told(&entry).with_context(|| format!("nothing is said of {entry}: {}", listing.told))?;
            let assembled = Assembled::read(told)?;
            Ok((entry, assembled))
        };
        let assembled = steps.iter().enumerate().map(each).collect::<Result<Vec<_>>>()?;
        Ok((listing.ptx, assembled))
    }

    /// The same by the assembler of its own, which knows nothing of NVRTC.
    pub fn assemble(&self, architecture: u32, ptx: &str, file: &Path) -> Result<Assembled> {
        std::fs::write(file, ptx)?;
        let mut command = Command::new(&self.ptxas);
        command
            .arg("-v")
            .arg(format!("-arch=sm_{architecture}"))
            .arg(file)
            .arg("-o")
            .arg(file.with_extension("cubin"));
        let output = command.output().with_context(|| format!("{}", self.ptxas.display()))?;
        let told =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("ptxas: {told}");
        }
        Assembled::read(&told)
    }

    /// Machine code in a file, where there is something to read it with.
    pub fn disassembled(&self, file: &Path) -> Result<Option<String>> {
        let Some(nvdisasm) = &self.nvdisasm else { return Ok(None) };
        let output = Command::new(nvdisasm).arg("-c").arg(file.with_extension("cubin")).output();
        let output = output.with_context(|| format!("{}", nvdisasm.display()))?;
        if !output.status.success() {
            bail!("nvdisasm: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}
