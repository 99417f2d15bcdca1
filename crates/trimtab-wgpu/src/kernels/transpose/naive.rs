//! Any permutation, element by element: an invocation finds its first position by division and goes on by adding digits.

use super::{Axis, axes, bindings, declines, is_software, moved_as, needs};
use crate::kernels::elementwise::digits::{advance, digits, step_digits};
use crate::kernels::elementwise::walk::{Walk, choices};
use crate::program::{Dispatch, Gpu, Launched, Writer};
use std::borrow::Cow;
use trimtab_core::{Bytes, Decline, DeviceFacts, Flops, LaunchError, Transpose, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup, elements an invocation moves, the order of the items (0 the grid apart, 1 one after
    /// the other), and whether neighbours are neighbours in the result (1) or in the operand (0).
    pub struct NaiveConfig { workgroup, items, order, gather }
}

/// See the module.
#[derive(Debug)]
pub struct NaiveKernel;

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
        let choices = choices(problem.len(), adapter);
        let of_side = |&gather: &u32| {
            choices.iter().map(move |choice| NaiveConfig {
                workgroup: choice.workgroup,
                items: choice.items,
                order: choice.order,
                gather,
            })
        };
        sides.iter().flat_map(of_side).collect()
    }

    fn work(&self, problem: &Transpose, config: NaiveConfig, _: &DeviceFacts) -> Work {
        let len = problem.len();
        let per_group = u64::from(config.workgroup) * u64::from(config.items);
        Work {
            // The digits (three operations an axis) and both offsets (two operations an axis each).
            flops: Flops(len.saturating_mul(7 * problem.dims().len() as u64)),
            bytes: Bytes(len.saturating_mul(2 * problem.dtype.size())),
            launches: u32::from(len > 0),
            threads: 1,
            lanes: 1,
            invocations: len.div_ceil(per_group.max(1)) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Transpose, config: NaiveConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        if config.workgroup == 0 || config.items == 0 || config.gather > 1 {
            return Err(wrong());
        }
        if problem.is_empty() {
            return Ok(());
        }
        let walk = Walk::new(problem.len(), config.workgroup, config.items, config.order, writer.adapter);
        let walk = walk.ok_or_else(wrong)?;
        let mut axes: Vec<Axis> = axes(problem);
        if config.gather == 0 {
            axes.sort_by_key(|axis| std::cmp::Reverse(axis.from));
        }
        let sizes: Vec<u64> = axes.iter().map(|axis| axis.size).collect();
        let mut params = walk.params(problem.len() as u32);
        for (axis, digit) in axes.iter().zip(step_digits(&sizes, walk.step)) {
            params.extend([axis.size as u32, axis.from as u32, axis.to as u32, digit]);
        }
        writer.program.push(Dispatch {
            text: Cow::Owned(text(problem, axes.len())),
            constants: vec![("WIDTH", f64::from(config.workgroup))],
            needs: needs(problem),
            workgroup: [config.workgroup, 1, 1],
            workgroup_bytes: 0,
            groups: walk.groups,
            bindings: bindings(),
            params,
        });
        Ok(())
    }
}

fn text(problem: &Transpose, rank: usize) -> String {
    let sum = |part: &str| {
        let term = |axis: usize| format!("digit{axis} * params[{}].{part}", axis + 2);
        (0..rank).map(term).collect::<Vec<_>>().join(" + ")
    };
    let main = include_str!("naive.wgsl")
        .replace("ROWS", &(rank + 2).to_string())
        .replace("DIGITS", &digits(rank))
        .replace("ADVANCE", &advance(rank))
        .replace("FROM", &sum("y"))
        .replace("TO", &sum("z"));
    format!("alias T = {};\n{main}", moved_as(problem.dtype))
}
