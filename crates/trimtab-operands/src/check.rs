//! Whether a result agrees with the reference. Small problems are compared element by element; large products, whose
//! reference takes seconds, by sampled elements and by multiplying with a random vector (Freivalds), or by sampled rows and
//! columns where steps follow.

use crate::operands::Operands;
use crate::slack::Bounds;
use crate::slice::{Data, Slice, SliceMut};
use trimtab_core::{
    BinaryOp, DType, ElementwiseOp, Fused, LaunchError, Matmul, Problem, ReduceOp, Step, UnaryOp,
};

/// Products with more operations than this are checked by sampling; the reference does about 1 Gflop/s.
pub(crate) const SAMPLED_FLOPS: u64 = 4_000_000;
/// Elements of a large product that are recomputed.
const SAMPLED_ELEMENTS: u64 = 128;
/// Rows, and columns, of a large product followed by steps that are recomputed: first, last, and a scatter between them.
pub(crate) const SAMPLED_LINES: u64 = 12;

/// The tolerance a kernel must keep, relative to the larger of the result and one.
///
/// Sums, products and moves of the checked operands are exact in every order; functions may be off by a few units in
/// the last place, powers by a few more.
pub fn tolerance(problem: &Problem) -> f64 {
    let epsilon = match problem.dtype() {
        Some(DType::F32) => f64::from(f32::EPSILON),
        Some(DType::F64) => f64::EPSILON,
        Some(DType::F16) => f64::from(half::f16::EPSILON),
        _ => 0.0,
    };
    match problem {
        Problem::Elementwise(p) => match p.op {
            ElementwiseOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) => 0.0,
            ElementwiseOp::Unary(_) => 8.0 * epsilon,
            ElementwiseOp::Binary(BinaryOp::Pow) => 64.0 * epsilon,
            ElementwiseOp::Binary(_) => epsilon,
        },
        Problem::Transpose(_) => 0.0,
        Problem::Fused(p) => fused_tolerance(p, epsilon),
        Problem::Matmul(_) | Problem::Reduce(_) | Problem::Custom(_) => 4.0 * epsilon,
    }
}

/// Every step may add its own error to those before it: a recipe is allowed the sum of what its steps are, doubled; sums of
/// fractions one unit a doubling of their length more. How steps pass errors on enlarged is in [`Bounds`], element by element.
fn fused_tolerance(p: &Fused, epsilon: f64) -> f64 {
    let each = |step: Step| match step {
        Step::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) => 0.0,
        Step::Unary(_) => 8.0,
        Step::Binary(BinaryOp::Pow) => 64.0,
        Step::Binary(_) => 1.0,
        Step::Product => 4.0,
        Step::Input(_) | Step::Number(_) => 0.0,
    };
    let steps: f64 = p.steps().map(each).sum();
    let end = match p.end() {
        Some((ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Prod, _)) => (p.reduced_len().max(2) as f64).log2(),
        _ => 0.0,
    };
    2.0 * (steps + end) * epsilon
}

/// Who computes what others are compared with: plain loops that take every problem.
pub trait Reference: Send + Sync {
    /// Computes a problem.
    fn compute(&self, problem: &Problem, inputs: &[Slice<'_>], out: SliceMut<'_>) -> Result<(), LaunchError>;
}

/// What a right result looks like, computed once per set of operands.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Every element.
    All(Data),
    /// Some elements, and the product of the result with a vector of signs.
    Sampled {
        /// Positions in the result and what stands there.
        elements: Vec<(usize, f64)>,
        /// The signed sum of every row.
        row_sums: Vec<f64>,
    },
    /// Every element of a recipe, each with how much more than itself its error may be measured by.
    Bounded {
        /// What stands there.
        values: Data,
        /// See [`Bounds`]; empty where results are exact.
        slack: Vec<f32>,
    },
    /// Some elements of a recipe: positions in the result, what stands there, and slack.
    Lines(Vec<(usize, f64, f64)>),
}

impl Expected {
    /// What a right result of the problem on these operands looks like.
    pub fn new(
        reference: &dyn Reference,
        problem: &Problem,
        operands: &Operands,
    ) -> Result<Expected, String> {
        match problem {
            Problem::Matmul(p) if p.flops() > SAMPLED_FLOPS => Ok(sampled(p, operands)),
            Problem::Fused(p) if p.product().is_some() && p.flops() > SAMPLED_FLOPS => Ok(lines(p, operands)),
            _ => {
                let mut out = operands.out.clone();
                out.poison();
                let computed = reference.compute(problem, &operands.slices(), out.slice_mut());
                computed.map_err(|error| error.to_string())?;
                match problem {
                    Problem::Fused(p) => {
                        let exact = !p.dtype.is_float();
                        let slack = if exact { vec![] } else { Bounds::new(p, operands).all() };
                        Ok(Expected::Bounded { values: out, slack })
                    }
                    _ => Ok(Expected::All(out)),
                }
            }
        }
    }

    /// The first disagreement in words, or nothing; within the tolerance of a kernel on the processor.
    pub fn check(&self, problem: &Problem, result: &Data) -> Result<(), String> {
        self.check_within(problem, result, tolerance(problem))
    }

    /// The first disagreement in words, or nothing; within a tolerance relative to the larger of the result and one.
    pub fn check_within(&self, problem: &Problem, result: &Data, tolerance: f64) -> Result<(), String> {
        match (self, problem) {
            (Expected::Sampled { elements, row_sums }, Problem::Matmul(p)) => {
                for &(index, expected) in elements {
                    compare(tolerance, index, result.at(index), expected, 0.0)?;
                }
                let n = p.n as usize;
                for (row, &expected) in row_sums.iter().enumerate() {
                    let terms =
                        (0..n).map(|column| result.at(row * n + column).unwrap_or(f64::NAN) * sign(column));
                    let sum: f64 = terms.sum();
                    // Integers: a single wrong element changes the sum by at least one.
                    if (sum - expected).abs() >= 0.5 || sum.is_nan() {
                        return Err(format!("row {row}: signed sum {sum}, reference {expected}"));
                    }
                }
                Ok(())
            }
            (Expected::All(expected), _) => compare_all(tolerance, result, expected, &[]),
            (Expected::Bounded { values, slack }, _) => compare_all(tolerance, result, values, slack),
            (Expected::Lines(elements), _) => elements.iter().try_for_each(|&(index, expected, slack)| {
                compare(tolerance, index, result.at(index), expected, slack)
            }),
            (Expected::Sampled { .. }, _) => Err("only products are sampled".to_string()),
        }
    }
}

fn compare_all(tolerance: f64, result: &Data, expected: &Data, slack: &[f32]) -> Result<(), String> {
    if expected.len() != result.len() {
        return Err(format!("{} elements, reference {}", result.len(), expected.len()));
    }
    (0..expected.len()).try_for_each(|index| {
        let slack = slack.get(index).map_or(0.0, |&slack| f64::from(slack));
        compare(tolerance, index, result.at(index), expected.at(index).unwrap_or(f64::NAN), slack)
    })
}

fn compare(tolerance: f64, index: usize, got: Option<f64>, expected: f64, slack: f64) -> Result<(), String> {
    let got = got.unwrap_or(f64::NAN);
    let same = got == expected || (got.is_nan() && expected.is_nan());
    let allowed = tolerance * expected.abs().max(1.0).max(slack);
    if same || slack == f64::INFINITY || (got - expected).abs() <= allowed {
        return Ok(());
    }
    Err(format!("element {index} is {got:e}, reference {expected:e}, allowed difference {allowed:.1e}"))
}

fn sign(index: usize) -> f64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63;
    if mixed == 0 { 1.0 } else { -1.0 }
}

fn element(operands: &Operands, input: usize, index: usize) -> f64 {
    operands.inputs.get(input).and_then(|data| data.at(index)).unwrap_or(f64::NAN)
}

/// Some rows and columns of a product followed by steps. First and last are among them: edges are where kernels go wrong.
fn lines(p: &Fused, operands: &Operands) -> Expected {
    let bounds = Bounds::new(p, operands);
    let (rows, columns) = (p.outer(), p.inner());
    let some = |count: u64| {
        let scatter = (2..SAMPLED_LINES).map(move |nth| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
        [0, count - 1].into_iter().chain(scatter)
    };
    let mut elements = Vec::new();
    let mut add = |row: u64, column: u64| {
        let (value, slack) = bounds.element(row, column);
        // Past the range of the element type is infinite.
        let value = match p.dtype {
            DType::F32 => f64::from(value as f32),
            DType::F16 => half::f16::from_f64(value).to_f64(),
            DType::F64 | DType::I32 => value,
        };
        let slack = if slack.is_nan() { f64::INFINITY } else { slack };
        elements.push(((row * columns + column) as usize, value, slack));
    };
    some(rows).for_each(|row| (0..columns).for_each(|column| add(row, column)));
    some(columns).for_each(|column| (0..rows).for_each(|row| add(row, column)));
    Expected::Lines(elements)
}

fn sampled(p: &Matmul, operands: &Operands) -> Expected {
    let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
    let lhs = |batch: usize, row: usize, inner: usize| {
        let start = if p.lhs.shared { 0 } else { batch * m * k };
        let within = if p.lhs.transposed { inner * m + row } else { row * k + inner };
        element(operands, 0, start + within)
    };
    let rhs = |batch: usize, inner: usize, column: usize| {
        let start = if p.rhs.shared { 0 } else { batch * k * n };
        let within = if p.rhs.transposed { column * k + inner } else { inner * n + column };
        element(operands, 1, start + within)
    };
    let total = p.out_len();
    let elements = (0..SAMPLED_ELEMENTS)
        .map(|sample| {
            // First, last, and a fixed scatter between them.
            let index = match sample {
                0 => 0,
                1 => total - 1,
                _ => sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) % total,
            } as usize;
            let (batch, row, column) = (index / (m * n), index / n % m, index % n);
            (index, (0..k).map(|inner| lhs(batch, row, inner) * rhs(batch, inner, column)).sum())
        })
        .collect();
    let mut row_sums = Vec::with_capacity(p.batch as usize * m);
    // Sums of halves are rounded: a wrong element would hide among the others' errors.
    let batches = if p.dtype == DType::F16 { 0 } else { p.batch as usize };
    for batch in 0..batches {
        let folded: Vec<f64> =
            (0..k).map(|inner| (0..n).map(|column| rhs(batch, inner, column) * sign(column)).sum()).collect();
        row_sums.extend(
            (0..m).map(|row| (0..k).map(|inner| lhs(batch, row, inner) * folded[inner]).sum::<f64>()),
        );
    }
    Expected::Sampled { elements, row_sums }
}
