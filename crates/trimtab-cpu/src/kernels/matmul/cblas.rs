//! A CBLAS library of this machine, held to one thread, called for each part of the product.

use super::float::Float;
use super::gemm::{LibraryConfig, library};
use super::product::{Product, View, spread, wrong_dtype};
use crate::args::{Args, Cpu, Launched};
use crate::blas::{Blas, GemmFn, Gemms};
use std::borrow::Cow;
use trimtab_core::{DType, Decline, DeviceFacts, KernelVersion, LaunchError, Matmul, Variant, VariantClass};

const ROW_MAJOR: i32 = 101;
const AS_STORED: i32 = 111;
const TRANSPOSED: i32 = 112;

/// A kernel `cpu.matmul.openblas`, `cpu.matmul.mkl`, …
#[derive(Debug)]
pub(super) struct Cblas(pub(super) Blas);

impl Cblas {
    /// The size that does not fit the library's integers, if any. Leading dimensions are among the sizes.
    fn too_large(&self, problem: &Matmul) -> Option<u64> {
        let most = match self.0.gemms {
            Gemms::Narrow(..) => i32::MAX as u64,
            Gemms::Wide(..) => i64::MAX as u64,
        };
        [problem.m, problem.n, problem.k].into_iter().find(|&size| size > most)
    }
}

impl Variant<Cpu> for Cblas {
    library!();

    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(format!("cpu.matmul.{}", self.0.name))
    }

    fn version(&self) -> KernelVersion {
        KernelVersion::from(format!("{}+{}", self.0.version, version!()))
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        self.too_large(problem).map(|size| {
            Decline::from(format!("{} takes sizes up to {}, this one is {size}", self.0.name, i32::MAX))
        })
    }

    fn launch(&self, problem: &Matmul, config: LibraryConfig, args: Args<'_>) -> Launched {
        if let Some(size) = self.too_large(problem) {
            return Err(LaunchError::Kernel(format!(
                "{size} is too large for the integers of {}",
                self.0.name
            )));
        }
        let blas = &self.0;
        match (problem.dtype, blas.gemms) {
            (DType::F32, Gemms::Narrow(gemm, _)) => launch(problem, blas, gemm, config, args),
            (DType::F32, Gemms::Wide(gemm, _)) => launch(problem, blas, gemm, config, args),
            (DType::F64, Gemms::Narrow(_, gemm)) => launch(problem, blas, gemm, config, args),
            (DType::F64, Gemms::Wide(_, gemm)) => launch(problem, blas, gemm, config, args),
            _ => Err(wrong_dtype(problem)),
        }
    }
}

fn launch<T: Float, I: TryFrom<usize> + 'static>(
    problem: &Matmul,
    blas: &Blas,
    gemm: GemmFn<T, I>,
    config: LibraryConfig,
    args: Args<'_>,
) -> Launched {
    let _held = blas.for_launch();
    spread::<T>(problem, config.spread(), args, |product| {
        let _held = blas.for_call();
        call(gemm, product);
    })
}

/// How a rows × cols view is told to CBLAS: whether it is transposed, and the elements from stored row to stored row.
fn told<T>(view: View<T>, rows: usize, cols: usize) -> (i32, usize) {
    // A single row or column may be any number of elements apart for us; CBLAS insists on at least a row's length.
    if view.col == 1 { (AS_STORED, view.row.max(cols)) } else { (TRANSPOSED, view.col.max(rows)) }
}

/// The product by a function of the library. Sizes were checked by [`Cblas::too_large`]; one that does not fit would leave
/// the result as it is.
fn call<T: Float, I: TryFrom<usize>>(gemm: GemmFn<T, I>, product: &Product<'_, T>) {
    let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
    let (lhs, rhs) = (product.lhs(), product.rhs());
    let ((lhs_order, lhs_lead), (rhs_order, rhs_lead)) = (told(lhs, m, k), told(rhs, k, n));
    let sizes = [m, n, k, lhs_lead, rhs_lead, out_row].map(|size| I::try_from(size).ok());
    if let [Some(m), Some(n), Some(k), Some(lhs_lead), Some(rhs_lead), Some(out_lead)] = sizes {
        // SAFETY: a product's views cover m × k, k × n and m × n elements in the order told, and its result is unshared; with
        // beta = 0 the old result is not read. The function is the library's for these types.
        unsafe {
            gemm(
                ROW_MAJOR,
                lhs_order,
                rhs_order,
                m,
                n,
                k,
                T::ONE,
                lhs.start,
                lhs_lead,
                rhs.start,
                rhs_lead,
                T::ZERO,
                out,
                out_lead,
            );
        }
    }
}
