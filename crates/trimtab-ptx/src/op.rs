//! Instructions as they are executed: everything looked up, nothing left to interpret.

use crate::number::{Half, Rounding};
use crate::operand::{Address, Guard, Origin};
use crate::scalar::{Scalar, Space};

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub op: Op,
    pub guard: Option<Guard>,
    pub line: u32,
    pub source: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Nothing,
    /// Each lane for itself.
    Compute {
        function: Function,
        dst: u32,
        sources: [Origin; 4],
    },
    /// Arithmetic with the carry of each lane.
    Carry {
        function: Carry,
        scalar: Scalar,
        dst: u32,
        sources: [Origin; 3],
        reads: bool,
        writes: bool,
    },
    Pack {
        dst: u32,
        parts: Vec<Origin>,
        bits: u32,
    },
    Unpack {
        dsts: Vec<Option<u32>>,
        source: Origin,
        bits: u32,
    },
    Load {
        space: Space,
        scalar: Scalar,
        dsts: Vec<Option<u32>>,
        address: Address,
        strong: bool,
    },
    /// Strong accesses (`volatile`, `relaxed`, `acquire`, `release`) race no more than atomics do.
    Store {
        space: Space,
        scalar: Scalar,
        sources: Vec<Origin>,
        address: Address,
        strong: bool,
    },
    Atomic {
        space: Space,
        scalar: Scalar,
        action: Action,
        dst: Option<u32>,
        address: Address,
        sources: [Origin; 2],
    },
    Branch(u32),
    Exit,
    Trap,
    Barrier {
        id: Origin,
        threads: Option<Origin>,
    },
    /// What the lanes of a warp do together.
    Together {
        what: Together,
        members: Origin,
    },
    ActiveMask {
        dst: u32,
    },
    CopyAsync {
        dst: Address,
        source: Address,
        bytes: usize,
        valid: Option<Origin>,
    },
    CopyCommit,
    /// Waits until at most so many groups of copies are under way; with `all`, for what is in no group, too.
    CopyWait {
        keep: usize,
        all: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Together {
    Barrier,
    Shuffle {
        mode: Shuffle,
        dst: u32,
        valid: Option<u32>,
        source: Origin,
        lane: Origin,
        clamp: Origin,
    },
    Vote {
        vote: Vote,
        dst: u32,
        predicate: Origin,
        negated: bool,
    },
    Reduce {
        action: Action,
        scalar: Scalar,
        dst: u32,
        source: Origin,
    },
    /// `ldmatrix`: 8 × 8 matrices of 16-bit elements.
    MatrixLoad {
        space: Space,
        dsts: Vec<u32>,
        transposed: bool,
        address: Address,
    },
    Mma(Box<Mma>),
    TileLoad(Box<Tile>),
    TileStore(Box<Tile>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Xor,
    Down,
    Up,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What an atomic does with the old value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// Elements of the factors of a tensor-core product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
    Tf32,
}

/// How elements of a tile lie in the registers of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// As documented for `mma.sync`.
    Documented,
    /// Up to the machine, as for `wmma`: only whole tiles mean something.
    Opaque,
}

/// `d = a · b + c` by a warp: `a` is m × k, `b` k × n.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub factor: Factor,
    pub fragment: Fragment,
    /// Sums are f32; otherwise pairs of f16.
    pub wide: bool,
    pub d: Vec<u32>,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<Origin>,
}

/// A tile of `wmma` in memory.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub scalar: Scalar,
    pub row_major: bool,
    pub space: Space,
    pub address: Address,
    pub stride: Origin,
    pub registers: Vec<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Add,
    Subtract,
    MultiplyAddLow,
    MultiplyAddHigh,
}

/// What a lane computes from up to four values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Take,
    Select,
    Whole(Whole, Scalar),
    Float(FloatOp, Style),
    Double(FloatOp, Style),
    Halves { float: FloatOp, half: Half, packed: bool },
    Compare { comparison: Comparison, scalar: Scalar, flush: bool, combine: Option<Combine>, negated: bool },
    Convert(Conversion),
    ToGeneric(Space),
    FromGeneric(Space),
    IsIn(Space),
}

/// Functions of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Add,
    Subtract,
    MultiplyLow,
    MultiplyHigh,
    MultiplyWide,
    MultiplyAddLow,
    MultiplyAddHigh,
    MultiplyAddWide,
    Divide,
    Remainder,
    Negate,
    Absolute,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    IsZero,
    ShiftLeft,
    ShiftRight,
    ExtractField,
    InsertField,
    Reverse,
    LeadingZeros,
    CountOnes,
    FindHighest,
    Permute,
    FunnelLeft { wraps: bool },
    FunnelRight { wraps: bool },
    Logic3,
    AbsoluteDifference,
}

/// Functions of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Subtract,
    Multiply,
    Fused,
    Divide,
    Negate,
    Absolute,
    Min,
    Max,
    /// As `Min` and `Max`, but not a number if either is not.
    MinNan,
    MaxNan,
    Reciprocal,
    Root,
    ReciprocalRoot,
    Exp2,
    Log2,
    Sine,
    Cosine,
    Tanh,
    CopySign,
    IsFinite,
    IsInfinite,
    IsNan,
    IsNumber,
    IsNormal,
    IsSubnormal,
}

/// How a float function rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub rounding: Rounding,
    /// Subnormal numbers count as zero.
    pub flush: bool,
    /// Results are kept in 0 to 1.
    pub saturate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// True if either is not a number.
    EqualOr,
    NotEqualOr,
    LessOr,
    LessEqualOr,
    GreaterOr,
    GreaterEqualOr,
    BothNumbers,
    NotBothNumbers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub to: Scalar,
    pub from: Scalar,
    pub rounding: Rounding,
    /// Rounded to a whole number first.
    pub to_whole: bool,
    pub saturate: bool,
    pub flush: bool,
}
