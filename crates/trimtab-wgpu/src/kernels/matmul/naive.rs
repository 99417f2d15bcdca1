//! One result an invocation, straight from memory: takes every layout, keeps nothing but a sum.

use super::layout::{Layout, Shape, Vectors, shader, worthwhile};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{AdapterClass, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup along a row and along a column of the product, and inner steps a round.
    pub struct NaiveConfig { wx, wy, unroll }
}

/// Workgroups, in the order they are tried.
const WORKGROUPS: [[u32; 2]; 6] = [[16, 16], [8, 8], [32, 8], [64, 1], [256, 1], [32, 32]];

/// See the module.
#[derive(Debug)]
pub struct NaiveKernel;

impl Variant<Gpu> for NaiveKernel {
    type Problem = Matmul;
    type Config = NaiveConfig;

    identity!("gpu.matmul.naive", Parallel);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        Layout::on(problem, device).err()
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<NaiveConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        let default = match adapter.class {
            AdapterClass::Software => [64, 1],
            _ => [16, 16],
        };
        let sizes = std::iter::once(default).chain(WORKGROUPS.into_iter().filter(|&size| size != default));
        // Longer rounds cost a tenth on software.
        let unrolls = if adapter.class == AdapterClass::Software { [1, 4] } else { [4, 1] };
        let with = |[wx, wy]: [u32; 2]| unrolls.map(|unroll| NaiveConfig { wx, wy, unroll });
        let legal = |NaiveConfig { wx, wy, unroll }: NaiveConfig| {
            u64::from(unroll) <= problem.k.max(1) && layout.fits(adapter, [wx, wy, 1], 0, [wy, wx])
        };
        // More than twice as many invocations as there are results along an axis only idle.
        let longer = |side: u32, length: u64| side > 8 && u64::from(side / 2) >= length;
        let idle = |NaiveConfig { wx, wy, .. }: NaiveConfig| {
            [wx, wy] != default && (longer(wx, problem.n) || longer(wy, problem.m))
        };
        worthwhile(problem, sizes.flat_map(with).collect(), legal, idle)
    }

    fn work(&self, problem: &Matmul, config: NaiveConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        // Every inner product walks a row and a column anew.
        let walked = 2 * problem.m * problem.k * problem.n + problem.m * problem.n;
        layout.work([config.wy, config.wx], walked, [config.wx, config.wy, 1], 1, 0)
    }

    fn launch(&self, problem: &Matmul, config: NaiveConfig, writer: Writer<'_>) -> Launched {
        let NaiveConfig { wx, wy, unroll } = config;
        if wx == 0 || wy == 0 || !(1..=16).contains(&unroll) {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let mut steps = String::new();
        for step in 0..unroll {
            let _ = writeln!(
                steps,
                "        sum += A(lhs[left + {step}u * left_step]) * A(rhs[right + {step}u * right_step]);"
            );
        }
        let _ = writeln!(
            steps,
            "        left += {unroll}u * left_step;\n        right += {unroll}u * right_step;"
        );
        let text =
            include_str!("naive.wgsl").replace("$UNROLL", &unroll.to_string()).replace("$STEPS", &steps);
        let shape = Shape {
            text: shader(problem.dtype, Vectors::NONE, &text),
            constants: vec![("WX", wx.into()), ("WY", wy.into())],
            subgroups: false,
            workgroup: [wx, wy, 1],
            workgroup_bytes: 0,
            tile: [wy, wx],
        };
        layout.write(shape, writer)
    }
}
