//! A product and the steps after it: every rectangle of the result goes through the steps as soon as it is complete, while it
//! is in the caches. The product is computed by the kernels of matrix products.

use super::machine::{How, Recipe};
use super::{bytes_walked, flops};
use crate::args::{Args, Cpu, Inputs};
use crate::kernels::elementwise::ops::Operand;
use crate::kernels::matmul::blocked::{self, Blocked, BlockedConfig};
use crate::kernels::matmul::float::Float;
use crate::kernels::matmul::gemm::{self, Gemm, LibraryConfig};
use crate::kernels::matmul::product::spread;
use crate::kernels::version::{crate_version, source_version};
use crate::simd::{Level, Levels, Portable};
use std::borrow::Cow;
use trimtab_core::{
    Bytes, DType, Decline, DeviceFacts, Fused, KernelVersion, LaunchError, Matmul, Variant, VariantClass,
    Work,
};

/// Rows after which the crate `gemm` is interrupted, few first: a panel of the result must stay in a cache, and what it packs
/// of the right operand is packed again for each. Zero for all rows at once.
const PANELS: [u32; 3] = [0, 256, 96];

/// The kernel `cpu.fused.product`: steps after our own blocked product.
#[derive(Debug)]
pub struct ProductKernel {
    level: Level,
}

/// The kernel `cpu.fused.gemm`: steps after panels by the crate `gemm`.
#[derive(Debug)]
pub struct GemmKernel {
    level: Level,
}

trimtab_core::config! {
    /// Rows of a panel (0: all), threads, and whether they share columns (0), rows (1) or both (2).
    pub struct PanelConfig { panel, threads, split }
}

fn widest() -> Level {
    let levels = Levels::detect();
    levels.lanes(None).find_map(|lanes| levels.get(lanes)).unwrap_or(Level::Portable(Portable))
}

impl ProductKernel {
    /// With the widest vectors of this processor.
    pub fn new() -> ProductKernel {
        ProductKernel { level: widest() }
    }
}

impl GemmKernel {
    /// With the widest vectors of this processor.
    pub fn new() -> GemmKernel {
        GemmKernel { level: widest() }
    }
}

/// The product a recipe begins with, as a problem of its own.
fn product_of(problem: &Fused) -> Option<Matmul> {
    let product = problem.product()?;
    let side = |transposed| trimtab_core::Operand { transposed, shared: false };
    let (lhs, rhs) = (side(product.lhs_transposed), side(product.rhs_transposed));
    Matmul::batched(problem.dtype, 1, problem.outer(), problem.inner(), product.depth, lhs, rhs).ok()
}

fn declines(problem: &Fused) -> Option<Decline> {
    match problem.product() {
        None => Some(Decline::because("begins with no product")),
        Some(_) if problem.dtype == DType::F16 => Some(Decline::because("does not compute with f16")),
        Some(_) => None,
    }
}

/// The product's own work, and that of the steps: operands beside those of the product once, the result from the cache.
fn work(problem: &Fused, product: Work) -> Work {
    let of_product =
        product_of(problem).map_or(0, |matmul| matmul.lhs_len() + matmul.rhs_len() + matmul.out_len());
    let others = bytes_walked(problem).0.saturating_sub(of_product.saturating_mul(problem.dtype.size()));
    Work { flops: flops(problem), bytes: Bytes(product.bytes.0.saturating_add(others)), ..product }
}

/// Checks the operands and hands them on: `run(product, its operands, finish)`, where `finish(start, rows, columns)` does the
/// steps for a rectangle of the result that holds the product and is nobody else's.
fn with_steps<T: Operand + Float>(
    problem: &Fused,
    level: Level,
    args: Args<'_>,
    run: impl FnOnce(&Matmul, Args<'_>, &(dyn Fn(*mut T, usize, usize) + Sync)) -> Result<(), LaunchError>,
) -> Result<(), LaunchError> {
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

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("cpu.fused.product")
    }

    fn version(&self) -> KernelVersion {
        let blocked = include_str!("../matmul/blocked.rs");
        let mut sources = vec![include_str!("product.rs"), blocked, include_str!("../matmul/tiles.rs")];
        sources.extend(super::SHARED_SOURCES);
        source_version(&sources)
    }

    fn class(&self) -> VariantClass {
        VariantClass::Tiled
    }

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

    fn launch(&self, problem: &Fused, config: BlockedConfig, args: Args<'_>) -> Result<(), LaunchError> {
        fn run<T: Operand + Float>(
            problem: &Fused,
            level: Level,
            config: BlockedConfig,
            args: Args<'_>,
        ) -> Result<(), LaunchError> {
            with_steps::<T>(problem, level, args, |matmul, args, finish| {
                blocked::launch::<T>(matmul, config, args, finish)
            })
        }
        match problem.dtype {
            DType::F32 => run::<f32>(problem, self.level, config, args),
            DType::F64 => run::<f64>(problem, self.level, config, args),
            _ => Err(LaunchError::Kernel(format!("{problem}: products are of f32 or f64 here"))),
        }
    }
}

impl Variant<Cpu> for GemmKernel {
    type Problem = Fused;
    type Config = PanelConfig;

    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("cpu.fused.gemm")
    }

    fn version(&self) -> KernelVersion {
        let mut sources = vec![include_str!("product.rs"), include_str!("../matmul/gemm.rs")];
        sources.extend(super::SHARED_SOURCES);
        crate_version("0.19", &sources)
    }

    fn class(&self) -> VariantClass {
        VariantClass::Library
    }

    fn declines(&self, problem: &Fused, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<PanelConfig> {
        let Some(matmul) = product_of(problem) else { return vec![] };
        let mut configs = Vec::new();
        for LibraryConfig { threads, split } in LibraryConfig::list(&matmul, device) {
            let panels = PANELS.into_iter().filter(|&panel| u64::from(panel) < matmul.m);
            configs.extend(panels.map(|panel| PanelConfig { panel, threads, split }));
            if matmul.m == 0 {
                configs.push(PanelConfig { panel: 0, threads, split });
            }
        }
        configs
    }

    fn work(&self, problem: &Fused, config: PanelConfig, device: &DeviceFacts) -> Work {
        let PanelConfig { threads, split, .. } = config;
        let product =
            product_of(problem).map(|matmul| Gemm.work(&matmul, LibraryConfig { threads, split }, device));
        work(problem, product.unwrap_or_default())
    }

    fn launch(&self, problem: &Fused, config: PanelConfig, args: Args<'_>) -> Result<(), LaunchError> {
        match problem.dtype {
            DType::F32 => panels::<f32>(problem, self.level, config, args),
            DType::F64 => panels::<f64>(problem, self.level, config, args),
            _ => Err(LaunchError::Kernel(format!("{problem}: products are of f32 or f64 here"))),
        }
    }
}

fn panels<T: Operand + Float>(
    problem: &Fused,
    level: Level,
    PanelConfig { panel, threads, split }: PanelConfig,
    args: Args<'_>,
) -> Result<(), LaunchError> {
    with_steps::<T>(problem, level, args, |matmul, args, finish| {
        spread::<T>(matmul, LibraryConfig { threads, split }.spread(), args, |product| {
            let (m, n, _) = product.sizes();
            let panel = if panel == 0 { m } else { panel as usize };
            for from in (0..m).step_by(panel) {
                let rows = product.rows(from, panel);
                gemm::multiply(&rows);
                finish(rows.out().0, rows.sizes().0, n);
            }
        })
    })
}
