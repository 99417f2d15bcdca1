//! Square tiles through workgroup memory: rows are read and written whole, for the price of a barrier a tile.

use super::{Planes, bindings, declines_planes, is_software, needs, of_planes};
use crate::program::{Dispatch, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Bytes, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Side of a tile in elements, elements of a column each invocation moves, and elements that pad a row, which spreads
    /// a column over the banks of the memory.
    pub struct TiledConfig { tile, rows, pad }
}

/// See the module.
#[derive(Debug)]
pub struct TiledKernel;

impl Variant<Gpu> for TiledKernel {
    type Problem = Transpose;
    type Config = TiledConfig;

    identity!("gpu.transpose.tiled", Tiled);

    fn declines(&self, problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
        declines_planes(problem, device).or_else(|| {
            let adapter = device.adapter.as_deref()?;
            let smallest = legal(problem, TiledConfig { tile: 8, rows: 8, pad: 0 }, adapter);
            smallest
                .is_none()
                .then(|| Decline::because("not even tiles of 8 x 8 are within the adapter's limits"))
        })
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<TiledConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let Some(planes) = Planes::new(problem) else { return Vec::new() };
        let longest = planes.wide.size.max(planes.high.size);
        let default = match is_software(adapter) {
            // lavapipe, 4096 x 4096: 472 ms, against 682 ms in tiles of 16 and 1485 ms with the worst setting.
            true => TiledConfig { tile: 32, rows: 16, pad: 0 },
            false => TiledConfig { tile: 32, rows: 4, pad: 1 },
        };
        let mut configs = vec![default];
        for tile in [8, 16, 32] {
            for rows in [1, 4, 8, 16, 32] {
                configs.extend([1, 0].map(|pad| TiledConfig { tile, rows, pad }));
            }
        }
        // A tile more than twice as long as both axes is mostly empty.
        let sensible = |config: &TiledConfig| config.tile == 8 || u64::from(config.tile / 2) < longest;
        configs.retain(|config| sensible(config) && legal(problem, *config, adapter).is_some());
        configs
    }

    fn work(&self, problem: &Transpose, config: TiledConfig, _: &DeviceFacts) -> Work {
        let tile = u64::from(config.tile.max(1));
        let tiles = Planes::new(problem).map_or(0, |planes| planes.blocks(tile, tile)[2]);
        Work {
            bytes: Bytes(problem.len().saturating_mul(2 * problem.dtype.size())),
            launches: u32::from(tiles > 0),
            threads: 1,
            lanes: 1,
            barriers: tiles,
            invocations: tiles * tile * (tile / u64::from(config.rows.max(1))),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Transpose, config: TiledConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let planes = Planes::new(problem).ok_or_else(wrong)?;
        let groups = legal(problem, config, writer.adapter).ok_or_else(wrong)?;
        let constants = [("TILE", config.tile), ("ROWS", config.rows), ("PAD", config.pad)];
        writer.program.push(Dispatch {
            text: of_planes(problem, 1, include_str!("tiled.wgsl")).into(),
            constants: constants.map(|(name, value)| (name, f64::from(value))).to_vec(),
            needs: needs(problem),
            workgroup: [config.tile, config.tile / config.rows, 1],
            workgroup_bytes: bytes(problem, config) as u32,
            groups,
            bindings: bindings(),
            params: planes.params(1, [config.tile, config.tile]),
        });
        Ok(())
    }
}

fn bytes(problem: &Transpose, config: TiledConfig) -> u64 {
    u64::from(config.tile) * u64::from(config.tile + config.pad) * problem.dtype.size()
}

/// The workgroups of a setting, or `None` where the adapter does not take it.
fn legal(problem: &Transpose, config: TiledConfig, adapter: &AdapterFacts) -> Option<[u32; 3]> {
    let TiledConfig { tile, rows, pad } = config;
    if !(1..=32).contains(&tile) || rows == 0 || tile % rows != 0 || pad > 1 {
        return None;
    }
    let lines = tile / rows;
    let fits = tile * lines <= adapter.max_invocations
        && tile <= adapter.max_workgroup[0]
        && lines <= adapter.max_workgroup[1]
        && bytes(problem, config) <= adapter.workgroup_memory.0;
    let count = Planes::new(problem)?.blocks(tile.into(), tile.into())[2];
    spread_groups(count, adapter).filter(|_| fits)
}
