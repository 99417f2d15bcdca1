//! Whether a result agrees with the reference. Small problems are compared element by element; large products, whose
//! reference takes seconds, by sampled elements and by multiplying with a random vector (Freivalds).

use crate::operands::{Data, Operands};
use crate::slice::{Slice, SliceMut};
use trimtab_core::{
    BinaryOp, DType, ElementwiseOp, Fused, LaunchError, Matmul, Problem, ReduceOp, Step, UnaryOp,
};

/// Products with more operations than this are checked by sampling; the reference does about 1 Gflop/s.
const SAMPLED_FLOPS: u64 = 4_000_000;
/// Elements of a large product that are recomputed.
const SAMPLED_ELEMENTS: u64 = 128;

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

/// Every step may add its own error to those before it, and passes those on enlarged: a recipe is allowed the sum of what
/// its steps are, doubled; sums of fractions one unit a doubling of their length more.
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
            _ => {
                let mut out = operands.out.clone();
                out.poison();
                let computed = reference.compute(problem, &operands.slices(), out.slice_mut());
                computed.map(|()| Expected::All(out)).map_err(|error| error.to_string())
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
                    compare(tolerance, index, result.at(index), expected)?;
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
            (Expected::All(expected), _) => {
                if expected.len() != result.len() {
                    return Err(format!("{} elements, reference {}", result.len(), expected.len()));
                }
                (0..expected.len()).try_for_each(|index| {
                    compare(tolerance, index, result.at(index), expected.at(index).unwrap_or(f64::NAN))
                })
            }
            (Expected::Sampled { .. }, _) => Err("only products are sampled".to_string()),
        }
    }
}

fn compare(tolerance: f64, index: usize, got: Option<f64>, expected: f64) -> Result<(), String> {
    let got = got.unwrap_or(f64::NAN);
    let same = got == expected || (got.is_nan() && expected.is_nan());
    let allowed = tolerance * expected.abs().max(1.0);
    if same || (got - expected).abs() <= allowed {
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
