//! A block moves a square tile through shared memory.

use crate::kernels::impossible;
use crate::program::{Cuda, MAX_GRID, Program, StepArgument, adapter, fits};
use trimtab_core::{Bytes, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Side of a tile, its rows a block moves at once, and elements its rows are longer in shared memory.
    pub struct TransposeConfig { tile, rows, pad }
}

/// See the module.
#[derive(Debug)]
pub struct TransposeKernel;

/// Planes, height and width, where the last two axes change places.
fn planes(problem: &Transpose) -> Option<[u64; 3]> {
    match (problem.dims(), problem.permutation()) {
        ([height, width], [1, 0]) => Some([1, *height, *width]),
        ([planes, height, width], [0, 2, 1]) => Some([*planes, *height, *width]),
        _ => None,
    }
}

/// Elements are moved as their bits.
fn is_movable(problem: &Transpose) -> bool {
    matches!(problem.dtype.size(), 1 | 2 | 4 | 8)
}

impl Variant<Cuda> for TransposeKernel {
    type Problem = Transpose;
    type Config = TransposeConfig;

    identity!("cuda.transpose.tiled", Tiled);

    fn declines(&self, problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
        if adapter(device).is_none() {
            return Some(Decline::because("not a GPU"));
        }
        let Some([planes, height, _]) = planes(problem) else {
            return Some(Decline::because("takes planes whose rows become columns"));
        };
        if !is_movable(problem) || planes > MAX_GRID[2] || height.div_ceil(16) > MAX_GRID[1] {
            return Some(Decline::because("elements too large, or more planes or rows than a grid"));
        }
        impossible([problem.len()])
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<TransposeConfig> {
        let all = [(32, 8), (32, 32), (32, 4), (16, 16), (16, 8)];
        let all =
            all.into_iter().flat_map(|(tile, rows)| [1, 0].map(|pad| TransposeConfig { tile, rows, pad }));
        let legal = |TransposeConfig { tile, rows, pad }: &TransposeConfig| {
            let bytes = tile * (tile + pad) * problem.dtype.size() as u32;
            fits(device, tile * rows, bytes)
        };
        all.filter(legal).collect()
    }

    fn work(&self, problem: &Transpose, config: TransposeConfig, _: &DeviceFacts) -> Work {
        let Some([planes, height, width]) = planes(problem) else { return Work::default() };
        let side = u64::from(config.tile.max(1));
        let blocks = planes * height.div_ceil(side) * width.div_ceil(side);
        Work {
            bytes: Bytes(2 * problem.len() * problem.dtype.size()),
            launches: 1,
            threads: 1,
            lanes: 1,
            barriers: blocks,
            invocations: blocks * u64::from(config.tile * config.rows),
            ..Work::default()
        }
    }

    fn launch(
        &self,
        problem: &Transpose,
        config: TransposeConfig,
        program: &mut Program,
    ) -> Result<(), LaunchError> {
        let TransposeConfig { tile, rows, pad } = config;
        let whole = (1..=32).contains(&tile) && rows > 0 && tile % rows == 0 && pad <= 8;
        let (true, Some([planes, height, width])) = (whole && is_movable(problem), planes(problem)) else {
            return Err(LaunchError::Point(format!("{config:?}")));
        };
        let macros = vec![
            ("BYTES", problem.dtype.size().to_string()),
            ("TILE", tile.to_string()),
            ("ROWS", rows.to_string()),
            ("PAD", pad.to_string()),
        ];
        let given = vec![
            StepArgument::Input(0),
            StepArgument::Out,
            StepArgument::U32(height as u32),
            StepArgument::U32(width as u32),
        ];
        let grid = [width.div_ceil(tile.into()), height.div_ceil(tile.into()), planes];
        program.push(include_str!("tiled.cu"), "transpose_tiled", macros, grid, [tile, rows, 1], given)
    }
}
