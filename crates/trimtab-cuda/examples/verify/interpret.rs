//! Runs a case on the interpreter and compares with what plain loops give.

use crate::cases::Case;
use anyhow::{Context, Result, bail, ensure};
use trimtab_core::{
    BinaryOp, DType, Elementwise, ElementwiseOp, Matmul, Problem, Reduce, ReduceOp, Transpose, UnaryOp,
};
use trimtab_cuda::StepArgument;
use trimtab_operands::{bf16, f16};
use trimtab_ptx::{Counters, GlobalMemory, GridLaunch, Module};

/// Bytes of the interpreter's memory.
const MEMORY: u64 = 1 << 26;

pub fn run(ptx: &str, case: &Case) -> Result<Counters> {
    let module = Module::parse(ptx)?;
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
    let step = case.step();
    let mut launch = GridLaunch::new(step.grid, step.block);
    for given in &step.given {
        launch = match given {
            StepArgument::Input(place) => launch.u64(addresses[usize::from(*place)]),
            StepArgument::Out => launch.u64(out),
            StepArgument::U32(value) => launch.u32(*value),
            StepArgument::U64(value) => launch.u64(*value),
        };
    }
    let kernel = module.kernel(step.entry).context("the kernel is not in its module")?;
    let counters = kernel.launch(&mut memory, &launch)?;
    let mut bytes = vec![0; out_len * size];
    memory.read(out, &mut bytes)?;
    let expected = reference(problem, &inputs)?;
    ensure!(expected.len() == out_len, "the reference gives {} elements", expected.len());
    // Moves are exact; sums of up to 3,001 terms and functions are off by some units in the last place.
    let tolerance = match (problem, dtype) {
        (Problem::Transpose(_), _) => 0.0,
        (_, DType::F64) => 1e-13,
        // Half a unit in the last place of the type.
        (_, DType::F16) => 5e-4,
        (_, DType::Bf16) => 4e-3,
        _ => 5e-6,
    };
    for (at, (got, expected)) in
        bytes.chunks_exact(size).map(|bytes| decoded(dtype, bytes)).zip(expected).enumerate()
    {
        let right = (got - expected).abs() <= tolerance * expected.abs().max(1.0)
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

pub fn reference(problem: &Problem, inputs: &[Vec<f64>]) -> Result<Vec<f64>> {
    let input = |place: usize| inputs.get(place).map(Vec::as_slice).unwrap_or_default();
    Ok(match problem {
        Problem::Matmul(p) => product(p, input(0), input(1)),
        Problem::Elementwise(p) => elements(p, input(0), input(1)),
        Problem::Reduce(p) => folded(p, input(0)),
        Problem::Transpose(p) => transposed(p, input(0)),
        _ => bail!("no reference for {problem}"),
    })
}

fn product(p: &Matmul, lhs: &[f64], rhs: &[f64]) -> Vec<f64> {
    let [batch, m, n, k] = [p.batch, p.m, p.n, p.k].map(|size| size as usize);
    let mut out = Vec::with_capacity(batch * m * n);
    for b in 0..batch {
        let left = &lhs[if p.lhs.shared { 0 } else { b * m * k }..];
        let right = &rhs[if p.rhs.shared { 0 } else { b * k * n }..];
        for at in 0..m * n {
            let (row, column) = (at / n, at % n);
            let a = |i: usize| left[if p.lhs.transposed { i * m + row } else { row * k + i }];
            let b = |i: usize| right[if p.rhs.transposed { column * k + i } else { i * n + column }];
            out.push((0..k).map(|i| a(i) * b(i)).sum());
        }
    }
    out
}

fn elements(p: &Elementwise, lhs: &[f64], rhs: &[f64]) -> Vec<f64> {
    let one = |x: f64, y: f64| match p.op {
        ElementwiseOp::Unary(op) => match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Exp => x.exp(),
            UnaryOp::Log => x.ln(),
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            UnaryOp::Relu if x < 0.0 => 0.0,
            UnaryOp::Relu => x,
            UnaryOp::Gelu => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        },
        ElementwiseOp::Binary(op) => match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Min => smaller(x, y),
            BinaryOp::Max => -smaller(-x, -y),
            BinaryOp::Pow => x.powf(y),
        },
    };
    lhs.iter().enumerate().map(|(at, x)| one(*x, rhs.get(at).copied().unwrap_or(0.0))).collect()
}

/// The smaller; what is no number wins.
fn smaller(x: f64, y: f64) -> f64 {
    if x.is_nan() || x < y { x } else { y }
}

fn folded(p: &Reduce, input: &[f64]) -> Vec<f64> {
    let [outer, len, inner] = [p.outer, p.len, p.inner].map(|size| size as usize);
    let mut out = Vec::with_capacity(outer * inner);
    for at in 0..outer * inner {
        let values = (0..len).map(|i| input[(at / inner * len + i) * inner + at % inner]);
        out.push(match p.op {
            ReduceOp::Sum => values.sum(),
            ReduceOp::Mean => values.sum::<f64>() / len as f64,
            ReduceOp::Min => values.fold(f64::INFINITY, smaller),
            ReduceOp::Max => -values.fold(f64::INFINITY, |least, x| smaller(least, -x)),
            ReduceOp::Prod => values.product(),
        });
    }
    out
}

fn transposed(p: &Transpose, input: &[f64]) -> Vec<f64> {
    let dims: Vec<usize> = p.dims().iter().map(|size| *size as usize).collect();
    let [planes, height, width] = match dims.as_slice() {
        [height, width] => [1, *height, *width],
        [planes, height, width] => [*planes, *height, *width],
        _ => return Vec::new(),
    };
    let from = |at: usize| {
        let (plane, x, y) = (at / (height * width), at / height % width, at % height);
        input[(plane * height + y) * width + x]
    };
    (0..planes * height * width).map(from).collect()
}
