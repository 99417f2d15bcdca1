//! As the blocked kernel, with two tiles of each operand: asynchronous copies fill one while the other is computed with.

use super::{declines, has_grid, product_source, work, write};
use crate::program::{Cuda, Program, capability, fits};
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Rows and columns of a block, inner steps between barriers, rows and columns of a thread.
    pub struct PipelinedConfig { bm, bn, bk, tm, tn }
}

/// The first architecture with asynchronous copies.
const SINCE: u32 = 80;
/// Elements rows are longer in shared memory: keeps 16-byte alignment, and rows off the same bank.
const PAD: u32 = 4;
/// Below this most of a block stands for nothing.
const LEAST_SIDE: u64 = 16;

/// In the order they are tried.
const CONFIGS: [[u32; 5]; 7] = [
    [64, 64, 16, 4, 4],
    [128, 128, 8, 8, 8],
    [64, 64, 8, 4, 4],
    [128, 64, 16, 8, 4],
    [64, 128, 16, 4, 8],
    [32, 32, 16, 2, 2],
    [128, 128, 16, 8, 8],
];

/// See the module.
#[derive(Debug)]
pub struct PipelinedKernel;

impl PipelinedConfig {
    fn threads(self) -> u32 {
        (self.bm / self.tm.max(1)) * (self.bn / self.tn.max(1))
    }

    fn shared_bytes(self, dtype: DType) -> u32 {
        2 * (self.bm * (self.bk + PAD) + self.bk * (self.bn + PAD)) * dtype.size() as u32
    }
}

/// Elements of a copy of each operand: 16 bytes where rows begin at multiples of them, else one element.
fn wide(problem: &Matmul) -> [u32; 2] {
    let most = 16 / problem.dtype.size();
    let of =
        |transposed: bool, row: u64| if !transposed && row.is_multiple_of(most) { most as u32 } else { 1 };
    [of(problem.lhs.transposed, problem.k), of(problem.rhs.transposed, problem.n)]
}

impl Variant<Cuda> for PipelinedKernel {
    type Problem = Matmul;
    type Config = PipelinedConfig;

    identity!("cuda.matmul.pipelined", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        if let Some(decline) = declines(problem, device) {
            return Some(decline);
        }
        if !matches!(problem.dtype, DType::F32 | DType::F64) {
            return Some(Decline::because("copies are of four bytes and more: takes f32 and f64"));
        }
        if capability(device) < SINCE {
            return Some(Decline::from(format!("asynchronous copies are there from sm_{SINCE} on")));
        }
        let narrow = problem.m.min(problem.n) < LEAST_SIDE || !has_grid(problem, [32, 32]);
        narrow.then_some(Decline::because("the product is too narrow or too tall for blocks"))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<PipelinedConfig> {
        let all = CONFIGS.into_iter().map(|[bm, bn, bk, tm, tn]| PipelinedConfig { bm, bn, bk, tm, tn });
        let legal = |config: &PipelinedConfig| {
            // Of doubles, twice the registers: eight by eight do not fit.
            let registers = config.tm * config.tn * problem.dtype.size() as u32 / 4;
            registers <= 64
                && fits(device, config.threads(), config.shared_bytes(problem.dtype))
                && has_grid(problem, [config.bm, config.bn])
        };
        all.filter(legal).collect()
    }

    fn work(&self, problem: &Matmul, config: PipelinedConfig, _: &DeviceFacts) -> Work {
        let (Matmul { m, n, k, .. }, [rows, columns]) = (*problem, [config.bm.max(1), config.bn.max(1)]);
        let walked = m * k * n.div_ceil(columns.into()) + k * n * m.div_ceil(rows.into()) + m * n;
        work(problem, walked, [rows, columns], config.threads(), k.div_ceil(config.bk.max(1).into()))
    }

    fn launch(
        &self,
        problem: &Matmul,
        config: PipelinedConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let PipelinedConfig { bm, bn, bk, tm, tn } = config;
        let whole = tm > 0 && tn > 0 && bk > 0 && bm % tm == 0 && bn % tn == 0;
        // Copies of 16 bytes must not reach over the end of a tile's row.
        let aligned = bk % 4 == 0 && bn % 4 == 0;
        if !whole || !aligned || !(1..=1024).contains(&config.threads()) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let [left, right] = wide(problem);
        let settings = [
            ("BM", bm),
            ("BN", bn),
            ("BK", bk),
            ("TM", tm),
            ("TN", tn),
            ("PAD", PAD),
            ("LEFT_WIDE", left),
            ("RIGHT_WIDE", right),
        ];
        let source = (product_source!("pipelined.cu"), "matmul_pipelined");
        write(problem, source, &settings, [bm, bn], [config.threads(), 1, 1], program)
    }
}
