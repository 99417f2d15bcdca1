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
