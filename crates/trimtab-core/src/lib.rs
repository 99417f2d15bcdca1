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

pub use constraints::{Constraints, Objective, Patience, Terms, Tolerance, UnknownPatience, WrongTerms};
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
    Arg, ArgOp, Attention, BinaryOp, Cast, Channels, Concat, Conv, Custom, Elementwise, ElementwiseOp, Fft,
    FftOp, Fused, Gather, InputLens, Lookup, MAX_FFT_RANK, MAX_INPUTS, MAX_NAME_BYTES, MAX_NUMBERS,
    MAX_PARTS, MAX_PUT_RANK, MAX_RANK, MAX_SIZES, MAX_SPACE, MAX_STEPS, MAX_WAITING, Mask, MaskOp, Matmul,
    Moves, Operand, Operation, Over, Pool, PoolOp, Problem, ProblemError, Product, Put, Reduce, ReduceOp,
    Rows, RowsOp, Scan, ScanOp, Scatter, Sort, Step, Transpose, TypedProblem, UnaryOp, Varies, Window,
};
pub use random_numbers::RandomNumbers;
pub use space::{Config, MAX_AXES, Point, Space};
pub use state::{Condition, SHARED_FROM, State};
pub use table::{AnyKernel, KernelTable, erase, panic_message};
pub use units::{Bytes, Flops, Nanos};
