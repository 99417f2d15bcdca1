//! Operands for measuring and checking, made by rule: the same problem always gets the same numbers.

use crate::check::{SAMPLED_FLOPS, SAMPLED_IN_ALL};
use crate::element::Element;
use crate::slice::{Data, Slice};
use trimtab_core::{BinaryOp, DType, ElementwiseOp, Nanos, Problem, ReduceOp, ScanOp, UnaryOp};

/// Elements of the pattern operands are filled with; prime, so that rows of no matrix start alike.
const PATTERN: usize = 65_521;

/// Bytes a second at which operands are made: page faults included, measured 1.5 to 3 GB/s.
const OPERAND_BYTES_PER_S: f64 = 1.5e9;

/// Operands begin so many bytes behind the start of a cache line, where the system's allocator puts every large one of a program …
const LINE_BYTES: usize = 64;
const BEGIN: usize = 16;
/// … if one of so many places does. Large blocks lie so at once, or after a few that follow each other; small ones lie anywhere.
const PLACES: usize = 64;
const FEWEST_PLACES: usize = 8;
/// Bytes that are reserved to find a place, unless the fewest places take more; nothing is written to them.
const LOOKED_AT: usize = 64 << 20;

/// Room for that many elements, always at the same place in a cache line. Kernels that load whole lines are slower where each load touches two:
/// measured now here and now there, the winner of a race was whoever had been lucky.
fn placed<T>(len: usize) -> Vec<T> {
    let places = (LOOKED_AT / (len * size_of::<T>()).max(1)).clamp(FEWEST_PLACES, PLACES);
    let mut others = Vec::new();
    for place in 0..places {
        let mut room = Vec::<T>::new();
        // Longer from one to the next, so that they lie apart in different ways.
        if room.try_reserve_exact(len + place * (BEGIN / size_of::<T>()).max(1)).is_err() {
            break;
        }
        if room.as_ptr().addr() % LINE_BYTES == BEGIN {
            return room;
        }
        others.push(room);
    }
    others.into_iter().next().unwrap_or_else(|| Vec::with_capacity(len))
}

/// The inputs and the output of one problem.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The inputs, in order.
    pub inputs: Vec<Data>,
    /// The output.
    pub out: Data,
}

impl Data {
    fn filled(dtype: DType, len: u64, value: impl Fn(usize) -> f64, special: &[Special]) -> Data {
        fn fill<T: Element>(len: u64, value: impl Fn(usize) -> f64, special: &[Special]) -> Data {
            let len = len as usize;
            let each = T::DTYPE.numbers();
            let element = |index: usize| T::of_numbers([value(each * index), value(each * index + 1)]);
            let mut pattern: Vec<T> = (0..PATTERN.min(len)).map(element).collect();
            for Special { first, every, of } in special {
                let places = pattern.iter_mut().skip(*first).step_by(*every);
                places.zip(of.iter().cycle()).for_each(|(place, &value)| *place = T::from_f64(value));
            }
            let mut data = placed(len);
            while data.len() < len {
                data.extend_from_slice(&pattern[..pattern.len().min(len - data.len())]);
            }
            T::own(data)
        }
        if len == 0 { Data::None } else { crate::by_dtype!(dtype, T => fill::<T>(len, value, special)) }
    }
}

impl Operands {
    /// Operands to time and check a kernel on: of [`Numbers::Real`].
    pub fn new(problem: &Problem) -> Operands {
        Operands::of(problem, Numbers::Real)
    }

    /// Operands of such numbers.
    pub fn of(problem: &Problem, numbers: Numbers) -> Operands {
        let (lens, out) = (problem.input_lens(), problem.out_len());
        let made = lens.as_slice().iter().enumerate().map(|(place, &len)| {
            let values = values(problem, place, numbers);
            // Different for each, so that a result of other operands shows.
            let salt = place as u64 + 1 + ((numbers as u64) << 8);
            let dtype = problem.input_dtype(place).unwrap_or(DType::F32);
            let special = if dtype.is_float() { special(problem, place, numbers, len) } else { vec![] };
            Data::filled(dtype, len, |index| values.value(index, salt), &special)
        });
        let dtype = problem.out_dtype().unwrap_or(DType::F32);
        let out = match out {
            // Of its type all the same.
            0 => Data::zeros(dtype, 0),
            _ => Data::filled(dtype, out, |_| 0.0, &[]),
        };
        Operands { inputs: made.collect(), out }
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
            // Whole products are added up at about 3 Gflop/s.
            let ns = if p.flops() > SAMPLED_FLOPS { p.flops().min(20_000_000) } else { p.flops() / 3 };
            return Nanos::from_secs_f64(operands + 1e-9 * ns as f64);
        }
        Problem::Conv(p) => {
            let sampled = p.flops() > SAMPLED_FLOPS;
            let elements = if sampled { SAMPLED_IN_ALL } else { p.out_len() };
            let ns = elements.saturating_mul(p.depth()).saturating_mul(if sampled { 4 } else { 2 });
            return Nanos::from_secs_f64(operands + 1e-9 * ns as f64);
        }
        Problem::Pool(p) => {
            return Nanos::from_secs_f64(operands + 2e-9 * p.flops() as f64);
        }
        Problem::Sort(p) => return Nanos::from_secs_f64(operands + 2e-9 * p.flops() as f64),
        Problem::Arg(p) => return Nanos::from_secs_f64(operands + 4e-9 * p.flops() as f64),
        // A pair of a query and a key takes a function besides.
        Problem::Attention(p) => {
            let ns = p.flops().saturating_add(p.pairs().saturating_mul(20));
            return Nanos::from_secs_f64(operands + 1e-9 * ns as f64);
        }
        Problem::Fft(p) => return Nanos::from_secs_f64(operands + 1e-9 * crate::check::fft_takes_ns(p)),
        Problem::Rows(_) => 40.0,
        Problem::Elementwise(p) if p.op.is_function() => 15.0,
        Problem::Fused(p) => {
            let product = p.product().map_or(0, |product| product.depth);
            let steps = 15 * p.steps().len() as u64;
            let sampled = product > 0 && p.flops() > SAMPLED_FLOPS;
            let elements = if sampled { SAMPLED_IN_ALL } else { p.len() };
            let term = if sampled { 4 } else { 1 };
            let ns = elements.saturating_mul(steps.saturating_add(product.saturating_mul(term)));
            return Nanos::from_secs_f64(operands + 1e-9 * ns as f64);
        }
        _ => 2.0,
    };
    let lens = problem.input_lens();
    let elements = lens.as_slice().iter().copied().fold(problem.out_len(), u64::max) as f64;
    Nanos::from_secs_f64(operands + 1e-9 * reference_ns_per_element * elements)
}

/// What operands are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Of both signs and several magnitudes, no two alike: a kernel that computes with fewer digits, or takes one for another, is
    /// off. What is not a number, or not finite, is among them where it stays in its place.
    Real,
    /// Whole and small: every order of summation gives the same bits.
    Whole,
    /// Whole and small, but for a few that are no numbers, infinite, or below the smallest normal one.
    Special,
}

impl Numbers {
    /// What a kernel must be right on before it is believed.
    pub(crate) fn needed(problem: &Problem) -> &'static [Numbers] {
        match problem {
            // What is not a number hides all others it is added to.
            Problem::Reduce(_) | Problem::Scan(_) => &[Numbers::Real, Numbers::Whole, Numbers::Special],
            // Each has indices of its own: by chance, in order, and all the same.
            Problem::Gather(_) | Problem::Scatter(_) => &[Numbers::Real, Numbers::Whole, Numbers::Special],
            // What is not a number is all a spectrum has, but for parts that are zero in some kernels.
            Problem::Fft(_) => &[Numbers::Real, Numbers::Whole],
            _ => &[Numbers::Real, Numbers::Special],
        }
    }
}

/// What values an operand takes.
enum Values {
    /// Whole numbers from -4 to 4.
    SmallIntegers,
    /// The same without zero: some libraries leave out what is multiplied by it, others do not.
    NonZero,
    /// Whole numbers from 1 to 9.
    Positive,
    /// Zero and one.
    Bits,
    /// One, and of lines of that length about eight times two.
    FewTwos(u64),
    /// Plus and minus one.
    Signs,
    /// Plus and minus one, give or take a share.
    NearSigns(f64),
    /// Spread evenly over an interval.
    Between(f64, f64),
    /// Spread evenly over an interval around zero, one of four much smaller.
    Mixed(f64),
    /// Indices of so many elements, by chance.
    Indices(u64),
    /// Indices of so many elements in order, so many of them, every third counted from the end.
    InOrder(u64, u64),
    /// The index in the middle of so many, every third counted from the end.
    Same(u64),
}

impl Values {
    fn value(&self, index: usize, salt: u64) -> f64 {
        // SplitMix64: a fixed, well-mixed number per index.
        let mut word = (index as u64).wrapping_add(salt << 40).wrapping_add(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
        let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
        match *self {
            Values::SmallIntegers => (word % 9) as f64 - 4.0,
            Values::NonZero => sign * (word / 2 % 4 + 1) as f64,
            Values::Positive => (word % 9) as f64 + 1.0,
            Values::Bits => (word >> 7 & 1) as f64,
            // Where the pattern repeats there would be too many.
            Values::FewTwos(len) => 1.0 + f64::from(u8::from(len < 4096 && word % len.max(1) < 8)),
            Values::Signs => sign,
            Values::NearSigns(share) => sign * (1.0 + share * (2.0 * unit - 1.0)),
            Values::Between(low, high) => low + (high - low) * unit,
            Values::Indices(len) => (word % len) as f64,
            Values::InOrder(len, count) => {
                let at = (index as u128 * u128::from(len) / u128::from(count)) as f64;
                if index % 3 == 2 { at - len as f64 } else { at }
            }
            Values::Same(len) => (len / 2) as f64 - if index % 3 == 2 { len as f64 } else { 0.0 },
            Values::Mixed(size) => sign * size * unit * if word & 6 == 0 { 1.0 / 64.0 } else { 1.0 },
        }
    }
}

/// The values of the operand at a place.
fn values(problem: &Problem, place: usize, numbers: Numbers) -> Values {
    use Values::{Between, Mixed, NearSigns, NonZero, Positive, Signs, SmallIntegers};
    let indexed = match problem {
        Problem::Gather(p) if place == 1 => Some((p.len, p.indices())),
        Problem::Scatter(p) if place == 1 => Some((p.len, p.indices())),
        _ => None,
    };
    if let Some((len, count)) = indexed {
        // As many as an i32 reaches.
        let len = len.clamp(1, i32::MAX as u64);
        return match numbers {
            Numbers::Real => Values::Indices(len),
            Numbers::Whole => Values::InOrder(len, count.clamp(1, PATTERN as u64)),
            Numbers::Special => Values::Same(len),
        };
    }
    let dtype = problem.input_dtype(place).unwrap_or(DType::F32);
    let integer = !dtype.is_float() && !dtype.is_complex();
    let real = numbers == Numbers::Real && !integer;
    // Numbers below zero would all become the same one.
    if dtype.range().is_some_and(|(least, _)| least == 0) {
        return match problem {
            _ if dtype == DType::Bool => Values::Bits,
            Problem::Reduce(p) if p.op == ReduceOp::Prod => Values::FewTwos(p.len),
            _ => Values::Positive,
        };
    }
    let (left, right) = match problem {
        Problem::Elementwise(p) => match p.op {
            ElementwiseOp::Binary(BinaryOp::Div | BinaryOp::Pow) if integer => (SmallIntegers, Positive),
            _ if !real => (SmallIntegers, SmallIntegers),
            ElementwiseOp::Unary(UnaryOp::Log | UnaryOp::Sqrt) => (Between(1e-3, 1e3), Positive),
            ElementwiseOp::Unary(_) => (Between(-8.0, 8.0), Positive),
            ElementwiseOp::Binary(BinaryOp::Div) => (Between(-8.0, 8.0), Between(0.5, 8.0)),
            ElementwiseOp::Binary(BinaryOp::Pow) => (Between(0.1, 8.0), Between(-4.0, 4.0)),
            ElementwiseOp::Binary(_) => (Between(-8.0, 8.0), Between(-8.0, 8.0)),
        },
        // The product of all stays near one, also where the pattern repeats.
        Problem::Reduce(p) if p.op == ReduceOp::Prod && dtype.is_complex() => (Between(-0.9, 0.9), Positive),
        Problem::Reduce(p) if p.op == ReduceOp::Prod && real => {
            let len = p.len.max(1) as f64;
            (NearSigns((4.0 / len.sqrt()).min(1024.0 / len).min(0.25)), Positive)
        }
        Problem::Reduce(p) if p.op == ReduceOp::Prod => (Signs, Positive),
        Problem::Scan(p) if p.op == ScanOp::Prod && real => {
            let len = p.len.max(1) as f64;
            (NearSigns((4.0 / len.sqrt()).min(1024.0 / len).min(0.25)), Positive)
        }
        Problem::Scan(p) if p.op == ScanOp::Prod => (Signs, Positive),
        // The last operand of a norm is its ε.
        Problem::Rows(p) if p.op.is_norm() && place + 1 == problem.input_lens().as_slice().len() => {
            (Between(1e-5, 1e-4), Between(1e-5, 1e-4))
        }
        Problem::Rows(_) if real => (Mixed(4.0), Between(0.5, 1.5)),
        Problem::Attention(_) => (Mixed(2.0), Mixed(2.0)),
        Problem::Conv(_) if !integer && !real => (NonZero, NonZero),
        Problem::Matmul(_)
        | Problem::Reduce(_)
        | Problem::Transpose(_)
        | Problem::Conv(_)
        | Problem::Pool(_)
        | Problem::Scan(_)
        | Problem::Sort(_)
        | Problem::Arg(_)
        | Problem::Gather(_)
        | Problem::Scatter(_)
        | Problem::Concat(_)
        | Problem::Put(_)
        | Problem::Fft(_)
            if real =>
        {
            (Mixed(4.0), Mixed(4.0))
        }
        Problem::Matmul(_) if !integer => (NonZero, NonZero),
        // All there are, the least among them: their products must not be added up in 16 bits.
        Problem::Matmul(_) if numbers == Numbers::Real => (Between(-128.9, 127.9), Between(-128.9, 127.9)),
        Problem::Matmul(_)
        | Problem::Reduce(_)
        | Problem::Transpose(_)
        | Problem::Conv(_)
        | Problem::Pool(_)
        | Problem::Rows(_)
        | Problem::Scan(_)
        | Problem::Sort(_)
        | Problem::Arg(_)
        | Problem::Gather(_)
        | Problem::Scatter(_)
        | Problem::Concat(_)
        | Problem::Put(_)
        // Small ones are equal often enough.
        | Problem::Mask(_)
        | Problem::Fft(_)
        | Problem::Custom(_) => (SmallIntegers, SmallIntegers),
        // Some past the range of bytes, which every kernel cuts alike.
        Problem::Cast(_) if real => (Mixed(300.0), Mixed(300.0)),
        Problem::Cast(_) => (Between(-300.0, 300.0), SmallIntegers),
        // Functions in chains stay where they are defined and finite.
        Problem::Fused(p) => match p.product() {
            Some(product) if place < 2 && real => {
                let size = 2.0 / (product.depth.max(1) as f64).sqrt().sqrt();
                (Mixed(size), Mixed(size))
            }
            Some(_) if place < 2 => (NonZero, NonZero),
            _ if integer => (SmallIntegers, SmallIntegers),
            _ => (Between(0.5, 1.5), Between(0.5, 1.5)),
        },
    };
    if place == 0 { left } else { right }
}

/// Numbers that stand in the place of ordinary ones.
struct Special {
    first: usize,
    every: usize,
    of: Vec<f64>,
}

/// What an operand has of them. Only what our kernels and devices agree about: numbers below the smallest normal one may be cut off,
/// so they are not divided by, nor multiplied with what is infinite.
fn special(problem: &Problem, place: usize, numbers: Numbers, len: u64) -> Vec<Special> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let below = match problem.dtype() {
        Some(DType::F32 | DType::Bf16) => 1e-40,
        Some(DType::F64) => 1e-310,
        _ => 1e-6,
    };
    // As it is written gelu is not a number there, in the limit zero: either will do.
    let low = match problem {
        Problem::Elementwise(p) if p.op == ElementwiseOp::Unary(UnaryOp::Gelu) => -0.0,
        _ => -inf,
    };
    let each = |first: usize, every: usize, of: &[f64]| vec![Special { first, every, of: of.to_vec() }];
    let one = |value: f64| each(len as usize / 2 % PATTERN, PATTERN, &[value]);
    match (problem, numbers) {
        (Problem::Elementwise(_) | Problem::Transpose(_) | Problem::Gather(_), Numbers::Real)
            if place == 0 =>
        {
            each(7, 1021, &[nan, inf, -0.0, low])
        }
        (Problem::Elementwise(p), Numbers::Special) if place == 0 => {
            let divides = matches!(p.op, ElementwiseOp::Binary(BinaryOp::Div));
            let below = if divides || p.op.is_function() { 0.5 } else { below };
            each(2, 5, &[nan, inf, low, 0.0, -0.0, below, -below])
        }
        (Problem::Elementwise(_), Numbers::Special) => each(3, 7, &[nan, 0.0, 1.0]),
        (Problem::Transpose(_) | Problem::Gather(_), Numbers::Special) => {
            each(2, 5, &[nan, inf, -inf, -0.0, below, -below])
        }
        // One in the middle of an operand: it must reach its row, or its column, and nothing else.
        (Problem::Matmul(p), Numbers::Special) => match (place == 0, p.m > 1, p.n > 1) {
            (true, true, _) | (false, false, _) => one(nan),
            (false, true, true) => one(inf),
            _ => vec![],
        },
        // One in the middle of the operand reaches the windows over it. Padding and weights hold no zero times infinity.
        (Problem::Conv(_), Numbers::Special) if place == 0 => one(nan),
        (Problem::Pool(_), Numbers::Special) => each(3, 11, &[nan, inf, -inf, -0.0]),
        (Problem::Rows(p), Numbers::Special) if place == 0 && p.outer * p.inner > 1 => one(nan),
        // One in the middle of a query: its row is lost, and no other.
        (Problem::Attention(p), Numbers::Special) if place == 0 && p.batch * p.queries > 1 => one(nan),
        (Problem::Scan(p), Numbers::Special) if p.op != ScanOp::Prod => {
            each(7, 1021, &[inf]).into_iter().chain(one(nan)).collect()
        }
        (Problem::Scan(_), Numbers::Special) => one(nan),
        (Problem::Sort(_) | Problem::Arg(_), Numbers::Real) => each(5, 101, &[nan, inf, -inf, -0.0, 0.0]),
        (Problem::Cast(_), _) => each(2, 5, &[nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1.5, 255.5, 1e9, -1e9]),
        (Problem::Sort(_) | Problem::Arg(_), Numbers::Special) => {
            each(2, 5, &[nan, inf, -inf, 0.0, -0.0, below, -below])
        }
        (Problem::Fused(p), Numbers::Special) if p.product().is_some() && place < 2 => {
            if place == usize::from(p.outer() < 2) { one(nan) } else { vec![] }
        }
        (Problem::Fused(p), Numbers::Special) if place < p.inputs() => each(5, 13, &[nan]),
        (Problem::Concat(_) | Problem::Put(_), Numbers::Real) => each(7, 1021, &[nan, inf, -0.0, low]),
        (Problem::Concat(_) | Problem::Put(_), Numbers::Special) => {
            each(2, 5, &[nan, inf, -inf, -0.0, below, -below])
        }
        (Problem::Mask(_), _) if place == 0 => each(2, 5, &[nan, inf, -inf, 0.0, -0.0, below, -below]),
        (Problem::Mask(_), _) => each(3, 7, &[nan, 0.0, -0.0, inf, -inf]),
        (Problem::Scatter(_), Numbers::Special) if place == 0 => each(7, 1021, &[inf, nan]),
        (Problem::Scatter(_), Numbers::Special) => one(inf),
        (Problem::Reduce(p), Numbers::Special) if p.op == ReduceOp::Prod => one(nan),
        // Several results: some infinite, one not a number.
        (Problem::Reduce(_), Numbers::Special) => each(7, 1021, &[inf]).into_iter().chain(one(nan)).collect(),
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn operands_begin_at_the_same_place_in_a_line_whatever_was_allocated_before() {
        let mut others = Vec::new();
        for nth in 0..40usize {
            others.push(vec![0u8; 16 * nth]);
            for text in ["elementwise.add:f32:100", "matmul:f64:33x65x17", "transpose:f32:300x500"] {
                let Ok(problem) = text.parse::<Problem>() else { panic!("{text} is a problem") };
                let operands = Operands::new(&problem);
                for data in operands.inputs.iter().chain([&operands.out]) {
                    assert_eq!(data.slice().bytes().as_ptr().addr() % LINE_BYTES, BEGIN, "{text}");
                }
            }
        }
    }
}
