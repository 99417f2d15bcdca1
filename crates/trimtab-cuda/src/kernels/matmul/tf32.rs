//! Products of f32 on tensor cores, which see 11 bits of each factor. For callers who tolerate that.

use super::{has_grid, no_launch, product_source, work, write};
use crate::program::{Cuda, Program, capability, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Warps of a block along a column and along a row of the product, and fragments of 16 × 8 results of a warp along each.
    pub struct Tf32Config { wm, wn, fr, fc }
}

/// The first architecture with tensor cores for f32.
const SINCE: u32 = 80;

/// Each factor is off by half a unit of 11 bits at most: a product by 2⁻¹⁰ of its size and a little.
const ERROR: f64 = 1e-3;

/// In the order they are tried.
const CONFIGS: [[u32; 4]; 6] =
    [[2, 2, 2, 4], [2, 2, 1, 2], [4, 2, 2, 4], [2, 2, 4, 4], [1, 2, 2, 2], [2, 4, 2, 4]];

/// Bytes of a row of sixteen in shared memory.
const ROW_BYTES: u32 = 80;

/// See the module.
#[derive(Debug)]
pub struct Tf32Kernel;

impl Tf32Config {
    fn tile(self) -> [u32; 2] {
        [16 * self.wm * self.fr, 8 * self.wn * self.fc]
    }
}

impl Variant<Cuda> for Tf32Kernel {
    type Problem = Matmul;
    type Config = Tf32Config;

    identity!("cuda.matmul.tf32", Vectorized);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        if problem.dtype != DType::F32 {
            return Some(Decline::from(format!("takes f32, not {}", problem.dtype)));
        }
        if capability(device) < SINCE {
            return Some(Decline::from(format!("tensor cores take f32 from sm_{SINCE} on")));
        }
        let tall = "the product has more rows than a grid";
        no_launch(problem, device)
            .or_else(|| (!has_grid(problem, [32, 32])).then_some(Decline::because(tall)))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<Tf32Config> {
        let all = CONFIGS.into_iter().map(|[wm, wn, fr, fc]| Tf32Config { wm, wn, fr, fc });
        let legal = |config: &Tf32Config| {
            let [rows, columns] = config.tile();
            fits(device, 32 * config.wm * config.wn, (rows + columns) * ROW_BYTES)
                && has_grid(problem, [rows, columns])
        };
        all.filter(legal).collect()
    }

    fn work(&self, problem: &Matmul, config: Tf32Config, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, [rows, columns]) = (*problem, config.tile().map(|side| side.max(1)));
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        let mut work = work(problem, walked, [rows, columns], 32 * config.wm * config.wn, k.div_ceil(16));
        work.error = ERROR;
        work
    }

    fn launch(&self, problem: &Matmul, config: Tf32Config, program: &mut Program) -> Result<(), LaunchError> {
        let Tf32Config { wm, wn, fr, fc } = config;
        let legal = [wm, wn, fr, fc].iter().all(|size| (1..=8).contains(size)) && wm * wn <= 32;
        if !legal || problem.dtype != DType::F32 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let source = (product_source!("tf32.cu"), "matmul_tf32");
        let settings = [("WM", wm), ("WN", wn), ("FR", fr), ("FC", fc)];
        write(problem, source, &settings, config.tile(), [32 * wm * wn, 1, 1], program)
    }
}
