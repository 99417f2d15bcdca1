//! Whether a result agrees with the reference. Small problems are compared element by element; large products, whose
//! reference takes seconds, by random elements and by multiplying with a random vector (Freivalds), or by more random elements
//! where steps follow.

use crate::element::Element;
use crate::operands::Operands;
use crate::slack::Bounds;
use crate::slice::{Data, Slice, SliceMut};
use crate::windows::Elements;
use std::hash::{BuildHasher, Hasher, RandomState};
use trimtab_core::{
    BinaryOp, Conv, DType, ElementwiseOp, Fused, LaunchError, Matmul, PoolOp, Problem, RandomNumbers,
    ReduceOp, RowsOp, ScanOp, Step, UnaryOp, Work,
};

mod fft;
mod index;
mod rows;

pub(crate) use fft::takes_ns as fft_takes_ns;

/// Of so few terms the sizes may add up to several times what is usual: one of 31 × 65 elements of two terms was off by more than
/// was allowed of the usual size, and by half of what it may be off.
const FEW_TERMS: u64 = 32;
/// Products with more operations than this are checked by sampling; the reference does about 1 Gflop/s.
pub(crate) const SAMPLED_FLOPS: u64 = 4_000_000;
/// Elements of a large product that are recomputed; its rows are all added up besides.
const SAMPLED_ELEMENTS: usize = 128;
/// Elements of a large product followed by steps that are recomputed: of a kernel that is wrong in one of a hundred, all are
/// right once in five million times.
const SAMPLED_STEPPED: usize = 1536;
/// More of them in the last row, and the last column: edges are where kernels go wrong.
const SAMPLED_EDGE: usize = 64;
/// How many are recomputed in all.
pub(crate) const SAMPLED_IN_ALL: u64 = (SAMPLED_STEPPED + 2 * SAMPLED_EDGE + 2) as u64;
/// Elements that are looked at again after timed runs.
const SPOTS: usize = 256;
/// Elements of an operand from which its size is told.
const SIZED_BY: usize = 4096;
/// Times what one element may be off that a sum of n of them, weighted by chance, may be off, over the root of n: six deviations,
/// and one third more.
const WEIGHTED: f64 = 8.0;

/// The tolerance a kernel must keep, relative to the larger of the result and one.
///
/// Functions may be off by a few units in the last place, powers by a few more. Sums and products are measured by what was added
/// up: terms of both signs, one after the other, were seen off by one unit of the sum of their sizes.
pub fn tolerance(problem: &Problem) -> f64 {
    let epsilon = problem.out_dtype().map_or(0.0, DType::epsilon);
    match problem {
        Problem::Elementwise(p) => match p.op {
            ElementwiseOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu) => 0.0,
            ElementwiseOp::Unary(_) => 8.0 * epsilon,
            ElementwiseOp::Binary(BinaryOp::Pow) => 64.0 * epsilon,
            ElementwiseOp::Binary(_) => epsilon,
        },
        Problem::Transpose(_)
        | Problem::Sort(_)
        | Problem::Arg(_)
        | Problem::Cast(_)
        | Problem::Gather(_)
        | Problem::Mask(_)
        | Problem::Concat(_)
        | Problem::Put(_) => 0.0,
        Problem::Pool(p) if p.op == PoolOp::Max => 0.0,
        Problem::Scan(p) if matches!(p.op, ScanOp::Max | ScanOp::Min) => 0.0,
        Problem::Rows(_) | Problem::Attention(_) => 16.0 * epsilon,
        Problem::Fft(p) => fft::tolerance(p),
        Problem::Conv(p) if p.act.is_some_and(|act| act != UnaryOp::Relu) => 12.0 * epsilon,
        Problem::Conv(_) | Problem::Pool(_) | Problem::Scan(_) => 4.0 * epsilon,
        Problem::Fused(p) => fused_tolerance(p, epsilon),
        Problem::Matmul(_) | Problem::Reduce(_) | Problem::Scatter(_) | Problem::Custom(_) => 4.0 * epsilon,
    }
}

/// What a kernel is held to that states an error of its own beyond its type's rounding: that, or what any kernel may be off.
pub fn allowed(tolerance: f64, work: &Work) -> f64 {
    tolerance.max(work.error)
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
    All {
        /// What stands there.
        values: Data,
        /// How much more than itself an element's error may be measured by, see [`Bounds`]: none, one for all, or each its own.
        slack: Vec<f32>,
    },
    /// Some elements: positions in the result, what stands there, and slack.
    Some {
        /// The elements.
        elements: Vec<(usize, f64, f64)>,
        /// Of a product without steps, what its rows add up to.
        rows: Option<WeightedRows>,
    },
}

/// The product of a result with a random vector.
#[derive(Clone, Debug)]
pub struct WeightedRows {
    weights: Vec<f64>,
    sums: Vec<f64>,
    slack: f64,
}

impl Expected {
    /// What a right result of the problem on these operands looks like. What is sampled is sampled anew each time.
    pub fn new(
        reference: &dyn Reference,
        problem: &Problem,
        operands: &Operands,
    ) -> Result<Expected, String> {
        match problem {
            Problem::Matmul(p) if p.flops() > SAMPLED_FLOPS => {
                Ok(crate::by_dtype!(p.dtype, T => sampled::<T>(p, operands)))
            }
            Problem::Fused(p) if p.product().is_some() && p.flops() > SAMPLED_FLOPS => {
                Ok(stepped(p, operands))
            }
            Problem::Matmul(p) => {
                let products = crate::by_dtype!(p.dtype, T => Products::new::<T>(p, operands));
                let values = Data::of_numbers(p.out_dtype(), &products.0);
                let average = product_slack(p, operands);
                let slack = match p.k <= FEW_TERMS {
                    true => crate::by_dtype!(p.dtype, T => Products::of::<T>(p, operands, f64::abs)).0,
                    false => vec![average],
                };
                let slack = slack.into_iter().map(|size| at_least(average, size) as f32).collect();
                Ok(Expected::All { values, slack })
            }
            Problem::Conv(p) => Ok(convolved(p, operands)),
            Problem::Fused(p) if p.product().is_some() && p.end().is_none() => {
                let (bounds, columns) = (Bounds::whole(p, operands), p.inner());
                let all = (0..p.len()).map(|at| bounds.element(at / columns, at % columns));
                let (values, slack): (Vec<f64>, Vec<f32>) =
                    all.map(|(value, slack)| (value, slack as f32)).unzip();
                Ok(Expected::All { values: Data::of_numbers(p.dtype, &values), slack })
            }
            _ => {
                let mut values = operands.out.clone();
                values.poison();
                let computed = reference.compute(problem, &operands.slices(), values.slice_mut());
                computed.map_err(|error| error.to_string())?;
                let slack = match problem {
                    Problem::Fused(p) if p.dtype.is_float() => Bounds::whole(p, operands).all(),
                    Problem::Reduce(p) if p.dtype.epsilon() > 0.0 => match p.op {
                        ReduceOp::Sum => vec![p.len as f32 * size(operands, 0) as f32],
                        ReduceOp::Mean => vec![size(operands, 0) as f32],
                        ReduceOp::Prod => {
                            let relative = 1.0 + (p.len as f32).sqrt() / 4.0;
                            // Of a complex number both parts are measured by its size.
                            let each = p.dtype.numbers();
                            let part = |at: usize| values.at(at).unwrap_or(0.0);
                            let size =
                                |at: usize| part(at / each * each).hypot(part(at / each * each + each - 1));
                            (0..values.numbers()).map(|at| relative * size(at) as f32).collect()
                        }
                        ReduceOp::Min | ReduceOp::Max => vec![],
                    },
                    Problem::Pool(_) => vec![size(operands, 0) as f32],
                    Problem::Rows(p) => rows::slack(p, operands, &values),
                    Problem::Attention(p) => vec![rows::attention_slack(p, operands) as f32],
                    Problem::Scan(p) if p.dtype.is_float() => rows::scan_slack(p, operands, &values),
                    Problem::Scatter(p) if p.dtype.epsilon() > 0.0 => index::slack(p, operands),
                    Problem::Fft(p) => fft::slack(p, &values),
                    _ => vec![],
                };
                Ok(Expected::All { values, slack })
            }
        }
    }

    /// The first disagreement in words, or nothing; within the tolerance of a kernel on the processor, which keeps numbers
    /// below the smallest normal one.
    pub fn check(&self, problem: &Problem, result: &Data) -> Result<(), String> {
        self.compare_with(result, Allowed::new(problem, None))
    }

    /// The first disagreement in words, or nothing; within a tolerance relative to the larger of the result and one. Numbers
    /// below the smallest normal one may become zero.
    pub fn check_within(&self, problem: &Problem, result: &Data, tolerance: f64) -> Result<(), String> {
        self.compare_with(result, Allowed::new(problem, Some(tolerance)))
    }

    fn compare_with(&self, result: &Data, allowed: Allowed) -> Result<(), String> {
        match self {
            Expected::All { values, slack } => {
                if values.len() != result.len() {
                    return Err(format!("{} elements, reference {}", result.len(), values.len()));
                }
                let Some(dtype) = values.dtype() else { return Ok(()) };
                crate::by_dtype!(dtype, T => {
                    let (found, wanted) = (T::slice(result.slice()), T::slice(values.slice()));
                    let (Some(found), Some(wanted)) = (found, wanted) else {
                        return Err(format!("the result is not of {dtype}"));
                    };
                    let each = dtype.numbers();
                    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                        if found == wanted {
                            continue;
                        }
                        // Large integers that differ may be the same as doubles.
                        if dtype.range().is_some() {
                            return Err(format!("element {index} is {found}, reference {wanted}"));
                        }
                        let parts = found.numbers().into_iter().zip(wanted.numbers()).take(each).enumerate();
                        for (part, (found, wanted)) in parts {
                            let number = index * each + part;
                            allowed.compare(number, found, wanted, slack_at(slack, number))?;
                        }
                    }
                    fft::norms(found, wanted, allowed.row, allowed.tolerance)
                })
            }
            Expected::Some { elements, rows } => {
                for &(index, expected, slack) in elements {
                    allowed.compare(index, result.at(index).unwrap_or(f64::NAN), expected, slack)?;
                }
                let (Some(rows), Some(dtype)) = (rows, result.dtype()) else { return Ok(()) };
                crate::by_dtype!(dtype, T => rows.check(T::slice(result.slice()).unwrap_or_default(), allowed))
            }
        }
    }

    /// Some positions, the first and the last among them, by chance.
    pub(crate) fn spots(&self) -> Vec<usize> {
        match self {
            Expected::All { values, .. } if values.is_empty() => vec![],
            Expected::All { values, .. } => {
                let (mut random, len) = (chance(), values.numbers());
                let mut spots = vec![0, len - 1];
                spots.extend((2..SPOTS.min(len)).map(|_| random.below(len)));
                spots
            }
            Expected::Some { elements, .. } => {
                elements.iter().take(SPOTS).map(|&(index, ..)| index).collect()
            }
        }
    }

    /// Whether these positions, which are ones of [`Expected::spots`], hold what they should.
    pub(crate) fn check_spots(
        &self,
        problem: &Problem,
        result: &Data,
        spots: &[usize],
        tolerance: Option<f64>,
    ) -> Result<(), String> {
        let allowed = Allowed::new(problem, tolerance);
        for (nth, &index) in spots.iter().enumerate() {
            let (expected, slack) = match self {
                Expected::All { values, slack } => {
                    (values.at(index).unwrap_or(f64::NAN), slack_at(slack, index))
                }
                Expected::Some { elements, .. } => match elements.get(nth) {
                    Some(&(_, expected, slack)) => (expected, slack),
                    None => continue,
                },
            };
            allowed.compare(index, result.at(index).unwrap_or(f64::NAN), expected, slack)?;
        }
        Ok(())
    }
}

fn slack_at(slack: &[f32], index: usize) -> f64 {
    slack.get(index).or(slack.first()).map_or(0.0, |&slack| f64::from(slack))
}

/// How far a result may be off.
#[derive(Clone, Copy)]
struct Allowed {
    tolerance: f64,
    /// The least an error is measured by.
    least: f64,
    /// Elements whose errors are measured together, beside each its own; zero where they are not.
    row: usize,
}

impl Allowed {
    /// Without a tolerance, that of a kernel on the processor.
    fn new(problem: &Problem, within: Option<f64>) -> Allowed {
        let once = match problem {
            Problem::Elementwise(p) => !p.op.is_function(),
            Problem::Reduce(p) => matches!(p.op, ReduceOp::Min | ReduceOp::Max),
            Problem::Transpose(_)
            | Problem::Sort(_)
            | Problem::Arg(_)
            | Problem::Cast(_)
            | Problem::Gather(_)
            | Problem::Mask(_)
            | Problem::Concat(_)
            | Problem::Put(_) => true,
            Problem::Pool(p) => p.op == PoolOp::Max,
            Problem::Scan(p) => matches!(p.op, ScanOp::Max | ScanOp::Min),
            // Parts of one: small ones are right too.
            Problem::Rows(p) => p.op == RowsOp::Softmax,
            _ => false,
        };
        let tolerance = within.unwrap_or_else(|| tolerance(problem)).max(f64::MIN_POSITIVE);
        // What is moved or rounded once is right down to the smallest numbers, but for devices that have none below the normal.
        let smallest = match problem.dtype() {
            Some(dtype) if within.is_some() => dtype.smallest_normal(),
            _ => 0.0,
        };
        let row = match problem {
            Problem::Fft(p) => fft::row(p),
            _ => 0,
        };
        let least = match problem {
            _ if once => smallest / tolerance,
            // By the norm of its transform, however small that is.
            Problem::Fft(_) => smallest,
            _ => 1.0,
        };
        Allowed { tolerance, least, row }
    }

    fn compare(&self, index: usize, got: f64, expected: f64, slack: f64) -> Result<(), String> {
        // Nothing is known of an element whose slack is infinite. One that is no number has no slack.
        let same = got == expected || (got.is_nan() && expected.is_nan()) || slack == f64::INFINITY;
        let allowed = self.tolerance * expected.abs().max(self.least).max(slack);
        if same || (expected.is_finite() && (slack.is_nan() || (got - expected).abs() <= allowed)) {
            return Ok(());
        }
        Err(format!("element {index} is {got:e}, reference {expected:e}, allowed difference {allowed:.1e}"))
    }
}

impl WeightedRows {
    fn check<T: Element>(&self, result: &[T], allowed: Allowed) -> Result<(), String> {
        // What is exact is added up in f64 all the same.
        let tolerance = allowed.tolerance.max(64.0 * f64::EPSILON);
        let allowed = WEIGHTED * tolerance * self.slack * (self.weights.len() as f64).sqrt();
        let rows = result.chunks(self.weights.len().max(1));
        for (row, (elements, expected)) in rows.zip(&self.sums).enumerate() {
            let sum: f64 = elements.iter().zip(&self.weights).map(|(x, weight)| x.to_f64() * weight).sum();
            let off = (sum - expected).abs();
            if off > allowed || off.is_nan() {
                return Err(format!(
                    "row {row} by random weights is {sum:e}, reference {expected:e}, allowed difference {allowed:.1e}"
                ));
            }
        }
        Ok(())
    }
}

/// Numbers nobody can foresee.
pub(crate) fn chance() -> RandomNumbers {
    RandomNumbers::new(RandomState::new().build_hasher().finish())
}

/// The root of the mean square of an operand's numbers, told from some of them.
fn size(operands: &Operands, input: usize) -> f64 {
    let Some(data) = operands.inputs.get(input) else { return 0.0 };
    let step = data.len().div_ceil(SIZED_BY).max(1) | 1;
    let (mut squares, mut count) = (0.0, 0.0f64);
    for value in (0..data.len()).step_by(step).filter_map(|at| data.at(at)).filter(|value| value.is_finite())
    {
        squares += value * value;
        count += 1.0;
    }
    (squares / count.max(1.0)).sqrt()
}

/// What the terms of an element of a product add up to in size, or a little more.
pub(crate) fn product_slack(p: &Matmul, operands: &Operands) -> f64 {
    p.k as f64 * size(operands, 0) * size(operands, 1)
}

/// The size of an element's own terms where it is more than usual. Of infinite terms it says nothing: they must be as they should.
fn at_least(usual: f64, size: f64) -> f64 {
    if size.is_finite() { size.max(usual) } else { usual }
}

/// Every element of a product, added up in f64: what the reference computes, ten times faster.
pub(crate) struct Products(pub(crate) Vec<f64>);

impl Products {
    pub(crate) fn new<T: Element>(p: &Matmul, operands: &Operands) -> Products {
        Products::of::<T>(p, operands, |number| number)
    }

    /// The same of what `change` makes of every number.
    fn of<T: Element>(p: &Matmul, operands: &Operands, change: fn(f64) -> f64) -> Products {
        let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
        // Rows of `lhs` and of `rhs`, however they are stored.
        let rows = |input: usize, rows: usize, columns: usize, transposed: bool| -> Vec<f64> {
            let all = operands.inputs.get(input).and_then(|data| T::slice(data.slice())).unwrap_or_default();
            if !transposed {
                return all.iter().map(|number| change(number.to_f64())).collect();
            }
            let mut turned = Vec::with_capacity(all.len());
            for batch in all.chunks((rows * columns).max(1)) {
                for row in 0..rows {
                    let row = batch.iter().skip(row).step_by(rows);
                    turned.extend(row.map(|number| change(number.to_f64())));
                }
            }
            turned
        };
        let (lhs, rhs) = (rows(0, m, k, p.lhs.transposed), rows(1, k, n, p.rhs.transposed));
        let mut out = vec![0.0; p.out_len() as usize];
        for (at, sums) in out.chunks_mut(n.max(1)).enumerate() {
            let (batch, row) = (at / m, at % m);
            let first = if p.lhs.shared { 0 } else { batch * m * k } + row * k;
            let second = if p.rhs.shared { 0 } else { batch * k * n };
            for (inner, a) in lhs.get(first..first + k).unwrap_or_default().iter().enumerate() {
                let row = rhs.get(second + inner * n..second + (inner + 1) * n).unwrap_or_default();
                sums.iter_mut().zip(row).for_each(|(sum, b)| *sum += a * b);
            }
        }
        Products(out)
    }
}

/// Every element of a convolution, or random ones of a large one.
fn convolved(p: &Conv, operands: &Operands) -> Expected {
    let (elements, total) = (Elements::new(p, operands), p.out_len() as usize);
    if p.flops() <= SAMPLED_FLOPS {
        let (values, slack): (Vec<f64>, Vec<f32>) =
            (0..total).map(|index| elements.at(index)).map(|(value, size)| (value, size as f32)).unzip();
        return Expected::All { values: Data::of_numbers(p.dtype, &values), slack };
    }
    let mut random = chance();
    let mut places = vec![0, total - 1];
    places.extend((2..SAMPLED_IN_ALL).map(|_| random.below(total)));
    let element = |index: usize| {
        let (value, size) = elements.at(index);
        (index, rounded(p.dtype, value), size)
    };
    Expected::Some { elements: places.into_iter().map(element).collect(), rows: None }
}

/// As the element type has it: past its range is infinite.
fn rounded(dtype: DType, value: f64) -> f64 {
    crate::by_dtype!(dtype, T => T::from_f64(value).to_f64())
}

/// Random elements of a product followed by steps.
fn stepped(p: &Fused, operands: &Operands) -> Expected {
    let (bounds, mut random) = (Bounds::new(p, operands), chance());
    let (rows, columns) = (p.outer() as usize, p.inner() as usize);
    let mut places = vec![(0, 0), (rows - 1, columns - 1)];
    places.extend((0..SAMPLED_EDGE).map(|_| (rows - 1, random.below(columns))));
    places.extend((0..SAMPLED_EDGE).map(|_| (random.below(rows), columns - 1)));
    places.extend((0..SAMPLED_STEPPED).map(|_| (random.below(rows), random.below(columns))));
    let element = |(row, column): (usize, usize)| {
        let (value, slack) = bounds.element(row as u64, column as u64);
        (row * columns + column, rounded(p.dtype, value), slack)
    };
    Expected::Some { elements: places.into_iter().map(element).collect(), rows: None }
}

/// Random elements of a product, and all of it multiplied with a random vector.
fn sampled<T: Element>(p: &Matmul, operands: &Operands) -> Expected {
    let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
    let typed = |input: usize| operands.inputs.get(input).and_then(|data| T::slice(data.slice()));
    let (all_lhs, all_rhs) = (typed(0).unwrap_or_default(), typed(1).unwrap_or_default());
    let of = |all: &[T], at: usize| all.get(at).map_or(f64::NAN, |value| value.to_f64());
    let lhs = |batch: usize, row: usize, inner: usize| {
        let start = if p.lhs.shared { 0 } else { batch * m * k };
        of(all_lhs, start + if p.lhs.transposed { inner * m + row } else { row * k + inner })
    };
    let rhs = |batch: usize, inner: usize, column: usize| {
        let start = if p.rhs.shared { 0 } else { batch * k * n };
        of(all_rhs, start + if p.rhs.transposed { column * k + inner } else { inner * n + column })
    };
    let (mut random, slack, total) = (chance(), product_slack(p, operands), p.out_len() as usize);
    let mut places = vec![0, total - 1];
    places.extend((2..SAMPLED_ELEMENTS).map(|_| random.below(total)));
    let element = |index: usize| {
        let (batch, row, column) = (index / (m * n), index / n % m, index % n);
        let terms = || (0..k).map(|inner| lhs(batch, row, inner) * rhs(batch, inner, column));
        (index, terms().sum(), at_least(slack, terms().map(f64::abs).sum()))
    };
    let elements = places.into_iter().map(element).collect();
    // Of either sign, none near zero, no two alike: an element in another's place shows.
    let mut weight = || (0.5 + random.unit()) * if random.bits() >> 63 == 0 { 1.0 } else { -1.0 };
    let weights: Vec<f64> = (0..n).map(|_| weight()).collect();
    let mut sums = Vec::with_capacity(p.batch as usize * m);
    for batch in 0..p.batch as usize {
        let mut folded = vec![0.0; k];
        // In the order in which the elements lie.
        if p.rhs.transposed {
            for (column, weight) in weights.iter().enumerate() {
                folded
                    .iter_mut()
                    .enumerate()
                    .for_each(|(inner, sum)| *sum += rhs(batch, inner, column) * weight);
            }
        } else {
            for (inner, sum) in folded.iter_mut().enumerate() {
                *sum = weights.iter().enumerate().map(|(at, weight)| rhs(batch, inner, at) * weight).sum();
            }
        }
        let mut of_batch = vec![0.0; m];
        if p.lhs.transposed {
            for (inner, by) in folded.iter().enumerate() {
                of_batch.iter_mut().enumerate().for_each(|(row, sum)| *sum += lhs(batch, row, inner) * by);
            }
        } else {
            for (row, sum) in of_batch.iter_mut().enumerate() {
                *sum = folded.iter().enumerate().map(|(inner, by)| lhs(batch, row, inner) * by).sum();
            }
        }
        sums.extend(of_batch);
    }
    Expected::Some { elements, rows: Some(WeightedRows { weights, sums, slack }) }
}
