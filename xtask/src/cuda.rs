//! `cargo xtask cuda`: verifies kernels in CUDA C without a GPU, with NVIDIA's compilers from PyPI in virtual environments.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask cuda [--only 12|13]

Installs NVIDIA's compilers from PyPI into target/cuda (NVRTC and ptxas of CUDA 12 and 13, 850 MB, kept), then runs the example `verify` of
trimtab-cuda: every kernel x point is compiled and assembled for sm_75, 80, 86, 89, 90, 100 and 120 (most elementwise operations at their default
point only), and a third of what NVRTC emitted is run by trimtab-ptx on ragged shapes against a reference. The device itself runs on a stand-in for the driver. Our occupancy is compared with NVIDIA's calculator on a million points, which needs g++.

  --only N        CUDA 12 or 13 alone
";

/// A CUDA release on PyPI.
struct Release {
    name: &'static str,
    packages: &'static [&'static str],
    nvrtc: &'static str,
    ptxas: &'static str,
    /// Where `cuda_occupancy.h` is.
    header: &'static str,
}

/// Versions are fixed, so that a new one does not change what a test run says.
const RELEASES: [Release; 2] = [
    Release {
        name: "12",
        packages: &[
            "nvidia-cuda-nvrtc-cu12==12.9.86",
            "nvidia-cuda-nvcc-cu12==12.9.86",
            "nvidia-cuda-runtime-cu12==12.9.79",
        ],
        nvrtc: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        ptxas: "nvidia/cuda_nvcc/bin/ptxas",
        header: "nvidia/cuda_runtime/include",
    },
    Release {
        name: "13",
        packages: &[
            "nvidia-cuda-nvrtc==13.4.92",
            "nvidia-cuda-nvcc==13.4.92",
            "nvidia-cuda-runtime==13.4.92",
        ],
        nvrtc: "nvidia/cu13/lib/libnvrtc.so.13",
        ptxas: "nvidia/cu13/bin/ptxas",
        header: "nvidia/cu13/include",
    },
];

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let only = match words {
        [] => None,
        ["--only", name] => Some(*name),
        ["--help" | "-h"] => {
            print!("{HELP}");
            return Ok(());
        }
        other => bail!("there is no option `{}`\n\n{HELP}", other.join(" ")),
    };
    let place = root.join("target/cuda");
    std::fs::create_dir_all(&place)?;
    // The stand-in for the driver, where cargo puts it.
    super::cargo(root, &["build", "--quiet", "--package", "trimtab-standin-cuda"])?;
    let driver = root.join("target/debug/libtrimtab_standin_cuda.so");
    let mut arguments: Vec<String> =
        ["run", "--quiet", "--package", "trimtab-cuda", "--example", "verify", "--"]
            .map(String::from)
            .to_vec();
    arguments.extend(["--work".to_string(), place.display().to_string()]);
    arguments.extend(["--driver".to_string(), driver.display().to_string()]);
    let wanted: Vec<&Release> =
        RELEASES.iter().filter(|release| only.is_none_or(|only| only == release.name)).collect();
    if wanted.is_empty() {
        bail!("there is no CUDA `{}` here\n\n{HELP}", only.unwrap_or_default());
    }
    for release in &wanted {
        let packages = installed(&place, release)?;
        let found = |file: &str| -> Result<String> {
            let path = packages.join(file);
            path.exists()
                .then(|| path.display().to_string())
                .with_context(|| format!("{} is not there", path.display()))
        };
        arguments.extend(["--toolchain".to_string(), found(release.nvrtc)?, found(release.ptxas)?]);
        if std::ptr::eq(*release, wanted[wanted.len() - 1]) {
            arguments.extend(["--header".to_string(), found(release.header)?]);
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    super::cargo(root, &arguments)
}

/// The folder of installed packages of an environment, made if it is not there yet.
fn installed(place: &Path, release: &Release) -> Result<PathBuf> {
    let (dir, done) = (place.join(release.name), place.join(release.name).join("installed"));
    let wanted = release.packages.join("\n");
    if std::fs::read_to_string(&done).unwrap_or_default() != wanted {
        eprintln!("going to install {} into {} from PyPI", release.packages.join(", "), dir.display());
        ran(
            Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir),
            "making a virtual environment",
        )?;
        let mut install = Command::new(dir.join("bin/python"));
        install
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(release.packages);
        ran(&mut install, "installing from PyPI")?;
        std::fs::write(&done, wanted)?;
    }
    let listed =
        std::fs::read_dir(dir.join("lib"))?.flatten().map(|entry| entry.path().join("site-packages"));
    listed
        .into_iter()
        .find(|path| path.join("nvidia").exists())
        .context("the packages are not where pip puts them")
}

fn ran(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command.status().with_context(|| format!("{what}: could not be started"))?;
    if !status.success() {
        bail!("{what}: failed");
    }
    Ok(())
}
