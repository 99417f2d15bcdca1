//! Why a call failed, in words that say what to do.

use trimtab_core::{Bytes, DType, LaunchError, ProblemError};
use trimtab_plan::PlanError;
use trimtab_plan::place::PlaceError;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum Error {
    /// Shapes, axes or element types that make no problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// No kernel may or can do it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The operands have no answer: an overflow, a division by zero.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An expression that fits nowhere.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A value that cannot be read back from the only device that has it.
    #[error("the value cannot be read back from the device that holds it: {0}; compute it again")]
    Fetch(LaunchError),
    /// Shapes that do not go together.
    #[error("{operation}: shapes {lhs:?} and {rhs:?} do not fit: {reason}")]
    Shapes { operation: &'static str, lhs: Vec<usize>, rhs: Vec<usize>, reason: String },
    /// Operands of different element types.
    #[error(
        "{operation}: the left operand is {lhs}, the right one {rhs}; cast one of them (nothing is converted unasked)"
    )]
    MixedTypes { operation: String, lhs: DType, rhs: DType },
    /// A tensor that is not of the element type asked for.
    #[error("the elements are {found}, asked for is {asked}")]
    ElementType { asked: DType, found: DType },
    /// A number that is none of an element type's.
    #[error("{value} is not a number of the type {dtype}")]
    Number { value: String, dtype: DType },
    /// An output whose shape is not the result's.
    #[error("the output has shape {found:?}, the result has shape {needed:?}")]
    Output { needed: Vec<usize>, found: Vec<usize> },
    /// Data that does not fill a shape.
    #[error("shape {shape:?} needs {needed} elements, there are {found}")]
    ElementCount { shape: Vec<usize>, needed: usize, found: usize },
    /// More dimensions than a tensor has.
    #[error("shape {shape:?} has more than {} dimensions", crate::MAX_TENSOR_RANK)]
    Rank { shape: Vec<usize> },
    /// A part that is not inside a tensor.
    #[error("range {start}..{end} along axis {axis} is not inside shape {shape:?}")]
    Slice { axis: usize, start: usize, end: usize, shape: Vec<usize> },
    /// Axes that are no permutation.
    #[error("axes {axes:?} do not name every axis of shape {shape:?} once")]
    Permutation { axes: Vec<usize>, shape: Vec<usize> },
    /// A shape that cannot be repeated to fit another.
    #[error(
        "shape {from:?} cannot be repeated to {to:?}: sizes must be equal or one, aligned at the last axis"
    )]
    Broadcast { from: Vec<usize>, to: Vec<usize> },
    /// A shape whose bytes cannot be addressed.
    #[error("shape {shape:?} of {dtype} is more bytes than this machine can address")]
    TooLarge { shape: Vec<usize>, dtype: DType },
    /// Memory that is not to be had.
    #[error("{bytes} of memory are not to be had; use smaller operands or free some")]
    OutOfMemory { bytes: Bytes },
    /// A file that cannot be written, or read as a tensor.
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
    /// An environment variable with a value that means nothing.
    #[error("{variable}=`{value}` is not understood; {valid}")]
    Environment { variable: &'static str, value: String, valid: String },
    /// A device pin that matches nothing.
    #[error("there is no device `{wanted}`; there are: {known}")]
    NoSuchDevice { wanted: String, known: String },
    /// Two devices of one name.
    #[error("two devices are named `{id}`; people pin devices by these names, and they must differ")]
    DuplicateDevice { id: String },
    /// Two kernels of one name.
    #[error("two kernels are named `{name}`; names are keys in wisdom and must differ")]
    DuplicateKernel { name: String },
    /// A choice without options, or with two of one name.
    #[error("choice `{name}`: {reason}")]
    Choice { name: String, reason: String },
    /// Settings that make no space, or a study that cannot be kept.
    #[error("tuned `{name}`: {reason}")]
    Tuned { name: String, reason: String },
}
