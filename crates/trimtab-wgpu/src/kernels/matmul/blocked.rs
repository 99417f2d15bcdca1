//! A block of the product a workgroup, a smaller one in the registers of each invocation, panels of both operands in
//! workgroup memory: what GPUs want.

use super::layout::{Layout, Shape, Vectors, shader, sum_bytes, too_narrow, worthwhile};
use super::registers::{Block, PARTS, Side};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{AdapterClass, DType, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

trimtab_core::config! {
    /// Rows, columns and inner steps of a workgroup's block, rows and columns of an invocation's, inner steps a round, and
    /// elements a load where the layout allows.
    pub struct BlockedConfig { bm, bn, bk, tm, tn, unroll, vector }
}

/// Blocks of a workgroup and of an invocation: bm, bn, tm, tn. Squares of growing size, then oblong ones.
const BLOCKS: [[u32; 4]; 6] =
    [[64, 64, 4, 4], [32, 32, 4, 4], [64, 64, 8, 8], [128, 64, 8, 8], [128, 128, 8, 8], [32, 128, 4, 8]];

/// Below this most of a tile stands for nothing.
const LEAST_SIDE: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct BlockedKernel;

impl BlockedConfig {
    fn of([bm, bn, bk, tm, tn, unroll]: [u32; 6], vector: u32) -> BlockedConfig {
        BlockedConfig { bm, bn, bk, tm, tn, unroll, vector }
    }

    pub(super) fn workgroup(self) -> [u32; 3] {
        [self.bn / self.tn, self.bm / self.tm, 1]
    }

    pub(super) fn constants(self) -> Vec<(&'static str, f64)> {
        let [wx, wy, _] = self.workgroup();
        let named = [("BM", self.bm), ("BN", self.bn), ("BK", self.bk), ("WX", wx), ("WY", wy)];
        named.map(|(name, value)| (name, value.into())).to_vec()
    }

    fn workgroup_bytes(self, dtype: DType) -> u32 {
        (self.bm + self.bn) * self.bk * sum_bytes(dtype)
    }

    pub(super) fn is_sound(self) -> bool {
        let block = matches!(self.tm, 4 | 8) && matches!(self.tn, 4 | 8);
        let round = matches!(self.unroll, 1 | 2 | 4 | 8) && matches!(self.vector, 1 | 4);
        let sides = [self.bm, self.bn].iter().all(|side| (4..=512).contains(side));
        block
            && round
            && sides
            && self.bm.is_multiple_of(self.tm)
            && self.bn.is_multiple_of(self.tn)
            && (4..=128).contains(&self.bk)
            && self.bk.is_multiple_of(4)
            && self.bk.is_multiple_of(self.unroll)
    }
}

impl Variant<Gpu> for BlockedKernel {
    type Problem = Matmul;
    type Config = BlockedConfig;

    identity!("gpu.matmul.blocked", Tiled);

    fn declines(&self, problem: &Matmul, device: &DeviceFacts) -> Option<Decline> {
        Layout::on(problem, device).err().or_else(|| too_narrow(problem, LEAST_SIDE))
    }

    fn configs(&self, problem: &Matmul, device: &DeviceFacts) -> Vec<BlockedConfig> {
        let Ok((adapter, layout)) = Layout::on(problem, device) else { return Vec::new() };
        let best_vector = if layout.vectors() == Vectors::NONE { 1 } else { 4 };
        let small = problem.m.min(problem.n) <= 32;
        let default = match (adapter.class, small) {
            (_, true) => [32, 32, 16, 4, 4, 1],
            // Every invocation stops at every barrier, so few of them with much to do each. Gflop/s of processor time at
            // 512³: 128×64 by 8×8 4.9, 64×64 by 8×8 4.3, 64×64 by 4×4 2.8.
            (AdapterClass::Software, false) if problem.m >= 128 => [128, 64, 16, 8, 8, 1],
            (AdapterClass::Software, false) => [64, 64, 16, 8, 8, 1],
            (_, false) => [64, 64, 16, 4, 4, 1],
        };
        let mut configs = vec![BlockedConfig::of(default, best_vector)];
        for [bm, bn, tm, tn] in BLOCKS {
            // Deeper panels mean fewer barriers, shallower ones more workgroups at a time.
            for bk in [16, 8, 32] {
                configs.push(BlockedConfig::of([bm, bn, bk, tm, tn, 1], best_vector));
            }
            if bm == bn {
                configs.push(BlockedConfig::of([bm, bn, 16, tm, tn, 4], best_vector));
            }
        }
        configs.push(BlockedConfig::of([64, 64, 16, 4, 4, 1], 1));
        let legal = |config: BlockedConfig| {
            let bytes = config.workgroup_bytes(problem.dtype);
            layout.fits(adapter, config.workgroup(), bytes, [config.bm, config.bn])
        };
        // Blocks twice as large as the product, and panels behind the inner axis, only idle.
        let idle = |config: BlockedConfig| {
            config.bm > 32 && u64::from(config.bm / 2) >= problem.m
                || config.bn > 32 && u64::from(config.bn / 2) >= problem.n
                || config.bk > 8 && u64::from(config.bk / 2) >= problem.k
        };
        worthwhile(problem, configs, legal, idle)
    }

    fn work(&self, problem: &Matmul, config: BlockedConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        let walked = problem.m * problem.k * problem.n.div_ceil(u64::from(config.bn).max(1))
            + problem.k * problem.n * problem.m.div_ceil(u64::from(config.bm).max(1))
            + problem.m * problem.n;
        let barriers = 2 * problem.k.div_ceil(u64::from(config.bk).max(1));
        layout.work([config.bm, config.bn], walked, config.workgroup(), 4, barriers)
    }

    fn launch(&self, problem: &Matmul, config: BlockedConfig, writer: Writer<'_>) -> Launched {
        if !config.is_sound() {
            return Err(LaunchError::Point(format!("{config:?}")));
        }
        let layout = Layout::of_launch(problem, &writer)?;
        let vectors = if config.vector == 4 { layout.vectors() } else { Vectors::NONE };
        let workgroup = config.workgroup();
        let shape = Shape {
            text: text(problem, config, vectors, include_str!("blocked.wgsl"), PLAIN),
            constants: config.constants(),
            subgroups: false,
            workgroup,
            workgroup_bytes: config.workgroup_bytes(problem.dtype),
            tile: [config.bm, config.bn],
        };
        layout.write(shape, writer)
    }
}

/// How fours of a panel get into workgroup memory and back, as texts around an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels {
    pub kept: fn(&str) -> String,
    /// Of the panel of that name.
    pub read: fn(&str, &str) -> String,
}

/// As they are.
pub(crate) const PLAIN: Panels = Panels { kept: str::to_string, read: |_, four| four.to_string() };

/// The row of an invocation's block. Neighbouring invocations have neighbouring fours, so that their reads meet in one line and no two in
/// one bank.
pub(super) fn row(row: u32) -> String {
    format!("(first_row + (local.y + {}u * WY) * 4u + {}u)", row / 4, row % 4)
}

/// The first of four columns.
pub(super) fn column(four: u32) -> String {
    format!("(first_column + (local.x + {four}u * WX) * 4u)")
}

pub(super) fn text(
    problem: &Matmul,
    config: BlockedConfig,
    vectors: Vectors,
    text: &str,
    panels: Panels,
) -> String {
    let block = Block { rows: config.tm, columns: config.tn };
    let [left, right] = Side::both(problem, vectors);
    let text = text
        .replace("$SUMS", &block.declared())
        .replace("$LEFT", &filled("left", "BM", left, panels))
        .replace("$RIGHT", &filled("right", "BN", right, panels))
        .replace("$UNROLL", &config.unroll.to_string())
        .replace("$ROUND", &round(config, panels))
        .replace("$STORES", &block.stored(vectors.product, row, column));
    shader(problem.dtype, vectors, &text)
}

/// Fills the panel of one operand in workgroup memory, of so many lines. What is behind the last inner index is zero on both
/// sides; what is behind the last row or column stands for the last and is never written out.
fn filled(name: &str, side: &str, operand: Side, panels: Panels) -> String {
    let Side { buffer, start, first, last, line_step, inner_step, inner_in_a_row, vector } = operand;
    let mut text = String::new();
    let step = if inner_in_a_row { line_step } else { inner_step };
    if inner_in_a_row {
        // Four by four, turned in registers.
        let _ = writeln!(
            text,
            "        for (var unit = invocation; unit < BK / 4u * ({side} / 4u); unit += WX * WY) {{
            let four = unit / (BK / 4u);
            let depth = unit % (BK / 4u) * 4u;
            let at = first + depth;"
        );
        for line in 0..4 {
            let _ = writeln!(
                text,
                "            let from{line} = {start} + min({first} + four * 4u + {line}u, {last} - 1u) * {step} + at;
            var line{line} = vec4<A>();"
            );
        }
        // Four elements at once, or one after the other.
        let loads: &[&str] = if vector { &[""] } else { &PARTS };
        for (part, place) in loads.iter().enumerate() {
            let _ = writeln!(text, "            if (at + {part}u < inner) {{");
            for line in 0..4 {
                let _ = match vector {
                    true => {
                        writeln!(text, "                line{line} = vec4<A>({buffer}[from{line} / 4u]);")
                    }
                    false => writeln!(
                        text,
                        "                line{line}.{place} = A({buffer}[from{line} + {part}u]);"
                    ),
                };
            }
            text.push_str("            }\n");
        }
        for (part, place) in PARTS.iter().enumerate() {
            let lines = [0, 1, 2, 3].map(|line| format!("line{line}.{place}")).join(", ");
            let _ = writeln!(
                text,
                "            {name}[(depth + {part}u) * ({side} / 4u) + four] = {};",
                (panels.kept)(&format!("vec4<A>({lines})"))
            );
        }
    } else {
        let _ = writeln!(
            text,
            "        for (var unit = invocation; unit < BK * ({side} / 4u); unit += WX * WY) {{
            let at = first + unit / ({side} / 4u);
            let side = {first} + unit % ({side} / 4u) * 4u;
            var line = vec4<A>();
            if (at < inner) {{
                let begin = {start} + at * {step};"
        );
        if vector {
            let _ = writeln!(
                text,
                "                line = vec4<A>({buffer}[(begin + min(side, {last} - 4u)) / 4u]);"
            );
        } else {
            for (part, place) in PARTS.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "                line.{place} = A({buffer}[begin + min(side + {part}u, {last} - 1u)]);"
                );
            }
        }
        let _ = writeln!(text, "            }}\n            {name}[unit] = {};", (panels.kept)("line"));
    }
    text.push_str("        }\n");
    text
}

/// So many inner steps from `at` on.
pub(crate) fn round(config: BlockedConfig, panels: Panels) -> String {
    let mut text = String::new();
    for step in 0..config.unroll {
        for four in 0..config.tm / 4 {
            let read = format!("left[(at + {step}u) * (BM / 4u) + local.y + {four}u * WY]");
            let _ = writeln!(text, "            let a{step}_{four} = {};", (panels.read)("left", &read));
        }
        for four in 0..config.tn / 4 {
            let read = format!("right[(at + {step}u) * (BN / 4u) + local.x + {four}u * WX]");
            let _ = writeln!(text, "            let b{step}_{four} = {};", (panels.read)("right", &read));
        }
        for row in 0..config.tm {
            for four in 0..config.tn / 4 {
                let part = PARTS[(row % 4) as usize];
                let _ = writeln!(
                    text,
                    "            c{row}_{four} += a{step}_{}.{part} * b{step}_{four};",
                    row / 4
                );
            }
        }
    }
    text
}
