//! The nouns of trimtab as data, and the traits kernel and device authors implement.
//!
//! Nothing here does IO, reads a clock or the environment, starts a thread, takes a lock or uses `unsafe`.
//! Callers of operations want the crate `trimtab`; authors of kernels and devices want this one.
#![forbid(unsafe_code)]

mod constraints;
mod device;
mod dtype;
mod estimate;
mod kernel;
mod measurement;
mod named;
mod printable;
mod problem;
mod random_numbers;
mod space;
mod state;
mod table;
mod units;

pub use constraints::{Constraints, Objective, Patience, Terms, UnknownPatience, WrongWeights};
pub use device::{
    AdapterClass, AdapterFacts, Bench, Cache, Device, DeviceFacts, DeviceKind, Fingerprint, Habits, KernelId,
    KernelInfo, Rates, Transfers,
};
pub use dtype::DType;
pub use estimate::{Basis, Estimate, Work};
pub use kernel::{Context, Decline, KernelVersion, LaunchError, Variant, VariantClass};
pub use measurement::{Failure, FailureKind, Interference, Sample};
pub use printable::{is_steering, printable};
pub use problem::{
    BinaryOp, Channels, Conv, Custom, Elementwise, ElementwiseOp, Fused, InputLens, Lookup, MAX_INPUTS,
    MAX_NAME_BYTES, MAX_NUMBERS, MAX_RANK, MAX_SIZES, MAX_SPACE, MAX_STEPS, MAX_WAITING, Matmul, Moves,
    Operand, Operation, Over, Pool, PoolOp, Problem, ProblemError, Product, Reduce, ReduceOp, Rows, RowsOp,
    Scan, ScanOp, Sort, Step, Transpose, TypedProblem, UnaryOp, Varies, Window,
};
pub use random_numbers::RandomNumbers;
pub use space::{Config, MAX_AXES, Point, Space};
pub use state::{Condition, State};
pub use table::{AnyKernel, KernelTable, erase, panic_message};
pub use units::{Bytes, Flops, Nanos};
