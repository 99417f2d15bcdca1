//! Matrix products on the CPU, a file a variant; a new variant is one file and one line in [`kernels`].

pub(super) mod blocked;
mod cblas;
pub(super) mod float;
pub(super) mod gemm;
mod lines;
mod matrixmultiply;
mod matvec;
pub(super) mod product;
mod reference;
mod scratch;
mod small;
mod tiles;
mod turn;
mod vectors;

#[cfg(test)]
mod tests;

use crate::blas;
use crate::kernels::Kernels;
use std::path::PathBuf;
use trimtab_core::erase;

/// Every matrix-product kernel of this machine in order of preference, the reference last. `blas` are libraries the
/// caller names, tried before those with well-known names; see [`blas_problems`] for the ones that could not be used.
pub fn kernels(blas: &[PathBuf]) -> Kernels {
    kernels_with(blas::find(blas).0)
}

/// Why libraries the caller named could not be used, one sentence each.
pub fn blas_problems(blas: &[PathBuf]) -> Vec<String> {
    blas::find(blas).1
}

/// As [`kernels`], with libraries that were already looked up by [`blas::find`].
pub(crate) fn kernels_with(libraries: Vec<blas::Blas>) -> Kernels {
    let mut kernels = vec![erase(matvec::Matvec), erase(small::Small)];
    kernels.extend(libraries.into_iter().map(|library| erase(cblas::Cblas(library))));
    kernels.push(erase(gemm::Gemm));
    kernels.push(erase(blocked::Blocked));
    kernels.push(erase(matrixmultiply::MatrixMultiply));
    kernels.push(erase(reference::Reference));
    kernels
}
