//! Every invocation makes some words of the result, the grid apart: one number, or two of 16 bits.

use crate::kernels::indices::{choices, groups};
use crate::kernels::{adapter_with, in_a_row, over, with_main};
use crate::program::{BindTarget, Binding, Gpu, Launched, Needs, Writer, spread_groups};
use trimtab_core::{
    AdapterFacts, Bytes, Cast, DType, Decline, DeviceFacts, Flops, LaunchError, Problem, Variant, Work,
};

trimtab_core::config! {
    /// Invocations of a workgroup, and words an invocation makes.
    pub struct WordsConfig { workgroup, items }
}

/// See the module.
#[derive(Debug)]
pub struct WordsKernel;

/// Numbers of a word of that type.
fn in_a_word(dtype: DType) -> u64 {
    4 / dtype.size().clamp(1, 4)
}

/// Words of the result.
fn words(problem: &Cast) -> u64 {
    problem.len.div_ceil(in_a_word(problem.to))
}

/// What the adapter told, or why it does not take the problem.
fn admits<'a>(problem: &Cast, device: &'a DeviceFacts) -> Result<&'a AdapterFacts, Decline> {
    let known = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::I32);
    if let Some(other) = [problem.dtype, problem.to].into_iter().find(|dtype| !known(*dtype)) {
        return Err(Decline::from(format!("casts between f32, f16, bf16 and i32, not {other}")));
    }
    let adapter = adapter_with(Needs::default(), device)?;
    if problem.len == 0 {
        return Err(Decline::because("there are no elements"));
    }
    // Elements are counted in 32 bits, with room for a last stride.
    let limit = adapter.max_binding.0.min(adapter.max_buffer.0).min(1 << 31);
    let operands = [("the operand", problem.len), ("the result", problem.len)];
    over(operands, DType::F32, limit, "bindings").map_or(Ok(adapter), Err)
}

impl Variant<Gpu> for WordsKernel {
    type Problem = Cast;
    type Config = WordsConfig;

    identity!("gpu.cast.words", Vectorized);

    fn declines(&self, problem: &Cast, device: &DeviceFacts) -> Option<Decline> {
        let none = || Decline::because("the adapter does not take so many workgroups");
        let declined = admits(problem, device).err();
        declined.or_else(|| self.configs(problem, device).is_empty().then(none))
    }

    fn configs(&self, problem: &Cast, device: &DeviceFacts) -> Vec<WordsConfig> {
        let Ok(adapter) = admits(problem, device) else { return Vec::new() };
        let choices = choices(words(problem), adapter).into_iter();
        choices.map(|[workgroup, items]| WordsConfig { workgroup, items }).collect()
    }

    fn work(&self, problem: &Cast, config: WordsConfig, _: &DeviceFacts) -> Work {
        Work {
            flops: Flops(problem.len.saturating_mul(12)),
            bytes: Bytes(Problem::from(*problem).operand_bytes().0),
            launches: 1,
            threads: 1,
            lanes: in_a_word(problem.to) as u32,
            invocations: groups(words(problem), config.workgroup, config.items) * u64::from(config.workgroup),
            ..Work::default()
        }
    }

    fn launch(&self, problem: &Cast, config: WordsConfig, args: Writer<'_>) -> Launched {
        let illegal = || LaunchError::Point(format!("{config:?}"));
        let all = words(problem);
        if !choices(all, args.adapter).contains(&[config.workgroup, config.items]) {
            return Err(illegal());
        }
        let groups =
            spread_groups(groups(all, config.workgroup, config.items), args.adapter).ok_or_else(illegal)?;
        let from = if in_a_word(problem.dtype) == 1 { "input[at]" } else { "half_at(at)" };
        let main = with_main(include_str!("words.wgsl"))
            .replace("$MADE", &made(problem).replace("$X", from))
            .replace("$PAIRS", if in_a_word(problem.to) == 2 { "true" } else { "false" });
        let text = include_str!("bits.wgsl").to_string() + &main;
        let params = vec![problem.len as u32, all as u32, groups[0] * groups[1] * config.workgroup, 0];
        let bindings = vec![Binding::read(BindTarget::Input(0)), Binding::write(BindTarget::Out)];
        args.program.push(in_a_row(
            text.into(),
            config.workgroup,
            groups,
            Needs::default(),
            bindings,
            params,
        ));
        Ok(())
    }
}

/// The bits of one type made from those of another, `$X`.
fn made(problem: &Cast) -> String {
    if problem.dtype == problem.to {
        return "$X".to_string();
    }
    if problem.dtype == DType::I32 {
        return match problem.to {
            DType::Bf16 => "float_of($X, 8u) >> 16u",
            DType::F16 => "half_of(float_of($X, 24u))",
            _ => "float_of($X, 24u)",
        }
        .to_string();
    }
    let float = match problem.dtype {
        DType::F16 => "float_of_half($X)",
        DType::Bf16 => "($X << 16u)",
        _ => "$X",
    };
    match problem.to {
        DType::F16 => format!("half_of({float})"),
        DType::Bf16 => format!("brain_of({float})"),
        DType::I32 => format!("whole_of({float})"),
        _ => float.to_string(),
    }
}
