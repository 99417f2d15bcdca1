//! Matrix products on the CPU, a file a variant; a new variant is one file and one line in [`kernels`].

mod blocked;
mod cblas;
mod float;
mod gemm;
mod lines;
mod matrixmultiply;
mod matvec;
mod product;
mod reference;
mod scratch;
mod small;
mod tiles;
mod turn;

#[cfg(test)]
mod tests;

use crate::blas;
use crate::erase::{AnyKernel, erase};
use std::path::PathBuf;
use trimtab_core::KernelVersion;

/// Every matrix-product kernel of this machine in order of preference, the reference last. `blas` are libraries the
/// caller names, tried before those with well-known names; see [`blas_problems`] for the ones that could not be used.
pub fn kernels(blas: &[PathBuf]) -> Vec<Box<dyn AnyKernel>> {
    kernels_with(blas::find(blas).0)
}

/// Why libraries the caller named could not be used, one sentence each.
pub fn blas_problems(blas: &[PathBuf]) -> Vec<String> {
    blas::find(blas).1
}

/// As [`kernels`], with libraries that were already looked up by [`blas::find`].
pub(crate) fn kernels_with(libraries: Vec<blas::Blas>) -> Vec<Box<dyn AnyKernel>> {
    let mut kernels = vec![erase(matvec::Matvec), erase(small::Small)];
    kernels.extend(libraries.into_iter().map(|library| erase(cblas::Cblas(library))));
    kernels.push(erase(gemm::Gemm));
    kernels.push(erase(blocked::Blocked));
    kernels.push(erase(matrixmultiply::MatrixMultiply));
    kernels.push(erase(reference::Reference));
    kernels
}

/// The version of a kernel of our own: a hash of its source text, so that an edit forgets what was learned of it.
pub(crate) fn source_version(source: &'static str) -> KernelVersion {
    KernelVersion::from(format!("{:016x}", source_hash(source)))
}

/// The version of a kernel around a crate: the crate's version and the hash of our side of it.
pub(crate) fn crate_version(version: &str, source: &'static str) -> KernelVersion {
    KernelVersion::from(format!("{version}+{:016x}", source_hash(source)))
}

/// FNV-1a, 64 bits.
const fn source_hash(source: &str) -> u64 {
    let bytes = source.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    hash
}
