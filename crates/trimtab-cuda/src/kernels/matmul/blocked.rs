//! Several results a thread in registers; a block shares a tile of each operand.

use super::{declines, has_grid, product_source, work, write};
use crate::kernels::computed_bytes;
use crate::program::{Cuda, Program, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Rows and columns of a block, inner steps between barriers, rows and columns of a thread.
    pub struct BlockedConfig { bm, bn, bk, tm, tn }
}

/// Elements rows are longer in shared memory: keeps 16-byte alignment, and columns off the same bank.
const PAD: u32 = 4;

/// Below this most of a block stands for nothing.
const LEAST_SIDE: u64 = 16;

/// In the order they are tried.
const CONFIGS: [[u32; 5]; 10] = [
    [64, 64, 8, 4, 4],
    [128, 128, 8, 8, 8],
    [64, 64, 16, 4, 4],
    [128, 64, 8, 8, 4],
    [64, 128, 8, 4, 8],
    [32, 32, 16, 2, 2],
    [32, 64, 16, 4, 4],
    [64, 32, 16, 4, 4],
    [128, 128, 16, 8, 8],
    [64, 64, 16, 8, 8],
];

/// The source and its kernel, also of [`super::split`].
pub(super) const SOURCE: (&str, &str) = (product_source!("blocked.cu"), "matmul_blocked");

/// See the module.
#[derive(Debug)]
pub struct BlockedKernel;

impl BlockedConfig {
    pub(super) fn threads(self) -> u32 {
        (self.bm / self.tm.max(1)) * (self.bn / self.tn.max(1))
    }

    /// Whether a device holds its blocks, and a grid the product in them.
    pub(super) fn is_legal(self, problem: &Matmul, device: &DeviceFacts) -> bool {
        // Of doubles, twice the registers: eight by eight do not fit.
        let registers = self.tm * self.tn * computed_bytes(problem.dtype) as u32 / 4;
        let shared = self.shared_bytes(problem.dtype);
        registers <= 64 && fits(device, self.threads(), shared) && has_grid(problem, [self.bm, self.bn])
    }

    /// The macros of the source, if it can be compiled with them.
    pub(super) fn settings(self, split: bool) -> Result<[(&'static str, u32); 7], LaunchError> {
        let BlockedConfig { bm, bn, bk, tm, tn } = self;
        let whole = tm > 0 && tn > 0 && bk > 0 && bm % tm == 0 && bn % tn == 0;
        if !whole || !(1..=1024).contains(&self.threads()) {
            return Err(LaunchError::Point(format!("{self:?}")));
        }
        let split = ("SPLIT", split.into());
        Ok([("BM", bm), ("BN", bn), ("BK", bk), ("TM", tm), ("TN", tn), ("PAD", PAD), split])
    }

    fn shared_bytes(self, dtype: DType) -> u32 {
        self.bk * (self.bm + self.bn + 2 * PAD) * computed_bytes(dtype) as u32
    }
}

impl Variant<Cuda> for BlockedKernel {
    type Problem = Matmul;
    type Config = BlockedConfig;

    identity!("cuda.matmul.blocked", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        let narrow = problem.m.min(problem.n) < LEAST_SIDE || !has_grid(problem, [32, 32]);
        declines(problem, device).or_else(|| {
            narrow.then_some(Decline::because("the product is too narrow or too tall for blocks"))
        })
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<BlockedConfig> {
        let all = CONFIGS.into_iter().map(|[bm, bn, bk, tm, tn]| BlockedConfig { bm, bn, bk, tm, tn });
        all.filter(|config| config.is_legal(problem, device)).collect()
    }

    fn work(&self, problem: &Matmul, config: BlockedConfig, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, [rows, columns]) = (*problem, [config.bm.max(1), config.bn.max(1)]);
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        work(problem, walked, [rows, columns], config.threads(), k.div_ceil(config.bk.max(1).into()))
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: BlockedConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let (tile, block) = ([config.bm, config.bn], [config.threads(), 1, 1]);
        write(problem, SOURCE, &config.settings(false)?, tile, block, program)
    }
}
