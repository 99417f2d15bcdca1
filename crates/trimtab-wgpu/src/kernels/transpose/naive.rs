//! Any permutation, element by element: an invocation finds its first position by division and goes on by adding digits.

use super::{axes, bindings, declared, declines, is_software, needs};
use crate::kernels::elementwise::digits::offset;
use crate::kernels::elementwise::walk::{self, Walk, WalkConfig, choices};
use crate::program::{Gpu, Launched, Writer};
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements an invocation moves, the order of the items (0 the grid apart, 1 one after
    /// the other), and whether neighbours are neighbours in the result (1) or in the operand (0).
    pub struct NaiveConfig { workgroup, items, order, gather }
}

/// See the module.
#[derive(Debug)]
pub struct NaiveKernel;

impl NaiveConfig {
    fn walk(self) -> WalkConfig {
        let NaiveConfig { workgroup, items, order, .. } = self;
        WalkConfig { workgroup, items, vector: 1, order }
    }
}

impl Variant<Gpu> for NaiveKernel {
    type Problem = Transpose;
    type Config = NaiveConfig;

    identity!("gpu.transpose.naive", Parallel);

    fn declines(&self, problem: &Transpose, device: &DeviceFacts) -> Option<Decline> {
        declines(problem, device)
    }

    fn configs(&self, problem: &Transpose, device: &DeviceFacts) -> Vec<NaiveConfig> {
        let Some(adapter) = device.adapter.as_deref() else { return Vec::new() };
        // Where nothing moves both sides are the same.
        let sides: &[u32] = match problem.dims().len() {
            1 => &[1],
            _ if is_software(adapter) => &[0, 1],
            _ => &[1, 0],
        };
        let choices = choices(problem.len(), 1, adapter);
        let mut configs = Vec::new();
        for &gather in sides {
            configs.extend(choices.iter().map(|choice| {
                let WalkConfig { workgroup, items, order, .. } = *choice;
                NaiveConfig { workgroup, items, order, gather }
            }));
        }
        configs
    }

    fn work(&self, problem: &Transpose, config: NaiveConfig, _: &DeviceFacts) -> Work {
        let len = problem.len();
        Work {
            // The digits (three operations an axis) and both offsets (two operations an axis each).
            flops: Flops(len.saturating_mul(7 * problem.dims().len() as u64)),
            bytes: Bytes(len.saturating_mul(2 * problem.dtype.size())),
            launches: u32::from(len > 0),
            threads: 1,
            lanes: 1,
            invocations: config.walk().invocations(len),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Transpose, config: NaiveConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        let walk = Walk::new(problem.len(), config.walk(), writer.adapter).filter(|_| config.gather <= 1);
        let walk = walk.ok_or_else(wrong)?;
        if problem.is_empty() {
            return Ok(());
        }
        let mut axes = axes(problem);
        if config.gather == 0 {
            axes.sort_by_key(|axis| std::cmp::Reverse(axis.from));
        }
        let axes: Vec<[u64; 3]> = axes.iter().map(|axis| [axis.size, axis.from, axis.to]).collect();
        let (from, to) = (offset(axes.len(), "y"), offset(axes.len(), "z"));
        let main = walk::text(axes.len(), "", &format!("result[{to}] = operand[{from}]"));
        let text = declared(problem, 1) + &main;
        writer.program.push(walk.dispatch(text.into(), needs(problem), bindings(), &axes));
        Ok(())
    }
}
