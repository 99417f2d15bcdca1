//! Versions of kernels that nobody keeps by hand: for each kernel a hash of the code it runs, found when its crate is built.
//!
//! A kernel's code is its `impl` and what that uses, directly or not: items of its crate and of our other crates, shaders it
//! includes, the versions of foreign crates. Comments, layout and tests do not count. What cannot be told apart without a
//! compiler (a method's type, what a macro declares) is taken to be used: a version changes rather once too often.

mod graph;
mod items;
mod locked;

use graph::Graph;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt::Write as _, fs, io};

/// A kernel and the code it runs.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The module that says `identity!` or `version!`, as `module_path!` writes it.
    pub module: String,
    /// Equal as long as the code is; the same on every machine.
    pub version: String,
    /// The files its code is in.
    pub files: BTreeSet<PathBuf>,
}

/// The kernels of the crate at `manifest`. `target` is a folder below which the lock file may lie that the build goes by.
pub fn kernels(manifest: &Path, target: &Path) -> io::Result<Vec<Kernel>> {
    Ok(Graph::load(manifest, target)?.kernels())
}

/// What a build script does: writes the macros `identity!` and `version!` to `kernel_versions.rs` in `OUT_DIR`, to be included in the module
/// `kernels` before those of the kernels.
#[allow(clippy::disallowed_methods, reason = "Cargo tells build scripts where to write by a variable")]
pub fn write_table() -> io::Result<()> {
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    // Cargo runs build scripts in the folder of their crate.
    let graph = Graph::load(Path::new("."), &out)?;
    for read in &graph.read {
        println!("cargo::rerun-if-changed={}", read.display());
    }
    // A module that is not in the table does not compile.
    let mut table = include_str!("kernel_versions.rs.in").to_string();
    for Kernel { module, version, .. } in graph.kernels() {
        let _ = writeln!(table, "    ({module:?}, {version:?}),");
    }
    fs::write(out.join("kernel_versions.rs"), table + "];\n")
}
