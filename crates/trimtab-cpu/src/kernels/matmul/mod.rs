//! Matrix products on the CPU, a file a variant; a new variant is one file and one line in [`kernels`].

pub(super) mod blocked;
mod cblas;
mod converting;
mod dots;
pub(super) mod float;
pub(super) mod gemm;
mod lines;
mod matrixmultiply;
mod matvec;
mod narrow;
mod pairs;
pub(super) mod product;
mod reference;
mod scratch;
mod small;
mod tiles;
mod turn;
mod vector_halves;
mod vectors;

use crate::blas;
use crate::kernels::{Kernels, shared_work};
use std::path::PathBuf;
use trimtab_core::{Bytes, Flops, Matmul, Work, erase};

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
    // Where there is no such instruction there is no such kernel.
    if pairs::is_here() {
        kernels.push(erase(pairs::Pairs));
    }
    kernels.push(erase(vector_halves::VectorHalves));
    kernels.push(erase(narrow::SmallHalves));
    kernels.push(erase(converting::Converting));
    kernels.push(erase(narrow::Halves));
    kernels.push(erase(dots::Dots));
    kernels.push(erase(narrow::BytesKernel));
    kernels.push(erase(reference::ReferenceKernel));
    kernels
}

/// What threads do that walk over so many elements of each product, or keep as many in memory of their own.
fn work(problem: &Matmul, elements: u64, scratch: u64, threads: u32, lanes: u32) -> Work {
    let bytes = |elements: u64, times: u64| {
        Bytes(elements.saturating_mul(times).saturating_mul(problem.dtype.size()))
    };
    let work = shared_work(Flops(problem.flops()), bytes(elements, problem.batch), threads, lanes);
    Work { scratch: bytes(scratch, threads.into()), ..work }
}
