//! Every invocation has some words of the result, the grid apart: four truth values, or as many elements as it is told to choose at once.

use crate::kernels::indices::{admits, choices, groups, moved};
use crate::kernels::{in_a_row, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{
    Bytes, DType, Decline, DeviceFacts, Flops, LaunchError, MAX_RANK, Mask, MaskOp, Problem, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and words an invocation makes.
    pub struct WordsConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct WordsKernel;

/// Truth values of a word.
const BYTES: u64 = 4;

/// What the texts need of an adapter: doubles go as their bits.
fn needs(problem: &Mask) -> Needs {
    Needs { f64: false, ..Needs::of(problem.dtype) }
}

/// What invocations share: words of truth values, or elements.
fn items(problem: &Mask) -> u64 {
    match problem.op {
        MaskOp::Where => problem.out_len(),
        _ => problem.out_len().div_ceil(BYTES),
    }
}

impl Variant<Gpu> for WordsKernel {
    type Problem = Mask;
    type Config = WordsConfig;

    identity!("gpu.mask.words", Vectorized);

    fn declines(&self, problem: &Mask, device: &DeviceFacts) -> Option<Decline> {
        let declined = admits(&Problem::from(*problem), 0, needs(problem), device).err();
        let none = || Decline::because("the adapter does not take so many workgroups");
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Mask, device: &DeviceFacts) -> Vec<WordsConfig> {
        let Ok(adapter) = admits(&Problem::from(*problem), 0, needs(problem), device) else {
            return Vec::new();
        };
        let choices = choices(items(problem), adapter).into_iter();
        choices.map(|[workgroup, items]| WordsConfig { workgroup, items }).collect()
    }

    fn work(&self, problem: &Mask, config: WordsConfig, _: &DeviceFacts) -> Work {
        let digits = 7 * problem.dims().len() as u64;
        Work {
            flops: Flops(problem.out_len().saturating_mul(1 + digits)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0),
            launches: 1,
            threads: 1,
            lanes: 1,
            invocations: groups(items(problem), config.workgroup, config.items) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Mask, config: WordsConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        let all = items(problem);
        if !choices(all, args.adapter).contains(&[config.workgroup, config.items]) {
            return Err(illegal());
        }
        let groups =
            spread_groups(groups(all, config.workgroup, config.items), args.adapter).ok_or_else(illegal)?;
        let chooses = problem.op == MaskOp::Where;
        let (mut text, main) = match chooses {
            true => (format!("alias T = {};\n", moved(problem.dtype)), include_str!("where.wgsl")),
            false => (compares(problem), include_str!("compare.wgsl")),
        };
        text.push_str(include_str!("places.wgsl"));
        text.push_str(&with_main(main));
        // Sizes from the last axis on, with the strides of each operand.
        let mut params = vec![
            problem.out_len() as u32,
            groups[0] * groups[1] * config.workgroup,
            problem.dims().len() as u32,
            all as u32,
        ];
        let mut strides = [1u32; 3];
        for axis in (0..problem.dims().len()).rev() {
            let size = problem.dims()[axis] as u32;
            params.push(size);
            for (place, stride) in strides.iter_mut().enumerate() {
                let varies = problem.varies(place, axis);
                params.push(if varies { *stride } else { 0 });
                *stride = if varies { stride.saturating_mul(size) } else { *stride };
            }
        }
        params.resize(4 + 4 * MAX_RANK, 0);
        let mut bindings: Vec<Binding> =
            (0..problem.operands() as u8).map(|place| Binding::read(BindTarget::Input(place))).collect();
        bindings.push(Binding::write(BindTarget::Out));
        args.program.push(in_a_row(text.into(), config.workgroup, groups, needs(problem), bindings, params));
        Ok(())
    }
}

// Bits that order like the numbers, both zeros the same: no device cuts off small ones that way, and none takes it that there are no NaN.
const FLOATS: &str = "fn is_nan(x: T) -> bool { return ($BITS & 0x7fffffffu) > 0x7f800000u; }
fn key(x: T) -> u32 {
    let bits = $BITS;
    if ((bits & 0x7fffffffu) == 0u) {
        return 0x80000000u;
    }
    return bits ^ (bitcast<u32>(bitcast<i32>(bits) >> 31u) | 0x80000000u);
}
fn less(a: u32, b: u32) -> bool { return a < b; }
";

const INTEGERS: &str = "fn is_nan(x: T) -> bool { return false; }
fn key(x: T) -> i32 { return x; }
fn less(a: i32, b: i32) -> bool { return a < b; }
";

// Two words, the lower one first.
const DOUBLES: &str = "fn is_nan(x: T) -> bool {
    let size = x.y & 0x7fffffffu;
    return size > 0x7ff00000u || (size == 0x7ff00000u && x.x != 0u);
}
fn key(x: T) -> vec2<u32> {
    if ((x.y & 0x7fffffffu) == 0u && x.x == 0u) {
        return vec2<u32>(0u, 0x80000000u);
    }
    let flip = bitcast<u32>(bitcast<i32>(x.y) >> 31u);
    return vec2<u32>(x.x ^ flip, x.y ^ (flip | 0x80000000u));
}
fn less(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
";

/// The element type and a comparison.
fn compares(problem: &Mask) -> String {
    let keys = match problem.dtype {
        DType::F16 => format!("alias T = f16;\n{}", FLOATS.replace("$BITS", "bitcast<u32>(f32(x))")),
        DType::F64 => format!("alias T = vec2<u32>;\n{DOUBLES}"),
        DType::I32 => format!("alias T = i32;\n{INTEGERS}"),
        _ => format!("alias T = u32;\n{}", FLOATS.replace("$BITS", "x")),
    };
    let (of_nan, of_keys) = match problem.op {
        MaskOp::Ne => ("true", "less(first, second) || less(second, first)"),
        MaskOp::Lt => ("false", "less(first, second)"),
        MaskOp::Le => ("false", "!less(second, first)"),
        MaskOp::Gt => ("false", "less(second, first)"),
        MaskOp::Ge => ("false", "!less(first, second)"),
        MaskOp::Eq | MaskOp::Where => ("false", "!(less(first, second) || less(second, first))"),
    };
    format!(
        "{keys}fn holds(a: T, b: T) -> bool {{
    if (is_nan(a) || is_nan(b)) {{
        return {of_nan};
    }}
    let first = key(a);
    let second = key(b);
    return {of_keys};
}}
"
    )
}
