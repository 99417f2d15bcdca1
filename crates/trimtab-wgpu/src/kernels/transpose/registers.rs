//! Blocks moved by one invocation each, without workgroup memory or barriers: through registers in squares of four, or
//! element by element where rows are not whole vectors. Blocks stay in the first cache, which is what software adapters have.

use super::{Planes, bindings, declines_planes, is_software, needs, of_planes};
use crate::kernels::in_a_row;
use crate::program::{Gpu, Launched, Writer, spread_groups};
use trimtab_core::{AdapterFacts, Bytes, DType, Decline, DeviceFacts, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements of a block along the operand's and along the result's last axis, and
    /// elements of a vector.
    pub struct RegistersConfig { workgroup, wide, high, vector }
}

/// See the module.
#[derive(Debug)]
pub struct RegistersKernel;

impl Variant<Gpu> for RegistersKernel {
    type Problem = Transpose;
    type Config = RegistersConfig;

    identity!("gpu.transpose.registers", Vectorized);

    fn declines(&self, problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
        declines_planes(problem, device)
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<RegistersConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        let Some(planes) = Planes::new(problem) else { return Vec::new() };
        let most = adapter.max_invocations.min(adapter.max_workgroup[0]);
        // On lavapipe (loaded) 4096 x 4096 took 62 to 85 ms in blocks of 32, 68 ms of 16, 85 ms of 8, 283 ms at worst.
        let side = match planes.wide.size.min(planes.high.size) {
            _ if !is_software(adapter) => 4,
            least if least >= 512 => 32,
            _ => 8,
        };
        let workgroup = if is_software(adapter) { 32 } else { 64 };
        let mut configs = Vec::new();
        for vector in [4, 1].into_iter().filter(|&vector| fits(problem, &planes, vector)) {
            let settings = |workgroup, wide, high| RegistersConfig { workgroup, wide, high, vector };
            configs.push(settings(workgroup, side, side));
            for workgroup in [32, 8, 64, 256] {
                let blocks = [(4, 4), (8, 8), (4, 16), (16, 4), (16, 16), (32, 32)];
                configs.extend(blocks.map(|(wide, high)| settings(workgroup, wide, high)));
            }
        }
        // What is longer than an axis does what the axis's own length does: one such length is enough.
        let longer = |side: u32, size: u64| side > 4 && u64::from(side / 2) >= size;
        configs.retain(|config| {
            let sensible = !longer(config.wide, planes.wide.size) && !longer(config.high, planes.high.size);
            config.workgroup <= most && sensible && groups(&planes, *config, adapter).is_some()
        });
        if configs.is_empty() {
            configs.push(RegistersConfig { workgroup: most.min(8), wide: 4, high: 4, vector: 1 });
        }
        configs
    }

    fn work(&self, problem: &Transpose, config: RegistersConfig, _: &DeviceFacts) -> Work {
        let (wide, high) = (u64::from(config.wide.max(1)), u64::from(config.high.max(1)));
        let blocks = Planes::new(problem).map_or(0, |planes| planes.blocks(wide, high)[2]);
        Work {
            bytes: Bytes(problem.len().saturating_mul(2 * problem.dtype.size())),
            launches: u32::from(blocks > 0),
            threads: 1,
            lanes: config.vector,
            invocations: blocks.next_multiple_of(u64::from(config.workgroup.max(1))),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Transpose, config: RegistersConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let RegistersConfig { workgroup, wide, high, vector } = config;
        let planes = Planes::new(problem).ok_or_else(wrong)?;
        let known = fits(problem, &planes, vector);
        if !known || workgroup == 0 || wide == 0 || high == 0 || wide % vector != 0 || high % vector != 0 {
            return Err(wrong());
        }
        let groups = groups(&planes, config, writer.adapter).ok_or_else(wrong)?;
        let params = planes.params(vector, [wide, high]);
        let text = text(problem, vector).into();
        writer.program.push(in_a_row(text, workgroup, groups, needs(problem), bindings(), params));
        Ok(())
    }
}

/// Whether both axes, and so all strides but those of the two, are whole vectors.
fn fits(problem: &Transpose, planes: &Planes, vector: u32) -> bool {
    let four = problem.dtype != DType::F64
        && planes.wide.size.is_multiple_of(4)
        && planes.high.size.is_multiple_of(4);
    vector == 1 || (vector == 4 && four)
}

/// The workgroups of a setting, or `None` where the adapter does not hold them.
fn groups(planes: &Planes, config: RegistersConfig, adapter: &AdapterFacts) -> Option<[u32; 3]> {
    let blocks = planes.blocks(config.wide.into(), config.high.into())[2];
    spread_groups(blocks.div_ceil(config.workgroup.into()), adapter)
}

/// The text for vectors of that length: how one square is moved is all that differs.
fn text(problem: &Transpose, vector: u32) -> String {
    let moves = match vector {
        1 => "result[block.to_base + x * params[1].y + y] = operand[block.from_base + y * params[1].x + x];"
            .to_string(),
        // The strides of the two axes are those of elements, which here are vectors: a row of a square is one apart from
        // the next by a quarter of four strides.
        _ => {
            let mut moves = String::from(
                "let first = block.from_base + y * params[1].x + x;
            let target_first = block.to_base + x * params[1].y + y;\n",
            );
            for row in 0..4 {
                moves.push_str(&format!(
                    "            let row{row} = operand[first + {row}u * (params[1].x / 4u)];\n"
                ));
            }
            for (column, lane) in ["x", "y", "z", "w"].iter().enumerate() {
                moves.push_str(&format!(
                    "            result[target_first + {column}u * (params[1].y / 4u)] = V(row0.{lane}, row1.{lane}, row2.{lane}, row3.{lane});\n"
                ));
            }
            moves
        }
    };
    of_planes(problem, vector, &include_str!("registers.wgsl").replace("MOVE", &moves))
}
