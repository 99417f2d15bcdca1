//! An invocation a query, blocks of keys and values in workgroup memory: scores are never written.

use crate::kernels::lines::fits;
use crate::kernels::reduce::stage::LONGEST_WALK;
use crate::kernels::{adapter_with, in_a_row, over, with_main};
use crate::program::{BindTarget, Binding, Dispatch, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{
    AdapterFacts, Attention, Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, Variant, Work,
};

trimtab_core::config! {
    /// Queries of a workgroup, and keys of a block.
    pub struct OnlineConfig { workgroup, block }
}

/// Elements of a query, and of a value, that an invocation keeps in registers at most.
const MOST: u64 = 128;
/// Elements loaded at once.
const VECTOR: u64 = 4;

/// See the module.
#[derive(Debug)]
pub struct OnlineKernel;

fn admits<'a>(problem: &Attention, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    if !matches!(problem.dtype, DType::F32 | DType::F16) {
        return Err(Decline::from(format!("WGSL has no functions of {}", problem.dtype)));
    }
    let adapter = adapter_with(Needs::of(problem.dtype), device)?;
    let [queries, keys, values] = problem.input_lens();
    let all = [
        ("the queries", queries),
        ("the keys", keys),
        ("the values", values),
        ("the result", problem.out_len()),
    ];
    if problem.out_len() == 0 || problem.depth == 0 {
        return Err(Decline::because("there are no elements"));
    }
    let sides = [problem.depth, problem.width];
    if sides.iter().any(|side| *side > MOST || !side.is_multiple_of(VECTOR)) {
        let [depth, width] = sides;
        return Err(Decline::from(format!(
            "takes depths and widths in fours up to {MOST}, these are {depth} and {width}"
        )));
    }
    // Elements are counted in 32 bits.
    let most = adapter.max_binding.0.min(adapter.max_buffer.0).min(4 << 30);
    over(all, problem.dtype, most, "bindings").map_or(Ok(adapter), Err)
}

impl OnlineConfig {
    fn groups(self, problem: &Attention) -> u64 {
        problem.queries.div_ceil(self.workgroup.max(1).into())
    }

    fn bytes(self, problem: &Attention) -> u64 {
        u64::from(self.block) * (problem.depth + problem.width) * 4
    }

    fn is_legal(self, problem: &Attention, adapter: &AdapterFacts) -> bool {
        let vectors = (problem.depth + problem.width) / VECTOR;
        let blocks = problem.keys.div_ceil(self.block.max(1).into());
        let loads = blocks * (u64::from(self.block) * vectors).div_ceil(self.workgroup.max(1).into());
        self.block > 0
            && problem.keys + 2 * blocks + loads <= LONGEST_WALK
            && fits(
                self.workgroup,
                self.bytes(problem),
                self.groups(problem).saturating_mul(problem.batch),
                adapter,
            )
    }
}

impl Variant<Gpu> for OnlineKernel {
    type Problem = Attention;
    type Config = OnlineConfig;

    identity!("gpu.attention.online", Tiled);

    fn declines(&self, problem: &Attention, device: &DeviceFacts) -> Option<Decline> {
        let long = || {
            Decline::from(format!(
                "an invocation makes up to {LONGEST_WALK} steps, there are {} keys",
                problem.keys
            ))
        };
        admits(problem, device).err().or_else(|| self.configs(problem, device).is_empty().then(long))
    }

    fn configs(&self, problem: &Attention, device: &DeviceFacts) -> Vec<OnlineConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let idle = |workgroup: u32| workgroup > 16 && u64::from(workgroup / 2) >= problem.queries;
        let mut configs = Vec::new();
        for workgroup in [64, 32, 16, 128, 256] {
            configs.extend([32, 16, 64].map(|block| OnlineConfig { workgroup, block }));
        }
        configs.retain(|config| !idle(config.workgroup) && config.is_legal(problem, adapter));
        configs
    }

    fn work(&self, problem: &Attention, config: OnlineConfig, _: &DeviceFacts) -> Work {
        let [queries, keys, values] = problem.input_lens();
        let groups = config.groups(problem);
        let elements = queries.saturating_add(keys.saturating_add(values).saturating_mul(groups));
        let bytes = elements.saturating_add(problem.out_len()).saturating_mul(problem.dtype.size());
        let all = groups.saturating_mul(problem.batch);
        Work {
            flops: Flops(problem.flops().saturating_add(problem.pairs().saturating_mul(20))),
            bytes: Bytes(bytes),
            launches: 1,
            threads: 1,
            lanes: VECTOR as u32,
            barriers: all.saturating_mul(2 * problem.keys.div_ceil(config.block.max(1).into())),
            invocations: all.saturating_mul(config.workgroup.into()),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Attention, config: OnlineConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        if !config.is_legal(problem, args.adapter) {
            return Err(illegal());
        }
        let groups = config.groups(problem);
        let spread = spread_groups(groups.saturating_mul(problem.batch), args.adapter).ok_or_else(illegal)?;
        let factor = (1.0 / (problem.depth as f64).sqrt()) as f32;
        let first = problem.seen(0);
        let params = vec![
            problem.queries as u32,
            problem.keys as u32,
            groups as u32,
            first as u32,
            factor.to_bits(),
            u32::from(problem.causal),
            problem.batch as u32,
            0,
        ];
        let inputs = (0..3).map(|place| Binding::read(BindTarget::Input(place)));
        let bindings = inputs.chain([Binding::write(BindTarget::Out)]).collect();
        let needs = Needs::of(problem.dtype);
        let step = in_a_row(text(problem, config).into(), config.workgroup, spread, needs, bindings, params);
        args.program.push(Dispatch { workgroup_bytes: config.bytes(problem) as u32, ..step });
        Ok(())
    }
}

/// The shader of a depth and a width, which are written out: what registers hold has no index.
fn text(problem: &Attention, config: OnlineConfig) -> String {
    let (depth, span) = (problem.depth / VECTOR, problem.width / VECTOR);
    let each = |count: u64, line: &dyn Fn(u64) -> String| (0..count).map(line).collect::<Vec<_>>().join("\n");
    let load = each(depth, &|at| {
        format!(
            "    var q{at} = vec4<f32>(0.0);\n    if (there) {{\n        q{at} = vec4<f32>(queries[start + {at}u]);\n    }}"
        )
    }) + "\n"
        + &each(span, &|at| format!("    var o{at} = vec4<f32>(0.0);"));
    let score =
        (0..depth).map(|at| format!("dot(q{at}, some_keys[k + {at}u])")).collect::<Vec<_>>().join(" + ");
    let correct = each(span, &|at| format!("                    o{at} *= before;"));
    let add = each(span, &|at| format!("                o{at} += weight * some_values[v + {at}u];"));
    let odd = each(span, &|at| format!("        output[end + {at}u] = S(vec4<f32>(what));"));
    let store = each(span, &|at| format!("    output[end + {at}u] = S(o{at} * by);"));
    let scalar = if problem.dtype == DType::F16 { "f16" } else { "f32" };
    let body = with_main(include_str!("online.wgsl"))
        .replace("$BLOCK", &config.block.to_string())
        .replace("$DEPTH", &depth.to_string())
        .replace("$SPAN", &span.to_string())
        .replace("$LOAD", &load)
        .replace("$SCORE", &score)
        .replace("$CORRECT", &correct)
        .replace("$ADD", &add)
        .replace("$ODD", &odd)
        .replace("$STORE", &store);
    format!("alias S = vec4<{scalar}>;\n{body}")
}
