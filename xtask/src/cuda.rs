//! `cargo xtask cuda`: verifies kernels in CUDA C without a GPU, with NVIDIA's compilers from PyPI in virtual environments.

use crate::ran;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask cuda [--only 12|13 | --bundle]

Installs NVIDIA's compilers from PyPI into target/cuda (NVRTC and ptxas of CUDA 12 and 13, 850 MB, kept), then runs the example `verify` of
trimtab-cuda: every kernel x point is compiled and assembled by NVRTC for sm_75, 80, 86, 89, 90, 100 and 120 (operations and types beyond one of each kernel at the
default point), and one point of each kernel and type alone and by ptxas, too. The machine code of kernels for tensor cores and asynchronous copies is
looked into (with CUDA 13's nvdisasm), and what NVRTC emitted is run by trimtab-ptx on ragged shapes against a reference, every case once for each compiler. The device itself
runs on a stand-in for the driver. Our occupancy is compared with NVIDIA's calculator on a million points, which needs g++.

  --only N        CUDA 12 or 13 alone
  --bundle        writes the PTX that is shipped for machines without NVRTC, with NVRTC 11.8; verifies nothing
";

/// A CUDA release on PyPI.
struct Release {
    name: &'static str,
    packages: &'static [&'static str],
    nvrtc: &'static str,
    ptxas: &'static str,
    /// Where `cuda_occupancy.h` is, where it knows every architecture we have limits of.
    header: Option<&'static str>,
    /// What shows machine code, where the release has it as a package.
    nvdisasm: Option<&'static str>,
}

/// Versions are fixed, so that a new one does not change what a test run says.
const RELEASES: [Release; 2] = [
    Release {
        name: "12",
        packages: &["nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-nvcc-cu12==12.9.86"],
        nvrtc: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        ptxas: "nvidia/cuda_nvcc/bin/ptxas",
        header: None,
        nvdisasm: None,
    },
    Release {
        name: "13",
        packages: &[
            "nvidia-cuda-nvrtc==13.4.92",
            "nvidia-cuda-nvcc==13.4.92",
            "nvidia-cuda-runtime==13.4.92",
            "nvidia-cuda-nvdisasm==13.4.92",
        ],
        nvrtc: "nvidia/cu13/lib/libnvrtc.so.13",
        ptxas: "nvidia/cu13/bin/ptxas",
        header: Some("nvidia/cu13/include"),
        nvdisasm: Some("nvidia/cu13/bin/nvdisasm"),
    },
];

/// The oldest that compiles our kernels: newer drivers take its PTX, too.
const BUNDLER: Release = Release {
    name: "11",
    packages: &["nvidia-cuda-nvrtc-cu11==11.8.89"],
    nvrtc: "nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
    ptxas: "",
    header: None,
    nvdisasm: None,
};
const BUNDLE: &str = "crates/trimtab-cuda/src/bundle.ptx";

fn bundle(root: &Path) -> Result<()> {
    let nvrtc = installed(&root.join("target/cuda"), &BUNDLER)?.join(BUNDLER.nvrtc);
    let run = ["run", "--quiet", "--package", "trimtab-cuda", "--example", "verify", "--"];
    let (nvrtc, file) = (nvrtc.display().to_string(), root.join(BUNDLE).display().to_string());
    super::cargo(root, &[&run[..], &["--bundle", &nvrtc, &file]].concat())
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let only = match words {
        [] => None,
        ["--only", name] => Some(*name),
        ["--bundle"] => return bundle(root),
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
        if let Some(nvdisasm) = release.nvdisasm {
            arguments.extend(["--nvdisasm".to_string(), found(nvdisasm)?]);
        }
        match release.header {
            Some(header) => arguments.extend(["--header".to_string(), found(header)?]),
            None if wanted.len() == 1 => {
                eprintln!("not run: occupancy, which CUDA 13's header is compared with")
            }
            None => (),
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    super::cargo(root, &arguments)?;
    if let Some(release) = wanted.first() {
        // A library that loads and is no driver.
        let compiler = installed(&place, release)?.join(release.nvrtc);
        aborting(root, &place, [&driver, &compiler])?;
    }
    wanted.iter().try_for_each(|release| users_kernels(root, &place, release, &driver))
}

/// Looks for devices where a panic ends the process: without a driver, with a file that is none, with one that lacks everything, and with a stand-in.
fn aborting(root: &Path, place: &Path, [driver, compiler]: [&Path; 2]) -> Result<()> {
    let built = place.join("abort");
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root).env("CARGO_PROFILE_DEV_PANIC", "abort").args([
        "build",
        "--quiet",
        "--target-dir",
    ]);
    build.arg(&built).args(["--package", "trimtab-cuda", "--example", "probe"]);
    ran(&mut build, "building with panics that abort")?;
    let probe = built.join("debug/examples/probe");
    let folder = place.join("drivers");
    let drivers: [(&str, Option<&Path>, &str); 4] = [
        ("none", None, "no CUDA driver"),
        ("text", Some(Path::new(file!())), "no CUDA driver"),
        ("other", Some(compiler), "has no function"),
        ("stand-in", Some(driver), "cuda0"),
    ];
    for (name, file, expected) in drivers {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        if let Some(file) = file {
            std::fs::copy(root.join(file), folder.join("libcuda.so.1"))?;
        }
        let output = Command::new(&probe).env("LD_LIBRARY_PATH", &folder).output()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let real = name == "none" && told.contains("cuda0");
        if !output.status.success() || !(told.contains(expected) || real) {
            bail!("with the driver `{name}`: {}, {told}", output.status);
        }
    }
    println!("no driver, no library, no driver's library, a stand-in: told without a panic");
    Ok(())
}

/// Users' kernels, where driver and compiler are found by their names.
fn users_kernels(root: &Path, place: &Path, release: &Release, driver: &Path) -> Result<()> {
    let folder = place.join("libraries");
    std::fs::create_dir_all(&folder)?;
    std::fs::copy(driver, folder.join("libcuda.so.1"))?;
    let nvrtc = installed(place, release)?.join(release.nvrtc);
    let compiler = nvrtc.parent().context("a library is in a folder")?;
    let mut tests = Command::new(env!("CARGO"));
    tests.current_dir(root).env("LD_LIBRARY_PATH", format!("{}:{}", folder.display(), compiler.display()));
    tests.args([
        "test",
        "--quiet",
        "--package",
        "trimtab-kernelfile",
        "--features",
        "cuda",
        "--lib",
        "cuda::",
    ]);
    ran(tests.args(["--", "--ignored"]), "users' kernels in CUDA C")
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
