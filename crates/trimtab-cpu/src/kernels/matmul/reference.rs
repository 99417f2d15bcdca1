//! The yardstick: three plain loops that sum in f64. Takes every problem, is never fast.

use super::float::{Float, typed_launch};
use super::product::{Spread, spread};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::halves;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Flops, Matmul, Variant, Work};

/// The kernel `cpu.matmul.reference`.
#[derive(Debug)]
pub(super) struct Reference;

trimtab_core::config! {
    /// The reference has no settings.
    pub struct ReferenceConfig {}
}

impl Variant<Cpu> for Reference {
    type Problem = Matmul;
    type Config = ReferenceConfig;

    identity!("cpu.matmul.reference", Reference);

    fn declines(&self, _: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        None
    }

    fn configs(&self, _: &Matmul, _: &DeviceFacts) -> Vec<ReferenceConfig> {
        vec![ReferenceConfig {}]
    }

    fn work(&self, problem: &Matmul, _: ReferenceConfig, _: &DeviceFacts) -> Work {
        // Every inner product walks a row and a column anew; flops count both multiplications and additions.
        let elements = problem.flops().saturating_add(problem.out_len());
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(elements.saturating_mul(problem.dtype.size())),
            threads: 1,
            lanes: 1,
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Matmul, _: ReferenceConfig, args: Args<'_>) -> Launched {
        if problem.dtype == DType::F16 {
            let wide = Matmul { dtype: DType::F32, ..*problem };
            return halves::widened(args, |args| launch::<f32>(&wide, args));
        }
        typed_launch!(problem, launch, args)
    }
}

fn launch<T: Float>(problem: &Matmul, args: Args<'_>) -> Launched {
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
