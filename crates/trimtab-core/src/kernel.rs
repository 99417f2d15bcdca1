//! What a kernel author writes: a variant of one operation, typed by the context of its device.

use crate::{Config, DType, DeviceFacts, Failure, TypedProblem, Work};
use std::borrow::Cow;
use std::fmt;

/// Why a kernel does not take a problem. Normal, never an error; `explain` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline(pub Cow<'static, str>);

impl Decline {
    /// A fixed reason.
    pub const fn because(reason: &'static str) -> Decline {
        Decline(Cow::Borrowed(reason))
    }
}

impl From<String> for Decline {
    fn from(reason: String) -> Decline {
        Decline(Cow::Owned(reason))
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The version of a kernel's code, or of the library behind it. A new version forgets what was learned of that kernel only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelVersion(pub Cow<'static, str>);

impl KernelVersion {
    /// The version of a kernel of our own: a hash (FNV-1a, 64 bits) of the source texts it is made from, so that an edit
    /// forgets what was learned of that kernel alone.
    pub fn of_sources(sources: &[&str]) -> KernelVersion {
        let bytes = sources.iter().flat_map(|source| source.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        KernelVersion(Cow::Owned(format!("{hash:016x}")))
    }
}

impl From<&'static str> for KernelVersion {
    fn from(text: &'static str) -> Self {
        KernelVersion(Cow::Borrowed(text))
    }
}

impl From<String> for KernelVersion {
    fn from(text: String) -> Self {
        KernelVersion(Cow::Owned(text))
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::named! {
    /// What sort of implementation a kernel is.
    pub enum VariantClass {
        /// Plain loops; the yardstick of correctness. Never declines.
        Reference = "reference",
        /// Blocked for caches.
        Tiled = "tiled",
        /// Built on vector instructions.
        Vectorized = "vectorized",
        /// Spread over threads.
        Parallel = "parallel",
        /// From a library.
        Library = "library",
        /// Brought by the user.
        Custom = "custom",
    }
}

/// A launch that did not do its work. The call is answered by the next best plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum LaunchError {
    /// The operands are not what the problem says.
    #[error("operand `{operand}` has {found} elements of {dtype}, the problem needs {needed}")]
    Operand { operand: &'static str, dtype: &'static str, found: usize, needed: usize },
    /// The exact result does not fit the element type.
    #[error(
        "the exact result does not fit in {dtype}; give an operand of f64 elements (nothing is converted by trimtab)"
    )]
    Overflow { dtype: &'static str },
    /// The operands have values for which there is no answer (an integer divided by zero). The caller's, not the kernel's fault.
    #[error("{0}")]
    Data(String),
    /// The settings are not this kernel's.
    #[error("point {0} is not a setting of this kernel")]
    Point(String),
    /// It was found out: its result is wrong, or there was none in time.
    #[error("{0}")]
    Failed(Failure),
    /// The kernel said so itself.
    #[error("{0}")]
    Kernel(String),
}

impl LaunchError {
    /// Whether another kernel would fail alike, because the operands are the reason.
    pub fn is_callers(&self) -> bool {
        matches!(self, LaunchError::Operand { .. } | LaunchError::Overflow { .. } | LaunchError::Data(_))
    }
}

/// What a kind of device hands to its kernels: slices on the CPU, an encoder on a GPU.
pub trait Context: 'static {
    /// The operands and services of one launch.
    type Args<'a>;
}

/// One variant of one operation on one kind of device.
pub trait Variant<C: Context>: Send + Sync + 'static {
    /// The operation's problem type: `Matmul`, `Reduce`, …
    type Problem: TypedProblem;
    /// The kernel's settings, written with [`config!`](crate::config).
    type Config: Config;

    /// The kernel's name, the key in wisdom: `cpu.matmul.blocked`.
    fn name(&self) -> Cow<'static, str>;
    /// The version of the code or of the library behind it.
    fn version(&self) -> KernelVersion;
    /// What sort of implementation this is.
    fn class(&self) -> VariantClass;
    /// Whether it computes with elements of that type. Only asked of our own kernels of the processor; others decline what they do
    /// not take.
    fn takes(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64 | DType::I32)
    }
    /// Why it does not take this problem on this device, or `None`.
    fn declines(&self, problem: &Self::Problem, device: &DeviceFacts) -> Option<Decline>;
    /// The settings worth considering, the default first; never empty for a problem that is not declined.
    fn configs(&self, problem: &Self::Problem, device: &DeviceFacts) -> Vec<Self::Config>;
    /// What one launch with these settings does, counted.
    fn work(&self, problem: &Self::Problem, config: Self::Config, device: &DeviceFacts) -> Work;
    /// Computes.
    fn launch(
        &self,
        problem: &Self::Problem,
        config: Self::Config,
        args: C::Args<'_>,
    ) -> Result<(), LaunchError>;
}
