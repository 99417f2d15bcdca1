//! The crate `matrixmultiply`, one call for each part of the product.

use super::float::Float;
use super::gemm::{LibraryConfig, library};
use super::product::{spread, wrong_dtype};
use crate::args::{Args, Cpu, Launched};
use trimtab_core::{DType, Decline, DeviceFacts, Matmul, Variant};

/// The kernel `cpu.matmul.matrixmultiply`; its AVX-512 kernels were seen at work here.
#[derive(Debug)]
pub(super) struct MatrixMultiply;

impl Variant<Cpu> for MatrixMultiply {
    library!();
    identity!("cpu.matmul.matrixmultiply", Library);

    fn declines(&self, _: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
        match problem.dtype {
            DType::F32 => launch(problem, ::matrixmultiply::sgemm, config, args),
            DType::F64 => launch(problem, ::matrixmultiply::dgemm, config, args),
            _ => Err(wrong_dtype(problem)),
        }
    }
}

/// Sizes m, k, n; one factor, both operands and the other factor, the result; of matrices, steps from row to row and from column
/// to column.
#[rustfmt::skip]
type Multiply<T> = unsafe fn(
    usize, usize, usize, T, *const T, isize, isize, *const T, isize, isize, T, *mut T, isize, isize,
);

#[rustfmt::skip]
fn launch<T: Float>(
    problem: &Matmul,
    multiply: Multiply<T>,
    config: LibraryConfig,
    args: Args<'_>,
) -> Launched {
    spread::<T>(problem, config.spread(), args, |product| {
        let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
        let (lhs, rhs) = (product.lhs(), product.rhs());
        let step = |elements: usize| elements as isize;
        // SAFETY: a product's views cover m × k, k × n and m × n elements, and its result is unshared; with a factor of zero the
        // old result is not read.
        unsafe {
            multiply(
                m, k, n,
                T::ONE, lhs.start, step(lhs.row), step(lhs.col), rhs.start, step(rhs.row), step(rhs.col),
                T::ZERO, out, step(out_row), 1,
            );
        }
    })
}
