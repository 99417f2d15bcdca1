//! What is asked: operation, sizes, element type, layout. Small, `Copy`, and the same text everywhere.

mod arg;
mod attention;
mod blocks;
mod cast;
mod conv;
mod custom;
mod elementwise;
mod error;
mod fft;
mod fused;
mod index;
mod mask;
mod matmul;
mod pool;
mod reduce;
mod rows;
mod scan;
mod sizes;
mod sort;
mod text;
mod transpose;
mod window;

pub use arg::{Arg, ArgOp};
pub use attention::Attention;
pub use blocks::{Concat, MAX_PARTS, MAX_PUT_RANK, Put};
pub use cast::Cast;
pub use conv::Conv;
pub use custom::{Custom, MAX_NAME_BYTES, MAX_SIZES};
pub use elementwise::{BinaryOp, Elementwise, ElementwiseOp, UnaryOp};
pub use error::ProblemError;
pub use fft::{Fft, FftOp, MAX_FFT_RANK};
pub use fused::{Fused, MAX_INPUTS, MAX_NUMBERS, MAX_STEPS, MAX_WAITING, Over, Product, Step, Varies};
pub use index::{Gather, Scatter};
pub use mask::{Mask, MaskOp};
pub use matmul::{Matmul, Operand};
pub use pool::{Pool, PoolOp};
pub use reduce::{Reduce, ReduceOp};
pub use rows::{Rows, RowsOp};
pub use scan::{Scan, ScanOp};
pub use sort::Sort;
pub use transpose::Transpose;
pub use window::{Channels, MAX_SPACE, Moves, Window};

use crate::{Bytes, DType};
pub(crate) use sizes::element_count;
use sizes::{along, mix, product, write_along, write_sizes};
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
    /// Values weighted by how well their keys fit queries.
    Attention(Attention),
    /// Every element with those before it.
    Scan(Scan),
    /// Elements in order.
    Sort(Sort),
    /// Where elements are.
    Arg(Arg),
    /// Elements as another type.
    Cast(Cast),
    /// Spectra of the last axes.
    Fft(Fft),
    /// Several operations as one.
    Fused(Fused),
    /// Elements by index.
    Gather(Gather),
    /// Elements added up by index.
    Scatter(Scatter),
    /// Truth values, made or used.
    Mask(Mask),
    /// Operands side by side.
    Concat(Concat),
    /// A block in a larger one.
    Put(Put),
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
        /// See [`Attention`].
        Attention = "attention",
        /// See [`Scan`].
        Scan = "scan",
        /// See [`Sort`].
        Sort = "sort",
        /// See [`Arg`].
        Arg = "arg",
        /// See [`Cast`].
        Cast = "cast",
        /// See [`Fft`].
        Fft = "fft",
        /// See [`Fused`].
        Fused = "fused",
        /// See [`Gather`].
        Gather = "gather",
        /// See [`Scatter`].
        Scatter = "scatter",
        /// See [`Mask`].
        Mask = "mask",
        /// See [`Concat`].
        Concat = "concat",
        /// See [`Put`].
        Put = "put",
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
            Problem::Attention(p) => p.mix(),
            Problem::Scan(p) => p.mix(),
            Problem::Sort(p) => p.mix(),
            Problem::Arg(p) => p.mix(),
            Problem::Cast(p) => p.mix(),
            Problem::Fft(p) => p.mix(),
            Problem::Fused(p) => p.mix(),
            Problem::Gather(p) => p.mix(),
            Problem::Scatter(p) => p.mix(),
            Problem::Mask(p) => p.mix(),
            Problem::Concat(p) => p.mix(),
            Problem::Put(p) => p.mix(),
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
kinds!(
    Matmul,
    Elementwise,
    Reduce,
    Transpose,
    Conv,
    Pool,
    Rows,
    Attention,
    Scan,
    Sort,
    Arg,
    Cast,
    Fused,
    Gather,
    Scatter,
    Mask,
    Concat,
    Put,
    Fft,
    Custom
);

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
            Problem::Attention(p) => Some(p.dtype),
            Problem::Scan(p) => Some(p.dtype),
            Problem::Sort(p) => Some(p.dtype),
            Problem::Arg(p) => Some(p.dtype),
            Problem::Cast(p) => Some(p.dtype),
            Problem::Fft(p) => Some(p.dtype),
            Problem::Fused(p) => Some(p.dtype),
            Problem::Gather(p) => Some(p.dtype),
            Problem::Scatter(p) => Some(p.dtype),
            Problem::Mask(p) => Some(p.dtype),
            Problem::Concat(p) => Some(p.dtype),
            Problem::Put(p) => Some(p.dtype),
            Problem::Custom(_) => None,
        }
    }

    /// The element type of the input at a place, where the operation has one.
    pub fn input_dtype(&self, place: usize) -> Option<DType> {
        match self {
            Problem::Gather(p) if place == 1 => Some(p.index),
            Problem::Scatter(p) if place == 1 => Some(p.index),
            Problem::Mask(p) if place == 0 && p.op == MaskOp::Where => Some(DType::Bool),
            _ => self.dtype(),
        }
    }

    /// The element type of the result, where the operation has one.
    pub fn out_dtype(&self) -> Option<DType> {
        match self {
            // Products of bytes are added up where they fit.
            Problem::Matmul(p) => Some(p.out_dtype()),
            Problem::Reduce(p) => Some(p.out_dtype()),
            Problem::Arg(_) => Some(DType::I64),
            Problem::Cast(p) => Some(p.to),
            Problem::Mask(p) if p.op != MaskOp::Where => Some(DType::Bool),
            Problem::Fft(p) => Some(p.out_dtype()),
            _ => self.dtype(),
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
            Problem::Attention(Attention { dtype, causal, batch, queries, keys, depth, width }) => {
                Attention::new(dtype, [batch, queries, keys, depth, width], causal).map(drop)
            }
            Problem::Scan(Scan { op, dtype, exclusive, outer, len, inner }) => {
                Scan::new(op, dtype, &[outer, len, inner], 1, exclusive).map(drop)
            }
            Problem::Sort(Sort { dtype, descending, outer, len, inner }) => {
                Sort::new(dtype, &[outer, len, inner], 1, descending).map(drop)
            }
            Problem::Arg(Arg { op, dtype, descending, outer, len, inner, count }) => {
                let made = Arg::new(op, dtype, &[outer, len, inner], 1, descending, count)?;
                let shape = vec![outer, len, inner];
                if made.count == count { Ok(()) } else { Err(ProblemError::Empty { op: op.name(), shape }) }
            }
            Problem::Cast(Cast { dtype, to, len }) => Cast::new(dtype, to, &[len]).map(drop),
            Problem::Gather(p @ Gather { dtype, index, each, outer, len, inner, count }) => {
                let made = Gather::new(dtype, index, &[outer, len, inner], 1, count, each)?;
                if made == p {
                    Ok(())
                } else {
                    Err(ProblemError::Empty { op: "gather", shape: vec![outer, len, inner] })
                }
            }
            Problem::Scatter(p @ Scatter { dtype, index, each, outer, len, inner, count }) => {
                let made = Scatter::new(dtype, index, &[outer, len, inner], 1, count, each)?;
                if made == p {
                    Ok(())
                } else {
                    Err(ProblemError::Empty { op: "scatter", shape: vec![outer, len, inner] })
                }
            }
            Problem::Fft(p) => {
                let shape: Vec<u64> = [p.batch].into_iter().chain(p.sizes().iter().copied()).collect();
                Fft::new(p.op, p.dtype, &shape, p.sizes().len()).map(drop)
            }
            // Their sizes come from their constructors only.
            Problem::Elementwise(_)
            | Problem::Transpose(_)
            | Problem::Conv(_)
            | Problem::Pool(_)
            | Problem::Fused(_)
            | Problem::Mask(_)
            | Problem::Concat(_)
            | Problem::Put(_)
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
            Problem::Attention(p) => InputLens::new(&p.input_lens()),
            Problem::Scan(p) => InputLens::new(&[p.len()]),
            Problem::Sort(p) => InputLens::new(&[p.len()]),
            Problem::Arg(p) => InputLens::new(&[p.input_len()]),
            Problem::Cast(p) => InputLens::new(&[p.len]),
            Problem::Fft(p) => InputLens::new(&[p.input_len()]),
            Problem::Fused(p) => {
                let mut lens = InputLens::new(&[]);
                (0..p.inputs()).for_each(|input| lens.push(p.input_len(input)));
                if p.numbers() > 0 {
                    lens.push(p.numbers() as u64);
                }
                lens
            }
            Problem::Gather(p) => InputLens::new(&[p.input_len(), p.indices()]),
            Problem::Scatter(p) => InputLens::new(&[p.input_len(), p.indices(), p.along_count()]),
            Problem::Mask(p) => {
                let mut lens = InputLens::new(&[]);
                (0..p.operands()).for_each(|place| lens.push(p.operand_len(place)));
                lens
            }
            Problem::Concat(p) => {
                let mut lens = InputLens::new(&[]);
                p.parts().iter().for_each(|part| lens.push(product(&[p.outer(), *part])));
                lens
            }
            Problem::Put(p) => InputLens::new(&[p.base_len(), p.block_len()]),
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
            Problem::Attention(p) => p.out_len(),
            Problem::Scan(p) => p.len(),
            Problem::Sort(p) => p.len(),
            Problem::Arg(p) => p.out_len(),
            Problem::Cast(p) => p.len,
            Problem::Fft(p) => p.out_len(),
            Problem::Fused(p) => p.out_len(),
            Problem::Gather(p) => p.along_count(),
            Problem::Scatter(p) => p.input_len(),
            Problem::Mask(p) => p.out_len(),
            Problem::Concat(p) => p.out_len(),
            Problem::Put(p) => p.out_len(),
            Problem::Custom(_) => 0,
        }
    }

    /// Bytes of all operands together.
    pub fn operand_bytes(&self) -> Bytes {
        Bytes(self.input_bytes().fold(self.out_bytes(), u64::saturating_add))
    }

    /// Bytes of each input, in order.
    pub fn input_bytes(&self) -> impl Iterator<Item = u64> {
        let (problem, lens) = (*self, self.input_lens());
        let size = move |place: usize| problem.input_dtype(place).map_or(0, DType::size);
        (0..lens.as_slice().len()).map(move |place| lens.as_slice()[place].saturating_mul(size(place)))
    }

    /// Bytes of the result.
    pub fn out_bytes(&self) -> u64 {
        self.out_len().saturating_mul(self.out_dtype().map_or(0, DType::size))
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
            Problem::Attention(p) => p.flops(),
            Problem::Scan(p) => p.len(),
            Problem::Sort(p) => p.flops(),
            Problem::Arg(p) => p.flops(),
            Problem::Cast(p) => p.len,
            Problem::Fft(p) => p.flops(),
            Problem::Fused(p) => p.flops(),
            Problem::Scatter(p) => p.along_count(),
            Problem::Mask(p) => p.out_len(),
            Problem::Transpose(_)
            | Problem::Gather(_)
            | Problem::Concat(_)
            | Problem::Put(_)
            | Problem::Custom(_) => 0,
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

/// Whether an operation has floats and i32, and no other elements.
fn real_or_i32(operation: &str, dtype: DType) -> Result<(), ProblemError> {
    if dtype.is_float() || dtype == DType::I32 {
        return Ok(());
    }
    let hint = "cast the operand to a float or i32 first (nothing is converted unasked)";
    Err(ProblemError::DType { operation: operation.to_string(), dtype, hint })
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

#[cfg(test)]
mod tests;
