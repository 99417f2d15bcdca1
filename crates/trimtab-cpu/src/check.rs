//! Whether a result agrees with the reference. Small problems are compared element by element; large products, whose
//! reference takes seconds, by sampled elements and by multiplying with a random vector (Freivalds).

use crate::erase::AnyKernel;
use crate::operands::{Data, Operands};
use crate::pool::Pool;
use trimtab_core::{DType, ElementwiseOp, Matmul, Problem, UnaryOp, VariantClass};

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
        _ => 0.0,
    };
    match problem {
        Problem::Elementwise(p) => match p.op {
            ElementwiseOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) => 0.0,
            ElementwiseOp::Unary(_) => 8.0 * epsilon,
            ElementwiseOp::Binary(trimtab_core::BinaryOp::Pow) => 64.0 * epsilon,
            ElementwiseOp::Binary(_) => epsilon,
        },
        Problem::Transpose(_) => 0.0,
        Problem::Matmul(_) | Problem::Reduce(_) | Problem::Custom(_) => 4.0 * epsilon,
    }
}

/// What a right result looks like, computed once per set of operands.
pub(crate) enum Expected {
    /// Every element.
    All(Data),
    /// Some elements, and the product of the result with a vector of signs.
    Sampled { elements: Vec<(usize, f64)>, row_sums: Vec<f64> },
}

impl Expected {
    pub(crate) fn new(
        kernels: &[Box<dyn AnyKernel>],
        problem: &Problem,
        operands: &Operands,
        pool: &Pool,
    ) -> Result<Expected, String> {
        match problem {
            Problem::Matmul(p) if p.flops() > SAMPLED_FLOPS => Ok(sampled(p, operands)),
            _ => reference(kernels, problem, operands, pool).map(Expected::All),
        }
    }

    /// The first disagreement in words, or nothing.
    pub(crate) fn check(&self, problem: &Problem, result: &Data) -> Result<(), String> {
        match (self, problem) {
            (Expected::Sampled { elements, row_sums }, Problem::Matmul(p)) => {
                for &(index, expected) in elements {
                    compare(problem, index, result.at(index), expected)?;
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
                    compare(problem, index, result.at(index), expected.at(index).unwrap_or(f64::NAN))
                })
            }
            (Expected::Sampled { .. }, _) => Err("only products are sampled".to_string()),
        }
    }
}

/// Runs the operation's reference kernel on the operands.
pub(crate) fn reference(
    kernels: &[Box<dyn AnyKernel>],
    problem: &Problem,
    operands: &Operands,
    pool: &Pool,
) -> Result<Data, String> {
    let mut own = Operands { lhs: Data::None, rhs: Data::None, out: operands.out.clone() };
    own.out.poison();
    let kernel = kernels
        .iter()
        .find(|kernel| {
            let info = kernel.info();
            info.class == VariantClass::Reference && info.operation == problem.operation()
        })
        .ok_or_else(|| format!("{} has no reference kernel", problem.operation()))?;
    let args =
        crate::Args { lhs: operands.lhs.slice(), rhs: operands.rhs.slice(), out: own.out.slice_mut(), pool };
    kernel.launch(problem, &trimtab_core::Point::EMPTY, args).map_err(|error| error.to_string())?;
    Ok(own.out)
}

fn compare(problem: &Problem, index: usize, got: Option<f64>, expected: f64) -> Result<(), String> {
    let got = got.unwrap_or(f64::NAN);
    let same = got == expected || (got.is_nan() && expected.is_nan());
    let allowed = tolerance(problem) * expected.abs().max(1.0);
    if same || (got - expected).abs() <= allowed {
        return Ok(());
    }
    Err(format!("element {index} is {got:e}, reference {expected:e}, allowed difference {allowed:.1e}"))
}

fn sign(index: usize) -> f64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63;
    if mixed == 0 { 1.0 } else { -1.0 }
}

fn sampled(p: &Matmul, operands: &Operands) -> Expected {
    let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
    let lhs = |batch: usize, row: usize, inner: usize| {
        let start = if p.lhs.shared { 0 } else { batch * m * k };
        let within = if p.lhs.transposed { inner * m + row } else { row * k + inner };
        operands.lhs.at(start + within).unwrap_or(f64::NAN)
    };
    let rhs = |batch: usize, inner: usize, column: usize| {
        let start = if p.rhs.shared { 0 } else { batch * k * n };
        let within = if p.rhs.transposed { column * k + inner } else { inner * n + column };
        operands.rhs.at(start + within).unwrap_or(f64::NAN)
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
    for batch in 0..p.batch as usize {
        let folded: Vec<f64> =
            (0..k).map(|inner| (0..n).map(|column| rhs(batch, inner, column) * sign(column)).sum()).collect();
        row_sums.extend(
            (0..m).map(|row| (0..k).map(|inner| lhs(batch, row, inner) * folded[inner]).sum::<f64>()),
        );
    }
    Expected::Sampled { elements, row_sums }
}
