//! The body of a kernel: registers by scope, labels, instructions.

use super::{Outer, Parser, declare};
use crate::decode::{decode, is_known};
use crate::fault::LoadError;
use crate::op::{Instruction, Op, Together};
use crate::operand::{Argument, Guard, Names, Origin, Special, Statement, number};
use crate::scalar::Space;
use std::collections::HashMap;

/// Registers a kernel may declare: each takes 256 bytes a warp.
const MAX_REGISTERS: usize = 1 << 17;

pub(super) struct Body {
    pub instructions: Vec<Instruction>,
    pub registers: Vec<u8>,
    pub shared_bytes: usize,
    pub local_bytes: usize,
    pub grain: usize,
}

/// Registers of one pair of braces: single ones, and ranges like `%r<9>`.
#[derive(Default)]
struct Scope {
    single: HashMap<String, u32>,
    ranges: HashMap<String, (u32, u32)>,
}

struct Registers {
    scopes: Vec<Scope>,
    bytes: Vec<u8>,
}

impl Registers {
    fn find(&self, name: &str) -> Option<u32> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (base, number) = name.split_at(name.len() - digits);
        self.scopes.iter().rev().find_map(|scope| {
            scope.single.get(name).copied().or_else(|| {
                let (first, count) = scope.ranges.get(base)?;
                let number: u32 = number.parse().ok()?;
                (number < *count).then_some(first + number)
            })
        })
    }

    fn declare(&mut self, parser: &mut Parser<'_>) -> Result<(), LoadError> {
        let bytes = parser.scalar()?.bytes() as u8;
        loop {
            let name = parser.word()?.to_string();
            let first = self.bytes.len() as u32;
            let count = if parser.accept("<") {
                let count = parser.whole()?;
                parser.expect(">")?;
                count
            } else {
                1
            };
            if self.bytes.len().saturating_add(count) > MAX_REGISTERS {
                return Err(parser.error("too many registers"));
            }
            let ranged = parser.tokens.get(parser.at - 1).is_some_and(|token| token.text == ">");
            self.bytes.resize(self.bytes.len() + count, bytes);
            if let Some(scope) = self.scopes.last_mut() {
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

/// From after the opening brace to the closing one.
pub(super) fn body(parser: &mut Parser<'_>, mut names: Names, outer: &Outer) -> Result<Body, LoadError> {
    let mut registers = Registers { scopes: vec![Scope::default()], bytes: Vec::new() };
    let (mut shared, mut local) = (0usize, 0usize);
    let put = |end: &mut usize, space, declared: &declare::Declared, names: &mut Names| {
        let start = end.next_multiple_of(declared.align);
        names.variables.insert(declared.name.clone(), (space, start as u64));
        *end = start.saturating_add(declared.bytes);
    };
    for declared in &outer.shared {
        put(&mut shared, Space::Shared, declared, &mut names);
    }
    let mut statements = Vec::new();
    while !registers.scopes.is_empty() {
        match parser.peek() {
            "" => return Err(parser.error("a body that does not end")),
            "{" => registers.scopes.push(Scope::default()),
            "}" => {
                registers.scopes.pop();
            }
            ".reg" => {
                parser.at += 1;
                registers.declare(parser)?;
                continue;
            }
            space @ (".shared" | ".local") => {
                parser.at += 1;
                let declared = declare::declared(parser)?;
                match space {
                    ".shared" => put(&mut shared, Space::Shared, &declared, &mut names),
                    _ => put(&mut local, Space::Local, &declared, &mut names),
                }
                parser.expect(";")?;
                continue;
            }
            ".pragma" => {
                parser.skip_past(";");
                continue;
            }
            ";" => {}
            _ if parser.tokens.get(parser.at + 1).is_some_and(|token| token.text == ":") => {
                let label = parser.word()?.to_string();
                if names.labels.insert(label, statements.len() as u32).is_some() {
                    return Err(parser.error("a label twice"));
                }
            }
            _ => {
                statements.push(statement(parser, &registers)?);
                continue;
            }
        }
        parser.at += 1;
    }
    for declared in &outer.dynamic {
        // All dynamic shared memory is the same memory.
        let mut end = shared.next_multiple_of(16);
        put(&mut end, Space::Shared, declared, &mut names);
    }
    if !outer.dynamic.is_empty() {
        shared = shared.next_multiple_of(16);
    }
    let (mut instructions, mut grain) = (Vec::with_capacity(statements.len()), 4);
    for statement in &statements {
        let text = || parser.lines.get(statement.line as usize - 1).map_or("", String::as_str);
        let op =
            decode(statement, &names).map_err(|message| LoadError::new(statement.line, message, text()))?;
        let scalar = match &op {
            Op::Load { scalar, .. } | Op::Store { scalar, .. } | Op::Atomic { scalar, .. } => Some(scalar),
            Op::Together { what: Together::TileLoad(tile) | Together::TileStore(tile), .. } => {
                Some(&tile.scalar)
            }
            _ => None,
        };
        grain = scalar.map_or(grain, |scalar| grain.min(scalar.bytes()));
        instructions.push(Instruction {
            op,
            guard: statement.guard,
            line: statement.line,
            source: statement.source,
        });
    }
    Ok(Body { instructions, registers: registers.bytes, shared_bytes: shared, local_bytes: local, grain })
}

/// One instruction up to its semicolon.
fn statement<'a>(parser: &mut Parser<'a>, registers: &Registers) -> Result<Statement<'a>, LoadError> {
    let mut guard = None;
    if parser.accept("@") {
        let negated = parser.accept("!");
        let name = parser.word()?;
        let register = registers
            .find(name)
            .ok_or_else(|| parser.error(format!("the predicate {name} is not declared")))?;
        guard = Some(Guard { register, negated });
    }
    let token = parser.next().ok_or_else(|| parser.error("an instruction expected"))?;
    if !token.text.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(parser.error(format!("`{}` is not modelled", token.text)));
    }
    if !is_known(token.text) {
        return Err(parser.error(format!("the instruction `{}` is not modelled", token.text)));
    }
    let mut operands = Vec::new();
    while !parser.accept(";") {
        operands.push(operand(parser, registers)?);
        if !parser.accept(",") && parser.peek() != ";" {
            parser.at += 1;
            return Err(parser.error("`,` or `;` expected"));
        }
    }
    Ok(Statement { guard, opcode: token.text, operands, line: token.line, source: token.source })
}

fn operand(parser: &mut Parser<'_>, registers: &Registers) -> Result<Argument, LoadError> {
    let word = parser.word()?;
    match word {
        "_" => return Ok(Argument::Sink),
        "{" => {
            let mut list = Vec::new();
            while !parser.accept("}") {
                list.push(operand(parser, registers)?);
                parser.accept(",");
            }
            return Ok(Argument::List(list));
        }
        "[" => {
            let base = operand(parser, registers)?;
            let plus = parser.accept("+");
            let minus = parser.accept("-");
            let offset = if plus || minus { parser.whole()? as i64 } else { 0 };
            parser.expect("]")?;
            return Ok(Argument::Address(Box::new(base), if minus { -offset } else { offset }));
        }
        "!" => {
            let name = parser.word()?;
            let register = registers.find(name);
            return register
                .map(Argument::Not)
                .ok_or_else(|| parser.error(format!("{name} is not declared")));
        }
        "-" => {
            let value = number(parser.word()?).ok_or_else(|| parser.error("a number expected"))?;
            return Ok(Argument::Origin(Origin::Immediate(value.wrapping_neg())));
        }
        _ => {}
    }
    let register = registers.find(word);
    if parser.accept("|") {
        let other = parser.word()?;
        let of = |name: &str| -> Result<Option<u32>, LoadError> {
            let found = registers.find(name);
            if found.is_none() && name != "_" {
                return Err(parser.error(format!("{name} is not declared")));
            }
            Ok(found)
        };
        return Ok(Argument::Pair(of(word)?, of(other)?));
    }
    if let Some(register) = register {
        return Ok(Argument::Origin(Origin::Register(register)));
    }
    if let Some(name) = word.strip_prefix('%') {
        let special = Special::parse(name);
        return special
            .map(|special| Argument::Origin(Origin::Special(special)))
            .ok_or_else(|| parser.error(format!("the register {word} is neither declared nor modelled")));
    }
    if word == "WARP_SZ" {
        return Ok(Argument::Origin(Origin::Immediate(32)));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let value = number(word).ok_or_else(|| parser.error(format!("the number {word} is not modelled")))?;
        return Ok(Argument::Origin(Origin::Immediate(value)));
    }
    if word.starts_with(|c: char| c.is_alphabetic() || "_$".contains(c)) {
        return Ok(Argument::Name(word.to_string()));
    }
    Err(parser.error("an operand expected"))
}
