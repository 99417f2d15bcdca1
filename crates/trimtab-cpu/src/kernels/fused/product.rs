//! A product and the steps after it: every rectangle of the result goes through the steps as soon as it is complete, while it
//! is in the caches. The product is computed by the kernels of matrix products.

use super::machine::{How, Recipe};
use super::{bytes_walked, flops};
use crate::args::{Args, Cpu, Inputs, Launched};
use crate::kernels::elementwise::ops::Operand;
use crate::kernels::matmul::blocked::{self, Blocked, BlockedConfig};
use crate::kernels::matmul::float::{Float, typed_launch};
use crate::simd::Level;
use trimtab_core::{Bytes, DType, Decline, DeviceFacts, Fused, LaunchError, Matmul, Variant, Work};

/// The kernel `cpu.fused.product`: steps after our own blocked product.
#[derive(Debug)]
pub struct ProductKernel {
    /// The widest vectors of this processor.
    pub(super) level: Level,
}

/// The product a recipe begins with, as a problem of its own.
pub(super) fn product_of(problem: &Fused) -> Option<Matmul> {
    let product = problem.product()?;
    let side = |transposed| trimtab_core::Operand { transposed, shared: false };
    let (lhs, rhs) = (side(product.lhs_transposed), side(product.rhs_transposed));
    Matmul::batched(problem.dtype, 1, problem.outer(), problem.inner(), product.depth, lhs, rhs).ok()
}

/// Why no kernel of products takes a recipe.
pub(super) fn declines(problem: &Fused) -> Option<Decline> {
    match problem.product() {
        None => Some(Decline::because("begins with no product")),
        Some(_) if problem.dtype == DType::F16 => Some(Decline::because("does not compute with f16")),
        Some(_) => None,
    }
}

/// The product's own work, and that of the steps: operands beside those of the product once, the result from the cache.
pub(super) fn work(problem: &Fused, product: Work) -> Work {
    let of_product =
        product_of(problem).map_or(0, |matmul| matmul.lhs_len() + matmul.rhs_len() + matmul.out_len());
    let others = bytes_walked(problem).0.saturating_sub(of_product.saturating_mul(problem.dtype.size()));
    Work { flops: flops(problem), bytes: Bytes(product.bytes.0.saturating_add(others)), ..product }
}

/// Checks the operands and hands them on: `run(product, its operands, finish)`, where `finish(start, rows, columns)` does the
/// steps for a rectangle of the result that holds the product and is nobody else's.
pub(super) fn with_steps<T: Operand + Float>(
    problem: &Fused,
    level: Level,
    args: Args<'_>,
    run: impl FnOnce(&Matmul, Args<'_>, &(dyn Fn(*mut T, usize, usize) + Sync)) -> Launched,
) -> Launched {
    let Some(matmul) = product_of(problem) else {
        return Err(LaunchError::Kernel(format!("{problem} has no product")));
    };
    let Inputs { inputs, out, pool } = args.recipe::<T>(problem)?;
    let recipe = Recipe::new(problem, inputs);
    let how = How { level, stream: false };
    let (start, columns, len) = (out.as_mut_ptr() as usize, matmul.n as usize, out.len());
    let finish = |at: *mut T, rows: usize, width: usize| {
        let first = (at as usize - start) / size_of::<T>();
        // Rows as wide as the result lie side by side.
        let (rows, width) = if width == columns { (1, rows * width) } else { (rows, width) };
        for row in 0..rows {
            // SAFETY: a rectangle of the result, which the thread that calls has just computed and nobody else uses.
            unsafe { recipe.compute(how, first + row * columns, width, at.add(row * columns)) };
        }
    };
    if matmul.k == 0 {
        out.fill(T::default());
        if len > 0 {
            finish(out.as_mut_ptr(), matmul.m as usize, columns);
        }
        return Ok(());
    }
    let args = Args { inputs: &[T::erase(inputs[0]), T::erase(inputs[1])], out: T::erase_mut(out), pool };
    run(&matmul, args, &finish)
}

impl Variant<Cpu> for ProductKernel {
    type Problem = Fused;
    type Config = BlockedConfig;

    identity!("cpu.fused.product", Tiled);

    fn declines(&self, problem: &Fused, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<BlockedConfig> {
        product_of(problem).map_or(vec![], |matmul| Blocked.configs(&matmul, device))
    }

    fn work(&self, problem: &Fused, config: BlockedConfig, device: &DeviceFacts) -> Work {
        let product = product_of(problem).map(|matmul| Blocked.work(&matmul, config, device));
        work(problem, product.unwrap_or_default())
    }

    fn launch(&self, problem: &Fused, config: BlockedConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, blocks, self.level, config, args)
    }
}

fn blocks<T: Operand + Float>(
    problem: &Fused,
    level: Level,
    config: BlockedConfig,
    args: Args<'_>,
) -> Launched {
    with_steps::<T>(problem, level, args, |matmul, args, finish| {
        blocked::launch::<T>(matmul, config, args, finish)
    })
}
