//! Arguments of instructions, as they are written and as they are executed.

use crate::scalar::Space;
use std::collections::HashMap;

/// A value that the machine provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
    Warp,
    Warps,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    ThisLane,
    Clock,
    DynamicShared,
    TotalShared,
}

impl Special {
    /// By the name after the `%`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some((base, axis)) = name.split_once('.') {
            let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
            return Some(match base {
                "tid" => Self::Thread(axis),
                "ntid" => Self::Threads(axis),
                "ctaid" => Self::Block(axis),
                "nctaid" => Self::Blocks(axis),
                _ => return None,
            });
        }
        Some(match name {
            "laneid" => Self::Lane,
            "warpid" => Self::Warp,
            "nwarpid" => Self::Warps,
            "lanemask_lt" => Self::LanesBelow,
            "lanemask_le" => Self::LanesUpTo,
            "lanemask_gt" => Self::LanesAbove,
            "lanemask_ge" => Self::LanesFrom,
            "lanemask_eq" => Self::ThisLane,
            "clock" | "clock64" | "globaltimer" => Self::Clock,
            "dynamic_smem_size" => Self::DynamicShared,
            "total_smem_size" => Self::TotalShared,
            _ => return None,
        })
    }
}

/// Where an instruction takes a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Register(u32),
    Immediate(u64),
    Special(Special),
}

/// An operand as written. Labels and dynamic shared memory are looked up when the whole body is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Origin(Origin),
    Name(String),
    Variable(Space, u64),
    Address(Box<Argument>, i64),
    List(Vec<Argument>),
    Pair(Option<u32>, Option<u32>),
    Not(u32),
    Sink,
}

/// A place in memory as an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub base: Origin,
    pub offset: u64,
}

/// A predicate before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub register: u32,
    pub negated: bool,
}

/// One instruction as written.
#[derive(Clone, Debug)]
pub(crate) struct Statement<'a> {
    pub guard: Option<Guard>,
    pub opcode: &'a str,
    pub operands: Vec<Argument>,
    pub line: u32,
    pub source: u32,
    /// The call it belongs to; 0 is the kernel itself.
    pub call: u32,
}

/// What names of a body mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The instruction after each label, by call.
    pub labels: HashMap<(u32, String), u32>,
    /// Variables of the module, and dynamic shared memory.
    pub variables: HashMap<String, (Space, u64)>,
}

/// A number as PTX writes it, as bits.
pub(crate) fn number(word: &str) -> Option<u64> {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    match word.get(..2) {
        Some("0f" | "0F") if word.len() == 10 => return hex(&word[2..]),
        Some("0d" | "0D") if word.len() == 18 => return hex(&word[2..]),
        Some("0x" | "0X") => return hex(word[2..].trim_end_matches('U')),
        Some("0b" | "0B") => return u64::from_str_radix(word[2..].trim_end_matches('U'), 2).ok(),
        _ => {}
    }
    let digits = word.trim_end_matches('U');
    if digits.len() > 1 && digits.starts_with('0') {
        return u64::from_str_radix(&digits[1..], 8).ok();
    }
    digits.parse().ok()
}
