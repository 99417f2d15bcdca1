//! The product of weights and windows, whose matrix exists only as panels in workgroup memory: a block of the product a workgroup, a
//! smaller one in the registers of each invocation.

use super::{admits, bindings, strides, text, too_long, work};
use crate::kernels::matmul::blocked::{BlockedConfig, PLAIN, Panels, round};
use crate::kernels::matmul::layout::sum_bytes;
use crate::kernels::matmul::registers::Block;
use crate::program::{Dispatch, Gpu, Launched, Needs, Writer, spread_groups};
use std::fmt::Write as _;
use trimtab_core::{
    AdapterClass, AdapterFacts, Channels, Conv, Decline, DeviceFacts, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Channels, places and inner steps of a workgroup's block, channels and places of an invocation's, and inner steps a round.
    pub struct ImplicitConfig { bm, bn, bk, tm, tn, unroll }
}

/// Blocks of a workgroup and of an invocation: bm, bn, tm, tn.
const BLOCKS: [[u32; 4]; 5] =
    [[64, 64, 4, 4], [32, 64, 4, 4], [64, 64, 8, 8], [128, 64, 8, 8], [32, 32, 4, 4]];

/// Below this most of a block stands for nothing.
const LEAST_SIDE: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct ImplicitKernel;

impl ImplicitConfig {
    pub(super) fn workgroup(self) -> [u32; 3] {
        [self.bn / self.tn, self.bm / self.tm, 1]
    }

    fn invocations(self) -> u32 {
        self.workgroup().iter().product()
    }

    fn workgroup_bytes(self, p: &Conv) -> u32 {
        (self.bm + self.bn) * self.bk * sum_bytes(p.dtype)
    }

    /// Every invocation fills the same four places of every panel: their number divides that of the invocations.
    pub(super) fn is_sound(self) -> bool {
        let block = matches!(self.tm, 4 | 8) && matches!(self.tn, 4 | 8);
        let sides = [self.bm, self.bn].iter().all(|side| (4..=512).contains(side));
        block
            && sides
            && self.bm.is_multiple_of(self.tm)
            && self.bn.is_multiple_of(self.tn)
            && self.invocations().is_multiple_of(self.bn / 4)
            && (4..=128).contains(&self.bk)
            && matches!(self.unroll, 1 | 2 | 4 | 8)
            && self.bk.is_multiple_of(self.unroll)
    }

    /// Blocks over the places, over the channels of a group, and all.
    fn blocks(self, p: &Conv) -> [u64; 3] {
        let [rows, columns, _] = sizes(p);
        let (along, over) = (columns.div_ceil(self.bn.max(1).into()), rows.div_ceil(self.bm.max(1).into()));
        [along, over, along.saturating_mul(over).saturating_mul(p.groups() as u64)]
    }

    /// Workgroups, if the adapter takes them.
    pub(super) fn groups(self, p: &Conv, adapter: &AdapterFacts) -> Option<[u32; 3]> {
        let workgroup = self.workgroup();
        let fits = self.invocations() <= adapter.max_invocations
            && (0..3).all(|axis| workgroup[axis] <= adapter.max_workgroup[axis])
            && u64::from(self.workgroup_bytes(p)) <= adapter.workgroup_memory.0;
        spread_groups(self.blocks(p)[2], adapter).filter(|_| fits)
    }

    /// Rounds of the loops of an invocation: panels, what it fills of them, and steps.
    fn rounds(self, p: &Conv) -> u64 {
        let fills = (self.bk * (self.bm + self.bn) / 4).div_ceil(self.invocations().max(1)) + 2;
        p.depth().div_ceil(self.bk.max(1).into()) * u64::from(1 + fills + self.bk / self.unroll.max(1))
    }
}

/// Rows, columns and length of the inner products: channels of a group of the result, places of all images, a window.
fn sizes(p: &Conv) -> [u64; 3] {
    let places: usize = p.window.out().iter().product();
    [p.group_outputs() as u64, (p.batch() as u64).saturating_mul(places as u64), p.depth()]
}

impl Variant<Gpu> for ImplicitKernel {
    type Problem = Conv;
    type Config = ImplicitConfig;

    identity!("gpu.conv.implicit", Tiled);

    fn declines(&self, problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
        let adapter = match admits(problem, device) {
            Ok(adapter) => adapter,
            Err(decline) => return Some(decline),
        };
        let [rows, columns, _] = sizes(problem);
        let narrow = || {
            Decline::from(format!(
                "takes at least {LEAST_SIDE} channels of the result a group and as many places, this has {rows} and {columns}"
            ))
        };
        let long = || {
            let rounds = candidates(adapter).iter().map(|config| config.rounds(problem)).min().unwrap_or(0);
            too_long(rounds, adapter)
        };
        let none = || Decline::because("no block is within the adapter's limits");
        (rows.min(columns) < LEAST_SIDE)
            .then(narrow)
            .or_else(long)
            .or_else(|| configs(problem, adapter).is_empty().then(none))
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<ImplicitConfig> {
        match (self.declines(problem, device), device.adapter.as_deref()) {
            (None, Some(adapter)) => configs(problem, adapter),
            _ => Vec::new(),
        }
    }

    fn work(&self, problem: &Conv, config: ImplicitConfig, _: &DeviceFacts) -> Work {
        let [along, over, all] = config.blocks(problem);
        let [rows, columns, inner] = sizes(problem);
        let groups = problem.groups() as u64;
        let reads = (rows.saturating_mul(along).saturating_add(columns.saturating_mul(over)))
            .saturating_mul(inner)
            .saturating_mul(groups);
        let work = work(problem, reads, all.saturating_mul(config.invocations().into()), 4);
        Work { barriers: all.saturating_mul(2 * inner.div_ceil(config.bk.max(1).into())), ..work }
    }

    fn launch(&self, problem: &Conv, config: ImplicitConfig, writer: Writer<'_>) -> Launched {
        let wrong = || LaunchError::Point(format!("{config:?}"));
        if !config.is_sound() {
            return Err(wrong());
        }
        let groups = config.groups(problem, writer.adapter).ok_or_else(wrong)?;
        if problem.out_len() == 0 {
            return Ok(());
        }
        let workgroup_bytes = config.workgroup_bytes(problem);
        let body = main(problem, config, &PLAINLY);
        write(problem, config, (body, workgroup_bytes, Needs::of(problem.dtype)), groups, writer);
        Ok(())
    }
}

/// Writes the dispatch of a text, with the workgroup memory it takes and what it needs.
pub(super) fn write(
    problem: &Conv,
    config: ImplicitConfig,
    (body, workgroup_bytes, needs): (String, u32, Needs),
    groups: [u32; 3],
    writer: Writer<'_>,
) {
    let workgroup = config.workgroup();
    let constants =
        [("BM", config.bm), ("BN", config.bn), ("BK", config.bk), ("WX", workgroup[0]), ("WY", workgroup[1])];
    writer.program.push(Dispatch {
        text: text(problem, 9, &body).into(),
        constants: constants.map(|(name, value)| (name, f64::from(value))).to_vec(),
        needs,
        workgroup,
        workgroup_bytes,
        groups,
        bindings: bindings(problem),
        params: params(problem, config),
    });
}

/// How panels are kept and multiplied, as parts of the text.
pub(super) struct Keeping {
    /// What holds four elements.
    pub four: &'static str,
    pub panels: Panels,
    /// Functions, what is done before the first round, and at the start of each.
    pub functions: String,
    pub begin: &'static str,
    pub turn: &'static str,
    /// The steps of a round; `$PLAIN` are those of its panels.
    pub steps: String,
}

/// As they are.
const PLAINLY: Keeping = Keeping {
    four: "vec4<A>",
    panels: PLAIN,
    functions: String::new(),
    begin: "",
    turn: "",
    steps: String::new(),
};

/// The settings there are, the default first.
fn candidates(adapter: &AdapterFacts) -> Vec<ImplicitConfig> {
    let of = |[bm, bn, tm, tn]: [u32; 4], bk: u32, unroll: u32| ImplicitConfig { bm, bn, bk, tm, tn, unroll };
    // Every invocation of a software adapter stops at every barrier: few of them with much to do each.
    let default = if adapter.class == AdapterClass::Software { [64, 64, 8, 8] } else { [64, 64, 4, 4] };
    let mut all = vec![of(default, 16, 1)];
    for block in BLOCKS {
        all.extend([of(block, 16, 1), of(block, 8, 1), of(block, 32, 1)]);
    }
    all.push(of([64, 64, 4, 4], 16, 4));
    all
}

fn configs(p: &Conv, adapter: &AdapterFacts) -> Vec<ImplicitConfig> {
    let [rows, columns, inner] = sizes(p);
    let mut kept: Vec<ImplicitConfig> = Vec::new();
    for config in candidates(adapter) {
        // Blocks twice as large as the product, and panels behind the inner axis, only idle.
        let idle = config.bm > 32 && u64::from(config.bm / 2) >= rows
            || config.bn > 32 && u64::from(config.bn / 2) >= columns
            || config.bk > 8 && u64::from(config.bk / 2) >= inner;
        let legal = config.is_sound()
            && config.groups(p, adapter).is_some()
            && too_long(config.rounds(p), adapter).is_none();
        if legal && !kept.contains(&config) && !idle {
            kept.push(config);
        }
    }
    kept
}

fn params(p: &Conv, config: ImplicitConfig) -> Vec<u32> {
    let (window, out) = (&p.window, p.window.out());
    let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
    let (pad, dilation) = (window.pad(), window.dilation());
    let [rows, columns, inner] = sizes(p).map(|size| size as usize);
    let [along, over, all] = config.blocks(p).map(|blocks| blocks as usize);
    let from = strides(p.channels, p.inputs(), size);
    let to = strides(p.channels, p.outputs(), out);
    let words = [
        [rows, columns, inner, all],
        [along, over, out[1] * out[2], out.iter().product()],
        [kernel[0], kernel[1], kernel[2], p.group_inputs()],
        [size[0], size[1], size[2], out[2]],
        [stride[0], stride[1], stride[2], 0],
        [pad[0], pad[1], pad[2], 0],
        [dilation[0], dilation[1], dilation[2], 0],
        [from[0], from[1], from[2], from[3]],
        [from[4], to[0], to[1], to[4]],
    ];
    words.into_iter().flatten().map(|word| word as u32).collect()
}

/// Which channel and element of the window an inner index is: windows are stored as the weights are, a channel after the other, or an element
/// of the window after the other.
pub(super) fn find(p: &Conv) -> &'static str {
    match p.channels {
        Channels::First => {
            "            let channel = at / taps;
            let tap = at % taps;
"
        }
        Channels::Last => {
            "            let channel = at % params[2].w;
            let tap = at / params[2].w;
"
        }
    }
}

pub(super) fn main(p: &Conv, config: ImplicitConfig, keeping: &Keeping) -> String {
    let ImplicitConfig { bm, bn, bk, tm, tn, unroll } = config;
    let block = Block { rows: tm, columns: tn };
    let steps = round(BlockedConfig { bm, bn, bk, tm, tn, unroll, vector: 1 }, keeping.panels);
    let plain = format!("        for (var at = 0u; at < BK; at += {unroll}u) {{\n{steps}        }}\n");
    let steps = if keeping.steps.is_empty() { plain } else { keeping.steps.replace("$PLAIN", &plain) };
    let [mut places, mut loads, mut stores] = [const { String::new() }; 3];
    for (part, name) in ["x", "y", "z", "w"].into_iter().enumerate() {
        let _ = writeln!(places, "    let place{part} = place_of(first_column + four * 4u + {part}u);");
        let _ = writeln!(
            loads,
            "                let z{part} = place{part}.z + offset.x;
                let y{part} = place{part}.y + offset.y;
                let x{part} = place{part}.x + offset.z;
                if z{part} >= params[5].x && z{part} - params[5].x < params[3].x
                    && y{part} >= params[5].y && y{part} - params[5].y < params[3].y
                    && x{part} >= params[5].z && x{part} - params[5].z < params[3].z {{
                    line.{name} = A(operand[place{part}.w + base + (z{part} - params[5].x) * params[7].z
                        + (y{part} - params[5].y) * params[7].w + (x{part} - params[5].z) * params[8].x]);
                }}"
        );
    }
    for column in 0..tn {
        let (four, part) = (column / 4, ["x", "y", "z", "w"][(column % 4) as usize]);
        let _ = writeln!(
            stores,
            "    let column{column} = first_column + (local.x + {four}u * WX) * 4u + {}u;
    if column{column} < params[0].y {{
        let to = column{column} / params[1].w * params[8].y + column{column} % params[1].w * params[8].w;",
            column % 4
        );
        for row in 0..tm {
            let _ = writeln!(
                stores,
                "        let row{row} = first_row + (local.y + {}u * WY) * 4u + {}u;
        if row{row} < params[0].x {{
            let output = group_number * params[0].x + row{row};
            result[to + output * params[8].z] = finished(c{row}_{four}.{part}, output);
        }}",
                row / 4,
                row % 4
            );
        }
        stores.push_str("    }\n");
    }
    include_str!("implicit.wgsl")
        .replace("$FOUR", keeping.four)
        .replace("$FUNCTIONS", &keeping.functions)
        .replace("$BEGIN", keeping.begin)
        .replace("$TURN", keeping.turn)
        .replace("$LINE", &(keeping.panels.kept)("line"))
        .replace("$FIND", find(p))
        .replace("$SUMS", &block.declared())
        .replace("$PLACES", &places)
        .replace("$LOADS", &loads)
        .replace("$STEPS", &steps)
        .replace("$STORES", &stores)
}
