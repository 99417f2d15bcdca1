//! As [`blocked`](super::blocked), with panels of 16-bit floats: half the workgroup memory and half of what is read from it. Sums are f32.
//! For callers who tolerate that an f32 keeps eleven bits.
//!
//! **Error.** A factor is off by 2⁻¹⁰ of itself at most (WGSL does not say in which direction it is rounded), so a product by 2⁻⁹ of its size
//! and a little. Numbers that 16 bits hold less exactly, or not at all, are found while panels are filled: such a round is computed from the
//! operands themselves.

use super::blocked::{BlockedConfig, BlockedKernel, Panels, column, row, text};
use super::layout::{Layout, Shape, Vectors};
use super::registers::Side;
use crate::kernels::adapter_with;
use crate::program::{Gpu, Launched, Needs, Writer};
use std::fmt::Write as _;
use trimtab_core::{DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

/// What is stated of a product's size, see the module.
const ERROR: f64 = 2.1e-3;

/// Beside an `f32` of the problem's.
pub(crate) const NEEDS: Needs = Needs { f16: true, ..Needs::of(DType::F32) };
/// Keeps four numbers, and finds those that 16 bits do not hold.
pub(crate) const KEPT: &str = include_str!("../halves.wgsl");
/// Workgroup memory that takes besides.
pub(crate) const KEPT_BYTES: u32 = 4;

/// Panels are kept 256 times as large, so that small numbers keep their digits; one side is made as small again as both together were large.
pub(crate) const HALVES: Panels = Panels {
    kept: |four| format!("kept({four}, turn)"),
    read: |panel, four| match panel {
        "left" => format!("vec4<A>({four}) * 0.0000152587890625"),
        _ => format!("vec4<A>({four})"),
    },
};

/// See the module.
#[derive(Debug)]
pub struct HalvesKernel;

/// Bytes of both panels, and of a word.
fn workgroup_bytes(config: BlockedConfig) -> u32 {
    (config.bm + config.bn) * config.bk * 2 + KEPT_BYTES
}

impl Variant<Gpu> for HalvesKernel {
    type Problem = Matmul;
    type Config = BlockedConfig;

    identity!("gpu.matmul.halves", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        if problem.dtype != DType::F32 {
            return Some(Decline::from(format!("cuts f32 to 16 bits, not {}", problem.dtype)));
        }
        adapter_with(NEEDS, device).err().or_else(|| BlockedKernel.declines(problem, device))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<BlockedConfig> {
        match self.declines(problem, device) {
            // Panels are smaller: what fits there fits here.
            None => BlockedKernel.configs(problem, device),
            Some(_) => Vec::new(),
        }
    }

    fn work(&self, problem: &Matmul, config: BlockedConfig, device: &DeviceFacts) -> Work {
        Work { error: ERROR, ..BlockedKernel.work(problem, config, device) }
    }

    fn launch(&self, problem: &Matmul, config: BlockedConfig, writer: Writer<'_>) -> Launched {
        if !config.is_sound() || problem.dtype != DType::F32 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let vectors = if config.vector == 4 { layout.vectors() } else { Vectors::NONE };
        let body = include_str!("halves.wgsl")
            .replace("$KEPT", KEPT)
            .replace("$WHOLE", &whole(problem, config, vectors));
        let shape = Shape {
            text: text(problem, config, vectors, &body, HALVES),
            constants: config.constants(),
            subgroups: false,
            workgroup: config.workgroup(),
            workgroup_bytes: workgroup_bytes(config),
            tile: [config.bm, config.bn],
        };
        let Writer { adapter, program } = writer;
        layout.write(shape, Writer { adapter, program: &mut *program })?;
        program.steps.iter_mut().for_each(|step| step.needs = NEEDS);
        Ok(())
    }
}

/// The inner step `at`, read from the operands.
fn whole(problem: &Matmul, config: BlockedConfig, vectors: Vectors) -> String {
    let [left, right] = Side::both(problem, vectors);
    let mut text = String::new();
    for at in 0..config.tm {
        let _ = writeln!(text, "                let a{at} = {};", element(left, &row(at)));
    }
    for four in 0..config.tn / 4 {
        let parts = [0, 1, 2, 3].map(|part| element(right, &format!("{} + {part}u", column(four))));
        let _ = writeln!(text, "                let b{four} = vec4<A>({});", parts.join(", "));
        for row in 0..config.tm {
            let _ = writeln!(text, "                c{row}_{four} += a{row} * b{four};");
        }
    }
    text
}

/// One element of a line; those behind the last stand for it and are never written.
fn element(side: Side, line: &str) -> String {
    let Side { buffer, start, last, line_step, inner_step, vector, .. } = side;
    let index = format!("{start} + min({line}, {last} - 1u) * {line_step} + at * {inner_step}");
    match vector {
        true => format!("{buffer}[({index}) / 4u][({index}) % 4u]"),
        false => format!("{buffer}[{index}]"),
    }
}
