//! What tests and benchmarks need of the machine: looked for, announced with why and how large it is, and only then installed.

use std::fmt;
use std::process::Command;

/// Something outside the project without which some of it cannot run.
pub struct Need {
    pub what: &'static str,
    /// Debian's packages that bring it.
    packages: &'static str,
    /// What does not run without it.
    pub without: &'static str,
    is_there: fn() -> bool,
}

/// GPU kernels run on any Vulkan driver; Mesa's computes on the processor.
pub const VULKAN: Need = Need {
    what: "a Vulkan driver",
    packages: "mesa-vulkan-drivers libvulkan1",
    without: "kernels on GPUs and everything that uses them (feature wgpu), and the benchmarks' own tests",
    is_there: vulkan,
};

/// Any CBLAS would do; OpenBLAS is what users most often have.
pub const OPENBLAS: Need = Need {
    what: "OpenBLAS",
    packages: "libopenblas0-pthread",
    without: "the matmul kernels around a CBLAS",
    is_there: || linked("libopenblas.so"),
};

/// Found at run time like a BLAS.
pub const FFTW: Need = Need {
    what: "FFTW",
    packages: "libfftw3-single3 libfftw3-double3",
    without: "the kernel of transforms around FFTW",
    is_there: || linked("libfftw3f.so.3") && linked("libfftw3.so.3"),
};

/// Kernels in OpenCL C run on any OpenCL; PoCL computes on the processor.
pub const OPENCL: Need = Need {
    what: "an OpenCL driver",
    packages: "pocl-opencl-icd ocl-icd-libopencl1",
    without: "users' kernels in OpenCL C",
    is_there: opencl,
};

/// What the cost of a point is compared with.
pub const HYPERFINE: Need = Need {
    what: "hyperfine",
    packages: "hyperfine",
    without: "the comparison of what a point costs (bench tune-anything)",
    is_there: || Command::new("hyperfine").arg("--version").output().is_ok(),
};

/// libFuzzer is built from its sources, in C++.
pub const CPP: Need = Need {
    what: "a C++ compiler",
    packages: "g++",
    without: "the fuzz targets of the parsers",
    is_there: cpp,
};

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is not installed", self.without, self.what)
    }
}

fn linked(library: &str) -> bool {
    let output = Command::new("ldconfig").arg("-p").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(library))
}

fn cpp() -> bool {
    Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn opencl() -> bool {
    let drivers = std::fs::read_dir("/etc/OpenCL/vendors").map_or(0, Iterator::count);
    !cfg!(target_os = "linux") || (drivers > 0 && linked("libOpenCL.so.1"))
}

fn vulkan() -> bool {
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let drivers = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().count();
    // Other systems bring theirs; where they do not, the tests say so.
    !cfg!(target_os = "linux") || (drivers > 0 && linked("libvulkan.so.1"))
}

/// What is missing, after installing it where that is allowed and possible.
pub fn missing(needs: Vec<Need>, may_install: bool) -> Vec<Need> {
    let absent = |needs: Vec<Need>| needs.into_iter().filter(|need| !(need.is_there)()).collect::<Vec<_>>();
    let missing = absent(needs);
    if missing.is_empty() || !may_install {
        return missing;
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages.split(' ')).collect();
    eprintln!("going to install with apt-get, system-wide (not with --no-install):");
    for need in &missing {
        eprintln!("  {}: {}, needed for {}", need.packages, need.what, need.without);
    }
    if apt(&["update", "-qq"], &[]).is_none_or(|(done, _)| !done) {
        eprintln!("  apt-get update failed: nothing is installed");
        return missing;
    }
    for line in apt(&["install", "--assume-no"], &packages).iter().flat_map(|(_, said)| sizes(said)) {
        eprintln!("  {line}");
    }
    if apt(&["install", "-y", "-qq"], &packages).is_none_or(|(done, _)| !done) {
        eprintln!("  apt-get install failed");
    }
    absent(missing)
}

/// Whether apt-get succeeded, and what it said.
fn apt(words: &[&str], packages: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new("apt-get");
    command.args(words).args((!packages.is_empty()).then_some("--no-install-recommends")).args(packages);
    let output = command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").output().ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The lines that say how much is loaded and how much it takes.
fn sizes(said: &str) -> Vec<&str> {
    let told = |line: &&str| line.starts_with("Need to get") || line.starts_with("After this operation");
    said.lines().map(str::trim).filter(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need { what: "a thing", packages: "none", without: "nothing", is_there: || false };

    #[test]
    fn what_is_missing_is_named_and_not_installed_unless_allowed() {
        let there = Need { is_there: || true, ..ABSENT };
        let missing = missing(vec![there, ABSENT], false);
        assert_eq!(
            missing.iter().map(Need::to_string).collect::<Vec<_>>(),
            ["nothing: a thing is not installed"]
        );
    }

    #[test]
    fn sizes_are_read_from_what_apt_says() {
        let said = "The following NEW packages will be installed:\n  a b\nNeed to get 7 MB of archives.\nAfter this operation, 9 MB of \
                    additional disk space will be used.\nAbort.";
        assert_eq!(sizes(said).len(), 2);
    }
}
