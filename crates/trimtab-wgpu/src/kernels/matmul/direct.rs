//! A block of results an invocation, straight from memory into registers: no workgroup memory and no barrier, which is
//! what software adapters want; on the others the caches have to do what workgroup memory does.

use super::layout::{Layout, Shape, Vectors, shader, worthwhile};
use super::registers::{Block, PARTS, Side, fours_along_inner};
use crate::program::{Gpu, Launched, Writer};
use std::fmt::Write as _;
use trimtab_core::{AdapterClass, Decline, DeviceFacts, LaunchError, Matmul, Variant, Work};

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
        let legal = |config: DirectConfig| {
            let twin = config.vector == 4 && config.vectors(&layout, problem) == Vectors::NONE;
            !twin && layout.fits(adapter, [config.wx, config.wy, 1], 0, config.tile())
        };
        // Blocks twice as high as the product or twice as wide, and rounds behind the inner axis, only idle; low blocks are
        // for low products.
        let idle = |DirectConfig { wx, wy, tm, tn, unroll, .. }: DirectConfig| {
            tm > 1 && u64::from(tm / 2) >= problem.m
                || tn > 4 && u64::from(tn / 2) >= problem.n
                || wy > 8 && u64::from(wy * tm / 2) >= problem.m
                || wx > 16 && u64::from(wx * tn / 2) >= problem.n
                || unroll == 8 && problem.k < 8
                || tm < 4 && problem.m >= 8
        };
        worthwhile(problem, configs, legal, idle)
    }

    fn work(&self, problem: &Matmul, config: DirectConfig, device: &DeviceFacts) -> Work {
        let Ok((_, layout)) = Layout::on(problem, device) else { return Work::default() };
        // Every block reads its rows of lhs and its columns of rhs.
        let blocks = problem.m.div_ceil(config.tm.into()) * problem.n.div_ceil(config.tn.into());
        let walked = blocks * problem.k * u64::from(config.tm + config.tn) + problem.m * problem.n;
        layout.work(config.tile(), walked, [config.wx, config.wy, 1], 4, 0)
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
    let [lhs, rhs] = Side::both(problem, vectors);
    let left = Lines { name: "a", begin: "l", count: tm, side: lhs };
    let right = Lines { name: "b", begin: "r", count: tn, side: rhs };
    // Workgroups of one row let compilers see that all their invocations read the same of lhs: one load instead of eight.
    let first_row = match wy {
        1 => format!("tile.row * {tm}u"),
        _ => format!("(tile.row * WY + local.y) * {tm}u"),
    };
    let round = |steps: u32| round(&left, &right, steps);
    // Fours along the inner axis come out even.
    let tail = match (unroll, if fours_along_inner(problem, vectors) { 4 } else { 1 }) {
        (unroll, steps) if unroll == steps => String::new(),
        (_, steps) => format!("    for (; at < inner; at += {steps}u) {{\n{}    }}\n", round(steps)),
    };
    let row = |row: u32| format!("(first_row + {row}u)");
    let column = |four: u32| format!("(first_column + {}u)", 4 * four);
    let text = include_str!("direct.wgsl")
        .replace("$FIRST_ROW", &first_row)
        .replace("$TN", &tn.to_string())
        .replace("$UNROLL", &unroll.to_string())
        .replace("$STARTS", &(left.starts() + &right.starts() + &block.declared()))
        .replace("$ROUND", &round(unroll))
        .replace("$TAIL", &tail)
        .replace("$STORES", &block.stored(vectors.product, row, column));
    shader(problem.dtype, vectors, &text)
}

/// The lines of an operand that make up a block.
struct Lines {
    /// Names what was loaded of them, and where they begin.
    name: &'static str,
    begin: &'static str,
    count: u32,
    side: Side,
}

impl Lines {
    /// Where the lines begin, as elements of the buffer; of four at once where they are loaded so.
    fn starts(&self) -> String {
        let Side { start, first, last, line_step, inner_in_a_row, vector, .. } = self.side;
        let at_once = if vector && !inner_in_a_row { 4 } else { 1 };
        let step = if inner_in_a_row { format!(" * {line_step}") } else { String::new() };
        let mut text = String::new();
        let begin = self.begin;
        for line in (0..self.count).step_by(at_once) {
            let _ = writeln!(
                text,
                "    let {begin}{line} = {start} + min({first} + {line}u, {last} - {at_once}u){step};"
            );
        }
        text
    }

    /// Loads an inner step of every line: four steps, or four lines, at a time where they lie in a row and are read so.
    fn loads(&self, step: u32) -> String {
        let Lines { name, begin, count, side } = *self;
        let Side { buffer, inner_step, inner_in_a_row, vector, .. } = side;
        let mut text = String::new();
        for line in 0..count {
            let index = match inner_in_a_row {
                true => format!("{begin}{line} + at + {step}u"),
                false => format!("{begin}{line} + (at + {step}u) * {inner_step}"),
            };
            let begins = (if inner_in_a_row { step } else { line }).is_multiple_of(4);
            let _ = match vector {
                true if begins => {
                    writeln!(text, "        let {name}{line}_{step}v = vec4<A>({buffer}[({index}) / 4u]);")
                }
                true => Ok(()),
                false => writeln!(text, "        let {name}{line}_{step} = A({buffer}[{index}]);"),
            };
        }
        text
    }

    /// What was loaded of a line for an inner step.
    fn value(&self, line: u32, step: u32) -> String {
        let (name, part) = (self.name, |at: u32| PARTS[(at % 4) as usize]);
        match (self.side.vector, self.side.inner_in_a_row) {
            (true, true) => format!("{name}{line}_{}v.{}", step / 4 * 4, part(step)),
            (true, false) => format!("{name}{}_{step}v.{}", line / 4 * 4, part(line)),
            (false, _) => format!("{name}{line}_{step}"),
        }
    }

    /// The same of four lines.
    fn four(&self, four: u32, step: u32) -> String {
        if self.side.vector && !self.side.inner_in_a_row {
            return format!("{}{}_{step}v", self.name, 4 * four);
        }
        let parts = [0, 1, 2, 3].map(|line| self.value(4 * four + line, step));
        format!("vec4<A>({})", parts.join(", "))
    }
}

/// So many inner steps from `at` on.
fn round(left: &Lines, right: &Lines, steps: u32) -> String {
    let mut text = String::new();
    for step in 0..steps {
        text.push_str(&(left.loads(step) + &right.loads(step)));
        for four in 0..right.count / 4 {
            let _ = writeln!(text, "        let b{step}_four{four} = {};", right.four(four, step));
            for row in 0..left.count {
                let value = left.value(row, step);
                let _ = writeln!(text, "        c{row}_{four} += {value} * b{step}_four{four};");
            }
        }
    }
    text
}
