//! How much larger than its result the errors of a recipe may be: where a step takes the difference of two nearly equal values
//! or divides by a small one, the roundings of the steps before count for more than they did.

use crate::check::{Products, product_slack};
use crate::operands::Operands;
use trimtab_core::{
    BinaryOp, DType, Fused, MAX_WAITING, Matmul, Operand, Over, Product, ReduceOp, Step, UnaryOp, Varies,
};

/// Errors this many roundings large make a divisor, or what a logarithm is taken of, no number to rely on.
const RELIABLE: f64 = 64.0;
/// A distance of this many roundings is larger than any recipe's error: eleven powers, the most there can be, are allowed 1,450.
const CERTAIN: f64 = 2048.0;
/// The largest slope of gelu, rounded up.
const GELU_SLOPE: f64 = 1.2;

/// A value and its slack: with every step off by a rounding of its own value, how many roundings of one the result is off.
pub(crate) type Bounded = (f64, f64);

/// Computes single elements of a recipe in f64, each with its slack.
pub(crate) struct Bounds<'a> {
    recipe: &'a Fused,
    steps: Vec<Step>,
    operands: &'a Operands,
    epsilon: f64,
    /// Every element of the product, and how large their terms are together, where all are asked for.
    products: Option<(Products, f64)>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(recipe: &'a Fused, operands: &'a Operands) -> Bounds<'a> {
        // Integers have none; what they are off by is measured as that of f32.
        let epsilon = if recipe.dtype.is_float() { recipe.dtype.epsilon() } else { DType::F32.epsilon() };
        Bounds { recipe, steps: recipe.steps().collect(), operands, epsilon, products: None }
    }

    /// The same for asking for every element.
    pub(crate) fn whole(recipe: &'a Fused, operands: &'a Operands) -> Bounds<'a> {
        let product = recipe.product().and_then(|Product { depth, lhs_transposed, rhs_transposed }| {
            let stored = |transposed: bool| Operand { transposed, shared: false };
            let (lhs, rhs) = (stored(lhs_transposed), stored(rhs_transposed));
            Matmul::batched(recipe.dtype, 1, recipe.outer(), recipe.inner(), depth, lhs, rhs).ok()
        });
        let products = product.map(|product| {
            let products = crate::by_dtype!(recipe.dtype, T => Products::new::<T>(&product, operands));
            (products, product_slack(&product, operands))
        });
        Bounds { products, ..Bounds::new(recipe, operands) }
    }

    fn operand(&self, place: usize, at: u64) -> f64 {
        self.operands.inputs.get(place).and_then(|data| data.at(at as usize)).unwrap_or(f64::NAN)
    }

    /// What the steps leave at a row and a column.
    pub(crate) fn element(&self, row: u64, column: u64) -> Bounded {
        let mut waiting = [(f64::NAN, 0.0); MAX_WAITING + 1];
        let mut count = 0;
        for step in &self.steps {
            let value = match *step {
                Step::Input(input) => {
                    let input = usize::from(input);
                    let at = match self.recipe.varies(input) {
                        Varies::All => row * self.recipe.inner() + column,
                        Varies::Rows => row,
                        Varies::Columns => column,
                        Varies::Nowhere => 0,
                    };
                    (self.operand(input, at), 0.0)
                }
                Step::Number(number) => (self.operand(self.recipe.inputs(), u64::from(number)), 0.0),
                Step::Product => self.product(row, column),
                Step::Unary(op) => {
                    count -= 1;
                    self.unary(op, waiting[count])
                }
                Step::Binary(op) => {
                    count -= 2;
                    self.binary(op, waiting[count], waiting[count + 1])
                }
            };
            waiting[count] = value;
            count += 1;
        }
        waiting[0]
    }

    /// The slack of every element of the result.
    pub(crate) fn all(&self) -> Vec<f32> {
        let (rows, columns) = (self.recipe.outer(), self.recipe.inner());
        let each = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let Some((op, over)) = self.recipe.end() else {
            return each.map(|(row, column)| self.element(row, column).1 as f32).collect();
        };
        let mut parts = vec![Part::default(); self.recipe.out_len() as usize];
        for (row, column) in each {
            let at = match over {
                Over::All => 0,
                Over::Rows => column,
                Over::Columns => row,
            };
            if let Some(part) = parts.get_mut(at as usize) {
                part.add(self.element(row, column));
            }
        }
        parts.iter().map(|part| part.slack(op) as f32).collect()
    }

    fn product(&self, row: u64, column: u64) -> Bounded {
        let Some(Product { depth, lhs_transposed, rhs_transposed }) = self.recipe.product() else {
            return (f64::NAN, 0.0);
        };
        if let Some((Products(all), slack)) = &self.products {
            let value = all.get((row * self.recipe.inner() + column) as usize).copied().unwrap_or(f64::NAN);
            return (value, if value.is_nan() { value } else { *slack });
        }
        let (mut sum, mut size) = (0.0, 0.0);
        for p in 0..depth {
            let lhs = if lhs_transposed { p * self.recipe.outer() + row } else { row * depth + p };
            let rhs = if rhs_transposed { column * depth + p } else { p * self.recipe.inner() + column };
            let term = self.operand(0, lhs) * self.operand(1, rhs);
            sum += term;
            size += f64::abs(term);
        }
        (sum, size)
    }

    /// What an error of a value becomes when divided by another, itself in error.
    fn divided(&self, slack: f64, (by, by_slack): Bounded) -> f64 {
        if RELIABLE * self.epsilon * by_slack >= by.abs() && by_slack > 0.0 {
            return f64::INFINITY;
        }
        if slack == 0.0 { 0.0 } else { slack / by.abs() }
    }

    /// Whether a distance is larger than what errors of so much slack may add up to.
    fn is_certain(&self, distance: f64, slack: f64) -> bool {
        distance > CERTAIN * self.epsilon * slack
    }

    fn unary(&self, op: UnaryOp, (a, slack): Bounded) -> Bounded {
        let (value, passed_on) = match op {
            _ if slack == f64::INFINITY => return (a, slack),
            UnaryOp::Neg => return (-a, slack),
            UnaryOp::Abs => return (a.abs(), slack),
            // What is below zero by more than any error is cut off by every right kernel.
            UnaryOp::Relu if a < 0.0 && self.is_certain(-a, slack) => return (0.0, 0.0),
            UnaryOp::Relu => return (if a < 0.0 { 0.0 } else { a }, slack),
            UnaryOp::Exp => (a.exp(), slack * a.exp()),
            UnaryOp::Log => (a.ln(), self.divided(slack, (a, slack))),
            UnaryOp::Sqrt => (a.sqrt(), self.divided(slack, (a, slack)) * a.abs().sqrt()),
            UnaryOp::Tanh => (a.tanh(), slack * (1.0 - a.tanh() * a.tanh())),
            UnaryOp::Sigmoid => {
                let value = 1.0 / (1.0 + (-a).exp());
                (value, slack * value * (1.0 - value))
            }
            UnaryOp::Gelu => {
                let inner = a * (0.797_884_560_802_865_4 + 0.035_677_408_136_300_125 * a * a);
                (0.5 * a * (1.0 + inner.tanh()), GELU_SLOPE * slack + a.abs())
            }
        };
        (value, rounded(passed_on, value))
    }

    fn binary(&self, op: BinaryOp, left: Bounded, right: Bounded) -> Bounded {
        let ((a, of_a), (b, of_b)) = (left, right);
        let (value, passed_on) = match op {
            _ if of_a == f64::INFINITY || of_b == f64::INFINITY => return (a, f64::INFINITY),
            BinaryOp::Add => (a + b, of_a + of_b),
            BinaryOp::Sub => (a - b, of_a + of_b),
            BinaryOp::Mul => (a * b, a.abs() * of_b + b.abs() * of_a),
            BinaryOp::Div => (a / b, self.divided(of_a + (a / b).abs() * of_b, right)),
            // Of two that are apart by more than any error the other one's error does not show.
            BinaryOp::Min if self.is_certain(a - b, of_a + of_b) => return right,
            BinaryOp::Min if self.is_certain(b - a, of_a + of_b) => return left,
            BinaryOp::Max if self.is_certain(a - b, of_a + of_b) => return left,
            BinaryOp::Max if self.is_certain(b - a, of_a + of_b) => return right,
            BinaryOp::Min => return (if a.is_nan() || a < b { a } else { b }, of_a.max(of_b)),
            BinaryOp::Max => return (if a.is_nan() || a > b { a } else { b }, of_a.max(of_b)),
            BinaryOp::Pow => {
                let value = a.powf(b);
                let of_base = self.divided(of_a, left) * b.abs();
                let of_power = if of_b == 0.0 { 0.0 } else { a.abs().ln().abs() * of_b };
                (value, value.abs() * (of_base + of_power))
            }
        };
        (value, rounded(passed_on, value))
    }
}

/// The slack of a step, its own rounding included. Nothing is known of what has an infinite one; what is not a number by its operands
/// alone has none.
fn rounded(passed_on: f64, value: f64) -> f64 {
    if passed_on == f64::INFINITY { passed_on } else { passed_on + value.abs() }
}

/// What is reduced to one element.
#[derive(Clone, Copy)]
struct Part {
    count: f64,
    size: f64,
    slack: f64,
    largest: f64,
    product: f64,
    relative: f64,
}

impl Default for Part {
    fn default() -> Part {
        Part { count: 0.0, size: 0.0, slack: 0.0, largest: 0.0, product: 1.0, relative: 0.0 }
    }
}

impl Part {
    fn add(&mut self, (value, slack): Bounded) {
        self.count += 1.0;
        self.size += value.abs();
        self.slack += slack;
        self.largest = if slack.is_nan() { slack } else { self.largest.max(slack) };
        self.product *= value;
        self.relative += if slack == 0.0 { 0.0 } else { slack / value.abs() };
    }

    fn slack(&self, op: ReduceOp) -> f64 {
        match op {
            ReduceOp::Sum => self.size + self.slack,
            ReduceOp::Mean => (self.size + self.slack) / self.count,
            ReduceOp::Prod => self.product.abs() * (1.0 + self.relative),
            ReduceOp::Min | ReduceOp::Max => self.largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Data;
    use trimtab_core::Problem;

    fn slack(text: &str, inputs: &[&[f32]]) -> Vec<f32> {
        let Problem::Fused(recipe) = text.parse().unwrap() else { panic!("{text}") };
        let inputs = inputs.iter().map(|input| Data::F32(input.to_vec())).collect();
        Bounds::new(&recipe, &Operands { inputs, out: Data::None }).all()
    }

    #[test]
    fn differences_and_small_divisors_widen_what_is_allowed_and_plain_steps_do_not() {
        // Operands are exact: a first step is off by its own rounding only.
        assert_eq!(slack("fused.sub(a,b):f32:1x1:all,all", &[&[100.0], &[99.0]]), [1.0]);
        // Two values of about 100 off by a rounding each, then their difference.
        let off = slack("fused.sub(mul(a,a),mul(b,b)):f32:1x1:all,all", &[&[10.0], &[9.99]])[0];
        assert!((199.0..201.0).contains(&off), "{off}");
        // The same, divided by: far larger.
        let divided =
            slack("fused.div(#0,sub(mul(a,a),mul(b,b))):f32:1x1:all,all", &[&[10.0], &[9.99], &[1.0]])[0];
        assert!(divided > 4_000.0, "{divided}");
        // A difference that is nothing but error.
        let lost = slack("fused.log(sub(exp(a),exp(b))):f32:1x1:all,all", &[&[1.0], &[1.0]])[0];
        assert_eq!(lost, f32::INFINITY);
        assert_eq!(slack("fused.relu(neg(a)):f32:1x2:all", &[&[1.0, -5.0]]), [0.0, 0.0]);
    }

    #[test]
    fn what_is_cut_off_for_certain_has_no_error_and_what_is_near_the_edge_has() {
        // Large terms that are negative together: zero in every right kernel, however large they were.
        let (a, b) = (&[3e5f32, 3.0][..], &[-4e5f32, -3.0][..]);
        assert_eq!(slack("fused.relu(add(mul(a,#0),b)):f32:1x2:all,all", &[a, b, &[1.0]]), [0.0, 3.0]);
        let sums =
            slack("fused.relu(add(mul(a,#0),b)):f32:1x1:all,all:sum.axis1", &[&[3e5], &[-4e5], &[1.0]]);
        assert_eq!(sums, [0.0]);
        assert_eq!(slack("fused.max(mul(a,a),b):f32:1x2:all,all", &[&[2.0, 2.0], &[9.0, 4.0]]), [0.0, 4.0]);
        assert_eq!(slack("fused.min(mul(a,a),b):f32:1x1:all,all", &[&[2.0], &[9.0]]), [4.0]);
    }

    #[test]
    fn a_sum_may_be_off_by_what_its_terms_are_large() {
        let input: &[f32] = &[100.0, -100.0, 50.0, -50.0];
        assert_eq!(slack("fused.a:f32:1x4:all:sum", &[input]), [300.0]);
        assert_eq!(slack("fused.a:f32:2x2:all:sum.axis1", &[input]), [200.0, 100.0]);
        assert_eq!(slack("fused.a:f32:2x2:all:mean.axis0", &[input]), [75.0, 75.0]);
        assert_eq!(slack("fused.a:f32:2x2:all:max.axis0", &[input]), [0.0, 0.0]);
    }
}
