//! What plain loops in f64 give: what kernels are compared with here. Used by the example and by tests, which find its parts by their paths.

#[path = "reference_fft.rs"]
mod fft;
#[path = "reference_lines.rs"]
mod lines;
#[path = "reference_moves.rs"]
mod moves;
#[path = "reference_windows.rs"]
mod windows;

use trimtab_core::{
    BinaryOp, DType, Elementwise, ElementwiseOp, Fused, LaunchError, Matmul, Operand, Over, Problem,
    ProblemError, Reduce, ReduceOp, Rows, RowsOp, Step, UnaryOp, Varies,
};
use trimtab_operands::{Data, Reference, Slice, SliceMut};

/// Plain loops in f64.
pub struct Loops;

impl Reference for Loops {
    fn compute(&self, problem: &Problem, inputs: &[Slice<'_>], out: SliceMut<'_>) -> Result<(), LaunchError> {
        let numbers = |input: &Slice<'_>| {
            let data = input.to_data();
            (0..data.numbers()).map(|at| data.at(at).unwrap_or(f64::NAN)).collect::<Vec<f64>>()
        };
        let inputs: Vec<Vec<f64>> = inputs.iter().map(numbers).collect();
        let result = reference(problem, &inputs).map_err(LaunchError::Kernel)?;
        out.copy_from(Data::of_numbers(problem.out_dtype().unwrap_or(DType::F32), &result).slice())
    }
}

/// The result of a problem, or why there is none.
pub fn reference(problem: &Problem, inputs: &[Vec<f64>]) -> Result<Vec<f64>, String> {
    let input = |place: usize| inputs.get(place).map(Vec::as_slice).unwrap_or_default();
    Ok(match problem {
        Problem::Matmul(p) => product(p, input(0), input(1)),
        Problem::Elementwise(p) => elements(p, input(0), input(1)),
        Problem::Reduce(p) => folded(p, input(0)),
        Problem::Rows(p) => along_rows(p, inputs),
        Problem::Transpose(p) => moves::transposed(p, input(0)),
        Problem::Fused(p) => fused(p, inputs).map_err(|error| error.to_string())?,
        Problem::Cast(p) => input(0).iter().map(|value| moves::cast(p, *value)).collect(),
        Problem::Gather(p) => moves::gathered(p, input(0), input(1)),
        Problem::Scatter(p) => moves::scattered(p, input(0), input(1), input(2)),
        Problem::Mask(p) => moves::masked(p, inputs),
        Problem::Concat(p) => moves::side_by_side(p, inputs),
        Problem::Put(p) => moves::put(p, input(0), input(1)),
        Problem::Scan(p) => lines::scanned(p, input(0)),
        Problem::Sort(p) => lines::sorted(p, input(0)),
        Problem::Arg(p) => lines::indices(p, input(0)),
        Problem::Pool(p) => windows::pooled(p, input(0)),
        Problem::Attention(p) => windows::attended(p, inputs),
        Problem::Fft(p) => fft::transformed(p, input(0)),
        _ => return Err(format!("no reference for {problem}")),
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
    // The place in an operand: digits along the axes where it varies.
    let place = |at: usize, varies: &dyn Fn(usize) -> bool| {
        let (mut rest, mut stride, mut place) = (at, 1, 0);
        for (axis, size) in p.dims().iter().enumerate().rev() {
            let digit = rest % *size as usize;
            rest /= *size as usize;
            if varies(axis) {
                place += digit * stride;
                stride *= *size as usize;
            }
        }
        place
    };
    let one = |at: usize| {
        let x = lhs[place(at, &|axis| p.lhs_varies(axis))];
        let value = match p.op {
            ElementwiseOp::Unary(op) => unary(op, x),
            ElementwiseOp::Binary(op) => binary(op, x, rhs[place(at, &|axis| p.rhs_varies(axis))]),
        };
        if p.dtype == DType::I32 { value.trunc() } else { value }
    };
    (0..p.out_len() as usize).map(one).collect()
}

fn unary(op: UnaryOp, x: f64) -> f64 {
    match op {
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
    }
}

fn binary(op: BinaryOp, x: f64, y: f64) -> f64 {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Min => smaller(x, y),
        BinaryOp::Max => -smaller(-x, -y),
        BinaryOp::Pow => x.powf(y),
    }
}

fn fused(p: &Fused, inputs: &[Vec<f64>]) -> Result<Vec<f64>, ProblemError> {
    let [outer, inner] = [p.outer(), p.inner()].map(|size| size as usize);
    let products = match p.product() {
        Some(product) => {
            let operand = |transposed| Operand { transposed, shared: false };
            let (lhs, rhs) = (operand(product.lhs_transposed), operand(product.rhs_transposed));
            let of = Matmul::batched(p.dtype, 1, p.outer(), p.inner(), product.depth, lhs, rhs)?;
            self::product(&of, &inputs[0], &inputs[1])
        }
        None => Vec::new(),
    };
    let one = |at: usize| {
        let (row, column, mut waiting) = (at / inner, at % inner, Vec::new());
        for step in p.steps() {
            let value = match step {
                Step::Input(input) => {
                    let place = match p.varies(input.into()) {
                        Varies::All => at,
                        Varies::Rows => row,
                        Varies::Columns => column,
                        Varies::Nowhere => 0,
                    };
                    inputs[usize::from(input)][place]
                }
                Step::Number(number) => inputs[p.inputs()][usize::from(number)],
                Step::Product => products[at],
                Step::Unary(op) => unary(op, waiting.pop().unwrap_or(f64::NAN)),
                Step::Binary(op) => {
                    let (right, left) = (waiting.pop(), waiting.pop());
                    binary(op, left.unwrap_or(f64::NAN), right.unwrap_or(f64::NAN))
                }
            };
            waiting.push(value);
        }
        waiting.pop().unwrap_or(f64::NAN)
    };
    let values: Vec<f64> = (0..outer * inner).map(one).collect();
    let Some((op, over)) = p.end() else { return Ok(values) };
    let axis = match over {
        Over::All => None,
        Over::Rows => Some(0),
        Over::Columns => Some(1),
    };
    Ok(folded(&Reduce::new(op, p.dtype, &[p.outer(), p.inner()], axis)?, &values))
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

fn along_rows(p: &Rows, inputs: &[Vec<f64>]) -> Vec<f64> {
    let [outer, len, inner] = [p.outer, p.len, p.inner].map(|size| size as usize);
    let mut out = vec![f64::NAN; p.out_len() as usize];
    let epsilon = inputs.last().and_then(|last| last.first()).copied().unwrap_or(0.0);
    for row in 0..outer * inner {
        let place = |i: usize| (row / inner * len + i) * inner + row % inner;
        let values: Vec<f64> = (0..len).map(|i| inputs[0][place(i)]).collect();
        let most = -values.iter().fold(f64::INFINITY, |least, x| smaller(least, -x));
        let exps: f64 = values.iter().map(|x| (x - most).exp()).sum();
        let mean = values.iter().sum::<f64>() / len as f64;
        let mean = if p.op == RowsOp::RmsNorm { 0.0 } else { mean };
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len as f64;
        let scale = |i: usize| if p.scaled { inputs[1][i] } else { 1.0 };
        let shift = |i: usize| if p.shifted { inputs[1 + usize::from(p.scaled)][i] } else { 0.0 };
        match p.op {
            RowsOp::LogSumExp => out[row] = if most.is_finite() { most + exps.ln() } else { most },
            RowsOp::Variance => out[row] = variance,
            op => {
                for (i, x) in values.iter().enumerate() {
                    out[place(i)] = match op {
                        RowsOp::Softmax => (x - most).exp() / exps,
                        RowsOp::LogSoftmax => x - most - exps.ln(),
                        _ => (x - mean) / (variance + epsilon).sqrt() * scale(i) + shift(i),
                    };
                }
            }
        }
    }
    out
}
