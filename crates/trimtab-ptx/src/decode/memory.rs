//! Loads, stores, atomics, asynchronous copies and addresses.

use super::{Arguments, Words, compute};
use crate::op::{Action, Function, Op};
use crate::operand::{Argument, Origin};
use crate::scalar::{Scalar, Space};

/// Hints, and orders of memory that hold here anyway.
const IGNORED: [&str; 20] = [
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "weak",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "cta",
    "gpu",
    "sys",
    "cluster",
    "evict_first",
    "unified",
];

pub(super) fn decode(name: &str, words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    match name {
        "cp" => return copy(words, operands),
        "cvta" => {
            let to = words.take("to");
            let space = words.space();
            words.scalar()?;
            if matches!(space, Space::Generic | Space::Parameter) {
                return Err("a conversion of addresses that is not modelled".to_string());
            }
            let function = if to { Function::FromGeneric(space) } else { Function::ToGeneric(space) };
            return compute(function, operands, 1);
        }
        "isspacep" => return compute(Function::IsIn(words.space()), operands, 1),
        _ => {}
    }
    let strong = ["volatile", "relaxed", "acquire", "release"].iter().any(|word| words.left.contains(word));
    words.ignore(&IGNORED);
    let mut space = words.space();
    if space == Space::Parameter && operands.is_passed(usize::from(name != "st")) {
        space = Space::Local;
    }
    if name == "atom" || name == "red" {
        return atomic(name == "atom", space, words, operands);
    }
    let count = match (words.take("v2"), words.take("v4")) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 1,
    };
    let scalar = words.scalar()?;
    if scalar == Scalar::Pred || scalar.bytes() * count > 16 {
        return Err("an access of a type or width that is not modelled".to_string());
    }
    operands.count(2..=2)?;
    let op = if name == "st" {
        if space == Space::Parameter {
            return Err("a parameter of the kernel cannot be written".to_string());
        }
        Op::Store { space, scalar, sources: operands.sources_in(1)?, address: operands.address(0)?, strong }
    } else {
        Op::Load { space, scalar, dsts: operands.places_in(0)?, address: operands.address(1)?, strong }
    };
    let given = match &op {
        Op::Store { sources, .. } => sources.len(),
        Op::Load { dsts, .. } => dsts.len(),
        _ => 0,
    };
    if given == count { Ok(op) } else { Err(format!("{given} registers for {count} elements")) }
}

fn atomic(
    returns: bool,
    space: Space,
    words: &mut Words<'_>,
    operands: &Arguments<'_>,
) -> Result<Op, String> {
    if !matches!(space, Space::Generic | Space::Global | Space::Shared) {
        return Err("an atomic of this space is not modelled".to_string());
    }
    words.ignore(&["noftz"]);
    let action = words
        .find(|word| {
            Some(match word {
                "add" => Action::Add,
                "min" => Action::Min,
                "max" => Action::Max,
                "and" => Action::And,
                "or" => Action::Or,
                "xor" => Action::Xor,
                "exch" => Action::Exchange,
                "cas" => Action::CompareAndSwap,
                "inc" => Action::Increment,
                "dec" => Action::Decrement,
                _ => return None,
            })
        })
        .ok_or("an atomic that is not modelled")?;
    let scalar = words.scalar()?;
    let known = match scalar {
        Scalar::F32 | Scalar::F64 => action == Action::Add,
        _ => scalar.is_whole() && scalar.bytes() >= 4,
    };
    if !known {
        return Err("an atomic of this type is not modelled".to_string());
    }
    let first = usize::from(returns);
    let swaps = action == Action::CompareAndSwap;
    operands.count(first + 2 + usize::from(swaps)..=first + 2 + usize::from(swaps))?;
    let dst = match (returns, operands.get(0)?) {
        (true, Argument::Origin(Origin::Register(register))) => Some(*register),
        (true, Argument::Sink) | (false, _) => None,
        _ => return Err("a destination that is no register".to_string()),
    };
    let second = if swaps { operands.source(first + 2)? } else { Origin::Immediate(0) };
    let sources = [operands.source(first + 1)?, second];
    Ok(Op::Atomic { space, scalar, action, dst, address: operands.address(first)?, sources })
}

fn copy(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    if !words.take("async") {
        return Err("a copy that is not modelled".to_string());
    }
    if words.take("commit_group") {
        operands.count(0..=0)?;
        return Ok(Op::CopyCommit);
    }
    if words.take("wait_all") {
        operands.count(0..=0)?;
        return Ok(Op::CopyWait { keep: 0, all: true });
    }
    if words.take("wait_group") {
        operands.count(1..=1)?;
        return Ok(Op::CopyWait { keep: operands.immediate(0)? as usize, all: false });
    }
    words.ignore(&["ca", "cg"]);
    let (to, from) = (words.space(), words.space());
    if to != Space::Shared || from != Space::Global {
        return Err("a copy that is not modelled".to_string());
    }
    operands.count(3..=4)?;
    let bytes = operands.immediate(2)? as usize;
    if ![4, 8, 16].contains(&bytes) {
        return Err("a copy of this size is not modelled".to_string());
    }
    let valid = if operands.list.len() > 3 { Some(operands.source(3)?) } else { None };
    Ok(Op::CopyAsync { dst: operands.address(0)?, source: operands.address(1)?, bytes, valid })
}
