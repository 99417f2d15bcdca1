//! What is asked: operation, sizes, element type, layout. Small, `Copy`, and the same text everywhere.

mod custom;
mod elementwise;
mod matmul;
mod reduce;
mod text;
mod transpose;

pub use custom::{Custom, MAX_NAME_BYTES, MAX_SIZES};
pub use elementwise::{BinaryOp, Elementwise, ElementwiseOp, UnaryOp};
pub use matmul::{Matmul, Operand};
pub use reduce::{Reduce, ReduceOp};
pub use transpose::Transpose;

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
    /// The user's own operation, known by name and sizes.
    Custom(Custom),
}

/// The operation of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// See [`Matmul`].
    Matmul,
    /// See [`Elementwise`].
    Elementwise,
    /// See [`Reduce`].
    Reduce,
    /// See [`Transpose`].
    Transpose,
    /// See [`Custom`].
    Custom,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 5] = [
        Operation::Matmul,
        Operation::Elementwise,
        Operation::Reduce,
        Operation::Transpose,
        Operation::Custom,
    ];

    /// The name used on the command line and at the start of a problem's text.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Matmul => "matmul",
            Operation::Elementwise => "elementwise",
            Operation::Reduce => "reduce",
            Operation::Transpose => "transpose",
            Operation::Custom => "custom",
        }
    }

    /// The operation of that name.
    pub fn parse(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The typed problem of one operation.
pub trait Kind:
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
            impl Kind for $name {
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
kinds!(Matmul, Elementwise, Reduce, Transpose, Custom);

impl Problem {
    /// The element type, where the operation has one.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Problem::Matmul(p) => Some(p.dtype),
            Problem::Elementwise(p) => Some(p.dtype),
            Problem::Reduce(p) => Some(p.dtype),
            Problem::Transpose(p) => Some(p.dtype),
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
            // Their sizes come from their constructors only.
            Problem::Elementwise(_) | Problem::Transpose(_) | Problem::Custom(_) => Ok(()),
        }
    }

    /// Elements of each operand: left (or only) input, right input, output. Zero for what does not exist.
    pub fn operand_lens(&self) -> [u64; 3] {
        match self {
            Problem::Matmul(p) => [p.lhs_len(), p.rhs_len(), p.out_len()],
            Problem::Elementwise(p) => [p.lhs_len(), p.rhs_len(), p.out_len()],
            Problem::Reduce(p) => [p.input_len(), 0, p.out_len()],
            Problem::Transpose(p) => [p.len(), 0, p.len()],
            Problem::Custom(_) => [0; 3],
        }
    }

    /// Bytes of all operands together.
    pub fn operand_bytes(&self) -> Bytes {
        let size = self.dtype().map_or(0, DType::size);
        Bytes(self.operand_lens().iter().fold(0u64, |sum, &len| sum.saturating_add(len.saturating_mul(size))))
    }

    /// Arithmetic operations the result needs at least (a transcendental function counts as one).
    pub fn flops(&self) -> u64 {
        match self {
            Problem::Matmul(p) => p.flops(),
            Problem::Elementwise(p) => p.out_len(),
            Problem::Reduce(p) => p.input_len(),
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

/// Why something is not a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Text that cannot be read.
    #[error(
        "`{text}` is not a problem: {reason}; write for example matmul:f32:512x512x512 (m x n x k), \
         elementwise.add:f32:1024x1024,1024, reduce.sum:f32:64x1024:axis1 or transpose:f32:512x256"
    )]
    Text {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Sizes whose bytes cannot be addressed.
    #[error("sizes {sizes:?} of {dtype} are more bytes than this machine can address")]
    TooLarge {
        /// The sizes.
        sizes: Vec<u64>,
        /// The element type.
        dtype: DType,
    },
    /// Shapes that do not fit each other.
    #[error("shapes {lhs:?} and {rhs:?} do not fit: {reason}")]
    Shapes {
        /// Left shape.
        lhs: Vec<u64>,
        /// Right shape.
        rhs: Vec<u64>,
        /// Why they do not.
        reason: String,
    },
    /// An operation that is not defined for an element type.
    #[error("{operation} is not defined for {dtype}; {hint}")]
    DType {
        /// What was asked.
        operation: String,
        /// For which element type.
        dtype: DType,
        /// What to do.
        hint: &'static str,
    },
    /// Axes that the shape does not have, or repeated ones.
    #[error("axes {axes:?} do not fit shape {shape:?}: {reason}")]
    Axes {
        /// The axes given.
        axes: Vec<usize>,
        /// The shape.
        shape: Vec<u64>,
        /// Why not.
        reason: &'static str,
    },
    /// A minimum, maximum or mean of nothing.
    #[error("{op} of no elements is not defined (shape {shape:?})")]
    Empty {
        /// The reduction.
        op: &'static str,
        /// The shape.
        shape: Vec<u64>,
    },
    /// More dimensions than a problem keeps.
    #[error(
        "shape {0:?} keeps more than {MAX_RANK} dimensions after merging; make the operand contiguous first"
    )]
    TooManyDimensions(Vec<u64>),
    /// A custom problem's name or sizes out of bounds.
    #[error("custom problem `{name}`: {reason}")]
    Custom {
        /// The name.
        name: String,
        /// What is wrong.
        reason: String,
    },
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
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        match Problem::parse(text) {
            Ok(problem) => {
                let shown = problem.to_string();
                assert_eq!(Problem::parse(&shown), Ok(problem), "{text} → {shown} does not round-trip");
                shown
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn a_problem_fits_in_a_cache_line() {
        assert!(std::mem::size_of::<Problem>() <= 64, "{}", std::mem::size_of::<Problem>());
    }

    #[test]
    fn text_round_trips_and_merges_what_behaves_alike() {
        for (given, shown) in [
            ("matmul:f32:512x256x128", "matmul:f32:512x256x128"),
            ("matmul:f64:1x2x3x4:ns,t", "matmul:f64:2x3x4:n,t"),
            ("matmul:f64:5x2x3x4:n,ts", "matmul:f64:5x2x3x4:n,ts"),
            ("matmul:f32:0x0x0", "matmul:f32:0x0x0"),
            ("elementwise.exp:f32:4x5x6", "elementwise.exp:f32:120"),
            ("elementwise.add:f32:4x5", "elementwise.add:f32:20"),
            ("elementwise.add:f32:4x5,5", "elementwise.add:f32:4x5,1x5"),
            ("elementwise.add:f32:2x3x4x5,2x3x1x1", "elementwise.add:f32:6x20,6x1"),
            ("elementwise.max:i32:1,7", "elementwise.max:i32:1,7"),
            ("elementwise.max:i32:1x1", "elementwise.max:i32:1"),
            ("elementwise.add:f32:4x0,1x0", "elementwise.add:f32:4x0,1x0"),
            ("reduce.sum:f32:16x32", "reduce.sum:f32:512"),
            ("reduce.sum:f32:2x3x16x4x5:axis2", "reduce.sum:f32:6x16x20:axis1"),
            ("reduce.max:i32:16x4:axis0", "reduce.max:i32:16x4:axis0"),
            ("reduce.mean:f64:16x4:axis1", "reduce.mean:f64:16x4:axis1"),
            ("reduce.sum:f32:0", "reduce.sum:f32:0"),
            ("transpose:f32:512x256", "transpose:f32:512x256"),
            ("transpose:f32:2x3x4:0.1.2", "transpose:f32:24:0"),
            ("transpose:f32:8x512x64:0.2.1", "transpose:f32:8x512x64:0.2.1"),
            ("transpose:f32:8x1x64", "transpose:f32:8x64"),
            ("transpose:i32:2x3x4x5:2.3.0.1", "transpose:i32:6x20"),
            ("custom.sort:1000", "custom.sort:1000"),
            ("custom.a.b-c", "custom.a.b-c"),
        ] {
            assert_eq!(canonical(given), shown, "{given}");
        }
    }

    #[test]
    fn different_problems_mix_differently() {
        let mut texts: Vec<String> = Vec::new();
        for dtype in ["f32", "f64"] {
            texts.extend(["2x3x4x5", "2x3x5x4", "3x4x5"].map(|sizes| format!("matmul:{dtype}:{sizes}")));
            texts.extend(ElementwiseOp::names().map(|op| format!("elementwise.{op}:{dtype}:7")));
            texts.extend(
                ["4x5,1x5", "4x5,4x1", "1x5,4x5", "4,1", "1,4"]
                    .map(|s| format!("elementwise.add:{dtype}:{s}")),
            );
            texts.extend(ReduceOp::ALL.iter().map(|op| format!("reduce.{}:{dtype}:2x3x4:axis1", op.name())));
            texts.extend(["2x3:axis0", "2x3:axis1", "6"].map(|s| format!("reduce.sum:{dtype}:{s}")));
            texts.extend(
                ["2x3", "3x2", "2x3x4:0.2.1", "2x3x4:2.1.0", "24:0"]
                    .map(|s| format!("transpose:{dtype}:{s}")),
            );
        }
        texts.extend(["a", "b", "a:1", "a:1x2", "a:2x1", "aa:1"].map(|s| format!("custom.{s}")));
        let mixed: std::collections::HashSet<u64> =
            texts.iter().map(|text| Problem::parse(text).unwrap().mix()).collect();
        assert_eq!(mixed.len(), texts.len());
    }

    #[test]
    fn hand_made_sizes_saturate_and_do_not_pass_the_check() {
        let Ok(product) = Matmul::new(DType::F32, 1, 2, 2) else { unreachable!() };
        assert_eq!(Problem::from(product).check(), Ok(()));
        let product = Problem::from(Matmul { m: 1 << 63, ..product });
        assert_eq!(product.operand_lens(), [u64::MAX, 4, u64::MAX]);
        assert!(matches!(product.check(), Err(ProblemError::TooLarge { .. })));
        let Ok(sum) = Reduce::new(ReduceOp::Min, DType::F32, &[4], None) else { unreachable!() };
        let sum = Problem::from(Reduce { outer: 1 << 33, inner: 1 << 33, ..sum });
        assert_eq!(sum.operand_lens(), [u64::MAX, 0, u64::MAX]);
        assert!(matches!(sum.check(), Err(ProblemError::TooLarge { .. })));
    }

    #[test]
    fn bad_text_says_what_is_wrong() {
        for (given, part) in [
            ("", "not an operation"),
            ("gemm:f32:1x1x1", "use one of: matmul"),
            ("matmul:f8:1x1x1", "use one of: f32, f64, f16, i32"),
            ("matmul:f32", "sizes are missing"),
            ("matmul:f32:1x1", "m x n x k"),
            ("matmul:f32:1x1x1:q,n", "a layout is two of"),
            ("matmul:f32:1x1x1:n,n:more", "too much"),
            ("matmul.fast:f32:1x1x1", "too much"),
            ("matmul:f32:-1x1x1", "`-1` is not a size"),
            ("matmul:f32:+1x1x1", "`+1` is not a size"),
            ("matmul:f32:99999999999999999999x1x1", "is not a size"),
            ("matmul:f32:4294967296x4294967296x1", "more bytes than this machine can address"),
            ("matmul:f32:0x1099511627776x1099511627776x1", "more bytes than this machine can address"),
            ("elementwise.neg:f32:1099511627776x1099511627776x0", "more bytes than this machine can address"),
            (
                "reduce.sum:f32:1099511627776x0x1099511627776:axis1",
                "more bytes than this machine can address",
            ),
            ("transpose:f32:1099511627776x1099511627776x0", "more bytes than this machine can address"),
            ("matmul:i32:1x1x1", "not defined for i32"),
            ("elementwise.exp:i32:1", "not defined for i32"),
            ("elementwise:f32:1", "elementwise.OP"),
            ("elementwise.exp:f32:1,1", "takes one operand"),
            ("elementwise.add:f32:2x3,2", "neither equal nor one"),
            ("reduce.min:f32:0", "of no elements"),
            ("reduce.mean:i32:4", "not defined for i32"),
            ("reduce.sum:f32:4:axis7", "no such axis"),
            ("reduce.sum:f32:4:7", "not an axis"),
            ("transpose:f32:2x3:0.0", "named twice"),
            ("transpose:f32:2x3:0", "every axis once"),
            ("transpose:f32:2x3:a.b", "not a permutation"),
            ("custom:1", "custom.NAME"),
            ("custom.a/b:1", "ASCII letters"),
            ("custom.a:1x2x3x4x5", "at most 4 sizes"),
        ] {
            let shown = canonical(given);
            assert!(shown.starts_with("error: ") && shown.contains(part), "{given}: {shown}");
        }
        assert!(canonical(&"x".repeat(10_000)).contains("longer than"));
    }
}
