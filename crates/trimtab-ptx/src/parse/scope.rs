//! What names mean inside of braces: registers, single ones and ranges like `%r<9>`, and variables.

use super::Parser;
use super::declare::Declared;
use crate::fault::LoadError;
use crate::scalar::Space;
use std::collections::HashMap;

/// Registers a kernel may declare: each takes 256 bytes a warp.
const MAX_REGISTERS: usize = 1 << 15;

/// Names of one pair of braces.
#[derive(Default)]
struct Scope {
    single: HashMap<String, u32>,
    ranges: HashMap<String, (u32, u32)>,
    variables: HashMap<String, (Space, u64)>,
}

/// Names of all braces around a place, and what was declared in any.
#[derive(Default)]
pub(super) struct Scopes {
    open: Vec<Scope>,
    /// Bytes of each register.
    pub registers: Vec<u8>,
    pub shared_bytes: usize,
    pub local_bytes: usize,
}

impl Scopes {
    pub(super) fn enter(&mut self) {
        self.open.push(Scope::default());
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// How many braces are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(super) fn register(&self, name: &str) -> Option<u32> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (base, number) = name.split_at(name.len() - digits);
        self.open.iter().rev().find_map(|scope| {
            scope.single.get(name).copied().or_else(|| {
                let (first, count) = scope.ranges.get(base)?;
                let number: u32 = number.parse().ok()?;
                (number < *count).then_some(first + number)
            })
        })
    }

    pub(super) fn variable(&self, name: &str) -> Option<(Space, u64)> {
        self.open.iter().rev().find_map(|scope| scope.variables.get(name).copied())
    }

    /// Lets a name mean a place that there is already.
    pub(super) fn name(&mut self, name: &str, space: Space, address: u64) {
        if let Some(scope) = self.open.last_mut() {
            scope.variables.insert(name.to_string(), (space, address));
        }
    }

    /// Makes a place in shared or local memory.
    pub(super) fn place(&mut self, space: Space, declared: &Declared) {
        let end = if space == Space::Shared { &mut self.shared_bytes } else { &mut self.local_bytes };
        let start = end.next_multiple_of(declared.align);
        *end = start.saturating_add(declared.bytes);
        self.name(&declared.name, space, start as u64);
    }

    /// From after `.reg` to the semicolon.
    pub(super) fn declare(&mut self, parser: &mut Parser<'_>) -> Result<(), LoadError> {
        let bytes = parser.scalar()?.bytes() as u8;
        loop {
            let name = parser.word()?.to_string();
            let first = self.registers.len() as u32;
            let ranged = parser.accept("<");
            let count = if ranged { parser.whole()? } else { 1 };
            if ranged {
                parser.expect(">")?;
            }
            if self.registers.len().saturating_add(count) > MAX_REGISTERS {
                return Err(parser.error("too many registers"));
            }
            self.registers.resize(self.registers.len() + count, bytes);
            if let Some(scope) = self.open.last_mut() {
                if ranged {
                    scope.ranges.insert(name, (first, count as u32));
                } else {
                    scope.single.insert(name, first);
                }
            }
            if !parser.accept(",") {
                return parser.expect(";");
            }
        }
    }
}
