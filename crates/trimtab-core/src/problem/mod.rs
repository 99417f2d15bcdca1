//! What is asked: operation, sizes, element type, layout. Small, `Copy`, and the same text everywhere.

mod conv;
mod custom;
mod elementwise;
mod fused;
mod matmul;
mod pool;
mod reduce;
mod rows;
mod scan;
mod sort;
mod text;
mod transpose;
mod window;

pub use conv::Conv;
pub use custom::{Custom, MAX_NAME_BYTES, MAX_SIZES};
pub use elementwise::{BinaryOp, Elementwise, ElementwiseOp, UnaryOp};
pub use fused::{Fused, MAX_INPUTS, MAX_NUMBERS, MAX_STEPS, MAX_WAITING, Over, Product, Step, Varies};
pub use matmul::{Matmul, Operand};
pub use pool::{Pool, PoolOp};
pub use reduce::{Reduce, ReduceOp};
pub use rows::{Rows, RowsOp};
pub use scan::{Scan, ScanOp};
pub use sort::Sort;
pub use transpose::Transpose;
pub use window::{Channels, MAX_SPACE, Moves, Window};

use crate::{Bytes, DType};
use std::fmt;

/// The most dimensions a problem keeps after merging those that behave alike.
pub const MAX_RANK: usize = 6;

/// What is asked. Its text form round-trips and is the same in the command, logs, tests and wisdom:
///
/// ```
/// use trimtab_core::Problem;
/// let problem: Problem = "matmul:f32:512x256x128".parse().unwrap();
/// assert_eq!(problem.to_string(), "matmul:f32:512x256x128"); // m × n × k
/// assert!(std::mem::size_of::<Problem>() <= 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Matrix product, possibly batched.
    Matmul(Matmul),
    /// One result element per element, with broadcasting.
    Elementwise(Elementwise),
    /// Many elements to one, over everything or along an axis.
    Reduce(Reduce),
    /// Reordering of axes.
    Transpose(Transpose),
    /// A window of weights over an operand.
    Conv(Conv),
    /// One element of every window.
    Pool(Pool),
    /// What needs all elements along an axis, such as a softmax.
    Rows(Rows),
    /// Every element with those before it.
    Scan(Scan),
    /// Elements in order.
    Sort(Sort),
    /// Several operations as one.
    Fused(Fused),
    /// The user's own operation, known by name and sizes.
    Custom(Custom),
}

crate::named! {
    /// The operation of a problem.
    pub enum Operation {
        /// See [`Matmul`].
        Matmul = "matmul",
        /// See [`Elementwise`].
        Elementwise = "elementwise",
        /// See [`Reduce`].
        Reduce = "reduce",
        /// See [`Transpose`].
        Transpose = "transpose",
        /// See [`Conv`].
        Conv = "conv",
        /// See [`Pool`].
        Pool = "pool",
        /// See [`Rows`].
        Rows = "rows",
        /// See [`Scan`].
        Scan = "scan",
        /// See [`Sort`].
        Sort = "sort",
        /// See [`Fused`].
        Fused = "fused",
        /// See [`Custom`].
        Custom = "custom",
    }
}

/// The typed problem of one operation.
pub trait TypedProblem:
    Lookup + Copy + Eq + fmt::Debug + fmt::Display + Into<Problem> + Send + Sync + 'static
{
    /// Its operation.
    const OPERATION: Operation;
    /// The typed problem inside, if it is of this kind.
    fn of(problem: &Problem) -> Option<&Self>;
}

/// A problem, typed or not, as a table looks it up. A typed one is hashed and compared without asking which it is.
pub trait Lookup {
    /// A hash for tables within the process: a multiplication a field, all at once, where a general hasher multiplies one
    /// after the other.
    fn mix(&self) -> u64;
    /// Whether it is this problem.
    fn is(&self, problem: &Problem) -> bool;
    /// As a problem.
    fn problem(&self) -> Problem;
}

impl Lookup for Problem {
    #[inline]
    fn mix(&self) -> u64 {
        match self {
            Problem::Matmul(p) => p.mix(),
            Problem::Elementwise(p) => p.mix(),
            Problem::Reduce(p) => p.mix(),
            Problem::Transpose(p) => p.mix(),
            Problem::Conv(p) => p.mix(),
            Problem::Pool(p) => p.mix(),
            Problem::Rows(p) => p.mix(),
            Problem::Scan(p) => p.mix(),
            Problem::Sort(p) => p.mix(),
            Problem::Fused(p) => p.mix(),
            Problem::Custom(p) => p.mix(),
        }
    }

    #[inline]
    fn is(&self, problem: &Problem) -> bool {
        self == problem
    }

    #[inline]
    fn problem(&self) -> Problem {
        *self
    }
}

macro_rules! kinds {
    ($($name:ident),*) => {
        $(
            impl From<$name> for Problem {
                fn from(problem: $name) -> Problem {
                    Problem::$name(problem)
                }
            }
            impl Lookup for $name {
                #[inline]
                fn mix(&self) -> u64 {
                    self.mixed()
                }
                #[inline]
                fn is(&self, problem: &Problem) -> bool {
                    matches!(problem, Problem::$name(other) if other == self)
                }
                #[inline]
                fn problem(&self) -> Problem {
                    Problem::$name(*self)
                }
            }
            impl TypedProblem for $name {
                const OPERATION: Operation = Operation::$name;
                #[inline]
                fn of(problem: &Problem) -> Option<&$name> {
                    match problem {
                        Problem::$name(problem) => Some(problem),
                        _ => None,
                    }
                }
            }
        )*
        impl Problem {
            /// The operation asked for.
            pub fn operation(&self) -> Operation {
                match self {
                    $(Problem::$name(_) => Operation::$name,)*
                }
            }
        }
        impl fmt::Display for Problem {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Problem::$name(problem) => problem.fmt(f),)*
                }
            }
        }
    };
}
kinds!(Matmul, Elementwise, Reduce, Transpose, Conv, Pool, Rows, Scan, Sort, Fused, Custom);

impl Problem {
    /// The element type, where the operation has one.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Problem::Matmul(p) => Some(p.dtype),
            Problem::Elementwise(p) => Some(p.dtype),
            Problem::Reduce(p) => Some(p.dtype),
            Problem::Transpose(p) => Some(p.dtype),
            Problem::Conv(p) => Some(p.dtype),
            Problem::Pool(p) => Some(p.dtype),
            Problem::Rows(p) => Some(p.dtype),
            Problem::Scan(p) => Some(p.dtype),
            Problem::Sort(p) => Some(p.dtype),
            Problem::Fused(p) => Some(p.dtype),
            Problem::Custom(_) => None,
        }
    }

    /// Whether this is a problem at all: fields are public, and a hand-made one may hold sizes no constructor lets through.
    pub fn check(&self) -> Result<(), ProblemError> {
        match *self {
            Problem::Matmul(Matmul { dtype, lhs, rhs, batch, m, n, k }) => {
                Matmul::batched(dtype, batch, m, n, k, lhs, rhs).map(drop)
            }
            Problem::Reduce(Reduce { op, dtype, outer, len, inner }) => {
                Reduce::new(op, dtype, &[outer, len, inner], Some(1)).map(drop)
            }
            Problem::Rows(Rows { op, dtype, scaled, shifted, outer, len, inner }) => {
                Rows::new(op, dtype, &[outer, len, inner], 1)?.with(scaled, shifted).map(drop)
            }
            Problem::Scan(Scan { op, dtype, exclusive, outer, len, inner }) => {
                Scan::new(op, dtype, &[outer, len, inner], 1, exclusive).map(drop)
            }
            Problem::Sort(Sort { dtype, descending, outer, len, inner }) => {
                Sort::new(dtype, &[outer, len, inner], 1, descending).map(drop)
            }
            // Their sizes come from their constructors only.
            Problem::Elementwise(_)
            | Problem::Transpose(_)
            | Problem::Conv(_)
            | Problem::Pool(_)
            | Problem::Fused(_)
            | Problem::Custom(_) => Ok(()),
        }
    }

    /// Elements of each input, in order.
    pub fn input_lens(&self) -> InputLens {
        match self {
            Problem::Matmul(p) => InputLens::new(&[p.lhs_len(), p.rhs_len()]),
            Problem::Elementwise(p) => match p.op {
                ElementwiseOp::Unary(_) => InputLens::new(&[p.lhs_len()]),
                ElementwiseOp::Binary(_) => InputLens::new(&[p.lhs_len(), p.rhs_len()]),
            },
            Problem::Reduce(p) => InputLens::new(&[p.input_len()]),
            Problem::Transpose(p) => InputLens::new(&[p.len()]),
            Problem::Conv(p) => {
                let mut lens = InputLens::new(&[p.operand_len(), p.weights_len()]);
                if p.bias {
                    lens.push(p.outputs() as u64);
                }
                lens
            }
            Problem::Pool(p) => InputLens::new(&[p.operand_len()]),
            Problem::Rows(p) => {
                let mut lens = InputLens::new(&[p.input_len()]);
                let more = [(p.scaled, p.len), (p.shifted, p.len), (p.op.is_norm(), 1)];
                more.iter().filter(|(there, _)| *there).for_each(|(_, len)| lens.push(*len));
                lens
            }
            Problem::Scan(p) => InputLens::new(&[p.len()]),
            Problem::Sort(p) => InputLens::new(&[p.len()]),
            Problem::Fused(p) => {
                let mut lens = InputLens::new(&[]);
                (0..p.inputs()).for_each(|input| lens.push(p.input_len(input)));
                if p.numbers() > 0 {
                    lens.push(p.numbers() as u64);
                }
                lens
            }
            Problem::Custom(_) => InputLens::new(&[]),
        }
    }

    /// Elements of the result.
    pub fn out_len(&self) -> u64 {
        match self {
            Problem::Matmul(p) => p.out_len(),
            Problem::Elementwise(p) => p.out_len(),
            Problem::Reduce(p) => p.out_len(),
            Problem::Transpose(p) => p.len(),
            Problem::Conv(p) => p.out_len(),
            Problem::Pool(p) => p.out_len(),
            Problem::Rows(p) => p.out_len(),
            Problem::Scan(p) => p.len(),
            Problem::Sort(p) => p.len(),
            Problem::Fused(p) => p.out_len(),
            Problem::Custom(_) => 0,
        }
    }

    /// Bytes of all operands together.
    pub fn operand_bytes(&self) -> Bytes {
        let size = self.dtype().map_or(0, DType::size);
        let lens =
            self.input_lens().as_slice().iter().fold(self.out_len(), |sum, &len| sum.saturating_add(len));
        Bytes(lens.saturating_mul(size))
    }

    /// Arithmetic operations the result needs at least (a transcendental function counts as one).
    pub fn flops(&self) -> u64 {
        match self {
            Problem::Matmul(p) => p.flops(),
            Problem::Elementwise(p) => p.out_len(),
            Problem::Reduce(p) => p.input_len(),
            Problem::Conv(p) => p.flops(),
            Problem::Pool(p) => p.flops(),
            Problem::Rows(p) => p.flops(),
            Problem::Scan(p) => p.len(),
            Problem::Sort(p) => p.flops(),
            Problem::Fused(p) => p.flops(),
            Problem::Transpose(_) | Problem::Custom(_) => 0,
        }
    }

    /// A bad problem's text, or the problem.
    pub fn parse(text: &str) -> Result<Problem, ProblemError> {
        text::parse(text)
    }
}

impl std::str::FromStr for Problem {
    type Err = ProblemError;
    fn from_str(text: &str) -> Result<Problem, ProblemError> {
        text::parse(text)
    }
}

/// Elements of each input of a problem: at most [`MAX_INPUTS`] tensors and the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLens {
    lens: [u64; MAX_INPUTS + 1],
    count: u8,
}

impl InputLens {
    fn new(lens: &[u64]) -> InputLens {
        let mut all = InputLens { lens: [0; MAX_INPUTS + 1], count: 0 };
        lens.iter().for_each(|&len| all.push(len));
        all
    }

    fn push(&mut self, len: u64) {
        if let Some(place) = self.lens.get_mut(usize::from(self.count)) {
            *place = len;
            self.count += 1;
        }
    }

    /// In order.
    pub fn as_slice(&self) -> &[u64] {
        &self.lens[..usize::from(self.count)]
    }
}

/// Why something is not a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum ProblemError {
    /// Text that cannot be read.
    #[error(
        "`{text}` is not a problem: {reason}; write for example matmul:f32:512x512x512 (m x n x k), \
         elementwise.add:f32:1024x1024,1024, reduce.sum:f32:64x1024:axis1 or transpose:f32:512x256"
    )]
    Text { text: String, reason: String },
    /// Sizes whose bytes cannot be addressed.
    #[error("sizes {sizes:?} of {dtype} are more bytes than this machine can address")]
    TooLarge { sizes: Vec<u64>, dtype: DType },
    /// Shapes that do not fit each other.
    #[error("shapes {lhs:?} and {rhs:?} do not fit: {reason}")]
    Shapes { lhs: Vec<u64>, rhs: Vec<u64>, reason: String },
    /// An operation that is not defined for an element type.
    #[error("{operation} is not defined for {dtype}; {hint}")]
    DType { operation: String, dtype: DType, hint: &'static str },
    /// Axes that the shape does not have, or repeated ones.
    #[error("axes {axes:?} do not fit shape {shape:?}: {reason}")]
    Axes { axes: Vec<usize>, shape: Vec<u64>, reason: &'static str },
    /// A minimum, maximum or mean of nothing.
    #[error("{op} of no elements is not defined (shape {shape:?})")]
    Empty { op: &'static str, shape: Vec<u64> },
    /// More dimensions than a problem keeps.
    #[error(
        "shape {0:?} keeps more than {MAX_RANK} dimensions after merging; make the operand contiguous first"
    )]
    TooManyDimensions(Vec<u64>),
    /// Steps that are no recipe.
    #[error("fused problem `{recipe}`: {reason}")]
    Recipe { recipe: String, reason: String },
    /// A window that does not fit an operand.
    #[error("a window of {kernel:?} does not fit {size:?}: {reason}")]
    Window { size: Vec<u64>, kernel: Vec<u64>, reason: String },
    /// A custom problem's name or sizes out of bounds.
    #[error("custom problem `{name}`: {reason}")]
    Custom { name: String, reason: String },
}

/// A sum of products with odd numbers, folded once: independent multiplications.
#[inline]
fn mix<const N: usize>(words: &[u64; N]) -> u64 {
    const ODD: [u64; 7] = [
        0x9e37_79b9_7f4a_7c15,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
        0xd6e8_feb8_6659_fd93,
        0xa076_1d64_78bd_642f,
        0xe703_7ed1_a0b4_28db,
        0x8ebc_6af0_9c88_c6e3,
    ];
    let sum = words.iter().zip(ODD).fold(0u64, |sum, (word, odd)| sum.wrapping_add(word.wrapping_mul(odd)));
    sum ^ sum >> 32
}

/// The product of `sizes` if that many elements can be addressed. Sizes beside a zero must be addressable too, so that no
/// product of some of them overflows.
pub(crate) fn element_count(sizes: &[u64], dtype: DType) -> Result<u64, ProblemError> {
    let limit = isize::MAX as u64 / dtype.size();
    let count = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size.max(1)));
    let count = count
        .filter(|&count| count <= limit)
        .ok_or_else(|| ProblemError::TooLarge { sizes: sizes.to_vec(), dtype })?;
    Ok(if sizes.contains(&0) { 0 } else { count })
}

/// The product of sizes that were counted before. Saturating: where one is zero, the others may be anything.
#[inline]
pub(crate) fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, &size| product.saturating_mul(size))
}

/// The products of sizes before an axis, along it and behind it. Nothing is one form, so that no kernel multiplies the sizes beside
/// the zero.
pub(crate) fn along(shape: &[u64], axis: usize, dtype: DType) -> Result<[u64; 3], ProblemError> {
    let Some(&len) = shape.get(axis) else {
        let reason = "there is no such axis";
        return Err(ProblemError::Axes { axes: vec![axis], shape: shape.to_vec(), reason });
    };
    element_count(shape, dtype)?;
    let (outer, inner) = (element_count(&shape[..axis], dtype)?, element_count(&shape[axis + 1..], dtype)?);
    element_count(&[outer, inner], dtype)?;
    Ok(if outer == 0 || inner == 0 { [0, 1, 1] } else { [outer, len, inner] })
}

/// Sizes as [`along`] gives them, with the axis where it is not the only one, and words behind it.
pub(crate) fn write_along(f: &mut fmt::Formatter<'_>, sizes: [u64; 3], words: &[&str]) -> fmt::Result {
    let (sizes, axis) = match sizes {
        [1, len, 1] => (vec![len], None),
        [1, len, inner] => (vec![len, inner], Some("axis0")),
        [outer, len, 1] => (vec![outer, len], Some("axis1")),
        sizes => (sizes.to_vec(), Some("axis1")),
    };
    write_sizes(f, &sizes)?;
    let words: Vec<&str> = axis.into_iter().chain(words.iter().copied()).collect();
    if words.is_empty() { Ok(()) } else { write!(f, ":{}", words.join(",")) }
}

/// Sizes joined by `x`.
pub(crate) fn write_sizes(f: &mut fmt::Formatter<'_>, sizes: &[u64]) -> fmt::Result {
    for (index, size) in sizes.iter().enumerate() {
        if index > 0 {
            f.write_str("x")?;
        }
        write!(f, "{size}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
