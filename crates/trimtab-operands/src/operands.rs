//! Operands for measuring and checking, made by rule: the same problem always gets the same numbers.

use crate::check::{SAMPLED_FLOPS, SAMPLED_LINES};
use crate::slice::{Data, Element, Slice};
use trimtab_core::{BinaryOp, DType, ElementwiseOp, Nanos, Problem, ReduceOp, UnaryOp};

/// Elements of the pattern operands are filled with; prime, so that rows of no matrix start alike.
const PATTERN: usize = 65_521;

/// Bytes a second at which operands are made: page faults included, measured 1.5 to 3 GB/s.
const OPERAND_BYTES_PER_S: f64 = 1.5e9;

/// The inputs and the output of one problem.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The inputs, in order.
    pub inputs: Vec<Data>,
    /// The output.
    pub out: Data,
}

impl Data {
    fn filled(dtype: DType, len: u64, value: impl Fn(usize) -> f64) -> Data {
        fn fill<T: Element>(len: u64, value: impl Fn(usize) -> f64) -> Data {
            let len = len as usize;
            let pattern: Vec<T> = (0..PATTERN.min(len)).map(|index| T::from_f64(value(index))).collect();
            let mut data = Vec::with_capacity(len);
            while data.len() < len {
                data.extend_from_slice(&pattern[..pattern.len().min(len - data.len())]);
            }
            T::own(data)
        }
        if len == 0 { Data::None } else { crate::by_dtype!(dtype, T => fill::<T>(len, value)) }
    }
}

impl Operands {
    /// Operands whose exact results are representable wherever the operation allows it: small integers for products
    /// and sums, so that every order of summation gives the same bits.
    pub fn new(problem: &Problem) -> Operands {
        let (lens, out) = (problem.input_lens(), problem.out_len());
        let dtype = problem.dtype().unwrap_or(DType::F32);
        let made = lens.as_slice().iter().enumerate().map(|(place, &len)| {
            let values = values(problem, place);
            Data::filled(dtype, len, |index| values.value(index, place as u64 + 1))
        });
        let mut operands = Operands { inputs: made.collect(), out: Data::filled(dtype, out, |_| 0.0) };
        if out == 0 {
            operands.out = match dtype {
                DType::F32 => Data::F32(vec![]),
                DType::F64 => Data::F64(vec![]),
                DType::F16 => Data::F16(vec![]),
                DType::I32 => Data::I32(vec![]),
            };
        }
        operands
    }

    /// Views the inputs.
    pub fn slices(&self) -> Vec<Slice<'_>> {
        self.inputs.iter().map(Data::slice).collect()
    }
}

/// Time to make operands and their reference result, roughly; only used to refuse what would break a budget.
pub fn making_takes(problem: &Problem) -> Nanos {
    let operands = problem.operand_bytes().0 as f64 / OPERAND_BYTES_PER_S;
    let reference_ns_per_element = match problem {
        Problem::Matmul(p) => {
            return Nanos::from_secs_f64(operands + 1e-9 * p.flops().min(20_000_000) as f64);
        }
        Problem::Elementwise(p) if p.op.is_function() => 15.0,
        Problem::Fused(p) => {
            let product = p.product().map_or(0, |product| product.depth);
            let steps = 15 * p.steps().len() as u64;
            let sampled = product > 0 && p.flops() > SAMPLED_FLOPS;
            let elements = if sampled { SAMPLED_LINES * (p.outer() + p.inner()) } else { p.len() };
            let ns = elements.saturating_mul(steps.saturating_add(product.saturating_mul(4)));
            return Nanos::from_secs_f64(operands + 1e-9 * ns as f64);
        }
        _ => 2.0,
    };
    let lens = problem.input_lens();
    let elements = lens.as_slice().iter().copied().fold(problem.out_len(), u64::max) as f64;
    Nanos::from_secs_f64(operands + 1e-9 * reference_ns_per_element * elements)
}

/// What values an operand takes.
enum Values {
    /// Whole numbers from -4 to 4.
    SmallIntegers,
    /// Whole numbers from 1 to 9.
    Positive,
    /// Plus and minus one.
    Signs,
    /// Spread evenly over an interval.
    Between(f64, f64),
}

impl Values {
    fn value(&self, index: usize, salt: u64) -> f64 {
        // SplitMix64: a fixed, well-mixed number per index.
        let mut word = (index as u64).wrapping_add(salt << 40).wrapping_add(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
        match self {
            Values::SmallIntegers => (word % 9) as f64 - 4.0,
            Values::Positive => (word % 9) as f64 + 1.0,
            Values::Signs => {
                if word & 1 == 0 {
                    1.0
                } else {
                    -1.0
                }
            }
            Values::Between(low, high) => low + (high - low) * unit,
        }
    }
}

/// The values of the operand at a place.
fn values(problem: &Problem, place: usize) -> Values {
    use Values::{Between, Positive, Signs, SmallIntegers};
    let integer = problem.dtype() == Some(DType::I32);
    let (left, right) = match problem {
        Problem::Elementwise(p) => match p.op {
            _ if integer => match p.op {
                ElementwiseOp::Binary(BinaryOp::Div | BinaryOp::Pow) => (SmallIntegers, Positive),
                _ => (SmallIntegers, SmallIntegers),
            },
            ElementwiseOp::Unary(UnaryOp::Log | UnaryOp::Sqrt) => (Between(1e-3, 1e3), Positive),
            ElementwiseOp::Unary(_) => (Between(-8.0, 8.0), Positive),
            ElementwiseOp::Binary(BinaryOp::Div) => (Between(-8.0, 8.0), Between(0.5, 8.0)),
            ElementwiseOp::Binary(BinaryOp::Pow) => (Between(0.1, 8.0), Between(-4.0, 4.0)),
            ElementwiseOp::Binary(_) => (Between(-8.0, 8.0), Between(-8.0, 8.0)),
        },
        Problem::Reduce(p) if p.op == ReduceOp::Prod => (Signs, Positive),
        Problem::Matmul(_) | Problem::Reduce(_) | Problem::Transpose(_) | Problem::Custom(_) => {
            (SmallIntegers, SmallIntegers)
        }
        // Products stay exact, and functions in chains stay where they are defined and finite.
        Problem::Fused(p) if p.product().is_some() && place < 2 => (SmallIntegers, SmallIntegers),
        Problem::Fused(_) if integer => (SmallIntegers, SmallIntegers),
        Problem::Fused(_) => (Between(0.5, 1.5), Between(0.5, 1.5)),
    };
    if place == 0 { left } else { right }
}
