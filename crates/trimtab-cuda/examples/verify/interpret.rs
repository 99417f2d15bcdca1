//! Runs a case on the interpreter and compares with what plain loops give.

use crate::cases::Case;
use crate::reference::reference;
use anyhow::{Context, Result, ensure};
use trimtab_core::{BinaryOp, DType, ElementwiseOp, Problem, UnaryOp};
use trimtab_cuda::StepArgument;
use trimtab_operands::{bf16, f16};
use trimtab_ptx::{Counters, GlobalMemory, GridLaunch, Module};

/// Bytes of the interpreter's memory.
const MEMORY: u64 = 1 << 26;

/// Runs the steps of a case, each compiled to the PTX in its place.
pub fn run(texts: &[String], case: &Case) -> Result<Counters> {
    let problem = &case.problem;
    let dtype = problem.dtype().context("a problem without a type")?;
    let lens: Vec<usize> = problem.input_lens().as_slice().iter().map(|len| *len as usize).collect();
    let inputs: Vec<Vec<f64>> =
        lens.iter().enumerate().map(|(place, len)| numbers(*len, place as u64, problem)).collect();
    let mut memory = GlobalMemory::new(MEMORY);
    let mut addresses = Vec::new();
    for input in &inputs {
        let bytes: Vec<u8> = input.iter().flat_map(|value| encoded(dtype, *value)).collect();
        let address = memory.allocate(bytes.len() as u64)?;
        memory.write(address, &bytes)?;
        addresses.push(address);
    }
    let size = dtype.size() as usize;
    let out_len = problem.out_len() as usize;
    let out = memory.allocate((out_len * size) as u64)?;
    let scratch = memory.allocate(case.program.scratch.max(1))?;
    let mut counters = Counters::default();
    for (ptx, step) in texts.iter().zip(&case.program.steps) {
        let module = Module::parse(ptx)?;
        let mut launch = GridLaunch::new(step.grid, step.block);
        for given in &step.given {
            launch = match given {
                StepArgument::Input(place) => launch.u64(addresses[usize::from(*place)]),
                StepArgument::Out => launch.u64(out),
                StepArgument::Scratch => launch.u64(scratch),
                StepArgument::U32(value) => launch.u32(*value),
                StepArgument::U64(value) => launch.u64(*value),
            };
        }
        let kernel = module.kernel(step.entry).context("the kernel is not in its module")?;
        counters += kernel.launch(&mut memory, &launch)?;
    }
    let mut bytes = vec![0; out_len * size];
    memory.read(out, &mut bytes)?;
    let expected = reference(problem, &inputs).map_err(anyhow::Error::msg)?;
    ensure!(expected.len() == out_len, "the reference gives {} elements", expected.len());
    // Moves are exact; sums of up to 3,001 terms and functions are off by some units in the last place.
    let tolerance = match (problem, dtype) {
        (Problem::Transpose(_), _) => 0.0,
        (_, DType::F64) => 1e-13,
        // Half a unit in the last place of the type.
        (_, DType::F16) => 5e-4,
        (_, DType::Bf16) => 4e-3,
        // Sums of functions, and what they are divided by.
        (Problem::Fused(_) | Problem::Rows(_), _) => 1e-5,
        _ => 5e-6,
    };
    // Where all are small, what is small counts.
    let least = expected.iter().fold(0f64, |most, value| most.max(value.abs())).min(1.0);
    for (at, (got, expected)) in
        bytes.chunks_exact(size).map(|bytes| decoded(dtype, bytes)).zip(expected).enumerate()
    {
        let right = (got - expected).abs() <= tolerance * expected.abs().max(least)
            || got.is_nan() && expected.is_nan();
        ensure!(right, "element {at} is {got}, not {expected}");
    }
    Ok(counters)
}

/// Made-up operands that the type holds exactly; positive where a function asks for it.
fn numbers(len: usize, seed: u64, problem: &Problem) -> Vec<f64> {
    let positive = match problem {
        Problem::Elementwise(p) => matches!(
            p.op,
            ElementwiseOp::Unary(UnaryOp::Log | UnaryOp::Sqrt)
                | ElementwiseOp::Binary(BinaryOp::Pow | BinaryOp::Div)
        ),
        // What is added to a variance under a root.
        Problem::Rows(p) => p.op.is_norm(),
        _ => false,
    };
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Whole numbers in 0 to 255, so that also bytes hold them.
            let whole = (state >> 40) % 256;
            match problem.dtype() {
                Some(DType::F32 | DType::F64) if positive => (whole as f64 + 1.0) / 64.0,
                Some(DType::F16) if positive => (whole as f64 + 1.0) / 64.0,
                // Eight bits: every type of floats holds them.
                Some(DType::F32 | DType::F64 | DType::F16 | DType::Bf16) => (whole as f64 - 128.0) / 64.0,
                _ => whole as f64,
            }
        })
        .collect()
}

fn encoded(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        _ => vec![value as u8],
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> f64 {
    match (dtype, bytes) {
        (DType::F64, _) => f64::from_le_bytes(std::array::from_fn(|at| bytes[at])),
        (DType::F32, _) => f32::from_le_bytes(std::array::from_fn(|at| bytes[at])).into(),
        (DType::F16, _) => f16::from_le_bytes([bytes[0], bytes[1]]).into(),
        (DType::Bf16, _) => bf16::from_le_bytes([bytes[0], bytes[1]]).into(),
        _ => bytes[0].into(),
    }
}
