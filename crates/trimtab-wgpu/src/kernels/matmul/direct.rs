//! A block of results an invocation, straight from memory into registers: no workgroup memory and no barrier, which is
//! what software adapters want; on the others the caches have to do what workgroup memory does.

use super::layout::{Layout, Shape, Vectors, head, worthwhile};
use super::registers::{Block, PARTS, fours_along_inner, inner_in_a_row};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{AdapterClass, Bytes, Decline, DeviceFacts, Flops, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Invocations of a workgroup along a row and a column, rows and columns an invocation computes, inner steps a round,
    /// and elements a load where the layout allows.
    pub struct DirectConfig { wx, wy, tm, tn, unroll, vector }
}

/// See the module.
#[derive(Debug)]
pub struct DirectKernel;

impl DirectConfig {
    fn tile(self) -> [u32; 2] {
        [self.wy * self.tm, self.wx * self.tn]
    }

    fn vectors(self, layout: &Layout, problem: &Matmul) -> Vectors {
        let mut vectors = if self.vector == 4 { layout.vectors() } else { Vectors::NONE };
        // Four in a row along a side of the block: the block must be made of fours.
        vectors.lhs &= !problem.lhs.transposed || self.tm.is_multiple_of(4);
        vectors
    }

    fn is_sound(self) -> bool {
        let block = matches!(self.tm, 1 | 2 | 4 | 8) && matches!(self.tn, 4 | 8 | 16);
        let round = matches!(self.unroll, 1 | 4 | 8) && matches!(self.vector, 1 | 4);
        block && round && (1..=1024).contains(&self.wx) && (1..=1024).contains(&self.wy)
    }
}

impl Variant<Gpu> for DirectKernel {
    type Problem = Matmul;
    type Config = DirectConfig;

    identity!("gpu.matmul.direct", Vectorized);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        Layout::on(problem, device).err()
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<DirectConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        let vector = if layout.vectors() == Vectors::NONE { 1 } else { 4 };
        // On software, Gflop/s of processor time at 64³ and 256³: 8×8 4.4 and 8.6, 4×8 3.7 and 6.5.
        let ([wx, wy], [tm, tn]) = match adapter.class {
            AdapterClass::Software if problem.m >= 64 && problem.n >= 64 => ([16, 1], [8, 8]),
            AdapterClass::Software => ([16, 1], [4, 8]),
            _ => ([8, 8], [4, 4]),
        };
        let few_rows = |tm: u32| if problem.m >= 4 { tm } else { 1 };
        let default = DirectConfig { wx, wy, tm: few_rows(tm), tn, unroll: 4, vector };
        // The first few are all a small product gets: as different as can be.
        let high = DirectConfig { tm: 8, tn: 4, unroll: 8, ..default };
        let mut configs =
            vec![default, high, DirectConfig { tm: few_rows(4), tn: 4, unroll: 1, vector: 1, ..default }];
        for [wx, wy] in [[16, 1], [64, 1], [8, 8], [16, 16]] {
            for [tm, tn] in [[4, 8], [4, 4], [8, 4], [8, 8], [2, 8], [1, 8], [1, 16]] {
                configs.push(DirectConfig { wx, wy, tm, tn, unroll: 4, vector });
                // Longer rounds take long to build, 8×8 by eight steps up to a second, and win little.
                if tm * tn == 32 && wx == 16 {
                    configs.push(DirectConfig { wx, wy, tm, tn, unroll: 8, vector });
                }
            }
        }
        let mut seen = Vec::new();
        configs.retain(|config| {
            let DirectConfig { wx, wy, tm, tn, unroll, vector } = *config;
            let vectors = config.vectors(&layout, problem);
            let twin = vector == 4 && vectors == Vectors::NONE || seen.contains(config);
            seen.push(*config);
            // Blocks twice as high as the product or twice as wide, and rounds behind the inner axis, only idle; low blocks
            // are for low products.
            let idle = tm > 1 && u64::from(tm / 2) >= problem.m
                || tn > 4 && u64::from(tn / 2) >= problem.n
                || wy > 8 && u64::from(wy * tm / 2) >= problem.m
                || wx > 16 && u64::from(wx * tn / 2) >= problem.n
                || unroll == 8 && problem.k < 8
                || tm < 4 && problem.m >= 8;
            let legal = layout.fits(adapter, [wx, wy, 1], 0, config.tile());
            legal && !twin && (*config == default || !idle)
        });
        worthwhile(problem, configs)
    }

    fn work(&self, problem: &Matmul, config: DirectConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let (_, largest, launches) = layout.groups(config.tile());
        // Every block reads its rows of lhs and its columns of rhs.
        let blocks = problem.m.div_ceil(config.tm.into()) * problem.n.div_ceil(config.tn.into());
        let walked = blocks * problem.k * u64::from(config.tm + config.tn) + problem.m * problem.n;
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(walked.saturating_mul(problem.batch).saturating_mul(problem.dtype.size())),
            launches,
            threads: 1,
            lanes: 4,
            invocations: largest * u64::from(config.wx * config.wy),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Matmul, config: DirectConfig, writer: Writer<'_>) -> Launched {
        let layout = Layout::of_launch(problem, &writer)?;
        let vectors = config.vectors(&layout, problem);
        if !config.is_sound() || fours_along_inner(problem, vectors) && config.unroll < 4 {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let shape = Shape {
            text: text(problem, config, vectors),
            constants: vec![("WX", config.wx.into()), ("WY", config.wy.into())],
            subgroups: false,
            workgroup: [config.wx, config.wy, 1],
            workgroup_bytes: 0,
            tile: config.tile(),
        };
        layout.write(shape, writer)
    }
}

fn text(problem: &Matmul, config: DirectConfig, vectors: Vectors) -> String {
    let DirectConfig { wy, tm, tn, unroll, .. } = config;
    let block = Block { rows: tm, columns: tn };
    // Workgroups of one row let compilers see that all their invocations read the same of lhs: one load instead of eight.
    let first_row = match wy {
        1 => format!("tile.row * {tm}u"),
        _ => format!("(tile.row * WY + local.y) * {tm}u"),
    };
    let tail = match unroll {
        1 => String::new(),
        // Fours along the inner axis come out even.
        _ if fours_along_inner(problem, vectors) && unroll == 4 => String::new(),
        _ if fours_along_inner(problem, vectors) => {
            format!("    for (; at < inner; at += 4u) {{\n{}    }}\n", round(problem, config, vectors, 4))
        }
        _ => format!("    for (; at < inner; at += 1u) {{\n{}    }}\n", round(problem, config, vectors, 1)),
    };
    let row = |row: u32| format!("(first_row + {row}u)");
    let column = |four: u32| format!("(first_column + {}u)", 4 * four);
    head(problem.dtype, vectors)
        + &include_str!("direct.wgsl")
            .replace("$FIRST_ROW", &first_row)
            .replace("$TN", &tn.to_string())
            .replace("$UNROLL", &unroll.to_string())
            .replace("$STARTS", &(starts(problem, config, vectors) + &block.declared()))
            .replace("$ROUND", &round(problem, config, vectors, unroll))
            .replace("$TAIL", &tail)
            .replace("$STORES", &block.stored(vectors.product, row, column))
}

/// Where the block's rows and columns begin, as elements of the buffers; of four at once where they are loaded so.
fn starts(problem: &Matmul, config: DirectConfig, vectors: Vectors) -> String {
    let mut text = String::new();
    let left_fours = vectors.lhs && problem.lhs.transposed;
    for row in (0..config.tm).step_by(if left_fours { 4 } else { 1 }) {
        let last = if left_fours { 4 } else { 1 };
        let step = if problem.lhs.transposed { "" } else { " * params[3].x" };
        let _ = writeln!(text, "    let l{row} = tile.left + min(first_row + {row}u, rows - {last}u){step};");
    }
    let right_fours = vectors.rhs && !problem.rhs.transposed;
    for column in (0..config.tn).step_by(if right_fours { 4 } else { 1 }) {
        let last = if right_fours { 4 } else { 1 };
        let step = if problem.rhs.transposed { " * params[3].w" } else { "" };
        let _ = writeln!(
            text,
            "    let r{column} = tile.right + min(first_column + {column}u, columns - {last}u){step};"
        );
    }
    text
}

/// So many inner steps from `at` on.
fn round(problem: &Matmul, config: DirectConfig, vectors: Vectors, steps: u32) -> String {
    let [left_inner, right_inner] = inner_in_a_row(problem);
    let mut text = String::new();
    // Four steps of lhs and rhs at a time where they lie in a row, one otherwise.
    for step in 0..steps {
        let part = PARTS[(step % 4) as usize];
        let begins = step % 4 == 0;
        for row in 0..config.tm {
            let _ = match (vectors.lhs, left_inner) {
                (true, true) if begins => {
                    writeln!(text, "        let a{row}_{step}v = vec4<A>(lhs[(l{row} + at + {step}u) / 4u]);")
                }
                (true, false) if row % 4 == 0 => writeln!(
                    text,
                    "        let a{row}_{step}v = vec4<A>(lhs[(l{row} + (at + {step}u) * params[3].y) / 4u]);"
                ),
                (true, _) => Ok(()),
                (false, true) => writeln!(text, "        let a{row}_{step} = A(lhs[l{row} + at + {step}u]);"),
                (false, false) => writeln!(
                    text,
                    "        let a{row}_{step} = A(lhs[l{row} + (at + {step}u) * params[3].y]);"
                ),
            };
        }
        for column in 0..config.tn {
            let _ = match (vectors.rhs, right_inner) {
                (true, true) if begins => writeln!(
                    text,
                    "        let b{column}_{step}v = vec4<A>(rhs[(r{column} + at + {step}u) / 4u]);"
                ),
                (true, false) if column % 4 == 0 => writeln!(
                    text,
                    "        let b{column}_{step}v = vec4<A>(rhs[(r{column} + (at + {step}u) * params[3].z) / 4u]);"
                ),
                (true, _) => Ok(()),
                (false, true) => {
                    writeln!(text, "        let b{column}_{step} = A(rhs[r{column} + at + {step}u]);")
                }
                (false, false) => writeln!(
                    text,
                    "        let b{column}_{step} = A(rhs[r{column} + (at + {step}u) * params[3].z]);"
                ),
            };
        }
        let left = |row: u32| match (vectors.lhs, left_inner) {
            (true, true) => format!("a{row}_{}v.{part}", step / 4 * 4),
            (true, false) => format!("a{}_{step}v.{}", row / 4 * 4, PARTS[(row % 4) as usize]),
            (false, _) => format!("a{row}_{step}"),
        };
        let right = |four: u32| match (vectors.rhs, right_inner) {
            (true, false) => format!("b{}_{step}v", 4 * four),
            (true, true) => {
                let parts =
                    [0, 1, 2, 3].map(|column| format!("b{}_{}v.{part}", 4 * four + column, step / 4 * 4));
                format!("vec4<A>({})", parts.join(", "))
            }
            (false, _) => {
                let parts = [0, 1, 2, 3].map(|column| format!("b{}_{step}", 4 * four + column));
                format!("vec4<A>({})", parts.join(", "))
            }
        };
        for four in 0..config.tn / 4 {
            let _ = writeln!(text, "        let b{step}_four{four} = {};", right(four));
            for row in 0..config.tm {
                let _ = writeln!(text, "        c{row}_{four} += {} * b{step}_four{four};", left(row));
            }
        }
    }
    text
}
