//! A window a result, straight from memory; neighbouring invocations have neighbouring results.

use crate::kernels::elementwise::shader::{Elements, most_bytes};
use crate::kernels::{adapter_with, in_a_row, over, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Writer, spread_groups};
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, Channels, DType, Decline, DeviceFacts, Flops, LaunchError, Pool,
    PoolOp, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and results that one computes, a workgroup apart.
    pub struct DirectConfig { workgroup, items }
}

/// Rounds of all loops of an invocation on software adapters: lavapipe leaves loops after 65,535, and says nothing.
const MOST_ROUNDS: u64 = 32_768;

/// See the module.
#[derive(Debug)]
pub struct DirectWindows;

fn elements(p: &Pool) -> Elements {
    Elements { dtype: p.dtype, by_bits: p.op == PoolOp::Max }
}

/// Rounds of the loops of one result.
fn rounds(p: &Pool) -> u64 {
    let [a, b, c] = p.window.kernel().map(|size| size as u64);
    1 + a.saturating_mul(1 + b.saturating_mul(1 + c))
}

fn admits<'a>(p: &Pool, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    let adapter = adapter_with(elements(p).needs(), device)?;
    let rounds = rounds(p);
    if adapter.class == AdapterClass::Software && rounds > MOST_ROUNDS {
        return Err(Decline::from(format!(
            "takes {MOST_ROUNDS} rounds on software adapters, this needs {rounds}: longer loops are cut short there"
        )));
    }
    let limit = most_bytes(adapter).min(adapter.max_buffer.0);
    let operands = [("the operand", p.operand_len()), ("the result", p.out_len())];
    over(operands, p.dtype, limit, "bindings").map_or(Ok(adapter), Err)
}

/// Workgroups of a setting, if the adapter takes it.
fn groups(p: &Pool, config: DirectConfig, adapter: &AdapterFacts) -> Option<[u32; 3]> {
    let each = u64::from(config.workgroup) * u64::from(config.items);
    let sound = (1..=1024).contains(&config.workgroup) && (1..=64).contains(&config.items);
    let fits = config.workgroup <= adapter.max_invocations.min(adapter.max_workgroup[0]);
    let rounds = rounds(p) * u64::from(config.items);
    let short = adapter.class != AdapterClass::Software || rounds <= MOST_ROUNDS;
    // What lies behind the last must not wrap around to the first.
    let counted = |groups: &[u32; 3]| u64::from(groups[0]) * u64::from(groups[1]) * each < 1 << 32;
    (sound && fits && short)
        .then(|| spread_groups(p.out_len().div_ceil(each), adapter))
        .flatten()
        .filter(counted)
}

fn configs(p: &Pool, adapter: &AdapterFacts) -> Vec<DirectConfig> {
    let most = adapter.max_invocations.min(adapter.max_workgroup[0]).max(1);
    let mut kept: Vec<DirectConfig> = Vec::new();
    for (workgroup, items) in [(64, 1), (256, 1), (32, 1), (128, 1), (64, 4), (256, 4), (64, 16)] {
        let config = DirectConfig { workgroup: workgroup.min(most), items };
        let each = u64::from(config.workgroup) * u64::from(items);
        let idle = each >= 2 * p.out_len().max(1) && (items > 1 || workgroup > 64);
        if !kept.contains(&config) && !idle && groups(p, config, adapter).is_some() {
            kept.push(config);
        }
    }
    kept
}

impl Variant<Gpu> for DirectWindows {
    type Problem = Pool;
    type Config = DirectConfig;

    identity!("gpu.pool.direct", Parallel);

    fn declines(&self, problem: &Pool, device: &DeviceFacts) -> Option<Decline> {
        match admits(problem, device) {
            Err(decline) => Some(decline),
            Ok(adapter) => {
                let many =
                    || Decline::from(format!("{} results are more than a dispatch has", problem.out_len()));
                configs(problem, adapter).is_empty().then(many)
            }
        }
    }

    fn configs(&self, problem: &Pool, device: &DeviceFacts) -> Vec<DirectConfig> {
        admits(problem, device).map_or_else(|_| Vec::new(), |adapter| configs(problem, adapter))
    }

    fn work(&self, problem: &Pool, config: DirectConfig, _: &DeviceFacts) -> Work {
        let elements = problem.flops().saturating_add(problem.out_len());
        Work {
            flops: Flops(problem.flops()),
            bytes: Bytes(elements.saturating_mul(problem.dtype.size())),
            launches: u32::from(problem.out_len() > 0),
            threads: 1,
            lanes: 1,
            invocations: problem.out_len().div_ceil(config.items.max(1).into()),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Pool, config: DirectConfig, writer: Writer<'_>) -> Launched {
        let groups = groups(problem, config, writer.adapter);
        let groups = groups.ok_or_else(|| LaunchError::Point(format!("{config:?}")))?;
        if problem.out_len() == 0 {
            return Ok(());
        }
        let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        let (needs, params) = (elements(problem).needs(), params(problem, config));
        let step = in_a_row(text(problem).into(), config.workgroup, groups, needs, bindings, params);
        writer.program.push(step);
        Ok(())
    }
}

fn params(p: &Pool, config: DirectConfig) -> Vec<u32> {
    let (window, out) = (&p.window, p.window.out());
    let (size, kernel, stride) = (window.size(), window.kernel(), window.stride());
    let (pad, dilation) = (window.pad(), window.dilation());
    // Images and channels before the space count as one; channels behind it are its innermost axis.
    let channels = if p.channels == Channels::Last { p.count() } else { 1 };
    let words = [
        [p.out_len() as usize, config.items as usize, channels, out[2]],
        [out[1], out[0], 0, 0],
        [kernel[0], kernel[1], kernel[2], 0],
        [size[0], size[1], size[2], 0],
        [stride[0], stride[1], stride[2], 0],
        [pad[0], pad[1], pad[2], 0],
        [dilation[0], dilation[1], dilation[2], 0],
    ];
    words.into_iter().flatten().map(|word| word as u32).collect()
}

fn text(p: &Pool) -> String {
    let elements = elements(p);
    let head = elements.types(1)
        + "@group(0) @binding(0) var<storage, read> operand: array<T>;
@group(0) @binding(1) var<storage, read_write> result: array<T>;
";
    let (step, last) = match (p.op, p.dtype) {
        (PoolOp::Max, _) => {
            ("if seen == 0u {\n        return value;\n    }\n    return op_max(before, value);", "value")
        }
        (PoolOp::Mean, DType::F64) => ("return before + value;", "value / f64(seen)"),
        (PoolOp::Mean, _) => ("return before + value;", "value / f32(seen)"),
    };
    let ops = if p.op == PoolOp::Max { elements.ops() } else { "" };
    let main = include_str!("direct.wgsl").replace("$STEP", step).replace("$LAST", last);
    head + ops + &with_main(&main)
}
