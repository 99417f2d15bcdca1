//! Declarations of variables and shared memory.

use super::{Outer, Parser};
use crate::fault::LoadError;
use crate::operand::number;

/// Bytes one declaration may ask for.
const MAX_DECLARED: usize = 1 << 30;

/// What a declaration says.
pub(super) struct Declared {
    pub name: String,
    pub bytes: usize,
    pub align: usize,
    /// Bytes of one element.
    pub element: usize,
    /// `name[]`: the launch says how many.
    pub open: bool,
}

/// From after the space to the name and its dimensions.
pub(super) fn declared(parser: &mut Parser<'_>) -> Result<Declared, LoadError> {
    let mut align = 1;
    while parser.accept(".align") {
        align = parser.whole()?;
    }
    let scalar = parser.scalar()?;
    if parser.accept(".ptr") {
        // What a pointer points to is the caller's.
        for space in [".global", ".const", ".shared", ".local"] {
            parser.accept(space);
        }
        if parser.accept(".align") {
            parser.whole()?;
        }
    }
    let name = parser.word()?.to_string();
    let (mut count, mut open) = (1usize, false);
    while parser.accept("[") {
        if parser.accept("]") {
            (count, open) = (0, true);
        } else {
            count = count.saturating_mul(parser.whole()?);
            parser.expect("]")?;
        }
    }
    let element = scalar.bytes();
    let bytes = count.saturating_mul(element);
    let align = align.max(element);
    if bytes > MAX_DECLARED || !align.is_power_of_two() || align > 1 << 16 {
        return Err(parser.error("a size or alignment out of all bounds"));
    }
    Ok(Declared { name, bytes, align, element, open })
}

/// A variable of the module, with its value.
pub(super) fn variable(parser: &mut Parser<'_>, outer: &mut Outer) -> Result<(), LoadError> {
    let declared = declared(parser)?;
    let start = outer.place(&declared).ok_or_else(|| parser.error("variables larger than 16 MiB"))?;
    if parser.accept("=") {
        let mut at = start;
        let end = start + declared.bytes;
        loop {
            let word = parser.word()?;
            match word {
                ";" => return Ok(()),
                "{" | "}" | "," => continue,
                _ => {}
            }
            let negative = word == "-";
            let word = if negative { parser.word()? } else { word };
            let value = number(word).ok_or_else(|| parser.error("an initial value that is not modelled"))?;
            let value = if negative { value.wrapping_neg() } else { value };
            if at + declared.element > end {
                return Err(parser.error("more initial values than elements"));
            }
            let bytes = value.to_le_bytes();
            outer.variables[at..at + declared.element].copy_from_slice(&bytes[..declared.element]);
            at += declared.element;
        }
    }
    parser.expect(";")
}

/// Shared memory of all kernels of the module.
pub(super) fn shared(parser: &mut Parser<'_>, outer: &mut Outer) -> Result<(), LoadError> {
    let declared = declared(parser)?;
    if declared.open {
        outer.dynamic.push(declared)
    } else {
        outer.shared.push(declared)
    }
    parser.expect(";")
}
