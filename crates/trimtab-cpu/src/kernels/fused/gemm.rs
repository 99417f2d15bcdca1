//! A product by the crate `gemm` and the steps after it, panel by panel.

use super::product::{declines, product_of, with_steps, work};
use crate::args::{Args, Cpu, Launched};
use crate::kernels::elementwise::ops::Operand;
use crate::kernels::matmul::float::{Float, typed_launch};
use crate::kernels::matmul::gemm::{self, Gemm, LibraryConfig};
use crate::kernels::matmul::product::spread;
use crate::simd::Level;
use trimtab_core::{Decline, DeviceFacts, Fused, Variant, Work};

/// Rows after which the crate `gemm` is interrupted, few first: a panel of the result must stay in a cache, and what it packs
/// of the right operand is packed again for each. Zero for all rows at once.
const PANELS: [u32; 3] = [0, 256, 96];

/// The kernel `cpu.fused.gemm`: steps after panels by the crate `gemm`.
#[derive(Debug)]
pub struct GemmKernel {
    /// The widest vectors of this processor.
    pub(super) level: Level,
}

trimtab_core::config! {
    /// Rows of a panel (0: all), threads, and whether they share columns (0), rows (1) or both (2).
    pub struct PanelConfig { panel, threads, split }
}

impl Variant<Cpu> for GemmKernel {
    type Problem = Fused;
    type Config = PanelConfig;

    identity!("cpu.fused.gemm", Library);

    fn declines(&self, problem: &Fused, _: &DeviceFacts) -> Option<Decline> {
        declines(problem)
    }

    fn configs(&self, problem: &Fused, device: &DeviceFacts) -> Vec<PanelConfig> {
        let Some(matmul) = product_of(problem) else { return vec![] };
        let mut configs = Vec::new();
        for LibraryConfig { threads, split } in LibraryConfig::list(&matmul, device) {
            let panels = PANELS.into_iter().filter(|&panel| u64::from(panel) < matmul.m.max(1));
            configs.extend(panels.map(|panel| PanelConfig { panel, threads, split }));
        }
        configs
    }

    fn work(&self, problem: &Fused, config: PanelConfig, device: &DeviceFacts) -> Work {
        let PanelConfig { threads, split, .. } = config;
        let product =
            product_of(problem).map(|matmul| Gemm.work(&matmul, LibraryConfig { threads, split }, device));
        work(problem, product.unwrap_or_default())
    }

    fn launch(&self, problem: &Fused, config: PanelConfig, args: Args<'_>) -> Launched {
        typed_launch!(problem, panels, self.level, config, args)
    }
}

fn panels<T: Operand + Float>(
    problem: &Fused,
    level: Level,
    PanelConfig { panel, threads, split }: PanelConfig,
    args: Args<'_>,
) -> Launched {
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
