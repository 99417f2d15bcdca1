//! Products of f16 and bf16 on tensor cores, sums in f32.

use super::{has_grid, no_launch, product_source, work, write};
use crate::program::{Cuda, Program, capability, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Warps of a block along a column and along a row of the product; each computes 16 × 16 results.
    pub struct TensorConfig { wm, wn }
}

/// In the order they are tried.
const WARPS: [[u32; 2]; 5] = [[2, 2], [4, 2], [2, 4], [4, 4], [1, 2]];

/// Bytes of a row of sixteen halves in shared memory.
const ROW_BYTES: u32 = 48;

/// The first architecture with tensor cores for bf16.
const BF16_SINCE: u32 = 80;

/// See the module.
#[derive(Debug)]
pub struct TensorKernel;

impl Variant<Cuda> for TensorKernel {
    type Problem = Matmul;
    type Config = TensorConfig;

    identity!("cuda.matmul.tensor", Vectorized);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        match problem.dtype {
            DType::F16 => {}
            DType::Bf16 if capability(device) >= BF16_SINCE => {}
            DType::Bf16 => {
                return Some(Decline::from(format!("tensor cores take bf16 from sm_{BF16_SINCE} on")));
            }
            dtype => return Some(Decline::from(format!("takes f16 and bf16, not {dtype}"))),
        }
        let tall = "the product has more rows than a grid";
        no_launch(problem, device)
            .or_else(|| (!has_grid(problem, [16, 32])).then_some(Decline::because(tall)))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<TensorConfig> {
        let legal = |[wm, wn]: &[u32; 2]| {
            fits(device, 32 * wm * wn, 16 * (wm + wn) * ROW_BYTES) && has_grid(problem, [16 * wm, 16 * wn])
        };
        WARPS.into_iter().filter(legal).map(|[wm, wn]| TensorConfig { wm, wn }).collect()
    }

    fn work(&self, problem: &Matmul, config: TensorConfig, _: &DeviceFacts) -> Work {
        let Matmul { m, n, k, .. } = *problem;
        let [rows, columns] = [16 * config.wm.max(1), 16 * config.wn.max(1)];
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        work(problem, walked, [rows, columns], 32 * config.wm * config.wn, k.div_ceil(16))
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: TensorConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let TensorConfig { wm, wn } = config;
        if wm == 0 || wn == 0 || wm.saturating_mul(wn) > 32 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source = (product_source!("tensor.cu"), "matmul_tensor");
        write(problem, source, &[("WM", wm), ("WN", wn)], [16 * wm, 16 * wn], [32 * wm * wn, 1, 1], program)
    }
}
