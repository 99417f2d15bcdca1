//! As [`implicit`](super::implicit), with panels of 16-bit floats, as products have them in `matmul/halves.rs`: for callers who tolerate that an f32
//! keeps eleven bits. Numbers that 16 bits do not hold are found, and such a round is computed from operand and weights themselves.

use super::implicit::{ImplicitConfig, ImplicitKernel, Keeping, find, main, write};
use crate::kernels::adapter_with;
use crate::kernels::matmul::halves::{HALVES, KEPT, KEPT_BYTES, NEEDS};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{Conv, DType, Decline, DeviceFacts, LaunchError, Variant, Work};

/// As of a product, 2.0e-3 of what is added up; gelu makes at most 1.13 times as much of it.
const ERROR: f64 = 2.4e-3;

/// See the module.
#[derive(Debug)]
pub struct HalfWindows;

impl Variant<Gpu> for HalfWindows {
    type Problem = Conv;
    type Config = ImplicitConfig;

    identity!("gpu.conv.halves", Tiled);

    fn declines(&self, problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
        if problem.dtype != DType::F32 {
            return Some(Decline::from(format!("cuts f32 to 16 bits, not {}", problem.dtype)));
        }
        adapter_with(NEEDS, device).err().or_else(|| ImplicitKernel.declines(problem, device))
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<ImplicitConfig> {
        if self.declines(problem, device).is_some() {
            return Vec::new();
        }
        // Panels are smaller: what fits there fits here. A round that is read from memory goes step by step, so that rounds were counted as such.
        let mut configs = ImplicitKernel.configs(problem, device);
        configs.retain(|config| config.unroll == 1);
        configs
    }

    fn work(&self, problem: &Conv, config: ImplicitConfig, device: &DeviceFacts) -> Work {
        Work { error: ERROR, ..ImplicitKernel.work(problem, config, device) }
    }

    fn launch(&self, problem: &Conv, config: ImplicitConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        if !config.is_sound() || config.unroll != 1 || problem.dtype != DType::F32 {
            return Err(wrong());
        }
        let groups = config.groups(problem, writer.adapter).ok_or_else(wrong)?;
        if problem.out_len() == 0 {
            return Ok(());
        }
        let keeping = Keeping {
            four: "vec4<f16>",
            panels: HALVES,
            functions: format!("{KEPT}\n{}", window_at(problem)),
            begin: include_str!("halves_begin.wgsl"),
            turn: "        let turn = first / BK + 1u;\n",
            steps: include_str!("halves_steps.wgsl").replace("$WHOLE", &whole(config)),
        };
        let bytes = (config.bm + config.bn) * config.bk * 2 + KEPT_BYTES;
        write(problem, config, (main(problem, config, &keeping), bytes, NEEDS), groups, writer);
        Ok(())
    }
}

/// The element of a place's window, or zero where that is padding.
fn window_at(problem: &Conv) -> String {
    include_str!("halves_window.wgsl").replace("$FIND", find(problem))
}

/// The inner step `at`, read from operand and weights.
fn whole(config: ImplicitConfig) -> String {
    let mut text = String::new();
    for row in 0..config.tm {
        let line = format!("first_row + (local.y + {}u * WY) * 4u + {}u", row / 4, row % 4);
        let _ = writeln!(
            text,
            "                let a{row} = A(weights[(group_number * params[0].x + min({line}, params[0].x - 1u)) * inner + at]);"
        );
    }
    for four in 0..config.tn / 4 {
        let first = format!("first_column + (local.x + {four}u * WX) * 4u");
        let parts = [0, 1, 2, 3].map(|part| format!("window_at({first} + {part}u, at, group_number)"));
        let _ = writeln!(text, "                let b{four} = vec4<A>({});", parts.join(", "));
        for row in 0..config.tm {
            let _ = writeln!(text, "                c{row}_{four} += a{row} * b{four};");
        }
    }
    text
}
