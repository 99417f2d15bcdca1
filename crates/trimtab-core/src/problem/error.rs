//! Why something is not a problem, with the values and what to do.

use super::MAX_RANK;
use crate::DType;

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
