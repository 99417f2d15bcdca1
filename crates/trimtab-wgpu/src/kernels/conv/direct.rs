//! A block of results an invocation, straight from memory: some channels at neighbouring places, so that a weight is read once for the
//! places and an element once for the channels.

use super::{admits, bindings, strides, text, too_long, work};
use crate::kernels::in_a_row;
use crate::program::{Gpu, Launched, Needs, Writer, spread_groups};
use std::fmt::Write as _;
use trimtab_core::{
    AdapterClass, AdapterFacts, Channels, Conv, Decline, DeviceFacts, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and channels and neighbouring places of the result that one computes.
    pub struct DirectConfig { workgroup, channels, places }
}

/// Blocks of an invocation: channels, places.
const BLOCKS: [[u32; 2]; 7] = [[4, 4], [1, 1], [1, 4], [4, 1], [8, 2], [2, 8], [8, 4]];

/// See the module.
#[derive(Debug)]
pub struct DirectWindows;

impl DirectConfig {
    fn is_sound(self) -> bool {
        let block = [self.channels, self.places].iter().all(|side| [1, 2, 4, 8].contains(side));
        block && (1..=1024).contains(&self.workgroup)
    }

    /// Blocks along a row of the result, and over the channels of a group.
    fn blocks(self, p: &Conv) -> [u64; 2] {
        let along = |length: usize, side: u32| (length as u64).div_ceil(side.max(1).into());
        [along(p.window.out()[2], self.places), along(p.group_outputs(), self.channels)]
    }

    fn items(self, p: &Conv) -> u64 {
        let out = p.window.out();
        let planes = (p.batch() * p.groups() * out[0] * out[1]) as u64;
        self.blocks(p).iter().fold(planes, |all, &blocks| all.saturating_mul(blocks))
    }
}

/// Rounds of the loops of an invocation: over the window, and within it over the channels.
fn rounds(p: &Conv) -> u64 {
    let [a, b, c] = p.window.kernel().map(|size| size as u64);
    a.saturating_mul(1 + b.saturating_mul(1 + c)).saturating_add(p.depth())
}

impl Variant<Gpu> for DirectWindows {
    type Problem = Conv;
    type Config = DirectConfig;

    identity!("gpu.conv.direct", Vectorized);

    fn declines(&self, problem: &Conv, device: &DeviceFacts) -> Option<Decline> {
        match admits(problem, device) {
            Err(decline) => Some(decline),
            Ok(adapter) => too_long(rounds(problem), adapter).or_else(|| {
                let many =
                    || Decline::from(format!("{} results are more than a dispatch has", problem.out_len()));
                configs(problem, adapter).is_empty().then(many)
            }),
        }
    }

    fn configs(&self, problem: &Conv, device: &DeviceFacts) -> Vec<DirectConfig> {
        match (self.declines(problem, device), device.adapter.as_deref()) {
            (None, Some(adapter)) => configs(problem, adapter),
            _ => Vec::new(),
        }
    }

    fn work(&self, problem: &Conv, config: DirectConfig, _: &DeviceFacts) -> Work {
        // A block reads its places and its channels' weights once for every product of a result.
        let items = config.items(problem);
        let reads = items
            .saturating_mul(problem.depth())
            .saturating_mul(u64::from(config.channels) + u64::from(config.places));
        work(problem, reads, items, 1)
    }

    fn launch(&self, problem: &Conv, config: DirectConfig, writer: Writer<'_>) -> Launched {
        let groups = groups(problem, config, writer.adapter).filter(|_| config.is_sound());
        let groups = groups.ok_or_else(|| LaunchError::Point(format!("{config:?}")))?;
        if problem.out_len() == 0 {
            return Ok(());
        }
        let text = text(problem, 11, &main(problem, config));
        let params = params(problem, config);
        let (needs, width) = (Needs::of(problem.dtype), config.workgroup);
        writer.program.push(in_a_row(text.into(), width, groups, needs, bindings(problem), params));
        Ok(())
    }
}

fn groups(p: &Conv, config: DirectConfig, adapter: &AdapterFacts) -> Option<[u32; 3]> {
    let items = config.items(p);
    let fits = config.workgroup <= adapter.max_invocations.min(adapter.max_workgroup[0]);
    let whole = items.div_ceil(config.workgroup.max(1).into());
    // What lies behind the last must not wrap around to the first.
    spread_groups(whole, adapter).filter(|groups| {
        let all = u64::from(groups[0]) * u64::from(groups[1]) * u64::from(config.workgroup);
        fits && all < 1 << 32
    })
}

fn configs(p: &Conv, adapter: &AdapterFacts) -> Vec<DirectConfig> {
    let default = match adapter.class {
        AdapterClass::Software => DirectConfig { workgroup: 64, channels: 4, places: 4 },
        _ => DirectConfig { workgroup: 128, channels: 4, places: 2 },
    };
    let mut all = vec![default];
    for workgroup in [64, 256, 32] {
        all.extend(BLOCKS.map(|[channels, places]| DirectConfig { workgroup, channels, places }));
    }
    let mut kept: Vec<DirectConfig> = Vec::new();
    for mut config in all {
        // Sides longer than what there is only idle.
        while config.channels > 1 && config.channels as usize / 2 >= p.group_outputs() {
            config.channels /= 2;
        }
        while config.places > 1 && config.places as usize / 2 >= p.window.out()[2] {
            config.places /= 2;
        }
        config.workgroup = config.workgroup.min(adapter.max_invocations).min(adapter.max_workgroup[0]);
        let idle = config.workgroup > 64 && u64::from(config.workgroup) >= 2 * config.items(p);
        if !kept.contains(&config) && groups(p, config, adapter).is_some() && (kept.is_empty() || !idle) {
            kept.push(config);
        }
    }
    kept
}

fn params(p: &Conv, config: DirectConfig) -> Vec<u32> {
    let (window, out) = (&p.window, p.window.out());
    let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
    let (pad, dilation) = (window.pad(), window.dilation());
    let [along, over] = config.blocks(p).map(|blocks| blocks as usize);
    let from = strides(p.channels, p.inputs(), size);
    let to = strides(p.channels, p.outputs(), out);
    let taps: usize = kernel.iter().product();
    let [output, channel, tap] = match p.channels {
        Channels::First => [p.group_inputs() * taps, taps, 1],
        Channels::Last => [p.group_inputs() * taps, 1, p.group_inputs()],
    };
    let words = [
        [config.items(p) as usize, along, out[2], out[1]],
        [out[0], over, p.groups(), p.group_outputs()],
        [kernel[0], kernel[1], kernel[2], p.group_inputs()],
        [size[0], size[1], size[2], 0],
        [stride[0], stride[1], stride[2], 0],
        [pad[0], pad[1], pad[2], 0],
        [dilation[0], dilation[1], dilation[2], 0],
        [from[0], from[1], from[2], from[3]],
        [from[4], output, channel, tap],
        [to[0], to[1], to[2], to[3]],
        [to[4], 0, 0, 0],
    ];
    words.into_iter().flatten().map(|word| word as u32).collect()
}

/// Neighbouring invocations have neighbouring places where channels lie before the space, else neighbouring channels.
fn main(p: &Conv, config: DirectConfig) -> String {
    let split = |name: &str, by: &str| format!("    let {name} = rest % {by};\n    rest = rest / {by};\n");
    let (block, place) = (split("block", "params[1].y"), split("column", "params[0].y"));
    let plane = split("y", "params[0].w") + &split("z", "params[1].x");
    let find = match p.channels {
        Channels::First => place + &plane + &block + &split("group_number", "params[1].z"),
        Channels::Last => block + &split("group_number", "params[1].z") + &place + &plane,
    };
    let (channels, places) = (config.channels, config.places);
    let [mut sums, mut outputs, mut starts, mut loads, mut round, mut stores] = [const { String::new() }; 6];
    for i in 0..channels {
        // Channels behind the last stand for the last: read again, never written.
        let _ = writeln!(
            outputs,
            "    let w{i} = (first_output + min(first + {i}u, params[1].w - 1u)) * params[8].y;"
        );
        for j in 0..places {
            let _ = writeln!(sums, "    var c{i}_{j} = A(0.0);");
        }
    }
    for j in 0..places {
        let _ = writeln!(
            starts,
            "                let at{j} = (x + {j}u) * params[4].z + c * params[6].z;
                let inside{j} = at{j} >= params[5].z && at{j} - params[5].z < params[3].z;
                let from{j} = line + (at{j} - params[5].z) * params[8].x;"
        );
        let _ = writeln!(
            loads,
            "                    var v{j} = A(0.0);
                    if inside{j} {{
                        v{j} = A(operand[from{j} + channel * params[7].y]);
                    }}"
        );
    }
    for i in 0..channels {
        let _ = writeln!(round, "                    let by{i} = A(weights[w{i} + weight]);");
        for j in 0..places {
            let _ = writeln!(round, "                    c{i}_{j} += by{i} * v{j};");
        }
        let _ = writeln!(stores, "    if first + {i}u < params[1].w {{");
        let _ = writeln!(stores, "        let output = first_output + first + {i}u;");
        for j in 0..places {
            let _ = writeln!(
                stores,
                "        if x + {j}u < params[0].z {{
            result[to + output * params[9].y + (x + {j}u) * params[10].x] = finished(c{i}_{j}, output);
        }}"
            );
        }
        stores.push_str("    }\n");
    }
    include_str!("direct.wgsl")
        .replace("$FIND", &find)
        .replace("$CHANNELS", &channels.to_string())
        .replace("$PLACES", &places.to_string())
        .replace("$OUTPUTS", &outputs)
        .replace("$SUMS", &sums)
        .replace("$STARTS", &starts)
        .replace("$LOADS", &loads)
        .replace("$ROUND", &round)
        .replace("$STORES", &stores)
}
