//! The yardstick: three plain loops that sum in f64. Takes every problem, is never fast.

use super::product::{Spread, spread, wrong_dtype};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, DType, Flops, Matmul};
use trimtab_operands::Element;

reference!("cpu.matmul.reference", Matmul, super::narrow::reference);

fn counted(problem: &Matmul) -> (Flops, Bytes) {
    // Every inner product walks a row and a column anew; flops count both multiplications and additions.
    let elements = problem.flops().saturating_add(problem.out_len());
    (Flops(problem.flops()), Bytes(elements.saturating_mul(problem.dtype.size())))
}

fn run<T: Element>(problem: &Matmul, args: Args<'_>) -> Launched {
    if problem.dtype == DType::I32 {
        return Err(wrong_dtype(problem));
    }
    spread::<T>(problem, Spread::ALONE, args, |product| {
        let ((m, n, k), (out, out_row)) = (product.sizes(), product.out());
        let (lhs, rhs) = (product.lhs(), product.rhs());
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0.0;
                for p in 0..k {
                    // SAFETY: i < m, p < k and j < n, and a product's views cover m × k and k × n elements.
                    let (a, b) = unsafe {
                        (*lhs.start.add(i * lhs.row + p * lhs.col), *rhs.start.add(p * rhs.row + j * rhs.col))
                    };
                    sum += a.to_f64() * b.to_f64();
                }
                // SAFETY: i < m and j < n, and the product's result has m × n elements that are ours alone.
                unsafe { *out.add(i * out_row + j) = T::from_f64(sum) };
            }
        }
    })
}
